package soloist_test

import (
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

// The deadline is counted from before the request: a slow reply does not prolong it.
func TestDeadlineIsCountedFromBeforeTheRequest(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		s.Slow(4 * time.Second)
		l := mustLock(t, a, "x")
		if left := l.Left(); left > 23*time.Second+time.Millisecond {
			t.Fatalf("after a reply that took 4 s, a lease of 30 s with a margin of 3 s has %v left", left)
		}
	})
}

func TestLostReplyIsSettledByAskingAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		s.LoseReplies(2)
		l := mustLock(t, a, "x")
		if err := l.Check(background); err != nil {
			t.Fatal(err)
		}
		s.LoseReplies(2)
		if err := l.Release(); err != nil {
			t.Fatalf("a release whose replies were lost: %v", err)
		}
		mustLock(t, b, "x")
	})
}

func TestDefiniteErrorIsReturnedAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		refused := errors.New("refused")
		s.Break(refused)
		start := time.Now()
		_, err := a.TryLock(background, "x")
		if !errors.Is(err, refused) || errors.Is(err, soloist.ErrUnknown) || time.Since(start) > 0 {
			t.Fatalf("after %v: %v", time.Since(start), err)
		}
	})
}

// What may have been granted is unknown, and not refused, although the store refuses when it is asked again; and it is given back.
func TestUnknownIsNotToldAsARefusal(t *testing.T) {
	for what, claim := range map[string]func(*soloist.Client) error{
		"one": func(c *soloist.Client) error { _, err := c.TryLock(background, "x"); return err },
		"a batch": func(c *soloist.Client) error {
			_, err := c.Elements("invoices", soloist.ElementsOptions{}).ClaimAll(background, []string{"1", "2"})
			return err
		},
		"any of several": func(c *soloist.Client) error { _, err := c.Semaphore("x", 2).TryAcquire(background); return err },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := soloisttest.NewStore()
				c := soloisttest.NewReplica(t, s, soloist.Config{})
				s.LoseReplies(1)
				time.AfterFunc(time.Nanosecond, func() { s.Heal(); s.Break(nil) })
				if err := claim(c); !errors.Is(err, soloist.ErrUnknown) {
					t.Errorf("got: %v", err)
				}
				s.Heal()
				time.Sleep(8 * time.Second)
				for r, err := range s.List(background, "") {
					if err != nil || !r.Free() {
						t.Errorf("%+v, %v", r, err)
					}
				}
			})
		})
	}
}

// Attempts that get no reply in time say less than the one before them.
func TestReasonOutlivesTimeouts(t *testing.T) {
	why := errors.New("the disk is full")
	for what, claim := range map[string]func(*soloist.Client) error{
		"one": func(c *soloist.Client) error { _, err := c.TryLock(background, "x"); return err },
		"a batch": func(c *soloist.Client) error {
			_, err := c.Elements("invoices", soloist.ElementsOptions{}).ClaimAll(background, []string{"1", "2"})
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := doubtful{Store: memstore.New()}
				var attempts atomic.Int64 // what may have been granted is looked for after the call, too
				s.acquired = func([]store.Claim, []store.Outcome) ([]store.Outcome, error) {
					if attempts.Add(1) == 2 {
						return nil, store.AsUnknown(why)
					}
					return nil, store.AsUnknown(os.ErrDeadlineExceeded)
				}
				err := claim(soloisttest.NewReplica(t, s, soloist.Config{}))
				if attempts := attempts.Load(); attempts < 3 || !errors.Is(err, soloist.ErrUnknown) || !errors.Is(err, why) {
					t.Errorf("after %d attempts: %v, want %v", attempts, err, why)
				}
			})
		})
	}
}
