package soloist_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
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

// Attempts that get no reply in time, or that the caller cuts off, say less than the one before them.
func TestReasonOutlivesTimeouts(t *testing.T) {
	why := errors.New("the disk is full")
	for what, claim := range map[string]func(context.Context, *soloist.Client) error{
		"one": func(ctx context.Context, c *soloist.Client) error { _, err := c.TryLock(ctx, "x"); return err },
		"a batch": func(ctx context.Context, c *soloist.Client) error {
			_, err := c.Elements("invoices", soloist.ElementsOptions{}).ClaimAll(ctx, []string{"1", "2"})
			return err
		},
	} {
		for _, cutOff := range []bool{false, true} {
			t.Run(fmt.Sprint(what, ", cut off: ", cutOff), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx, cancel := context.WithCancel(background)
					defer cancel()
					s := doubtful{Store: memstore.New()}
					var attempts atomic.Int64 // what may have been granted is looked for after the call, too
					s.acquired = func([]store.Claim, []store.Outcome) ([]store.Outcome, error) {
						switch n := attempts.Add(1); {
						case n == 2:
							return nil, store.AsUnknown(why)
						case n == 3 && cutOff:
							cancel()
							return nil, store.AsUnknown(context.Canceled)
						}
						return nil, store.AsUnknown(os.ErrDeadlineExceeded)
					}
					err := claim(ctx, soloisttest.NewReplica(t, s, soloist.Config{}))
					if attempts := attempts.Load(); attempts < 3 || !errors.Is(err, soloist.ErrUnknown) || !errors.Is(err, why) {
						t.Errorf("after %d attempts: %v, want %v", attempts, err, why)
					}
				})
			})
		}
	}
}

// A refusal whose reply was lost is told as a refusal, and at once: the store gives it again.
func TestLostRefusalIsARefusal(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		held := mustLock(t, b, "x")
		permit, err := b.Semaphore("x", 2).Acquire(background)
		must(t, err)
		_, err = b.Semaphore("x", 2).Acquire(background)
		must(t, err)
		must(t, b.Elements("invoices", soloist.ElementsOptions{}).Process(background, "done", ok))
		claimed, err := b.Elements("invoices", soloist.ElementsOptions{}).Claim(background, "claimed")
		must(t, err)
		var of *soloist.HeldError
		for what, test := range map[string]struct {
			claim func() error
			want  error
			token int64 // of the lease in the way
		}{
			"a lock":  {func() error { _, err := a.TryLock(background, "x"); return err }, soloist.ErrHeld, held.Token()},
			"permits": {func() error { _, err := a.Semaphore("x", 2).TryAcquire(background); return err }, soloist.ErrHeld, permit.Token()},
			"an element": {func() error {
				_, err := a.Elements("invoices", soloist.ElementsOptions{}).Claim(background, "claimed")
				return err
			}, soloist.ErrHeld, claimed.Token()},
			"one that is done": {func() error {
				_, err := a.Elements("invoices", soloist.ElementsOptions{}).Claim(background, "done")
				return err
			}, soloist.ErrDone, 0},
		} {
			s.LoseReplies(1)
			before := time.Now()
			err := test.claim()
			if !errors.Is(err, test.want) || errors.Is(err, soloist.ErrUnknown) || time.Since(before) > time.Second {
				t.Errorf("%s: %v, after %v", what, err, time.Since(before))
			}
			if test.token > 0 && (!errors.As(err, &of) || of.Token != test.token) {
				t.Errorf("%s: refused because of %+v, want token %d", what, of, test.token)
			}
			s.Heal()
		}
	})
}

// Part of a batch is unknown, and asked for again: what is refused then is told so, and what the store does not answer stays unknown, and is given back. The rest of the
// batch has its outcomes.
func TestPartOfABatchIsSettled(t *testing.T) {
	for name, test := range map[string]struct {
		answers bool // when asked again
		done, b error
	}{
		"answered":     {true, soloist.ErrDone, nil},
		"not answered": {false, soloist.ErrUnknown, soloist.ErrUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := memstore.New()
				must(t, soloisttest.NewReplica(t, mem.Share(), soloist.Config{}).Elements("x", soloist.ElementsOptions{}).Process(background, "done", ok))
				s := doubtful{Store: mem}
				var asked atomic.Int64
				s.acquired = func(claims []store.Claim, outs []store.Outcome) ([]store.Outcome, error) {
					switch asked.Add(1) {
					case 1:
						outs[1], outs[2] = store.Outcome{Err: errNoReply}, store.Outcome{Err: errNoReply}
					case 2:
						if !test.answers {
							return nil, errNoReply
						}
					}
					return outs, nil
				}
				c := soloisttest.NewReplica(t, s, soloist.Config{})
				claimed, err := c.Elements("x", soloist.ElementsOptions{}).ClaimAll(background, []string{"a", "done", "b"})
				must(t, err)
				for i, want := range []error{nil, test.done, test.b} {
					if !errors.Is(claimed[i].Err, want) {
						t.Errorf("%s: %v, want %v", claimed[i].ID, claimed[i].Err, want)
					}
				}
				must(t, claimed[0].Element.Release())
				time.Sleep(20 * time.Second)
				_, err = soloisttest.NewReplica(t, mem.Share(), soloist.Config{}).Elements("x", soloist.ElementsOptions{}).Claim(background, "b")
				if errors.Is(err, soloist.ErrHeld) != (test.b == nil) {
					t.Errorf("what was left unknown, within its TTL: %v", err)
				}
			})
		})
	}
}

