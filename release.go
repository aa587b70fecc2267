package soloist

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// Release releases the name. With AtLeast the name lingers. Release has its own time limit, so it also works after the
// caller's context has ended, and it retries if the store does not respond. It returns nil if the store confirmed that
// the lease was live until then: no other holder can have had the name meanwhile. It returns ErrLost if the lease was
// not live, and ErrUnknown if the store did not respond; the lease then ends with its TTL. It is also ErrUnknown if a
// repeated request found that the lease was over: the request before, which got no response, may have released it.
//
// Another call waits for the first one that ended the lease, also for Element.Done or Fail, and returns what that
// returned. After Close or Shutdown has released the lease, Release returns ErrLost, or ErrUnknown if the store did not
// respond to that. The lease of a run ends when its function returns: for that, Release returns an *InvalidError and
// does nothing.
func (l *Lease) Release() error {
	if l.subject.Kind == KindJob {
		return invalid("release", l.shown, "the lease of a run is released, and the run recorded, when its function returns")
	}
	return l.giveBack()
}

// giveBack ends the lease and leaves the record as it is.
func (l *Lease) giveBack() error { return l.release(store.Release{Retain: l.retain()}) }

// A leaseEnd is what a call that ends a lease asks for.
type leaseEnd struct {
	cause  error // of the end of the lease's context: errReleased, or errGivenBack if Close releases the lease
	mark   int64 // as in the request
	states bool  // the request has a state
}

// alreadyEnded returns the answer to a call that would end a lease which another one has ended. It is that of the
// other; but if that was nil, the lease was released by Close, or without what this call has to record, it is ErrLost.
func (l *Lease) alreadyEnded(end leaseEnd) error {
	before, answered := l.core.renewer.endedBefore(l)
	<-answered
	records := end.mark != 0 || end.states
	switch {
	case l.answer != nil:
		return l.answer
	case errors.Is(before.cause, errGivenBack):
		return l.releasing(errGivenBack)
	case records && end != before:
		return l.releasing(errEnded)
	}
	return nil
}

// releasing returns an error of a release of the lease.
func (l *Lease) releasing(err error) error { return fmt.Errorf("releasing %q: %w", l.shown, err) }

// retain returns how long the record must be kept if the lease is released with its mark and state unchanged.
func (l *Lease) retain() time.Duration {
	last := l.last.Load()
	switch {
	case l.completion.Load() != 0: // a transaction may have raised the mark
		return Forever
	case last != nil: // the release writes it again
		return l.core.retainFor(l.name, l.granted.Mark, *last)
	case l.stated.Load(): // by a request that is under way, or that has failed
		return Forever
	}
	return l.core.retainFor(l.name, l.granted.Mark, l.granted.State)
}

// retainFor returns how long to keep a record with this mark and state: forever if there is something in it, or if its token is the version of the controls. Once that one is
// forgotten, the version is that of before the first change, and a replica that has read the controls only then would take them for the latest.
func (c *core) retainFor(name string, mark int64, state []byte) time.Duration {
	if mark != 0 || len(state) != 0 || name == c.names.prefix+nameControls {
		return Forever
	}
	return 0
}

// release ends the lease. r has the fields of the request other than those that identify the lease.
func (l *Lease) release(r store.Release) error {
	if end := (leaseEnd{errReleased, r.Mark, r.State != nil}); !l.core.renewer.drop(l, end) {
		return l.alreadyEnded(end)
	}
	err := l.core.releaseBatchUntil(context.Background(), []store.Release{l.releaseRequest(r)}, []time.Duration{l.longestLife()})[0]
	l.core.releaseLate(context.Background(), []*Lease{l}, []error{err})
	return l.tellReleased(err)
}

// longestLife returns how long the lease can last at most once it is not renewed any more, whatever happens to its release.
func (l *Lease) longestLife() time.Duration {
	r := l.core.renewer
	r.mu.Lock()
	defer r.mu.Unlock()
	return max(l.opts.TTL, l.longest)
}

