package soloist_test

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"math"
	"slices"
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

// A liar is a store that is wrong in some of what it answers.
type liar struct {
	*memstore.Store
	outs   func([]store.Outcome) []store.Outcome
	errs   func([]error) []error
	chosen func(int, store.Outcome) (int, store.Outcome)
	queued func(store.Outcome, time.Duration) (store.Outcome, time.Duration)
	listed func([]store.Record) []store.Record
	asked  atomic.Int64
}

func (l *liar) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	l.asked.Add(1)
	outs, err := l.Store.Acquire(ctx, claims)
	if l.outs != nil && err == nil {
		outs = l.outs(outs)
	}
	return outs, err
}

func (l *liar) Extend(ctx context.Context, extensions []store.Extension) ([]error, error) {
	errs, err := l.Store.Extend(ctx, extensions)
	if l.errs != nil && err == nil {
		errs = l.errs(errs)
	}
	return errs, err
}

func (l *liar) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	errs, err := l.Store.Release(ctx, releases)
	if l.errs != nil && err == nil {
		errs = l.errs(errs)
	}
	return errs, err
}

func (l *liar) Choose(ctx context.Context, names []string, c store.Claim) (int, store.Grant, error) {
	i, grant, err := l.Store.Choose(ctx, names, c)
	if l.chosen != nil && err == nil {
		var out store.Outcome
		i, out = l.chosen(i, store.Outcome{Grant: grant})
		return i, out.Grant, out.Err
	}
	return i, grant, err
}

func (l *liar) Queue(ctx context.Context, c store.Claim) (store.Grant, time.Duration, error) {
	l.asked.Add(1)
	if l.queued == nil {
		return l.Store.Queue(ctx, c)
	}
	out, after := l.queued(store.Outcome{}, 0)
	return out.Grant, after, out.Err
}

