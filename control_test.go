package soloist_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
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

// What was asked of a job cannot be read: nobody knows whether it is paused, so it is not run, however the replica learns of it. Other jobs go on.
func TestUnreadableControlIsNoLeaveToRun(t *testing.T) {
	for _, state := range []string{"?????", `{"trigger":-1}`, `{"resumed":-1}`} {
		t.Run(state, func(t *testing.T) { testUnreadableControl(t, state) })
	}
}

func testUnreadableControl(t *testing.T, state string) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		var spoiled, good recorder
		jobs := []soloist.Job{
			{Name: "spoiled", Schedule: soloist.Every(time.Second), Do: spoiled.do},
			{Name: "good", Schedule: soloist.Every(time.Second), Do: good.do},
		}
		stop := start(t, a, jobs...)
		time.Sleep(1500 * time.Millisecond)
		stop()
		if len(spoiled.all()) != 1 {
			t.Fatalf("ran %d times before, want once", len(spoiled.all()))
		}
		if err := a.Admin().Pause(background, "spoiled", "the books are open"); err != nil {
			t.Fatal(err)
		}
		spoil(t, s, "control/spoiled", state)
		start(t, a, jobs...)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := len(spoiled.all()); n != 1 {
			t.Errorf("a job of which nobody knows whether it is paused ran %d times", n-1)
		}
		if n := len(good.all()); n < 9 {
			t.Errorf("the other job ran %d times, want it to go on", n)
		}
	})
}

