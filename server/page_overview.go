package server

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/internal/diagnose"
)

// A trouble is something that an operator should look at.
type trouble struct {
	Red  bool   // it is wrong now, or has been within the last day
	What string // one word or two
	Job  string
	Text string
	At   time.Time
}

const (
	// lately is how long ago what has ended is shown on the overview.
	lately = 24 * time.Hour

	// mostTroubles is how many troubles the overview shows.
	mostTroubles = 100
)

// An overlap is two runs of one job at the same time.
type overlap diagnose.Overlap

// String describes the overlap.
func (o overlap) String() string {
	return fmt.Sprintf("doubled: %s (token %d) and %s (token %d) both ran for %s from %s on",
		o.First.Replica, o.First.Token, o.Second.Replica, o.Second.Token, span(o.Took), o.At.UTC().Format("15:04:05"))
}

// overlaps returns where runs of a job overlap.
func overlaps(j soloist.JobInfo, now time.Time) (all []overlap) {
	for _, o := range diagnose.Overlaps(j, now) {
		all = append(all, overlap(o))
	}
	return all
}

// troublesOf returns what is wrong with a job.
func troublesOf(j soloist.JobInfo, now time.Time) (all []trouble) {
	add := func(red bool, what string, at time.Time, format string, args ...any) {
		all = append(all, trouble{red, what, j.Name, fmt.Sprintf(format, args...), at})
	}
	for _, o := range overlaps(j, now) {
		add(true, "doubled", o.At, "%s", strings.TrimPrefix(o.String(), "doubled: "))
	}
	if due := diagnose.Overdue(j, now); !due.IsZero() {
		add(true, "overdue", due, "nothing has run for %s", instant(due))
	}
	for _, r := range j.Runs {
		if now.Sub(r.EndedAt) > lately {
			continue
		}
		switch r.Outcome {
		case soloist.OutcomeLost:
			add(true, "lease lost", r.EndedAt, "%s lost its lease with token %d: %s", r.Replica, r.Token, r.Error)
		case soloist.OutcomeAbandoned:
			add(true, "lease lost", r.EndedAt, "%s died, or was cut off, in a run with token %d", r.Replica, r.Token)
		}
	}
	if n := len(j.Runs); n > 0 {
		switch r := j.Runs[n-1]; r.Outcome {
		case soloist.OutcomeFailed, soloist.OutcomePanicked:
			add(false, r.Outcome, r.EndedAt, "its last run, on %s: %s", r.Replica, r.Error)
		}
	}
	switch {
	case len(j.Replicas) == 0:
		add(false, "no replica", time.Time{}, "no replica that is alive has it")
	case j.Differ():
		add(false, "definitions differ", time.Time{}, "replicas have different schedules or options of it")
	}
	return all
}

// An Overview is the first page.
type Overview struct {
	Troubles                                         []trouble
	More                                             int
	Red                                              bool
	Jobs, Running, Locks, Leaders, Semaphores, Alive count
	Paused, Gone                                     int
	AllPaused                                        *soloist.Pause
	Next                                             []soloist.JobInfo // that run soonest
	Last                                             []lastRun
}

type lastRun struct {
	Job string
	soloist.RunRecord
}

const fewRows = 8

// troublesOfAll returns what is wrong with jobs, what is red first, and then the newest.
func troublesOfAll(jobs []soloist.JobInfo, now time.Time) (all []trouble) {
	for _, j := range jobs {
		all = append(all, troublesOf(j, now)...)
	}
	slices.SortStableFunc(all, func(a, b trouble) int {
		switch {
		case a.Red != b.Red && a.Red:
			return -1
		case a.Red != b.Red:
			return 1
		}
		return b.At.Compare(a.At)
	})
	return all
}

// A count is how many there are of something.
type count struct {
	N    int
	Read bool // whether they have been counted yet
}

// String returns the number, or that it is not known yet.
func (c count) String() string {
	if !c.Read {
		return "…"
	}
	return strconv.Itoa(c.N)
}

// counted returns how many items of a list are such.
func counted[T any](l *listed[T], such func(T) bool) count {
	c := count{Read: !l.at.IsZero()}
	for _, one := range l.items {
		if such(one) {
			c.N++
		}
	}
	return c
}

func (v *visit) overview() (any, error) {
	o := Overview{Red: v.snapshot.cut()}
	for _, t := range v.troubles() {
		if v.caller.mayUse(t.Job) != nil {
			continue
		}
		if o.Red = o.Red || t.Red; len(o.Troubles) < mostTroubles {
			o.Troubles = append(o.Troubles, t)
		} else {
			o.More++
		}
	}
	o.Jobs = counted(v.jobs, func(j soloist.JobInfo) bool { return v.maySee(j.Name) })
	o.Running = counted(v.jobs, func(j soloist.JobInfo) bool { return v.maySee(j.Name) && j.Running != nil })
	for _, j := range v.jobs.items {
		if !v.maySee(j.Name) {
			continue
		}
		if j.Paused != nil {
			o.Paused++
			if j.Paused.All {
				o.AllPaused = j.Paused
			}
		}
		if !j.Next.IsZero() && j.Next.After(v.now) && len(j.Replicas) > 0 {
			o.Next = insert(o.Next, j, func(a, b soloist.JobInfo) int { return a.Next.Compare(b.Next) })
		}
		for _, r := range j.Runs {
			o.Last = insert(o.Last, lastRun{j.Name, r}, func(a, b lastRun) int { return b.EndedAt.Compare(a.EndedAt) })
		}
	}
	o.Locks = counted(v.leases, func(l soloist.LeaseInfo) bool { return v.maySee(l.Name) && l.Kind == soloist.KindLock })
	o.Leaders = counted(v.leases, func(l soloist.LeaseInfo) bool { return v.maySee(l.Name) && l.Kind == soloist.KindLeader })
	o.Semaphores = counted(v.semaphores, func(i soloist.SemaphoreInfo) bool { return v.maySee(i.Name) })
	o.Alive = counted(v.replicas, func(r soloist.ReplicaInfo) bool { return r.Alive })
	o.Gone = len(v.replicas.items) - o.Alive.N
	return o, nil
}

// insert puts one into the few that come first.
func insert[T any](few []T, one T, compare func(a, b T) int) []T {
	if len(few) == fewRows && compare(few[fewRows-1], one) <= 0 {
		return few
	}
	i, _ := slices.BinarySearchFunc(few, one, compare)
	few = slices.Insert(few, i, one)
	return few[:min(len(few), fewRows)]
}

// maySee reports whether the caller may see a name.
func (v *visit) maySee(name string) bool { return v.caller.mayUse(name) == nil }

// matches reports whether a name contains a text, in small or capital letters.
func matches(name, contain string) bool {
	return contain == "" || strings.Contains(strings.ToLower(name), strings.ToLower(contain))
}
