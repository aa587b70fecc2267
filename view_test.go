package soloist_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
)

// A record that something else has written over does not hide the others from people: the error names it, and comes last.
func TestListsShowWhatCanBeRead(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		do := func(context.Context, soloist.Run) error { return nil }
		stop := start(t, a, soloist.Job{Name: "first", Schedule: soloist.Every(time.Minute), Do: do}, soloist.Job{Name: "second", Schedule: soloist.Every(time.Minute), Do: do},
			soloist.Job{Name: "third", Schedule: soloist.Every(time.Minute), Do: do})
		time.Sleep(90 * time.Second)
		stop()
		if err := a.Elements("invoices", soloist.ElementsOptions{}).Process(background, "1", func(context.Context, *soloist.Element) error { return errors.New("paper jam") }); err == nil {
			t.Fatal("no error")
		}
		admin := b.Admin()
		if err := admin.Pause(background, "third", "a test"); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"job/first", "control/second", "element/invoices/0"} {
			overwrite(t, s, name, "garbage")
		}
		jobs, err := collect(admin.Jobs(background))
		if len(jobs) != 3 || err == nil || !strings.Contains(err.Error(), `"first"`) || !strings.Contains(err.Error(), `"second"`) {
			t.Errorf("%d jobs, %v; want all three, and an error that names the first two", len(jobs), err)
		}
		if third, err := admin.Job(background, "third"); err != nil || third.Paused == nil || len(third.Runs) == 0 {
			t.Errorf("third: %+v, %v", third, err)
		}
		elements, err := collect(admin.Elements(background, "invoices"))
		if len(elements) != 2 || err == nil || !strings.Contains(err.Error(), `"0"`) {
			t.Errorf("%d elements, %v; want both, and an error that names the first", len(elements), err)
		}
	})
}

// lists has all lists of an Admin. Each reads at most so many entries, and returns them as text.
var lists = map[string]func(a *soloist.Admin, most int) ([]string, []error){
	"locks":        func(a *soloist.Admin, most int) ([]string, []error) { return listed(a.Locks(background), most) },
	"leaders":      func(a *soloist.Admin, most int) ([]string, []error) { return listed(a.Leaders(background), most) },
	"semaphores":   func(a *soloist.Admin, most int) ([]string, []error) { return listed(a.Semaphores(background), most) },
	"element jobs": func(a *soloist.Admin, most int) ([]string, []error) { return listed(a.ElementJobs(background), most) },
	"elements":     func(a *soloist.Admin, most int) ([]string, []error) { return listed(a.Elements(background, "b"), most) },
	"jobs":         func(a *soloist.Admin, most int) ([]string, []error) { return listed(a.Jobs(background), most) },
	"replicas":     func(a *soloist.Admin, most int) ([]string, []error) { return listed(a.Replicas(background), most) },
	"actions":      func(a *soloist.Admin, most int) ([]string, []error) { return listed(a.Actions(background), most) },
}

func listed[T any](list iter.Seq2[T, error], most int) (entries []string, errs []error) {
	for one, err := range list {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		text, _ := json.Marshal(one)
		if entries = append(entries, string(text)); len(entries) == most {
			break
		}
	}
	return entries, errs
}

// Each list is empty in an empty store, can be left early, and of a store that is away has nothing but one error: no list looks like one of a fleet that has nothing.
func TestListsOfAStoreThatIsAway(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		for what, list := range lists {
			if all, errs := list(b.Admin(), 100); len(all) > 0 || errs != nil {
				t.Errorf("%s of an empty store: %q, %v", what, all, errs)
			}
		}
		var jobs []soloist.Job
		for _, name := range []string{"a", "b", "c"} {
			mustLock(t, a, name)
			if _, err := a.Campaign(background, name); err != nil {
				t.Fatal(err)
			}
			if _, err := a.Semaphore(name, 2).TryAcquire(background); err != nil {
				t.Fatal(err)
			}
			for _, id := range []string{"1", "2", "3"} {
				if _, err := a.Elements(name, soloist.ElementsOptions{}).Claim(background, id); err != nil {
					t.Fatal(err)
				}
			}
			job := soloist.Job{Name: name, Schedule: soloist.Every(time.Hour), Do: nothing}
			jobs = append(jobs, job)
			start(t, soloisttest.NewReplica(t, s.Share(), soloist.Config{Replica: name}), job)
		}
		time.Sleep(time.Second)
		for _, job := range jobs {
			must(t, b.Admin().Pause(background, job.Name, "a test"))
		}
		network := s.Share()
		admin := soloisttest.NewReplica(t, network, soloist.Config{}).Admin()
		for what, list := range lists {
			all, errs := list(admin, 100)
			if len(all) != 3 || errs != nil {
				t.Errorf("%s: %q, %v", what, all, errs)
				continue
			}
			for most := 1; most <= 3; most++ {
				if some, errs := list(admin, most); !slices.Equal(some, all[:most]) || errs != nil {
					t.Errorf("the first %d %s: %q, %v; want %q", most, what, some, errs, all[:most])
				}
			}
		}
		away := errors.New("away")
		network.Break(away)
		for what, list := range lists {
			if all, errs := list(admin, 100); len(all) > 0 || len(errs) != 1 || !errors.Is(errs[0], away) {
				t.Errorf("%s of a store that is away: %q, %v", what, all, errs)
			}
		}
	})
}

