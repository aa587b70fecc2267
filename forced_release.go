package soloist

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// ErrNotHeld reports that a lease to be released by force has already ended. See NotHeldError.
var ErrNotHeld = errors.New("it is not held with that token")

// A NotHeldError reports that a lease has ended, and who has the name now. errors.Is(err, ErrNotHeld) is true for it.
type NotHeldError struct {
	Seen LeaseInfo
	Now  *LeaseInfo // nil if the name is free
}

func (e *NotHeldError) Error() string {
	text := fmt.Sprintf("the %s %q is not held with token %d: ", e.Seen.Kind, e.Seen.Name, e.Seen.Token)
	switch {
	case e.Now == nil:
		return text + "it is free"
	case e.Now.Holder == "":
		return text + fmt.Sprintf("it was released, and stays taken for another %v", e.Now.Left.Round(time.Second))
	}
	return text + fmt.Sprintf("%s holds it with token %d", e.Now.Replica(), e.Now.Token)
}

// Is makes errors.Is(e, ErrNotHeld) true.
func (e *NotHeldError) Is(target error) bool { return target == ErrNotHeld }

// Release ends a lease by force. Pass it as a list returned it: Release uses its Kind, Name and Token, the Permit of a
// semaphore, and the Job of an element. The holder notices at its next renewal, and may continue until then: fence what
// it writes. Its Lease.Release then returns ErrLost, even if there is no new holder. Admin.Actions shows the reason.
//
// A job's run that is released has ended; the history shows it as OutcomeReleased. Scheduled times up to its start are
// done. To run the job again, use Trigger.
//
// The error is a *NotHeldError if the lease has ended: nothing was changed. It is ErrUnknown if the store did not
// confirm every step: the name may still be held, or be unavailable for at most another TTL.
func (a *Admin) Release(ctx context.Context, seen LeaseInfo, reason string) error {
	t, err := a.targetOf(seen)
	if err != nil {
		return err
	}
	r, err := a.client.held(ctx, t, seen)
	if err != nil {
		return err
	}
	rel := store.Release{Name: t.name, Holder: r.Holder, Token: r.Token, Retain: Forever} // its holder may have left something since
	if seen.Kind == KindJob {
		rel.Mark, rel.State = runReleased(r, seen.Name, fmt.Sprintf("released by force by %s: %s", a.by, reason), time.Now())
	}
	err = a.client.force(ctx, t, rel)
	if errors.Is(err, ErrLost) && !errors.Is(err, ErrUnknown) {
		if _, now := a.client.held(ctx, t, seen); now != nil {
			err = now
		}
	}
	err = a.note(ctx, Action{Verb: ActionRelease, Kind: seen.Kind, Name: seen.Name, Job: seen.Job, Permit: seen.Permit, Token: r.Token, Holder: r.Holder, Reason: reason}, err)
	if err != nil {
		return fmt.Errorf("releasing the %s %q by force: %w", seen.Kind, seen.Name, err)
	}
	return nil
}

// targetOf returns the record of a lease.
func (a *Admin) targetOf(seen LeaseInfo) (t target, err error) {
	names := a.client.names
	t = target{kind: seen.Kind, shown: seen.Name, parent: seen.Job}
	switch seen.Kind {
	case KindLock:
		t.name, err = names.name(kindLock, seen.Name)
	case KindLeader:
		t.name, err = names.name(kindLeader, seen.Name)
	case KindPermit:
		t.name, err = names.name(partsOf(kindSemaphore, seen.Name), strconv.Itoa(seen.Permit))
	case KindJob:
		t.name, err = names.name(kindJob, seen.Name)
	case KindElement:
		t.name, err = names.name(partsOf(kindElement, seen.Job), seen.Name)
	default:
		err = invalid("kind", strconv.Quote(string(seen.Kind)), "give one of the kinds of leases, such as KindLock")
	}
	return t, err
}

