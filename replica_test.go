package soloist_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/cron"
	"github.com/soloist-dev/soloist/soloisttest"
	"github.com/soloist-dev/soloist/store"
)

func nothing(context.Context, soloist.Run) error { return nil }

// People see which replicas are alive and which have died, and of which version they are; the store forgets all of them.
func TestReplicasAreSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := soloisttest.NewStore()
		two, three := one.Share(), one.Share()
		job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), Do: nothing}
		admin := soloisttest.NewReplica(t, three, soloist.Config{Replica: "operator"}).Admin()
		var host string
		look := func() string {
			var all []string
			for info, err := range admin.Replicas(background) {
				if err != nil {
					t.Fatal(err)
				}
				if info.ClockAhead.Abs() > time.Second || info.Jobs != 1 || info.PID == 0 || info.Started.IsZero() || info.Host != host {
					t.Errorf("%+v", info)
				}
				all = append(all, fmt.Sprintf("%s %s alive=%t", info.Replica, info.Version, info.Alive))
			}
			return strings.Join(all, ", ")
		}
		begin := time.Now()
		host, _ = os.Hostname()
		start(t, soloisttest.NewReplica(t, two, soloist.Config{Replica: "two", Version: "v2"}), job)
		time.Sleep(time.Second)
		check(t, "replicas", look(), "two v2 alive=true")
		time.Sleep(10 * time.Minute)
		check(t, "replicas that renew", look(), "two v2 alive=true")
		stop := start(t, soloisttest.NewReplica(t, one, soloist.Config{Replica: "one", Version: "v1"}), job)
		time.Sleep(time.Second)
		if all := look(); !strings.Contains(all, "one v1 alive=true") || !strings.Contains(all, "two v2 alive=true") {
			t.Errorf("replicas: %s", all)
		}
		stop()
		check(t, "replicas after one has withdrawn", look(), "two v2 alive=true")
		two.Stall()
		time.Sleep(31 * time.Second)
		check(t, "replicas after one has died", look(), "two v2 alive=false")
		next := start(t, soloisttest.NewReplica(t, three, soloist.Config{Replica: "three", Version: "v3"}), job)
		time.Sleep(15 * time.Minute)
		start(t, soloisttest.NewReplica(t, three.Share(), soloist.Config{Replica: "four"}), job)() // it buries nobody once more
		time.Sleep(15 * time.Minute)
		if all := look(); !strings.Contains(all, "two v2 alive=false") || !strings.Contains(all, "three v3 alive=true") {
			t.Errorf("replicas half an hour later: %s", all)
		}
		time.Sleep(31 * time.Minute)
		check(t, "replicas an hour later", look(), "three v3 alive=true")
		next()
		for n := 1; n > 0; {
			var err error
			if n, err = three.Sweep(background, 100); err != nil {
				t.Fatal(err)
			}
		}
		for r, err := range three.List(background, "replica") {
			t.Errorf("%q is left, %v (begun %v)", r.Name, err, begin)
		}
		two.Heal()
	})
}

// People see for how long a replica has been silent: before it counts as dead, and after.
func TestSilentReplicasAreSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := soloisttest.NewStore()
		dying := s.Share()
		other := soloisttest.NewReplica(t, s, soloist.Config{Replica: "other"})
		job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), Do: nothing}
		look := func(least, most time.Duration, alive bool) {
			t.Helper()
			dying := 0
			for info, err := range other.Admin().Replicas(background) {
				if info.Replica == "dying" {
					dying++
				}
				if err != nil || info.Replica == "dying" && (info.Alive != alive || info.Silent < least || info.Silent > most || alive && info.Silent+info.Left != 30*time.Second) {
					t.Errorf("alive %t, silent for %v, %v left, %v; want alive %t, silent for %v to %v", info.Alive, info.Silent, info.Left, err, alive, least, most)
				}
			}
			if dying != 1 {
				t.Errorf("listed %d times, want once", dying)
			}
		}
		start(t, soloisttest.NewReplica(t, dying, soloist.Config{Replica: "dying"}), job)
		for range 100 {
			time.Sleep(7 * time.Second)
			look(0, 10*time.Second, true)
		}
		dying.Stall()
		time.Sleep(15 * time.Second)
		look(15*time.Second, 25*time.Second, true)
		time.Sleep(time.Minute)
		look(30*time.Second, 30*time.Second, false) // nobody has noticed yet
		start(t, other, job)
		time.Sleep(20 * time.Minute)
		look(20*time.Minute, 22*time.Minute, false)
		dying.Heal()
	})
}

