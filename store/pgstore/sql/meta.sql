-- No parameters. One row: the version of the schema.
SELECT version FROM {{meta}}