// held returns the record of a lease, or a *NotHeldError.
func (c *Client) held(ctx context.Context, t target, seen LeaseInfo) (store.Record, error) {
	if err := c.usable(); err != nil {
		return store.Record{}, err
	}
	records, err := c.peek(ctx, []string{t.name})
	if err != nil {
		return store.Record{}, err
	}
	r := records[0]
	if r.Free() || r.Token != seen.Token || r.Holder == "" {
		stale := &NotHeldError{Seen: seen}
		if !r.Free() {
			now := leaseInfo(seen.Kind, seen.Name, r)
			now.Job, now.Permit = seen.Job, seen.Permit
			stale.Now = &now
		}
		return store.Record{}, stale
	}
	return r, nil
}

// force ends a lease in place of its holder. If it only released the lease, a later release by the holder would count
// as a repetition and succeed. So force also acquires the name and releases it again, unless there is a new holder
// already.
func (c *Client) force(ctx context.Context, t target, rel store.Release) error {
	if err := released(c.releaseBatch([]store.Release{rel})[0]); err != nil {
		return err
	}
	c.log.Info("released by force", "name", t.shown, "token", rel.Token, "holder", rel.Holder, "by", c.cfg.Replica)
	l, err := c.plain(Options{TTL: c.opts.TTL, Margin: c.opts.Margin}).try(ctx, t)
	switch {
	case errors.Is(err, ErrHeld):
		return nil
	case err != nil:
		return halfDone{store.AsUnknown(fmt.Errorf("it was released, but its holder may not notice: %w", err))}
	}
	retain := l.retain()
	if t.kind == KindJob {
		retain = Forever
	}
	if err := l.release(store.Release{Retain: retain}); !gone(err) {
		return released(err)
	}
	return nil // its lease has ended, and that was another one
}

// runReleased returns the mark and state for the record of a job whose run is released by force: the run has ended, and
// the scheduled times up to its start are done. Only its holder knows which scheduled time it ran, so the history shows
// the newest.
func runReleased(r store.Record, job, why string, now time.Time) (mark int64, state []byte) {
	s, err := parseJobState(r.State)
	if err != nil {
		return 0, nil
	}
	started := now.Add(-r.Age).Truncate(time.Millisecond)
	run := RunRecord{
		StartedAt: started.UTC(), EndedAt: now.UTC().Truncate(time.Millisecond), Replica: replicaOf(r.Holder), Token: r.Token,
		Attempt: s.Attempts + 1, Outcome: OutcomeReleased, Error: why,
	}
	switch {
	case s.Pending < 0:
		run.Manual, run.Request, run.ScheduledAt = true, -s.Pending, pendingManual(s).scheduled.UTC()
		s.Trigger = max(s.Trigger, -s.Pending)
	case s.Pending > 0:
		run.ScheduledAt = time.UnixMilli(s.Pending).UTC()
		mark = max(started.UnixMilli(), s.Pending)
	default:
		due := newestDue(s.Schedule, job, time.UnixMilli(max(r.Mark, s.Since)), started)
		run.ScheduledAt = due.UTC()
		mark = max(started.UnixMilli(), due.UnixMilli())
	}
	s.Pending, s.Attempts, s.Manual, s.Ended = 0, 0, 0, now.UnixMilli()
	s.add(run)
	return max(mark, 0), s.json()
}

// newestDue returns the newest scheduled time in (after, until] of a schedule that is known by its text. If there is none it is the next one, which a holder whose
// clock is ahead by up to skew has begun; else until.
func newestDue(text, job string, after, until time.Time) time.Time {
	schedule := parseSchedule(text, job)
	if _, delayed := schedule.(delay); schedule == nil || delayed {
		return until
	}
	if due := latest(schedule, later(after, until.AddDate(-1, 0, 0)), until); !due.IsZero() {
		return due
	}
	if due := schedule.Next(later(after, until)); !due.IsZero() && !due.After(until.Add(skew)) {
		return due
	}
	return until
}