// A repeating store carries the first claim of a replica's pages out once more, when that has been given back. Of the first two requests for them nobody hears.
type repeating struct {
	*soloisttest.Store
	claims, releases atomic.Int32
}

func (s *repeating) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	outs, err := s.Store.Acquire(ctx, claims)
	if strings.HasPrefix(claims[0].Name, "replica-jobs/") && claims[0].Mark == 0 {
		if s.claims.Add(1) <= 2 {
			return nil, store.AsUnknown(errors.New("lost"))
		}
	}
	return outs, err
}

func (s *repeating) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	errs, err := s.Store.Release(ctx, releases)
	if strings.HasPrefix(releases[0].Name, "replica-jobs/") {
		if s.releases.Add(1) == 1 {
			_, err := s.Store.Acquire(ctx, []store.Claim{{Name: releases[0].Name, Holder: releases[0].Holder, TTL: 10 * time.Second}})
			return nil, store.AsUnknown(err)
		}
	}
	return errs, err
}

// A replica is not kept from its jobs by its own claim that took effect late.
func TestReplicaIsNotInItsOwnWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &repeating{Store: soloisttest.NewStore()}
		c := soloisttest.NewReplica(t, s, soloist.Config{RequestTimeout: 500 * time.Millisecond})
		r, err := c.NewRunner(soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), Do: nothing})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		ctx, stop := context.WithCancel(background)
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		<-r.Ready()
		if took := time.Since(begin); took > 3*time.Second {
			t.Errorf("it was ready after %v", took)
		}
		if n := s.releases.Load(); n < 2 {
			t.Errorf("%d releases: nothing was repeated", n)
		}
		stop()
		check(t, "Run", <-ended, nil)
	})
}

// A slow store does not carry out the first two claims of a replica's pages, which get no reply, and takes its time to reply to the third.
type slow struct {
	*soloisttest.Store
	claims atomic.Int32
}

func (s *slow) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	if !strings.HasPrefix(claims[0].Name, "replica-jobs/") || claims[0].Mark != 0 {
		return s.Store.Acquire(ctx, claims)
	}
	n := s.claims.Add(1)
	if n <= 2 {
		return slices.Repeat([]store.Outcome{{Err: errNoReply}}, len(claims)), nil
	}
	outs, err := s.Store.Acquire(ctx, claims)
	if n == 3 {
		time.Sleep(300 * time.Millisecond)
	}
	return outs, err
}

// A replica does not take its list of jobs for written when what it does to give back an earlier claim has ended the lease with which it would have written it.
func TestReplicaDoesNotGiveBackItsPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{Store: soloisttest.NewStore()}
		c := soloisttest.NewReplica(t, s, soloist.Config{})
		r := runs(t, c, soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Do: nothing})
		<-r.Ready()
		if n := s.claims.Load(); n < 3 {
			t.Errorf("it was ready after %d claims", n)
		}
		_, err := c.Admin().TriggerAndWait(background, "tick") // while it runs, Forget is ErrHeld
		wantIs(t, "triggering", err, nil)
		wantIs(t, "forgetting a job that a replica has", c.Admin().Forget(background, "tick"), soloist.ErrInUse)
	})
}

// A mute store carries out what the first holder of a replica's record asks, and does not say so when it extends.
type mute struct {
	*soloisttest.Store
	first atomic.Pointer[string]
}

func (s *mute) Extend(ctx context.Context, extensions []store.Extension) ([]error, error) {
	errs, err := s.Store.Extend(ctx, extensions)
	if e := extensions[0]; strings.HasPrefix(e.Name, "replica/") && (s.first.CompareAndSwap(nil, &e.Holder) || *s.first.Load() == e.Holder) {
		return nil, store.AsUnknown(errors.New("lost"))
	}
	return errs, err
}

