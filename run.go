package soloist

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/soloist-dev/soloist/internal/rand"
	"github.com/soloist-dev/soloist/store"
)

// Run runs jobs until ctx ends: each scheduled time on one replica of the fleet. Every replica calls Run with the same jobs. It
// checks them all before anything runs, and asks the store once; an error of either is returned at once. Later the store may
// fail: runs then lose their leases, nothing new starts, and all goes on when it is back.
//
// When ctx ends, Run starts nothing more, waits Config.Drain for the runs under way, cancels their contexts, and
// returns when their functions have: nil, or an error that names the jobs whose functions ignored their context for another TTL, and those
// whose runs the store could not be told of yet. A run that was cancelled by that and fails is taken over by another replica at once.
func (c *Client) Run(ctx context.Context, jobs ...Job) error {
	r := &runner{Client: c, ended: make(chan ending, len(jobs)), controlled: make(chan controlNews), running: map[*task]*Lease{}, version: unsettled, least: herdFrom, first: time.Now().Truncate(time.Millisecond)}
	if err := c.enter(); err != nil {
		return err
	}
	defer c.runs.Done()
	if err := r.prepare(jobs); err != nil {
		return err
	}
	defer r.forget()
	r.runs, r.cancelRuns = context.WithCancelCause(context.WithoutCancel(ctx))
	defer r.cancelRuns(nil)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	var aside sync.WaitGroup
	defer func() {
		cancel()
		aside.Wait()
	}()
	if err := r.appear(ctx, &aside); err != nil {
		return err
	}
	if err := r.register(ctx); err != nil {
		return fmt.Errorf("registering the jobs: %w", err)
	}
	aside.Go(func() { c.controls(ctx, r.controlled) })
	aside.Go(func() { c.sweeping(ctx) })
	r.loop(ctx)
	return r.drain()
}

// appear shows that this replica is alive and which jobs it has, until ctx ends.
func (r *runner) appear(ctx context.Context, aside *sync.WaitGroup) error {
	p := newPresence(r.Client)
	jobs := make(map[string]uint32, len(r.tasks))
	for name, t := range r.tasks {
		jobs[name] = definitionOf(t.job, t.client.opts)
	}
	p.set(jobs)
	if err := p.announce(ctx); err != nil {
		return err
	}
	aside.Go(func() { p.keep(ctx) })
	return nil
}

// sweeping lets the store forget, now and then.
func (c *core) sweeping(ctx context.Context) {
	for sleep(ctx, 5*time.Minute+rand.N(5*time.Minute)) {
		c.sweep()
	}
}

// A runner is one call of Run. Its fields belong to the goroutine of that call.
type runner struct {
	*Client
	tasks      map[string]*task
	wakes      taskHeap
	ended      chan ending
	controlled chan controlNews
	version    int64            // of the controls that the tasks have
	least      int              // as many jobs make a herd
	running    map[*task]*Lease // tasks that have been granted and not concluded; nil if nothing is to be run
	first      time.Time        // since when the jobs are known here
	runs       context.Context
	cancelRuns context.CancelCauseFunc
	failing    bool // the store did not answer the last time
}

// prepare checks the jobs and makes tasks of them.
func (r *runner) prepare(jobs []Job) error {
	if len(jobs) == 0 {
		return invalid("jobs", "[]", "give at least one job to run")
	}
	r.tasks = make(map[string]*task, len(jobs))
	var errs []error
	for _, job := range jobs {
		if _, twice := r.tasks[job.Name]; twice {
			errs = append(errs, fmt.Errorf("job %q: %w", job.Name, invalid("name", fmt.Sprintf("%q", job.Name), "is given twice; each job needs a name of its own")))
			continue
		}
		t, err := r.task(job)
		if err != nil {
			errs = append(errs, err)
		}
		r.tasks[job.Name] = t
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if r.herdFrom > 0 {
		r.least = r.herdFrom
	}
	r.gather(r.least)
	r.mu.Lock()
	defer r.mu.Unlock()
	for name := range r.tasks {
		if r.Client.jobs[name] {
			return fmt.Errorf("job %q: %w", name, errRunning)
		}
	}
	for name := range r.tasks {
		r.Client.jobs[name] = true
	}
	return nil
}

func (r *runner) task(job Job) (*task, error) {
	name, err := r.names.name(kindJob, job.Name)
	if err != nil {
		return nil, fmt.Errorf("job %q: %w", job.Name, err)
	}
	control, err := r.names.name(kindControl, job.Name)
	if err != nil {
		return nil, fmt.Errorf("job %q: %w", job.Name, err)
	}
	job, opts, err := job.filled(r.opts)
	if err != nil {
		return nil, err
	}
	t := &task{job: job, client: &Client{core: r.core, opts: opts}, name: name, control: control, since: r.first, index: -1}
	if _, once := job.Schedule.(at); once {
		t.since = time.Time{} // a time before the job was known is not left out, only missed
	}
	return t, nil
}

func (r *runner) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name := range r.tasks {
		delete(r.Client.jobs, name)
	}
}

