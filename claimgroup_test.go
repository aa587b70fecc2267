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

// claimed counts the names that a replica has asked for, those of jobs apart.
type claimed struct {
	*soloisttest.Store
	requests, jobs atomic.Int64
}

func (s *claimed) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	if len(claims) > 1 || claims[0].Mark >= 0 { // not a look at whether controls have changed
		s.requests.Add(1)
	}
	for _, c := range claims {
		if strings.HasPrefix(c.Name, "job/") {
			s.jobs.Add(1)
		}
	}
	return s.Store.Acquire(ctx, claims)
}

// groups runs the same many jobs on some replicas, from the first tick, and gives test what each replica asks for from then on and what was run.
func groups(t *testing.T, replicas, jobs int, do func(s *claimed, ctx context.Context) error, test func(t *testing.T, replicas []*claimed, ran func(scheduled time.Duration) int)) {
	t.Helper()
	groupsWithin(t, time.Minute, replicas, jobs, do, test)
}

// groupsWithin is groups with a Grace.
func groupsWithin(t *testing.T, grace time.Duration, replicas, jobs int, do func(s *claimed, ctx context.Context) error, test func(t *testing.T, replicas []*claimed, ran func(scheduled time.Duration) int)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		first := soloisttest.NewStore()
		var all []*claimed
		var mu sync.Mutex
		runs := map[time.Duration]int{}
		for i := range replicas {
			s := &claimed{Store: first}
			if i > 0 {
				s.Store = first.Share()
			}
			all = append(all, s)
			var js []soloist.Job
			for j := range jobs {
				js = append(js, soloist.Job{
					Name: fmt.Sprint("job ", j), Schedule: soloist.Every(time.Minute), TTL: 10 * time.Second, Grace: grace,
					Do: func(ctx context.Context, run soloist.Run) error {
						err := do(s, ctx)
						if err == nil {
							mu.Lock()
							runs[run.ScheduledAt.Sub(begin)]++
							mu.Unlock()
						}
						return err
					},
				})
			}
			start(t, soloisttest.NewReplica(t, s, soloist.Config{}), js...)
			synctest.Wait()
		}
		time.Sleep(59 * time.Second)
		for _, s := range all {
			s.requests.Store(0)
			s.jobs.Store(0)
		}
		test(t, all, func(scheduled time.Duration) int {
			mu.Lock()
			defer mu.Unlock()
			return runs[scheduled]
		})
	})
}

// One replica asks for jobs that are due together, and each runs once.
func TestOneClaimsForAGroup(t *testing.T) {
	for _, grace := range []time.Duration{time.Minute, 5 * time.Second} { // longer and shorter than the leases live
		t.Run(fmt.Sprint(grace), func(t *testing.T) { oneClaims(t, grace) })
	}
}

func oneClaims(t *testing.T, grace time.Duration) {
	t.Helper()
	const replicas, jobs = 10, 50
	quick := func(*claimed, context.Context) error { return nil }
	groupsWithin(t, grace, replicas, jobs, quick, func(t *testing.T, all []*claimed, ran func(time.Duration) int) {
		total := func() (requests, names int64) {
			for _, s := range all {
				requests += s.requests.Swap(0)
				names += s.jobs.Swap(0)
			}
			return requests, names
		}
		time.Sleep(6 * time.Second)
		check(t, "runs of the first tick", ran(time.Minute), jobs)
		requests, names := total()
		check(t, "jobs that were asked for at the tick", names, jobs)
		most := int64(replicas + 1) // each for the group's name, and one for the jobs
		if grace < 6*time.Second {
			most += replicas // which look at the name again
		}
		if requests > most {
			t.Errorf("%d requests at the tick", requests)
		}
		time.Sleep(50 * time.Second) // until when the leases that were granted at the tick would have ended, and beyond
		if requests, names = total(); names > jobs || requests > 2*replicas+1 {
			t.Errorf("after the tick %d requests for %d jobs", requests, names)
		}
		for tick := 2; tick <= 5; tick++ {
			time.Sleep(time.Minute)
			check(t, fmt.Sprint("runs of tick ", tick), ran(time.Duration(tick)*time.Minute), jobs)
		}
	})
}