// While nobody knows what was asked of all jobs, they are not claimed either, and run again soon after the record has been mended.
func TestUnreadableControlOfAllIsNotAskedForWithoutEnd(t *testing.T) {
	for watch, watches := range map[string]func(context.Context) <-chan struct{}{"silent": watches["silent"], "none": watches["nil"]} {
		t.Run(watch, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const enough = 1000
				s := &metered{Store: memstore.New(), most: 100 * enough, watch: watches}
				c, err := soloist.New(s, soloist.Config{Logger: slog.New(slog.DiscardHandler)})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				spoil(t, s.Store, "control-of-all", "?????")
				var x, y recorder
				ctx, cancel := context.WithCancel(background)
				ended := make(chan error, 1)
				go func() {
					ended <- c.Run(ctx,
						soloist.Job{Name: "x", Schedule: soloist.Every(time.Minute), Do: x.do}, soloist.Job{Name: "y", Schedule: soloist.Delay(time.Minute), Do: y.do})
				}()
				time.Sleep(10 * time.Minute)
				claims, runs := s.claims.Load(), len(x.all())+len(y.all())
				if runs != 0 || claims > enough {
					t.Errorf("%d runs, %d requests in ten minutes; want no run, and at most %d", runs, claims, enough)
				}
				spoil(t, s.Store, "control-of-all", "")
				time.Sleep(2 * time.Minute)
				if len(x.all()) == 0 || len(y.all()) == 0 {
					t.Errorf("%d and %d runs after the record was mended", len(x.all()), len(y.all()))
				}
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// spoil writes something into a record that no client has written.
func spoil(t *testing.T, s store.Store, name, state string) {
	t.Helper()
	outcomes, err := s.Acquire(background, []store.Claim{{Name: name, Holder: "spoiler", TTL: time.Minute}})
	if err != nil || outcomes[0].Err != nil {
		t.Fatal(err, outcomes)
	}
	errs, err := s.Release(background, []store.Release{{
		Name: name, Holder: "spoiler", Token: outcomes[0].Grant.Token, State: []byte(state), Retain: store.Forever,
	}})
	if err := errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
}

// A blind store does not show what was asked of jobs, as if those records were damaged, and notifies nobody.
type blind struct {
	*soloisttest.Store
	to    string // what begins so, if it can be claimed
	lists bool   // and in lists
	on    atomic.Bool
}

func (s *blind) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	outs, err := s.Store.Acquire(ctx, claims)
	for i, c := range claims {
		if err == nil && s.on.Load() && s.to != "" && strings.HasPrefix(c.Name, s.to) {
			outs[i] = store.Outcome{Err: errors.New("the record is damaged")}
		}
	}
	return outs, err
}

func (s *blind) List(ctx context.Context, prefix string) iter.Seq2[store.Record, error] {
	if s.on.Load() && s.lists && strings.HasPrefix(prefix, "control/") {
		return func(yield func(store.Record, error) bool) { yield(store.Record{}, errors.New("the record is damaged")) }
	}
	return s.Store.List(ctx, prefix)
}

func (s *blind) Watch(context.Context, []string) (<-chan struct{}, error) {
	return nil, errors.ErrUnsupported
}

// A job that was paused does not run on a replica that cannot read that, whatever the reason, nor one of which nobody knows; and both go on when it can be read again.
func TestWhatCannotBeReadIsNoLeaveToRun(t *testing.T) {
	for name, test := range map[string]struct {
		to    string
		lists bool
		log   string
		all   bool // no job can run
	}{
		"whether anything has changed":  {"controls", true, "", false},
		"what has changed":              {"", true, "", false},
		"what was asked of the job":     {"control/tick", true, "not starting a job whose pause could not be read", false},
		"what was asked of all jobs":    {"control-of-all", true, "not starting a job whose pause could not be read", true},
		"what was asked, but in a list": {"control/tick", false, "", false},
		"the job":                       {"job/tick", true, "claiming a job", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log strings.Builder
				var paused, other recorder
				s := &blind{Store: soloisttest.NewStore(), to: test.to, lists: test.lists}
				admin := soloisttest.NewReplica(t, s.Share(), soloist.Config{}).Admin()
				stop := start(t, soloisttest.NewReplica(t, s, soloist.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}),
					soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), Do: paused.do}, soloist.Job{Name: "tock", Schedule: soloist.Every(time.Minute), Do: other.do})
				time.Sleep(90 * time.Second)
				check(t, "runs before", len(paused.all())+len(other.all()), 2)
				check(t, "a job is logged about", strings.Contains(log.String(), "level=WARN"), false)
				s.on.Store(true)
				must(t, admin.Pause(background, "tick", "a test"))
				time.Sleep(3 * time.Minute)
				synctest.Wait()
				check(t, "runs in a pause", len(paused.all())-1, 0)
				check(t, "runs of the other job", len(other.all())-1, map[bool]int{true: 0, false: 3}[test.all])
				check(t, "it is logged", strings.Contains(log.String(), test.log), true)
				s.on.Store(false)
				must(t, admin.Resume(background, "tick"))
				time.Sleep(2 * time.Minute)
				stop()
				check(t, "runs after it", len(paused.all())-1, 2)
				if n := len(other.all()) - 1; n < 2 {
					t.Errorf("the other job ran %d times", n)
				}
			})
		})
	}
}

// A manual run comes before a scheduled time that is due, and does not make that done, whatever the policy for crashes.
func TestManualRunComesBeforeWhatIsDue(t *testing.T) {
	for _, crash := range []soloist.Crash{soloist.CrashTakeOver, soloist.CrashGiveUp} {
		synctest.Test(t, func(t *testing.T) {
			s := soloisttest.NewStore()
			var r recorder
			begin := time.Now()
			start(t, soloisttest.NewReplica(t, s, soloist.Config{}), soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), Crash: crash, Do: r.do})
			time.Sleep(55 * time.Second)
			s.Break(errors.New("away")) // for a moment, in which the minute is over
			time.Sleep(8 * time.Second)
			must(t, soloisttest.NewReplica(t, s.Share(), soloist.Config{}).Admin().Trigger(background, "tick"))
			s.Heal()
			time.Sleep(20 * time.Second)
			synctest.Wait()
			if all := r.all(); len(all) != 2 || !all[0].Manual || all[1].Manual || all[1].ScheduledAt.Sub(begin) != time.Minute {
				t.Errorf("%v: %+v", crash, all)
			}
		})
	}
}

