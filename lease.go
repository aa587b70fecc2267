package soloist

import (
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
	subject Subject
	name    string // the record's
	waitKey string // what those wait for, in this client, who wait for what it has
	holder  string
	token   int64
	opts    Options
	granted store.Grant
	ctx     leaseContext
	cancel  context.CancelCauseFunc                 // of ctx
	stop    atomic.Pointer[context.CancelCauseFunc] // of the context of a function that runs under it; nil if none does
	since   time.Time                               // just before the request that was granted, or the first of several that asked for the same
	had     time.Time                               // when the grant was known here
	end     time.Time                               // the lease is not renewed past it; zero without AtMost
	busy    atomic.Bool                             // a function of the user's runs under it
	report  atomic.Pointer[report]                  // of the run under it
	stated  atomic.Bool                             // SetState has been used
	last    atomic.Pointer[[]byte]                  // the last state that was set, with which the lease is released: a request for an older one may be carried out late, or twice
	done    atomic.Pointer[doneFunc]

	completion atomic.Int64 // the mark that was given out last to be committed; 0 if none
	doubted    bool         // of a run: nobody could say whether it was committed

	// Guarded by renewer.mu.
	index       int       // in renewer.leases, -1 when it is not kept any more
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

// work returns the context of a function under the lease: it ends with ctx, with the lease, or when stop is called.
func (l *Lease) work(ctx context.Context) context.Context {
	ctx, stop := context.WithCancelCause(ctx)
	l.stop.Store(&stop)
	if l.ctx.Err() != nil {
		stop(context.Cause(&l.ctx))
	}
	return &leaseContext{ctx, l}
}

// endContext ends the context of the lease, and that of the function under it.
func (l *Lease) endContext(cause error) {
	l.cancel(cause)
	if stop := l.stop.Load(); stop != nil {
		(*stop)(cause)
	}
}

// LeaseFrom returns the lease that ctx belongs to, or nil. It gives code far below the function the fencing token.
func LeaseFrom(ctx context.Context) *Lease {
	l, _ := ctx.Value(leaseKey{}).(*Lease)
	return l
}

// newLease makes the lease of a grant that was asked for at since. Its context is derived from parent.
func (c *core) newLease(parent context.Context, t target, claim store.Claim, g store.Grant, opts Options, since time.Time) *Lease {
	l := &Lease{
		core: c, shown: t.shown, subject: t.subject(claim.Name), waitKey: t.waitKey(), name: claim.Name, holder: claim.Holder, token: g.Token, opts: opts, granted: g,
		since: since, had: c.clock.earliest(), deadline: since.Add(claim.TTL - opts.Margin), renewAt: since.Add(claim.TTL / 3),
	}
	if opts.AtMost > 0 {
		l.end = since.Add(opts.AtMost)
	}
	l.ctx.lease = l
	l.ctx.Context, l.cancel = context.WithCancelCause(parent)
	return l
}

// Context returns the context of the lease. It ends when the lease is released or lost, and not with the context of the call that
// took it. Its cause (context.Cause) is ErrLost if the lease is lost. A holder that got the lease from Lock, TryLock, Acquire, Campaign or Claim
// must stop its work when it ends. A function under Do, Lead, Process or Semaphore.Do is passed another context, which ends when
// this one does or earlier, when the function is to stop; to finish its work it can go on with this one.
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
	r := l.core.renewer
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.index < 0 {
		return 0
	}
	return max(0, l.deadline.Sub(l.core.clock.latest()))
}

// Err answers nil while the lease is surely held, by the local clock alone; ErrLost once it is lost, ErrOverran if AtMost has ended it. It is what to ask just
// before a step that cannot be taken back, when the step itself cannot carry the token.
func (l *Lease) Err() error {
	r := l.core.renewer
	r.mu.Lock()
	if now := l.core.clock.latest(); l.index >= 0 && !now.Before(l.deadline) {
		cause := l.overdue(now)
		r.mu.Unlock()
		r.lose(l, cause)
		return cause
	}
	defer r.mu.Unlock()
	return l.err
}

// Check asks the store whether the lease is live, and renews it: nil if so, ErrLost if not, ErrUnknown if the store did not
// say.
func (l *Lease) Check(ctx context.Context) error { return l.extend(ctx, l.opts.TTL, nil) }

// Extend makes the lease live for at least ttl from now, beyond what renewal does; AtMost still bounds it. Use it before a
// time without a network. The margin at its end is larger than Options.Margin as ttl is larger than the TTL. Errors as in Check.
func (l *Lease) Extend(ctx context.Context, ttl time.Duration) error { return l.extend(ctx, ttl, nil) }

// SetState leaves state with the name, for whoever holds it next: at most 64 KiB. Errors as in Check. After ErrUnknown the state may take
// effect later, even after another that was set since. So the name is released with the last one; only if the holder dies may an older one stay.
func (l *Lease) SetState(ctx context.Context, state []byte) error {
	if state == nil {
		state = []byte{}
	}
	l.stated.Store(true)
	err := l.extend(ctx, l.opts.TTL, func(e *store.Extension) { e.State = state })
	if err == nil || errors.Is(err, ErrUnknown) {
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
	l.core.renewer.mu.Lock()
	l.longest = max(l.longest, e.TTL)
	l.core.renewer.mu.Unlock()
	errs, err := l.core.extends.ask(ctx, []store.Extension{e})
	if err == nil {
		err = errs[0]
	}
	switch {
	case err == nil:
		l.core.renewer.confirm(l, before, e.TTL)
		return l.Err()
	case errors.Is(err, ErrLost):
		l.core.renewer.lose(l, errNotLive)
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
	var done *store.DoneError
	return l.done.Load() != nil && errors.As(err, &done) && done.Record.Name == l.name
}
