-- No parameters. One row, of one instant: application_id, user_version, how many tables and the like there are.
SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema)
FROM pragma_application_id, pragma_user_version
