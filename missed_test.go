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

// If a replica is well from a scheduled time until Grace after it, somebody begins the run, whatever befell the others.

// A troubled store does something to a replica after the store has carried out its claims or releases, before it notices it.
type troubled struct {
	*soloisttest.Store
	mu       sync.Mutex
	acquired func(store.Claim, store.Outcome)
	released func(store.Release)
}

func (s *troubled) set(acquired func(store.Claim, store.Outcome), released func(store.Release)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acquired, s.released = acquired, released
}

func (s *troubled) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	outs, err := s.Store.Acquire(ctx, claims)
	s.mu.Lock()
	tell := s.acquired
	s.mu.Unlock()
	for i := range outs {
		if tell != nil {
			tell(claims[i], outs[i])
		}
	}
	return outs, err
}

func (s *troubled) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	errs, err := s.Store.Release(ctx, releases)
	s.mu.Lock()
	tell := s.released
	s.mu.Unlock()
	for i := range errs {
		if tell != nil {
			tell(releases[i])
		}
	}
	return errs, err
}

// dies cuts a replica off for good once it has been granted a name of a kind.
func (s *troubled) dies(kind string) {
	s.set(func(c store.Claim, out store.Outcome) {
		if strings.HasPrefix(c.Name, kind) && out.Err == nil {
			s.Stall()
		}
	}, nil)
}

// beside runs a job on two replicas from the first tick on: one that gets into trouble, and one that is well and comes second.
func beside(t *testing.T, job soloist.Job, cfg soloist.Config, test func(t *testing.T, bad *troubled, good *soloisttest.Store, r *recorder, begin time.Time)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		begin := time.Now()
		bad := &troubled{Store: soloisttest.NewStore()}
		good := bad.Share()
		t.Cleanup(bad.Heal)
		if job.Do == nil {
			job.Do = r.do
		}
		start(t, soloisttest.NewReplica(t, bad, cfg), job)
		good.Slow(time.Millisecond)
		job.Do = r.do
		start(t, soloisttest.NewReplica(t, good, soloist.Config{}), job)
		time.Sleep(time.Second)
		test(t, bad, good, &r, begin)
	})
}

// A replica takes a group's name and dies before it claims the jobs, whose TTL is longer than their Grace.
func TestClaimerOfAGroupDiesBeforeItHasClaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const jobs = 40
		begin := time.Now()
		first := soloisttest.NewStore()
		var dead atomic.Int32
		var ran atomic.Int32
		var all []*soloisttest.Store
		for i := range 3 {
			s := &troubled{Store: first}
			if i > 0 {
				s.Store = first.Share()
			}
			all = append(all, s.Store)
			s.set(func(c store.Claim, out store.Outcome) {
				if strings.HasPrefix(c.Name, "group/") && out.Err == nil && dead.CompareAndSwap(0, 1) {
					s.Stall()
				}
			}, nil)
			var js []soloist.Job
			for j := range jobs {
				js = append(js, soloist.Job{
					Name: fmt.Sprint("job ", j), Schedule: soloist.Every(time.Minute), TTL: 30 * time.Second, Grace: 10 * time.Second,
					Do: func(context.Context, soloist.Run) error { ran.Add(1); return nil },
				})
			}
			start(t, soloisttest.NewReplica(t, s, soloist.Config{}), js...)
		}
		time.Sleep(time.Until(begin.Add(time.Minute + 10*time.Second)))
		if dead.Load() == 0 {
			t.Error("nobody took the group's name")
		}
		check(t, "runs", ran.Load(), jobs)
		for _, s := range all {
			s.Heal()
		}
	})
}

// The claim of a replica is granted in time, and it notices it when the scheduled time is later than Grace.
func TestGrantThatIsToldLateIsRun(t *testing.T) {
	job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), TTL: 30 * time.Second, Grace: 2 * time.Second}
	beside(t, job, soloist.Config{RequestTimeout: 20 * time.Second}, func(t *testing.T, bad *troubled, _ *soloisttest.Store, r *recorder, begin time.Time) {
		bad.set(func(c store.Claim, _ store.Outcome) {
			if c.Name == "job/tick" && c.Mark > 0 {
				time.Sleep(5 * time.Second)
			}
		}, nil)
		time.Sleep(time.Until(begin.Add(110 * time.Second)))
		check(t, "scheduled", r.scheduled(begin), []time.Duration{time.Minute})
		if began := r.began(); len(began) > 0 && began[0].Sub(begin) > 66*time.Second {
			t.Errorf("begun after %v", began[0].Sub(begin))
		}
	})
}

