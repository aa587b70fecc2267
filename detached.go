package soloist

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// A Detached identifies a lease whose holder is outside of this process, such as the caller of an HTTP service. No
// client renews it: the holder does, by way of any client of the same store and namespace. Only a party that knows
// all fields can renew or release it.
type Detached struct {
	Kind   Kind   // KindLock, KindLeader, KindPermit or KindElement
	Name   string // as in LeaseInfo
	Job    string // of an element
	Limit  int    // of a semaphore: how many permits it has, 1 to 1000
	Permit int    // of a semaphore: which permit it is, from 0; set by Acquire

	// Holder identifies one attempt to acquire: 1 to 200 bytes. Lists show it, and what precedes its last # as the
	// replica. An attempt needs a holder that nobody else has or can guess.
	Holder string

	Token int64 // set by Acquire

	// Plain reports that the record had neither mark nor state when Acquire took the lease, so that a release need
	// not read what it would have to keep. It is set by Acquire, and may be left false.
	Plain bool
}

// DetachedLeases acquires, renews and releases leases for holders outside of this process. It keeps nothing in
// memory. It is safe for concurrent use.
type DetachedLeases struct{ client *Client }

// Detached returns the detached leases of the store and namespace of c. TTL, Margin, Wait and Overdue are those of c (see
// With); AtLeast is for Release, and AtMost is not used.
func (c *Client) Detached() *DetachedLeases { return &DetachedLeases{c} }

// target returns what d is a lease of.
func (ds *DetachedLeases) target(d Detached) (target, error) {
	if d.Kind == KindPermit {
		s := ds.client.Semaphore(d.Name, d.Limit)
		if s.err == nil {
			s.err = checkHolder(d.Holder)
		}
		return s.target, s.err
	}
	t, err := ds.client.Admin().targetOf(LeaseInfo{Kind: d.Kind, Name: d.Name, Job: d.Job})
	switch {
	case err != nil:
	case d.Kind == KindJob:
		err = invalid("kind", strconv.Quote(string(d.Kind)), "runs of jobs are claimed by replicas alone")
	case d.Kind == KindElement:
		err = store.CheckName(d.Job)
	}
	if err == nil {
		err = checkHolder(d.Holder)
	}
	return t, err
}

func checkHolder(holder string) error {
	if store.CheckName(holder) != nil || len(holder) > maxHolder {
		return invalid("holder", strconv.Quote(holder[:min(len(holder), 60)]), "give 1 to %d bytes of UTF-8 without control characters", maxHolder)
	}
	return nil
}

// maxHolder leaves room for the limit of a semaphore.
const maxHolder = 200

// permitHolder returns the holder of a permit in its record: with the limit, see holderFor.
func permitHolder(holder string, limit int) string { return holder + "/" + strconv.Itoa(limit) }

// record returns the name of the record of d, and the holder in it.
func (ds *DetachedLeases) record(d Detached) (name, holder string, err error) {
	t, err := ds.target(d)
	if err != nil {
		return "", "", err
	}
	if d.Kind != KindPermit {
		return t.name, d.Holder, nil
	}
	if d.Permit < 0 || d.Permit >= d.Limit {
		return "", "", invalid("permit", strconv.Itoa(d.Permit), "must be from 0 to %d", d.Limit-1)
	}
	return t.names[d.Permit], permitHolder(d.Holder, d.Limit), nil
}

