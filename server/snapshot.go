package server

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/soloist-dev/soloist"
)

// A snapshot is what the store had when it was read: all but the elements, of which there can be millions.
type snapshot struct {
	at         time.Time // when reading began
	took       time.Duration
	err        error // why something could not be read; the lists have the rest
	jobs       listed[soloist.JobInfo]
	leases     listed[soloist.LeaseInfo] // locks, and then leaderships
	semaphores listed[soloist.SemaphoreInfo]
	replicas   listed[soloist.ReplicaInfo]
	actions    listed[soloist.Action]

	once     sync.Once // for what follows from it
	troubles []trouble
}

// A listed is a list of the store.
type listed[T any] struct {
	items []T
	err   error // why some are not there
}

func readList[T any](all iter.Seq2[T, error]) (l listed[T]) {
	for one, err := range all {
		if err != nil {
			l.err = err
			break
		}
		l.items = append(l.items, one)
	}
	return l
}

// keep adds what the list before had and this one has not, if this one is not complete and the name may still be taken.
func (l *listed[T]) keep(before listed[T], name func(T) string, elapsed time.Duration, after func(T, time.Duration) (T, bool)) {
	if l.err == nil {
		return
	}
	read := map[string]bool{}
	for _, one := range l.items {
		read[name(one)] = true
	}
	for _, one := range before.items {
		if aged, there := after(one, elapsed); there && !read[name(one)] {
			l.items = append(l.items, aged)
		}
	}
}

// readSnapshot reads all lists at once. What cannot be read is as it was in the snapshot before, which may be nil, as far as it lasts.
func readSnapshot(ctx context.Context, admin *soloist.Admin, before *snapshot) *snapshot {
	s := &snapshot{at: time.Now()}
	var leaders listed[soloist.LeaseInfo]
	reads := []func(){
		func() { s.jobs = readList(admin.Jobs(ctx)) },
		func() { s.leases = readList(admin.Locks(ctx)) },
		func() { leaders = readList(admin.Leaders(ctx)) },
		func() { s.semaphores = readList(admin.Semaphores(ctx)) },
		func() { s.replicas = readList(admin.Replicas(ctx)) },
		func() { s.actions = readList(admin.Actions(ctx)) },
	}
	each(len(reads), func(i int) { reads[i]() })
	s.leases.items = append(s.leases.items, leaders.items...)
	if s.leases.err == nil {
		s.leases.err = leaders.err
	}
	s.took = time.Since(s.at)
	for _, err := range []error{s.jobs.err, s.leases.err, s.semaphores.err, s.replicas.err, s.actions.err} {
		if s.err == nil {
			s.err = err
		}
	}
	if before != nil {
		s.keep(before)
	}
	return s
}

func (s *snapshot) keep(before *snapshot) {
	elapsed := s.at.Sub(before.at)
	s.jobs.keep(before.jobs, jobName, elapsed, func(j soloist.JobInfo, elapsed time.Duration) (soloist.JobInfo, bool) {
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
	s.leases.keep(before.leases, leaseKey, elapsed, aged)
	s.semaphores.keep(before.semaphores, semaphoreName, elapsed, func(i soloist.SemaphoreInfo, elapsed time.Duration) (soloist.SemaphoreInfo, bool) {
		var left []soloist.LeaseInfo
		for _, p := range i.Permits {
			if p, held := aged(p, elapsed); held {
				left = append(left, p)
			}
		}
		i.Permits = left
		return i, true
	})
	s.replicas.keep(before.replicas, replicaKey, elapsed, func(r soloist.ReplicaInfo, elapsed time.Duration) (soloist.ReplicaInfo, bool) {
		r.Silent += elapsed
		r.Left = max(0, r.Left-elapsed)
		return r, true
	})
	if s.actions.err != nil {
		s.actions.items = before.actions.items
	}
}

// aged returns a lease as it is after a time in which it was not renewed, and whether it lasts.
func aged(l soloist.LeaseInfo, elapsed time.Duration) (soloist.LeaseInfo, bool) {
	l.Left, l.Age = l.Left-elapsed, l.Age+elapsed
	return l, l.Left > 0
}
