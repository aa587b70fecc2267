package soloist_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
	"github.com/soloist-dev/soloist/store"
)

// commit stands for a transaction of the caller's on a SQL store that records a completion.
func commit(t *testing.T, s store.Store, c store.Completion) error {
	t.Helper()
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	outs, err := s.Acquire(background, []store.Claim{{Name: c.Name, Holder: "look", TTL: time.Second, Mark: -1}})
	var was *store.DoneError
	if err != nil || !errors.As(outs[0].Err, &was) {
		t.Fatal(err, outs)
	}
	if c.Mark != 0 && was.Record.Mark >= c.Mark {
		return was
	}
	errs, err := s.Extend(background, []store.Extension{
		{Name: c.Name, Holder: c.Holder, Token: c.Token, TTL: store.MinTTL, Mark: c.Mark, State: c.State}})
	if err != nil {
		t.Fatal(err)
	}
	return errs[0]
}

// twoReplicas has a replica a whose network can fail, b, and the store as a transaction sees it.
func twoReplicas(t *testing.T, test func(t *testing.T, network *soloisttest.Store, direct store.Store, a, b *soloist.Client)) {
	synctest.Test(t, func(t *testing.T) {
		network := soloisttest.NewStore()
		a := soloisttest.NewReplica(t, network, soloist.Config{Replica: "a"})
		b := soloisttest.NewReplica(t, network.Share(), soloist.Config{Replica: "b"})
		test(t, network, network.Share(), a, b)
	})
}

func TestCompletedElementIsDoneAlthoughItsReplicaDied(t *testing.T) {
	twoReplicas(t, func(t *testing.T, network *soloisttest.Store, direct store.Store, a, b *soloist.Client) {
		err := a.Elements("invoices", soloist.ElementsOptions{}).Process(background, "4711", func(_ context.Context, lease *soloist.Element) error {
			network.Break(errors.New("cut off"))
			return commit(t, direct, lease.Completion())
		})
		if !errors.Is(err, soloist.ErrUnknown) {
			t.Errorf("a, cut off after its commit: %v", err)
		}
		time.Sleep(time.Hour)
		if err := b.Elements("invoices", soloist.ElementsOptions{}).Process(background, "4711", ok); !errors.Is(err, soloist.ErrDone) {
			t.Errorf("b: %v", err)
		}
	})
}

// What a transaction has recorded of an element is not forgotten, although the element is not recorded as processed after it: its function was interrupted then, as by
// a commit whose answer is lost, or it was given back.
func TestCompletedElementIsKeptHoweverItEnds(t *testing.T) {
	for name, end := range map[string]func(*soloist.Elements, *soloist.Client, func(*soloist.Element) error) error{
		"interrupted": func(invoices *soloist.Elements, _ *soloist.Client, commit func(*soloist.Element) error) error {
			ctx, cancel := context.WithCancel(background)
			err := invoices.Process(ctx, "4711", func(ctx context.Context, el *soloist.Element) error {
				if err := commit(el); err != nil {
					return err
				}
				cancel()
				return context.Cause(ctx)
			})
			if !errors.Is(err, context.Canceled) {
				return fmt.Errorf("it was not interrupted: %w", err)
			}
			return nil
		},
		"given back": func(invoices *soloist.Elements, _ *soloist.Client, commit func(*soloist.Element) error) error {
			el, err := invoices.Claim(background, "4711")
			if err != nil {
				return err
			}
			return errors.Join(commit(el), el.Release())
		},
		"left to Close": func(invoices *soloist.Elements, a *soloist.Client, commit func(*soloist.Element) error) error {
			el, err := invoices.Claim(background, "4711")
			if err != nil {
				return err
			}
			return errors.Join(commit(el), a.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			twoReplicas(t, func(t *testing.T, network *soloisttest.Store, direct store.Store, a, b *soloist.Client) {
				must(t, end(a.Elements("invoices", soloist.ElementsOptions{}), a, func(el *soloist.Element) error { return commit(t, direct, el.Completion()) }))
				_, err := network.Sweep(background, 100)
				must(t, err)
				if err := b.Elements("invoices", soloist.ElementsOptions{}).Process(background, "4711", ok); !errors.Is(err, soloist.ErrDone) {
					t.Errorf("b: %v", err)
				}
			})
		})
	}
}

