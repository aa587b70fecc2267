-- Takes over a table made with the statements that ShedLock documents. Its rows stay.
ALTER TABLE {{table}}
  ALTER COLUMN name TYPE text{{collate}},
  ALTER COLUMN lock_until TYPE timestamp(6),
  ALTER COLUMN locked_at TYPE timestamp(6),
  ALTER COLUMN locked_by TYPE text,
  ADD COLUMN IF NOT EXISTS holder text NOT NULL DEFAULT '',
  ADD COLUMN IF NOT EXISTS released boolean NOT NULL DEFAULT false,
  ADD COLUMN IF NOT EXISTS token bigint NOT NULL DEFAULT 0,
  ADD COLUMN IF NOT EXISTS mark bigint NOT NULL DEFAULT 0,
  ADD COLUMN IF NOT EXISTS state bytea,
  ADD COLUMN IF NOT EXISTS retain_until timestamp(6),
  ADD COLUMN IF NOT EXISTS record text;
