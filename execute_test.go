package soloist_test

import (
	"context"
	"errors"
	"fmt"
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
)

func TestRetryKeepsTheLeaseAndCounts(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		var attempts []string
		var tokens []int64
		begin := time.Now()
		job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), Retry: soloist.Retry{Attempts: 4, Backoff: 2 * time.Second, MaxBackoff: 3 * time.Second}, Do: func(_ context.Context, run soloist.Run) error {
			attempts = append(attempts, fmt.Sprint(run.Attempt, time.Since(begin).Round(time.Second)))
			tokens = append(tokens, run.Lease.Token())
			time.Sleep(time.Second)
			if run.Attempt == 2 {
				panic("second")
			}
			return errors.New("no")
		}}
		start(t, a, job)
		start(t, b, job)
		time.Sleep(90 * time.Second)
		synctest.Wait()
		check(t, "attempts", attempts, []string{"1 1m0s", "2 1m3s", "3 1m7s", "4 1m11s"})
		if tokens = slices.Compact(tokens); len(tokens) != 1 {
			t.Errorf("tokens of the attempts: %v, want one lease for all", tokens)
		}
		info, _ := a.Admin().Job(background, "tick")
		var history []string
		for i, run := range info.Runs {
			at := func(t time.Time) time.Duration { return t.Sub(begin).Round(time.Second) }
			history = append(history, fmt.Sprint(run.Attempt, " ", run.Outcome, " from ", at(run.StartedAt), " to ", at(run.EndedAt)))
			if run.Token != tokens[0] || run.Replica != info.Runs[0].Replica || run.Replica != "a" && run.Replica != "b" || at(run.ScheduledAt) != time.Minute {
				t.Errorf("attempt %d: %+v", i+1, run)
			}
		}
		check(t, "history", history, []string{"1 failed from 1m0s to 1m1s", "2 panicked from 1m3s to 1m4s", "3 failed from 1m7s to 1m8s", "4 failed from 1m11s to 1m12s"})
	})
}

// A function that bounds its time itself is not called again when that is over.
func TestOverrunOfTheFunctionEndsTheRun(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		calls := 0
		job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), Retry: soloist.Retry{Attempts: 4, Backoff: time.Second}, Do: func(context.Context, soloist.Run) error {
			calls++
			return fmt.Errorf("stopped: %w", soloist.ErrOverran)
		}}
		start(t, a, job)
		start(t, b, job)
		time.Sleep(90 * time.Second)
		synctest.Wait()
		info, _ := a.Admin().Job(background, "tick")
		if calls != 1 || len(info.Runs) != 1 || info.Runs[0].Outcome != soloist.OutcomeFailed {
			t.Errorf("%d calls, %+v", calls, info.Runs)
		}
	})
}

// A run that AtMost ends has failed, and was not lost.
func TestOverrunIsAFailure(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, _ *soloist.Client) {
		job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), AtMost: time.Minute, Do: func(ctx context.Context, _ soloist.Run) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		start(t, a, job)
		time.Sleep(90 * time.Minute)
		synctest.Wait()
		if info, err := a.Admin().Job(background, "tick"); err != nil || len(info.Runs) != 1 || info.Runs[0].Outcome != soloist.OutcomeFailed {
			t.Errorf("%v, %+v", err, info.Runs)
		}
	})
}

// A run whose end the store does not notice for longer than the client's TTL is recorded all the same, while its own lease lives.
func TestRunIsRecordedAfterALongOutage(t *testing.T) {
	for name, manual := range map[string]bool{"scheduled": false, "manual": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
				var r recorder
				job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), TTL: 10 * time.Minute, Do: func(ctx context.Context, run soloist.Run) error {
					s.Break(errors.New("away"))
					return r.do(ctx, run)
				}}
				start(t, a, job)
				if manual {
					if err := b.Admin().Trigger(background, "tick"); err != nil {
						t.Fatal(err)
					}
				} else {
					time.Sleep(time.Hour)
				}
				time.Sleep(time.Minute)
				s.Heal()
				job.Do = r.do
				start(t, b, job)
				time.Sleep(30 * time.Minute)
				if len(r.began()) != 1 {
					t.Errorf("begun at %v; want once", r.began())
				}
			})
		})
	}
}