// register reads the records of the jobs and makes those that are missing, so that all replicas count missed runs from the same
// time, and people can see the job before it has run.
func (r *runner) register(ctx context.Context) error {
	tasks := slices.SortedFunc(maps.Values(r.tasks), byName)
	names := make([]string, len(tasks))
	for i, t := range tasks {
		names[i] = t.name
	}
	records, errs, err := r.peekEach(ctx, names)
	if err != nil {
		return err
	}
	answered := time.Now()
	var missing []*task
	for i, t := range tasks {
		if errs[i] != nil { // what the claims of this job will be told too; the others run
			r.log.Warn("the record of a job cannot be read", "job", t.job.Name, "err", errs[i])
			continue
		}
		if records[i].Token == 0 {
			missing = append(missing, t)
		}
		t.saw(records[i], answered)
		t.watch(records[i], answered)
		r.compare(t, answered)
	}
	for batch := range slices.Chunk(missing, batchLimit) {
		if err := r.create(ctx, batch); err != nil {
			return err
		}
	}
	now := time.Now()
	r.wakes = make(taskHeap, 0, len(tasks))
	for _, t := range tasks {
		r.schedule(t, t.next(now))
	}
	return nil
}

// create makes records. A name that somebody else has just made, or is running, is left alone.
func (r *runner) create(ctx context.Context, tasks []*task) error {
	claims := make([]store.Claim, len(tasks))
	for i, t := range tasks {
		claims[i] = store.Claim{Name: t.name, Holder: r.newHolder(), TTL: t.client.opts.TTL, Mark: 1}
	}
	before := r.clock.earliest()
	outs, _, err := r.claimBatch(ctx, claims, before)
	if err != nil {
		return err
	}
	var releases []store.Release
	for i, out := range outs {
		if out.Err != nil || out.Grant.Mark > 0 || len(out.Grant.State) > 0 {
			r.releaseOutcome(claims[i], out)
			continue
		}
		var state jobState
		state.describe(tasks[i].job)
		if _, delayed := tasks[i].job.Schedule.(delay); !delayed && !tasks[i].since.IsZero() {
			state.Since = tasks[i].since.UnixMilli()
		}
		releases = append(releases, store.Release{Name: claims[i].Name, Holder: claims[i].Holder, Token: out.Grant.Token, State: state.json(), Retain: Forever})
	}
	if len(releases) == 0 {
		return nil
	}
	_, err = r.releases.ask(ctx, releases) // those that fail end with their TTL, and are made by the first run
	return err
}

// schedule sets when to look at a task again; the zero time is never.
func (r *runner) schedule(t *task, wake time.Time) {
	t.wake = wake
	switch {
	case t.index >= 0 && wake.IsZero():
		heap.Remove(&r.wakes, t.index)
	case t.index >= 0:
		heap.Fix(&r.wakes, t.index)
	case !wake.IsZero():
		heap.Push(&r.wakes, t)
	}
}

// longestSleep bounds how late a change of the wall clock is noticed.
const longestSleep = 30 * time.Second

// loop claims what is due until ctx ends.
func (r *runner) loop(ctx context.Context) {
	timer := time.NewTimer(longestSleep)
	defer timer.Stop()
	for ctx.Err() == nil {
		now := time.Now()
		var due []*task
		for len(r.wakes) > 0 && !r.wakes[0].wake.After(now) {
			due = append(due, heap.Pop(&r.wakes).(*task))
		}
		if len(due) > 0 {
			r.ask(ctx, due)
			continue
		}
		wait := longestSleep
		if len(r.wakes) > 0 {
			wait = min(wait, r.wakes[0].wake.Sub(now))
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case e := <-r.ended:
			r.over(e)
		case news := <-r.controlled:
			r.control(news)
		case <-ctx.Done():
		}
	}
}

