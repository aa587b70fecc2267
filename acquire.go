package soloist

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/soloist-dev/soloist/internal/rand"
	"github.com/soloist-dev/soloist/store"
)

// A backoff spaces repetitions of something that failed: 1/16 of its longest wait at first, doubling.
type backoff struct{ next, longest time.Duration }

func newBackoff(longest time.Duration) *backoff {
	return &backoff{max(longest/16, time.Millisecond), max(longest, time.Millisecond)}
}

// sleep waits for the next pause and says false when ctx ended instead.
func (b *backoff) sleep(ctx context.Context) bool { return sleep(ctx, b.pause()) }

// pause is the next pause, with jitter, so that those who began together do not go on together.
func (b *backoff) pause() time.Duration {
	d := b.next/2 + rand.N(b.next/2+1)
	b.next = min(2*b.next, b.longest)
	return d
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// A target is what an attempt asks for: one name, or any one of several.
type target struct {
	shown string
	of    string   // what events name; "" for shown
	name  string   // the record's
	names []string // those to choose from, if there are several; name is the first of them
	mark  int64
}

// all answers the names of the records that the target may get.
func (t target) all() []string {
	if len(t.names) > 0 {
		return t.names
	}
	return []string{t.name}
}

// try makes one attempt. The lease's context is derived from parent, which ctx need not be.
func (c *Client) try(ctx, parent context.Context, t target) (*Lease, error) {
	if err := c.usable(); err != nil {
		return nil, err
	}
	claim := store.Claim{Name: t.name, Holder: c.newHolder(), TTL: c.opts.TTL, Mark: t.mark}
	before := c.clock.earliest()
	name, out := c.claim(ctx, t, claim)
	if errors.Is(out.Err, ErrUnknown) {
		name, out = c.settle(ctx, t, claim, before, out)
	}
	claim.Name = name
	if out.Err != nil {
		return nil, t.named(out.Err)
	}
	return c.keep(parent, t, claim, out.Grant, before)
}

// named makes a refusal speak of the target by the name that its user knows.
func (t target) named(err error) error {
	switch refused := err.(type) {
	case *HeldError:
		refused.Record.Name = t.shown
	case *DoneError:
		refused.Record.Name = t.shown
	}
	return err
}

// keep makes a lease of a grant and keeps it, or gives it back when it is of no use any more.
func (c *Client) keep(parent context.Context, t target, claim store.Claim, g store.Grant, before time.Time) (*Lease, error) {
	l, err := c.kept(parent, t, claim, g, before)
	if err != nil {
		if released := c.returned(claim, g); released != nil {
			err = errors.Join(err, fmt.Errorf("giving it back: %w", released))
		}
		return nil, err
	}
	return l, nil
}

// kept makes a lease of a grant and keeps it, unless it is of no use any more.
func (c *Client) kept(parent context.Context, t target, claim store.Claim, g store.Grant, before time.Time) (*Lease, error) {
	l := c.newLease(parent, t, claim, g, c.opts, before)
	var err error
	if late := c.clock.latest(); !late.Before(l.deadline) {
		err = fmt.Errorf("%w: the store took %v to grant %q for %v", ErrLost, late.Sub(before).Round(time.Millisecond), t.shown, claim.TTL)
	} else if !c.keeper.add(l) {
		err = ErrClosed
	}
	if err != nil {
		l.cancel(err)
		return nil, err
	}
	if c.cfg.Observe != nil {
		c.observe(Event{Kind: EventGranted, Name: l.of, Token: g.Token, Duration: c.clock.earliest().Sub(before)})
	}
	return l, nil
}

// claim asks the store once and answers the name that the outcome is about.
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

// settle asks again, as the same holder, until the store says what became of a claim whose outcome is unknown. That is
// safe: if the claim was granted, asking again answers the same grant with its original deadline.
func (c *Client) settle(ctx context.Context, t target, claim store.Claim, before time.Time, out store.Outcome) (string, store.Outcome) {
	name := claim.Name
	bound, cancel := context.WithDeadline(ctx, time.Now().Add(min(2*c.cfg.RequestTimeout, claim.TTL-c.opts.Margin)))
	defer cancel()
	for wait := newBackoff(c.cfg.RequestTimeout / 8); wait.sleep(bound); {
		again, answer := c.claim(bound, t, claim)
		if answer.Err == nil || refused(answer.Err) {
			return again, answer
		}
		if bound.Err() == nil { // else the answer is that there is no more time, and the one before says why
			out.Err = store.AsUnknown(answer.Err)
		}
	}
	var claims []store.Claim
	for _, claim.Name = range t.all() {
		claims = append(claims, claim)
	}
	c.abandon(claims, before)
	if err := ctx.Err(); err != nil && !errors.Is(out.Err, err) {
		out.Err = fmt.Errorf("%w: %w", out.Err, err)
	}
	return name, out
}

// abandon gives back, in the background, what claims that nobody waits for may have been granted. It looks without
// taking, and gives up when the leases have ended by themselves.
func (c *core) abandon(claims []store.Claim, before time.Time) {
	names := make([]string, len(claims))
	ttl := time.Duration(0)
	for i, claim := range claims {
		names[i], ttl = claim.Name, max(ttl, claim.TTL)
	}
	c.background(func() {
		ctx, cancel := c.behind(ttl - c.clock.latest().Sub(before))
		defer cancel()
		for wait := newBackoff(ttl / 4); ; {
			records, errs, err := c.peekEach(ctx, names)
			if err == nil {
				err = errors.Join(errs...)
			}
			var releases []store.Release
			for i, r := range records {
				if r.Holder == claims[i].Holder && !r.Free() {
					releases = append(releases, c.returning(claims[i], store.Grant{Token: r.Token, Mark: r.Mark, State: r.State}))
				}
			}
			for len(releases) > 0 {
				n := min(len(releases), batchLimit)
				_ = c.release(releases[:n])
				releases = releases[n:]
			}
			if err == nil || !wait.sleep(ctx) {
				return
			}
		}
	})
}

// behind answers a context for what is cleaned up behind a caller who has gone. It ends after d, and when Close has waited for it for a
// RequestTimeout.
func (c *core) behind(d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	stop := context.AfterFunc(c.ctx, func() {
		sleep(ctx, c.cfg.RequestTimeout)
		cancel()
	})
	return ctx, func() { stop(); cancel() }
}

// retainFor is how long a record must be kept that is given back as it was found: for ever if there is something in it.
func retainFor(mark int64, state []byte) time.Duration {
	if mark != 0 || len(state) != 0 {
		return Forever
	}
	return 0
}

// background runs fn in a goroutine that Close waits for. When the client is being closed fn runs in the caller's.
func (c *core) background(fn func()) {
	c.mu.Lock()
	closed := c.closed
	if !closed {
		c.work.Go(fn)
	}
	c.mu.Unlock()
	if closed {
		fn()
	}
}

// claimBatch asks for several names, and settles what it can when the outcome of the request is unknown. It answers when the
// request was made that was answered.
func (c *core) claimBatch(ctx context.Context, claims []store.Claim, before time.Time) ([]store.Outcome, time.Time, error) {
	bound, cancel := context.WithTimeout(ctx, 2*c.cfg.RequestTimeout)
	defer cancel()
	var unknown error
	for wait := newBackoff(c.cfg.RequestTimeout / 8); ; {
		asked := time.Now()
		outs, err := c.acquires.ask(bound, claims)
		if err == nil {
			c.settleSome(bound, claims, outs, before)
			return outs, asked, nil
		}
		if unknown == nil && !errors.Is(err, ErrUnknown) {
			return nil, asked, err
		}
		if unknown = store.AsUnknown(err); !wait.sleep(bound) {
			c.abandon(claims, before)
			return nil, asked, unknown
		}
	}
}

// settleSome asks once more for those of a batch whose outcome is unknown, while the others of the batch wait for a moment only, and gives up what
// stays unknown.
func (c *core) settleSome(ctx context.Context, claims []store.Claim, outs []store.Outcome, before time.Time) {
	var open []store.Claim
	var at []int
	for i, out := range outs {
		if errors.Is(out.Err, ErrUnknown) {
			open, at = append(open, claims[i]), append(at, i)
		}
	}
	if len(open) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.RequestTimeout/8)
	defer cancel()
	answers, err := c.acquires.ask(ctx, open)
	var unknown []store.Claim
	for i, claim := range open {
		if err == nil && (answers[i].Err == nil || refused(answers[i].Err)) {
			outs[at[i]] = answers[i]
		} else {
			unknown = append(unknown, claim)
		}
	}
	if len(unknown) > 0 {
		c.abandon(unknown, before)
	}
}