// Neither Close nor Run waits for a record that the store does not take, and Run says which one that is.
func TestCloseIsBoundedWhileARunIsRecorded(t *testing.T) {
	for what, end := range map[string]func(a *soloist.Client, cancel func()){
		"Close": func(a *soloist.Client, _ func()) { _ = a.Close() },
		"Run":   func(_ *soloist.Client, cancel func()) { cancel() },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := soloisttest.NewStore()
				a := soloisttest.NewReplica(t, s, soloist.Config{Drain: 5 * time.Second})
				ran := make(chan struct{})
				done := make(chan error, 1)
				ctx, cancel := context.WithCancel(background)
				defer cancel()
				go func() {
					done <- a.Run(ctx, soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), TTL: 12 * time.Hour, Do: func(context.Context, soloist.Run) error {
						s.Break(errors.New("away"))
						close(ran)
						return nil
					}})
				}()
				<-ran
				begin := time.Now()
				end(a, cancel)
				if err := <-done; !errors.Is(err, soloist.ErrUnknown) || !strings.Contains(err.Error(), `"tick"`) {
					t.Errorf("Run: %v; want that the run of tick could not be recorded", err)
				}
				if took := time.Since(begin); took > 2*time.Minute {
					t.Errorf("the end took %v", took)
				}
				s.Heal()
			})
		})
	}
}

// A run whose time is over in the pause before another attempt is over, for all replicas.
func TestAtMostEndsInThePauseBetweenAttempts(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		var r recorder
		job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), AtMost: time.Minute, Retry: soloist.Retry{Attempts: 3, Backoff: 10 * time.Minute}}
		job.Do = func(ctx context.Context, run soloist.Run) error {
			_ = r.do(ctx, run)
			return errors.New("no paper")
		}
		start(t, a, job)
		start(t, b, job)
		time.Sleep(100 * time.Minute)
		synctest.Wait()
		if n := len(r.began()); n != 1 {
			t.Errorf("begun at %v, want once", r.began())
		}
	})
}

// A run whose replica shuts down in the pause before another attempt is not begun again there, and at once by another replica.
func TestShutdownInThePauseBetweenAttempts(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		var onA, onB recorder
		job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), TTL: 30 * time.Minute, Retry: soloist.Retry{Attempts: 3, Backoff: 10 * time.Minute}}
		job.Do = func(ctx context.Context, run soloist.Run) error {
			_ = onA.do(ctx, run)
			return errors.New("no paper")
		}
		stop := start(t, a, job)
		time.Sleep(time.Hour + time.Second)
		job.Do = onB.do
		start(t, b, job)
		time.Sleep(time.Minute)
		stop()
		time.Sleep(time.Second)
		if here, there := onA.all(), onB.all(); len(here) != 1 || len(there) != 1 || there[0].Attempt != 2 || !there[0].ScheduledAt.Equal(here[0].ScheduledAt) {
			t.Errorf("%+v on the replica that has shut down, %+v on the other; want an attempt on each", here, there)
		}
	})
}

// Shutdown does not wait for the pause before another attempt, and begins none: another replica does at once. The end of Run's context alone leaves the pause the time of Drain.
func TestShutdownEndsThePauseBetweenAttempts(t *testing.T) {
	for name, backoff := range map[string]time.Duration{"a pause": 10 * time.Minute, "no pause": 0} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
				var onA, onB recorder
				job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), TTL: 30 * time.Minute, Retry: soloist.Retry{Attempts: 3, Backoff: backoff}}
				shut := make(chan error, 3)
				job.Do = func(ctx context.Context, run soloist.Run) error {
					_ = onA.do(ctx, run)
					if backoff == 0 {
						go func() { shut <- a.Shutdown(background) }()
						synctest.Wait()
					}
					return errors.New("no paper")
				}
				start(t, a, job)
				time.Sleep(time.Hour + time.Second)
				job.Do = onB.do
				start(t, b, job)
				if backoff > 0 {
					go func() { shut <- a.Shutdown(background) }()
				}
				begin := time.Now()
				if err := <-shut; err != nil || time.Since(begin) > time.Second {
					t.Errorf("shut down after %v: %v", time.Since(begin), err)
				}
				time.Sleep(time.Second)
				if here, there := onA.all(), onB.all(); len(here) != 1 || len(there) != 1 || there[0].Attempt != 2 || !there[0].ScheduledAt.Equal(here[0].ScheduledAt) {
					t.Errorf("%+v on the replica that has shut down, %+v on the other; want an attempt on each", here, there)
				}
			})
		})
	}
}