// over takes note of the end of a run, or of what was given back instead.
func (r *runner) over(e ending) {
	delete(r.running, e.task)
	if e.back {
		r.schedule(e.task, soon())
		return
	}
	e.task.concluded(e)
	if e.left > 0 {
		r.background(func() { r.tell(map[string]int64{e.task.job.Name: e.left}) })
	}
	now := time.Now()
	_, e.task.behind = e.task.want(now)
	r.schedule(e.task, e.task.next(now))
}

// ask asks for the tasks that are due.
func (r *runner) ask(ctx context.Context, due []*task) {
	herds, due := r.leads(ctx, due)
	known := true
	for batch := range slices.Chunk(due, batchLimit-1) {
		known = r.claim(ctx, batch) && known
	}
	r.asked(herds, known)
}

// control takes over what is asked of the jobs.
func (r *runner) control(news controlNews) {
	now := time.Now()
	r.version = news.version
	for name, t := range r.tasks {
		if ctl := news.all[name]; ctl != t.ctl {
			t.ctl = ctl
			if t.index >= 0 || t.wake.IsZero() {
				r.schedule(t, t.next(now))
			}
		}
	}
	r.takeUp(news.left, now)
}

// claim asks for the tasks that are due, in one request, together with whether people have asked for something since the controls were
// read that the tasks have. It says that they have not.
func (r *runner) claim(ctx context.Context, due []*task) (known bool) {
	now := time.Now()
	claims := make([]store.Claim, 1, len(due)+1)
	claims[0] = peeking(r.names.prefix + nameControls)
	wanted := make([]bool, len(due))
	for i, t := range due {
		mark, ok := t.want(now)
		t.open = false
		if wanted[i] = ok; ok {
			t.asks(now)
			t.claimed, t.behind = mark, false
			claims = append(claims, store.Claim{Name: t.name, Holder: r.newHolder(), TTL: t.client.opts.TTL, Mark: mark})
		}
	}
	before := r.clock.earliest()
	outs, asked, err := r.claimBatch(ctx, claims, before)
	answered := time.Now()
	if r.complain(err); err != nil {
		for _, t := range due {
			t.unanswered()
			r.schedule(t, soon())
		}
		return false
	}
	news, err := peeked(outs[0])
	unknown := make([]error, len(due)) // why nobody knows what is asked of a task
	if known = err == nil && r.version != unsettled && controlsVersion(news) == r.version; !known {
		unknown = r.readControls(ctx, due)
	}
	next := 1
	for i, t := range due {
		var claim store.Claim
		var out store.Outcome
		if wanted[i] {
			claim, out = claims[next], outs[next]
			next++
		}
		switch {
		case unknown[i] != nil && (!wanted[i] || out.Err == nil):
			r.log.Warn("not starting a job that could not be asked for a pause", "job", t.job.Name, "err", unknown[i])
			t.open = true
			if !wanted[i] {
				r.schedule(t, soon())
				continue
			}
			d, ok := t.decide(out.Grant, asked, answered)
			r.putBack(t, claim, t.untouched(claim, out.Grant, d, ok))
		case wanted[i]:
			r.granted(t, claim, out, before, asked, answered)
		default:
			r.schedule(t, t.next(time.Now()))
		}
	}
	return known
}

// putBack gives a job back that was granted and is not run, and has it asked for again soon.
func (r *runner) putBack(t *task, claim store.Claim, rel store.Release) {
	r.running[t] = nil
	end := time.Now().Add(claim.TTL)
	go func() {
		if err := r.releaseBatchUntil([]store.Release{rel}, []time.Time{end})[0]; err != nil && !errors.Is(err, ErrLost) {
			r.log.Warn("giving back a job", "job", t.job.Name, "err", err)
		}
		r.ended <- ending{task: t, back: true}
	}()
}

// readControls reads what is asked of tasks. For those of which it cannot it answers why.
func (r *runner) readControls(ctx context.Context, tasks []*task) []error {
	names := make([]string, len(tasks))
	for i, t := range tasks {
		names[i] = t.control
	}
	records, errs, err := r.peekEach(ctx, names)
	if err != nil {
		return slices.Repeat([]error{err}, len(tasks))
	}
	for i, t := range tasks {
		if errs[i] != nil {
			continue
		}
		ctl, err := controlOf(records[i], time.Now())
		if errs[i] = err; err == nil {
			t.ctl = ctl
		}
	}
	return errs
}

