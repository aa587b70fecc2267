package soloist

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/soloist-dev/soloist/cron"
	"github.com/soloist-dev/soloist/store"
)

// A JobInfo describes a job.
type JobInfo struct {
	Name     string
	Schedule string      // as text, from the replica that ran the job last; an expression of cron.ParseIn has its zone in front
	About    string      // Job.Description, from the same replica
	Next     time.Time   // the next scheduled time; zero if there is none, the job is paused, or its schedule is the application's own or in a zone without a portable name, such as time.Local
	DoneUpTo time.Time   // all scheduled times up to it are done, or fell into a pause; zero if none is done
	Running  *RunInfo    // nil if the job is not running
	Paused   *Pause      // why it does not run
	Manual   bool        // a manual run was requested and has not ended
	Runs     []RunRecord // the last 20, the newest last

	// Grace is how long after a scheduled time its run may begin before the time counts as missed, by the policies of the same replica: Job.Jitter
	// and Job.Grace together.
	Grace time.Duration

	// Replicas lists the live replicas that have the job. If it is empty, no replica runs the job: it was removed, or all
	// replicas that had it are down.
	Replicas []Definition

	ended time.Time // of the last run
}

// A Definition identifies the definition of a job on one replica.
type Definition struct {
	Replica string
	Digest  string // of the schedule, the description and the policies
}

// Differ reports whether two live replicas have different definitions of the job.
func (i JobInfo) Differ() bool {
	return slices.ContainsFunc(i.Replicas, func(d Definition) bool { return d.Digest != i.Replicas[0].Digest })
}

// A RunInfo describes a run under way.
type RunInfo struct {
	LeaseInfo
	Since   time.Time // by this machine's clock
	Attempt int
}

// Jobs lists the jobs that a replica has registered.
func (a *Admin) Jobs(ctx context.Context) iter.Seq2[JobInfo, error] { return a.jobs(ctx, a.part) }

// Job returns the description of one job, if the store tells all of it. The error is ErrNoJob if no replica ever registered a job of that name.
func (a *Admin) Job(ctx context.Context, name string) (JobInfo, error) {
	var unread error
	for info, err := range a.jobs(ctx, part{prefix: name}) {
		switch {
		case err != nil:
			unread = err
		case info.Name == name:
			return info, nil
		}
	}
	if unread != nil {
		return JobInfo{}, unread
	}
	return JobInfo{}, fmt.Errorf("%q: %w", name, ErrNoJob)
}

// jobs lists the jobs whose names are in a part.
func (a *Admin) jobs(ctx context.Context, p part) iter.Seq2[JobInfo, error] {
	return func(yield func(JobInfo, error) bool) {
		var bad faults
		controls, all, err := a.client.controlsOf(ctx, p, &bad)
		if bad.add(err); OnlyUnreadable(err) {
			bad.add(a.client.controlsUnlisted(ctx, p, controls))
		}
		f := a.client.fleet(ctx, func(ReplicaInfo) bool { return true })
		bad.add(f.bad.err())
		if err := bad.err(); err != nil && !OnlyUnreadable(err) { // a job that is not paused, or has replicas, would be told otherwise
			yield(JobInfo{}, fmt.Errorf("listing jobs: %w", err))
			return
		}
		prefix := a.client.names.prefix + kindJob
		infos := view(ctx, a.client.core, "jobs", prefix, p, func(name string, r store.Record) (JobInfo, bool, error) {
			info, err := jobInfo(name, r, controls[name].under(all))
			info.Replicas = f.having(name)
			return info, len(info.Replicas) > 0 || !forgotten(r), err
		})
		for info, err := range infos {
			if err != nil {
				bad.add(err)
			} else if !yield(info, nil) {
				return
			}
		}
		if err := bad.err(); err != nil {
			yield(JobInfo{}, err)
		}
	}
}

// having returns the live replicas that have a job.
func (f *fleet) having(job string) (all []Definition) {
	for _, info := range f.replicas {
		if d, has := f.jobs[info.id][hash32(job)]; has {
			all = append(all, Definition{info.Replica, fmt.Sprintf("%08x", d)})
		}
	}
	return all
}

// jobInfo returns the description of a record's job. The error reports which part of it cannot be read.
func jobInfo(name string, r store.Record, ctl control) (JobInfo, error) {
	s, err := parseJobState(r.State)
	if err != nil {
		err = unreadableRecord(fmt.Errorf("job %q: %w", name, err))
	}
	info := JobInfo{Name: name, Schedule: s.Schedule, About: s.About, Paused: ctl.Paused, Manual: ctl.Trigger > s.Trigger, Runs: s.Runs, Grace: s.grace()}
	if r.Mark > s.Forgot {
		info.DoneUpTo = time.UnixMilli(max(r.Mark, ctl.Resumed)).UTC()
	}
	if s.Ended > 0 {
		info.ended = time.UnixMilli(s.Ended).UTC()
	}
	now := time.Now()
	if r.Holder != "" && !r.Free() {
		info.Running = &RunInfo{LeaseInfo: leaseInfo(KindJob, name, r), Since: now.Add(-r.Age).UTC(), Attempt: s.Attempts + 1}
	}
	for info.Next = range info.NextTimes(now) {
		break
	}
	return info, err
}

// NextTimes yields the scheduled times of a job after an instant, as far as they can be computed from the text of its
// schedule. It yields none for a paused job, and at most one for a job with a fixed delay.
func (i JobInfo) NextTimes(after time.Time) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		if i.Paused != nil {
			return
		}
		schedule := parseSchedule(i.Schedule, i.Name)
		switch d, delayed := schedule.(delay); {
		case schedule == nil:
			return
		case delayed:
			if !i.ended.IsZero() && i.Running == nil {
				yield(d.Next(i.ended))
			}
			return
		}
		for t := schedule.Next(later(after, i.DoneUpTo)); !t.IsZero(); t = schedule.Next(t) {
			if !yield(t) {
				return
			}
		}
	}
}

// parseSchedule returns the schedule whose text describe stored for a job, or nil if it is the application's own.
func parseSchedule(text, job string) Schedule {
	if d, ok := strings.CutPrefix(text, "@delay "); ok {
		if d, err := time.ParseDuration(d); err == nil {
			return delay(d)
		}
		return nil
	}
	if t, ok := strings.CutPrefix(text, "@at "); ok {
		if t, err := time.Parse(time.RFC3339Nano, t); err == nil {
			return at(t)
		}
		return nil
	}
	e, err := cron.Parse(text)
	if err != nil {
		return nil
	}
	if e, err = e.For(job); err != nil {
		return nil
	}
	return e
}
