package soloist_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
	"github.com/soloist-dev/soloist/store"
)

// A deaf store tells nobody of releases.
type deaf struct{ *soloisttest.Store }

func (deaf) Watch(context.Context, []string) (<-chan struct{}, error) {
	return nil, errors.ErrUnsupported
}

// A run that is interrupted because its replica shuts down is begun by another at once, however long its lease would have lasted: one of a claim group, too,
// and where the store tells nobody of releases, within some seconds.
func TestInterruptedRunIsTakenOverAtOnce(t *testing.T) {
	for name, test := range map[string]struct {
		jobs    int
		deaf    bool
		stopped time.Duration // long after Grace unless the name says otherwise, and before the leases end
		most    time.Duration
	}{
		"one job":                     {1, false, 12 * time.Minute, time.Second},
		"a claim group":               {40, false, 12 * time.Minute, time.Second},
		"a claim group, within Grace": {40, false, 10*time.Minute + 30*time.Second, time.Second},
		"without news":                {1, true, 12 * time.Minute, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				one := soloisttest.NewStore()
				wrap := func(s *soloisttest.Store) store.Store {
					if test.deaf {
						return deaf{s}
					}
					return s
				}
				begin := time.Now()
				var first, began atomic.Int64
				jobs := func(do func(context.Context, soloist.Run) error) []soloist.Job {
					var all []soloist.Job
					for i := range test.jobs {
						all = append(all, soloist.Job{Name: fmt.Sprint("job ", i), Schedule: soloist.Every(10 * time.Minute), TTL: 5 * time.Minute, Grace: time.Minute, Do: do})
					}
					return all
				}
				hangs := func(ctx context.Context, _ soloist.Run) error { <-ctx.Done(); return ctx.Err() }
				stop := start(t, soloisttest.NewReplica(t, wrap(one), soloist.Config{Drain: -1}), jobs(hangs)...)
				two := one.Share()
				two.Slow(time.Millisecond)
				start(t, soloisttest.NewReplica(t, wrap(two), soloist.Config{}), jobs(func(_ context.Context, run soloist.Run) error {
					if run.Attempt != 1 {
						t.Errorf("attempt %d; a run that was interrupted does not count", run.Attempt)
					}
					first.CompareAndSwap(0, int64(time.Since(begin)))
					began.Add(1)
					return nil
				})...)
				time.Sleep(time.Until(begin.Add(test.stopped)))
				stopped := time.Since(begin)
				stop()
				time.Sleep(test.most)
				synctest.Wait()
				if began.Load() != int64(test.jobs) {
					t.Errorf("%d of %d runs have begun %v after they were interrupted", began.Load(), test.jobs, test.most)
				}
				if d := time.Duration(first.Load()) - stopped; d > test.most {
					t.Errorf("the first began after %v", d)
				}
			})
		})
	}
}

// A run that is interrupted and does not end before Run returns is taken over at once when it ends: others are notified then.
func TestRunThatEndsAfterRunIsTakenOverAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		const late = 3 * time.Hour
		ended := make(chan struct{})
		job := soloist.Job{Name: "tick", Schedule: soloist.Every(4 * time.Hour), TTL: time.Hour}
		job.Do = func(ctx context.Context, _ soloist.Run) error {
			<-ctx.Done()
			time.Sleep(late)
			close(ended)
			return ctx.Err()
		}
		ctx, cancel := context.WithCancel(background)
		returned := make(chan error, 1)
		go func() { returned <- a.Run(ctx, job) }()
		time.Sleep(24*time.Hour + time.Minute)
		var r recorder
		job.Do = r.do
		start(t, b, job)
		cancel()
		if err := <-returned; err == nil {
			t.Error("Run has waited for a function that goes on for hours")
		}
		check(t, "runs before it has ended", len(r.began()), 0)
		<-ended
		time.Sleep(5 * time.Second)
		check(t, "runs after it has ended", len(r.began()), 1)
	})
}

