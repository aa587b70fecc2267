package soloist

import (
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
)

// Run runs the jobs until ctx ends: each scheduled time on one replica of the fleet. Every replica runs the same jobs. If the
// store fails, also at the start, Run logs it and no run starts; runs under way lose their leases. Runs start again when the
// store responds.
//
// When ctx ends, Run starts nothing more, waits Config.Drain for the runs under way (when the client shuts down, as long as Shutdown does), cancels their contexts, and
// returns when their functions have. The error is nil, or it names the jobs whose functions ignored their context for another TTL, and those
// whose runs may not be recorded. Another replica immediately takes over a run that failed because it was cancelled.
//
// Only one Run of a Runner can be under way, and a client runs a job in one Runner at a time.
func (r *Runner) Run(ctx context.Context) error {
	c := r.client
	if err := c.enter(); err != nil {
		return err
	}
	defer c.runs.Done()
	if err := r.begin(); err != nil {
		return err
	}
	defer r.end()
	r.runs, r.cancelRuns = context.WithCancelCause(context.WithoutCancel(ctx))
	defer r.cancelRuns(nil)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	if announced, err := r.persist(ctx, r.presence.announce); !announced {
		if r.presence.lease != nil { // it may be listed
			r.presence.withdraw()
		}
		return err
	}
	var aside sync.WaitGroup
	defer func() {
		cancel()
		aside.Wait()
	}()
	aside.Go(func() { r.presence.keep(ctx) })
	if joined, err := r.persist(ctx, r.join); !joined {
		return err
	}
	aside.Go(func() { c.controls(ctx, r.controlled) })
	aside.Go(func() { c.sweeping(ctx) })
	r.loop(ctx)
	return r.drain()
}

// longestPause is how long a Runner waits at most before it asks again after a request that failed.
const longestPause = 3 * time.Second / 2

// persist takes a step until the store has responded to it. It reports false if ctx has ended, or with an error that stays.
func (r *Runner) persist(ctx context.Context, step func(context.Context) error) (bool, error) {
	for wait := newBackoff(longestPause); ; wait.sleep(ctx) {
		err := step(ctx)
		switch {
		case ctx.Err() != nil:
			return false, nil //nolint:nilerr // it ended because it was asked to
		case err == nil:
			return true, nil
		case permanent(err):
			return false, fmt.Errorf("registering the jobs: %w", err)
		}
		r.complain(err)
	}
}

// begin makes the Runner run.
func (r *Runner) begin() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running {
		return errors.New("the Runner is running already")
	}
	if err := r.client.take(slices.Collect(maps.Keys(r.plan.jobs))...); err != nil {
		return err
	}
	r.running, r.joinAt = true, time.Time{}
	r.leftOver = &leftOver{interrupted: map[string]int64{}, notified: true}
	r.plan.begin(time.Now())
	r.presence = newPresence(r.client)
	r.presence.shows = func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.settle()
	}
	r.show()
	return nil
}

func (r *Runner) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running, r.leftOver = false, nil
	select {
	case <-r.ready: // the next Run has not registered them
		r.ready = make(chan struct{})
	default:
	}
	r.client.free(slices.Collect(maps.Keys(r.plan.jobs))...)
}

// sweeping lets the store forget, now and then.
func (c *core) sweeping(ctx context.Context) {
	for sleep(ctx, 5*time.Minute+rand.N(5*time.Minute)) {
		c.sweep()
	}
}

// longestSleep bounds how late a change of the wall clock is noticed.
const longestSleep = 30 * time.Second

// loop claims what is due until ctx ends.
func (r *Runner) loop(ctx context.Context) {
	timer := time.NewTimer(longestSleep)
	defer timer.Stop()
	for ctx.Err() == nil {
		due, wait := r.look(ctx)
		if len(due) > 0 {
			r.claim(ctx, due)
			continue
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-r.changed:
		case news := <-r.controlled:
			r.mu.Lock()
			r.plan.heard(news, time.Now())
			r.mu.Unlock()
		case <-ctx.Done():
		}
	}
}

