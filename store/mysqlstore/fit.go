package mysqlstore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/soloist-dev/soloist/store"
)

// fit makes sure, before this handle first writes, that the tables are of this version and kept by an engine with transactions.
func (s *Store) fit(ctx context.Context, conn *sql.Conn) error {
	s.mu.Lock()
	fits := s.fits
	s.mu.Unlock()
	if fits {
		return nil
	}
	var version sql.NullInt64
	var others sql.NullString
	err := conn.QueryRowContext(ctx, s.aboutTables(sqlFit)).Scan(&version, &others)
	switch {
	case err != nil:
		return err
	case others.Valid:
		return also{fmt.Errorf("%w: %s, which has no transactions: run soloist migrate up, and ALTER TABLE … ENGINE = InnoDB", store.ErrSchema, others.String), store.ErrSchema}
	case version.Int64 > schemaVersion:
		return also{fmt.Errorf("%w: they are of version %d, and this soloist knows %d: use a newer one", store.ErrSchema, version.Int64, schemaVersion), store.ErrSchema}
	case version.Int64 < schemaVersion:
		return also{fmt.Errorf("%w: they are of version %d, not %d: run soloist migrate up", store.ErrSchema, version.Int64, schemaVersion), store.ErrSchema}
	}
	s.mu.Lock()
	s.fits = true
	s.mu.Unlock()
	return nil
}
