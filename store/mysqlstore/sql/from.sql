-- A fragment: the rows of the names of many.
{batch} AS c STRAIGHT_JOIN {records} AS r FORCE INDEX (PRIMARY) ON r.name = c.row_name