// The attempts at a run that may be run once only are made by the replica that has begun it, also when it shuts down: no other would make them. How long Shutdown waits
// bounds them.
func TestShutdownWaitsForAttemptsThatNoOtherReplicaMakes(t *testing.T) {
	for patience, attempts := range map[time.Duration]int{time.Hour: 3, time.Minute: 1} {
		t.Run(patience.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
				var onA, onB recorder
				job := soloist.Job{
					Name: "tick", Schedule: soloist.Every(2 * time.Hour), TTL: 30 * time.Minute, Crash: soloist.CrashGiveUp,
					Retry: soloist.Retry{Attempts: 3, Backoff: 10 * time.Minute},
				}
				job.Do = func(ctx context.Context, run soloist.Run) error {
					_ = onA.do(ctx, run)
					return errors.New("no paper")
				}
				start(t, a, job)
				time.Sleep(2*time.Hour + time.Second)
				job.Do = onB.do
				start(t, b, job)
				begin := time.Now()
				ctx, cancel := context.WithTimeout(background, patience)
				defer cancel()
				if err := a.Shutdown(ctx); (err == nil) != (attempts == 3) {
					t.Errorf("shut down after %v: %v", time.Since(begin), err)
				}
				if took := time.Since(begin); took > min(patience, 30*time.Minute)+time.Second {
					t.Errorf("the shutdown took %v", took)
				}
				time.Sleep(time.Hour)
				if here, there := onA.all(), onB.all(); len(here) != attempts || len(there) != 0 {
					t.Errorf("%+v on the replica that has shut down, %+v on the other; want %d attempts, and none", here, there, attempts)
				}
			})
		})
	}
}

// A job that a replica claims needlessly, because another has done what was asked for, is free at once: AtLeast counts from a run.
func TestANeedlessClaimKeepsNoDistance(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		var r recorder
		begin := time.Now()
		job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), AtLeast: 20 * time.Minute, Do: r.do}
		start(t, a, job)
		start(t, b, job)
		time.Sleep(30 * time.Minute)
		must(t, a.Admin().Trigger(background, "tick"))
		time.Sleep(time.Until(begin.Add(time.Hour + time.Second)))
		if at := r.began(); len(at) != 2 || at[1].Sub(begin) > time.Hour+time.Second {
			t.Errorf("begun at %v; want the manual run, and that of the full hour when it is due", at)
		}
	})
}

// A cannotBeginYet store refuses some requests to record that runs begin, and forgets what it need not keep at once.
type cannotBeginYet struct {
	*soloisttest.Store
	left atomic.Int32
	late bool  // it has recorded it when it says so
	lost bool  // it does not say so, but that nobody knows
	last int32 // of the refusals, how many it does say all the same; it has recorded nothing then
}

func (s *cannotBeginYet) Extend(ctx context.Context, extensions []store.Extension) ([]error, error) {
	if !strings.HasPrefix(extensions[0].Name, "job/") {
		return s.Store.Extend(ctx, extensions)
	}
	left := s.left.Add(-1)
	if left < 0 {
		return s.Store.Extend(ctx, extensions)
	}
	said := !s.lost || left < s.last
	if s.late && (!s.lost || !said) {
		_, _ = s.Store.Extend(ctx, extensions)
	}
	if !said {
		return nil, store.AsUnknown(errors.New("the reply was lost"))
	}
	return nil, errors.New("read-only")
}

func (s *cannotBeginYet) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	errs, err := s.Store.Release(ctx, releases)
	_, swept := s.Sweep(ctx, 1000)
	return errs, errors.Join(err, swept)
}

// A replica that takes the run of a dead one over, and cannot record that, leaves the run to be found, although it is later than Grace, and its attempt counts once.
func TestTakeoverThatCannotBeRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		one := soloisttest.NewStore()
		two := &cannotBeginYet{Store: one.Share()}
		two.left.Store(3)
		mortal, other := dyingRun(soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), TTL: 20 * time.Second, Grace: time.Second}, &r, one)
		start(t, soloisttest.NewReplica(t, one, soloist.Config{}), mortal)
		time.Sleep(61 * time.Second)
		start(t, soloisttest.NewReplica(t, two, soloist.Config{}), other)
		time.Sleep(40 * time.Second)
		if all := r.all(); len(all) != 2 || !all[1].ScheduledAt.Equal(all[0].ScheduledAt) || all[1].Attempt != 2 || two.left.Load() > 0 {
			t.Errorf("runs: %+v, with %d refusals left; want the first again, as its second attempt", all, two.left.Load())
		}
		one.Heal()
	})
}

