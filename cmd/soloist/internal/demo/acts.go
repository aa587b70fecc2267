package demo

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/soloist-dev/soloist/cmd/soloist/internal/fleet"
	"github.com/soloist-dev/soloist/store"
)

// play plays the acts in their order, until one fails.
func (d *director) play(ctx context.Context) error {
	for _, act := range []func(context.Context) error{d.start, d.kill, d.quiet, d.pause, d.finish} {
		if err := act(ctx); err != nil {
			d.progress("given up: %v", err)
			d.window() // the audit reports what there is
			return err
		}
	}
	return nil
}

// start starts three replicas. What is due before all of them are there is not audited.
func (d *director) start(ctx context.Context) error {
	names := []string{"a", "b", "c"}
	for _, name := range names {
		if err := d.launch(name); err != nil {
			return err
		}
	}
	if err := d.ready(ctx, names...); err != nil {
		return err
	}
	var first event
	err := d.history.await(ctx, "a first run", func(events []event) (ok bool) {
		first, ok = find(events, ofKind(runStart))
		return ok
	})
	if err != nil {
		return err
	}
	d.from = max(first.Scheduled, time.Now().Unix()) + 1
	d.progress("replicas a, b and c are at work: job %q every second, %d invoices to issue, %d permits to render",
		jobName, len(d.invoices), permits)
	return d.completed(ctx, d.from+3)
}

