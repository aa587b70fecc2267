package soloist

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// Release gives the name back; AtLeast may let it linger. It has a bounded context of its own, and repeats what the store
// did not answer. It answers nil when the store confirmed that the lease was live until then, so that nobody else can have
// had the name meanwhile; ErrLost when it was not; and ErrUnknown when the store could not be asked, in which case the
// lease ends with its TTL. Releasing again answers nil.
func (l *Lease) Release() error { return l.release(store.Release{Retain: l.retain()}) }

// retain is how long the record must be kept when the lease is given back as it is.
func (l *Lease) retain() time.Duration {
	if l.stated.Load() {
		return Forever
	}
	return retainFor(l.granted.Mark, l.granted.State)
}

// retainFor is how long a record must be kept that is given back as it was found: for ever if there is something in it.
func retainFor(mark int64, state []byte) time.Duration {
	if mark != 0 || len(state) != 0 {
		return Forever
	}
	return 0
}

// release ends the lease with what r says beside the lease itself.
func (l *Lease) release(r store.Release) error {
	if !l.core.renewer.drop(l, errReleased) {
		return nil
	}
	return l.tellReleased(l.core.releaseBatchUntil([]store.Release{l.releaseRequest(r)}, []time.Time{l.latestEnd()})[0])
}

// latestEnd is when the lease has surely ended, whatever is said or not said of its release.
func (l *Lease) latestEnd() time.Time {
	r := l.core.renewer
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Add(max(l.opts.TTL, l.longest))
}

// releaseLeases ends leases in few requests. The answers are in their order.
func releaseLeases(c *core, leases []*Lease, with func(int) store.Release) []error {
	errs := make([]error, len(leases))
	var releases []store.Release
	var ends []time.Time
	var at []int
	for i, l := range leases {
		if c.renewer.drop(l, errReleased) {
			releases, ends, at = append(releases, l.releaseRequest(with(i))), append(ends, l.latestEnd()), append(at, i)
		}
	}
	for start := 0; start < len(releases); start += batchLimit {
		end := min(start+batchLimit, len(releases))
		for i, err := range c.releaseBatchUntil(releases[start:end], ends[start:end]) {
			errs[at[start+i]] = leases[at[start+i]].tellReleased(err)
		}
	}
	return errs
}

// releaseRequest completes r with the lease and what AtLeast leaves to linger.
func (l *Lease) releaseRequest(r store.Release) store.Release {
	r.Name, r.Holder, r.Token = l.name, l.holder, l.token
	if l.opts.AtLeast > 0 {
		r.Linger = max(r.Linger, l.opts.AtLeast-l.core.clock.earliest().Sub(l.had))
	}
	if last := l.last.Load(); last != nil && r.State == nil && l.completion.Load() == 0 { // a transaction may have left another
		r.State = *last
	}
	return r
}

// tellReleased tells of the end of a lease.
func (l *Lease) tellReleased(err error) error {
	l.core.waiters.released(l.waitKey)
	if errors.Is(err, ErrLost) {
		l.core.renewer.tellLost(l, ErrLost)
	}
	if l.core.cfg.Observe != nil {
		l.core.observe(&l.ctx, Event{Kind: EventReleased, Subject: l.subject, Token: l.token, Duration: l.core.clock.earliest().Sub(l.since), Err: err})
	}
	if err != nil {
		return fmt.Errorf("releasing %q: %w", l.shown, err)
	}
	return nil
}

// releaseBatch makes one batch of releases, and repeats those that the store has not answered for two request timeouts.
func (c *core) releaseBatch(releases []store.Release) []error {
	return c.releaseBatchUntil(releases, nil)
}

// releaseBatchUntil makes one batch of releases, and repeats those that the store has not answered: one that records something, until its end, when its
// lease is sure to have ended by itself; any other for two request timeouts.
func (c *core) releaseBatchUntil(releases []store.Release, ends []time.Time) []error {
	asked := time.Now()
	errs, err := c.releases.ask(context.Background(), releases)
	if err == nil && !slices.ContainsFunc(errs, open) {
		return errs
	}
	if err != nil {
		errs = slices.Repeat([]error{err}, len(releases))
	}
	bounds := slices.Repeat([]time.Time{asked.Add(2 * c.cfg.RequestTimeout)}, len(releases))
	for i, r := range releases {
		if ends != nil && (r.Mark != 0 || r.State != nil) && ends[i].After(bounds[i]) {
			bounds[i] = ends[i]
		}
	}
	c.retryRelease(releases, bounds, errs)
	return errs
}

// retryRelease repeats the releases whose answers are open, each until its bound. What has been answered is not asked again: by then a
// successor may have the name.
func (c *core) retryRelease(releases []store.Release, bounds []time.Time, errs []error) {
	ctx, cancel := context.WithDeadline(context.Background(), slices.MaxFunc(bounds, time.Time.Compare))
	defer cancel()
	go func() { // Close does not wait for longer, and nothing is asked any more when it has returned
		select {
		case <-c.interrupted.Done():
			within(c.over, 2*c.cfg.RequestTimeout)
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