// That a replica could not read once what was asked of all jobs, when something else had changed, keeps no job from running that is due soon after.
func TestCommandsThatCannotBeReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tick recorder
		s := &blind{Store: soloisttest.NewStore(), to: "control-of-all"}
		admin := soloisttest.NewReplica(t, s.Share(), soloist.Config{}).Admin()
		start(t, soloisttest.NewReplica(t, s, soloist.Config{}), soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), Do: tick.do},
			soloist.Job{Name: "other", Schedule: soloist.Every(time.Hour), Do: nothing})
		time.Sleep(55 * time.Second)
		s.on.Store(true)
		must(t, admin.Pause(background, "other", "a test"))
		time.Sleep(4990 * time.Millisecond) // it has looked by now, and looks again in 4 s at most
		s.on.Store(false)
		time.Sleep(20 * time.Millisecond)
		synctest.Wait()
		check(t, "runs", len(tick.all()), 1)
	})
}

// A slowWrite store takes its time to carry out what changes the commands to a job.
type slowWrite struct{ *soloisttest.Store }

func (s slowWrite) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	if strings.HasPrefix(releases[0].Name, "control/") {
		time.Sleep(3 * time.Second)
	}
	return s.Store.Release(ctx, releases)
}

// A replica that comes while somebody pauses a job, and reads what was asked of it before that is written, does not run it in the pause.
func TestReplicaThatComesDuringAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		s := soloisttest.NewStore()
		job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), Do: r.do}
		start(t, soloisttest.NewReplica(t, s, soloist.Config{}), job)()
		paused := make(chan error, 1)
		go func() {
			paused <- soloisttest.NewReplica(t, slowWrite{s.Share()}, soloist.Config{}).Admin().Pause(background, "tick", "a test")
		}()
		time.Sleep(time.Second)
		start(t, soloisttest.NewReplica(t, s.Share(), soloist.Config{}), job)
		time.Sleep(time.Second)
		select {
		case <-paused:
			t.Fatal("the pause does not take its time")
		default:
		}
		must(t, <-paused)
		time.Sleep(5 * time.Minute)
		check(t, "runs in a pause", len(r.all()), 0)
	})
}

// A failsAt store fails one request.
type failsAt struct {
	*soloisttest.Store
	left atomic.Int64 // requests before it
}

var errOnce = errors.New("the request that fails")

func (s *failsAt) fails() bool { return s.left.Add(-1) == 0 }

func (s *failsAt) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	if s.fails() {
		return nil, errOnce
	}
	return s.Store.Acquire(ctx, claims)
}

func (s *failsAt) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	if s.fails() {
		return slices.Repeat([]error{errOnce}, len(releases)), nil
	}
	return s.Store.Release(ctx, releases)
}

// Whichever request of a change fails, the call says so, or else it was made: it is in effect, and in the list of actions.
func TestChangeThatFailsIsAnError(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*soloist.Admin) error
		action soloist.Action
		runs   int // in the next minute
	}{
		"Pause":   {func(a *soloist.Admin) error { return a.Pause(background, "tick", "a test") }, soloist.Action{Verb: soloist.ActionPause, Reason: "a test"}, 0},
		"Resume":  {func(a *soloist.Admin) error { return a.Resume(background, "tock") }, soloist.Action{Verb: soloist.ActionResume}, 2},
		"Trigger": {func(a *soloist.Admin) error { return a.Trigger(background, "tick") }, soloist.Action{Verb: soloist.ActionTrigger}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			failed, succeeded := 0, false
			for at := int64(1); !succeeded && at < 50; at++ {
				synctest.Test(t, func(t *testing.T) {
					var r recorder
					s := &failsAt{Store: soloisttest.NewStore()}
					a := soloisttest.NewReplica(t, s.Share(), soloist.Config{})
					stop := start(t, a, soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), Do: r.do}, soloist.Job{Name: "tock", Schedule: soloist.Every(time.Minute), Do: r.do})
					must(t, a.Admin().Pause(background, "tock", "a test"))
					admin := soloisttest.NewReplica(t, s, soloist.Config{Replica: "operator"}).Admin()
					s.left.Store(at)
					asked := time.Now().UTC()
					err := test.change(admin)
					succeeded = s.left.Load() > 0
					if err != nil && !errors.Is(err, errOnce) {
						t.Errorf("without request %d: %v", at, err)
					}
					if err != nil {
						failed++
						return
					}
					actions, err := collect(a.Admin().Actions(background))
					if err != nil || len(actions) != 2 {
						t.Fatalf("without request %d: actions %+v, %v", at, actions, err)
					}
					last := actions[1]
					if last.Verb != test.action.Verb || last.Kind != soloist.KindJob || last.By != "operator" || last.Reason != test.action.Reason || last.At.Before(asked) {
						t.Errorf("without request %d: the action is %+v", at, last)
					}
					if info, err := a.Admin().Job(background, "tick"); name == "Pause" && (err != nil || info.Paused == nil || info.Paused.By != "operator" || info.Paused.At.Before(asked) || info.Paused.Reason != "a test") {
						t.Errorf("without request %d: paused %+v, %v", at, info.Paused, err)
					}
					time.Sleep(61 * time.Second)
					stop()
					check(t, "runs", len(r.all()), test.runs)
				})
			}
			if failed < 3 || !succeeded {
				t.Errorf("%d requests failed", failed)
			}
		})
	}
}

