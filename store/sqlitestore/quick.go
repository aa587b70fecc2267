package sqlitestore

import (
	"context"
	"fmt"
	"time"

	"github.com/soloist-dev/soloist/store"

	codes "modernc.org/sqlite/lib"
)

// A quickChange is one guarded statement and when what it gives ends. It changes a row, or it is not what is needed.
type quickChange func(now, wall int64) (until int64, query string, args []any)

// quick does a change of one record in one statement that is its own transaction. If it returns false, nothing has
// happened, and the long way must be gone. It is for the one that has the turn.
func (s *Store) quick(ctx context.Context, f *file, change quickChange) (bool, error) {
	if f.clock.now()-f.metaAt > int64(metaInterval) {
		return false, nil // it is time to look at meta
	}
	var until, n int64
	err := s.retry(ctx, func() (err error) {
		var query string
		var args []any
		until, query, args = change(f.clock.now(), f.clock.wall())
		n, err = f.write.exec(query, args...)
		return err
	})
	if err == nil && n == 0 {
		return false, nil
	}
	switch {
	case err == nil:
		err = f.committed()
	case !harmless(err):
		err = unclear(err)
	}
	s.given.Store(max(s.given.Load(), until))
	if !harmless(err) {
		f.broken.Store(true)
	}
	return true, s.at(err)
}

// commit commits. If it returns an error that is not store.ErrUnknown, the commit certainly did not happen.
func (f *file) commit() error {
	if _, err := f.write.exec(sqlCommit); err != nil {
		f.rollback()
		return unclear(err)
	}
	return f.committed()
}

// unclear is the error of a COMMIT: it may have happened all the same, unless the log ends before it was complete.
func unclear(err error) error {
	if code(err) == codes.SQLITE_FULL {
		return err
	}
	return store.AsUnknown(fmt.Errorf("committing: %w", err))
}

// committed looks whether others will see what has been committed.
func (f *file) committed() error {
	if err := f.here(); err != nil {
		return store.AsUnknown(fmt.Errorf("after committing: %w", err))
	}
	return nil
}

func (f *file) rollback() {
	if _, err := f.write.exec(sqlRollback); err != nil {
		f.broken.Store(true) // closing the connection rolls back
	}
}

// metaInterval is how often the file's times are looked at as a whole.
const metaInterval = time.Second