// The answer to the commit is lost, so the function tries its work again.
func TestErrDoneOfTheCompletionIsSuccess(t *testing.T) {
	twoReplicas(t, func(t *testing.T, _ *soloisttest.Store, direct store.Store, a, b *soloist.Client) {
		again := func(_ context.Context, lease *soloist.Lease) error {
			if err := commit(t, direct, lease.Completion()); err != nil {
				t.Error(err)
			}
			return commit(t, direct, lease.Completion())
		}
		var first store.Completion
		if err := a.Elements("invoices", soloist.ElementsOptions{}).Process(background, "1", func(ctx context.Context, el *soloist.Element) error {
			first = el.Completion()
			return again(ctx, el.Lease)
		}); err != nil {
			t.Errorf("an element that had been completed: %v", err)
		}
		if err := a.Do(background, "plain", again); err != nil {
			t.Errorf("a lock, which has nothing to complete: %v", err)
		}
		other := a.Elements("invoices", soloist.ElementsOptions{}).Process(background, "2", func(ctx context.Context, _ *soloist.Element) error {
			return b.Elements("invoices", soloist.ElementsOptions{}).Process(ctx, "1", ok)
		})
		if !errors.Is(other, soloist.ErrDone) {
			t.Errorf("that another element is done counts as success: %v", other)
		}
		other = a.Elements("invoices", soloist.ElementsOptions{}).Process(background, "2", func(_ context.Context, el *soloist.Element) error {
			_ = el.Completion()
			return commit(t, direct, first)
		})
		if !errors.Is(other, soloist.ErrDone) {
			t.Errorf("that the completion of another element was committed counts as success: %v", other)
		}
		if err := b.Elements("invoices", soloist.ElementsOptions{}).Process(background, "2", ok); err != nil {
			t.Errorf("the element whose function failed: %v", err)
		}
	})
}

func TestCompletedRunIsNotTakenOver(t *testing.T) {
	for name, trigger := range map[string]bool{"scheduled": false, "manual": true} {
		t.Run(name, func(t *testing.T) {
			twoReplicas(t, func(t *testing.T, network *soloisttest.Store, direct store.Store, a, b *soloist.Client) {
				var r recorder
				begin := time.Now()
				completes := func(ctx context.Context, run soloist.Run) error {
					_ = r.do(ctx, run)
					err := commit(t, direct, run.Lease.Completion())
					network.Break(errors.New("cut off")) // and a never returns
					<-ctx.Done()
					return err
				}
				job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), TTL: 6 * time.Second, Do: completes}
				start(t, a, job)
				if trigger {
					time.Sleep(time.Second)
					if err := b.Admin().Trigger(background, "tick"); err != nil {
						t.Fatal(err)
					}
				} else {
					time.Sleep(time.Hour)
				}
				time.Sleep(time.Second)
				job.Do = r.do
				start(t, b, job)
				time.Sleep(30 * time.Minute)
				synctest.Wait()
				if len(r.all()) != 1 || r.all()[0].Manual != trigger {
					t.Errorf("it ran %d times since %v: %+v", len(r.all()), begin, r.all())
				}
				info, err := b.Admin().Job(background, "tick")
				if err != nil || len(info.Runs) == 0 || info.Runs[0].Outcome != soloist.OutcomeOK {
					t.Errorf("the history (%v) does not show the completed run: %+v", err, info.Runs)
				}
			})
		})
	}
}