// A replica is not kept from its jobs by an earlier lease of its record, which was renewed without its knowledge.
func TestReplicaIsNotKeptOutByItsOwnRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &mute{Store: soloisttest.NewStore()}
		c := soloisttest.NewReplica(t, s, soloist.Config{})
		r, err := c.NewRunner(soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), Do: nothing})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		ctx, stop := context.WithCancel(background)
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		<-r.Ready()
		if took := time.Since(begin); took < 20*time.Second || took > 32*time.Second {
			t.Errorf("it was ready after %v, want as soon as it took its first lease for lost", took)
		}
		if infos, err := collect(c.Admin().Replicas(background)); err != nil || len(infos) != 1 || !infos[0].Alive {
			t.Errorf("replicas: %+v, %v", infos, err)
		}
		stop()
		check(t, "Run", <-ended, nil)
	})
}

// A replica that is taken for dead as it begins does not wait for the lease of the one that removes its records, which may have died or cannot remove them.
func TestReplicaDoesNotWaitForItsBurial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := soloisttest.NewStore()
		var buried atomic.Bool
		s := &unanswered{Store: network, is: func(claim store.Claim) bool {
			if !strings.HasPrefix(claim.Name, "replica/") || buried.Swap(true) {
				return false
			}
			outs, err := network.Acquire(background, []store.Claim{{Name: claim.Name, Holder: "other#1", TTL: 10 * time.Second}})
			if err != nil || outs[0].Err != nil {
				t.Errorf("the one that buries it: %v, %v", outs, err)
			}
			return true
		}}
		c := soloisttest.NewReplica(t, s, soloist.Config{Replica: "one"})
		begin := time.Now()
		r := runs(t, c, soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), Do: nothing})
		<-r.Ready()
		if took := time.Since(begin); took > 3*time.Second {
			t.Errorf("it was ready after %v", took)
		}
		check(t, "its record was taken from it", buried.Load(), true)
		if infos, err := collect(c.Admin().Replicas(background)); err != nil || len(infos) != 1 || infos[0].Replica != "one" || !infos[0].Alive {
			t.Errorf("replicas: %+v, %v", infos, err)
		}
	})
}

// While the store fails, a replica that begins asks again as often as one that has begun.
func TestReplicaThatBeginsInAnOutageIsReadySoonAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for outage := 10 * time.Second; outage < 20*time.Second; outage += time.Second {
			s := soloisttest.NewStore()
			s.Break(errors.New("away"))
			r, err := soloisttest.NewReplica(t, s, soloist.Config{}).NewRunner(soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), Do: nothing})
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(background)
			ended := make(chan error)
			go func() { ended <- r.Run(ctx) }()
			time.Sleep(outage)
			s.Heal()
			healed := time.Now()
			<-r.Ready()
			if took := time.Since(healed); took > 1600*time.Millisecond {
				t.Errorf("after an outage of %v it was ready after %v", outage, took)
			}
			stop()
			check(t, "Run", <-ended, nil)
		}
	})
}

// A replica that was cut off for longer than its lease is alive again when it is back.
func TestReplicaIsSeenAgainAfterAnOutage(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		start(t, a, soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), Do: nothing})
		time.Sleep(time.Second)
		s.Break(errors.New("away"))
		time.Sleep(2 * time.Minute)
		if infos, err := collect(b.Admin().Replicas(background)); err != nil || len(infos) != 1 || infos[0].Alive {
			t.Errorf("while it is cut off: %+v, %v", infos, err)
		}
		s.Heal()
		time.Sleep(time.Minute)
		if infos, err := collect(b.Admin().Replicas(background)); err != nil || len(infos) != 1 || !infos[0].Alive {
			t.Errorf("when it is back: %+v, %v", infos, err)
		}
	})
}

