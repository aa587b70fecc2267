package sim

import (
	"context"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/cron"
	"github.com/soloist-dev/soloist/proof"
)

const (
	jobName   = "tick"
	jobRecord = "job/" + jobName
)

// jobs runs the job.
func (t *thread) jobs(ctx context.Context) {
	for ctx.Err() == nil { // a replica whose first request fails is started again
		t.knows()
		_ = t.client.Run(ctx, t.job())
		t.leaves()
		rest(ctx, t.world.plan.TTL/4)
	}
}

func (t *thread) job() soloist.Job {
	p := t.world.plan.Job
	job := soloist.Job{
		Name: jobName, Do: t.run, MissedCap: p.Cap, Grace: p.Grace, AtLeast: p.AtLeast, Jitter: p.Jitter,
		Missed: map[string]soloist.Missed{"skip": soloist.MissedSkip, "once": soloist.MissedOnce, "all": soloist.MissedAll}[p.Missed],
		Retry:  soloist.Retry{Attempts: p.Attempts, Backoff: p.Backoff},
	}
	if p.GiveUp {
		job.Crash = soloist.CrashGiveUp
	}
	switch {
	case p.Expression != "":
		job.Schedule = cron.MustParse(p.Expression)
	case p.Delay > 0:
		job.Schedule = soloist.Delay(p.Delay)
	default:
		job.Schedule = soloist.Every(p.Every)
	}
	return job
}

// run is one run of the job.
func (t *thread) run(ctx context.Context, run soloist.Run) error {
	w := t.world
	if t.lost() {
		return context.Canceled
	}
	e := proof.Event{Kind: proof.Run, At: w.now(), Until: proof.Never, Replica: t.name(), Name: jobName, Holder: of(run.Lease.Holder()), Token: run.Token,
		Mark: run.ScheduledAt.UnixMilli(), Attempt: run.Attempt, Manual: run.Manual, Result: proof.Unknown}
	at := w.add(e)
	w.mu.Lock()
	w.runs[run.Token] = at
	w.mu.Unlock()
	rng := seeded(w.plan.Seed, 5, uint64(run.Token)+uint64(run.Attempt))
	b := t.believe(run.Lease, jobRecord, "", 1)
	defer b.over()
	long := w.plan.Job.Longest
	if w.healed() {
		long /= 10
	}
	rest(ctx, rng.span(long))
	result, err := proof.Okay, error(nil)
	switch {
	case !b.look() || ctx.Err() != nil:
		result, err = proof.Lost, context.Cause(ctx)
		if err == nil {
			err = soloist.ErrLost
		}
	case rng.chance(w.plan.Job.Fails) && !w.healed():
		result, err = proof.Failed, errOfTheUser
		if rng.chance(20) {
			t.ran(at, result)
			panic(errOfTheUser)
		}
	}
	t.ran(at, result)
	return err
}

// ran records how a run's function ended.
func (t *thread) ran(at int, result proof.Result) {
	if !t.lost() {
		t.world.change(at, func(e *proof.Event) { e.Until, e.Result = time.Since(t.world.begin), result })
	}
}

// person pauses, resumes and triggers the job.
func (t *thread) person(ctx context.Context) {
	w := t.world
	for n := 0; n < 3 && t.busy(ctx); n++ {
		rest(ctx, t.rng.span(w.plan.Trouble/3))
		if ctx.Err() != nil {
			return
		}
		begin := w.now()
		w.doubt(begin)
		if t.rng.chance(50) {
			err := t.client.TriggerJob(ctx, jobName)
			w.mu.Lock()
			if w.asked = append(w.asked, begin); err == nil && time.Since(w.begin) < w.plan.Trouble+w.plan.Tail-3*w.plan.TTL {
				w.manual = append(w.manual, begin)
			}
			w.mu.Unlock()
			continue
		}
		if t.client.PauseJob(ctx, jobName, "a test") == nil && !t.lost() {
			from := w.now()
			rest(ctx, t.rng.span(w.plan.TTL*2))
			to := w.now()
			w.mu.Lock()
			w.pauses = append(w.pauses, pause{from, to})
			w.mu.Unlock()
		}
		for ctx.Err() == nil && t.client.ResumeJob(ctx, jobName) != nil {
			rest(ctx, w.plan.TTL/4)
		}
	}
	for ctx.Err() == nil && !t.lost() && t.client.ResumeJob(ctx, jobName) != nil {
		rest(ctx, w.plan.TTL/4)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.doubts); ctx.Err() == nil && !t.lost() && n > 0 {
		w.doubts[n-1].to = time.Since(w.begin)
	}
}

// doubt says that a person begins to ask something of the job.
func (w *world) doubt(begin time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.doubts); n == 0 || w.doubts[n-1].to != proof.Never {
		w.doubts = append(w.doubts, pause{begin, proof.Never})
	}
}
