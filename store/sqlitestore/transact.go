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
	clock   *clock
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
	return s.write(ctx, f, do)
}

// write is transact for whoever has the turn.
func (s *Store) write(ctx context.Context, f *file, do func(*tx) error) error {
	err := s.retry(ctx, func() error { _, err := f.write.exec(sqlBegin); return err })
	if err == nil {
		err = s.decide(f, do)
	}
	if !harmless(err) {
		f.broken.Store(true)
	}
	return s.at(err)
}

// lookFirst calls look without a transaction, and then, if more says so, do in one. It looks with the connection that
// writes if nobody uses it: that one still has in memory what it wrote last.
func (s *Store) lookFirst(ctx context.Context, look func(*file, *conn) error, more func() bool, do func(*tx) error) error {
	if s.writing.try() {
		f, err := s.current(ctx, s.writing)
		if err != nil {
			return s.at(err)
		}
		if f != nil {
			defer s.writing.give()
			if err := s.look(ctx, f, f.write, look); err != nil || !more() {
				return err
			}
			return s.write(ctx, f, do)
		}
	}
	if err := s.view(ctx, look); err != nil || !more() {
		return err
	}
	return s.transact(ctx, do)
}

// decide runs do and ends the transaction one way or the other.
func (s *Store) decide(f *file, do func(*tx) error) error {
	t := &tx{conn: f.write, clock: f.clock, now: f.clock.now(), wall: f.clock.wall()}
	err := do(t)
	if err == nil && t.changed && t.now-f.metaAt > int64(time.Second) {
		f.metaAt = t.now
		err = t.keepMeta()
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
	if err := f.here(); err != nil {
		return store.AsUnknown(fmt.Errorf("after committing: %w", err)) // others may never see what was committed
	}
	return nil
}

var errOtherHost = errors.New("the file is in use by another host, or was restored while in use: " +
	"its times are of another boot; let the processes of one host use it")

// keepMeta looks, now and then and along with another change, whether the file's times are still of this boot, and
// notes how the wall clock stands to them, for the next.
func (t *tx) keepMeta() error {
	m, err := t.meta()
	switch {
	case err != nil:
		return err
	case m.boot != t.clock.boot:
		return errOtherHost
	}
	offset := t.clock.offset()
	if time.Duration(offset-m.wall).Abs() > time.Second {
		_, err = t.exec(sqlMetaWall, offset)
	}
	return err
}
