-- Leaves a line, after the one that is handing over to this place.
-- $1 name of the row, $2 holder. Rows if there was a place.
DELETE FROM {{line}} WHERE name = $1::text AND holder = $2::text RETURNING 1::bigint
