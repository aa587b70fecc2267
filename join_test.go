package soloist_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// A replica that finds no record of a job, and wants to make one when another has just made it, leaves that one as it is: it tells since when the job is known, and of a run
// that was interrupted.
func TestJoiningKeepsTheRecordThatAnotherHasMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		begin := time.Now().Add(10 * time.Minute)
		time.Sleep(time.Until(begin))
		s := &troubled{Store: soloisttest.NewStore()}
		var once sync.Once
		s.set(func(c store.Claim, _ store.Outcome) {
			if c.Name == "job/tick" && c.Mark < 0 {
				once.Do(func() {
					leave(t, s.Share(), "job/tick", fmt.Sprintf(`{"since":%d,"pending":%d}`, begin.Add(-150*time.Second).UnixMilli(), begin.Add(-2*time.Minute).UnixMilli()))
				})
			}
		}, nil)
		start(t, soloisttest.NewReplica(t, s, soloist.Config{}), soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), Missed: soloist.MissedAll, Grace: time.Second, TTL: time.Hour, Do: r.do})
		if records, err := s.Acquire(background, []store.Claim{{Name: "job/tick", Holder: "y", TTL: time.Second, Mark: -1}}); err != nil {
			t.Error(err)
		} else if done := (*store.DoneError)(nil); !errors.As(records[0].Err, &done) || strings.Contains(string(done.Record.State), "claimed") {
			t.Errorf("%v: it is said to have been claimed for a time that was due", records[0].Err)
		}
		time.Sleep(70 * time.Second)
		check(t, "scheduled", r.scheduled(begin), []time.Duration{-2 * time.Minute, -time.Minute, 0, time.Minute})
	})
}

// A vague store does not answer, for a while, claims of jobs with a mark: those that read records, or that make them.
type vague struct {
	*soloisttest.Store
	about atomic.Int64
}

func (s *vague) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	about := s.about.Load()
	if about != 0 && slices.ContainsFunc(claims, func(c store.Claim) bool { return c.Mark == about && strings.HasPrefix(c.Name, "job/") }) {
		return nil, errors.New("not now")
	}
	return s.Store.Acquire(ctx, claims)
}

// Jobs whose records cannot be read, or made, are registered soon after they can: those of the start, and those that are added.
func TestJobsJoinWhenTheStoreLetsThem(t *testing.T) {
	const reads, makes = -1, 1
	for _, row := range []struct {
		about int64
		added bool
	}{{reads, false}, {makes, false}, {reads, true}, {makes, true}} {
		t.Run(fmt.Sprintf("%+v", row), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &vague{Store: soloisttest.NewStore()}
				var r recorder
				runner, err := soloisttest.NewReplica(t, s, soloist.Config{}).NewRunner()
				must(t, err)
				ctx, cancel := context.WithCancel(background)
				ended := make(chan error, 1)
				if row.added {
					go func() { ended <- runner.Run(ctx) }()
					synctest.Wait()
				}
				s.about.Store(row.about)
				must(t, runner.Add(soloist.Job{Name: "tick", Schedule: soloist.Every(time.Second), Do: r.do}))
				if !row.added {
					go func() { ended <- runner.Run(ctx) }()
				}
				time.Sleep(10 * time.Second)
				synctest.Wait()
				select {
				case <-runner.Ready():
					t.Error("the Runner is ready although the job has not been registered")
				default:
				}
				check(t, "runs before", len(r.all()), 0)
				s.about.Store(0)
				time.Sleep(4 * time.Second)
				synctest.Wait()
				if len(r.all()) < 2 {
					t.Errorf("%d runs in 4 s", len(r.all()))
				}
				<-runner.Ready()
				cancel()
				must(t, <-ended)
			})
		})
	}
}

// A Runner can run again. It begins as a new one would: it reads what is done, and what people ask.
func TestARunnerRunsAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		var tick, held recorder
		begin := time.Now()
		runner, err := a.NewRunner(soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), Missed: soloist.MissedAll, Do: tick.do},
			soloist.Job{Name: "held", Schedule: soloist.Every(time.Minute), Do: held.do})
		must(t, err)
		run := func(d time.Duration) {
			ctx, cancel := context.WithTimeout(background, d)
			defer cancel()
			must(t, runner.Run(ctx))
		}
		run(90 * time.Second)
		must(t, b.Admin().Pause(background, "held", "a test"))
		time.Sleep(3 * time.Minute)
		ready := runner.Ready()
		select {
		case <-ready:
			t.Error("the Runner is ready although it does not run")
		default:
		}
		run(time.Minute)
		<-ready
		check(t, "scheduled", fmt.Sprint(tick.scheduled(begin), held.scheduled(begin)), fmt.Sprint([]time.Duration{time.Minute, 2 * time.Minute, 3 * time.Minute, 4 * time.Minute, 5 * time.Minute}, []time.Duration{time.Minute}))
	})
}

// Unless the configuration says otherwise, runs have 20 s to end when Run is to end.
func TestDrainByDefault(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, _ *soloist.Client) {
		stop := start(t, a, soloist.Job{Name: "long", Schedule: soloist.Every(time.Hour), Do: func(ctx context.Context, _ soloist.Run) error {
			<-ctx.Done()
			return ctx.Err()
		}})
		time.Sleep(time.Hour + time.Second)
		begin := time.Now()
		stop()
		check(t, "drained for", time.Since(begin), 20*time.Second)
	})
}