// A replica is granted a job in time and learns it when the lease has ended, so that it cannot give the job back. It runs the scheduled time when it is granted the job
// again, although the reply to that claim is lost: a claim that is repeated does not show that the lease before has expired.
func TestGrantThatIsToldAfterItsEndIsRun(t *testing.T) {
	job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), TTL: 6 * time.Second, Grace: time.Second}
	beside(t, job, soloist.Config{RequestTimeout: 20 * time.Second}, func(t *testing.T, bad *troubled, good *soloisttest.Store, r *recorder, begin time.Time) {
		good.Break(nil)
		var once sync.Once
		bad.set(func(c store.Claim, _ store.Outcome) {
			if c.Name == "job/tick" && c.Mark > 0 {
				once.Do(func() { time.Sleep(10 * time.Second) })
			}
		}, nil)
		time.Sleep(time.Until(begin.Add(70*time.Second + 200*time.Millisecond)))
		bad.LoseReplies(1000)
		time.Sleep(time.Until(begin.Add(72 * time.Second)))
		bad.Heal()
		time.Sleep(time.Until(begin.Add(110 * time.Second)))
		check(t, "scheduled", r.scheduled(begin), []time.Duration{time.Minute})
	})
}

// Somebody takes a job's name in time, and gives it back without a word when the scheduled time is later than Grace.
func TestTimeThatWasClaimedInVainIsRun(t *testing.T) {
	job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), TTL: 30 * time.Second, Grace: 2 * time.Second}
	beside(t, job, soloist.Config{}, func(t *testing.T, bad *troubled, good *soloisttest.Store, r *recorder, begin time.Time) {
		bad.Stall()
		other := good.Share()
		time.Sleep(time.Until(begin.Add(time.Minute)))
		outs, err := other.Acquire(background, []store.Claim{{Name: "job/tick", Holder: "x", TTL: 30 * time.Second}})
		if err != nil || outs[0].Err != nil {
			t.Fatal(outs, err)
		}
		time.Sleep(10 * time.Second)
		if _, err := other.Release(background, []store.Release{{Name: "job/tick", Holder: "x", Token: outs[0].Grant.Token, Retain: store.Forever}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Until(begin.Add(100 * time.Second)))
		check(t, "scheduled", r.scheduled(begin), []time.Duration{time.Minute})
	})
}

// What a replica was granted and gives back, because nobody waits for it any more, is run by one that comes later than Grace, and that had
// not asked before.
func TestClaimThatIsGivenBackTellsOfItsTime(t *testing.T) {
	job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), TTL: 30 * time.Second, Grace: 2 * time.Second}
	cfg := soloist.Config{RequestTimeout: time.Second}
	beside(t, job, cfg, func(t *testing.T, bad *troubled, good *soloisttest.Store, r *recorder, begin time.Time) {
		good.Break(nil)
		bad.set(func(c store.Claim, out store.Outcome) {
			if c.Name == "job/tick" && c.Mark > 0 && out.Err == nil {
				bad.LoseReplies(4) // until after it has given up, and given the grant back
			}
		}, nil)
		time.Sleep(time.Until(begin.Add(63*time.Second + 500*time.Millisecond)))
		good.Heal()
		time.Sleep(time.Until(begin.Add(110 * time.Second)))
		check(t, "scheduled", r.scheduled(begin), []time.Duration{time.Minute})
	})
}

// The same, when nobody looks at the job before its next time is due: the replica that claims it for that time runs the one before first.
func TestClaimThatIsGivenBackIsRunBeforeTheNextTime(t *testing.T) {
	job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), TTL: 30 * time.Second, Grace: 2 * time.Second}
	cfg := soloist.Config{RequestTimeout: time.Second}
	beside(t, job, cfg, func(t *testing.T, bad *troubled, good *soloisttest.Store, r *recorder, begin time.Time) {
		good.Break(nil)
		time.Sleep(time.Until(begin.Add(59 * time.Second)))
		bad.LoseReplies(1000)
		time.Sleep(time.Until(begin.Add(70 * time.Second)))
		bad.Heal() // it learns that it was granted the job, and gives it back
		time.Sleep(time.Until(begin.Add(110 * time.Second)))
		good.Heal()
		check(t, "scheduled by 110 s", r.scheduled(begin), nil)
		time.Sleep(time.Until(begin.Add(150 * time.Second)))
		check(t, "scheduled", r.scheduled(begin), []time.Duration{time.Minute, 2 * time.Minute})
	})
}

