package server

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/internal/listen"
)

// HoldEvent is a line of the response to a hold.
type HoldEvent struct {
	Event     string  `json:"event" jsonschema:"held, first; alive, while it is held; lost or closing, last"`
	Token     int64   `json:"token" jsonschema:"the fencing token"`
	ExpiresIn float64 `json:"expiresIn" jsonschema:"seconds that it is certainly held, from when the request was sent on; 0 if it is lost"`
}

const jsonLines = "application/jsonl"

// untilClosing returns a context that ends with the request, or when the server is shut down.
func (c *call) untilClosing() (context.Context, func()) {
	ctx, cancel := context.WithCancel(c.Context)
	stop := context.AfterFunc(c.server.closing, cancel)
	return ctx, func() { stop(); cancel() }
}

// closeWithin is how long a client that is told that its lease is not renewed any more has to stop and to close the connection: after that the lease is left to
// its TTL, and does not hold up a drain.
const closeWithin = 5 * time.Second

// hold acquires a lease, and renews it until the client goes, the lease is lost, or the server is shut down.
func (c *call) hold(p primitive) error {
	t, _, opts, err := c.begin(p)
	if err != nil {
		return err
	}
	t.Secret = newSecret() // whatever key it has: what this request holds ends with it, and so is for no other one
	leave, err := c.enter(c.server.waiting, roleOperate, "leases")
	if err != nil {
		return err
	}
	defer leave()
	ctx, stop := c.untilClosing()
	defer stop()
	t, end, err := c.grant(ctx, t, opts, false)
	if err != nil {
		return err
	}
	c.streams(jsonLines)
	if c.keep(ctx, t.client(c.server.client).Detached(), t, opts.TTL, end) {
		c.giveBack(t)
	}
	return nil
}

// keep renews a lease and tells the client so, until it is lost, the client has gone, its token is gone, or the server is shut down. It reports whether the lease
// is to be released: the client does not take it for held any more.
func (c *call) keep(ctx context.Context, leases *soloist.DetachedLeases, t ticket, ttl time.Duration, end time.Time) bool {
	for event := "held"; c.tell(event, t, end.Sub(c.arrived)); event = "alive" {
		timer := time.NewTimer(min(ttl/3, time.Until(end)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return c.hasStopped(t, end)
		}
		if !c.stillKnown() {
			return c.hasStopped(t, end)
		}
		next, err := extendBefore(ctx, leases, t, end)
		switch {
		case err == nil:
			end = next
		case errors.Is(err, soloist.ErrLost) || errors.Is(err, errLate) || !time.Now().Before(end):
			c.tell("lost", t, 0)
			return true
		}
	}
	return !c.cut()
}

// hasStopped writes that the lease is not renewed any more, and reports whether the client closes the connection. It waits for that no longer than half of
// what the lease has left: a client that goes by the end of the response has the rest.
func (c *call) hasStopped(t ticket, end time.Time) bool {
	c.tell("closing", t, end.Sub(c.arrived))
	timer := time.NewTimer(min(closeWithin, time.Until(end)/2))
	defer timer.Stop()
	select {
	case <-c.Context.Done():
		return !c.cut()
	case <-timer.C:
		return false
	}
}

// cut reports whether a request has ended that its client has not ended: this process closed the connection, as at the end of a drain, or the client has
// vanished, or does not read. Writing to it tells. It does not by HTTP/2, so there each request that ends after a drain has begun counts as cut.
func (c *call) cut() bool {
	if c.ProtoMajor >= 2 {
		return c.server.closing.Err() != nil
	}
	_, err := c.w.Write([]byte("\n"))
	err = errors.Join(err, http.NewResponseController(c.w).Flush())
	return errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded) || listen.Vanished(err)
}

// errLate is that the store has not responded until the lease could have ended.
var errLate = errors.New("the store did not respond in time")

// extendBefore extends a lease, and waits for that until the lease could have ended.
func extendBefore(ctx context.Context, leases *soloist.DetachedLeases, t ticket, end time.Time) (time.Time, error) {
	type result struct {
		until time.Time
		err   error
	}
	results := make(chan result, 1)
	go func() {
		until, err := leases.Extend(ctx, t.detached())
		results <- result{until, err}
	}()
	late := time.NewTimer(time.Until(end))
	defer late.Stop()
	select {
	case r := <-results:
		return r.until, r.err
	case <-late.C:
		select {
		case r := <-results: // both came at once
			return r.until, r.err
		default:
			return time.Time{}, errLate
		}
	}
}

// tell writes a line, and reports whether it could be written.
func (c *call) tell(event string, t ticket, certain time.Duration) bool {
	line, _ := json.Marshal(HoldEvent{event, t.Token, certain.Seconds()}) // of a string and numbers; it cannot fail
	return c.send(append(line, '\n'))
}

// send writes a part of a response that goes on, and reports whether it could be written.
func (c *call) send(text []byte) bool {
	out := http.NewResponseController(c.w)
	_ = out.SetWriteDeadline(time.Now().Add(writeWithin))
	if _, err := c.w.Write(text); err != nil {
		return false
	}
	return out.Flush() == nil
}