// A readOnly store cannot release a name.
type readOnly struct {
	*soloisttest.Store
	name string
}

func (s readOnly) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	if releases[0].Name == s.name {
		return slices.Repeat([]error{errOnce}, len(releases)), nil
	}
	return s.Store.Release(ctx, releases)
}

// A change is an error also if it is its record, or the news of it, or the list of actions alone that cannot be written.
func TestChangeThatCannotBeWrittenIsAnError(t *testing.T) {
	for _, name := range []string{"control/tick", "controls", "actions"} {
		synctest.Test(t, func(t *testing.T) {
			s := soloisttest.NewStore()
			start(t, soloisttest.NewReplica(t, s.Share(), soloist.Config{}), soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), Do: nothing})
			err := soloisttest.NewReplica(t, readOnly{s, name}, soloist.Config{}).Admin().Pause(background, "tick", "a test")
			if !errors.Is(err, errOnce) {
				t.Errorf("without %q: %v", name, err)
			}
		})
	}
}

// What is asked of a job that nobody has, or of a name that is none, is an error, and leaves nothing behind.
func TestNobodyIsAskedForNoJob(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		for what, change := range map[string]func(*soloist.Admin, string) error{
			"Pause":   func(a *soloist.Admin, job string) error { return a.Pause(background, job, "a test") },
			"Resume":  func(a *soloist.Admin, job string) error { return a.Resume(background, job) },
			"Trigger": func(a *soloist.Admin, job string) error { return a.Trigger(background, job) },
			"TriggerAndWait": func(a *soloist.Admin, job string) error {
				_, err := a.TriggerAndWait(background, job)
				return err
			},
		} {
			if err := change(a.Admin(), "none"); !errors.Is(err, soloist.ErrNoJob) {
				t.Errorf("%s of a job that nobody has: %v", what, err)
			}
			if err := change(a.Admin(), strings.Repeat("x", 1000)); err == nil {
				t.Errorf("%s of a name that is none succeeds", what)
			}
		}
		for r, err := range s.List(background, "control/") {
			if err != nil || len(r.State) > 0 {
				t.Errorf("left behind: %+v, %v", r, err)
			}
		}
		if actions, err := collect(a.Admin().Actions(background)); err != nil || len(actions) != 0 {
			t.Errorf("actions: %+v, %v", actions, err)
		}
	})
}

// A manual run that is asked for while another one is under way comes after that. Before it has begun, asking again has no effect.
func TestManualRunBesideAnother(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		var r recorder
		start(t, a, soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Do: func(ctx context.Context, run soloist.Run) error {
			defer time.Sleep(10 * time.Second)
			return r.do(ctx, run)
		}})
		must(t, b.Admin().Trigger(background, "tick"))
		time.Sleep(5 * time.Second)
		check(t, "begun", len(r.all()), 1)
		must(t, b.Admin().Trigger(background, "tick"))
		must(t, b.Admin().Trigger(background, "tick"))
		time.Sleep(time.Minute)
		check(t, "begun", len(r.all()), 2)
	})
}