// refused reports whether err says who has the name, or that the work is done.
func refused(err error) bool { return errors.Is(err, ErrHeld) || errors.Is(err, ErrDone) }

// giveBackAll releases the grants of a batch that came after its asker had gone, in one request: a store that is late has enough to do.
func (c *core) giveBackAll(claims []store.Claim, outs []store.Outcome) {
	var releases []store.Release
	for i, out := range outs {
		if out.Err == nil {
			releases = append(releases, c.returning(claims[i], out.Grant))
		}
	}
	if len(releases) > 0 {
		_ = c.release(releases)
	}
}

// giveBack releases a grant that came after its asker had gone.
func (c *core) giveBack(claim store.Claim, out store.Outcome) {
	if out.Err == nil {
		_ = c.returned(claim, out.Grant)
	}
}

// returned releases a grant as it was found; that of a job with a word about what it was claimed for.
func (c *core) returned(claim store.Claim, g store.Grant) error {
	return c.release([]store.Release{c.returning(claim, g)})[0]
}

func (c *core) returning(claim store.Claim, g store.Grant) store.Release {
	rel := store.Release{Name: claim.Name, Holder: claim.Holder, Token: g.Token, Retain: retainFor(g.Mark, g.State)}
	if strings.HasPrefix(claim.Name, c.names.prefix+kindJob) {
		rel.State = claimedInVain(claim, g)
	}
	return rel
}