// Acquire acquires a lease for d.Holder. It waits as Options.Wait and Options.Overdue say, until ctx ends, also for a store that cannot
// be used meanwhile. It returns d with its Token and Permit, and until when the lease is certainly held, by the monotonic
// clock of package time; not after now if that is not certain any more.
//
// If the same holder has the lease already, Acquire returns it again, so a call whose result was lost can be
// repeated. repeated must be true if the caller may do so: then a grant that nobody could be told of is not released,
// for the repeated call may have it. It ends with its TTL. So does a grant of a request without a reply that the store
// carries out only after the release, because nothing is kept of this call.
//
// The errors are those of Client.TryLock. Elements are claimed by Elements.ClaimDetached. No events are emitted.
func (ds *DetachedLeases) Acquire(ctx context.Context, d Detached, repeated bool) (Detached, time.Time, error) {
	t, err := ds.target(d)
	if err != nil {
		return d, time.Time{}, err
	}
	c := ds.client
	if err := c.usable(); err != nil {
		return d, time.Time{}, err
	}
	if d.Kind == KindElement {
		return d, time.Time{}, invalid("kind", strconv.Quote(string(d.Kind)), "use Elements.ClaimDetached, which counts attempts")
	}
	claim := store.Claim{Name: t.name, Holder: d.Holder, TTL: c.opts.TTL}
	a := &detachedAttempt{client: c, target: t, kept: repeated, claim: claim}
	if d.Kind == KindPermit {
		a.claim.Holder = permitHolder(d.Holder, d.Limit)
	}
	name, grant, err := a.acquire(ctx)
	if err != nil {
		return d, time.Time{}, err
	}
	d.Permit = max(0, slices.Index(t.names, name))
	d.Token, d.Plain = grant.Token, grant.Mark == 0 && len(grant.State) == 0
	until, err := a.until(ctx, name, grant)
	return d, until, err
}

// A detachedAttempt is one call of Acquire.
type detachedAttempt struct {
	client *Client
	target target
	claim  store.Claim
	kept   bool // a grant that the caller does not get is kept for another call by the same holder

	asked   time.Time // just before the request that was granted, or the first whose outcome is unknown
	unknown error     // the outcome of an earlier request, which may be granted at any time since, also after others were refused
}

// acquire asks for the lease until it is granted, or refused and there is no time left to wait, also for what is overdue.
func (a *detachedAttempt) acquire(ctx context.Context) (string, store.Grant, error) {
	name, grant, err := a.acquireOrWait(ctx)
	if a.client.outwait(ctx, a.client.opts.Overdue, err) {
		again, out := a.ask(ended)
		name, grant, err = a.granted(ctx, again, out)
	}
	if a.unknown != nil {
		a.forgo(name, err)
	}
	return name, grant, err
}

// acquireOrWait asks for the lease until it is granted, or refused and Options.Wait is over.
func (a *detachedAttempt) acquireOrWait(ctx context.Context) (string, store.Grant, error) {
	c, t := a.client, a.target
	if c.opts.Wait == 0 {
		name, out := a.ask(ended)
		return a.granted(ctx, name, out)
	}
	caller := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	if c.opts.Wait > 0 {
		ctx, cancel = bounded(ctx, c.opts.Wait)
		defer cancel()
	}
	if a.kept { // the holder may have the lease already: then those before it in the queue wait for its end
		if name, out := a.ask(ctx); !errors.Is(out.Err, ErrHeld) {
			return a.granted(caller, name, out)
		}
	}
	me := c.waiters.join(t.waitKey())
	defer me.leave()
	if !me.untilFirst(ctx, c.ctx) {
		return "", store.Grant{}, c.waited(ctx, t, me.held(t))
	}
	var wake <-chan struct{} // nil without a subscription
	stop := func() {}
	defer func() { stop() }()
	var pace refusals
	for poll := newBackoff(time.Second); ; {
		name, out := a.ask(ctx)
		held, is := errors.AsType[*HeldError](t.named(out.Err))
		switch {
		case !is:
			return a.granted(caller, name, out)
		case ctx.Err() != nil:
			return "", store.Grant{}, held
		}
		if wake == nil {
			stop()
			if wake, stop = c.watch(ctx, t); wake != nil {
				continue // a release between the refusal and the watch would not have been noticed
			}
		}
		pause := pace.refused(ctx, held.Token, held.Left)
		if wake == nil { // the store does not notify of a release
			pause = min(pause, poll.pause())
		}
		if !c.pause(ctx, pause, &wake, me) {
			return "", store.Grant{}, held
		}
	}
}

