package soloist

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/soloist-dev/soloist/internal/rand"
	"github.com/soloist-dev/soloist/store"
)

// A Runner runs jobs: each scheduled time on one replica of the fleet. Jobs can be added, changed and removed at any
// time, also while it runs. All its jobs share one set of goroutines and requests: jobs that are due together are
// claimed together. A Runner is safe for concurrent use.
type Runner struct {
	client *Client

	mu       sync.Mutex
	running  bool // Run is
	plan     *planner
	granted  map[*plannedJob]*Lease // the leases of jobs that have been granted and not released; a nil lease if the grant is not run
	ready    chan struct{}          // closed when all jobs have joined
	leftOver *leftOver              // of Run; nil before and after
	presence *presence              // of the Run that is under way

	changed    chan struct{} // has a value when a job was added or a grant has ended since the loop looked
	controlled chan controlNews
	runs       context.Context // of the runs under way
	cancelRuns context.CancelCauseFunc

	// Used by the goroutine of Run only.
	joinAt  time.Time // when to read the records of new jobs again, after a failure
	failing bool      // the last request to the store failed
}

// An Entry describes a job of a Runner, from the view of this replica.
type Entry struct {
	Job     Job       // as given to NewRunner, Add or Update
	Next    time.Time // the first scheduled time that is neither done nor missed nor running here; zero if there is none, or while the job is paused
	Running bool      // on this replica
	Paused  *Pause    // why it does not run; nil if it does
}

// NewRunner returns a Runner with jobs; more can be added later. It sends no request. In a Job, the zero value of a
// field inherits the client's option, or means the documented default. The error names each job and field that is not
// valid.
func (c *Client) NewRunner(jobs ...Job) (*Runner, error) {
	if c.err != nil {
		return nil, c.err
	}
	r := &Runner{
		client: c, granted: map[*plannedJob]*Lease{}, ready: make(chan struct{}),
		changed: make(chan struct{}, 1), controlled: make(chan controlNews),
	}
	_, clockless := store.As[store.Clockless](c.store)
	limits := groupLimits{from: groupFrom, prefix: c.names.prefix + kindGroup, requestTimeout: c.cfg.RequestTimeout, clockless: clockless}
	if c.groupFrom > 0 {
		limits.from = c.groupFrom
	}
	r.plan = newPlanner(limits, c.newHolder, rand.N[time.Duration], r.left)
	var errs []error
	for _, job := range jobs {
		errs = append(errs, r.Add(job))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return r, nil
}

// Run runs jobs until ctx ends: each scheduled time on one replica of the fleet. It is short for NewRunner and
// Runner.Run.
func (c *Client) Run(ctx context.Context, jobs ...Job) error {
	if len(jobs) == 0 {
		return invalid("jobs", "[]", "give at least one job to run")
	}
	r, err := c.NewRunner(jobs...)
	if err != nil {
		return err
	}
	return r.Run(ctx)
}

// Add adds a job. If Run is running, the job is registered in the store in the background and can then be due; see
// Ready. The error is an *InvalidError if a field is not valid, or if the client has a job of that name already.
func (r *Runner) Add(job Job) error {
	spec, err := r.client.spec(job)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if j := r.plan.jobs[job.Name]; j != nil {
		rule := "is given twice; each job needs its own name"
		if j.removed {
			rule = "is the name of a job that is being removed; wait until Remove has returned"
		}
		return fmt.Errorf("job %q: %w", job.Name, invalid("name", strconv.Quote(job.Name), "%s", rule))
	}
	if r.running {
		if err := r.client.take(job.Name); err != nil {
			return err
		}
	}
	r.plan.add(spec, time.Now())
	select {
	case <-r.ready:
		r.ready = make(chan struct{})
	default:
	}
	r.show()
	r.wake()
	return nil
}

// Update replaces the job of that name, as a restart of the process with the new definition would. A run under way
// continues with the old definition. The error is an *InvalidError if a field is not valid, or ErrNoJob.
func (r *Runner) Update(job Job) error {
	spec, err := r.client.spec(job)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	j := r.plan.jobs[job.Name]
	if j == nil || j.removed {
		return fmt.Errorf("job %q: %w", job.Name, ErrNoJob)
	}
	r.plan.update(j, spec, time.Now())
	r.show()
	r.wake()
	return nil
}

// Remove removes the job of that name: this replica starts no more runs of it. Other replicas that have the job
// continue to run it, and its record stays in the store. Remove waits until a run under way has ended, with its
// retries. If ctx ends first, Remove returns its error, and the job is removed when its run ends. A job of that name
// can be added again only after that. The function of the job must not call Remove for its own job and wait. The error
// is ErrNoJob if the Runner has no such job.
func (r *Runner) Remove(ctx context.Context, name string) error {
	r.mu.Lock()
	j := r.plan.jobs[name]
	if j != nil && !j.removed {
		r.plan.remove(j)
		r.show()
	}
	r.mu.Unlock()
	if j == nil {
		return fmt.Errorf("job %q: %w", name, ErrNoJob)
	}
	r.wake()
	select {
	case <-j.gone:
		return nil
	default:
	}
	select {
	case <-j.gone:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("removing job %q: waiting for the end of its run: %w", name, context.Cause(ctx))
	}
}

// Entries returns the jobs in the order of their names, without those that are being removed. It sends no request.
func (r *Runner) Entries() []Entry {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	var entries []Entry
	for _, j := range r.plan.sorted() {
		if !j.removed {
			entries = append(entries, Entry{Job: j.given, Next: j.upcoming(now), Running: r.granted[j] != nil, Paused: j.asked.Paused})
		}
	}
	return entries
}

// Ready returns a channel that is closed when Run is running and all jobs that were added before the call are
// registered in the store, so that Admin can trigger them. It is not closed while the store cannot be reached, or fails what
// it is asked of one of them. It does not wait for a job whose record cannot be read until somebody mends it.
func (r *Runner) Ready() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ready
}

// left frees the name of a job that has been removed. r.mu is held.
func (r *Runner) left(job string) {
	if r.running {
		r.client.free(job)
	}
}

// wake makes the loop look at the changes.
func (r *Runner) wake() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// spec checks a job and fills in its defaults.
func (c *Client) spec(job Job) (*jobSpec, error) {
	name, err := c.names.name(kindJob, job.Name)
	if err != nil {
		return nil, fmt.Errorf("job %q: %w", job.Name, err)
	}
	control, err := c.names.name(kindControl, job.Name)
	if err != nil {
		return nil, fmt.Errorf("job %q: %w", job.Name, err)
	}
	filled, opts, err := job.filled(c.given)
	if err != nil {
		return nil, err
	}
	return &jobSpec{given: job, job: filled, opts: opts, name: name, control: control}, nil
}

// take reserves the names of jobs in this client.
func (c *core) take(names ...string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range names {
		if c.jobs[name] {
			return fmt.Errorf("job %q: %w", name, invalid("name", strconv.Quote(name), "is that of a job that is running in this client already"))
		}
	}
	for _, name := range names {
		c.jobs[name] = true
	}
	return nil
}

// free releases names that take reserved.
func (c *core) free(names ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range names {
		delete(c.jobs, name)
	}
}