// A caller that asks for a group and dies is replaced when its leases have ended.
func TestClaimerOfAGroupDies(t *testing.T) {
	const replicas, jobs = 4, 40
	var dead atomic.Pointer[claimed]
	dies := func(s *claimed, ctx context.Context) error {
		if dead.CompareAndSwap(nil, s) || dead.Load() == s {
			s.Stall()
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}
	groups(t, replicas, jobs, dies, func(t *testing.T, _ []*claimed, ran func(time.Duration) int) {
		time.Sleep(time.Second + 12*time.Second) // the tick, a TTL, and 2 s
		check(t, "runs of the first tick", ran(time.Minute), jobs)
		dead.Load().Heal()
	})
}

// A replica that takes a group's name and dies before it has asked holds up the others for a TTL at most.
func TestNameOfAGroupIsTakenInVain(t *testing.T) {
	const replicas, jobs = 3, 40
	quick := func(*claimed, context.Context) error { return nil }
	groups(t, replicas, jobs, quick, func(t *testing.T, all []*claimed, ran func(time.Duration) int) {
		group := "" // the name is found out at this tick, and taken at the next
		time.Sleep(2 * time.Second)
		for r, err := range all[0].List(t.Context(), "group/") {
			if err != nil {
				t.Fatal(err)
			}
			group, _, _ = strings.Cut(strings.TrimPrefix(r.Name, "group/"), "/")
		}
		if group == "" {
			t.Fatal("nobody has taken the name of a group")
		}
		next := time.Now().Truncate(time.Minute).Add(time.Minute)
		time.Sleep(time.Until(next) - time.Millisecond)
		outs, err := all[0].Store.Acquire(t.Context(), []store.Claim{{Name: fmt.Sprintf("group/%s/%d", group, next.UnixMilli()), Holder: "dead", TTL: 10 * time.Second, Mark: 1}})
		if err != nil || outs[0].Err != nil {
			t.Fatal(err, outs)
		}
		time.Sleep(5 * time.Second)
		check(t, "runs while the name is taken", ran(2*time.Minute), 0)
		time.Sleep(6 * time.Second)
		check(t, "runs", ran(2*time.Minute), jobs)
	})
}

// A group's asker that is told by all jobs that they are done tells the others, which then ask no more.
func TestGroupIsDone(t *testing.T) {
	const replicas, jobs = 5, 40
	quick := func(*claimed, context.Context) error { return nil }
	groups(t, replicas, jobs, quick, func(t *testing.T, all []*claimed, ran func(time.Duration) int) {
		time.Sleep(35 * time.Second) // the tick, and three TTLs
		for _, s := range all {
			s.requests.Store(0)
		}
		time.Sleep(20 * time.Second)
		for i, s := range all {
			if n := s.requests.Load(); n > 2 {
				t.Errorf("replica %d asks %d times although all jobs are done", i, n)
			}
		}
	})
}

// Replicas that run different jobs of one schedule do not stand for each other: each job is run at each time.
func TestGroupsOfDifferentJobs(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		const jobs, times = 40, 5
		var mu sync.Mutex
		ran := map[string]int{}
		from := func(first int) (all []soloist.Job) {
			for i := range jobs {
				all = append(all, soloist.Job{Name: fmt.Sprint("job ", first+i), Schedule: soloist.Every(time.Minute), Do: func(_ context.Context, run soloist.Run) error {
					mu.Lock()
					defer mu.Unlock()
					ran[run.Job]++
					return nil
				}})
			}
			return all
		}
		start(t, a, from(0)...)
		start(t, b, from(jobs/2)...)
		time.Sleep(times*time.Minute + 30*time.Second)
		mu.Lock()
		defer mu.Unlock()
		for i := range jobs * 3 / 2 {
			if name := fmt.Sprint("job ", i); ran[name] != times {
				t.Errorf("%s ran %d times; want %d", name, ran[name], times)
			}
		}
	})
}