// granted returns the outcome of a request. A grant for a caller that has gone, or by a client that is closed, is released, unless it is kept.
func (a *detachedAttempt) granted(caller context.Context, name string, out store.Outcome) (string, store.Grant, error) {
	gone := caller.Err()
	if gone == nil {
		gone = a.client.usable()
	}
	if out.Err == nil && gone != nil && !a.kept {
		granted := store.Claim{Name: name, Holder: a.claim.Holder}
		return "", store.Grant{}, errors.Join(gone, a.client.releaseGrant(granted, out.Grant, time.Now()))
	}
	return name, out.Grant, a.target.named(out.Err)
}

// ask makes one request, and repeats it while its outcome is unknown, and until wait ends also while the store cannot
// be used. The context of the caller does not end a request, so that its outcome is known.
func (a *detachedAttempt) ask(wait context.Context) (string, store.Outcome) {
	c := a.client
	if a.unknown == nil {
		a.asked = c.clock.earliest()
	}
	over := time.Now().Add(2 * c.cfg.RequestTimeout)
	for pause := newBackoff(c.cfg.RequestTimeout / 8); ; {
		name, out := c.claim(context.Background(), a.target, a.claim)
		if a.unknown != nil && locked(out.Err) {
			out.Err = a.unknown
		}
		switch {
		case out.Err == nil || errors.Is(out.Err, ErrHeld) || errors.Is(out.Err, ErrDone):
			return name, out
		case errors.Is(out.Err, ErrUnknown):
			a.unknown = out.Err
			bound, cancel := context.WithDeadline(c.ctx, over)
			again := pause.sleep(bound)
			cancel()
			if again || pause.sleep(wait) {
				continue
			}
		case !permanent(out.Err) && pause.sleep(wait):
			if a.unknown == nil { // nothing was granted so far
				a.asked = c.clock.earliest()
			}
			continue
		case a.unknown == nil:
			if c.ctx.Err() != nil {
				out.Err = ErrClosed
			}
			return name, out
		}
		out.Err = store.AsUnknown(out.Err)
		return name, out
	}
}

// forgo releases what requests may have been granted beside the last one, whose outcome for a name is known, as soon as that is possible. What is kept is not released.
func (a *detachedAttempt) forgo(name string, outcome error) {
	if !a.kept {
		a.client.releaseOrphans(a.target.stillOpen(a.claim, name, outcome), a.asked)
	}
}

// until returns until when the lease is certainly held. A holder may have had it before this call, so what is left is
// read from the record. A store without a clock counts that from when this process has first seen the record, which
// others may have seen earlier: there the lease is extended. So is one that an early one of several requests may have
// been granted, long ago.
func (a *detachedAttempt) until(ctx context.Context, name string, g store.Grant) (time.Time, error) {
	c := a.client
	if !a.kept {
		end := a.asked.Add(a.claim.TTL - c.opts.Margin)
		if a.unknown == nil || end.Sub(c.clock.latest()) > a.claim.TTL/2 {
			return c.clock.until(end), nil
		}
	}
	before := c.clock.earliest()
	if _, clockless := store.As[store.Clockless](c.store); clockless || !a.kept {
		e := store.Extension{Name: name, Holder: a.claim.Holder, Token: g.Token, TTL: a.claim.TTL}
		if err := c.prolong(ctx, e); err != nil {
			a.forgo(name, err)
			if !errors.Is(err, ErrLost) {
				err = store.AsUnknown(err)
			}
			return time.Time{}, fmt.Errorf("%q was granted, but what is left of it is not known: %w", a.target.shown, err)
		}
		return c.clock.until(before.Add(a.claim.TTL - c.opts.Margin)), nil
	}
	records, err := c.peek(context.WithoutCancel(ctx), []string{name})
	if err != nil {
		return time.Time{}, store.AsUnknown(fmt.Errorf("%q was granted, but what is left of it could not be read: %w", a.target.shown, err))
	}
	r := records[0]
	if r.Holder != a.claim.Holder || r.Token != g.Token || r.Free() {
		return time.Time{}, fmt.Errorf("%q: %w", a.target.shown, ErrLost)
	}
	return c.clock.until(before.Add(r.Left - c.opts.Margin)), nil
}

