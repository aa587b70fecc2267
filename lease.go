package soloist

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// A Lease is a name that this client holds. It is renewed until it is released or lost. It is safe for use by many
// goroutines at once.
type Lease struct {
	core    *core
	shown   string // the name as its user knows it
	of      string // what events name: shown, or an element's job
	name    string // the record's
	queue   string // of those in this client who wait for what it has
	holder  string
	token   int64
	opts    Options
	granted store.Grant
	ctx     leaseContext
	cancel  context.CancelCauseFunc
	since   time.Time              // just before the request that was granted, or the first of several that asked for the same
	had     time.Time              // when the grant was known here
	end     time.Time              // the lease is not renewed past it; zero without AtMost
	busy    atomic.Bool            // a function of the user's runs under it
	stated  atomic.Bool            // SetState has been used
	last    atomic.Pointer[[]byte] // the last state, once the outcome of one is unknown
	done    atomic.Pointer[doneFunc]

	completion atomic.Int64 // the mark that was given out last to be committed; 0 if none
	doubted    bool         // of a run: nobody could say whether it was committed

	// Guarded by keeper.mu.
	index       int       // in keeper.leases, -1 when it is not kept any more
	deadline    time.Time // when it counts as lost, unless a renewal is confirmed before
	renewAt     time.Time
	flying      int           // requests under way that renew it
	unconfirmed bool          // the last of them has not been answered, or not with a yes
	lost        bool          // EventLost has told of it
	longest     time.Duration // that it has been asked to be extended for
	err         error         // why it is not kept any more
}

// A doneFunc answers what the record of a lease is to have when its work is done.
type doneFunc func() (mark int64, state []byte)

// leaseContext is the lease's context, which knows the lease.
type leaseContext struct {
	context.Context
	lease *Lease
}

type leaseKey struct{}

func (c *leaseContext) Value(key any) any {
	if key == (leaseKey{}) {
		return c.lease
	}
	return c.Context.Value(key)
}

// LeaseFrom answers the lease under which ctx's function runs, or nil. It is how code far below finds the fencing token.
func LeaseFrom(ctx context.Context) *Lease {
	l, _ := ctx.Value(leaseKey{}).(*Lease)
	return l
}

// newLease makes the lease of a grant that was asked for at since. Its context is derived from parent.
func (c *core) newLease(parent context.Context, t target, claim store.Claim, g store.Grant, opts Options, since time.Time) *Lease {
	l := &Lease{
		core: c, shown: t.shown, of: cmp.Or(t.of, t.shown), queue: t.queue(), name: claim.Name, holder: claim.Holder, token: g.Token, opts: opts, granted: g,
		since: since, had: c.clock.earliest(), deadline: since.Add(claim.TTL - opts.Margin), renewAt: since.Add(claim.TTL / 3),
	}
	if opts.AtMost > 0 {
		l.end = since.Add(opts.AtMost)
	}
	l.ctx.lease = l
	l.ctx.Context, l.cancel = context.WithCancelCause(parent)
	return l
}

// Context ends when the lease is released or lost, and when the context it was derived from does: that of Do, not that of
// Lock and TryLock. Its cause (context.Cause) is ErrLost when the lease is lost.
func (l *Lease) Context() context.Context { return &l.ctx }

// Name is what is leased, as it was asked for.
func (l *Lease) Name() string { return l.shown }

// Token is the fencing token: greater than that of every earlier lease of the name. Send it with every write, to a
// resource that refuses tokens lower than one it has seen.
func (l *Lease) Token() int64 { return l.token }

// Holder identifies this lease's attempt to acquire: the replica, and what makes it unique.
func (l *Lease) Holder() string { return l.holder }

// State is what the last holder left with the name, nil if nothing. It is the caller's to keep.
func (l *Lease) State() []byte { return slices.Clone(l.granted.State) }

// Left is how long the lease is surely held from now, without any renewal. It is 0 when it is lost or released.
func (l *Lease) Left() time.Duration {
	k := l.core.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.index < 0 {
		return 0
	}
	return max(0, l.deadline.Sub(l.core.clock.latest()))
}

// Err answers nil while the lease is surely held, by the local clock alone; ErrLost once it is lost, ErrOverran if AtMost has ended it. It is what to ask just
// before a step that cannot be taken back, when the step itself cannot carry the token.
func (l *Lease) Err() error {
	k := l.core.keeper
	k.mu.Lock()
	if now := l.core.clock.latest(); l.index >= 0 && !now.Before(l.deadline) {
		cause := l.overdue(now)
		k.mu.Unlock()
		k.lose(l, cause)
		return cause
	}
	defer k.mu.Unlock()
	return l.err
}

