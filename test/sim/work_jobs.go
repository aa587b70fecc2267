package sim

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/cron"
	"github.com/soloist-dev/soloist/internal/proof"
)

func recordOfJob(name string) string { return "job/" + name }

// jobs are those that the replica runs.
func (r *replica) jobs() (mine []JobPlan) {
	for _, j := range r.world.plan.jobs() {
		if j.Absent>>(r.index%64)&1 == 0 {
			mine = append(mine, j)
		}
	}
	return mine
}

// jobs runs the jobs.
func (t *thread) jobs(ctx context.Context) {
	var jobs []soloist.Job
	for _, j := range t.replica.jobs() { // some have none
		jobs = append(jobs, t.job(j))
	}
	for ctx.Err() == nil && len(jobs) > 0 { // a replica whose first request fails is started again
		t.knows()
		var invalid *soloist.InvalidError
		if err := t.client.Run(ctx, jobs...); errors.As(err, &invalid) {
			t.world.violated("client", t.name(), "it cannot run its jobs: %v", err)
			return
		}
		t.leaves()
		rest(ctx, t.world.plan.TTL/4)
	}
}

func (t *thread) job(p JobPlan) soloist.Job {
	do := func(ctx context.Context, run soloist.Run) error { return t.run(ctx, p, run) }
	job := soloist.Job{
		Name: p.Name, Do: do, TTL: p.TTL, AtMost: p.AtMost, Grace: p.Grace, AtLeast: p.AtLeast, Jitter: p.Jitter,
		Missed: map[string]soloist.Missed{"skip": soloist.MissedSkip, "once": soloist.MissedOnce, "all": soloist.MissedAll}[p.Missed],
		Retry:  soloist.Retry{Attempts: p.Attempts, Backoff: p.Backoff},
	}
	if p.Uneven && t.index%2 == 1 {
		job.TTL, job.Grace = p.ttl(t.world.plan)/2, p.Grace*2
	}
	if plan := t.world.plan; job.TTL > 0 && plan.Margin > 0 { // drift is drawn for it
		job.Margin = time.Duration(float64(plan.Margin) / float64(plan.TTL) * float64(job.TTL))
	}
	if job.Missed == soloist.MissedAll {
		job.MissedCap = p.Cap
	}
	if p.GiveUp {
		job.Crash = soloist.CrashGiveUp
	}
	switch {
	case p.Expression != "":
		job.Schedule = cron.MustParse(p.Expression)
	case p.Delay > 0:
		job.Schedule, job.Missed, job.MissedCap = soloist.Delay(p.Delay), soloist.MissedSkip, 0 // it misses no times
	case p.Other > 0 && t.index%2 == 1:
		job.Schedule = soloist.Every(p.Other)
	default:
		job.Schedule = t.clock(t.life).schedule(soloist.Every(p.Every))
	}
	return job
}

// ttl is how long its leases live.
func (j JobPlan) ttl(p *Plan) time.Duration { return cmp.Or(j.TTL, p.TTL) }

// run is one run of a job.
func (t *thread) run(ctx context.Context, p JobPlan, run soloist.Run) error {
	w := t.world
	if t.lost() {
		return context.Canceled
	}
	e := proof.Event{Kind: proof.Run, At: w.now(), Until: proof.Never, Replica: t.name(), Name: p.Name, Holder: of(run.Lease.Holder()), Token: run.Lease.Token(),
		Mark: t.clock(t.life).ms(run.ScheduledAt.UnixMilli(), 1), Attempt: run.Attempt, Manual: run.Manual, Result: proof.Unknown}
	at := w.add(e)
	w.mu.Lock()
	w.runs[runKey{p.Name, run.Lease.Token()}] = at
	w.mu.Unlock()
	rng := seeded(w.plan.Seed, 5, uint64(run.Lease.Token())+uint64(run.Attempt))
	b := t.believe(run.Lease, recordOfJob(p.Name), "", 1)
	defer b.over()
	long := p.Longest
	if w.healed() {
		long /= 10
		if p.AtMost > 0 { // it must not overrun
			long = min(long, p.AtMost/2)
		}
	}
	rest(ctx, rng.span(long))
	result, err := proof.Okay, error(nil)
	switch {
	case !b.look() || ctx.Err() != nil:
		result, err = proof.Lost, context.Cause(ctx)
		if err == nil {
			err = soloist.ErrLost
		}
		if errors.Is(err, soloist.ErrOverran) {
			result = proof.Failed
		}
	case rng.chance(p.Fails) && !w.healed():
		result, err = proof.Failed, errOfTheUser
		if rng.chance(20) {
			t.ran(at, result)
			panic(errOfTheUser)
		}
	case rng.chance(w.plan.Commits):
		err = t.commit(run.Lease, proof.Event{Kind: proof.Commit, Name: p.Name, Mark: e.Mark, Manual: run.Manual}, rng)
		var done *soloist.DoneError
		if err != nil && !errors.As(err, &done) {
			result = proof.Failed
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

// person pauses, resumes and triggers jobs.
func (t *thread) person(ctx context.Context) {
	w := t.world
	jobs := w.plan.jobs()
	for n := 0; n < 3 && t.busy(ctx); n++ {
		rest(ctx, t.rng.span(w.plan.Trouble/3))
		if ctx.Err() != nil {
			return
		}
		job := jobs[0].Name
		if len(jobs) > 1 {
			job = jobs[t.rng.upTo(len(jobs))].Name
		}
		t.ask(ctx, job)
	}
	for _, j := range jobs {
		if t.resume(ctx, j.Name); ctx.Err() == nil && !t.lost() {
			w.sure(j.Name)
		}
	}
}

// ask asks something of a job.
func (t *thread) ask(ctx context.Context, job string) {
	w := t.world
	begin := w.doubt(job)
	if t.rng.chance(50) {
		err := t.client.Admin().Trigger(ctx, job)
		w.mu.Lock()
		defer w.mu.Unlock()
		of := w.asks[job]
		if of.asked = append(of.asked, begin); err == nil && time.Since(w.begin) < w.plan.Trouble+w.plan.Tail-3*w.plan.TTL {
			of.manual = append(of.manual, begin)
		}
		return
	}
	if t.client.Admin().Pause(ctx, job, "a test") == nil && !t.lost() {
		from := w.now()
		rest(ctx, t.rng.span(w.plan.TTL*2))
		to := w.now()
		w.mu.Lock()
		w.asks[job].pauses = append(w.asks[job].pauses, pause{from, to})
		w.mu.Unlock()
	}
	t.resume(ctx, job)
}

// resume ends a pause, if there is one.
func (t *thread) resume(ctx context.Context, job string) {
	for ctx.Err() == nil && !t.lost() && t.client.Admin().Resume(ctx, job) != nil {
		rest(ctx, t.world.plan.TTL/4)
	}
}

// doubt records that a person begins to ask something of a job, and returns when.
func (w *world) doubt(job string) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	begin, of := time.Since(w.begin), w.asks[job]
	if n := len(of.doubts); n == 0 || of.doubts[n-1].to != proof.Never {
		of.doubts = append(of.doubts, pause{begin, proof.Never})
	}
	return begin
}

// sure records that what was asked of a job is known.
func (w *world) sure(job string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	of := w.asks[job]
	if n := len(of.doubts); n > 0 {
		of.doubts[n-1].to = time.Since(w.begin)
	}
}