// Extend renews a lease: it lasts for at least the TTL of the client from now. It returns until when it is certainly
// held, as Acquire does. The errors are those of Lease.Extend.
func (ds *DetachedLeases) Extend(ctx context.Context, d Detached) (time.Time, error) {
	c := ds.client
	name, holder, err := ds.record(d)
	if err == nil {
		err = c.usable()
	}
	if err != nil {
		return time.Time{}, err
	}
	before := c.clock.earliest()
	if err := c.prolong(ctx, store.Extension{Name: name, Holder: holder, Token: d.Token, TTL: c.opts.TTL}); err != nil {
		return time.Time{}, fmt.Errorf("extending %q: %w", d.Name, err)
	}
	return c.clock.until(before.Add(c.opts.TTL - c.opts.Margin)), nil
}

// prolong extends a detached lease, also if ctx has ended.
func (c *core) prolong(ctx context.Context, e store.Extension) error {
	errs, err := c.extends.ask(context.WithoutCancel(ctx), []store.Extension{e})
	if err != nil {
		return err
	}
	return errs[0]
}

// Release releases a lease. With Options.AtLeast the name lingers. The errors are those of Lease.Release.
func (ds *DetachedLeases) Release(ctx context.Context, d Detached) error {
	return ds.release(ctx, d, func(r store.Record) (store.Release, error) {
		return store.Release{Linger: ds.client.opts.AtLeast - r.Age, Retain: ds.client.retainFor(r.Name, r.Mark, r.State)}, nil
	})
}

// release reads the record of a lease that is held, unless nothing of it matters, and releases it as with says.
func (ds *DetachedLeases) release(ctx context.Context, d Detached, with func(store.Record) (store.Release, error)) error {
	c := ds.client
	name, holder, err := ds.record(d)
	if err == nil {
		err = c.usable()
	}
	if err != nil {
		return err
	}
	r := store.Record{}
	read := !d.Plain || d.Kind == KindElement || c.opts.AtLeast > 0
	if read {
		records, err := c.peek(context.WithoutCancel(ctx), []string{name})
		if err != nil {
			return err
		}
		r = records[0]
	}
	rel, err := with(r)
	if err != nil {
		return err
	}
	rel.Name, rel.Holder, rel.Token, rel.Linger = name, holder, d.Token, max(0, rel.Linger)
	if read {
		err = c.releaseBatch([]store.Release{rel})[0]
	} else { // a store that is certainly away is reported at once, as when the record is read
		err = c.releaseOnce(ctx, rel)
	}
	if err != nil {
		return fmt.Errorf("releasing %q: %w", d.Name, err)
	}
	if t, err := ds.target(d); err == nil {
		c.waiters.released(t.waitKey())
	}
	return nil
}

// Look returns the description of a lease that is held, and ErrLost if it is not. Its Left is without the margin, as
// far as the record is known. In a store without a clock it is 0: this process counts from when it has first seen the
// record, which others may have seen earlier. Extend tells there how long the lease is certainly held.
func (ds *DetachedLeases) Look(ctx context.Context, d Detached) (LeaseInfo, error) {
	name, holder, err := ds.record(d)
	if err == nil {
		err = ds.client.usable()
	}
	if err != nil {
		return LeaseInfo{}, err
	}
	records, err := ds.client.peek(ctx, []string{name})
	if err != nil {
		return LeaseInfo{}, err
	}
	r := records[0]
	if r.Holder != holder || r.Token != d.Token || r.Free() {
		return LeaseInfo{}, fmt.Errorf("%q: %w", d.Name, ErrLost)
	}
	info := leaseInfo(d.Kind, d.Name, r)
	info.Job, info.Permit = d.Job, d.Permit
	info.Left = max(0, r.Left-ds.client.opts.Margin)
	if _, clockless := store.As[store.Clockless](ds.client.store); clockless {
		info.Left = 0
	}
	return info, nil
}
