package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/soloist-dev/soloist/store"

	"github.com/jackc/pgx/v5"
)

// fit makes sure, before this handle first changes something, that the tables are of this version, for the statements of this one could harm the
// records of another; and that a table which ShedLock uses is shared with it, for with other names of records nothing would exclude anything.
func (s *Store) fit(ctx context.Context) error {
	if s.fits.Load() {
		return nil
	}
	type state struct {
		version     int
		shared, own bool
	}
	sql, args := s.sql.fit, []any{s.tables.records, s.tables.cfg.Table + "_fence"}
	scan := func(rows pgx.Rows) (found state, err error) {
		return found, rows.Scan(&found.version, &found.shared, &found.own)
	}
	if s.tables.cfg.Dialect == CockroachDB { // where no trigger is made
		sql, args = s.sql.meta, nil
		scan = func(rows pgx.Rows) (found state, err error) { return found, rows.Scan(&found.version) }
	}
	found, err := look(ctx, s, sql, args, scan)
	switch {
	case errors.Is(err, store.ErrSchema) && s.prepared(ctx):
		return s.explain(fmt.Errorf("%w: there is a table that is shared with ShedLock: "+sharing, store.ErrSchema), false)
	case err != nil:
		return err
	case len(found) != 1:
		err = fmt.Errorf("%w: %s does not say of which: run soloist migrate up", store.ErrSchema, s.tables.meta)
	case found[0].version > schemaVersion:
		err = fmt.Errorf("%w: they are of version %d, and this program knows %d: use a newer one", store.ErrSchema, found[0].version, schemaVersion)
	case found[0].version < schemaVersion:
		err = fmt.Errorf("%w: they are of version %d, and this program needs %d: run soloist migrate up", store.ErrSchema, found[0].version, schemaVersion)
	case found[0].shared && !s.tables.cfg.ShedLock:
		err = fmt.Errorf("%w: %s is shared with ShedLock: "+sharing, store.ErrSchema, s.tables.records)
	case found[0].own && s.tables.cfg.ShedLock:
		err = fmt.Errorf("%w: %s is soloist's own, and not shared with ShedLock: "+unsharing, store.ErrSchema, s.tables.records)
	default:
		s.fits.Store(true)
		return nil
	}
	return s.explain(err, false)
}

// sharing is what to do about a table that is shared with ShedLock.
const sharing = "put shedlock=true into the URL of each replica (Config.ShedLock), or name a table of soloist's own (table=NAME)"

// unsharing is what to do about a table that soloist uses alone.
const unsharing = "take shedlock=true out of the URL of each replica (Config.ShedLock), or name ShedLock's table (table=NAME)"

// prepared reports that there is a table which has been made to be shared with ShedLock, where no table was named and the default one is not
// there: to make that would exclude none of those who share the other.
func (s *Store) prepared(ctx context.Context) bool {
	if !s.byDefault || s.tables.cfg.ShedLock {
		return false
	}
	found, err := look(ctx, s, "SELECT to_regclass($1::text) IS NULL AND to_regclass($2::text) IS NOT NULL",
		[]any{s.tables.meta, s.tables.quoted(shedLockTable + "_meta")}, func(rows pgx.Rows) (is bool, err error) { return is, rows.Scan(&is) })
	return err == nil && len(found) == 1 && found[0]
}
