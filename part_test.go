package soloist_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
	"github.com/soloist-dev/soloist/store"
)

// Pages of one name each, each from the last name of the page before, have what the whole list has: also of names that are escaped, whose order is
// another one than that of the names.
func TestPartsOfLists(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		names := []string{"a", "a!b", "a%b", "a)b", "a/b", "a/b/c", "a0", "ab", "b", "b/", "é"}
		var jobs []soloist.Job
		for _, name := range names {
			mustLock(t, a, name)
			if _, err := a.Semaphore(name, 2).TryAcquire(background); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if _, err := a.Elements(name, soloist.ElementsOptions{}).Claim(background, fmt.Sprint(time.Now().UnixNano())); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Millisecond)
			}
			jobs = append(jobs, soloist.Job{Name: name, Schedule: soloist.Every(time.Hour), Do: func(context.Context, soloist.Run) error { return nil }})
		}
		defer start(t, a, jobs...)()
		time.Sleep(time.Second)
		admin := b.Admin()
		for what, list := range map[string]func(*soloist.Admin) ([]string, error){
			"locks":      func(a *soloist.Admin) ([]string, error) { return namesOf(a.Locks(background), leaseName) },
			"semaphores": func(a *soloist.Admin) ([]string, error) { return namesOf(a.Semaphores(background), semaphoreName) },
			"jobs":       func(a *soloist.Admin) ([]string, error) { return namesOf(a.Jobs(background), jobName) },
			"element jobs": func(a *soloist.Admin) ([]string, error) {
				return namesOf(a.ElementJobs(background), func(job string) string { return job })
			},
		} {
			whole, err := list(admin)
			if err != nil || len(whole) != len(names) {
				t.Errorf("%s: %q, %v", what, whole, err)
			}
			for i, name := range whole {
				rest, err := list(admin.Part("", name))
				if err != nil || !slices.Equal(rest, whole[i+1:]) {
					t.Errorf("%s after %q: %q, %v; want %q", what, name, rest, err, whole[i+1:])
				}
			}
			few, err := list(admin.Part("a/", ""))
			if slices.Sort(few); err != nil || !slices.Equal(few, []string{"a/b", "a/b/c"}) {
				t.Errorf("%s with a/: %q, %v", what, few, err)
			}
		}
	})
}

func leaseName(l soloist.LeaseInfo) string         { return l.Name }
func semaphoreName(s soloist.SemaphoreInfo) string { return s.Name }
func jobName(j soloist.JobInfo) string             { return j.Name }

func namesOf[T any](list iter.Seq2[T, error], name func(T) string) (names []string, err error) {
	all, err := collect(list)
	for _, one := range all {
		names = append(names, name(one))
	}
	return names, err
}

// A read store counts the records that are listed.
type read struct {
	store.Store
	records int
}

func (r *read) List(ctx context.Context, prefix string) iter.Seq2[store.Record, error] {
	return r.ListAfter(ctx, prefix, "")
}

func (r *read) ListAfter(ctx context.Context, prefix, after string) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		for record, err := range store.ListAfter(ctx, r.Store, prefix, after) {
			if r.records++; !yield(record, err) {
				return
			}
		}
	}
}

// A page of a long list does not read what comes before it, nor the elements of one job on the way to the next.
func TestPagesReadWhatTheyShow(t *testing.T) {
	s := &read{Store: soloisttest.NewStore()}
	c := soloisttest.NewReplica(t, s, soloist.Config{})
	var claims []store.Claim
	for i := range 2000 {
		claims = append(claims, store.Claim{Name: fmt.Sprintf("lock/%04d", i), Holder: "a#b", TTL: time.Hour},
			store.Claim{Name: fmt.Sprintf("element/job-%d/%04d", i%2, i), Holder: "a#b", TTL: time.Hour})
	}
	if _, err := s.Acquire(background, claims); err != nil {
		t.Fatal(err)
	}
	for l, err := range c.Admin().Part("", "1000").Locks(background) {
		if err != nil || l.Name != "1001" {
			t.Errorf("%q, %v", l.Name, err)
		}
		break
	}
	if s.records > 1 {
		t.Errorf("%d records were read for the lock after one", s.records)
	}
	s.records = 0
	if jobs, err := collect(c.Admin().ElementJobs(background)); err != nil || strings.Join(jobs, " ") != "job-0 job-1" || s.records > 250 {
		t.Errorf("%q, %v, of %d records", jobs, err, s.records)
	}
}

// Records that something else has written, whose job is no escaped name, do not keep a list of the jobs from its end.
func TestForeignElementsEndAList(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		var claims []store.Claim
		for i := range 250 {
			claims = append(claims, store.Claim{Name: fmt.Sprintf("element/%%zz/%03d", i), Holder: "x#y", TTL: time.Hour})
		}
		if _, err := s.Acquire(background, claims); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Elements("zebra", soloist.ElementsOptions{}).Claim(background, "1"); err != nil {
			t.Fatal(err)
		}
		var got []string
		for job, err := range b.Admin().ElementJobs(background) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, job)
		}
		if want := []string{"%zz", "zebra"}; !slices.Equal(got, want) {
			t.Errorf("%q instead of %q", got, want)
		}
	})
}
