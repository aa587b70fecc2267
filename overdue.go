package soloist

import (
	"context"
	"errors"
	"slices"
	"time"
)

// dueOf returns when this process has watched for long enough what is overdue and has refused a claim. It is zero if nothing is.
func dueOf(err error) time.Time {
	if held, ok := errors.AsType[*HeldError](err); ok {
		return held.due
	}
	return time.Time{}
}

// persist makes an attempt, and another one if the first is refused because of what is overdue: see Options.Overdue.
func (c *Client) persist(ctx context.Context, t target, attempt func(context.Context, target) (*Lease, error)) (*Lease, error) {
	l, err := attempt(ctx, t)
	if c.outwait(ctx, c.opts.Overdue, err) {
		return c.try(ctx, t)
	}
	return l, err
}

// outwait waits once until this process has watched for long enough what is overdue and has refused claims with errs: all that it can, within a time and before
// the deadline of ctx. It reports whether it is worth asking again.
func (c *core) outwait(ctx context.Context, most time.Duration, errs ...error) bool {
	until := time.Now().Add(most)
	deadline, bounded := ctx.Deadline()
	var last time.Time
	for _, err := range errs {
		if due := dueOf(err); due.After(last) && !due.After(until) && (!bounded || due.Before(deadline)) {
			last = due
		}
	}
	if last.IsZero() {
		return false
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	return sleep(ctx, time.Until(last))
}

// outwaitSome waits for the elements of claimed whose indices are given, as outwait does, but for a TTL at most. What was granted must not end meanwhile.
func (e *Elements) outwaitSome(ctx context.Context, claimed []Claimed, late []int) bool {
	if e.client.opts.AtMost > 0 && slices.ContainsFunc(claimed, func(c Claimed) bool { return c.Element != nil }) {
		return false
	}
	errs := make([]error, len(late))
	for i, n := range late {
		errs[i] = claimed[n].Err
	}
	return e.client.outwait(ctx, min(e.client.opts.TTL, e.client.opts.Overdue), errs...)
}
