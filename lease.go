package soloist

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// A Lease is a name that this client holds. It is renewed until it is released or lost. It is safe for concurrent use.
type Lease struct {
	core    *core
	shown   string // the name as its user knows it
	subject Subject
	name    string // the record's
	waitKey string // the key of the local waiters for it
	holder  string
	token   int64
	opts    Options
	granted store.Grant
	again   bool // as in target
	ctx     leaseContext
	cancel  context.CancelCauseFunc                 // of ctx
	stop    atomic.Pointer[context.CancelCauseFunc] // of the context of a function that runs under it; nil if none does
	since   time.Time                               // just before the request that was granted, or the first of several that asked for the same
	had     time.Time                               // when the grant was known here; zero without AtLeast
	end     time.Time                               // the lease is not renewed past it; zero without AtMost
	busy    atomic.Bool                             // a function of the user's runs under it, or a control is being written
	report  atomic.Pointer[report]                  // of the run under it
	stated  atomic.Bool                             // it was asked to set the record's state
	last    atomic.Pointer[[]byte]                  // the record's last state, with which the lease is released: a request for an older one may be carried out late, or twice
	state   atomic.Pointer[[]byte]                  // the user's state, if it is not that of the grant
	wrap    atomic.Pointer[wrapFunc]                // nil if the record's state is the user's
	done    atomic.Pointer[doneFunc]

	completion atomic.Int64 // the mark that was given out last to be committed; 0 if none
	doubted    bool         // of a run: nobody could say whether it was committed

	// Guarded by renewer.mu.
	index       int       // in renewer.leases; -1 when it is not there any more
	deadline    time.Time // when it counts as lost, unless a renewal is confirmed before
	renewAt     time.Time
	flying      int           // requests under way that renew it
	unconfirmed bool          // the last of them was not confirmed, or not yet
	lost        bool          // EventLost has been emitted, or is about to be
	longest     time.Duration // the longest TTL that Extend has asked for
	err         error         // why it was removed from the renewer
	ended       leaseEnd      // by its user or by Close
	answered    bool          // the call that has ended it has its answer
	answer      error
	waiting     chan struct{} // closed when answered is set; nil if nobody waits for that
}

// A doneFunc returns the mark and state to write to the record of a lease when its work is done.
type doneFunc func() (mark int64, state []byte)

// leaseContext is the lease's context. LeaseFrom finds the lease in it.
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

// workContext is the context of a function under a lease.
type workContext struct {
	leaseContext
	stop context.CancelCauseFunc
}

// work returns the context of a function under the lease: it ends with ctx, with the lease, when the client interrupts its functions, or when
// stop is called.
func (l *Lease) work(ctx context.Context) context.Context {
	w := &workContext{}
	w.lease = l
	w.Context, w.stop = context.WithCancelCause(ctx)
	l.stop.Store(&w.stop)
	if l.ctx.Err() != nil {
		w.stop(context.Cause(&l.ctx))
	}
	if l.core.interrupted.Err() != nil { // then renewer.interrupt may have passed this lease
		w.stop(context.Cause(l.core.interrupted))
	}
	return w
}

// endContext ends the context of the lease, and that of the function under it.
func (l *Lease) endContext(cause error) {
	l.cancel(cause)
	if stop := l.stop.Load(); stop != nil {
		(*stop)(cause)
	}
}

// LeaseFrom returns the lease that ctx belongs to, or nil. Use it where a lease cannot be passed as an argument, for example to get the
// fencing token.
func LeaseFrom(ctx context.Context) *Lease {
	l, _ := ctx.Value(leaseKey{}).(*Lease)
	return l
}

// newLease returns the lease of a grant that was requested at since. Its context is derived from parent.
func (c *core) newLease(parent context.Context, t target, claim store.Claim, g store.Grant, opts Options, since time.Time) *Lease {
	l := &Lease{
		core: c, shown: t.shown, subject: t.subject(claim.Name), waitKey: t.waitKey(), name: claim.Name, holder: claim.Holder, token: g.Token, opts: opts, granted: g, again: t.again,
		since: since, deadline: since.Add(claim.TTL - opts.Margin), renewAt: since.Add(claim.TTL / 3),
	}
	if opts.AtMost > 0 {
		l.end = since.Add(opts.AtMost)
	}
	if opts.AtLeast > 0 {
		l.had = c.clock.latest() // with a suspend that was not read yet: it was before
	}
	l.ctx.lease = l
	l.ctx.Context, l.cancel = context.WithCancelCause(parent)
	return l
}

// Context returns the context of the lease. It ends when the lease is released or lost. It does not end with the context of
// the call that acquired it. Its cause (context.Cause) is ErrLost if the lease is lost. A holder that got the lease from
// Lock, TryLock, Acquire, Campaign or Claim must stop its work when it ends. A function under Do, Lead, Process or
// Semaphore.Do, and that of a job, is passed another context. That one ends when this one does, or earlier if the function
// should stop. The function can then use this one to finish its work.
func (l *Lease) Context() context.Context { return &l.ctx }

