-- No parameters. One row: the floor for the tokens of names without a record.
SELECT floor FROM meta
