package mysqlstore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/soloist-dev/soloist/store"
)

// fit makes sure, before this handle first writes, that the tables are of this version and kept by an engine with transactions; and that a table
// which ShedLock uses is shared with it, for with other names of records nothing would exclude anything.
func (s *Store) fit(ctx context.Context, conn *sql.Conn) error {
	s.mu.Lock()
	fits := s.fits
	s.mu.Unlock()
	if fits {
		return nil
	}
	var version sql.NullInt64
	var others sql.NullString
	var shared bool
	err := conn.QueryRowContext(ctx, s.aboutTables(sqlFit)).Scan(&version, &others, &shared)
	switch {
	case code(err) == errNoTable && s.prepared(ctx, conn):
		return fmt.Errorf("%w: there is a table that is shared with ShedLock: "+sharing, store.ErrSchema)
	case err != nil:
		return err
	case others.Valid:
		return also{fmt.Errorf("%w: %s, which has no transactions: run soloist migrate up, and ALTER TABLE … ENGINE = InnoDB", store.ErrSchema, others.String), store.ErrSchema}
	case version.Int64 > schemaVersion:
		return also{fmt.Errorf("%w: they are of version %d, and this soloist knows %d: use a newer one", store.ErrSchema, version.Int64, schemaVersion), store.ErrSchema}
	case version.Int64 < schemaVersion:
		return also{fmt.Errorf("%w: they are of version %d, not %d: run soloist migrate up", store.ErrSchema, version.Int64, schemaVersion), store.ErrSchema}
	}
	switch {
	case shared && !s.cfg.ShedLock:
		return fmt.Errorf("%w: %s is shared with ShedLock: "+sharing, store.ErrSchema, s.cfg.Table)
	case !shared && s.cfg.ShedLock:
		return fmt.Errorf("%w: %s is not shared with ShedLock: run soloist migrate up --shedlock if it is ShedLock's; if it is soloist's, "+unsharing, store.ErrSchema, s.cfg.Table)
	}
	s.mu.Lock()
	s.fits = true
	s.mu.Unlock()
	return nil
}

// sharing is what to do about a table that is shared with ShedLock.
const sharing = "put shedlock=true into the URL of each replica (Config.ShedLock), or name a table of soloist's own (table=NAME)"

// unsharing is what to do about a table that soloist uses alone.
const unsharing = "take shedlock=true out of the URL of each replica (Config.ShedLock), or name ShedLock's table (table=NAME)"

// prepared reports that there is a table which has been made to be shared with ShedLock, where no table was named and the default one is not
// there: to make that would exclude none of those who share the other.
func (s *Store) prepared(ctx context.Context, conn *sql.Conn) bool {
	if !s.byDefault || s.cfg.ShedLock {
		return false
	}
	own, err := pairs(ctx, conn, s.aboutTables(sqlTables))
	if err != nil || own[s.cfg.Table] != "" {
		return false
	}
	shared := &Store{cfg: Config{Schema: s.cfg.Schema, Table: shedLockTable}}
	theirs, err := pairs(ctx, conn, shared.aboutTables(sqlTables))
	return err == nil && theirs[shedLockTable+"_meta"] != ""
}
