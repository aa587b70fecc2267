-- Leaves a line, after whoever is handing over to this place or is asking for it.
-- $1 name of the row, $2 holder. A row if there was a place.
DELETE FROM {{line}} WHERE name = $1::text AND holder = $2::text RETURNING 1::bigint