// A transaction whose answer is lost is not committed twice, whichever run it belongs to: the next try learns that it is done, in the same call
// of the function and in the next attempt.
func TestCompletionOfARunIsCommittedOnce(t *testing.T) {
	for name, test := range map[string]struct {
		crash   soloist.Crash
		manual  bool
		atLeast time.Duration
		again   bool // the function tries again by itself; else it fails and is retried
		once    bool // the schedule is one time, later
	}{
		"taken over":                    {soloist.CrashTakeOver, false, 0, true, false},
		"taken over, retried":           {soloist.CrashTakeOver, false, 0, false, false},
		"given up":                      {soloist.CrashGiveUp, false, 0, true, false},
		"given up, retried":             {soloist.CrashGiveUp, false, 0, false, false},
		"given up, spaced":              {soloist.CrashGiveUp, false, 90 * time.Minute, true, false},
		"manual":                        {soloist.CrashTakeOver, true, 0, true, false},
		"manual, retried":               {soloist.CrashTakeOver, true, 0, false, false},
		"manual that is given up":       {soloist.CrashGiveUp, true, 0, true, false},
		"manual that is given up later": {soloist.CrashGiveUp, true, 0, false, false},
		"manual, before the only time":  {soloist.CrashTakeOver, true, 0, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			twoReplicas(t, func(t *testing.T, _ *soloisttest.Store, direct store.Store, a, b *soloist.Client) {
				committed, runs := 0, 0
				try := func(run soloist.Run) error {
					err := commit(t, direct, run.Lease.Completion())
					if err == nil {
						committed++
						return errors.New("the answer to the commit was lost")
					}
					return err
				}
				job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Crash: test.crash, AtLeast: test.atLeast, Retry: soloist.Retry{Attempts: 3, Backoff: time.Second}}
				if test.once {
					job.Schedule = soloist.At(time.Now().Add(24 * time.Hour))
				}
				job.Do = func(_ context.Context, run soloist.Run) error {
					runs++
					err := try(run)
					if test.again {
						err = try(run)
					}
					return err
				}
				start(t, a, job)
				begin := time.Now()
				if test.manual {
					if err := b.Admin().Trigger(background, "tick"); err != nil {
						t.Fatal(err)
					}
				} else {
					time.Sleep(time.Hour)
				}
				time.Sleep(30 * time.Minute)
				synctest.Wait()
				if committed != 1 || runs != 1 {
					t.Errorf("committed %d times in %d attempts; want once in one", committed, runs)
				}
				info, err := b.Admin().Job(background, "tick")
				if err != nil || len(info.Runs) != 1 || info.Runs[0].Outcome != soloist.OutcomeOK {
					t.Errorf("the history (%v) does not show the run as done: %+v", err, info.Runs)
				}
				time.Sleep(time.Until(begin.Add(2*time.Hour + 30*time.Minute)))
				synctest.Wait()
				if want := map[bool]int{true: 3, false: 2}[test.manual]; test.atLeast == 0 && !test.once && committed != want {
					t.Errorf("%d runs were committed after the next times; want %d: the schedule goes on", committed, want)
				}
			})
		})
	}
}

// A manual run that was committed and then interrupted is not run again.
func TestCommittedManualRunThatWasInterruptedIsDone(t *testing.T) {
	twoReplicas(t, func(t *testing.T, _ *soloisttest.Store, direct store.Store, a, b *soloist.Client) {
		var r recorder
		job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Do: func(ctx context.Context, run soloist.Run) error {
			_ = r.do(ctx, run)
			if err := commit(t, direct, run.Lease.Completion()); err != nil {
				t.Error(err)
			}
			<-ctx.Done()
			return ctx.Err()
		}}
		stop := start(t, a, job)
		if err := b.Admin().Trigger(background, "tick"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		stop()
		job.Do = r.do
		start(t, b, job)
		time.Sleep(10 * time.Minute)
		if len(r.began()) != 1 {
			t.Errorf("begun %d times; want once", len(r.began()))
		}
		info, err := b.Admin().Job(background, "tick")
		if err != nil || info.Manual || len(info.Runs) != 1 || info.Runs[0].Outcome != soloist.OutcomeOK {
			t.Errorf("%+v, %v; want one run that is done", info, err)
		}
	})
}

// A lateCommit store has a COMMIT on its way that nobody waits for any more. Like those in SQL it shows the record as it was before, and changes nothing in it, until the
// transaction has ended, which is after the first reply that shows the record.
type lateCommit struct {
	*soloisttest.Store
	mu  sync.Mutex
	end func() // the transaction; nil if there is none
}

func (s *lateCommit) begin(end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end = end
}

func (s *lateCommit) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	outs, err := s.Store.Acquire(ctx, claims)
	if len(claims) != 1 || claims[0].Mark >= 0 || !strings.HasPrefix(claims[0].Name, "job/") {
		return outs, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end != nil {
		s.end()
		s.end = nil
	}
	return outs, err
}