// A manual run that may be run once only, and that the record shows as begun although nobody knew that, is begun later: nobody has run it.
func TestManualRunThatHasNotBegunIsNotGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		s := &cannotBeginYet{Store: soloisttest.NewStore(), late: true}
		c := soloisttest.NewReplica(t, s, soloist.Config{})
		start(t, c, soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Crash: soloist.CrashGiveUp, Do: r.do})
		s.left.Store(2)
		run, err := c.Admin().TriggerAndWait(background, "tick")
		if all := r.all(); err != nil || run.Outcome != soloist.OutcomeOK || run.Attempt != 1 || len(all) != 1 || s.left.Load() > 0 {
			t.Errorf("it was begun %d times, and is told as %+v, %v, with %d refusals left", len(all), run, err, s.left.Load())
		}
	})
}

// A run that may be run once only is begun when the reply that its beginning is recorded was lost: no other replica could begin it any more. When the replica
// shuts down before it knows that, nobody runs it.
func TestRunWhoseBeginningIsUnknown(t *testing.T) {
	for name, tt := range map[string]struct {
		left     int32
		late     bool
		last     int32
		outcomes []string
	}{
		"the reply was lost":                        {1, true, 0, []string{soloist.OutcomeOK, soloist.OutcomeOK}},
		"the request was lost":                      {1, false, 0, []string{soloist.OutcomeOK, soloist.OutcomeOK}},
		"some replies were lost":                    {5, true, 0, []string{soloist.OutcomeOK, soloist.OutcomeOK}},
		"the reply was lost, and the store refuses": {4, true, 3, []string{soloist.OutcomeOK, soloist.OutcomeOK}}, // which says nothing about the request before
		"all replies are lost":                      {math.MaxInt32, true, 0, []string{soloist.OutcomeAbandoned, soloist.OutcomeOK}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, shared *soloisttest.Store, a, _ *soloist.Client) {
				s := &cannotBeginYet{Store: shared, late: tt.late, lost: true, last: tt.last}
				job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Crash: soloist.CrashGiveUp, Do: func(context.Context, soloist.Run) error { return nil }}
				stop := start(t, soloisttest.NewReplica(t, s, soloist.Config{Drain: -1}), job)
				s.left.Store(tt.left)
				time.Sleep(time.Hour + 10*time.Second)
				begin := time.Now()
				if stop(); time.Since(begin) > time.Second {
					t.Errorf("the replica ended after %v", time.Since(begin))
				}
				start(t, a, job)
				time.Sleep(time.Hour)
				info, err := a.Admin().Job(background, "tick")
				var outcomes []string
				for _, run := range info.Runs {
					outcomes = append(outcomes, run.Outcome)
				}
				if err != nil || !slices.Equal(outcomes, tt.outcomes) {
					t.Errorf("%+v, %v; want %v", info.Runs, err, tt.outcomes)
				}
			})
		})
	}
}

// A blackHole swallows the extensions of jobs that have a state, as a path does on which large packets vanish.
type blackHole struct {
	*soloisttest.Store
	asked atomic.Int32
}

func (s *blackHole) Extend(ctx context.Context, extensions []store.Extension) ([]error, error) {
	if strings.HasPrefix(extensions[0].Name, "job/") && len(extensions[0].State) > 0 {
		s.asked.Add(1)
		return nil, store.AsUnknown(context.DeadlineExceeded)
	}
	return s.Store.Extend(ctx, extensions)
}