// releaseLeases ends leases in few requests, until ctx ends. It returns an error for each lease, in their order.
func releaseLeases(ctx context.Context, c *core, leases []*Lease, with func(int) store.Release) []error {
	return endLeases(ctx, c, leases, errReleased, with)
}

// endLeases is releaseLeases for a cause: see leaseEnd. Close does not wait for what others do with a lease.
func endLeases(ctx context.Context, c *core, leases []*Lease, cause error, with func(int) store.Release) []error {
	errs := make([]error, len(leases))
	var before []func() // what to do about leases that had been ended
	var held []*Lease
	var releases []store.Release
	var lives []time.Duration
	var at []int
	for i, l := range leases {
		r := with(i)
		end := leaseEnd{cause, r.Mark, r.State != nil}
		if c.renewer.drop(l, end) {
			held, releases, lives, at = append(held, l), append(releases, l.releaseRequest(r)), append(lives, l.longestLife()), append(at, i)
		} else if !errors.Is(cause, errGivenBack) {
			before = append(before, func() { errs[i] = l.alreadyEnded(end) })
		}
	}
	answers := make([]error, len(releases))
	var batches sync.WaitGroup
	for start := 0; start < len(releases); start += batchLimit { // none waits for one that is repeated: nothing renews its leases
		end := min(start+batchLimit, len(releases))
		batches.Go(func() {
			for i, err := range c.releaseBatchUntil(ctx, releases[start:end], lives[start:end]) {
				answers[start+i], errs[at[start+i]] = err, held[start+i].tellReleased(err)
			}
		})
	}
	batches.Wait()
	c.releaseLate(ctx, held, answers)
	for _, ask := range before { // they may have been ended by this very call, if leases has them twice
		ask()
	}
	return errs
}

// releaseLate gives back, until ctx ends, what a request of released leases, which had no reply, is granted from then on. errs has what came of their releases: what may
// go on is not given back. A request that is older than a TTL, and the time for which it is repeated, is not waited for.
func (c *core) releaseLate(ctx context.Context, leases []*Lease, errs []error) {
	var claims []store.Claim
	now := c.clock.earliest()
	before := now
	for i, l := range leases {
		if l.again && (errs[i] == nil || gone(errs[i])) && now.Sub(l.since) < l.opts.TTL+2*c.cfg.RequestTimeout {
			claims = append(claims, store.Claim{Name: l.name, Holder: l.holder, TTL: l.opts.TTL})
			if l.since.Before(before) {
				before = l.since
			}
		}
	}
	c.releaseOrphansUntil(ctx, claims, before)
}

// releaseRequest sets the fields of r that identify the lease, and the linger that AtLeast requires.
func (l *Lease) releaseRequest(r store.Release) store.Release {
	r.Name, r.Holder, r.Token = l.name, l.holder, l.token
	if l.opts.AtLeast > 0 {
		r.Linger = max(r.Linger, l.opts.AtLeast-l.core.clock.earliest().Sub(l.had))
	}
	if last := l.last.Load(); last != nil && r.State == nil && l.completion.Load() == 0 { // a transaction may have written another state
		if r.State = *last; len(*last) > 0 { // it may have been set since somebody asked how long to keep the record
			r.Retain = Forever
		}
	}
	return r
}

// tellReleased returns the answer to the call that has ended the lease, and emits the event of that.
func (l *Lease) tellReleased(err error) error {
	answer := err
	if err != nil {
		answer = l.releasing(err)
	}
	l.core.renewer.answer(l, answer) // before the event: its observer may release the lease, too
	l.core.waiters.released(l.waitKey)
	lost := errors.Is(err, ErrLost)
	if before := l.core.renewer.lostBefore(l, lost); before {
		lost = true
	} else if lost {
		l.tellLost(ErrLost)
	}
	if l.core.cfg.Observe != nil {
		held := l.core.clock.earliest().Sub(l.since)
		l.core.observe(&l.ctx, Event{Kind: EventReleased, Subject: l.subject, Token: l.token, Duration: held, Lost: lost, Err: err})
	}
	return answer
}

