-- No parameters. One row: the floor: each token that is given is above it.
SELECT floor FROM meta
