package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/cmd/soloist/internal/child"
	"github.com/soloist-dev/soloist/internal/records"
	"github.com/soloist-dev/soloist/store"
)

// run runs the jobs until a signal ends it.
func (r *cronRun) run() error {
	seen, _ := os.Stat(r.path) // before it is read: what is written meanwhile is a change
	file, jobs, err := r.read()
	if err != nil {
		return err
	}
	if r.log, err = r.logger(r.stderr(), "job"); err != nil {
		return err
	}
	for _, w := range file.Warnings {
		r.log.Warn(w.Error())
	}
	signals := make(chan os.Signal, 16)
	// Until the process ends: one more TERM while the store is closed would end it with 143, as if it had not ended well.
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	r.slots = newSlots(r.parallel)
	if err := r.probes.begin(r.log, r.slots); err != nil {
		return err
	}
	defer r.probes.end()
	if r.passed, err = r.passOn(r.log); err != nil {
		return err
	}
	defer r.passed.remove()
	r.adopt()
	r.guardCommands()
	r.stdout = child.NewFunnel(r.out, func(err error) { r.log.Warn("what commands write is being lost", "err", err) })
	r.draining, r.drainNow = context.WithCancel(context.Background())
	defer r.drainNow()
	r.stop, r.end = context.WithCancel(context.Background())
	defer r.end()
	r.hurry = make(chan struct{})

	err = r.untilSignal(jobs, signals, r.changes(seen))
	if lost := r.stdout.Close(flushWithin); lost != nil {
		r.log.Warn("what commands wrote could not be passed on", "err", lost)
	}
	return err
}

// untilSignal runs the jobs, and those of the file when it is read again.
func (r *cronRun) untilSignal(jobs []soloist.Job, signals <-chan os.Signal, changed <-chan struct{}) (err error) {
	defer func() {
		if !errors.Is(err, errKilled) && r.store != nil { // or it may wait for requests
			r.notices.end()
			err = errors.Join(err, r.store.Close())
		}
	}()
	start, reached := storeStart{patience: r.storeWait}, false
	current := &generation{cancel: func() {}} // runs nothing
	var generations []*generation
	again := time.After(0)
	crowd := time.NewTicker(crowdLook)
	defer crowd.Stop()
	for {
		reread := false
		select {
		case <-again:
			if current, err = r.begin(jobs); err != nil {
				current = &generation{cancel: func() {}, err: err}
				if again, err = start.later(r.log, err); err != nil {
					return r.giveUp(generations, signals, err)
				}
				continue
			}
			reached = true
			generations = append(slices.DeleteFunc(generations, (*generation).over), current)
		case <-current.up:
			current.up = nil
			r.probes.running.Store(true)
			r.log.Info("running", "jobs", len(jobs), "file", r.path, "parallel", r.parallel)
			r.tellManager(r.log, managerReady)
		case <-current.ended:
			if current.err == nil {
				return errors.New("the jobs have ended by themselves")
			}
			r.probes.running.Store(false)
			if again, err = start.later(r.log, current.err); err != nil {
				return r.giveUp(generations, signals, err)
			}
			current = &generation{cancel: func() {}}
		case sig := <-signals:
			if sig != syscall.SIGHUP {
				return r.shutDown(generations, signals, slog.String("signal", sig.String()))
			}
			reread = true
		case <-changed:
			reread = !r.refusedAgain()
		case <-crowd.C:
			r.tellCrowd()
		}
		if !reread {
			continue
		}
		r.tellManager(r.log, managerReloading)
		if read := r.reload(); read != nil {
			current.cancel()
			current = &generation{cancel: func() {}}
			if jobs, again = read, time.After(0); reached {
				start = storeStart{patience: -1}
			}
		} else if r.probes.running.Load() {
			r.tellManager(r.log, managerReady)
		}
	}
}

// storeStart is how it is waited for a store that cannot be reached when jobs begin.
type storeStart struct {
	patience waiting
	since    time.Time // zero until it could not be reached
	pause    time.Duration
	told     time.Time
}