// releaseOnce sends one release, also if ctx has ended. It retries it only if its outcome is unknown.
func (c *core) releaseOnce(ctx context.Context, r store.Release) error {
	asked := time.Now()
	errs, err := c.releases.ask(context.WithoutCancel(ctx), []store.Release{r})
	if err != nil {
		errs = []error{err}
	}
	if errors.Is(errs[0], ErrUnknown) {
		c.retryRelease(context.Background(), []store.Release{r}, []time.Time{asked.Add(2 * c.cfg.RequestTimeout)}, errs)
	}
	return errs[0]
}

// releaseBatch sends one batch of releases. It retries those whose outcome is unknown for two request timeouts.
func (c *core) releaseBatch(releases []store.Release) []error {
	return c.releaseBatchUntil(context.Background(), releases, nil)
}

// releaseBatchUntil sends one batch of releases and retries those whose outcome is unknown. A release that records
// something is retried until its lease has certainly expired, and any other for two request timeouts. lives has how long
// each lease can last from now on. No request is sent after ctx has ended.
func (c *core) releaseBatchUntil(ctx context.Context, releases []store.Release, lives []time.Duration) []error {
	asked := time.Now()
	errs, err := c.releases.ask(ctx, releases)
	if err == nil && !slices.ContainsFunc(errs, open) {
		return errs
	}
	if err != nil {
		errs = slices.Repeat([]error{err}, len(releases))
	}
	bounds := slices.Repeat([]time.Time{asked.Add(2 * c.cfg.RequestTimeout)}, len(releases))
	for i, r := range releases {
		if lives != nil && (r.Mark != 0 || r.State != nil) {
			bounds[i] = asked.Add(max(2*c.cfg.RequestTimeout, lives[i]))
		}
	}
	c.retryRelease(ctx, releases, bounds, errs)
	return errs
}

// errReleasedBefore is the outcome of a release that is lost when it is repeated, after a request whose outcome is unknown.
var errReleasedBefore = fmt.Errorf("%w: the lease was lost, or released by a request that got no reply", ErrUnknown)

// gone reports whether the error of a release means that the lease has ended: before that release, or by an earlier request that got no reply.
func gone(err error) bool { return errors.Is(err, ErrLost) || errors.Is(err, errReleasedBefore) }

// retryRelease repeats the releases whose outcome is unknown, each until its bound. A release whose outcome is known is
// not repeated: a successor may have the name by then.
func (c *core) retryRelease(ctx context.Context, releases []store.Release, bounds []time.Time, errs []error) {
	ctx, cancel := c.patience(ctx, slices.MaxFunc(bounds, time.Time.Compare))
	defer cancel()
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
			unknown := errors.Is(errs[at], ErrUnknown)
			if errs[at] = err; err == nil {
				errs[at] = answers[i]
			}
			switch {
			case unknown && errors.Is(errs[at], ErrLost):
				errs[at] = errReleasedBefore
			case unknown && open(errs[at]):
				errs[at] = store.AsUnknown(errs[at])
			}
		}
	}
	for i, err := range errs {
		if open(err) {
			errs[i] = store.AsUnknown(err)
		}
	}
}

// patience returns a context that ends with parent, at an instant, and earlier when Close does not wait any longer: no request is sent after it has returned.
func (c *core) patience(parent context.Context, until time.Time) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithDeadline(parent, until)
	go func() {
		select {
		case <-c.interrupted.Done():
			within(c.over, c.cfg.RequestTimeout*7/4) // Close has waited for functions and for one request, which makes 17/8, and is bounded by 4
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// open reports whether repeating the release can have another result.
func open(err error) bool {
	if err == nil || gone(err) || errors.Is(err, store.ErrClosed) {
		return false
	}
	var bad *store.InvalidError
	return !errors.As(err, &bad)
}