// A replica that cannot record that a run begins, though its renewals succeed, keeps the job from no other one.
func TestReplicaThatCannotTellOfBeginningsKeepsNoJob(t *testing.T) {
	for _, crash := range []soloist.Crash{soloist.CrashTakeOver, soloist.CrashGiveUp} {
		inBubble(t, func(t *testing.T, shared *soloisttest.Store, a, _ *soloist.Client) {
			var r recorder
			s := &blackHole{Store: shared}
			job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Crash: crash, Do: r.do}
			start(t, soloisttest.NewReplica(t, s, soloist.Config{Drain: -1}), job)
			must(t, a.Admin().Trigger(background, "tick"))
			time.Sleep(5 * time.Second)
			start(t, a, job)
			time.Sleep(72 * time.Hour)
			if n, asked := len(r.all()), s.asked.Load(); n < 24 || asked > 10_000 {
				t.Errorf("crash %v: %d runs in three days, of 72, and %d requests that had no reply", crash, n, asked)
			}
		})
	}
}

// A manual run that is done, while a scheduled time that was due before it was asked for still waits, does not take the place of that time.
func TestManualRunTakesNoScheduledTime(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, _ *soloist.Client) {
		var done []string
		begin := time.Now()
		start(t, a, soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Grace: 50 * time.Minute, Do: func(_ context.Context, run soloist.Run) error {
			done = append(done, fmt.Sprint(run.ScheduledAt.Sub(begin).Round(time.Second), " ", run.Manual))
			if len(done) == 1 {
				time.Sleep(70 * time.Minute)
			}
			return nil
		}})
		time.Sleep(125 * time.Minute)
		must(t, a.Admin().Trigger(background, "tick")) // the time before has been due for 5 minutes
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		check(t, "runs", done, []string{"1h0m0s false", "2h5m0s true", "2h0m0s false"})
	})
}

// A run that may be run once only, and is interrupted, is over: no replica is told to look for it, and the history shows it once.
func TestInterruptedRunThatMayRunOnceIsOver(t *testing.T) {
	for name, manual := range map[string]bool{"scheduled": false, "manual": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told atomic.Int32
				s := &troubled{Store: soloisttest.NewStore()}
				b := soloisttest.NewReplica(t, s.Share(), soloist.Config{})
				job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Crash: soloist.CrashGiveUp, Do: func(ctx context.Context, _ soloist.Run) error {
					<-ctx.Done()
					return ctx.Err()
				}}
				stop := start(t, soloisttest.NewReplica(t, s, soloist.Config{Drain: -1}), job)
				if manual {
					must(t, b.Admin().Trigger(background, "tick"))
				} else {
					time.Sleep(time.Hour)
				}
				time.Sleep(time.Second)
				s.set(nil, func(r store.Release) {
					if r.Name == "controls" {
						told.Add(1)
					}
				})
				stop()
				job.Do = func(context.Context, soloist.Run) error { return nil }
				start(t, b, job)
				time.Sleep(time.Hour)
				info, err := b.Admin().Job(background, "tick")
				if err != nil || len(info.Runs) != 2 || info.Runs[0].Outcome != soloist.OutcomeInterrupted || info.Runs[1].Outcome != soloist.OutcomeOK || info.Runs[1].Manual || told.Load() > 0 {
					t.Errorf("%+v, %v, told %d times; want that it was interrupted, and the run of the next time", info.Runs, err, told.Load())
				}
			})
		})
	}
}

// What a replica has run and recorded it does not claim once more, and it tells nobody to look for it.
func TestOwnRunsAreNotClaimedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var grants, told atomic.Int32
		s := &troubled{Store: soloisttest.NewStore()}
		a := soloisttest.NewReplica(t, s, soloist.Config{})
		s.set(func(c store.Claim, out store.Outcome) {
			if c.Name == "job/delayed" && c.Mark >= 0 && out.Err == nil {
				grants.Add(1)
			}
		}, func(r store.Release) {
			if r.Name == "controls" {
				told.Add(1)
			}
		})
		var r recorder
		start(t, a, soloist.Job{Name: "delayed", Schedule: soloist.Delay(10 * time.Minute), Do: r.do})
		time.Sleep(time.Second)
		before := grants.Load() - int32(len(r.began())) // with which its record was made
		time.Sleep(time.Hour)
		must(t, a.Admin().Trigger(background, "delayed"))
		time.Sleep(time.Minute)
		if runs := int32(len(r.began())); runs < 7 || grants.Load() != before+runs || told.Load() != 1 {
			t.Errorf("%d runs, %d grants and %d before, told %d times; want a grant for each run, and to be told of the manual run alone", runs, grants.Load(), before, told.Load())
		}
	})
}