// A replica that starts when nobody else is there takes up what was interrupted, at once, though it is later than Grace.
func TestInterruptedRunIsTakenUpByANewcomer(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		var r recorder
		job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Grace: time.Second}
		job.Do = func(ctx context.Context, _ soloist.Run) error { <-ctx.Done(); return ctx.Err() }
		stop := start(t, a, job)
		time.Sleep(time.Hour + time.Minute)
		stop()
		job.Do = r.do
		start(t, b, job)
		time.Sleep(time.Second)
		if len(r.began()) != 1 {
			t.Errorf("begun at %v; want at once", r.began())
		}
	})
}

// Who is to tell the others of a run that was interrupted, while somebody changes the record that all of them watch, tries again, for four request timeouts at most. Without
// that news they look when the lease would have ended.
func TestInterruptedRunIsToldAfterAnotherChange(t *testing.T) {
	for held, want := range map[time.Duration]struct{ stops, taken time.Duration }{3 * time.Second: {8 * time.Second, 10 * time.Second}, time.Hour: {21 * time.Second, 6 * time.Minute}} {
		inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
			var r recorder
			job := soloist.Job{Name: "tick", Schedule: soloist.Every(10 * time.Minute), TTL: 5 * time.Minute, Grace: time.Second}
			job.Do = func(ctx context.Context, _ soloist.Run) error { <-ctx.Done(); return soloist.ErrInterrupted }
			c := soloisttest.NewReplica(t, s.Share(), soloist.Config{Drain: -1})
			stop := start(t, c, job)
			time.Sleep(11 * time.Minute)
			job.Do = r.do
			start(t, b, job)
			time.Sleep(time.Minute)
			outs, err := s.Acquire(background, []store.Claim{{Name: "controls", Holder: "x", TTL: held}})
			must(t, errors.Join(err, outs[0].Err))
			begin := time.Now()
			stop()
			if took := time.Since(begin); took > want.stops {
				t.Errorf("while the record is held for %v, Run ended after %v; want %v at most", held, took, want.stops)
			}
			time.Sleep(time.Until(begin.Add(want.taken)))
			if n := len(r.all()); n != 1 {
				t.Errorf("while the record is held for %v, the run is begun by the other %d times in %v; want once", held, n, want.taken)
			}
		})
	}
}

// A run whose function says that it was interrupted, although its replica goes on, is begun again by that replica if there is no other: however late, and not without a pause.
func TestInterruptedRunIsBegunAgainByItsReplica(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, _ *soloist.Client) {
		const most = 500
		runs := 0
		var began time.Time
		due := time.Now().Add(time.Minute)
		start(t, a, soloist.Job{Name: "once", Schedule: soloist.At(due), Grace: 10 * time.Second, Do: func(context.Context, soloist.Run) error {
			runs++
			if began = time.Now(); began.Sub(due) < 2*time.Minute && runs < most {
				return soloist.ErrInterrupted
			}
			return nil
		}})
		time.Sleep(time.Hour)
		synctest.Wait()
		if late := began.Sub(due); runs == most || late < 2*time.Minute || late > 2*time.Minute+2*time.Second {
			t.Errorf("begun %d times, the last time after %v; want about once a second, and until it is done after two minutes", runs, late)
		}
	})
}

// What was interrupted is not forgotten by a sweep: a replica that is cut off at the moment reads it later.
func TestASweepKeepsWhatWasInterrupted(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		stop := start(t, a, soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Do: func(ctx context.Context, _ soloist.Run) error { <-ctx.Done(); return ctx.Err() }})
		time.Sleep(time.Hour + time.Minute)
		stop()
		time.Sleep(time.Minute)
		if _, err := s.Sweep(background, 100); err != nil {
			t.Fatal(err)
		}
		for r, err := range s.List(background, "controls") {
			if err == nil && strings.Contains(string(r.State), "tick") {
				return
			}
		}
		t.Error("the record that all replicas watch is gone")
	})
}

// lostControls loses the record that every replica watches when a control is about to be written, so that they read the controls before.
type lostControls struct {
	*soloisttest.Store
	forGood bool // the record cannot be had again
	lost    atomic.Bool
}

