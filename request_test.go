package soloist

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A request ends at its limit or with its caller, however the store finds that out.
func TestEndOfARequest(t *testing.T) {
	const timeout, cancelled = 8 * time.Second, 3 * time.Second
	for name, row := range map[string]struct {
		cancels  bool          // the caller does, at cancelled
		deadline time.Duration // of the caller; 0 if it has none
		ends     time.Duration
		err      error
	}{
		"caller without an end":             {false, 0, 9 * time.Second, context.DeadlineExceeded},
		"caller that cancels":               {true, 0, cancelled, context.Canceled},
		"caller with a deadline":            {false, 5 * time.Second, 5 * time.Second, context.DeadlineExceeded},
		"caller with a deadline after that": {false, time.Minute, 9 * time.Second, context.DeadlineExceeded},
	} {
		for asks, end := range map[string]func(context.Context) time.Time{
			"Err": func(r context.Context) time.Time {
				for r.Err() == nil {
					time.Sleep(time.Millisecond)
					synctest.Wait() // for what else happens at this instant
				}
				return time.Now()
			},
			"Done": func(r context.Context) time.Time {
				<-r.Done()
				return time.Now()
			},
			"AfterFunc": func(r context.Context) time.Time {
				ended := make(chan time.Time)
				context.AfterFunc(r, func() { ended <- time.Now() })
				return <-ended
			},
			"a context derived": func(r context.Context) time.Time {
				ctx, cancel := context.WithTimeout(r, time.Hour)
				defer cancel()
				<-ctx.Done()
				return time.Now()
			},
		} {
			t.Run(name+", "+asks, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					begin := time.Now()
					all := limits{timeout: timeout}
					var r context.Context = all.from(begin)
					want := 9 * time.Second // a store may look at the deadline alone
					if row.cancels || row.deadline > 0 {
						caller, cancel := context.WithCancel(context.Background())
						defer cancel()
						if row.cancels {
							time.AfterFunc(cancelled, cancel)
						} else {
							caller, cancel = context.WithTimeout(caller, row.deadline)
							defer cancel()
							want = min(want, row.deadline)
						}
						within := &request{Context: caller, limit: all.from(begin)}
						defer within.over()
						r = within
					}
					if d, some := r.Deadline(); !some || d.Sub(begin) != want {
						t.Errorf("its deadline is %v, %v", d.Sub(begin), some)
					}
					if took := end(r).Sub(begin); took != row.ends || !errors.Is(r.Err(), row.err) {
						t.Errorf("it ended after %v with %v, want %v with %v", took, r.Err(), row.ends, row.err)
					}
				})
			})
		}
	}
}

// Requests that begin at about the same time share a limit, and so one timer, which only a store that waits for it makes.
func TestLimitsAreShared(t *testing.T) {
	all := limits{timeout: 8 * time.Second}
	begin := time.Now()
	first, second, third := all.from(begin), all.from(begin.Add(time.Second)), all.from(begin.Add(time.Second+1))
	if first != second || first == third {
		t.Errorf("shared after a second: %t; and after more: %t", first == second, first == third)
	}
	if first.ctx != nil || first.timed() != second.timed() {
		t.Error("its context was there before anybody asked for it, or there are two")
	}
	first.over()
	third.over()
	for name, l := range map[string]*limit{"waited for": first, "not waited for": third} {
		<-l.Done() // a store that waits for a request that is over waits for nothing
		if err := l.Err(); !errors.Is(err, context.Canceled) {
			t.Errorf("a limit that is over, and was %s, ends with %v", name, err)
		}
	}
}

// The stop of a function that is to be called at the end of a request says whether it came in time.
func TestStopOfARequest(t *testing.T) {
	for name, end := range map[string]func(cancel context.CancelFunc){
		"nothing ends":      nil,
		"the caller ends":   func(cancel context.CancelFunc) { cancel() },
		"the limit is over": func(context.CancelFunc) { time.Sleep(time.Minute) },
		"both end":          func(cancel context.CancelFunc) { cancel(); time.Sleep(time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				caller, cancel := context.WithCancel(t.Context())
				defer cancel()
				all := limits{timeout: 8 * time.Second}
				r := &request{Context: caller, limit: all.from(time.Now())}
				calls := 0
				stop := r.AfterFunc(func() { calls++ })
				if end != nil {
					end(cancel)
				}
				synctest.Wait()
				want := 0
				if end != nil {
					want = 1
				}
				if stopped := stop(); stopped != (end == nil) || calls != want {
					t.Errorf("stopped in time: %t; called %d times, want %d", stopped, calls, want)
				}
				cancel()
				synctest.Wait()
				if calls != want {
					t.Errorf("called %d times after all", calls-want)
				}
				r.limit.over()
			})
		})
	}
}

// A counting context counts the functions that wait for its end.
type counting struct {
	context.Context
	waiting int
}

func (c *counting) AfterFunc(func()) (stop func() bool) {
	c.waiting++
	return func() bool { c.waiting--; return true }
}

// A request that is over leaves nothing with its caller, whose context may last for long, and whichever of the two ends first, both may.
func TestRequestThatIsOverLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := limits{timeout: 8 * time.Second}
		caller := &counting{Context: t.Context()}
		for range 10 {
			r := &request{Context: caller, limit: all.from(time.Now())}
			r.over() // nobody has waited for it
			r = &request{Context: caller, limit: all.from(time.Now())}
			if first := r.Done(); r.Done() != first {
				t.Error("it has two ends")
			}
			r.over()
		}
		if caller.waiting != 0 {
			t.Errorf("%d functions wait for the end of the caller", caller.waiting)
		}
		ctx, cancel := context.WithCancel(t.Context())
		r := &request{Context: ctx, limit: all.from(time.Now())}
		done := r.Done()
		cancel()
		<-done
		time.Sleep(time.Minute)
		r.over()
		all.current.over()
	})
}