func (l *liar) List(ctx context.Context, prefix string) iter.Seq2[store.Record, error] {
	if l.listed == nil {
		return l.Store.List(ctx, prefix)
	}
	return func(yield func(store.Record, error) bool) {
		var all []store.Record
		for r := range l.Store.List(ctx, prefix) {
			all = append(all, r)
		}
		for _, r := range l.listed(all) {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// lie runs test with a client on a store that lies, in a bubble.
func lie(t *testing.T, l *liar, test func(t *testing.T, c *soloist.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l.Store = memstore.New()
		c, err := soloist.New(l, soloist.Config{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		test(t, c)
		_ = c.Close()
	})
}

// breach checks that an error says which store has broken its contract, and that the outcome is unknown.
func breach(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, soloist.ErrUnknown) || !strings.Contains(err.Error(), "*soloist_test.liar breaks its contract") {
		t.Errorf("%s: %v", what, err)
	}
}

func each(change func(*store.Outcome)) func([]store.Outcome) []store.Outcome {
	return func(outs []store.Outcome) []store.Outcome {
		for i := range outs {
			change(&outs[i])
		}
		return outs
	}
}

// granted changes what a claim is granted.
func granted(change func(*store.Grant)) func([]store.Outcome) []store.Outcome {
	return each(func(o *store.Outcome) {
		if o.Err == nil {
			change(&o.Grant)
		}
	})
}

// A store that is wrong ends no program, and makes no lease that nobody granted: the error names it.
func TestStoreThatBreaksItsContract(t *testing.T) {
	for what, outs := range map[string]func([]store.Outcome) []store.Outcome{
		"no outcomes":        func([]store.Outcome) []store.Outcome { return nil },
		"too many outcomes":  func(outs []store.Outcome) []store.Outcome { return append(outs, store.Outcome{}) },
		"token 0":            granted(func(g *store.Grant) { g.Token = 0 }),
		"a negative token":   granted(func(g *store.Grant) { g.Token = -1 }),
		"a negative mark":    granted(func(g *store.Grant) { g.Mark = -1 }),
		"abandoned too late": granted(func(g *store.Grant) { g.ExpiredAge = -time.Second }),
		"too much state":     granted(func(g *store.Grant) { g.State = make([]byte, store.MaxState+1) }),
		"held by nil":        each(func(o *store.Outcome) { o.Err = (*store.HeldError)(nil) }),
		"done by nil":        each(func(o *store.Outcome) { o.Err = (*store.DoneError)(nil) }),
		"held for less than nothing": each(func(o *store.Outcome) {
			o.Err = &store.HeldError{Record: store.Record{Token: 1, Left: -time.Second}}
		}),
		"done without a mark": each(func(o *store.Outcome) { o.Err = &store.DoneError{} }),
		"held by a token below 0": each(func(o *store.Outcome) {
			o.Err = &store.HeldError{Record: store.Record{Token: -1}}
		}),
		"held with a mark below 0": each(func(o *store.Outcome) {
			o.Err = &store.HeldError{Record: store.Record{Token: 1, Mark: -1}}
		}),
		"held with too much state": each(func(o *store.Outcome) {
			o.Err = &store.HeldError{Record: store.Record{Token: 1, State: make([]byte, store.MaxState+1)}}
		}),
	} {
		lie(t, &liar{outs: outs}, func(t *testing.T, c *soloist.Client) {
			l, err := c.TryLock(background, "x")
			if breach(t, what, err); l != nil {
				t.Errorf("%s: there is a lease with token %d", what, l.Token())
			}
			_, err = c.Elements("j", soloist.ElementsOptions{}).ClaimAll(background, []string{"1", "2"})
			if err == nil && !strings.Contains(what, "nil") && !strings.Contains(what, "token") && strings.Contains(what, "outcomes") {
				t.Errorf("%s: a batch: %v", what, err)
			}
		})
	}
	for what, errs := range map[string]func([]error) []error{
		"no errors":       func([]error) []error { return nil },
		"too many errors": func(errs []error) []error { return append(errs, nil) },
	} {
		lie(t, &liar{errs: errs}, func(t *testing.T, c *soloist.Client) {
			l := mustLock(t, c, "x")
			breach(t, what, l.Extend(background, time.Minute))
			if err := l.Release(); !errors.Is(err, soloist.ErrUnknown) {
				t.Errorf("%s: released: %v", what, err)
			}
		})
	}
	for what, i := range map[string]int{"the index -1": -1, "an index too large": 99, "the index behind the last": 3} {
		lie(t, &liar{chosen: func(int, store.Outcome) (int, store.Outcome) { return i, store.Outcome{Grant: store.Grant{Token: 5}} }}, func(t *testing.T, c *soloist.Client) {
			_, err := c.Semaphore("s", 3).TryAcquire(background)
			breach(t, what, err)
		})
	}
	for what, listed := range map[string]func([]store.Record) []store.Record{
		"a list out of order": func(all []store.Record) []store.Record { return append(all[1:], all[0]) },
		"a name twice":        func(all []store.Record) []store.Record { return append(all, all[len(all)-1]) },
		"a foreign name":      func(all []store.Record) []store.Record { return append(all, store.Record{Name: "zzz", Left: 1}) },
		"a negative age":      func(all []store.Record) []store.Record { all[0].Age = -1; return all },
	} {
		lie(t, &liar{listed: listed}, func(t *testing.T, c *soloist.Client) {
			mustLock(t, c, "x")
			mustLock(t, c, "y")
			_, err := collect(c.Admin().Locks(background))
			breach(t, what, err)
		})
	}
}

// A store whose line refuses at once, or grants what began long ago, is not asked in a tight loop; and a lease that is said to begin in the
// future begins when it was told.
func TestStoreWhoseLineIsWrong(t *testing.T) {
	for what, out := range map[string]store.Outcome{
		"refused at once": {Err: &store.HeldError{Record: store.Record{Holder: "h", Token: 1, Left: time.Hour}}},
		"granted too old": {Grant: store.Grant{Token: 5}},
	} {
		l := &liar{queued: func(store.Outcome, time.Duration) (store.Outcome, time.Duration) { return out, -time.Hour }}
		lie(t, l, func(t *testing.T, c *soloist.Client) {
			mustLock(t, c, "x")
			ctx, cancel := context.WithTimeout(background, time.Minute)
			defer cancel()
			other, err := soloist.New(l, soloist.Config{Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			before := l.asked.Load()
			if _, err := other.Lock(ctx, "x"); err == nil {
				t.Errorf("%s: got it", what)
			}
			if n := l.asked.Load() - before; n > 200 {
				t.Errorf("%s: asked %d times in a minute", what, n)
			}
			_ = other.Close()
		})
	}
	l := &liar{queued: func(store.Outcome, time.Duration) (store.Outcome, time.Duration) {
		return store.Outcome{Grant: store.Grant{Token: math.MaxInt64}}, time.Hour
	}}
	lie(t, l, func(t *testing.T, c *soloist.Client) {
		mustLock(t, c, "x")
		other, err := soloist.New(l, soloist.Config{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		lease, err := other.Lock(background, "x")
		if err != nil {
			t.Fatal(err)
		}
		if left := lease.Left(); left > 30*time.Second {
			t.Errorf("a lease of 30 s has %v left", left)
		}
		_ = other.Close()
	})
}

// A record of a job that cannot be read harms that job alone.
func TestJobWithACorruptRecordHarmsNoOther(t *testing.T) {
	spoiled := errors.New("the record cannot be read")
	for _, kind := range []string{"job/", "control/"} {
		var good, bad atomic.Int64
		l := &spoiling{name: kind, err: spoiled}
		synctest.Test(t, func(t *testing.T) {
			l.Store = memstore.New()
			c, err := soloist.New(l, soloist.Config{Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(background, 5*time.Minute)
			defer cancel()
			job := func(name string, ran *atomic.Int64) soloist.Job {
				return soloist.Job{Name: name, Schedule: soloist.Every(time.Minute), Do: func(context.Context, soloist.Run) error { ran.Add(1); return nil }}
			}
			if err := c.Run(ctx, job("good", &good), job("bad", &bad)); err != nil {
				t.Error(err)
			}
			_ = c.Close()
		})
		if good.Load() < 4 || bad.Load() != 0 && kind == "job/" {
			t.Errorf("%s: %d runs of the good job, %d of the bad", kind, good.Load(), bad.Load())
		}
	}
}

// A job whose claim has failed, while others of the batch were granted, is asked for again soon.
func TestFailedClaimOfAJobIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran atomic.Int64
		s := &failsOnce{Store: memstore.New()}
		c, err := soloist.New(s, soloist.Config{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(background, time.Hour+time.Minute)
		defer cancel()
		if err := c.Run(ctx, soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Do: func(context.Context, soloist.Run) error { ran.Add(1); return nil }}); err != nil {
			t.Error(err)
		}
		if !s.failed || ran.Load() != 1 {
			t.Errorf("a claim has failed: %v; the job ran %d times, want once", s.failed, ran.Load())
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// failsOnce is a store that refuses with an error the first claim of a job for a scheduled time.
type failsOnce struct {
	*memstore.Store
	failed bool
}

func (s *failsOnce) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	for i, c := range claims {
		if !s.failed && c.Name == "job/tick" && c.Mark > 1 {
			s.failed = true
			outs, err := s.Store.Acquire(ctx, append(claims[:i:i], claims[i+1:]...))
			return slices.Insert(outs, i, store.Outcome{Err: errors.New("this record cannot be read now")}), err
		}
	}
	return s.Store.Acquire(ctx, claims)
}

// spoiling is a store in which the records of bad cannot be read.
type spoiling struct {
	*memstore.Store
	name string
	err  error
}

func (s *spoiling) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	outs, err := s.Store.Acquire(ctx, claims)
	for i, c := range claims {
		if err == nil && strings.HasSuffix(c.Name, "bad") && strings.Contains(c.Name, s.name) {
			outs[i] = store.Outcome{Err: s.err}
		}
	}
	return outs, err
}

// What is only looked at is granted to nobody, and a job is not done because of a mark below that of the claim.
func TestStoreThatGrantsALookOrIsDoneTooEarly(t *testing.T) {
	for what, outs := range map[string]func([]store.Outcome) []store.Outcome{
		"it grants a look":     each(func(o *store.Outcome) { *o = store.Outcome{Grant: store.Grant{Token: 5}} }),
		"it is done with less": each(func(o *store.Outcome) { o.Err = &store.DoneError{Record: store.Record{Token: 1, Mark: -2}} }),
	} {
		lie(t, &liar{outs: outs}, func(t *testing.T, c *soloist.Client) {
			_, err := c.Admin().AllPaused(background)
			breach(t, what, err)
		})
	}
	lie(t, &liar{outs: each(func(o *store.Outcome) { o.Err = &store.DoneError{Record: store.Record{Token: 1}} })}, func(t *testing.T, c *soloist.Client) {
		_, err := c.Elements("j", soloist.ElementsOptions{}).Claim(background, "1")
		breach(t, "an element is done without a mark", err)
	})
}

// An error of the store that is none of its contract is told as it is.
func TestOtherErrorsOfAStoreAreTold(t *testing.T) {
	why := errors.New("the disk is full")
	lie(t, &liar{outs: each(func(o *store.Outcome) { o.Err = why })}, func(t *testing.T, c *soloist.Client) {
		if _, err := c.TryLock(background, "x"); !errors.Is(err, why) || errors.Is(err, soloist.ErrUnknown) {
			t.Errorf("of a claim: %v", err)
		}
	})
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		s.Break(why)
		if _, err := collect(a.Admin().Locks(background)); !errors.Is(err, why) || errors.Is(err, soloist.ErrUnknown) {
			t.Errorf("of a list: %v", err)
		}
	})
}
