-- Who waits for a name, one row for each. It is not logged: after a crash or a failover all who wait ask again.
CREATE UNLOGGED TABLE {{line}} (
  name   text{{collate}} NOT NULL,
  holder text NOT NULL,
  place  bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
  ttl    bigint NOT NULL,       -- of the claim, in µs
  inbox  bigint NOT NULL,       -- of the process that waits: it listens to this channel, and holds this advisory lock while it lives
  asked  bigint NOT NULL,       -- when it has asked last, in µs since 1970
  told   timestamp(6) NOT NULL, -- the end of the lease in the way that it was told then
  until  timestamp(6) NOT NULL, -- a place that nobody has asked for again by then is none
  PRIMARY KEY (name, holder)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX ON {{line}} (name, place);