// Jobs of one schedule whose leases last longer do not keep others from being taken over in their own TTL.
func TestJobsOfDifferentTTLsAreNoGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const each = 40
		first := soloisttest.NewStore()
		var dead atomic.Pointer[soloisttest.Store]
		var ran atomic.Int64
		for _, s := range []*soloisttest.Store{first, first.Share()} {
			var jobs []soloist.Job
			add := func(kind string, ttl time.Duration) {
				for i := range each {
					jobs = append(jobs, soloist.Job{Name: fmt.Sprint(kind, " ", i), Schedule: soloist.Every(5 * time.Minute), TTL: ttl, Do: func(ctx context.Context, run soloist.Run) error {
						if dead.CompareAndSwap(nil, s) || dead.Load() == s {
							s.Stall()
							<-ctx.Done()
							return ctx.Err()
						}
						if strings.HasPrefix(run.Job, "short") {
							ran.Add(1)
						}
						return nil
					}})
				}
			}
			add("long", time.Minute)
			add("short", 5*time.Second)
			start(t, soloisttest.NewReplica(t, s, soloist.Config{}), jobs...)
			synctest.Wait()
		}
		time.Sleep(5*time.Minute + 10*time.Second) // a tick, a TTL of the short ones, and 5 s
		check(t, "short jobs that were taken over", ran.Load(), each)
		dead.Load().Heal()
	})
}

// When the store is away as a group is due, the group is claimed when it is back.
func TestGroupIsClaimedAfterAnOutage(t *testing.T) {
	const replicas, jobs = 2, 40
	quick := func(*claimed, context.Context) error { return nil }
	groups(t, replicas, jobs, quick, func(t *testing.T, all []*claimed, ran func(time.Duration) int) {
		for _, s := range all {
			s.Break(nil)
		}
		time.Sleep(20 * time.Second)
		check(t, "runs in an outage", ran(time.Minute), 0)
		for _, s := range all {
			s.Heal()
		}
		time.Sleep(20 * time.Second)
		check(t, "runs", ran(time.Minute), jobs)
	})
}

// A nameless store refuses to say who has the names of groups.
type nameless struct {
	*soloisttest.Store
	is   atomic.Bool
	jobs atomic.Int32 // claims of jobs meanwhile
}

func (s *nameless) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	for _, c := range claims {
		switch {
		case !s.is.Load():
		case strings.HasPrefix(c.Name, "group/"):
			return nil, errors.New("not now")
		case strings.HasPrefix(c.Name, "job/") && c.Mark > 0:
			s.jobs.Add(1)
		}
	}
	return s.Store.Acquire(ctx, claims)
}

// A replica that could not claim a group does not claim its jobs as if it could: it asks again.
func TestGroupThatCannotBeClaimedIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &nameless{Store: soloisttest.NewStore()}
		var ran atomic.Int32
		var jobs []soloist.Job
		for i := range 40 {
			jobs = append(jobs, soloist.Job{Name: fmt.Sprint("job ", i), Schedule: soloist.Every(time.Minute), Do: func(context.Context, soloist.Run) error { ran.Add(1); return nil }})
		}
		start(t, soloisttest.NewReplica(t, s, soloist.Config{}), jobs...)
		time.Sleep(30 * time.Second)
		s.is.Store(true)
		time.Sleep(40 * time.Second)
		check(t, "claims of jobs", s.jobs.Load(), 0)
		s.is.Store(false)
		time.Sleep(3 * time.Second)
		check(t, "runs", ran.Load(), 40)
	})
}
