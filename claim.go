package soloist

import (
	"context"
	"slices"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// claim claims jobs that are due: first the names of their groups, then the jobs that this replica should claim.
func (r *Runner) claim(ctx context.Context, due []*plannedJob) {
	for batch := range slices.Chunk(r.claimGroups(ctx, due), batchLimit-1) {
		r.claimJobs(ctx, batch)
	}
	r.mu.Lock()
	releases := r.plan.finishGroups(time.Now())
	r.mu.Unlock()
	if len(releases) > 0 {
		r.client.background(func() { r.client.releaseBatch(releases) })
	}
}

// claimGroups claims the names of the groups among the jobs that are due, in one request. It returns the jobs to claim.
func (r *Runner) claimGroups(ctx context.Context, due []*plannedJob) []*plannedJob {
	c := r.client
	r.mu.Lock()
	requests, jobs := r.plan.requestGroups(due, time.Now())
	r.mu.Unlock()
	for part := range slices.Chunk(requests, batchLimit) {
		claims := make([]store.Claim, len(part))
		for i, req := range part {
			claims[i] = req.claim
		}
		outs, _, err := c.claimBatch(ctx, claims, c.clock.earliest())
		if r.complain(err); err != nil {
			outs = slices.Repeat([]outcome{{Outcome: store.Outcome{Err: err}}}, len(part))
		}
		for i, req := range part {
			r.mu.Lock()
			mine, err := r.plan.answerGroup(req, outs[i].Outcome, time.Now())
			r.mu.Unlock()
			if jobs = append(jobs, mine...); err != nil {
				c.log.Warn("claiming jobs that are due together", "jobs", len(req.jobs), "err", err)
			}
		}
	}
	return jobs
}

// claimJobs claims jobs in one request. The same request reads whether there are commands (pause, trigger) that the
// planner has not seen.
func (r *Runner) claimJobs(ctx context.Context, jobs []*plannedJob) {
	c := r.client
	r.mu.Lock()
	requests := r.plan.request(jobs, time.Now())
	r.mu.Unlock()
	claims := []store.Claim{peeking(c.names.prefix + nameControls)}
	for _, req := range requests {
		if req.claims {
			claims = append(claims, req.claim)
		}
	}
	before := c.clock.earliest()
	outs, asked, err := c.claimBatch(ctx, claims, before)
	answered := time.Now()
	if r.complain(err); err != nil {
		r.mu.Lock()
		r.plan.unanswered(requests, answered)
		r.mu.Unlock()
		return
	}
	unknown := r.readControls(ctx, requests, outs[0].Outcome)
	outs = outs[1:]
	for i, req := range requests {
		a := answer{trip: trip{asked, answered, 0}, controls: unknown[i]}
		if req.claims {
			a.out, a.again, outs = outs[0].Outcome, outs[0].again, outs[1:]
		}
		r.take(ctx, req, a, before)
	}
}

// readControls reads the commands to jobs, unless the planner has seen the latest ones, which the version of the record
// of changes shows. It returns for each request the error if its commands could not be read.
func (r *Runner) readControls(ctx context.Context, requests []jobRequest, told store.Outcome) []error {
	news, err := peeked(told)
	r.mu.Lock()
	known := err == nil && r.plan.knows(controlsVersion(news))
	r.plan.unsure = r.plan.unsure || !known
	r.mu.Unlock()
	if known {
		return make([]error, len(requests))
	}
	names := make([]string, len(requests)+1)
	for i, req := range requests {
		names[i] = req.spec.control
	}
	names[len(requests)] = r.client.names.prefix + nameControlOfAll
	records, errs, err := r.client.peekEach(ctx, names)
	var all control
	if err == nil {
		all, err = controlRead(records[len(requests)], errs[len(requests)])
	}
	if err != nil {
		return slices.Repeat([]error{err}, len(requests))
	}
	errs = errs[:len(requests)]
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, req := range requests {
		var asked control
		if asked, errs[i] = controlRead(records[i], errs[i]); errs[i] == nil {
			req.job.hear(asked.under(all))
		}
	}
	return errs
}

// controlRead decodes a control that was read just now, unless err is not nil.
func controlRead(r store.Record, err error) (control, error) {
	if err != nil {
		return control{}, err
	}
	return controlOf(r, time.Now())
}

// take passes an answer to the planner and carries out the step that it returns. A job that is granted when Run is to end, by ctx or with the
// client, is given back, and other replicas are notified as of an interrupted run, since they may have been refused it.
func (r *Runner) take(ctx context.Context, req jobRequest, a answer, before time.Time) {
	r.mu.Lock()
	s := r.plan.answer(req, a)
	r.mu.Unlock()
	r.report(req.spec, s, a)
	if !s.granted {
		return
	}
	over := ctx.Err() != nil || r.client.ctx.Err() != nil
	s.back = s.back || over
	lease, err := r.adopt(req, s, a, before)
	if err != nil {
		r.client.log.Warn("claiming a job", "job", req.spec.job.Name, "err", err)
	}
	r.mu.Lock()
	r.granted[req.job] = lease
	r.mu.Unlock()
	go func() {
		var e ending
		if lease != nil {
			e = (&execution{jobSpec: s.spec, decision: s.run, client: r.client.core, lease: lease, ctx: lease.work(r.runs)}).execute()
		} else {
			e = r.releaseUnused(req, a, s.unused, before)
		}
		if over {
			e.left = a.out.Grant.Token
		}
		e.job = req.job
		r.ended(e)
	}()
}

// adopt turns a grant into the lease under which a job is run. It returns nil if the grant must be released.
func (r *Runner) adopt(req jobRequest, s step, a answer, before time.Time) (*Lease, error) {
	if s.back {
		return nil, nil
	}
	client := &Client{core: r.client.core, opts: s.spec.opts}
	return client.tryAdopt(context.WithoutCancel(r.runs), target{kind: KindJob, shown: s.spec.job.Name, again: a.again}, req.claim, a.out.Grant, before)
}

// releaseUnused releases a job that was granted and is not run.
func (r *Runner) releaseUnused(req jobRequest, a answer, state []byte, before time.Time) ending {
	release := store.Release{Name: req.claim.Name, Holder: req.claim.Holder, Token: a.out.Grant.Token, State: state, Retain: Forever}
	if err := r.client.releaseBatchUntil(context.Background(), []store.Release{release}, []time.Duration{req.claim.TTL})[0]; err != nil && !gone(err) {
		r.client.log.Warn("releasing a job", "job", req.spec.job.Name, "err", err)
	} else if a.again {
		r.client.releaseOrphans([]store.Claim{req.claim}, before)
	}
	return ending{back: true}
}

// report logs what operators should know about an answer.
func (r *Runner) report(spec *jobSpec, s step, a answer) {
	switch {
	case s.failed != nil && a.controls != nil:
		r.client.log.Warn("not starting a job whose pause could not be read", "job", spec.job.Name, "err", s.failed)
	case s.failed != nil:
		r.client.log.Warn("claiming a job", "job", spec.job.Name, "err", s.failed)
	}
	r.reportAhead(spec, s.ahead, a.answered)
}

// reportAhead logs an error if a job's record is ahead of this replica's clock.
func (r *Runner) reportAhead(spec *jobSpec, ahead time.Duration, now time.Time) {
	if ahead > 0 {
		r.client.log.Error("a job's record is ahead of this replica's clock, so the clock of a replica is wrong; no scheduled time up to it will be run",
			"job", spec.job.Name, "done until", now.Add(ahead).UTC(), "ahead by", ahead)
	}
}
