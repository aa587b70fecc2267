package soloist

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// A target is what an attempt tries to acquire: one name, or any one of several.
type target struct {
	kind   Kind
	shown  string   // the name as the user gave it
	parent string   // the job of an element
	holder string   // of the claim; "" for a new one
	name   string   // the record's
	names  []string // the names to choose from, if there are several; name is the first
	mark   int64
	called time.Time // when the user called; zero if no user did, or if nobody observes the client
	tried  *bool     // set when a request for it has had a reply; nil if nobody needs to know
	again  bool      // a request before the one that is granted had no reply: it may be carried out at any time
}

// refused notes that a request was refused because somebody has the name.
func (t target) refused() {
	if t.tried != nil {
		*t.tried = true
	}
}

// subject returns what a lease of the record is for.
func (t target) subject(record string) Subject {
	if t.kind == KindPermit {
		return Subject{Kind: KindPermit, Name: record[strings.LastIndexByte(record, '/')+1:], Parent: t.shown}
	}
	return Subject{Kind: t.kind, Name: t.shown, Parent: t.parent}
}

// all returns the names of the records of which the target needs one.
func (t target) all() []string {
	if len(t.names) > 0 {
		return t.names
	}
	return []string{t.name}
}

// waitKey is the key of the local waiters for t.
func (t target) waitKey() string { return t.name }

// acquire acquires a lease of t for a caller: now or, if patient is set, when it is free.
func (c *Client) acquire(ctx context.Context, t target, patient bool) (*Lease, error) {
	if c.cfg.Observe != nil {
		t.called = c.clock.earliest()
	}
	attempt := c.try
	if patient {
		attempt = c.wait
	}
	l, err := c.persist(ctx, t, attempt)
	if err != nil && c.cfg.Observe != nil {
		subject := t.subject(t.name)
		if t.kind == KindPermit {
			subject.Name = ""
		}
		c.observe(ctx, Event{Kind: EventRefused, Subject: subject, Waited: c.clock.earliest().Sub(t.called), Err: err})
	}
	return l, err
}

// try makes one attempt.
func (c *Client) try(ctx context.Context, t target) (*Lease, error) {
	if err := c.usable(); err != nil {
		return nil, err
	}
	claim := store.Claim{Name: t.name, Holder: c.holderFor(t), TTL: c.opts.TTL, Mark: t.mark}
	before := c.clock.earliest()
	name, out := c.claim(ctx, t, claim)
	if errors.Is(out.Err, ErrUnknown) {
		name, out = c.settle(ctx, t, claim, before, out)
		t.again = true
	}
	claim.Name = name
	if out.Err != nil {
		return nil, t.named(out.Err)
	}
	return c.adopt(ctx, t, claim, out.Grant, before)
}

// named replaces a refusal by the store with one that has the kind and name that the user gave.
func (t target) named(err error) error {
	switch refused := err.(type) {
	case *store.HeldError:
		r := refused.Record
		held := &HeldError{Kind: t.kind, Name: t.shown, Holder: r.Holder, Token: r.Token, Left: r.Left}
		if refused.Overdue > 0 {
			held.due = time.Now().Add(refused.Overdue)
		}
		return held
	case *store.DoneError:
		return &DoneError{ID: t.shown, Token: refused.Record.Token, Age: refused.Record.Age}
	}
	return err
}

// adopt turns a grant into a lease that is renewed, or releases the grant if it is too late to use it. The lease's
// context has the values of ctx and does not end with it.
func (c *Client) adopt(ctx context.Context, t target, claim store.Claim, g store.Grant, before time.Time) (*Lease, error) {
	l, err := c.tryAdopt(context.WithoutCancel(ctx), t, claim, g, before)
	if err != nil {
		if released := c.releaseGrant(claim, g, c.instant(before)); released != nil {
			err = errors.Join(err, fmt.Errorf("releasing it: %w", released))
		}
		if t.again {
			c.releaseOrphans([]store.Claim{claim}, before)
		}
		return nil, err
	}
	return l, nil
}

// tryAdopt turns a grant into a lease that is renewed, unless it is too late to use it. The lease's context is derived
// from parent.
func (c *Client) tryAdopt(parent context.Context, t target, claim store.Claim, g store.Grant, before time.Time) (*Lease, error) {
	l := c.newLease(parent, t, claim, g, c.opts, before)
	var err error
	if late := c.clock.latest(); !late.Before(l.deadline) {
		err = fmt.Errorf("%w: the store took %v to grant %q for %v", ErrLost, late.Sub(before).Round(time.Millisecond), t.shown, claim.TTL)
	} else if !c.renewer.add(l) {
		err = ErrClosed
	}
	if err != nil {
		l.endContext(err)
		return nil, err
	}
	if c.cfg.Observe != nil {
		now := c.clock.earliest()
		e := Event{Kind: EventGranted, Subject: l.subject, Token: g.Token, Duration: now.Sub(before)}
		if !t.called.IsZero() {
			e.Waited = now.Sub(t.called)
		}
		c.observe(parent, e)
	}
	return l, nil
}

// claim makes one request and returns the name that the outcome is about.
func (c *Client) claim(ctx context.Context, t target, claim store.Claim) (string, store.Outcome) {
	if len(t.names) > 1 {
		return c.choose(ctx, t.names, claim)
	}
	outs, err := c.acquires.ask(ctx, []store.Claim{claim})
	if err != nil {
		return claim.Name, store.Outcome{Err: err}
	}
	return claim.Name, outs[0]
}