// A manual run has another number than those that the job's record knows of, though the record that counts them was removed: it is run, and waited for.
func TestManualRunAfterItsCountIsLost(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		var r recorder
		start(t, a, soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Do: func(ctx context.Context, run soloist.Run) error {
			defer time.Sleep(10 * time.Second)
			return r.do(ctx, run)
		}})
		for i := range 3 {
			asked := time.Now()
			run, err := b.Admin().TriggerAndWait(background, "tick")
			if err != nil || run.ScheduledAt.Before(asked) {
				t.Errorf("asked for at %v: %+v, %v", asked, run, err)
			}
			check(t, "begun", len(r.all()), i+1)
			spoil(t, s, "control/tick", "")
		}
		must(t, b.Admin().Trigger(background, "tick"))
		time.Sleep(5 * time.Second)
		spoil(t, s, "control/tick", "") // while the fourth run is under way
		must(t, b.Admin().Trigger(background, "tick"))
		time.Sleep(time.Minute)
		check(t, "begun", len(r.all()), 5)
	})
}

// Who waits for a manual run is told of that run, and not of one that was asked for and run meanwhile.
func TestRunThatIsWaitedForIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := soloisttest.NewReplica(t, deaf{soloisttest.NewStore()}, soloist.Config{})
		failed, begun := errors.New("the first one failed"), 0
		start(t, c, soloist.Job{Name: "tick", Schedule: soloist.Every(24 * time.Hour), Do: func(context.Context, soloist.Run) error {
			if begun++; begun > 1 {
				return nil
			}
			time.Sleep(30 * time.Second)
			return failed
		}})
		time.AfterFunc(10*time.Second, func() { must(t, c.Admin().Trigger(background, "tick")) })
		run, err := c.Admin().TriggerAndWait(background, "tick")
		if err != nil || begun != 2 || run.Outcome != soloist.OutcomeFailed || run.Error != failed.Error() {
			t.Errorf("after %d runs the first one is told as %+v, %v", begun, run, err)
		}
	})
}

// Who waits for a manual run does not wait on when the job was forgotten, nor for the run of a job that was registered anew.
func TestManualRunOfAForgottenJob(t *testing.T) {
	for name, anew := range map[string]bool{"forgotten": false, "registered anew": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
				job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Do: nothing}
				start(t, a, job)
				time.Sleep(time.Second)
				s.Break(errors.New("away")) // a has the job by its record, and runs nothing
				waits := s.Share()
				ended := make(chan error, 1)
				go func() {
					_, err := soloisttest.NewReplica(t, waits, soloist.Config{}).Admin().TriggerAndWait(background, "tick")
					ended <- err
				}()
				time.Sleep(20 * time.Second)
				if anew {
					waits.Break(errors.New("away"))
				}
				time.Sleep(20 * time.Second)
				must(t, b.Admin().Forget(background, "tick"))
				if anew {
					start(t, b, job)
					time.Sleep(time.Second)
					waits.Heal()
				}
				time.Sleep(20 * time.Second)
				select {
				case err := <-ended:
					if err == nil || errors.Is(err, soloist.ErrNoJob) == anew {
						t.Error(err)
					}
				default:
					t.Error("it waits still")
				}
			})
		})
	}
}

// Who waits for a manual run while its job is being forgotten waits for the end of that, and then says that there is no such job.
func TestManualRunWhileItsJobIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := soloisttest.NewStore()
		has := network.Share()
		start(t, soloisttest.NewReplica(t, has, soloist.Config{}), soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Do: nothing})
		time.Sleep(time.Second)
		has.Break(errors.New("away"))
		ended := make(chan error, 1)
		go func() {
			_, err := soloisttest.NewReplica(t, network.Share(), soloist.Config{}).Admin().TriggerAndWait(background, "tick")
			ended <- err
		}()
		time.Sleep(40 * time.Second)
		forgets := &troubled{Store: network.Share(), released: func(rel store.Release) {
			if rel.Name == "control/tick" { // then the record of the job comes
				time.Sleep(3 * time.Second)
			}
		}}
		must(t, soloisttest.NewReplica(t, forgets, soloist.Config{RequestTimeout: 10 * time.Second}).Admin().Forget(background, "tick"))
		wantIs(t, "waiting for the run", <-ended, soloist.ErrNoJob)
	})
}

