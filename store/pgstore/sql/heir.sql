-- Whether a holder that has left a line has been handed the name.
-- $1 name of the row, $2 holder. One row: 1 if it has it.
SELECT count(*) FROM {{table}} WHERE name = $1::text AND holder = $2::text AND NOT released
