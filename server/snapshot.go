package server

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/soloist-dev/soloist"
)

// A snapshot is what the store had when its lists were read: all but the elements, of which there can be millions. It does not change.
type snapshot struct {
	jobs       *listed[soloist.JobInfo]
	leases     *listed[soloist.LeaseInfo] // locks, and then leaderships
	semaphores *listed[soloist.SemaphoreInfo]
	replicas   *listed[soloist.ReplicaInfo]
	actions    *listed[soloist.Action]

	troubles func() []trouble // of the jobs
}

// A listed is a list of the store.
type listed[T any] struct {
	items []T
	stood []T       // of a read that was cut: what events take for there, each as it was read last; it may have ended since
	at    time.Time // when reading began; zero if it has not been read
	whole time.Time // when reading that was not cut began last; zero if all were
	took  time.Duration
	err   error // why some are not there
	cut   bool  // the store did not tell all; else those alone are not there that something else has written
}

// A watched list is one of a snapshot.
type watched struct {
	read  func(context.Context, *soloist.Admin) (put func(*snapshot))
	at    func(*snapshot) time.Time
	whole func(*snapshot) time.Time
	took  func(*snapshot) time.Duration
	err   func(*snapshot) error
	cut   func(*snapshot) bool
}

// lists are those of a snapshot.
var lists = []watched{
	listOf(func(s *snapshot) **listed[soloist.JobInfo] { return &s.jobs }, (*soloist.Admin).Jobs, agedJobs),
	listOf(func(s *snapshot) **listed[soloist.LeaseInfo] { return &s.leases }, func(a *soloist.Admin, ctx context.Context) iter.Seq2[soloist.LeaseInfo, error] {
		return leasesOf(ctx, a)
	}, agedLeases),
	listOf(func(s *snapshot) **listed[soloist.SemaphoreInfo] { return &s.semaphores }, (*soloist.Admin).Semaphores, agedSemaphores),
	listOf(func(s *snapshot) **listed[soloist.ReplicaInfo] { return &s.replicas }, (*soloist.Admin).Replicas, agedReplicas),
	listOf(func(s *snapshot) **listed[soloist.Action] { return &s.actions }, (*soloist.Admin).Actions, func(now, before *listed[soloist.Action]) { now.items, now.stood = before.items, before.known() }),
}

// listOf returns the list at a place of a snapshot. What cannot be read is as it was before, as far as it lasts: keep adds it.
func listOf[T any](of func(*snapshot) **listed[T], all func(*soloist.Admin, context.Context) iter.Seq2[T, error], keep func(now, before *listed[T])) watched {
	return watched{
		read: func(ctx context.Context, admin *soloist.Admin) func(*snapshot) {
			l := &listed[T]{at: time.Now()}
			for one, err := range all(admin, ctx) {
				if err != nil {
					l.err, l.cut = err, !soloist.OnlyUnreadable(err)
					break
				}
				l.items = append(l.items, one)
			}
			l.took = time.Since(l.at)
			return func(s *snapshot) {
				if l.whole = l.at; l.cut {
					l.whole = (*of(s)).whole
					keep(l, *of(s))
				}
				*of(s) = l
			}
		},
		at:    func(s *snapshot) time.Time { return (*of(s)).at },
		whole: func(s *snapshot) time.Time { return (*of(s)).whole },
		took:  func(s *snapshot) time.Duration { return (*of(s)).took },
		err:   func(s *snapshot) error { return (*of(s)).err },
		cut:   func(s *snapshot) bool { return (*of(s)).cut },
	}
}

// leasesOf lists the locks, and then the leaderships.
func leasesOf(ctx context.Context, admin *soloist.Admin) iter.Seq2[soloist.LeaseInfo, error] {
	return func(yield func(soloist.LeaseInfo, error) bool) {
		var unread error
		for _, all := range []iter.Seq2[soloist.LeaseInfo, error]{admin.Locks(ctx), admin.Leaders(ctx)} {
			for l, err := range all {
				if err != nil {
					unread = errors.Join(unread, err)
				} else if !yield(l, nil) {
					return
				}
			}
		}
		if unread != nil {
			yield(soloist.LeaseInfo{}, unread)
		}
	}
}

// newSnapshot returns a snapshot of which nothing has been read.
func newSnapshot() *snapshot {
	s := &snapshot{jobs: &listed[soloist.JobInfo]{}, leases: &listed[soloist.LeaseInfo]{}, semaphores: &listed[soloist.SemaphoreInfo]{},
		replicas: &listed[soloist.ReplicaInfo]{}, actions: &listed[soloist.Action]{}}
	s.troubles = s.assess()
	return s
}