// look lets new jobs join and returns the jobs that are due, and for how long there is nothing else to do.
func (r *Runner) look(ctx context.Context) (due []*plannedJob, wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now() // under the mutex: the planner takes an earlier time than it has been told for a clock that was set back
	if len(r.plan.fresh) > 0 && !now.Before(r.joinAt) {
		r.mu.Unlock()
		r.joinAt = time.Time{}
		err := r.join(ctx)
		r.complain(err)
		r.mu.Lock()
		if now = time.Now(); err != nil {
			r.joinAt = r.plan.soon(now)
		}
	}
	due, wait = r.plan.due(now), longestSleep
	for _, wake := range []time.Time{r.plan.wake(), r.joinAt} {
		if wake.After(now) {
			wait = min(wait, wake.Sub(now))
		}
	}
	return due, wait
}

// complain logs when the store begins to fail and when it is back.
func (r *Runner) complain(err error) {
	switch {
	case err != nil && !r.failing && r.client.ctx.Err() == nil:
		r.client.log.Warn("no job can start: a request to the store has failed", "err", err)
	case err == nil && r.failing:
		r.client.log.Info("requests to the store succeed again")
	}
	r.failing = err != nil
}

// A leftOver is what runs have left that ended before Run returned.
type leftOver struct {
	interrupted map[string]int64 // the jobs whose runs were interrupted and which no other replica has been notified of, by the tokens of their leases
	notifying   sync.WaitGroup   // a request that notifies the other replicas
	notified    bool             // none is under way
	draining    bool             // Run drains
	unknown     []string         // the jobs whose runs may not have been recorded when they ended then
}

// ended takes note of the end of what a grant has led to. drain waits for it, and so for the notification of the other replicas.
func (r *Runner) ended(e ending) {
	r.mu.Lock()
	name, left := e.job.given.Name, r.leftOver
	delete(r.granted, e.job)
	r.plan.ended(e, time.Now())
	if left != nil && left.draining && e.unknown {
		left.unknown = append(left.unknown, strconv.Quote(name))
	}
	if left != nil && e.left > 0 {
		left.interrupted[name] = e.left
		r.notify()
	}
	r.mu.Unlock()
	if left == nil && e.left > 0 { // Run has not waited for it
		r.client.background(func() { r.client.tell(map[string]int64{name: e.left}) })
	}
	r.wake()
}

// drain waits for the runs under way.
func (r *Runner) drain() error {
	patience := time.NewTimer(r.client.cfg.Drain)
	defer patience.Stop()
	r.mu.Lock()
	r.leftOver.draining = true
	r.mu.Unlock()
	defer r.leftOver.notifying.Wait()
	interrupted := r.client.interrupted.Done()
	if r.client.ctx.Err() != nil { // Shutdown says for how long
		patience.Stop()
	}
	for cancelled, over := false, false; !over && r.underWay() > 0; {
		select {
		case <-r.changed:
			continue
		case <-interrupted:
			interrupted = nil
			if cancelled {
				continue
			}
		case <-patience.C:
			over = cancelled
		}
		cancelled = true
		r.cancelRuns(ErrInterrupted)
		patience.Reset(max(r.client.opts.TTL, time.Second))
	}
	r.mu.Lock()
	left, err := r.leftOver.interrupted, r.undrained()
	r.leftOver = nil
	r.mu.Unlock()
	r.client.tell(left)
	return err
}

// notify notifies the other replicas of the runs that were interrupted, in the background. One request is under way at a time: the next is for all runs
// that were interrupted meanwhile, unless drain sends that. r.mu is held.
func (r *Runner) notify() {
	l := r.leftOver
	if l == nil || !l.notified || len(l.interrupted) == 0 {
		return
	}
	jobs := l.interrupted
	l.interrupted, l.notified = map[string]int64{}, false
	l.notifying.Go(func() {
		r.client.tell(jobs)
		r.mu.Lock()
		defer r.mu.Unlock()
		l.notified = true
		r.notify()
	})
}

// underWay returns how many grants have not been given back.
func (r *Runner) underWay() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.granted)
}

// undrained reports which runs are not over or not known to be recorded, and why. r.mu is held.
func (r *Runner) undrained() error {
	var busy []string
	open := r.leftOver.unknown
	for j, lease := range r.granted {
		if lease != nil && lease.busy.Load() {
			busy = append(busy, strconv.Quote(j.job.Name))
		} else {
			open = append(open, strconv.Quote(j.job.Name))
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
