-- Who waits for a name. Each request of a holder who waits is a row, so that none of them locks what a release looks at. It is not
-- logged: after a crash or a failover all who wait ask again.
CREATE UNLOGGED TABLE {{line}} (
  name   text{{collate}} NOT NULL,
  holder text NOT NULL,
  asked  bigint NOT NULL,       -- when, in µs since 1970
  since  bigint NOT NULL,       -- when the holder has asked first: its place
  ttl    bigint NOT NULL,       -- of the claim, in µs
  inbox  bigint NOT NULL,       -- of the process that waits: it listens to this channel, and holds this advisory lock while it lives
  told   timestamp(6) NOT NULL, -- the end of the lease in the way, as the holder was told
  until  timestamp(6) NOT NULL, -- who has not asked again by then does not wait any more
  PRIMARY KEY (name, holder, asked)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX ON {{line}} (name, since, holder, asked DESC);