func (s *lateCommit) Extend(ctx context.Context, extensions []store.Extension) ([]error, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if strings.HasPrefix(extensions[0].Name, "job/") && s.end != nil {
		return nil, errors.New("the row is locked")
	}
	return s.Store.Extend(ctx, extensions)
}

// A manual run whose transaction is still being committed when its function ends, as when that has stopped to wait for the COMMIT, is not taken for one that was not
// committed: it is not written over, and nobody does the work again.
func TestCommitThatIsStillOnItsWay(t *testing.T) {
	fails := func(context.Context) error { return errors.New("no reply to the COMMIT") }
	isStopped := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for _, row := range []struct {
		when string
		ends func(context.Context) error
		opts soloist.Options
	}{{"the replica shuts down", isStopped, soloist.Options{}}, {"the attempt fails", fails, soloist.Options{}}, {"the run has had its time", isStopped, soloist.Options{AtMost: 30 * time.Second}}} {
		t.Run(row.when, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				network := &lateCommit{Store: soloisttest.NewStore()}
				direct := network.Share()
				a, b := soloisttest.NewReplica(t, network, soloist.Config{Replica: "a"}), soloisttest.NewReplica(t, network.Share(), soloist.Config{Replica: "b"})
				committed := 0
				job := soloist.Job{
					Name: "tick", Schedule: soloist.Every(time.Hour), TTL: 20 * time.Second, AtMost: row.opts.AtMost, Retry: soloist.Retry{Attempts: 3, Backoff: time.Minute},
					Do: func(ctx context.Context, run soloist.Run) error {
						c := run.Lease.Completion()
						err := row.ends(ctx)
						network.begin(func() {
							if err := commit(t, direct, c); err == nil {
								committed++
							} else if !errors.Is(err, store.ErrDone) {
								t.Error(err)
							}
						})
						return err
					},
				}
				stop := start(t, a, job)
				must(t, b.Admin().Trigger(background, "tick"))
				time.Sleep(40 * time.Second)
				stop()
				job.Do = func(_ context.Context, run soloist.Run) error {
					err := commit(t, direct, run.Lease.Completion())
					if err == nil {
						committed++
					}
					return err
				}
				start(t, b, job)
				time.Sleep(10 * time.Minute)
				info, err := b.Admin().Job(background, "tick")
				if committed != 1 || err != nil || info.Manual || len(info.Runs) != 1 || info.Runs[0].Outcome != soloist.OutcomeOK {
					t.Errorf("committed %d times; %+v, %v; want one run that is done", committed, info, err)
				}
			})
		})
	}
}

// A manual run whose transaction has failed while the store could not be reached is recorded as failed when it can be again, as long as its lease lasts: nobody runs it once more.
func TestFailedManualRunIsRecordedAfterAnOutage(t *testing.T) {
	twoReplicas(t, func(t *testing.T, network *soloisttest.Store, direct store.Store, a, b *soloist.Client) {
		var r recorder
		job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), TTL: time.Minute, Do: func(ctx context.Context, run soloist.Run) error {
			_ = r.do(ctx, run)
			run.Lease.Completion()
			network.Break(errors.New("cut off"))
			time.AfterFunc(30*time.Second, network.Heal) // later than the look at what became of the transaction used to give up
			return errors.New("the transaction was rolled back")
		}}
		start(t, a, job)
		start(t, b, job)
		if err := b.Admin().Trigger(background, "tick"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		if n := len(r.began()); n != 1 {
			t.Errorf("begun %d times; want once", n)
		}
		info, err := b.Admin().Job(background, "tick")
		if err != nil || info.Manual || len(info.Runs) != 1 || info.Runs[0].Outcome != soloist.OutcomeFailed {
			t.Errorf("%+v, %v; want one run that has failed", info, err)
		}
	})
}