// A silent store carries out claims of a name, and does not reply to them while it is on.
type silent struct {
	*soloisttest.Store
	name string
	on   atomic.Bool
}

func (s *silent) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	outs, err := s.Store.Acquire(ctx, claims)
	if s.on.Load() && slices.ContainsFunc(claims, func(c store.Claim) bool { return c.Name == s.name }) {
		return nil, store.AsUnknown(errors.New("lost"))
	}
	return outs, err
}

// The record whose token is the version of the controls is not forgotten when a change that got no reply gives it back: a replica that has read the controls before the first
// change, and nothing since, would take what it knows for the latest, and run a job in a pause.
func TestVersionOfTheControlsIsNotForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		start(t, a, soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Do: nothing})
		time.Sleep(time.Second)
		must(t, b.Admin().Pause(background, "tick", "a test"))
		loses := &silent{Store: s.Share(), name: "controls"}
		loses.on.Store(true)
		ctx, cancel := context.WithTimeout(background, 3*time.Second)
		defer cancel()
		if err := soloisttest.NewReplica(t, loses, soloist.Config{RequestTimeout: time.Second}).Admin().Resume(ctx, "tick"); err == nil {
			t.Fatal("the change got a reply")
		}
		loses.on.Store(false)
		time.Sleep(3 * time.Hour)
		if _, err := s.Sweep(background, 1000); err != nil {
			t.Fatal(err)
		}
		records, err := collect(s.List(background, "controls"))
		if err != nil || len(records) != 1 || records[0].Token == 0 || !records[0].Free() {
			t.Errorf("%+v, %v", records, err)
		}
	})
}

// Where the store cannot notify, a manual run begins soon all the same.
func TestManualRunWithoutNotifications(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		s := deaf{soloisttest.NewStore()}
		c := soloisttest.NewReplica(t, s, soloist.Config{})
		start(t, c, soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Do: r.do})
		for i := range 5 {
			time.Sleep(time.Minute)
			must(t, c.Admin().Trigger(background, "tick"))
			time.Sleep(2*2*time.Second + time.Second)
			check(t, "manual runs", len(r.all()), i+1)
		}
	})
}

// Who waits for a manual run learns that the record in which it is to be found cannot be read, and waits for as long as the context lasts if nobody ends the run.
func TestWaitingForAManualRunEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		start(t, a, soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Do: func(ctx context.Context, _ soloist.Run) error { <-ctx.Done(); return ctx.Err() }})
		ctx, cancel := context.WithTimeout(background, 5*time.Minute)
		defer cancel()
		before := s.Calls()
		if _, err := b.Admin().TriggerAndWait(ctx, "tick"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a run that does not end: %v", err)
		}
		if calls := s.Calls() - before; calls > 1000 {
			t.Errorf("%d requests in five minutes", calls)
		}
		ended := make(chan error, 1)
		go func() {
			_, err := b.Admin().TriggerAndWait(background, "tick")
			ended <- err
		}()
		time.Sleep(time.Minute)
		info, err := a.Admin().Job(background, "tick")
		if err != nil || info.Running == nil {
			t.Fatal(info, err)
		}
		direct := s.Share()
		s.Break(nil) // or else the replica that has the job mends the record
		for r, err := range direct.List(background, "job/tick") {
			must(t, err)
			errs, err := direct.Release(background, []store.Release{{Name: r.Name, Holder: r.Holder, Token: r.Token, State: []byte("?????"), Retain: store.Forever}})
			must(t, errors.Join(append(errs, err)...))
		}
		time.Sleep(2 * time.Second)
		select {
		case err := <-ended:
			if err == nil || !strings.Contains(err.Error(), "not soloist's") {
				t.Errorf("of a record that cannot be read: %v", err)
			}
		default:
			t.Error("it waits for what cannot be found")
		}
		s.Heal()
		time.Sleep(time.Minute)
	})
}