// What was missed already when a claim was made that is given back is not run for its sake. Grace is longer than the period, so several times may be
// in time at once.
func TestClaimThatIsGivenBackTellsWhenItWasMade(t *testing.T) {
	job := soloist.Job{Name: "tick", Schedule: soloist.Every(10 * time.Second), TTL: 30 * time.Second, Grace: 15 * time.Second}
	cfg := soloist.Config{RequestTimeout: time.Second}
	beside(t, job, cfg, func(t *testing.T, bad *troubled, good *soloisttest.Store, r *recorder, begin time.Time) {
		time.Sleep(time.Until(begin.Add(65 * time.Second)))
		good.Break(nil)
		bad.Break(nil)
		time.Sleep(time.Until(begin.Add(86 * time.Second))) // 70 s has been missed for a second, 80 s has not
		bad.Heal()
		bad.LoseReplies(1000)
		time.Sleep(time.Until(begin.Add(97 * time.Second)))
		check(t, "scheduled by 97 s", r.scheduled(begin)[6:], nil)
		bad.Heal() // it learns that it was granted the job, and gives it back
		time.Sleep(time.Until(begin.Add(2*time.Minute - time.Millisecond)))
		check(t, "scheduled first", r.scheduled(begin)[6:7], []time.Duration{80 * time.Second})
	})
}

// A replica dies between its grant and the record of its beginning, in a run whose Grace is shorter than clocks may differ.
func TestDeathBeforeABeginningWithAShortGrace(t *testing.T) {
	job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), TTL: 6 * time.Second, Grace: 500 * time.Millisecond, Crash: soloist.CrashGiveUp}
	beside(t, job, soloist.Config{}, func(t *testing.T, bad *troubled, _ *soloisttest.Store, r *recorder, begin time.Time) {
		bad.dies("job/")
		time.Sleep(time.Until(begin.Add(80 * time.Second)))
		check(t, "scheduled", r.scheduled(begin), []time.Duration{time.Minute})
	})
}

// A replica dies when it has recorded a run that was in the way, long before its lease would have ended.
func TestDeathAfterARunThatWasInTheWay(t *testing.T) {
	job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), TTL: 5 * time.Minute, Grace: 30 * time.Second}
	job.Do = func(ctx context.Context, run soloist.Run) error {
		time.Sleep(70 * time.Second)
		return nil
	}
	beside(t, job, soloist.Config{}, func(t *testing.T, bad *troubled, _ *soloisttest.Store, good *recorder, begin time.Time) {
		bad.set(nil, func(rel store.Release) {
			if rel.Mark > 0 {
				bad.Stall()
			}
		})
		time.Sleep(time.Until(begin.Add(151 * time.Second)))
		check(t, "scheduled", good.scheduled(begin), []time.Duration{2 * time.Minute})
	})
}

// A run that takes longer than its period and Grace does not make a queue: what fell due meanwhile is missed, also for who asked for it.
func TestARunThatTakesTooLongLetsTimesBeMissed(t *testing.T) {
	for name, crash := range map[string]soloist.Crash{"take over": soloist.CrashTakeOver, "give up": soloist.CrashGiveUp} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
				var r recorder
				begin := time.Now()
				job := soloist.Job{Name: "tick", Schedule: soloist.Every(10 * time.Second), Grace: 5 * time.Second, Crash: crash, Do: func(ctx context.Context, run soloist.Run) error {
					defer time.Sleep(17 * time.Second)
					return r.do(ctx, run)
				}}
				start(t, a, job)
				start(t, b, job)
				time.Sleep(2 * time.Minute)
				for i, at := range r.began() {
					if late := at.Sub(begin) - r.scheduled(begin)[i]; late > 5*time.Second {
						t.Errorf("%v was begun %v late", r.scheduled(begin)[i], late)
					}
				}
			})
		})
	}
}

// A claim that the store refused to answer does not keep a time from being missed.
func TestAnOutageLetsTimesBeMissed(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		var r recorder
		begin := time.Now()
		start(t, a, soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), Grace: 5 * time.Second, Do: r.do})
		time.Sleep(59 * time.Second)
		s.Break(errors.New("away"))
		time.Sleep(10 * time.Second)
		s.Heal()
		time.Sleep(time.Minute)
		check(t, "scheduled", r.scheduled(begin), []time.Duration{2 * time.Minute})
	})
}

// A run that Jitter delays for longer than Grace is not missed before it may start.
func TestJitterIsNotMissed(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		var r recorder
		job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), Jitter: 50 * time.Second, Grace: time.Second, Do: r.do}
		start(t, a, job)
		start(t, b, job)
		time.Sleep(11 * time.Minute)
		if n := len(r.began()); n < 10 {
			t.Errorf("%d runs in 11 minutes", n)
		}
	})
}

// Beside a Jitter, too, Grace is a minute by default, and counts from the end of the jitter.
func TestDefaultOfGraceBesideAJitter(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		var r recorder
		begin := time.Now()
		start(t, a, soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Jitter: time.Minute, Do: r.do})
		for _, late := range []time.Duration{110 * time.Second, 130 * time.Second} { // in time and too late
			time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour - time.Minute)))
			s.Break(errors.New("away"))
			time.Sleep(time.Minute + late)
			s.Heal()
			time.Sleep(10 * time.Minute)
		}
		check(t, "scheduled", r.scheduled(begin), []time.Duration{time.Hour})
	})
}