// Two replicas that have one job in different forms are reported: in the log, as an event, and in the list of jobs.
func TestDifferentDefinitionsAreReported(t *testing.T) {
	everyMinute := func(zone *time.Location) soloist.Schedule {
		e, err := cron.ParseIn("* * * * *", zone)
		must(t, err)
		return e
	}
	for name, change := range map[string]func(*soloist.Job){
		"schedule":    func(j *soloist.Job) { j.Schedule = soloist.Every(time.Hour) },
		"zone":        func(j *soloist.Job) { j.Schedule = everyMinute(time.FixedZone("here", 3600)) },
		"description": func(j *soloist.Job) { j.Description = "./report --fast" },
		"policy":      func(j *soloist.Job) { j.Crash = soloist.CrashGiveUp },
		"nothing":     func(*soloist.Job) {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := soloisttest.NewStore()
				var log strings.Builder
				var saw witness
				job := soloist.Job{Name: "report", Schedule: everyMinute(time.UTC), Description: "./report", Do: nothing}
				other := soloist.Job{Name: "other", Schedule: soloist.Every(time.Minute), Do: nothing}
				start(t, soloisttest.NewReplica(t, s, soloist.Config{Replica: "one"}), job, other)
				time.Sleep(time.Second)
				changed := job
				change(&changed)
				two := soloisttest.NewReplica(t, s.Share(), soloist.Config{Replica: "two", Observe: saw.observe, Logger: slog.New(slog.NewTextHandler(&log, nil))})
				stop := start(t, two, changed, other)
				time.Sleep(time.Second)
				differ := name != "nothing"
				for _, job := range []string{"report", "other"} {
					info, err := two.Admin().Job(background, job)
					if err != nil || len(info.Replicas) != 2 || info.Differ() != (differ && job == "report") {
						t.Errorf("%s: %+v, %v", job, info.Replicas, err)
					}
				}
				stop()
				events := saw.of(soloist.EventDiffers)
				if want := map[bool]int{true: 1}[differ]; len(events) != want || want > 0 && (events[0].Subject.Name != "report" || !strings.Contains(events[0].Err.Error(), "one")) {
					t.Errorf("events: %+v", events)
				}
				if said := strings.Contains(log.String(), "other definitions") && strings.Contains(log.String(), "replica=one"); said != differ {
					t.Errorf("log: %s", log.String())
				}
				if info, err := two.Admin().Job(background, "report"); err != nil || info.Differ() || len(info.Replicas) != 1 {
					t.Errorf("when one has gone: %+v, %v", info.Replicas, err)
				}
			})
		})
	}
}

// A definition that is changed later is compared with those of the other replicas, too, and what agrees again is not reported again.
func TestDefinitionsThatDifferLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := soloisttest.NewStore()
		var saw witness
		job := soloist.Job{Name: "report", Schedule: soloist.Every(time.Hour), Do: nothing}
		runs(t, soloisttest.NewReplica(t, s, soloist.Config{Replica: "one"}), job)
		r := runs(t, soloisttest.NewReplica(t, s.Share(), soloist.Config{Replica: "two", Observe: saw.observe}), job)
		for i, every := range []time.Duration{time.Hour, time.Minute, time.Hour, time.Minute} {
			job.Schedule = soloist.Every(every)
			must(t, r.Update(job))
			time.Sleep(10 * time.Minute)
			check(t, fmt.Sprintf("differences after %d changes", i+1), len(saw.of(soloist.EventDiffers)), (i+1)/2)
		}
	})
}

// Replicas that have the same jobs are read once for all of them, unless what one of them has written cannot be read.
func TestJobsOfAReplicaThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := soloisttest.NewStore()
		job := soloist.Job{Name: "report", Schedule: soloist.Every(time.Hour), Do: nothing}
		var names []string
		for _, replica := range []string{"one", "two"} {
			start(t, soloisttest.NewReplica(t, s.Share(), soloist.Config{Replica: replica}), job)
		}
		time.Sleep(time.Second)
		for r, err := range s.List(background, "replica-jobs/") {
			must(t, err)
			names = append(names, r.Name)
		}
		check(t, "records of jobs", len(names), 2)
		slices.Sort(names)
		admin := soloisttest.NewReplica(t, s.Share(), soloist.Config{}).Admin()
		for i, want := range []int{2, 1} {
			if info, _ := admin.Job(background, "report"); len(info.Replicas) != want {
				t.Errorf("with %d that cannot be read: %+v", i, info.Replicas)
			}
			overwrite(t, s, names[0], "?")
		}
	})
}

// A taciturn store does not answer what is written into the records of replicas, once it is so, and does not do it.
type taciturn struct {
	*soloisttest.Store
	is atomic.Bool
}

func (s *taciturn) Extend(ctx context.Context, extensions []store.Extension) ([]error, error) {
	if s.is.Load() && slices.ContainsFunc(extensions, func(e store.Extension) bool { return strings.HasPrefix(e.Name, "replica/") && e.State != nil }) {
		return nil, store.AsUnknown(errors.New("lost"))
	}
	return s.Store.Extend(ctx, extensions)
}

