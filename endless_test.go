package soloist_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

// A metered store counts claims. Past its most, its claims take an hour, so that a loop without a pause is seen to end, not to hang.
type metered struct {
	store.Store
	most   int64
	claims atomic.Int64
	refuse func(store.Claim) error // if it is set
	watch  func(context.Context) <-chan struct{}
}

func (m *metered) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	if m.claims.Add(1) > m.most {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Hour):
		}
	}
	if m.refuse == nil {
		return m.Store.Acquire(ctx, claims)
	}
	outs := make([]store.Outcome, len(claims))
	for i, c := range claims {
		outs[i].Err = m.refuse(c)
	}
	return outs, nil
}

func (m *metered) Watch(ctx context.Context, _ []string) (<-chan struct{}, error) {
	return m.watch(ctx), nil
}

// watches are those of a store that notifies of too much, or of nothing, and does not care when the watch ends.
var watches = map[string]func(context.Context) <-chan struct{}{
	"silent": func(context.Context) <-chan struct{} { return make(chan struct{}) },
	"nil":    func(context.Context) <-chan struct{} { return nil },
	"closed": func(context.Context) <-chan struct{} {
		c := make(chan struct{})
		close(c)
		return c
	},
	"flood": func(ctx context.Context) <-chan struct{} {
		c := make(chan struct{})
		go func() {
			tick := time.NewTicker(time.Microsecond)
			defer tick.Stop()
			for {
				select {
				case c <- struct{}{}:
				case <-ctx.Done():
					return
				}
				select {
				case <-tick.C:
				case <-ctx.Done(): // no time passes in a bubble any more once its test has ended
					return
				}
			}
		}()
		return c
	},
}

// A waiter asks some times a second at most, however often its store says that a name has become free, and whatever it says of how long a lease has left.
func TestWaiterDoesNotAskWithoutEnd(t *testing.T) {
	for watch, watches := range watches {
		for _, left := range []time.Duration{0, 1, time.Hour, math.MaxInt64} {
			t.Run(fmt.Sprint(watch, left), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := &metered{Store: memstore.New(), most: 60 * 30, watch: watches, refuse: func(c store.Claim) error {
						return &store.HeldError{Record: store.Record{Name: c.Name, Holder: "x", Token: 5, Left: left}}
					}}
					c, err := soloist.New(s, soloist.Config{})
					if err != nil {
						t.Fatal(err)
					}
					defer c.Close()
					ctx, cancel := context.WithTimeout(background, time.Minute)
					defer cancel()
					if l, err := c.Lock(ctx, "x"); err == nil {
						t.Errorf("granted %v", l)
					}
					if s.claims.Load() > s.most {
						t.Errorf("more than %d claims in a minute", s.most)
					}
				})
			})
		}
	}
}

// Run ends with its context, and reads the commands now and then only, whatever the store does with a watch.
func TestRunEndsWhateverAWatchDoes(t *testing.T) {
	for watch, watches := range watches {
		t.Run(watch, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &metered{Store: memstore.New(), most: 60 * 30, watch: watches}
				c, err := soloist.New(s, soloist.Config{})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				ctx, cancel := context.WithTimeout(background, time.Minute)
				defer cancel()
				begun := time.Now()
				if err := c.Run(ctx, soloist.Job{Name: "x", Schedule: soloist.Every(time.Minute), Do: nothing}); err != nil {
					t.Error(err)
				}
				if took := time.Since(begun); took > 2*time.Minute || s.claims.Load() > s.most {
					t.Errorf("%d claims in %v", s.claims.Load(), took)
				}
			})
		})
	}
}

// What no replica writes into the record of a job delays that job at most. It is not claimed without end, and other jobs go on.
func TestImpossibleStateOfAJob(t *testing.T) {
	states := []string{`{"pending":9223372036854775807,"runs":"x"}`, `{"all":9223372036854775807}`}
	for _, field := range []string{"grace", "since", "pending", "attempts", "next", "begun", "ended", "trigger", "claimed", "asked"} {
		for _, n := range []int64{-1, math.MinInt64, math.MaxInt64, 1 << 53} {
			states = append(states, fmt.Sprintf(`{%q:%d}`, field, n))
		}
	}
	for _, crash := range []soloist.Crash{soloist.CrashTakeOver, soloist.CrashGiveUp} {
		for missed, schedule := range map[soloist.Missed]soloist.Schedule{soloist.MissedAll: soloist.Every(time.Minute), soloist.MissedSkip: soloist.Delay(time.Minute)} {
			for _, state := range states {
				for _, mark := range []int64{0, math.MaxInt64 - 1, math.MaxInt64} {
					if mark > 0 && state != states[0] {
						continue
					}
					for _, died := range []bool{false, true} {
						synctest.Test(t, func(t *testing.T) {
							impossible(t, state, mark, died, soloist.Job{Name: "x", Schedule: schedule, Crash: crash, Missed: missed, Do: nothing})
						})
					}
				}
			}
		}
	}
}

// impossible runs a job whose record has a state and a mark, from a holder who died or not, and another job.
func impossible(t *testing.T, state string, mark int64, died bool, job soloist.Job) {
	s := &metered{Store: memstore.New(), most: 500, watch: watches["silent"]}
	outs, err := s.Store.Acquire(background, []store.Claim{{Name: "job/x", Holder: "a", TTL: time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	token := outs[0].Grant.Token
	if died {
		_, err = s.Extend(background, []store.Extension{{Name: "job/x", Holder: "a", Token: token, TTL: time.Second, Mark: mark, State: []byte(state)}})
	} else {
		_, err = s.Release(background, []store.Release{{Name: "job/x", Holder: "a", Token: token, Mark: mark, State: []byte(state), Retain: store.Forever}})
	}
	if err != nil {
		t.Fatal(err)
	}
	c, err := soloist.New(s, soloist.Config{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(background, 3*time.Minute)
	defer cancel()
	others := 0
	err = c.Run(ctx, job, soloist.Job{Name: "y", Schedule: soloist.Every(time.Minute), Do: func(context.Context, soloist.Run) error {
		others++
		return nil
	}})
	if err != nil || s.claims.Load() > s.most || others < 2 {
		t.Errorf("%s, mark %d, died %v, %v: %d claims, %d runs of the other job, %v", state, mark, died, job.Schedule, s.claims.Load(), others, err)
	}
}