// complain logs when the store begins to fail and when it is back.
func (r *runner) complain(err error) {
	switch {
	case err != nil && !r.failing && r.ctx.Err() == nil:
		r.log.Warn("no job can start: a request to the store has failed", "err", err)
	case err == nil && r.failing:
		r.log.Info("requests to the store succeed again")
	}
	r.failing = err != nil
}

// soon is when to ask again after a failure.
func soon() time.Time { return time.Now().Add(time.Second/2 + rand.N(time.Second)) }

// granted starts a run if the claim, which was sent at asked and answered at answered, was granted, or says when to look again.
func (r *runner) granted(t *task, claim store.Claim, out store.Outcome, before, asked, answered time.Time) {
	now := time.Now()
	t.until = time.Time{}
	var held *HeldError
	var done *DoneError
	switch {
	case errors.As(out.Err, &done):
		t.saw(done.Record, now)
		r.compare(t, now)
		t.watch(done.Record, now)
		r.schedule(t, t.next(now))
		return
	case errors.As(out.Err, &held):
		t.watch(held.Record, now)
		t.refused(held.Record, now)
		r.schedule(t, t.again(held.Record, now))
		return
	case out.Err != nil:
		t.unanswered()
		r.log.Warn("claiming a job", "job", t.job.Name, "err", out.Err)
		r.schedule(t, soon())
		return
	}
	d, ok := t.decide(out.Grant, asked, answered)
	lease, err := t.client.tryAdopt(r.runs, target{shown: t.job.Name, name: t.name}, claim, out.Grant, before)
	if err != nil {
		r.log.Warn("claiming a job", "job", t.job.Name, "err", err)
		r.putBack(t, claim, t.untouched(claim, out.Grant, d, ok))
		return
	}
	r.running[t] = lease
	go func() {
		if ok {
			r.ended <- r.execute(t, lease, d)
			return
		}
		r.ended <- r.decline(t, lease, d)
	}()
}

// compare warns, once for each mark, that a job's record is ahead of this replica's clock.
func (r *runner) compare(t *task, now time.Time) {
	ahead := time.UnixMilli(t.mark).Sub(now)
	if _, delayed := t.job.Schedule.(delay); delayed || ahead <= skew+t.client.opts.AtLeast || t.mark == t.warned {
		return
	}
	t.warned = t.mark
	r.log.Error("a job's record is ahead of this replica's clock, so the clock of a replica is wrong; no scheduled time up to it will be run",
		"job", t.job.Name, "done until", time.UnixMilli(t.mark).UTC(), "ahead by", ahead)
}

// decline gives back a job that is not due, with what its record has to tell.
func (r *runner) decline(t *task, lease *Lease, d decision) ending {
	rel := store.Release{Retain: Forever}
	if d.tell {
		rel.State = d.state.json()
	}
	lease.opts.AtLeast = 0 // no run was begun that others would have to keep their distance from
	err := lease.release(rel)
	if err != nil {
		r.log.Warn("giving back a job that is not due", "job", t.job.Name, "err", err)
	}
	return ending{task: t, recorded: err == nil && d.tell, state: d.state}
}

// drain waits for the runs under way.
func (r *runner) drain() error {
	patience := time.NewTimer(max(0, r.cfg.Drain))
	defer patience.Stop()
	cancelled := false
	interrupted := map[string]int64{}
	defer func() { r.tell(interrupted) }()
	for len(r.running) > 0 {
		select {
		case e := <-r.ended:
			if delete(r.running, e.task); e.left > 0 {
				interrupted[e.task.job.Name] = e.left
			}
		case <-patience.C:
			if cancelled {
				return r.undrained()
			}
			cancelled = true
			r.cancelRuns(ErrInterrupted)
			patience.Reset(max(r.opts.TTL, time.Second))
		}
	}
	return nil
}

// undrained says which runs are not over, and why.
func (r *runner) undrained() error {
	var busy, open []string
	for t, lease := range r.running {
		if lease != nil && lease.busy.Load() {
			busy = append(busy, strconv.Quote(t.job.Name))
		} else {
			open = append(open, strconv.Quote(t.job.Name))
		}
	}
	slices.Sort(busy)
	slices.Sort(open)
	var errs []error
	if len(busy) > 0 {
		errs = append(errs, fmt.Errorf("the functions of these jobs have ignored the end of their context; their leases end with their TTL: %s", strings.Join(busy, ", ")))
	}
	if len(open) > 0 {
		errs = append(errs, fmt.Errorf("the store could not be told of runs of these jobs, so they may be run again: %s: %w", strings.Join(open, ", "), ErrUnknown))
	}
	return errors.Join(errs...)
}