// What became of the transaction of a run is known at once, also when the function has gone on until its lease was over because of AtMost: the store reports
// that it is lost.
func TestWhatBecameOfAnOverrunIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var returned time.Time
		var told []string
		a := soloisttest.NewReplica(t, soloisttest.NewStore(), soloist.Config{Observe: func(_ context.Context, e soloist.Event) {
			if e.Kind == soloist.EventRunEnd {
				told = append(told, fmt.Sprint(e.Outcome, " after ", time.Since(returned)))
			}
		}})
		start(t, a, soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), TTL: 30 * time.Second, AtMost: time.Minute, Do: func(ctx context.Context, run soloist.Run) error {
			if !returned.IsZero() { // the first could not be recorded
				return nil
			}
			run.Lease.Completion()
			<-ctx.Done()
			time.Sleep(time.Minute) // the rollback takes long
			returned = time.Now()
			return context.Cause(ctx)
		}})
		must(t, a.Admin().Trigger(background, "tick"))
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if len(told) == 0 || told[0] != "failed after 0s" {
			t.Errorf("what became of the runs is told as %q", told)
		}
	})
}

// A manual run whose transaction was rolled back has failed, whatever the record had done before.
func TestManualRunThatWasNotCommittedHasFailed(t *testing.T) {
	twoReplicas(t, func(t *testing.T, _ *soloisttest.Store, _ store.Store, a, b *soloist.Client) {
		start(t, a, soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Do: func(_ context.Context, run soloist.Run) error {
			run.Lease.Completion()
			if run.Manual {
				return errors.New("the transaction was rolled back")
			}
			return nil
		}})
		time.Sleep(90 * time.Minute)
		if err := b.Admin().Trigger(background, "tick"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		info, err := b.Admin().Job(background, "tick")
		if n := len(info.Runs); err != nil || n != 2 || !info.Runs[1].Manual || info.Runs[1].Outcome != soloist.OutcomeFailed {
			t.Errorf("the history is %+v, %v; want a run, and a manual one that has failed", info.Runs, err)
		}
	})
}

// What a transaction has written is not replaced by what was set before it, when the lease is released.
func TestReleaseLeavesWhatTheTransactionWrote(t *testing.T) {
	twoReplicas(t, func(t *testing.T, _ *soloisttest.Store, direct store.Store, a, _ *soloist.Client) {
		el, err := a.Elements("invoices", soloist.ElementsOptions{}).Claim(background, "4711")
		if err != nil {
			t.Fatal(err)
		}
		if err := el.SetState(background, []byte("half")); err != nil {
			t.Fatal(err)
		}
		c := el.Completion()
		if err := commit(t, direct, c); err != nil {
			t.Fatal(err)
		}
		if err := el.Release(); err != nil {
			t.Fatal(err)
		}
		outs, err := direct.Acquire(background, []store.Claim{{Name: c.Name, Holder: "look", TTL: time.Second, Mark: -1}})
		var is *store.DoneError
		if err != nil || !errors.As(outs[0].Err, &is) || is.Record.Mark != c.Mark || len(is.Record.State) != 0 {
			t.Errorf("%v, %+v; want the mark %d and no state", err, outs, c.Mark)
		}
	})
}

// A manual run that was committed, and of which its replica cannot learn that before its lease ends, is not written over by what the replica releases in the rest of the
// lease that the store has.
func TestWhatWasCommittedIsNotWrittenOverInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		network := soloisttest.NewStore()
		direct := network.Share()
		a, b := soloisttest.NewReplica(t, network, soloist.Config{RequestTimeout: time.Second}), soloisttest.NewReplica(t, direct.Share(), soloist.Config{})
		job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), TTL: time.Minute, Do: func(ctx context.Context, run soloist.Run) error {
			_ = r.do(ctx, run)
			if err := commit(t, direct, run.Lease.Completion()); err != nil {
				t.Error(err)
			}
			network.Break(errors.New("cut off"))
			time.AfterFunc(57*time.Second, network.Heal) // the lease is believed in for 54 s, and the record is asked for until 56 s at most
			return errors.New("the answer to the commit was lost")
		}}
		start(t, a, job)
		if err := b.Admin().Trigger(background, "tick"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		if n := len(r.began()); n != 1 {
			t.Errorf("begun %d times; want once", n)
		}
		info, err := b.Admin().Job(background, "tick")
		if err != nil || info.Manual || len(info.Runs) != 1 || info.Runs[0].Outcome != soloist.OutcomeOK {
			t.Errorf("%+v, %v; want one run that is done", info, err)
		}
	})
}

