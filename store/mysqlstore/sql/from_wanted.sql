-- A fragment: the rows of the names that are wanted of many.
{wanted} AS c STRAIGHT_JOIN {records} AS r FORCE INDEX (PRIMARY) ON r.name = c.row_name