// A list of what is held says who has it, since when, and for how long; and of a semaphore how many permits its holders believe it to have. What is free is not listed.
func TestWhatIsHeldIsListed(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		lock := mustLock(t, a, "x")
		must(t, mustLock(t, a, "free").Release())
		leader, err := a.Campaign(background, "x")
		must(t, err)
		permits := map[string]*soloist.Lease{}
		for _, limit := range []int{9, 2, 3} {
			l, err := a.Semaphore("x", limit).TryAcquire(background)
			must(t, err)
			permits[l.Holder()] = l
		}
		free, err := a.Semaphore("idle", 2).TryAcquire(background)
		must(t, err)
		must(t, free.Release())
		overwrite(t, s, "semaphore/y/first", "")
		time.Sleep(4 * time.Second)
		same := func(info soloist.LeaseInfo, l *soloist.Lease, kind soloist.Kind) {
			t.Helper()
			if info.Kind != kind || info.Name != "x" || info.Holder != l.Holder() || info.Replica() != "a" || info.Token != l.Token() || info.Left != 26*time.Second || info.Age != 4*time.Second {
				t.Errorf("%+v; want a lease of %s of 30 s that was granted 4 s ago", info, l.Holder())
			}
		}
		admin := b.Admin()
		locks, err := collect(admin.Locks(background))
		if len(locks) != 1 || err != nil {
			t.Fatalf("locks: %+v, %v", locks, err)
		}
		same(locks[0], lock, soloist.KindLock)
		leaders, err := collect(admin.Leaders(background))
		if len(leaders) != 1 || err != nil {
			t.Fatalf("leaders: %+v, %v", leaders, err)
		}
		same(leaders[0], leader, soloist.KindLeader)
		semaphores, err := collect(admin.Semaphores(background))
		if len(semaphores) != 2 || err == nil || !strings.Contains(err.Error(), "semaphore/y/first") {
			t.Fatalf("semaphores: %+v, %v; want two, and an error that names what is none", semaphores, err)
		}
		if idle := semaphores[0]; idle.Name != "idle" || len(idle.Permits) != 0 || idle.Limit != 0 {
			t.Errorf("a semaphore of which nobody has a permit: %+v", idle)
		}
		held := semaphores[1]
		if held.Name != "x" || held.Limit != 9 || len(held.Permits) != len(permits) {
			t.Fatalf("%+v; want three of nine permits", held)
		}
		for i, info := range held.Permits {
			if l := permits[info.Holder]; l == nil || info.Permit != i {
				t.Errorf("permit %d: %+v", i, info)
			} else {
				same(info, l, soloist.KindPermit)
			}
		}
	})
}

// Of many records that cannot be read an error names the first ten, and counts the others.
func TestFaultsOfAListAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		for i := range 13 {
			leave(t, s, fmt.Sprintf("element/invoices/%02d", i), "garbage")
		}
		elements, err := collect(a.Admin().Elements(background, "invoices"))
		if len(elements) != 13 || err == nil || !strings.Contains(err.Error(), `"00"`) || !strings.Contains(err.Error(), `"09"`) || strings.Contains(err.Error(), `"10"`) || !strings.Contains(err.Error(), "and 3 more") {
			t.Errorf("%d elements, %v", len(elements), err)
		}
	})
}