// A replica that has written which jobs it has, and not yet how many, does not hide that another one has the jobs that it had.
func TestReplicaWhoseJobsAreChangingHidesNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := soloisttest.NewStore()
		jobs := []soloist.Job{{Name: "kept", Schedule: soloist.Every(time.Hour), Do: nothing}, {Name: "removed", Schedule: soloist.Every(time.Hour), Do: nothing}}
		stores, runners := map[string]*taciturn{}, map[string]*soloist.Runner{}
		for _, name := range []string{"one", "two"} {
			stores[name] = &taciturn{Store: s.Share()}
			runners[name] = runs(t, soloisttest.NewReplica(t, stores[name], soloist.Config{Replica: name}), jobs...)
		}
		admin := soloisttest.NewReplica(t, s.Share(), soloist.Config{}).Admin()
		replicas, err := collect(admin.Replicas(background))
		must(t, err)
		first, other := replicas[0].Replica, replicas[1].Replica
		stores[first].is.Store(true)
		must(t, runners[first].Remove(background, "removed"))
		time.Sleep(2 * time.Second)
		info, err := admin.Job(background, "removed")
		must(t, err)
		if len(info.Replicas) != 1 || info.Replicas[0].Replica != other {
			t.Errorf("%s has it no more, and it is with %+v", first, info.Replicas)
		}
		if err := admin.Trigger(background, "removed"); err != nil {
			t.Errorf("triggered: %v", err)
		}
		if err := admin.Forget(background, "removed"); !errors.Is(err, soloist.ErrInUse) && !errors.Is(err, soloist.ErrHeld) {
			t.Errorf("forgotten: %v", err)
		}
		stores[first].is.Store(false)
	})
}

// A hook store calls a function before each claim of a record of a replica, unless it only reads.
type hook struct {
	*soloisttest.Store
	before func(name string)
}

func (s *hook) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	for _, c := range claims {
		if c.Mark == 0 && strings.HasPrefix(c.Name, "replica") {
			s.before(c.Name)
		}
	}
	return s.Store.Acquire(ctx, claims)
}

// A replica that comes back while another one removes the records of those that have died is listed with its jobs, whichever of the two is slow.
func TestReplicaThatComesBackKeepsItsJobs(t *testing.T) {
	for what, tt := range map[string]struct{ slow, other, at string }{
		"who buries it is slow": {"other", "other", "replica/"},
		"it is slow":            {"one", "other", ""},
		"who buries it is slow, and both have one name":       {"other", "one", "replica/"},
		"who buries it is slow when it has it, with one name": {"other", "one", "replica-jobs/"},
	} {
		t.Run(what, func(t *testing.T) {
			slow := tt.slow
			synctest.Test(t, func(t *testing.T) {
				network := soloisttest.NewStore()
				var healed, met atomic.Bool
				job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Do: nothing}
				ofOne, ofOther := network.Share(), network.Share()
				one := &hook{Store: ofOne, before: func(name string) {
					if slow == "one" && healed.Load() && !strings.HasPrefix(name, "replica-jobs/") && met.CompareAndSwap(false, true) {
						time.Sleep(3 * time.Second)
					}
				}}
				runs(t, soloisttest.NewReplica(t, one, soloist.Config{Replica: "one"}), job)
				admin := soloisttest.NewReplica(t, network, soloist.Config{}).Admin()
				records, err := collect(network.List(background, "replica/"))
				must(t, err)
				id := strings.TrimPrefix(records[0].Name, "replica/")
				other := &hook{Store: ofOther, before: func(name string) {
					if slow == "other" && strings.HasPrefix(name, tt.at+id) && met.CompareAndSwap(false, true) {
						ofOne.Heal()
						time.Sleep(3 * time.Second)
					}
				}}
				ofOne.Break(errors.New("cut off"))
				time.Sleep(40 * time.Second)
				if slow == "one" {
					healed.Store(true)
					ofOne.Heal()
					for !met.Load() {
						time.Sleep(10 * time.Millisecond)
					}
				}
				runs(t, soloisttest.NewReplica(t, other, soloist.Config{Replica: tt.other}), soloist.Job{Name: "other", Schedule: soloist.Every(time.Hour), Do: nothing})
				time.Sleep(20 * time.Second)
				check(t, "they have met", met.Load(), true)
				if info, err := admin.Job(background, "tick"); err != nil || len(info.Replicas) != 1 || info.Replicas[0].Replica != "one" {
					t.Errorf("its job is with %+v, %v", info.Replicas, err)
				}
				must(t, admin.Trigger(background, "tick"))
			})
		})
	}
}