// settle repeats a claim whose outcome is unknown, as the same holder, until the store confirms an outcome. That is
// safe: if the claim was granted, the store returns the same grant with its original deadline.
func (c *Client) settle(ctx context.Context, t target, claim store.Claim, before time.Time, out store.Outcome) (string, store.Outcome) {
	name := claim.Name
	bound, cancel := context.WithDeadline(ctx, time.Now().Add(min(2*c.cfg.RequestTimeout, claim.TTL-c.opts.Margin)))
	defer cancel()
	for wait := newBackoff(c.cfg.RequestTimeout / 8); wait.sleep(bound); {
		again, answer := c.claim(bound, t, claim)
		if settles(answer.Err) {
			c.releaseOrphans(t.stillOpen(claim, again, answer.Err), before)
			return again, answer
		}
		if !locked(answer.Err) {
			out.Err = reason(bound, out.Err, answer.Err)
		}
	}
	c.releaseOrphans(t.stillOpen(claim, name, out.Err), before)
	if err := ctx.Err(); err != nil && !errors.Is(out.Err, err) {
		out.Err = fmt.Errorf("%w: %w", out.Err, err)
	}
	return name, out
}

// stillOpen returns what an earlier request of a claim, which got no reply, may yet be granted, although a later one has had an outcome for a name: it may be
// under way until another releases what is held now, or be granted another permit.
func (t target) stillOpen(claim store.Claim, name string, outcome error) (open []store.Claim) {
	if errors.Is(outcome, ErrDone) {
		return nil
	}
	for _, claim.Name = range t.all() {
		if outcome != nil || claim.Name != name {
			open = append(open, claim)
		}
	}
	return open
}

// An outcome is that of a claim of a batch.
type outcome struct {
	store.Outcome
	again bool // as in target
}

// claimBatch claims several names, and settles the claims whose outcome is unknown. It also returns when the request
// was sent that the outcomes are from.
func (c *core) claimBatch(ctx context.Context, claims []store.Claim, before time.Time) ([]outcome, time.Time, error) {
	bound, cancel := context.WithTimeout(ctx, 2*c.cfg.RequestTimeout)
	defer cancel()
	var unknown error
	for wait := newBackoff(c.cfg.RequestTimeout / 8); ; {
		asked := time.Now()
		outs, err := c.acquires.ask(bound, claims)
		if err == nil {
			settled, open := c.settleSome(bound, claims, outs, unknown)
			c.releaseOrphans(open, before)
			return settled, asked, nil
		}
		if unknown == nil && !errors.Is(err, ErrUnknown) {
			return nil, asked, err
		}
		if unknown = reason(bound, unknown, err); !wait.sleep(bound) {
			c.releaseOrphans(claims, before)
			return nil, asked, unknown
		}
	}
}

// reason returns why an outcome is unknown after another attempt. One that was cut off, or got no reply in time, adds nothing to the error before it.
func reason(ctx context.Context, before, err error) error {
	var slow interface{ Timeout() bool }
	if before != nil && (ctx.Err() != nil || errors.As(err, &slow) && slow.Timeout()) {
		return before
	}
	return store.AsUnknown(err)
}

// settleSome repeats the claims of a batch whose outcome is unknown, once and briefly, because the other claims of the
// batch wait meanwhile. It also returns the claims of which an earlier request, which got no reply, may yet be granted. before is the error of such a request for
// the whole batch, and nil if there was none.
func (c *core) settleSome(ctx context.Context, claims []store.Claim, answers []store.Outcome, before error) (outs []outcome, open []store.Claim) {
	var again []store.Claim
	var at []int
	outs = make([]outcome, len(answers))
	for i, answer := range answers {
		if before != nil && locked(answer.Err) {
			answer.Err = before
		}
		unknown := errors.Is(answer.Err, ErrUnknown)
		if unknown {
			again, at = append(again, claims[i]), append(at, i)
		}
		outs[i] = outcome{answer, before != nil || unknown}
	}
	if len(again) > 0 {
		bound, cancel := context.WithTimeout(ctx, c.cfg.RequestTimeout/8)
		defer cancel()
		if answers, err := c.acquires.ask(bound, again); err == nil {
			for i, answer := range answers {
				if settles(answer.Err) {
					outs[at[i]].Outcome = answer
				}
			}
		}
	}
	for i, out := range outs {
		if out.again && out.Err != nil && !errors.Is(out.Err, ErrDone) {
			open = append(open, claims[i])
		}
	}
	return outs, open
}

// settles reports whether err, the answer to a claim that repeats one whose outcome is unknown, says what became of that.
func settles(err error) bool { return err == nil || refused(err) && !locked(err) }

// locked reports whether err refuses a claim because a transaction has locked the record. That may be an earlier request of the same claim, which is
// still being committed.
func locked(err error) bool {
	held, ok := errors.AsType[*store.HeldError](err)
	return ok && held.Record.Holder == "" && held.Record.Token == 0
}

// refused reports whether err is a refusal by the store: ErrHeld or ErrDone.
func refused(err error) bool { return errors.Is(err, ErrHeld) || errors.Is(err, ErrDone) }
