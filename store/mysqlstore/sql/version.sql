-- No parameters. One row: the version of the tables, the floor for the tokens of names without a record.
SELECT version, floor FROM {meta} WHERE one = 1