// with returns a copy of s with another list.
func (s *snapshot) with(put func(*snapshot)) *snapshot {
	next := *s
	if put(&next); next.jobs != s.jobs {
		next.troubles = next.assess()
	}
	return &next
}

// assess returns what is wrong with the jobs, found once for all who look.
func (s *snapshot) assess() func() []trouble {
	jobs := s.jobs
	return sync.OnceValue(func() []trouble { return troublesOfAll(jobs.items, jobs.at) })
}

// at returns when the list began to be read that was read longest ago; the zero time if one was not read yet.
func (s *snapshot) at() time.Time {
	return s.earliest(func(l watched) time.Time { return l.at(s) })
}

// whole returns up to when all has been read: the zero time if the reads of a list were all cut.
func (s *snapshot) whole() time.Time {
	return s.earliest(func(l watched) time.Time { return l.whole(s) })
}

func (s *snapshot) earliest(of func(watched) time.Time) time.Time {
	first := of(lists[0])
	for _, l := range lists {
		if at := of(l); at.Before(first) {
			first = at
		}
	}
	return first
}

// took returns how long it took to read the list that took longest.
func (s *snapshot) took() (longest time.Duration) {
	for _, l := range lists {
		longest = max(longest, l.took(s))
	}
	return longest
}

// err returns why something could not be read; the lists have the rest.
func (s *snapshot) err() error {
	for _, l := range lists {
		if err := l.err(s); err != nil {
			return err
		}
	}
	return nil
}

// cut reports whether the store could not be read to its end. Records that something else has written do not count.
func (s *snapshot) cut() bool {
	return slices.ContainsFunc(lists, func(l watched) bool { return l.cut(s) })
}

// mostStood is how many items that have ended, as far as this process knows, it keeps until they can be read.
const mostStood = 10_000

// known returns what events take for there.
func (l *listed[T]) known() []T {
	if !l.cut {
		return l.items
	}
	return l.stood
}

// keep adds what the list before had and this one has not, if the name may still be taken.
func (l *listed[T]) keep(before *listed[T], name func(T) string, after func(T, time.Duration) (T, bool)) {
	read := map[string]bool{}
	for _, one := range l.items {
		read[name(one)] = true
	}
	l.stood = slices.Clone(l.items)
	for _, one := range before.known() {
		if !read[name(one)] {
			l.stood = append(l.stood, one)
		}
	}
	for _, one := range before.items {
		if aged, there := after(one, l.at.Sub(before.at)); there && !read[name(one)] {
			l.items = append(l.items, aged)
		}
	}
	if len(l.stood) > len(l.items)+mostStood {
		l.stood = slices.Clone(l.items)
	}
}

func agedJobs(now, before *listed[soloist.JobInfo]) {
	now.keep(before, jobName, func(j soloist.JobInfo, elapsed time.Duration) (soloist.JobInfo, bool) {
		if j.Running != nil {
			run := *j.Running
			var held bool
			if run.LeaseInfo, held = aged(run.LeaseInfo, elapsed); !held {
				j.Running = nil
			} else {
				j.Running = &run
			}
		}
		return j, true
	})
}

func agedLeases(now, before *listed[soloist.LeaseInfo]) { now.keep(before, leaseKey, aged) }

func agedSemaphores(now, before *listed[soloist.SemaphoreInfo]) {
	now.keep(before, semaphoreName, func(i soloist.SemaphoreInfo, elapsed time.Duration) (soloist.SemaphoreInfo, bool) {
		var left []soloist.LeaseInfo
		for _, p := range i.Permits {
			if p, held := aged(p, elapsed); held {
				left = append(left, p)
			}
		}
		i.Permits = left
		return i, true
	})
	was := map[string][]soloist.LeaseInfo{}
	for _, i := range before.known() {
		was[i.Name] = i.Permits
	}
	for n, i := range now.stood { // reading may have ended in the middle of one
		i.Permits = slices.Clone(i.Permits)
		for _, p := range was[i.Name] {
			if !slices.ContainsFunc(i.Permits, func(read soloist.LeaseInfo) bool { return read.Permit == p.Permit }) {
				i.Permits = append(i.Permits, p)
			}
		}
		now.stood[n] = i
	}
}

func agedReplicas(now, before *listed[soloist.ReplicaInfo]) {
	now.keep(before, replicaKey, func(r soloist.ReplicaInfo, elapsed time.Duration) (soloist.ReplicaInfo, bool) {
		r.Silent += elapsed
		r.Left = max(0, r.Left-elapsed)
		return r, true
	})
}

// aged returns a lease as it is after a time in which it was not renewed, and whether it lasts.
func aged(l soloist.LeaseInfo, elapsed time.Duration) (soloist.LeaseInfo, bool) {
	l.Left, l.Age = l.Left-elapsed, l.Age+elapsed
	return l, l.Left > 0
}