// A replica that is back is listed with its jobs, although the one that buries it claimed their records before: that one's claims are answered too late.
func TestReplicaThatIsBackDuringABurialKeepsItsJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := soloisttest.NewStore()
		ofOne := network.Share()
		runs(t, soloisttest.NewReplica(t, ofOne, soloist.Config{Replica: "one"}), soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Do: nothing})
		admin := soloisttest.NewReplica(t, network, soloist.Config{}).Admin()
		records, err := collect(network.List(background, "replica-jobs/"))
		must(t, err)
		page := records[0].Name
		var mu sync.Mutex
		var first time.Time
		granted := 0
		other := &unanswered{Store: network.Share(), is: func(claim store.Claim) bool {
			if claim.Name != page || claim.Mark != 0 {
				return false
			}
			mu.Lock()
			defer mu.Unlock()
			if first.IsZero() {
				first = time.Now()
				time.AfterFunc(11*time.Second, ofOne.Heal) // the record of the replica is free by then
			}
			if time.Since(first) < 16*time.Second {
				return true
			}
			granted++
			return false
		}}
		ofOne.Break(errors.New("cut off"))
		time.Sleep(40 * time.Second)
		runs(t, soloisttest.NewReplica(t, other, soloist.Config{Replica: "other", RequestTimeout: 10 * time.Second}), soloist.Job{Name: "other", Schedule: soloist.Every(time.Hour), Do: nothing})
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		check(t, "its claim is granted when that is late", granted > 0, true)
		if info, err := admin.Job(background, "tick"); err != nil || len(info.Replicas) != 1 || info.Replicas[0].Replica != "one" {
			t.Errorf("its job is with %+v, %v", info.Replicas, err)
		}
		must(t, admin.Trigger(background, "tick"))
	})
}

// An unanswered store does not carry out claims of which is says so, and does not reply to them.
type unanswered struct {
	*soloisttest.Store
	is func(store.Claim) bool
}

func (s *unanswered) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	if slices.ContainsFunc(claims, s.is) {
		return nil, errNoReply
	}
	return s.Store.Acquire(ctx, claims)
}

// What a replica leaves that dies before it is listed is removed: its record, which says nothing yet, and those that list its jobs.
func TestReplicaThatDiesBeforeItIsListedLeavesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		const holder = "early#id"
		claims := []store.Claim{{Name: "replica/id", Holder: holder, TTL: time.Minute}, {Name: "replica-jobs/id/0", Holder: holder, TTL: time.Minute}, {Name: "replica-jobs/id/1", Holder: holder, TTL: time.Minute}}
		outs, err := s.Acquire(background, claims)
		must(t, err)
		for i, claim := range claims[1:] {
			_, err = s.Release(background, []store.Release{{Name: claim.Name, Holder: holder, Token: outs[i+1].Grant.Token, State: []byte("AAAAAAAAAAA="), Retain: store.Forever}})
			must(t, err)
		}
		time.Sleep(time.Hour)
		runs(t, a, soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Do: nothing})
		time.Sleep(time.Minute)
		_, err = s.Sweep(background, 1000)
		must(t, err)
		for _, prefix := range []string{"replica/id", "replica-jobs/id"} {
			if left, err := collect(s.List(background, prefix)); err != nil || len(left) > 0 {
				t.Errorf("left: %+v, %v", left, err)
			}
		}
	})
}

// A slowList store takes its time for each list of a replica's pages.
type slowList struct {
	*soloisttest.Store
	takes time.Duration
}

func (s slowList) List(ctx context.Context, prefix string) iter.Seq2[store.Record, error] {
	return s.ListAfter(ctx, prefix, "")
}

func (s slowList) ListAfter(ctx context.Context, prefix, after string) iter.Seq2[store.Record, error] {
	if strings.HasPrefix(prefix, "replica-jobs/") {
		time.Sleep(s.takes)
	}
	return s.Store.ListAfter(ctx, prefix, after)
}