// A jobBlind store does not tell what the record of a job has, nor take a new state for it, while it is told so. It takes all else.
type jobBlind struct {
	*soloisttest.Store
	is atomic.Bool
}

func (s *jobBlind) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	if s.is.Load() && len(claims) == 1 && claims[0].Mark < 0 && strings.HasPrefix(claims[0].Name, "job/") {
		return nil, errors.New("not now")
	}
	return s.Store.Acquire(ctx, claims)
}

func (s *jobBlind) Extend(ctx context.Context, extensions []store.Extension) ([]error, error) {
	if s.is.Load() && extensions[0].State != nil {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.Store.Extend(ctx, extensions)
}

// A manual run that was committed, and of which its replica cannot learn that although it has its lease, is not written over before its next attempt: if the replica dies
// in the pause, nobody runs it again.
func TestWhatWasCommittedIsNotWrittenOverBetweenAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		network := &jobBlind{Store: soloisttest.NewStore()}
		direct := network.Share()
		job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), TTL: 6 * time.Second, Retry: soloist.Retry{Attempts: 3, Backoff: 10 * time.Minute}}
		job.Do = func(ctx context.Context, run soloist.Run) error {
			_ = r.do(ctx, run)
			must(t, commit(t, direct, run.Lease.Completion()))
			network.is.Store(true)
			return errors.New("the answer to the commit was lost")
		}
		start(t, soloisttest.NewReplica(t, network, soloist.Config{}), job)
		b := soloisttest.NewReplica(t, network.Share(), soloist.Config{})
		must(t, b.Admin().Trigger(background, "tick"))
		time.Sleep(time.Minute)
		network.Stall()
		job.Do = r.do
		start(t, b, job)
		time.Sleep(20 * time.Minute)
		network.is.Store(false)
		network.Heal()
		info, err := b.Admin().Job(background, "tick")
		if n := len(r.began()); err != nil || n != 1 || info.Manual || len(info.Runs) != 1 || info.Runs[0].Outcome != soloist.OutcomeOK {
			t.Errorf("begun %d times; %+v, %v; want one run that is done", n, info, err)
		}
	})
}

// A run that was committed, and of which its replica cannot learn that although it has its lease, is not attempted again: the job is given back, and its next holder finds
// in its grant what was committed.
func TestWhatWasCommittedIsNotAttemptedAgain(t *testing.T) {
	for what, manual := range map[string]bool{"scheduled": false, "manual": true} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var r recorder
				network := &jobBlind{Store: soloisttest.NewStore()}
				direct := network.Share()
				a := soloisttest.NewReplica(t, network, soloist.Config{})
				start(t, a, soloist.Job{
					Name: "tick", Schedule: soloist.Every(time.Hour), TTL: 6 * time.Second, Retry: soloist.Retry{Attempts: 3, Backoff: time.Second},
					Do: func(ctx context.Context, run soloist.Run) error {
						_ = r.do(ctx, run)
						must(t, commit(t, direct, run.Lease.Completion()))
						network.is.Store(true)
						return errors.New("the answer to the commit was lost")
					},
				})
				began := time.Now().UTC()
				if manual {
					must(t, a.Admin().Trigger(background, "tick"))
				} else {
					time.Sleep(time.Until(began.Truncate(time.Hour).Add(time.Hour)))
				}
				time.Sleep(10 * time.Minute)
				network.is.Store(false)
				time.Sleep(10 * time.Minute)
				info, err := a.Admin().Job(background, "tick")
				if n := len(r.began()); err != nil || n != 1 || info.Manual || len(info.Runs) != 1 || info.Runs[0].Outcome != soloist.OutcomeOK {
					t.Errorf("begun %d times; %+v, %v; want one run that is done", n, info, err)
				}
			})
		})
	}
}

// Run ends although nobody can say yet whether a run was committed: its replica asks for that no longer than two requests may take.
func TestRunEndsInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := &jobBlind{Store: soloisttest.NewStore()}
		a := soloisttest.NewReplica(t, network, soloist.Config{RequestTimeout: 2 * time.Second, Drain: time.Second})
		stop := start(t, a, soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Do: func(_ context.Context, run soloist.Run) error {
			run.Lease.Completion()
			network.is.Store(true)
			return errors.New("the answer to the commit was lost")
		}})
		must(t, a.Admin().Trigger(background, "tick"))
		time.Sleep(10 * time.Minute)
		began := time.Now()
		stop()
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("Run ended after %v; want Drain and two requests at most", took)
		}
		network.is.Store(false)
	})
}