// later returns when to try again, or returns the error that ends the wait.
func (s *storeStart) later(log *slog.Logger, err error) (<-chan time.Time, error) {
	if s.since.IsZero() {
		s.since, s.pause = time.Now(), time.Second/8
	}
	if exitCode(err) != exitUnavailable || s.patience >= 0 && time.Since(s.since) >= time.Duration(s.patience) {
		return nil, err
	}
	if time.Since(s.told) >= time.Minute {
		log.Warn("no job can start: waiting for the store", "err", err)
		s.told = time.Now()
	}
	s.pause = min(2*s.pause, 5*time.Second)
	return time.After(s.pause), nil
}

// crowdLook is how often it is looked whether runs wait for a slot.
const crowdLook = 5 * time.Second

// tellCrowd warns when more commands are due than may run at once.
func (r *cronRun) tellCrowd() {
	if n, longest := r.slots.waiting(); longest >= late {
		r.log.Warn("more commands are due than may run at once", "waiting", n, "longest", longest, "parallel", r.parallel)
	}
}

// A generation runs the jobs of one reading of the file. After a reload it drains for as long as its runs take, while
// the next one runs: the store sees to it that they exclude each other.
type generation struct {
	cancel context.CancelFunc // begins no more runs; those under way go on, with their retries
	drain  func()             // also begins no more attempts that another replica makes, and none at all once the commands are stopped
	up     <-chan struct{}    // closed when its jobs are registered
	ended  chan struct{}
	err    error // of Run, once ended is closed
}

func (g *generation) over() bool {
	select {
	case <-g.ended:
		return true
	default:
		return false
	}
}

// drainless is a Drain that does not end: the command itself decides when runs have to end.
const drainless = 100 * 365 * 24 * time.Hour

func (r *cronRun) begin(jobs []soloist.Job) (*generation, error) {
	if r.store == nil {
		opened, err := r.openStore()
		if err != nil {
			return nil, err
		}
		r.store = opened
		r.probes.uses(opened)
		r.log.Info("using", r.describe(context.Background(), r.store)...)
	}
	if err := r.reach(); err != nil {
		return nil, err
	}
	if err := r.notices.beginOn(r.app, r.store, r.log); err != nil {
		return nil, err
	}
	c, err := soloist.New(r.store, soloist.Config{
		Namespace: r.namespace, Replica: r.replicaName(), Logger: r.log, Drain: drainless,
		TTL: r.ttl,
		Observe: r.probes.observe(func(ctx context.Context, e soloist.Event) {
			if e.Kind == soloist.EventMissed {
				r.notices.observe(ctx, e)
				r.log.Warn("scheduled times were missed and are not run: no machine could start them within their grace", "job", e.Subject.Name, "times", e.Missed)
			}
		}),
	})
	if err != nil {
		return nil, err
	}
	runner, err := c.NewRunner(jobs...)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	g := &generation{cancel: cancel, up: runner.Ready(), ended: make(chan struct{})}
	g.drain = func() {
		cancel()
		idle, stopped := context.WithCancel(context.Background())
		context.AfterFunc(r.stop, func() {
			r.running.Lock() // Close would not leave the commands their grace
			defer r.running.Unlock()
			stopped()
		})
		go func() { _ = c.Shutdown(idle) }() // Close below returns its error
	}
	go func() {
		defer close(g.ended)
		err := runner.Run(ctx)
		if errors.Is(err, soloist.ErrClosed) { // it was drained before it began
			err = nil
		}
		g.err = errors.Join(err, c.Close())
	}()
	return g, nil
}

// reachWithin bounds one attempt to reach the store.
const reachWithin = 10 * time.Second