// Many replicas that died before they were listed leave nothing either, however long the lists take that find their pages.
func TestManyReplicasThatDieBeforeTheyAreListedLeaveNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, _, _ *soloist.Client) {
		const many = 200
		for i := range many {
			_, err := s.Acquire(background, []store.Claim{{Name: fmt.Sprint("replica/", i), Holder: "early#id", TTL: time.Second}})
			must(t, err)
		}
		time.Sleep(time.Minute)
		c := soloisttest.NewReplica(t, slowList{s, 100 * time.Millisecond}, soloist.Config{})
		runs(t, c, soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Do: nothing})
		time.Sleep(5 * time.Minute)
		_, err := s.Sweep(background, 1000)
		must(t, err)
		left, err := collect(s.List(background, "replica/"))
		if err != nil || len(left) != 1 {
			t.Errorf("%d records are left, want that of the one that lives: %v", len(left), err)
		}
	})
}

// A replica that comes back for a moment after its death was recorded, and dies before its record says that it lives, leaves nothing.
func TestReplicaThatDiesTwiceLeavesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		begin := func(holder, state string) {
			claims := []store.Claim{{Name: "replica/id", Holder: holder, TTL: time.Second}, {Name: "replica-jobs/id/0", Holder: "one#id", TTL: time.Second}}
			outs, err := s.Acquire(background, claims)
			must(t, errors.Join(err, outs[0].Err, outs[1].Err))
			_, err = s.Release(background, []store.Release{{Name: claims[1].Name, Holder: claims[1].Holder, Token: outs[1].Grant.Token, State: []byte("AAAAAAAAAAA="), Retain: store.Forever}})
			must(t, err)
			if state != "" {
				_, err = s.Extend(background, []store.Extension{{Name: claims[0].Name, Holder: holder, Token: outs[0].Grant.Token, TTL: time.Second, State: []byte(state)}})
				must(t, err)
			}
		}
		begin("one#id-1", `{"replica":"one","jobs":1,"digest":"x","ttl":1000,"started":1,"clock":1}`)
		time.Sleep(time.Minute)
		job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Do: nothing}
		runs(t, a, job)
		time.Sleep(time.Minute)
		begin("one#id-2", "")
		time.Sleep(2 * time.Hour)
		runs(t, b, job)
		time.Sleep(time.Minute)
		_, err := s.Sweep(background, 1000)
		must(t, err)
		for _, prefix := range []string{"replica/id", "replica-jobs/id"} {
			if left, err := collect(s.List(background, prefix)); err != nil || len(left) > 0 {
				t.Errorf("left: %+v, %v", left, err)
			}
		}
	})
}

// A pageless store refuses to carry out anything on the records that list the jobs of a replica, while it is so.
type pageless struct {
	*soloisttest.Store
	of     *atomic.Value // the id of the replica, "" for none
	silent bool          // the record of a replica cannot say anything
}

func (s pageless) Extend(ctx context.Context, extensions []store.Extension) ([]error, error) {
	if s.silent && strings.HasPrefix(extensions[0].Name, "replica/") {
		return nil, errors.New("out of order")
	}
	return s.Store.Extend(ctx, extensions)
}

func (s pageless) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	outs, err := s.Store.Acquire(ctx, claims)
	for i, c := range claims {
		if id := s.of.Load().(string); id != "" && err == nil && c.Mark >= 0 && strings.HasPrefix(c.Name, "replica-jobs/"+id) {
			if outs[i].Err == nil {
				_, _ = s.Store.Release(ctx, []store.Release{{Name: c.Name, Holder: c.Holder, Token: outs[i].Grant.Token, Retain: store.Forever}})
			}
			outs[i] = store.Outcome{Err: errors.New("out of order")}
		}
	}
	return outs, err
}

