package soloist

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/soloist-dev/soloist/internal/rand"
	"github.com/soloist-dev/soloist/store"
)

// join reads the records of the jobs that have been added and creates those that are missing. So all replicas count
// missed runs from the same time, and lists show a job before it has run. From then on the jobs can be due. If the record of one
// cannot be read or made while others can, that job stays to be tried again at joinAt.
func (r *Runner) join(ctx context.Context) error {
	r.mu.Lock()
	jobs := r.plan.joining()
	names := make([]string, len(jobs))
	for i, j := range jobs {
		names[i] = j.name
	}
	r.mu.Unlock()
	missing, failed, err := r.read(ctx, jobs, names)
	if err != nil {
		return err
	}
	for batch := range slices.Chunk(missing, batchLimit) {
		some, err := r.create(ctx, batch)
		if err != nil {
			return err
		}
		failed = append(failed, some...)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	again := map[*plannedJob]bool{}
	for _, j := range failed {
		again[j] = true
	}
	r.plan.joined(slices.DeleteFunc(jobs, func(j *plannedJob) bool { return again[j] }), now)
	if len(failed) > 0 {
		r.joinAt = r.plan.soon(now)
	}
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

// read reads the records of jobs and returns the jobs that have none, and those whose records could not be read and may be soon.
func (r *Runner) read(ctx context.Context, jobs []*plannedJob, names []string) (missing []*jobRecord, failed []*plannedJob, err error) {
	asked := time.Now()
	records, errs, err := r.client.peekEach(ctx, append(names, r.client.names.prefix+nameControls)) // if that can be read, the store is not away
	if err != nil {
		return nil, nil, err
	}
	read := trip{asked, time.Now(), 0}
	for i, j := range jobs {
		if errs[i] != nil {
			r.client.log.Warn("the record of a job cannot be read", "err", errs[i])
			if !permanent(errs[i]) {
				failed = append(failed, j)
			}
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
	if len(failed) > 0 { // a look at one each time, whichever it is: those that can be read again are not to wait for many lists
		if i := rand.N(len(failed)); r.unreadable(ctx, failed[i].name) {
			failed = slices.Delete(failed, i, i+1) // its claims get the same error until somebody mends the record; the other jobs run
		}
	}
	return missing, failed, nil
}

// unreadable reports whether the record of a name stays as unreadable as it was: only a list tells that from a store that is short of something. What the list says may be of a
// record whose name is longer, so the record itself is read once more.
func (r *Runner) unreadable(ctx context.Context, name string) bool {
	ctx, cancel := context.WithTimeout(ctx, r.client.cfg.RequestTimeout)
	defer cancel()
	for record, err := range r.client.list(ctx, name) {
		if err == nil && record.Name != name {
			continue
		}
		if !OnlyUnreadable(err) {
			return false
		}
		_, err = r.client.peek(ctx, []string{name})
		return err != nil
	}
	return false
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

// create writes records. It skips a name that another replica has just created, or is running. It returns the jobs whose names it could not claim and may soon.
func (r *Runner) create(ctx context.Context, missing []*jobRecord) (failed []*plannedJob, err error) {
	c := r.client
	claims := make([]store.Claim, len(missing))
	for i, rec := range missing {
		claims[i] = store.Claim{Name: rec.name, Holder: c.newHolder(), TTL: rec.ttl, Mark: rec.state.Forgot + 1}
	}
	before := c.clock.earliest()
	outs, _, err := c.claimBatch(ctx, claims, before)
	if err != nil {
		return nil, err
	}
	var late []store.Claim // which a request that had no reply may yet be granted
	defer func() { c.releaseOrphans(late, before) }()
	var releases, anew []store.Release
	for i, out := range outs {
		claim, rec := claims[i], missing[i]
		if out.Err != nil {
			if !refused(out.Err) && !permanent(out.Err) && !errors.Is(out.Err, store.ErrTokens) {
				c.log.Warn("the record of a job cannot be made", "err", out.Err)
				failed = append(failed, rec.job)
			}
			continue
		}
		claim.Mark = 0 // it was claimed for nothing that is due
		if out.again {
			late = append(late, claim)
		}
		if len(out.Grant.State) > 0 {
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
		return failed, nil
	}
	_, err = c.releases.ask(ctx, releases) // those that fail expire, and the first run writes their records
	return failed, err
}
