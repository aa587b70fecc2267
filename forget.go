package soloist

import (
	"context"
	"errors"
	"fmt"

	"github.com/soloist-dev/soloist/store"
)

// The errors of changes to jobs that depend on the live replicas.
var (
	ErrInUse     = errors.New("replicas that are alive have the job")
	ErrNoReplica = errors.New("no replica that is alive has the job")
)

// Forget deletes the record of a job that no live replica has: its history, its pause, and the time up to which it is
// done. A job of the same name then starts from the beginning. But until the store has deleted the record, minutes later,
// that time keeps a past At from being run, and also any other schedule if it is ahead of the clock; and a replica that dies
// or is cut off in the moment in which it registers the job anew leaves it to go on from that time. So does one that was
// cut off while the job was forgotten, unless another has registered it anew before it is back. The error is ErrInUse
// while a live replica has the job, ErrHeld while it runs, and ErrNoJob if there is no such job. Where a run is overdue, or
// all replicas that seem to have the job are, Forget waits as Options.Overdue of the client says.
func (a *Admin) Forget(ctx context.Context, job string) error {
	if err := a.note(ctx, Action{Verb: ActionForget, Kind: KindJob, Name: job}, a.forget(ctx, job)); err != nil {
		return fmt.Errorf("forgetting job %q: %w", job, err)
	}
	return nil
}

func (a *Admin) forget(ctx context.Context, job string) error {
	c := a.patient()
	t, err := a.targetOf(LeaseInfo{Kind: KindJob, Name: job})
	if err != nil {
		return err
	}
	records, err := c.peek(ctx, []string{t.name})
	switch {
	case err != nil:
		return err
	case forgotten(records[0]):
		return ErrNoJob
	}
	c.outlive(ctx, job)
	l, err := c.persist(ctx, t, c.try)
	if err != nil {
		return err
	}
	// No later grant reports that a replica died in a run: the record must.
	asItWas := store.Release{State: claimedInVain(store.Claim{}, l.granted, untilNow(c.instant(l.since))), Retain: Forever}
	if err := c.unused(ctx, job); err != nil { // no replica can run it from here on
		return errors.Join(err, l.release(asItWas))
	}
	if err := c.changeOf(ctx, job, func(ctl *control, _ store.Record) { *ctl = control{} }); err != nil {
		return errors.Join(err, l.release(asItWas))
	}
	return released(l.release(store.Release{State: []byte{}}))
}

// outlive waits for the replicas that have a job, if they should be dead by their own clocks and the store has no clock to say so, as Options.Overdue says. While it waits,
// a run of the job that is overdue is watched, too.
func (c *Client) outlive(ctx context.Context, job string) {
	if _, clockless := store.As[store.Clockless](c.store); !clockless {
		return
	}
	f := c.fleet(ctx, func(ReplicaInfo) bool { return true })
	var errs []error
	for _, info := range f.replicas {
		if _, has := f.jobs[info.id][hash32(job)]; !has {
			continue
		}
		l, err := c.try(ctx, target{shown: info.Replica, name: c.names.prefix + kindReplica + info.id})
		switch {
		case err == nil: // it has just died
			_ = l.giveBack()
		case dueOf(err).IsZero(): // it is alive, or nobody knows
			return
		}
		errs = append(errs, err)
	}
	c.outwait(ctx, c.opts.Overdue, errs...)
}

// unused returns ErrInUse if a live replica has the job.
func (c *Client) unused(ctx context.Context, job string) error {
	f := c.fleet(ctx, func(ReplicaInfo) bool { return true })
	if err := f.bad.err(); err != nil {
		return err
	}
	if all := f.having(job); len(all) > 0 {
		return fmt.Errorf("%w: %s", ErrInUse, names(all))
	}
	return nil
}

// used returns ErrNoReplica if no live replica has the job.
func (c *Client) used(ctx context.Context, job string) error {
	f := c.fleet(ctx, func(ReplicaInfo) bool { return true })
	if len(f.having(job)) > 0 {
		return nil
	}
	if err := f.bad.err(); err != nil {
		return err
	}
	return ErrNoReplica
}

// names formats the names of some replicas.
func names(all []Definition) string {
	text := all[0].Replica
	for i, d := range all[1:] {
		if i == mostFaults {
			return fmt.Sprintf("%s and %d more", text, len(all)-1-i)
		}
		text += ", " + d.Replica
	}
	return text
}

// forgotten reports whether a record is none, or that of a job that Forget removed and that the store has not deleted yet.
func forgotten(r store.Record) bool { return r.Free() && r.Holder == "" && len(r.State) == 0 }
