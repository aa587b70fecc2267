package soloist_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
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

// A throttled store refuses, a few times, the part of a request that claims job/b with a mark. Its lists say which records are unreadable for good.
type throttled struct {
	*soloisttest.Store
	mark       int64 // -1 reads the record, 1 makes it
	times      atomic.Int64
	err        error
	unreadable bool
}

func (s *throttled) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	i := slices.IndexFunc(claims, func(c store.Claim) bool { return strings.HasPrefix(c.Name, "job/b") && c.Mark == s.mark })
	if i < 0 || s.times.Add(-1) < 0 {
		return s.Store.Acquire(ctx, claims)
	}
	name := claims[i].Name
	outs, err := s.Acquire(ctx, slices.Delete(slices.Clone(claims), i, i+1))
	return slices.Insert(outs, i, store.Outcome{Err: fmt.Errorf("%s: %w", name, s.err)}), err
}

func (s *throttled) List(ctx context.Context, prefix string) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		for r, err := range s.Store.List(ctx, prefix) {
			if s.unreadable && strings.HasPrefix(r.Name, "job/b") {
				continue
			}
			if !yield(r, err) {
				return
			}
		}
		if s.unreadable && strings.HasPrefix(prefix, "job/b") {
			yield(store.Record{}, &store.UnreadableError{Err: fmt.Errorf("%s: %w", prefix, s.err)})
		}
	}
}

// A job that has no record yet is not taken for unreadable because that of another one is, whose name begins with its own.
func TestUnreadableRecordOfALongerName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &throttled{Store: soloisttest.NewStore(), mark: -1, err: errors.New("slow down"), unreadable: true}
		s.times.Store(1)
		c := soloisttest.NewReplica(t, s, soloist.Config{})
		r := runs(t, c, soloist.Job{Name: "b", Schedule: soloist.Every(24 * time.Hour), Do: nothing})
		<-r.Ready()
		must(t, c.Admin().Trigger(background, "b"))
	})
}

// A job whose part of a request fails while it joins is registered soon after: a run that was interrupted is taken over, and who waits for Ready can ask for it. The
// others do not wait for it.
func TestJobWhosePartFailsJoinsSoon(t *testing.T) {
	const reads, makes = -1, 1
	for what, test := range map[string]struct {
		mark, times int64
		left        string        // the state of its record; "" if there is none
		want        time.Duration // of Ready
	}{
		"its record cannot be read":                 {reads, 1, "", 0},
		"its record cannot be read, with a run":     {reads, 1, `{"since":1,"pending":%d}`, 0},
		"its record cannot be read for a while":     {reads, 100, "", 50 * time.Second},
		"its record cannot be made":                 {makes, 1, "", 0},
		"its record cannot be made for a while yet": {makes, 100, "", 50 * time.Second},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(30 * time.Minute)
				s := &throttled{Store: soloisttest.NewStore(), mark: test.mark, err: errors.New("slow down")}
				begin := time.Now()
				var a, b recorder
				if test.left != "" {
					leave(t, s, "job/b", fmt.Sprintf(test.left, begin.Add(-time.Hour).UnixMilli()))
				}
				s.times.Store(test.times)
				job := func(name string, r *recorder) soloist.Job {
					return soloist.Job{Name: name, Schedule: soloist.Every(10 * time.Second), Do: r.do}
				}
				late := job("b", &b)
				late.Schedule = soloist.Every(24 * time.Hour)
				c := soloisttest.NewReplica(t, s, soloist.Config{})
				runs(t, c, job("a", &a), late)
				ready := time.Since(begin)
				if ready < test.want || s.times.Load() > 0 {
					t.Errorf("ready after %v, want after %v; %d more refusals", ready, test.want, s.times.Load())
				}
				if want := int(ready / (10 * time.Second)); len(a.began()) < want {
					t.Errorf("%d runs of the other job until then, want %d", len(a.began()), want)
				}
				time.Sleep(time.Second)
				if test.left != "" {
					check(t, "runs that were taken over", b.scheduled(begin), []time.Duration{-time.Hour})
				}
				before := len(b.began())
				must(t, c.Admin().Trigger(background, "b"))
				time.Sleep(5 * time.Second)
				check(t, "manual runs", len(b.began())-before, 1)
			})
		})
	}
}

// Jobs whose records stay unreadable, or may not be read or made, keep no Runner from being ready: nothing but people can change that.
func TestJobsThatCannotJoinKeepNoRunnerFromBeingReady(t *testing.T) {
	const reads, makes = -1, 1
	for what, s := range map[string]*throttled{
		"unreadable":           {mark: reads, err: errors.New("it is of another type"), unreadable: true},
		"may not be read":      {mark: reads, err: fs.ErrPermission},
		"may not be made":      {mark: makes, err: fs.ErrPermission},
		"has no tokens":        {mark: makes, err: store.ErrTokens},
		"another is making it": {mark: makes, err: &store.HeldError{Record: store.Record{Holder: "x", Token: 1}}},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s.Store = soloisttest.NewStore()
				if s.unreadable {
					leave(t, s, "job/b1", "{}")
					leave(t, s, "job/b2", "{}")
				}
				s.times.Store(1 << 40)
				begin := time.Now()
				job := func(name string) soloist.Job {
					return soloist.Job{Name: name, Schedule: soloist.Every(time.Hour), Do: nothing}
				}
				runs(t, soloisttest.NewReplica(t, s, soloist.Config{}), job("a"), job("b1"), job("b2"))
				if took := time.Since(begin); took > 5*time.Second {
					t.Errorf("ready after %v", took)
				}
			})
		})
	}
}

// A makesLate store carries out the first request with a claim of a kind only after five seconds, and does not reply to it.
type makesLate struct {
	*soloisttest.Store
	kind func(store.Claim) bool
	said atomic.Bool
}

func (s *makesLate) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	if !slices.ContainsFunc(claims, s.kind) || !s.said.CompareAndSwap(false, true) {
		return s.Store.Acquire(ctx, claims)
	}
	time.AfterFunc(5*time.Second, func() { _, _ = s.Store.Acquire(background, claims) })
	return nil, errNoReply
}

// What a request without a reply is granted after the record of a job was made by a repeated one is given back: it would keep the job from all replicas for a TTL. Its
// record says nothing of that.
func TestWhatIsGrantedAfterAJobWasMadeIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		s := &makesLate{Store: soloisttest.NewStore(), kind: func(c store.Claim) bool { return strings.HasPrefix(c.Name, "job/") && c.Mark > 0 }}
		c := soloisttest.NewReplica(t, s, soloist.Config{})
		runs(t, c, soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), TTL: 5 * time.Minute, Do: r.do})
		check(t, "requests without a reply", s.said.Load(), true)
		state := func() string {
			records, err := collect(s.List(background, "job/tick"))
			must(t, err)
			return string(records[0].State)
		}
		made := state()
		time.Sleep(time.Minute)
		check(t, "what its record says", state(), made)
		must(t, c.Admin().Trigger(background, "tick"))
		time.Sleep(time.Minute)
		check(t, "runs", len(r.began()), 1)
	})
}
