-- A fragment: the table of a single row.
{records} AS r FORCE INDEX (PRIMARY)