func (d *director) ready(ctx context.Context, names ...string) error {
	for _, name := range names {
		err := d.history.await(ctx, "replica "+name+" to be ready", func(events []event) bool {
			_, ok := find(events, func(e event) bool { return e.Kind == ready && e.Replica == name })
			return ok
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// halt makes whichever replica has the next run halt in the middle of it, and returns that.
func (d *director) halt(ctx context.Context) (*fleet.Process, event, error) {
	before := len(d.history.all())
	for _, p := range d.running() {
		p.Tell(cmdHold)
	}
	var halted event
	err := d.history.await(ctx, "a replica to be in the middle of a run", func(events []event) (ok bool) {
		halted, ok = find(events[before:], ofKind(holding))
		return ok
	})
	if err != nil {
		return nil, halted, err
	}
	for _, p := range d.running() {
		if p.Name != halted.Replica {
			p.Tell(cmdGo)
		}
	}
	return d.process(halted.Replica), halted, nil
}

// kill kills a replica in the middle of a run, and starts another in its place when the run has been taken over.
func (d *director) kill(ctx context.Context) error {
	victim, halted, err := d.halt(ctx)
	if err != nil {
		return err
	}
	if err := victim.End(fleet.Kill); err != nil {
		return err
	}
	select {
	case <-victim.Gone:
	case <-ctx.Done():
		return fmt.Errorf("waited too long for the end of replica %s: %w", victim.Name, context.Cause(ctx))
	}
	at := fleet.Now()
	d.history.add(event{At: at, Replica: victim.Name, Kind: killed})
	d.progress("replica %s was killed (kill -9) in the middle of the run of %s", victim.Name, clock(halted.Scheduled))
	if err := d.takenOver(ctx, halted, at); err != nil {
		return err
	}
	if err := d.launch("d"); err != nil {
		return err
	}
	if err := d.ready(ctx, "d"); err != nil {
		return err
	}
	d.progress("replica d is at work in its place")
	return nil
}

// takenOver waits until another replica has begun and recorded the run that was halted.
func (d *director) takenOver(ctx context.Context, halted event, since time.Duration) error {
	var successor event
	what := "another replica to take over the run of " + clock(halted.Scheduled)
	err := d.history.await(ctx, what, func(events []event) (ok bool) {
		successor, ok = takeover(events, halted)
		return ok
	})
	if err != nil {
		return err
	}
	d.progress("replica %s took it over %.1f s later, as attempt %d", successor.Replica, (successor.At - since).Seconds(), successor.Attempt)
	return d.completed(ctx, halted.Scheduled)
}

// completed waits until the run of a scheduled time has been completed.
func (d *director) completed(ctx context.Context, scheduled int64) error {
	what := "the run of " + clock(scheduled) + " to be completed"
	return d.history.await(ctx, what, func(events []event) bool { return len(completions(events)[scheduled]) > 0 })
}

// quiet waits until what had piled up is done, and for some runs in peace.
func (d *director) quiet(ctx context.Context) error {
	return d.completed(ctx, time.Now().Unix()+4)
}

// pause stops a replica in the middle of a run, until another has done the run; then it writes, too late.
func (d *director) pause(ctx context.Context) error {
	victim, halted, err := d.halt(ctx)
	if err != nil {
		return err
	}
	if err := d.stop(ctx, victim); err != nil {
		return err
	}
	at := fleet.Now()
	d.history.add(event{At: at, Replica: victim.Name, Kind: paused})
	d.progress("replica %s was paused (SIGSTOP) in the middle of the run of %s, just before it writes", victim.Name, clock(halted.Scheduled))
	if err := d.takenOver(ctx, halted, at); err != nil {
		return err
	}
	d.history.add(event{Replica: victim.Name, Kind: resumed})
	victim.Tell(cmdGo) // it finds the gate open when it wakes, and writes
	if err := victim.Signal(fleet.Continue); err != nil {
		return err
	}
	var woken event
	err = d.history.await(ctx, "the paused replica to end its run", func(events []event) (ok bool) {
		woken, ok = find(events, func(e event) bool { return e.Kind == runEnd && e.Replica == victim.Name && e.Token == halted.Token })
		return ok
	})
	if err == nil {
		d.progress("replica %s went on (SIGCONT) and wrote: %s", victim.Name, outcome(woken))
	}
	return err
}

func outcome(e event) string {
	if e.Err == "" {
		return "the service accepted it"
	}
	return "refused, its token is stale"
}

// stop stops a replica at an instant at which it does not have the store's file locked: on SQLite everybody would wait
// for it, safe but idle, until it goes on.
func (d *director) stop(ctx context.Context, p *fleet.Process) error {
	for try := 1; ; try++ {
		if err := p.Signal(fleet.Stop); err != nil {
			return err
		}
		if d.writable(ctx, try) {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("waited too long for the store: %w", context.Cause(ctx))
		}
		if err := p.Signal(fleet.Continue); err != nil {
			return err
		}
		sleep(ctx, 5*time.Millisecond)
	}
}

// writable reports whether the store can be written to within a moment. Each try has its own name: the refusal of one
// that is held writes nothing.
func (d *director) writable(ctx context.Context, try int) bool {
	ctx, cancel := context.WithTimeout(ctx, 700*time.Millisecond)
	defer cancel()
	_, err := d.store.Acquire(ctx, []store.Claim{{Name: "director-" + strconv.Itoa(try), Holder: "director", TTL: store.MinTTL}})
	return err == nil
}

// finish waits for all invoices and all runs, and closes the window of the audit.
func (d *director) finish(ctx context.Context) error {
	if err := d.completed(ctx, time.Now().Unix()+4); err != nil {
		return err
	}
	for _, p := range d.running() {
		err := d.history.await(ctx, "replica "+p.Name+" to find all invoices issued", func(events []event) bool {
			_, ok := find(events, func(e event) bool { return e.Kind == allIssued && e.Replica == p.Name })
			return ok
		})
		if err != nil {
			return err
		}
	}
	d.progress("all invoices are issued; what is due from now on is not audited")
	d.window()
	return d.completed(ctx, d.to)
}

// window closes the window of the audit: what is due later may find the replicas draining.
func (d *director) window() {
	if d.from > 0 {
		d.to = time.Now().Unix()
	}
}

func ofKind(k kind) func(event) bool { return func(e event) bool { return e.Kind == k } }

// clock shows a scheduled time to people.
func clock(scheduled int64) string { return time.Unix(scheduled, 0).UTC().Format(time.TimeOnly) }