// Name returns the name of the lock, leadership or job, the semaphore, or the element's ID, as the caller gave it.
func (l *Lease) Name() string { return l.shown }

// Token returns the fencing token, which is greater than that of every earlier lease of the name. Send it with every write to a resource
// that refuses tokens lower than one it has seen.
func (l *Lease) Token() int64 { return l.token }

// Holder returns the unique name of the attempt that acquired this lease. It begins with the replica.
func (l *Lease) Holder() string { return l.holder }

// Left returns how long the lease is certainly held from now on, without any renewal. It is 0 if the lease is lost or released.
func (l *Lease) Left() time.Duration {
	r := l.core.renewer
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.index < 0 {
		return 0
	}
	now := l.core.clock.latest()
	r.afterSuspend()
	return max(0, l.deadline.Sub(now))
}

// Err returns nil while the lease is certainly held, ErrLost once it is lost, and ErrOverran if AtMost ended it. It reads the local clock
// and sends no request. Call it just before a step that cannot be undone, if the step itself cannot carry the token.
func (l *Lease) Err() error {
	r := l.core.renewer
	r.mu.Lock()
	now := l.core.clock.latest()
	r.afterSuspend() // who is told that it is held relies on its context from now on
	if l.index >= 0 && !now.Before(l.deadline) {
		cause := l.overdue(now)
		r.mu.Unlock()
		r.lose(l, cause)
		return cause
	}
	defer r.mu.Unlock()
	return l.err
}

// Check renews the lease. It returns nil if the store confirmed that the lease is live, ErrLost if it is not, and ErrUnknown if the store
// did not respond.
func (l *Lease) Check(ctx context.Context) error { return l.extend(ctx, l.opts.TTL, nil) }

// Extend makes the lease last for at least ttl from now. AtMost still bounds it. Use it before an expected network outage. The margin
// scales with ttl: it is Options.Margin * ttl / TTL if ttl is longer than the TTL. Errors are as in Check.
func (l *Lease) Extend(ctx context.Context, ttl time.Duration) error { return l.extend(ctx, ttl, nil) }

func (l *Lease) extend(ctx context.Context, ttl time.Duration, with func(*store.Extension)) error {
	if err := l.Err(); err != nil {
		return fmt.Errorf("%q: %w", l.shown, err)
	}
	before := l.core.clock.earliest()
	e := l.extension(before, ttl)
	if with != nil {
		with(&e)
	}
	if err := e.Check(); err != nil { // what is not asked for makes the lease no longer
		return fmt.Errorf("extending %q: %w", l.shown, err)
	}
	if e.State != nil {
		l.stated.Store(true)
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

// settled reports whether no transaction is completing the lease any more: what its record says of it is final. A record that such a transaction has changed and not
// committed yet is read as it was before, and cannot be changed meanwhile by another request.
func (l *Lease) settled(ctx context.Context) bool {
	errs, err := l.core.extends.ask(ctx, []store.Extension{l.extension(l.core.clock.earliest(), store.MinTTL)}) // makes no lease longer that lasts
	return err == nil && (errs[0] == nil || errors.Is(errs[0], ErrLost))
}

// margin returns how long before the end of ttl the lease counts as lost. It grows with ttl because clocks drift further apart in a longer
// time.
func (l *Lease) margin(ttl time.Duration) time.Duration {
	if ttl <= l.opts.TTL {
		return l.opts.Margin
	}
	return time.Duration(float64(l.opts.Margin) * (float64(ttl) / float64(l.opts.TTL)))
}

// extension returns a request for ttl from before, or for less if AtMost ends sooner.
func (l *Lease) extension(before time.Time, ttl time.Duration) store.Extension {
	if !l.end.IsZero() {
		ttl = max(store.MinTTL, min(ttl, l.end.Sub(before)))
	}
	return store.Extension{Name: l.name, Holder: l.holder, Token: l.token, TTL: ttl}
}

// Completion returns what a store in a SQL database needs to record, inside the caller's transaction, that the work of the lease is done:
// that an element is processed, or that a scheduled time was run. The work and the record then commit together or not at all. Pass it to
// the store's Complete as the last step before the commit, return an error of Complete from the function, and release the lease as usual.
// For a plain lock, Complete only checks that the lease is live, and prevents others from acquiring it until the transaction has ended.
//
// If Complete returns ErrDone, an earlier transaction did commit, although its confirmation was lost: roll back and return that error. It
// then counts as success.
func (l *Lease) Completion() store.Completion {
	c := store.Completion{Name: l.name, Holder: l.holder, Token: l.token}
	if done := l.done.Load(); done != nil {
		c.Mark, c.State = (*done)()
		l.completion.Store(c.Mark)
	}
	return c
}

// completed reports whether err, an error of the user's function, is the ErrDone of this lease's completion.
func (l *Lease) completed(err error) bool {
	var done *store.DoneError
	return l.done.Load() != nil && errors.As(err, &done) && done.Record.Name == l.name
}