// What was due while all jobs were paused is dropped, also of a job that had been paused alone before.
func TestAPauseOfAllJobsAfterOneOfAJob(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		var r recorder
		admin := b.Admin()
		start(t, a, soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), Missed: soloist.MissedAll, Do: r.do})
		time.Sleep(time.Second)
		must(t, admin.Pause(background, "tick", "alone"))
		must(t, admin.Resume(background, "tick"))
		must(t, admin.PauseAll(background, "with all"))
		time.Sleep(10 * time.Minute)
		must(t, admin.ResumeAll(background))
		time.Sleep(time.Second)
		check(t, "runs of what was due in the pause", len(r.began()), 0)
		time.Sleep(time.Minute)
		check(t, "runs after it", len(r.began()), 1)
	})
}

// What fell into the pause of a job is dropped by the end of that pause, also when all jobs had been paused and resumed before.
func TestAPauseOfAJobAfterOneOfAllJobs(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		var r recorder
		begin := time.Now()
		admin := b.Admin()
		start(t, a, soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Missed: soloist.MissedAll, Do: r.do})
		time.Sleep(time.Minute)
		must(t, admin.PauseAll(background, "with all"))
		time.Sleep(90 * time.Minute)
		must(t, admin.ResumeAll(background))
		must(t, admin.Pause(background, "tick", "alone"))
		time.Sleep(2 * time.Hour)
		must(t, admin.Resume(background, "tick"))
		time.Sleep(time.Hour)
		check(t, "scheduled", r.scheduled(begin), []time.Duration{4 * time.Hour})
	})
}

// One replica whose record cannot be read does not keep another one from being triggered that has the job.
func TestTriggerBesideARecordThatCannotBeRead(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		var r recorder
		start(t, a, soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Do: r.do})
		time.Sleep(time.Second)
		claim := store.Claim{Name: "replica/other", Holder: "other", TTL: time.Hour}
		outs, err := s.Acquire(background, []store.Claim{claim})
		must(t, errors.Join(err, outs[0].Err))
		errs, err := s.Extend(background, []store.Extension{{Name: claim.Name, Holder: claim.Holder, Token: outs[0].Grant.Token, TTL: time.Hour, State: []byte("{")}})
		must(t, errors.Join(err, errs[0]))
		must(t, b.Admin().Trigger(background, "tick"))
		time.Sleep(10 * time.Second)
		check(t, "runs", len(r.began()), 1)
	})
}

// A damaged store cannot read one record: its lists lack that and end with an error, and so does each claim of it.
type damaged struct {
	*soloisttest.Store
	record string
	mended atomic.Bool
	claims atomic.Int64 // of jobs
}

func (s *damaged) lacks(name string) bool { return name == s.record && !s.mended.Load() }

func (s *damaged) unreadable() error {
	return fmt.Errorf("the row of %q is not soloist's", s.record)
}

func (s *damaged) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	outs, err := s.Store.Acquire(ctx, claims)
	for i, c := range claims {
		if strings.HasPrefix(c.Name, "job/") && c.Mark >= 0 {
			s.claims.Add(1)
		}
		if err == nil && s.lacks(c.Name) {
			outs[i] = store.Outcome{Err: s.unreadable()}
		}
	}
	return outs, err
}

func (s *damaged) List(ctx context.Context, prefix string) iter.Seq2[store.Record, error] {
	return s.ListAfter(ctx, prefix, "")
}

func (s *damaged) ListAfter(ctx context.Context, prefix, after string) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		lacks := false
		for r, err := range s.Store.ListAfter(ctx, prefix, after) {
			if err == nil && s.lacks(r.Name) {
				lacks = true
			} else if !yield(r, err) {
				return
			}
		}
		if lacks {
			yield(store.Record{}, &store.UnreadableError{Err: s.unreadable()})
		}
	}
}