// Check asks the store whether the lease is live, and renews it: nil if so, ErrLost if not, ErrUnknown if the store did not
// say.
func (l *Lease) Check(ctx context.Context) error { return l.extend(ctx, l.opts.TTL, nil) }

// Extend makes the lease live for at least ttl from now, beyond what renewal does; AtMost still bounds it. Use it before a
// time without a network. The margin at its end is larger than Options.Margin as ttl is larger than the TTL. Errors as in Check.
func (l *Lease) Extend(ctx context.Context, ttl time.Duration) error { return l.extend(ctx, ttl, nil) }

// SetState leaves state with the name, for whoever holds it next: at most 64 KiB. Errors as in Check. After ErrUnknown the state may take
// effect later, even after another that was set since. So the name is released with the last one; only if the holder dies may the older stay.
func (l *Lease) SetState(ctx context.Context, state []byte) error {
	if state == nil {
		state = []byte{}
	}
	l.stated.Store(true)
	err := l.extend(ctx, l.opts.TTL, func(e *store.Extension) { e.State = state })
	if unknown := errors.Is(err, ErrUnknown); unknown || err == nil && l.last.Load() != nil {
		state = slices.Clone(state)
		l.last.Store(&state)
	}
	return err
}

func (l *Lease) extend(ctx context.Context, ttl time.Duration, with func(*store.Extension)) error {
	if err := l.Err(); err != nil {
		return fmt.Errorf("%q: %w", l.shown, err)
	}
	before := l.core.clock.earliest()
	e := l.extension(before, ttl)
	if with != nil {
		with(&e)
	}
	l.core.keeper.mu.Lock()
	l.longest = max(l.longest, e.TTL)
	l.core.keeper.mu.Unlock()
	errs, err := l.core.extends.ask(ctx, []store.Extension{e})
	if err == nil {
		err = errs[0]
	}
	switch {
	case err == nil:
		l.core.keeper.confirm(l, before, e.TTL)
		return l.Err()
	case errors.Is(err, ErrLost):
		l.core.keeper.lose(l, ErrLost)
	}
	return fmt.Errorf("extending %q: %w", l.shown, err)
}

// margin is how long before the end of ttl the lease counts as lost: clocks drift further apart in a longer time.
func (l *Lease) margin(ttl time.Duration) time.Duration {
	if ttl <= l.opts.TTL {
		return l.opts.Margin
	}
	return time.Duration(float64(l.opts.Margin) * (float64(ttl) / float64(l.opts.TTL)))
}

// extension asks for ttl from before, or less when AtMost ends sooner.
func (l *Lease) extension(before time.Time, ttl time.Duration) store.Extension {
	if !l.end.IsZero() {
		ttl = max(store.MinTTL, min(ttl, l.end.Sub(before)))
	}
	return store.Extension{Name: l.name, Holder: l.holder, Token: l.token, TTL: ttl}
}

// Release gives the name back; AtLeast may let it linger. It has a bounded context of its own, and repeats what the store
// did not answer. It answers nil when the store confirmed that the lease was live until then, so that nobody else can have
// had the name meanwhile; ErrLost when it was not; and ErrUnknown when the store could not be asked, in which case the
// lease ends with its TTL. Releasing again answers nil.
func (l *Lease) Release() error { return l.finish(store.Release{Retain: l.retain()}) }

// retain is how long the record must be kept when the lease is given back as it is.
func (l *Lease) retain() time.Duration {
	if l.stated.Load() {
		return Forever
	}
	return retainFor(l.granted.Mark, l.granted.State)
}

// Completion is what a store in a SQL database needs to record, inside a transaction of the caller's own, that the work of the
// lease is done: an element is processed, the run of a scheduled time has been run. Then the work and the record commit together
// or not at all. Make it last before the commit, return what it answers if that is an error, and give the lease back as ever. For
// a plain lock it only checks that the lease is live, and keeps others from taking it until the transaction has ended.
//
// When it answers ErrDone, an earlier transaction has committed whose answer was lost: roll back and return that error, which then
// counts as success.
func (l *Lease) Completion() store.Completion {
	c := store.Completion{Name: l.name, Holder: l.holder, Token: l.token}
	if done := l.done.Load(); done != nil {
		c.Mark, c.State = (*done)()
		l.completion.Store(c.Mark)
	}
	return c
}

// completed says that err, of the user's function, is the ErrDone of the lease's own completion.
func (l *Lease) completed(err error) bool {
	var done *DoneError
	return l.done.Load() != nil && errors.As(err, &done) && done.Record.Name == l.name
}

