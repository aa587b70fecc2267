-- No parameters. One row: the floor, locked until the transaction ends.
SELECT floor FROM {meta} WHERE one = 1 FOR UPDATE