func (s *lostControls) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	if s.forGood && s.lost.Load() && claims[0].Name == "controls" {
		return nil, errOnce
	}
	return s.Store.Acquire(ctx, claims)
}

func (s *lostControls) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	if strings.HasPrefix(releases[0].Name, "control/") {
		for r, err := range s.Store.List(ctx, "controls") {
			if err == nil {
				_, err = s.Store.Release(ctx, []store.Release{{Name: r.Name, Holder: r.Holder, Token: r.Token, Retain: store.Forever}})
			}
			if err == nil {
				_, err = s.Store.Acquire(ctx, []store.Claim{{Name: r.Name, Holder: "x", TTL: store.MinTTL}})
			}
			if err != nil {
				return nil, err
			}
		}
		s.lost.Store(true)
		time.Sleep(6 * time.Second)
	}
	return s.Store.Release(ctx, releases)
}

// A replica that begins while a run is under way knows its lease from the start, and hears like the others that the run was interrupted.
func TestReplicaThatBeganDuringARunHearsOfItsInterruption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := soloisttest.NewStore()
		job := soloist.Job{Name: "once", Schedule: soloist.At(time.Now().Add(time.Second)), TTL: time.Hour, Missed: soloist.MissedOnce}
		job.Do = func(ctx context.Context, _ soloist.Run) error { <-ctx.Done(); return ctx.Err() }
		stop := start(t, soloisttest.NewReplica(t, one, soloist.Config{}), job)
		time.Sleep(time.Minute)
		var r recorder
		job.Do = r.do
		start(t, soloisttest.NewReplica(t, one.Share(), soloist.Config{}), job)
		time.Sleep(time.Minute)
		stop()
		time.Sleep(time.Second)
		synctest.Wait()
		if n := len(r.all()); n != 1 {
			t.Errorf("the run was taken over %d times at once, want once", n)
		}
	})
}

// A run that is interrupted while its replica waits for another its own run is begun by another replica at once, not when that other one ends; also if it is interrupted while others are
// notified of one before it.
func TestInterruptedRunDoesNotWaitForTheDrain(t *testing.T) {
	for _, apart := range []time.Duration{time.Second, 0} {
		t.Run(fmt.Sprint(apart), func(t *testing.T) { interruptedRunDoesNotWaitForTheDrain(t, apart) })
	}
}

func interruptedRunDoesNotWaitForTheDrain(t *testing.T, apart time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		one := soloisttest.NewStore()
		one.Slow(10 * time.Millisecond)
		stopping := make(chan struct{})
		schedule := soloist.At(time.Now().Add(time.Minute))
		jobs := func(long, short func(context.Context, soloist.Run) error) []soloist.Job {
			return []soloist.Job{
				{Name: "long", Schedule: schedule, TTL: time.Hour, Missed: soloist.MissedOnce, Do: long},
				{Name: "short", Schedule: schedule, TTL: time.Hour, Missed: soloist.MissedOnce, Do: short},
				{Name: "shorter", Schedule: schedule, TTL: time.Hour, Missed: soloist.MissedOnce, Do: short},
			}
		}
		long := func(context.Context, soloist.Run) error { time.Sleep(2 * time.Minute); return nil }
		stop := start(t, soloisttest.NewReplica(t, one, soloist.Config{Drain: time.Hour}), jobs(long, func(context.Context, soloist.Run) error {
			<-stopping
			return soloist.ErrInterrupted
		})...)
		time.Sleep(90 * time.Second)
		var first, second recorder
		start(t, soloisttest.NewReplica(t, one.Share(), soloist.Config{}), jobs(first.do, second.do)...)
		time.Sleep(time.Minute)
		go stop()
		time.Sleep(time.Second)
		for n := range 2 { // one after the other
			stopping <- struct{}{}
			time.Sleep(apart)
			synctest.Wait()
			if got := len(second.all()); apart > 0 && got != n+1 {
				t.Errorf("of %d runs that were interrupted %d were begun by the other replica at once", n+1, got)
			}
		}
		time.Sleep(time.Second)
		synctest.Wait()
		check(t, "runs that were interrupted and are begun by the other replica", len(second.all()), 2)
		time.Sleep(time.Hour)
		if n := len(first.all()); n != 0 {
			t.Errorf("the run that went on was begun %d times by the other replica, want never", n)
		}
	})
}

