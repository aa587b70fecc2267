package sqlitestore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/soloist-dev/soloist/store"
)

const (
	patience   = 10 * time.Second       // the longest wait for the file's lock, which is held for milliseconds
	firstPause = 100 * time.Microsecond // before asking for the file's lock again
	longPause  = 5 * time.Millisecond
)

// A turn is a mutex that can be waited for with a context.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

// try takes the turn if nobody has it.
func (t turn) try() bool {
	select {
	case t <- struct{}{}:
		return true
	default:
		return false
	}
}

func (t turn) take(ctx context.Context) error {
	if t.try() {
		return nil
	}
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t turn) give() { <-t }

// retry repeats step while another process has the file locked, until ctx or the store ends or patience runs out.
// SQLite's own busy timeout would not heed ctx, so it is off.
func (s *Store) retry(ctx context.Context, step func() error) error {
	err := s.insist(ctx, busy, step)
	if busy(err) {
		return fmt.Errorf("%w for %v: see who uses it, such as a backup or a shell with an open transaction", errBusy, s.patience)
	}
	return err
}

// insist repeats step while its error is one that may pass, until ctx or the store ends or patience runs out.
func (s *Store) insist(ctx context.Context, passing func(error) bool, step func() error) error {
	err := step()
	if !passing(err) {
		return err
	}
	start := time.Now()
	for pause := firstPause; passing(err) && time.Since(start) <= s.patience; pause = min(2*pause, longPause) {
		select {
		case <-time.After(pause/2 + rand.N(pause)):
		case <-ctx.Done():
			return ctx.Err()
		case <-s.ctx.Done():
			return store.ErrClosed
		}
		err = step()
	}
	return err
}