// reach asks the store for something without writing, since Run would try forever also where trying again does not
// help.
func (r *cronRun) reach() error {
	ctx, cancel := context.WithTimeout(context.Background(), reachWithin)
	defer cancel()
	name := records.In(r.namespace) + "controls"
	outcomes, err := r.store.Acquire(ctx, []store.Claim{{Name: name, Holder: "soloist cron", TTL: time.Second, Mark: -1}}) // refused as done
	if err == nil && !errors.Is(outcomes[0].Err, store.ErrDone) {
		err = outcomes[0].Err
	}
	return err
}

// reload returns the jobs of what the file says now. If it cannot be used, it returns nil, and all goes on as before.
func (r *cronRun) reload() []soloist.Job {
	if r.path == "-" {
		r.log.Error("standard input cannot be read again; going on as before")
		return nil
	}
	file, jobs, err := r.read()
	r.refusal = err
	r.refused.Store(err != nil)
	if err != nil {
		r.log.Error("the file cannot be used; going on with the jobs of before", "err", err)
		return nil
	}
	for _, w := range file.Warnings {
		r.log.Warn(w.Error())
	}
	r.log.Info("read again", "jobs", len(jobs), "file", r.path)
	return jobs
}

// refusedAgain reports whether the file cannot be used for the same reason as when it was last read.
func (r *cronRun) refusedAgain() bool {
	if r.refusal == nil {
		return false
	}
	_, _, err := r.read()
	return err != nil && err.Error() == r.refusal.Error()
}

// changes returns a channel that receives when the file is no longer as last tells, nil without --watch. After a reading that has failed it
// receives at each look: what was wrong, as the file's mode or too many open files, need not change what is looked at here.
func (r *cronRun) changes(last os.FileInfo) <-chan struct{} {
	if !r.watch {
		return nil
	}
	changed := make(chan struct{})
	go func() {
		for {
			time.Sleep(watchLook)
			now, err := os.Stat(r.path)
			if err != nil { // it is being replaced
				continue
			}
			if !r.refused.Load() && last != nil && os.SameFile(last, now) && last.ModTime().Equal(now.ModTime()) && last.Size() == now.Size() {
				continue
			}
			last = now
			changed <- struct{}{}
		}
	}()
	return changed
}

// watchLook is how often --watch looks at the file.
const watchLook = 2 * time.Second

// errKilled ends a replica whose end could not be waited for.
var errKilled = errors.New("ended without waiting for the store: it was not told of all runs, so these may be run again")

// killedWithin bounds what a replica takes to end after a third TERM.
const killedWithin = 5 * time.Second

// giveUp returns the error for which no job can start any more, once the runs under way have ended as after TERM.
func (r *cronRun) giveUp(generations []*generation, signals <-chan os.Signal, err error) error {
	generations = slices.DeleteFunc(generations, (*generation).over)
	if len(generations) == 0 {
		return err
	}
	return errors.Join(err, r.shutDown(generations, signals, slog.Any("err", err)))
}

// shutDown starts nothing more, and returns when all runs have ended.
func (r *cronRun) shutDown(generations []*generation, signals <-chan os.Signal, why slog.Attr) error {
	r.probes.draining.Store(true)
	r.log.Info("draining", why, "for", r.drain)
	r.tellManager(r.log, managerStopping)
	r.drainNow()
	for _, g := range generations {
		g.drain()
	}
	drained := make(chan error, 1)
	go func() {
		var errs []error
		for _, g := range generations {
			<-g.ended
			if !errors.Is(g.err, context.Canceled) { // it has waited for the store until now
				errs = append(errs, g.err)
			}
		}
		drained <- errors.Join(errs...)
	}()
	patience := time.After(r.drain)
	var killed <-chan time.Time
	for stops := 0; ; {
		select {
		case err := <-drained:
			r.log.Info("drained")
			return err
		case <-patience:
			r.log.Info("stopping the runs that go on")
			r.end()
		case <-killed:
			return &exit{exitUnavailable, fmt.Errorf("%w", errKilled)}
		case sig := <-signals:
			if sig == syscall.SIGHUP {
				continue
			}
			r.end()
			if stops++; stops == 2 {
				close(r.hurry)
				killed = time.After(killedWithin)
			}
		}
	}
}