// What a request without a reply is granted after other replicas were notified of an interrupted run is given back: nobody could announce a change of a control
// meanwhile.
func TestWhatIsGrantedAfterANotificationIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &makesLate{Store: soloisttest.NewStore(), kind: func(c store.Claim) bool { return c.Name == "controls" && c.Mark >= 0 }}
		a, b := soloisttest.NewReplica(t, s, soloist.Config{RequestTimeout: 20 * time.Second}), soloisttest.NewReplica(t, s.Share(), soloist.Config{})
		hangs := func(ctx context.Context, _ soloist.Run) error { <-ctx.Done(); return ctx.Err() }
		start(t, b, soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Do: nothing})
		start(t, a, soloist.Job{Name: "tock", Schedule: soloist.Every(time.Minute), Do: hangs})
		time.Sleep(90 * time.Second)
		closed := time.Now()
		time.AfterFunc(6*time.Second, func() {
			must(t, b.Admin().Pause(background, "tick", "a test"))
			if d := time.Since(closed); d > 9*time.Second {
				t.Errorf("a change was announced after %v", d)
			}
		})
		_ = a.Close()
		check(t, "requests without a reply", s.said.Load(), true)
		time.Sleep(time.Minute)
	})
}

// Close has notified the other replicas of the runs that it interrupted when it returns: its process may end then. The two raced, so it is tried often.
func TestCloseWaitsForTheNotification(t *testing.T) {
	var jobs []soloist.Job
	for i := range 20 {
		jobs = append(jobs, soloist.Job{Name: fmt.Sprint("job ", i), Schedule: soloist.Every(time.Minute), Do: func(ctx context.Context, _ soloist.Run) error { <-ctx.Done(); return ctx.Err() }})
	}
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			s := soloisttest.NewStore()
			a := soloisttest.NewReplica(t, s, soloist.Config{Logger: slog.New(slog.DiscardHandler)})
			start(t, a, jobs...)
			time.Sleep(90 * time.Second)
			must(t, a.Close())
			records, err := collect(s.List(background, "controls"))
			must(t, err)
			check(t, "records", len(records), 1)
			var told struct{ Jobs map[string]int64 }
			must(t, json.Unmarshal(records[0].State, &told))
			check(t, "jobs that other replicas were notified of", len(told.Jobs), len(jobs))
		})
		if t.Failed() {
			return
		}
	}
}

// Who changes a control and loses the record that reports changes reports it again: replicas may have read the controls before.
func TestControlsThatWereLostAreAnnouncedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		var r recorder
		begin := time.Now()
		start(t, a, soloist.Job{Name: "tick", Schedule: soloist.Every(5 * time.Second), Do: r.do})
		time.Sleep(time.Second)
		operator := soloisttest.NewReplica(t, &lostControls{Store: s.Share()}, soloist.Config{RequestTimeout: 30 * time.Second})
		if err := operator.Admin().Pause(background, "tick", "a test"); err != nil {
			t.Fatal(err)
		}
		paused := time.Since(begin)
		for r, err := range s.List(background, "controls") {
			if err != nil || !r.Free() {
				t.Errorf("the announcement lasts longer than the change: %+v, %v", r, err)
			}
		}
		time.Sleep(time.Minute)
		for _, at := range r.scheduled(begin) {
			if at > paused {
				t.Errorf("%v was run, though the job was paused at %v", at, paused)
			}
		}
	})
}

// Who cannot announce a change again that was lost learns that: replicas may not know of it.
func TestChangeThatCannotBeAnnouncedAgainIsAnError(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		start(t, a, soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), Do: nothing})
		operator := soloisttest.NewReplica(t, &lostControls{Store: s.Share(), forGood: true}, soloist.Config{RequestTimeout: 30 * time.Second})
		if err := operator.Admin().Pause(background, "tick", "a test"); !errors.Is(err, errOnce) {
			t.Errorf("got: %v", err)
		}
	})
}
