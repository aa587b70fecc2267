package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/soloist-dev/soloist/store"

	codes "modernc.org/sqlite/lib"
)

// A tx is a transaction that holds the file's write lock.
type tx struct {
	*conn
	meta    meta
	now     int64 // on the file's clock, read with the lock held
	wall    int64 // nanoseconds of the wall clock
	changed bool  // there is something to commit
	given   int64 // when the last lease or linger given in it ends
}

// transact runs do in a transaction. Its error is that of every element: nothing has happened, unless it is ErrUnknown.
func (s *Store) transact(ctx context.Context, do func(*tx) error) error {
	f, err := s.enter(ctx, s.writing)
	if err != nil {
		return s.at(err)
	}
	defer s.writing.give()
	err = s.retry(ctx, func() error { _, err := f.write.exec(sqlBegin); return err })
	if err == nil {
		err = s.decide(f, do)
	}
	if !harmless(err) {
		f.broken.Store(true)
	}
	return s.at(err)
}

// decide runs do and ends the transaction one way or the other.
func (s *Store) decide(f *file, do func(*tx) error) error {
	t, err := f.transaction()
	if err == nil {
		err = do(t)
	}
	if err == nil && t.changed {
		err = t.keepWall(f.clock)
	}
	if err != nil || !t.changed {
		if _, failed := f.write.exec(sqlRollback); failed != nil {
			f.broken.Store(true) // closing the connection rolls back
		}
		return err
	}
	s.given.Store(max(s.given.Load(), t.given))
	return commit(f)
}

func commit(f *file) error {
	if _, err := f.write.exec(sqlCommit); err != nil {
		if _, failed := f.write.exec(sqlRollback); failed != nil {
			f.broken.Store(true)
		}
		if code(err) == codes.SQLITE_FULL {
			return err // the log ends before the commit was complete
		}
		return store.AsUnknown(fmt.Errorf("committing: %w", err))
	}
	if err := f.check(); err != nil {
		return store.AsUnknown(fmt.Errorf("after committing: %w", err)) // others may never see what was committed
	}
	return nil
}

var errOtherHost = errors.New("the file is in use by another host, or was restored while in use: " +
	"its times are of another boot; let the processes of one host use it")

func (f *file) transaction() (*tx, error) {
	m, err := f.write.meta()
	if err == nil && m.boot != f.clock.boot {
		err = errOtherHost
	}
	return &tx{conn: f.write, meta: m, now: f.clock.now(), wall: f.clock.wall()}, err
}

// keepWall notes, along with another change, how the wall clock stands to the file's clock, for the next boot.
func (t *tx) keepWall(c *clock) error {
	if c.kind == wallClock {
		return nil
	}
	offset := c.offset()
	if time.Duration(offset-t.meta.wall).Abs() < time.Second {
		return nil
	}
	_, err := t.exec(sqlMetaWall, offset)
	return err
}