// An outcome that stays unknown is asked for no longer than a lease could still be of use, nor than two requests may take.
func TestUnknownIsSettledWithinBounds(t *testing.T) {
	for _, test := range []struct{ ttl, margin, request, want time.Duration }{
		{time.Minute, 3 * time.Second, 5 * time.Second, 10 * time.Second},
		{4 * time.Second, time.Second, 5 * time.Second, 3 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := soloisttest.NewStore()
			c := soloisttest.NewReplica(t, s, soloist.Config{TTL: test.ttl, Margin: test.margin, RequestTimeout: test.request})
			s.LoseReplies(1 << 30)
			begin := time.Now()
			_, err := c.TryLock(background, "x")
			if took := time.Since(begin); !errors.Is(err, soloist.ErrUnknown) || took != test.want || strings.Contains(err.Error(), "%!") {
				t.Errorf("with %+v: %v, after %v", test, err, took)
			}
		})
	}
}

// A grant that comes too late to be used, be it just when its lease counts as lost, is given back; the error reports that, and whether it could not be given back.
func TestGrantThatComesTooLateIsGivenBack(t *testing.T) {
	why := errors.New("the disk is full")
	for after, fails := range map[time.Duration]bool{27 * time.Second: false, 28 * time.Second: true} {
		synctest.Test(t, func(t *testing.T) {
			s := doubtful{Store: memstore.New()}
			var late atomic.Bool
			s.acquired = func(_ []store.Claim, outs []store.Outcome) ([]store.Outcome, error) {
				if late.CompareAndSwap(false, true) {
					time.Sleep(after)
				}
				return outs, nil
			}
			s.released = func(_ []store.Release, errs []error) ([]error, error) {
				if fails {
					return nil, why
				}
				return errs, nil
			}
			c := soloisttest.NewReplica(t, s, soloist.Config{TTL: 30 * time.Second, RequestTimeout: time.Minute})
			_, err := c.TryLock(background, "x")
			if !errors.Is(err, soloist.ErrLost) || errors.Is(err, why) != fails || strings.Contains(err.Error(), "releasing") != fails {
				t.Errorf("after %v, and the release fails %t: %v", after, fails, err)
			}
			mustLock(t, soloisttest.NewReplica(t, s.Store.Share(), soloist.Config{}), "x")
		})
	}
}

// A call whose context has ended already is not made.
func TestCallWithAnEndedContextIsNotMade(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		ctx, cancel := context.WithCancel(background)
		cancel()
		before := s.Calls()
		if _, err := a.TryLock(ctx, "x"); !errors.Is(err, context.Canceled) || errors.Is(err, soloist.ErrUnknown) {
			t.Errorf("got: %v", err)
		}
		check(t, "requests", s.Calls()-before, 0)
	})
}

// A client without a store, or in a namespace that is none, is a mistake.
func TestMistakesWithClientsAreErrors(t *testing.T) {
	var invalid *soloist.InvalidError
	if c, err := soloist.New(nil, soloist.Config{}); c != nil || !errors.As(err, &invalid) {
		t.Errorf("without a store: %v", err)
	}
	if c, err := soloist.New(memstore.New(), soloist.Config{Namespace: "a/b"}); c != nil || !errors.As(err, &invalid) {
		t.Errorf("with a namespace that has a slash: %v", err)
	}
}

// Clients in different namespaces of one store have nothing in common, and those in one have all.
func TestNamespacesAreApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := soloisttest.NewStore()
		in := func(namespace string) *soloist.Client {
			return soloisttest.NewReplica(t, s.Share(), soloist.Config{Namespace: namespace})
		}
		mustLock(t, in("one"), "x")
		mustLock(t, in("two"), "x")
		mustLock(t, in(""), "x")
		if _, err := in("one").TryLock(background, "x"); !errors.Is(err, soloist.ErrHeld) {
			t.Errorf("in one namespace: %v", err)
		}
		if locks, err := collect(in("two").Admin().Locks(background)); err != nil || len(locks) != 1 {
			t.Errorf("locks of a namespace: %+v, %v", locks, err)
		}
	})
}
