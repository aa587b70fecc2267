-- No parameters. One row: µs by which the latest grant, or else the floor, is ahead of the server's clock, and how many floors there are.
SELECT greatest(
    (SELECT (extract(epoch FROM least(greatest(max(s.locked_at), {{first}}), {{last}}) - clock_timestamp() AT TIME ZONE 'UTC') * 1000000)::bigint FROM {{table}} AS s),
    (SELECT max(f.floor) - (extract(epoch FROM clock_timestamp()) * 1000000)::bigint FROM {{floor}} AS f)),
  (SELECT count(*) FROM {{floor}})