// finish ends the lease with what r says beside the lease itself.
func (l *Lease) finish(r store.Release) error {
	if !l.core.keeper.drop(l, errReleased) {
		return nil
	}
	return l.finished(l.core.releaseUntil([]store.Release{l.release(r)}, []time.Time{l.over()})[0])
}

// over is when the lease has surely ended, whatever is said or not said of its release.
func (l *Lease) over() time.Time {
	k := l.core.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	return time.Now().Add(max(l.opts.TTL, l.longest))
}

// finishAll ends leases in few requests. The answers are in their order.
func finishAll(c *core, leases []*Lease, with func(int) store.Release) []error {
	errs := make([]error, len(leases))
	var releases []store.Release
	var ends []time.Time
	var at []int
	for i, l := range leases {
		if c.keeper.drop(l, errReleased) {
			releases, ends, at = append(releases, l.release(with(i))), append(ends, l.over()), append(at, i)
		}
	}
	for start := 0; start < len(releases); start += batchLimit {
		end := min(start+batchLimit, len(releases))
		for i, err := range c.releaseUntil(releases[start:end], ends[start:end]) {
			errs[at[start+i]] = leases[at[start+i]].finished(err)
		}
	}
	return errs
}

// release completes r with the lease and what AtLeast leaves to linger.
func (l *Lease) release(r store.Release) store.Release {
	r.Name, r.Holder, r.Token = l.name, l.holder, l.token
	if l.opts.AtLeast > 0 {
		r.Linger = max(r.Linger, l.opts.AtLeast-l.core.clock.earliest().Sub(l.had))
	}
	if last := l.last.Load(); last != nil && r.State == nil {
		r.State = *last
	}
	return r
}

// finished tells of the end of a lease.
func (l *Lease) finished(err error) error {
	l.core.queues.released(l.queue)
	if errors.Is(err, ErrLost) {
		l.core.keeper.tellLost(l, ErrLost)
	}
	if l.core.cfg.Observe != nil {
		l.core.observe(Event{Kind: EventReleased, Name: l.of, Token: l.token, Duration: l.core.clock.earliest().Sub(l.since), Err: err})
	}
	if err != nil {
		return fmt.Errorf("releasing %q: %w", l.shown, err)
	}
	return nil
}

// release makes one batch of releases, and repeats those that the store has not answered for two request timeouts.
func (c *core) release(releases []store.Release) []error { return c.releaseUntil(releases, nil) }

// releaseUntil makes one batch of releases, and repeats those that the store has not answered: one that records something, until its end, when its
// lease is sure to have ended by itself; any other for two request timeouts.
func (c *core) releaseUntil(releases []store.Release, ends []time.Time) []error {
	errs, err := c.releases.ask(context.Background(), releases)
	if err == nil && !slices.ContainsFunc(errs, open) {
		return errs
	}
	if err != nil {
		errs = slices.Repeat([]error{err}, len(releases))
	}
	bounds := slices.Repeat([]time.Time{time.Now().Add(2 * c.cfg.RequestTimeout)}, len(releases))
	for i, r := range releases {
		if ends != nil && (r.Mark != 0 || r.State != nil) && ends[i].After(bounds[i]) {
			bounds[i] = ends[i]
		}
	}
	c.releaseAgain(releases, bounds, errs)
	return errs
}

// releaseAgain repeats the releases whose answers are open, each until its bound. What has been answered is not asked again: by then a
// successor may have the name.
func (c *core) releaseAgain(releases []store.Release, bounds []time.Time, errs []error) {
	ctx, cancel := context.WithDeadline(context.Background(), slices.MaxFunc(bounds, time.Time.Compare))
	defer cancel()
	go func() { // nothing is asked any more when Close has returned
		select {
		case <-c.over:
			cancel()
		case <-ctx.Done():
		}
	}()
	for wait := newBackoff(c.cfg.RequestTimeout / 8); wait.sleep(ctx); {
		var again []store.Release
		var at []int
		for i, err := range errs {
			if open(err) && time.Now().Before(bounds[i]) {
				again, at = append(again, releases[i]), append(at, i)
			}
		}
		if len(again) == 0 {
			break
		}
		answers, err := c.releases.ask(ctx, again)
		for i, at := range at {
			if errs[at] = err; err == nil {
				errs[at] = answers[i]
			}
		}
	}
	for i, err := range errs {
		if open(err) {
			errs[i] = store.AsUnknown(err)
		}
	}
}

// open says that asking the store to release again may answer something else.
func open(err error) bool {
	if err == nil || errors.Is(err, ErrLost) || errors.Is(err, store.ErrClosed) {
		return false
	}
	var bad *store.InvalidError
	return !errors.As(err, &bad)
}
