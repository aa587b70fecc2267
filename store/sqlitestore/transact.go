package sqlitestore

import (
	"context"
	"errors"
	"time"
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

// write is transact for the one that has the turn.
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

// A step is a change that is looked at before it is made.
type step struct {
	look  func(*file, *conn) error // without a transaction
	more  func() bool              // there is something to change
	quick func() quickChange       // the change in one statement, or nil
	write func(*tx) error          // the change, decided again in a transaction
}

// take takes the step. It looks with the connection that writes if nobody uses it: that one still has in memory what it
// wrote last.
func (s *Store) take(ctx context.Context, p step) error {
	if !s.writing.try() {
		if err := s.view(ctx, p.look); err != nil || !p.more() {
			return err
		}
		return s.transact(ctx, p.write)
	}
	f, err := s.current(ctx, s.writing)
	if err != nil {
		return s.at(err)
	}
	if f == nil {
		return s.take(ctx, p) // it has been opened again
	}
	defer s.writing.give()
	if err := s.look(ctx, f, f.write, p.look); err != nil || !p.more() {
		return err
	}
	if change := p.quick(); change != nil {
		if done, err := s.quick(ctx, f, change); done {
			return err
		}
	}
	return s.write(ctx, f, p.write)
}

// decide runs do and ends the transaction one way or the other.
func (s *Store) decide(f *file, do func(*tx) error) error {
	t := &tx{conn: f.write, clock: f.clock, now: f.clock.now(), wall: f.clock.wall()}
	err := t.untouched()
	if err == nil {
		err = do(t)
	}
	if err == nil && t.changed && t.now-f.metaAt > int64(metaInterval) {
		f.metaAt = t.now
		err = t.keepMeta()
	}
	if err != nil || !t.changed {
		f.rollback()
		return err
	}
	s.given.Store(max(s.given.Load(), t.given))
	return f.commit()
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
