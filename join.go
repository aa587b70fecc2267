package soloist

import (
	"context"
	"slices"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// join reads the records of the jobs that have been added and creates those that are missing. So all replicas count
// missed runs from the same time, and lists show a job before it has run. From then on the jobs can be due.
func (r *Runner) join(ctx context.Context) error {
	r.mu.Lock()
	jobs := r.plan.joining()
	names := make([]string, len(jobs))
	for i, j := range jobs {
		names[i] = j.name
	}
	r.mu.Unlock()
	missing, err := r.read(ctx, jobs, names)
	if err != nil {
		return err
	}
	for batch := range slices.Chunk(missing, batchLimit) {
		if err := r.create(ctx, batch); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.plan.joined(jobs, time.Now())
	r.settle()
	return nil
}

// settle closes ready if all jobs have joined and the records of this replica list them. r.mu is held.
func (r *Runner) settle() {
	if len(r.plan.joining()) > 0 || !r.presence.upToDate() {
		return
	}
	select {
	case <-r.ready:
	default:
		close(r.ready)
	}
}

// show publishes which jobs this replica has. r.mu is held.
func (r *Runner) show() {
	if !r.running {
		return
	}
	jobs := map[string]uint32{}
	for name, j := range r.plan.jobs {
		if !j.removed {
			jobs[name] = definitionOf(j.job, j.opts)
		}
	}
	r.presence.set(jobs)
}

// read reads the records of jobs and returns the jobs that have none.
func (r *Runner) read(ctx context.Context, jobs []*plannedJob, names []string) (missing []*jobRecord, err error) {
	asked := time.Now()
	records, errs, err := r.client.peekEach(ctx, names)
	if err != nil {
		return nil, err
	}
	read := trip{asked, time.Now()}
	for i, j := range jobs {
		if errs[i] != nil { // the claims of this job will get the same error; the other jobs run
			r.client.log.Warn("the record of a job cannot be read", "err", errs[i])
			continue
		}
		r.mu.Lock()
		spec, ahead := j.jobSpec, r.plan.read(j, records[i], read)
		if forgotten(records[i]) && !time.UnixMilli(records[i].Mark).After(read.answered) { // the store deletes it, and a mark that is ahead with it
			j.forgot = records[i].Mark
			missing = append(missing, j.firstRecord())
		}
		r.mu.Unlock()
		r.reportAhead(spec, ahead, read.answered)
	}
	return missing, nil
}

// A jobRecord is the first record of a job, before it is written.
type jobRecord struct {
	job   *plannedJob
	name  string
	ttl   time.Duration
	state jobState
}

func (j *plannedJob) firstRecord() *jobRecord {
	rec := &jobRecord{job: j, name: j.name, ttl: j.opts.TTL, state: jobState{Forgot: j.forgot}}
	rec.state.describe(j.job)
	if _, delayed := j.delayed(); !delayed && !j.since.IsZero() {
		rec.state.Since = j.since.UnixMilli()
	}
	return rec
}

// create writes records. It skips a name that another replica has just created, or is running.
func (r *Runner) create(ctx context.Context, missing []*jobRecord) error {
	c := r.client
	claims := make([]store.Claim, len(missing))
	for i, rec := range missing {
		claims[i] = store.Claim{Name: rec.name, Holder: c.newHolder(), TTL: rec.ttl, Mark: rec.state.Forgot + 1}
	}
	outs, _, err := c.claimBatch(ctx, claims, c.clock.earliest())
	if err != nil {
		return err
	}
	var releases, anew []store.Release
	for i, out := range outs {
		if out.Err != nil {
			continue
		}
		claim, rec := claims[i], missing[i]
		if len(out.Grant.State) > 0 {
			claim.Mark = 0 // it was claimed for nothing that is due
			_ = c.releaseGrant(claim, out.Grant, time.Time{})
			continue
		}
		r.mu.Lock()
		rec.job.sinceThere = rec.state.Since
		r.mu.Unlock()
		rel := store.Release{Name: claim.Name, Holder: claim.Holder, Token: out.Grant.Token, State: rec.state.json(), Retain: Forever}
		if rec.state.Forgot > 0 {
			anew = append(anew, rel)
			continue
		}
		releases = append(releases, rel)
	}
	if len(anew) > 0 {
		for _, err := range c.releaseBatch(anew) {
			if err != nil {
				c.log.Warn("a job that was forgotten may go on where it was", "err", err)
			}
		}
	}
	if len(releases) == 0 {
		return nil
	}
	_, err = c.releases.ask(ctx, releases) // those that fail expire, and the first run writes their records
	return err
}