// A run that is not over when Close stops waiting for it is left to end by itself, which shows the next holder that this one had died in it: a release without what the run leaves would
// be the end of it, for it is later than Grace. Its function has returned, and nobody can say whether its transaction was committed, or how it ended is still being recorded.
func TestCloseLeavesARunThatIsNotOver(t *testing.T) {
	for what, completes := range map[string]bool{"in doubt": true, "being recorded": false} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var r recorder
				network := &jobBlind{Store: soloisttest.NewStore()}
				a := soloisttest.NewReplica(t, network, soloist.Config{RequestTimeout: 2 * time.Second})
				b := soloisttest.NewReplica(t, network.Share(), soloist.Config{})
				job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Grace: time.Minute, Retry: soloist.Retry{Attempts: 3}}
				job.Do = func(ctx context.Context, run soloist.Run) error {
					_ = r.do(ctx, run)
					time.Sleep(10 * time.Minute)
					if completes {
						run.Lease.Completion()
					}
					network.is.Store(true)
					return errors.New("the transaction was rolled back")
				}
				start(t, a, job)
				time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour + 10*time.Minute + 100*time.Millisecond)))
				if err := a.Close(); err == nil || !strings.Contains(err.Error(), "tick") {
					t.Errorf("Close: %v; want that it names the job", err)
				}
				job.Do = r.do
				start(t, b, job)
				time.Sleep(time.Minute)
				if all := r.all(); len(all) != 2 || all[1].Attempt != 2 || !all[1].ScheduledAt.Equal(all[0].ScheduledAt) {
					t.Errorf("begun: %+v; want that b takes it over", all)
				}
			})
		})
	}
}

// A run that was not committed, and of which its replica cannot learn that for a while, is attempted again although it is later than Grace by then.
func TestWhatWasNotCommittedIsAttemptedAgain(t *testing.T) {
	for what, blind := range map[string]time.Duration{"within the lease as it was": 3 * time.Second, "longer": time.Minute} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var r recorder
				s := &jobBlind{Store: soloisttest.NewStore()}
				a := soloisttest.NewReplica(t, s, soloist.Config{})
				start(t, a, soloist.Job{
					Name: "tick", Schedule: soloist.Every(time.Hour), TTL: 6 * time.Second, Grace: time.Minute, Retry: soloist.Retry{Attempts: 3, Backoff: time.Second},
					Do: func(ctx context.Context, run soloist.Run) error {
						_ = r.do(ctx, run)
						if run.Attempt > 1 {
							return nil
						}
						time.Sleep(10 * time.Minute)
						run.Lease.Completion()
						s.is.Store(true)
						time.AfterFunc(blind, func() { s.is.Store(false) })
						return errors.New("the transaction was rolled back")
					},
				})
				time.Sleep(90 * time.Minute)
				info, err := a.Admin().Job(background, "tick")
				if n := len(r.began()); err != nil || n != 2 || len(info.Runs) != 2 || info.Runs[0].Outcome != soloist.OutcomeFailed || info.Runs[1].Outcome != soloist.OutcomeOK {
					t.Errorf("begun %d times; %+v, %v; want one run that fails and then is done", n, info, err)
				}
			})
		})
	}
}