// peek reads records by claims that are always refused and so never write.
func (c *core) peek(ctx context.Context, names []string) ([]store.Record, error) {
	records, errs, err := c.peekEach(ctx, names)
	if err == nil {
		err = errors.Join(errs...)
	}
	if err != nil {
		return nil, err
	}
	return records, nil
}

// peekEach is peek, but answers of each record why it cannot be read. The error is that of all of them.
func (c *core) peekEach(ctx context.Context, names []string) (records []store.Record, errs []error, err error) {
	claims := make([]store.Claim, len(names))
	for i, name := range names {
		claims[i] = peeking(name)
	}
	readable := len(names) == 0
	for len(claims) > 0 {
		n := min(len(claims), batchLimit)
		outs, err := c.acquires.ask(ctx, claims[:n])
		if err != nil {
			return nil, nil, err
		}
		for i, out := range outs {
			r, err := peeked(out)
			if err != nil {
				err = fmt.Errorf("reading %q: %w", claims[i].Name, err)
			}
			readable = readable || err == nil
			records, errs = append(records, r), append(errs, err)
		}
		claims = claims[n:]
	}
	if !readable {
		return nil, nil, errs[0]
	}
	return records, errs, nil
}

func peeking(name string) store.Claim {
	return store.Claim{Name: name, Holder: "-", TTL: store.MinTTL, Mark: -1}
}

func peeked(out store.Outcome) (store.Record, error) {
	var done *store.DoneError
	if errors.As(out.Err, &done) {
		return done.Record, nil
	}
	return store.Record{}, out.Err
}

// wait attempts until it gets a lease or ctx ends, or Wait has passed if bounded is set or Wait is positive. Of all that wait
// in this client for the same thing, one at a time asks the store; the others stand behind it in the order they came.
func (c *Client) wait(ctx, parent context.Context, t target) (*Lease, error) {
	if c.opts.Wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.opts.Wait)
		defer cancel()
	}
	turn := c.queues.join(t.queue())
	defer turn.leave()
	if !turn.first(ctx, c.ctx) || !c.outlast(ctx, t, turn) {
		return nil, c.waited(ctx, nil)
	}
	var wake <-chan struct{}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	for poll := newBackoff(time.Second); ; {
		if q, ok := c.lined(t); ok && turn.busy() {
			l, err := c.stand(ctx, parent, q, t, turn)
			if !errors.Is(err, errors.ErrUnsupported) {
				turn.got(l)
				return l, err
			}
			c.noLines.Store(true)
		}
		l, err := c.try(ctx, parent, t)
		var held *HeldError
		if !errors.As(err, &held) {
			if err != nil && ctx.Err() != nil {
				err = c.waited(ctx, err)
			}
			turn.got(l)
			return l, err
		}
		if _, ok := c.lined(t); ok {
			turn.setBusy(true)
			continue
		}
		pause := held.Record.Left + rand.N(20*time.Millisecond)
		if wake == nil {
			var again bool
			if wake, again = c.watch(watching, t); again {
				continue // a release between the refusal and the watch would not have been noticed
			}
		}
		if wake == nil { // nobody tells when it is released
			pause = min(pause, poll.pause())
		}
		if !c.pause(ctx, pause, &wake, turn) {
			return nil, c.waited(ctx, held)
		}
	}
}

// outlast waits while the waiter before, in this client, holds what it got: there is nothing to ask the store for until then. It says
// false when ctx or the client ended instead. Of a semaphore another permit may be free.
func (c *Client) outlast(ctx context.Context, t target, turn *turn) bool {
	if turn.behind == nil || len(t.names) > 1 {
		return true
	}
	var none <-chan struct{}
	for left := turn.behind.Left(); left > 0; left = turn.behind.Left() { // which grows when it is renewed, and is 0 once it is lost
		if !c.pause(ctx, left, &none, turn) {
			return false
		}
	}
	return true
}

// watch subscribes to releases of the target, if the store can do it.
func (c *Client) watch(ctx context.Context, t target) (<-chan struct{}, bool) {
	w, ok := c.store.(store.Waiter)
	if !ok {
		return nil, false
	}
	wake, err := w.Watch(ctx, t.all())
	return wake, err == nil
}

// pause waits for d, a release, or the end of ctx or the client, of which it says false.
func (c *Client) pause(ctx context.Context, d time.Duration, wake *<-chan struct{}, turn *turn) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case _, open := <-*wake:
		if !open { // the subscription is lost, with the connection perhaps: do not ask in a tight loop
			*wake = nil
			sleep(ctx, min(d, 100*time.Millisecond))
		}
	case <-turn.wake:
	case <-ctx.Done():
	case <-c.ctx.Done():
	}
	return ctx.Err() == nil && c.ctx.Err() == nil
}

// waited is the error of a wait that ended without a lease: whoever held the name is named if it is known.
func (c *Client) waited(ctx context.Context, last error) error {
	if c.ctx.Err() != nil {
		return ErrClosed
	}
	err := context.Cause(ctx)
	if last == nil {
		last = ErrHeld
	}
	return fmt.Errorf("%w; gave up waiting: %w", last, err)
}
