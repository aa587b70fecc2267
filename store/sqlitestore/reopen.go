package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// reopen puts an open file in the place of old, which is not, or no more, what lies at the path.
func (s *Store) reopen(ctx context.Context, old *file) error {
	if err := s.writing.take(ctx); err != nil {
		return err
	}
	defer s.writing.give()
	if err := s.reading.take(ctx); err != nil {
		return err
	}
	defer s.reading.give()
	if err := s.alive(ctx); err != nil {
		return err
	}
	if s.file != old {
		return nil // another call has done it
	}
	if old != nil {
		if err := s.leave(ctx, old); err != nil {
			return err
		}
	}
	if err := s.mayOpen(); err != nil {
		return err
	}
	f, err := s.openFile(ctx)
	if err != nil {
		return err
	}
	if s.holdClock != nil && s.holdClock.kind != f.clock.kind {
		s.given.Store(0) // it cannot be compared with what is given from now on
	}
	s.file, s.missing, s.hold = f, false, 0
	return nil
}

// leave closes a file that can no longer be used, after taking from it what must outlive it. One that is no more at its path stays open while leases
// in it may live: so it is known again when it is put back, and no other is taken for it.
func (s *Store) leave(ctx context.Context, old *file) error {
	why := old.here()
	if errors.Is(why, errSidecar) {
		if err := old.rescue(); err != nil && harmless(err) {
			return fmt.Errorf("%w: %w", why, err) // later it may go better
		}
	}
	s.hold, s.holdClock = max(s.hold, s.given.Load()), old.clock
	if errors.Is(why, errGone) || errors.Is(why, errReplaced) {
		// The file lives on for those who have it open, so it can still say what all processes hold.
		var until, token int64
		err := s.retry(ctx, func() (err error) {
			until, token, err = old.last()
			return err
		})
		switch {
		case err == nil:
			s.hold = until
			s.floor.Store(max(s.floor.Load(), token))
		case harmless(err):
			return fmt.Errorf("%w: %w", why, err) // later it may go better
		}
		if left := s.held(); left > 0 {
			s.missing = errors.Is(why, errGone)
			return notYet(why, left)
		}
	}
	s.left.forget()
	s.before = old.ids[0]
	s.left, s.file = old.close(), nil
	return nil
}

// notYet adds to why no other file is used what to do about it, and how long it is at most.
func notYet(why error, left time.Duration) error {
	if left = left.Round(time.Millisecond); errors.Is(why, errGone) {
		return fmt.Errorf("%w: put it back; if it stays away a new one is made in %v, when the last lease in it has run out", why, left)
	}
	return fmt.Errorf("%w: put the old one back, or stop every process that uses it; if it stays so the new one is used in %v, "+
		"when the last lease in the old one has run out", why, left)
}

// held is how long the leases in a file that is gone may live.
func (s *Store) held() time.Duration {
	if s.holdClock == nil {
		return 0
	}
	return max(0, time.Duration(s.hold-s.holdClock.now()))
}

// mayOpen refuses to make or to use another file while leases of the one that was open may live.
func (s *Store) mayOpen() error {
	info, err := look(s.path)
	if err != nil {
		return err
	}
	left := s.held()
	if info != nil {
		if left > 0 && !os.SameFile(info, s.before) {
			return notYet(errReplaced, left)
		}
		return nil
	}
	if s.missing && left == 0 {
		return nil
	}
	s.missing = true
	return notYet(errGone, left)
}

// rescue brings what is in the deleted log into the file before the log is closed forever. If there is something in another log at
// its path, other processes write there already, and to bring this one in would damage the file. An empty one is that of a process which waits
// until this one has closed the file.
func (f *file) rescue() error {
	if info, err := look(f.places[1]); err != nil || info != nil && info.Size() > 0 {
		return err
	}
	var locked, pages, done int
	if err := f.write.sql.QueryRowContext(background, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&locked, &pages, &done); err != nil {
		return err
	}
	if locked != 0 {
		return errBusy
	}
	return nil
}