// When the records that list the jobs of a replica cannot be removed, the next replica that begins tries it again. Of others that died, everything is removed meanwhile.
func TestPagesThatCannotBeRemovedAreTriedAgain(t *testing.T) {
	const dead = `{"replica":"one","jobs":1,"digest":"x","ttl":1000,"started":1,"clock":1}`
	leaves := func(t *testing.T, s store.Store, id, state string) {
		claims := []store.Claim{{Name: "replica/" + id, Holder: "one#" + id + "-1", TTL: time.Second}, {Name: "replica-jobs/" + id + "/0", Holder: "one#" + id, TTL: time.Second}}
		outs, err := s.Acquire(background, claims)
		must(t, errors.Join(err, outs[0].Err, outs[1].Err))
		_, err = s.Release(background, []store.Release{{Name: claims[1].Name, Holder: claims[1].Holder, Token: outs[1].Grant.Token, State: []byte("AAAAAAAAAAA="), Retain: store.Forever}})
		must(t, err)
		if state != "" {
			_, err = s.Extend(background, []store.Extension{{Name: claims[0].Name, Holder: claims[0].Holder, Token: outs[0].Grant.Token, TTL: time.Second, State: []byte(state)}})
			must(t, err)
		}
	}
	job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Do: nothing}
	for what, begin := range map[string]func(t *testing.T, s pageless){
		"of a replica that died":                      func(t *testing.T, s pageless) { leaves(t, s, "bad", dead) },
		"of a replica that died before it was listed": func(t *testing.T, s pageless) { leaves(t, s, "bad", "") },
		"of a replica that ends": func(t *testing.T, s pageless) {
			c := soloisttest.NewReplica(t, s, soloist.Config{})
			ctx, stop := context.WithCancel(background)
			r, err := c.NewRunner(job)
			must(t, err)
			ended := make(chan error)
			go func() { ended <- r.Run(ctx) }()
			<-r.Ready()
			records, err := collect(s.List(background, "replica/"))
			must(t, err)
			s.of.Store(strings.TrimPrefix(records[0].Name, "replica/"))
			stop()
			must(t, <-ended)
		},
		"of a replica that ends before it is listed": func(t *testing.T, s pageless) {
			s.silent = true
			c := soloisttest.NewReplica(t, s, soloist.Config{})
			ctx, stop := context.WithTimeout(background, 10*time.Second)
			defer stop()
			time.AfterFunc(9*time.Second, func() {
				records, err := collect(s.List(background, "replica/"))
				must(t, err)
				s.of.Store(strings.TrimPrefix(records[0].Name, "replica/"))
			})
			must(t, c.Run(ctx, job))
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := pageless{Store: soloisttest.NewStore(), of: new(atomic.Value)}
				s.of.Store("")
				begin(t, s)
				leaves(t, s, "good", dead)
				if s.of.Load() == "" {
					s.of.Store("bad")
				}
				pages := func(id string) int {
					_, err := s.Sweep(background, 1000)
					must(t, err)
					left, err := collect(s.List(background, "replica-jobs/"+id))
					must(t, err)
					return len(left)
				}
				id := s.of.Load().(string)
				time.Sleep(time.Hour) // the store forgets what need not be kept
				check(t, "pages before another replica begins", pages(id), 1)
				runs(t, soloisttest.NewReplica(t, s, soloist.Config{}), job)
				time.Sleep(2 * time.Hour)
				check(t, "pages that could not be removed", pages(id), 1)
				check(t, "pages of another", pages("good"), 0)
				s.of.Store("")
				runs(t, soloisttest.NewReplica(t, s, soloist.Config{}), job)
				time.Sleep(time.Minute)
				check(t, "pages that could be removed then", pages(id), 0)
			})
		})
	}
}

// A job that is added can be asked for when the Runner is ready, so it is not before the records of the replica list it.
func TestReadyWhenTheReplicaIsListedWithItsJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &taciturn{Store: soloisttest.NewStore()}
		c := soloisttest.NewReplica(t, s, soloist.Config{})
		r := runs(t, c)
		s.is.Store(true)
		must(t, r.Add(soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Do: nothing}))
		time.Sleep(10 * time.Second)
		select {
		case <-r.Ready():
			t.Error("ready although the replica is not listed with the job")
		default:
		}
		s.is.Store(false)
		<-r.Ready()
		must(t, c.Admin().Trigger(background, "tick"))
	})
}

// A Run that ends before it could be announced is not listed: what the store did not confirm may have been carried out.
func TestReplicaThatEndsBeforeItIsAnnouncedIsNotListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &mute{Store: soloisttest.NewStore()}
		c := soloisttest.NewReplica(t, s, soloist.Config{})
		ctx, stop := context.WithTimeout(background, 10*time.Second)
		defer stop()
		must(t, c.Run(ctx, soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), Do: nothing}))
		time.Sleep(time.Minute)
		if infos, err := collect(c.Admin().Replicas(background)); err != nil || len(infos) != 0 {
			t.Errorf("replicas: %+v, %v", infos, err)
		}
	})
}