// A record of commands that the store cannot read concerns its job alone: this is not run, and is told as paused, while all others are paused, resumed and
// triggered as ever.
func TestControlThatTheStoreCannotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := soloisttest.NewStore()
		admin := soloisttest.NewReplica(t, s, soloist.Config{}).Admin()
		var log strings.Builder
		c := soloisttest.NewReplica(t, &damaged{Store: s.Share(), record: "control/spoiled"}, soloist.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		var spoiled, good recorder
		jobs := []soloist.Job{
			{Name: "spoiled", Schedule: soloist.Every(time.Hour), Do: spoiled.do},
			{Name: "good", Schedule: soloist.Every(time.Hour), Do: good.do},
		}
		start(t, c, jobs...)
		time.Sleep(time.Minute)
		must(t, admin.Pause(background, "spoiled", "the books are open"))
		time.Sleep(time.Minute)
		must(t, admin.Trigger(background, "good"))
		time.Sleep(time.Minute)
		synctest.Wait()
		if all := good.all(); len(all) != 1 || !all[0].Manual {
			t.Errorf("of the other job, after it was triggered: %+v", all)
		}
		check(t, "it is logged", strings.Count(log.String(), "what was asked of jobs cannot be read"), 1)
		time.Sleep(time.Hour)
		synctest.Wait()
		check(t, "runs of the other job", len(good.all()), 2)
		check(t, "runs of a job of which nobody knows whether it is paused", len(spoiled.all()), 0)
		paused := map[string]bool{}
		for info, err := range c.Admin().Jobs(background) {
			switch {
			case err == nil:
				paused[info.Name] = info.Paused != nil
				check(t, info.Name+" has no next time", info.Next.IsZero(), info.Paused != nil)
			case !soloist.OnlyUnreadable(err) || !strings.Contains(err.Error(), "control/spoiled"):
				t.Errorf("the list: %v", err)
			}
		}
		check(t, "paused", paused, map[string]bool{"spoiled": true, "good": false})
		if info, err := c.Admin().Part("spoiled", "").Job(background, "spoiled"); err != nil || info.Paused == nil {
			t.Errorf("%+v, %v", info, err)
		}
	})
}

// While the store cannot read what was asked of a job, or of all, nobody claims the job only to give it back, and it runs again when the record has been mended.
func TestJobOfWhichTheStoreCannotReadWhatWasAskedIsNotClaimed(t *testing.T) {
	for _, record := range []string{"control/spoiled", "control-of-all"} {
		t.Run(record, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &damaged{Store: soloisttest.NewStore(), record: record}
				spoil(t, s.Store, record, "")
				var log strings.Builder
				var runs recorder
				start(t, soloisttest.NewReplica(t, s, soloist.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}),
					soloist.Job{Name: "spoiled", Schedule: soloist.Every(24 * time.Hour), Do: runs.do, Missed: soloist.MissedOnce})
				time.Sleep(25 * time.Hour)
				synctest.Wait()
				check(t, "runs", len(runs.all()), 0)
				check(t, "claims but the one that registers it", s.claims.Load()-1, 0)
				check(t, "warnings", strings.Count(log.String(), "level=WARN"), 0)
				s.mended.Store(true)
				time.Sleep(time.Minute)
				check(t, "runs once it can be read", len(runs.all()), 1)
			})
		})
	}
}

// Nor does a job run of which the store cannot read what was asked if it is added when the commands to all others have been read.
func TestJobThatIsAddedAndOfWhichTheStoreCannotReadWhatWasAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &damaged{Store: soloisttest.NewStore(), record: "control/spoiled"}
		spoil(t, s.Store, s.record, "")
		var runs recorder
		r, err := soloisttest.NewReplica(t, s, soloist.Config{Logger: slog.New(slog.DiscardHandler)}).NewRunner()
		must(t, err)
		ctx, stop := context.WithCancel(background)
		over := make(chan error, 1)
		go func() { over <- r.Run(ctx) }()
		time.Sleep(time.Minute)
		must(t, r.Add(soloist.Job{Name: "spoiled", Schedule: soloist.Delay(time.Hour), Do: runs.do}))
		time.Sleep(time.Hour)
		synctest.Wait()
		check(t, "runs", len(runs.all()), 0)
		if n := s.claims.Load(); n > 50 { // until what was asked of it has been read
			t.Errorf("%d claims", n)
		}
		s.mended.Store(true)
		time.Sleep(time.Minute)
		check(t, "runs once it can be read", len(runs.all()), 1)
		stop()
		must(t, <-over)
	})
}