// A run that is lost while nobody can say whether it was committed is taken over, although it is later than Grace by then: its lease is left to end by itself, which shows the next
// holder that this one had died in it.
func TestRunThatIsLostInDoubtIsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		network := soloisttest.NewStore()
		job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), TTL: time.Minute, Grace: time.Minute, Do: func(ctx context.Context, run soloist.Run) error {
			if _ = r.do(ctx, run); run.Attempt > 1 || len(r.began()) == 1 {
				return nil
			}
			time.Sleep(10*time.Minute + time.Second) // the lease was renewed a second ago
			run.Lease.Completion()
			network.Break(errors.New("cut off"))
			time.AfterFunc(55*time.Second, network.Heal) // the lease is believed in for 53 s, and the record is asked for until 55 s at most
			return errors.New("the transaction was rolled back")
		}}
		start(t, soloisttest.NewReplica(t, network, soloist.Config{RequestTimeout: time.Second}), job)
		time.Sleep(125 * time.Minute)
		b := soloisttest.NewReplica(t, network.Share(), soloist.Config{})
		start(t, b, job)
		time.Sleep(20 * time.Minute)
		info, err := b.Admin().Job(background, "tick")
		if n := len(r.began()); err != nil || n != 3 || len(info.Runs) != 3 || info.Runs[2].Outcome != soloist.OutcomeOK || info.Runs[2].Attempt != 2 {
			t.Errorf("begun %d times; %+v, %v; want that it is taken over", n, info, err)
		}
	})
}

// The state that a run has set before it was committed is found by the next run, although the replica died after the commit.
func TestCommittedRunLeavesItsState(t *testing.T) {
	twoReplicas(t, func(t *testing.T, network *soloisttest.Store, direct store.Store, a, b *soloist.Client) {
		var found []string
		job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), TTL: 6 * time.Second, Do: func(ctx context.Context, run soloist.Run) error {
			if found = append(found, string(run.Lease.State())); len(found) > 1 {
				return nil
			}
			must(t, run.Lease.SetState(ctx, []byte("page 7")))
			must(t, commit(t, direct, run.Lease.Completion()))
			network.Break(nil)
			<-ctx.Done()
			return ctx.Err()
		}}
		start(t, a, job)
		time.Sleep(61 * time.Minute)
		start(t, b, job)
		time.Sleep(time.Hour)
		synctest.Wait()
		check(t, "states that were found", found, []string{"", "page 7"})
		network.Heal()
	})
}

// A run whose completion was committed is told of as one that has succeeded: when its function has learned that, although the store is away then, and when only the record shows
// it, although it can be read no sooner than when the lease is lost.
func TestCommittedRunHasSucceeded(t *testing.T) {
	for what, test := range map[string]struct {
		again bool // the function tries again, and learns that it is done
		away  time.Duration
	}{"as the function knows": {true, time.Minute}, "as the record shows": {false, 8 * time.Second}} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var w witness
				network := soloisttest.NewStore()
				direct := network.Share()
				job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), TTL: 6 * time.Second, Do: func(ctx context.Context, run soloist.Run) error {
					must(t, commit(t, direct, run.Lease.Completion()))
					err := errors.New("the answer to the commit was lost")
					if test.again {
						err = commit(t, direct, run.Lease.Completion())
					}
					network.Break(nil)
					time.AfterFunc(test.away, network.Heal)
					return err
				}}
				start(t, soloisttest.NewReplica(t, network, soloist.Config{Observe: w.observe, RequestTimeout: 5 * time.Second}), job)
				time.Sleep(62 * time.Minute)
				if ends := w.of(soloist.EventRunEnd); len(ends) != 1 || ends[0].Outcome != soloist.OutcomeOK || ends[0].Err != nil {
					t.Errorf("told of %+v", ends)
				}
			})
		})
	}
}

// A run in doubt whose scheduled time is over is in the history, though nobody could say whether its completion was committed.
func TestRunInDoubtIsInTheHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := soloisttest.NewStore()
		start(t, soloisttest.NewReplica(t, s, soloist.Config{RequestTimeout: time.Second}), soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), TTL: time.Minute, Retry: soloist.Retry{Attempts: 1}, Do: func(_ context.Context, run soloist.Run) error {
			run.Lease.Completion()
			s.Break(errors.New("cut off"))
			time.AfterFunc(57*time.Second, s.Heal) // the lease is believed in for 54 s, and the record is asked for until 56 s at most
			return errors.New("the transaction was rolled back")
		}})
		time.Sleep(62 * time.Minute)
		info, err := soloisttest.NewReplica(t, s.Share(), soloist.Config{}).Admin().Job(background, "tick")
		if err != nil || len(info.Runs) != 1 || info.Runs[0].Outcome != soloist.OutcomeLost {
			t.Errorf("%+v, %v; want one run that was lost", info.Runs, err)
		}
	})
}
