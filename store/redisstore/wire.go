package redisstore

import (
	"context"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// wires are the connections of a client that the store has made itself. They let a request be given up that go-redis waits for, which
// looks at the deadline of a context and not at its end. So a request needs no goroutine beside that of its caller, which would cost as
// much as a third of a round trip.
//
// Which connection a request is on is told by its deadline, which go-redis sets on the connection: each request has one of its own, to
// the nanosecond.
type wires struct {
	read time.Duration // go-redis waits no longer for an answer, and sets a deadline of its own where a request has a later one
	next atomic.Int64

	mu      sync.Mutex
	open    map[*wire]struct{}
	givenUp map[int64]struct{} // requests that are to end and have not returned, by their deadlines in unix ns
	ending  atomic.Int64       // how many they are
}

func newWires(read time.Duration) *wires {
	return &wires{read: read, open: map[*wire]struct{}{}, givenUp: map[int64]struct{}{}}
}

// A wire is one connection.
type wire struct {
	net.Conn
	of *wires

	mu sync.Mutex
	at int64 // the deadline of the request that it is at, in unix ns
}

// wrap makes a wire of a connection. One that the system knows can still be looked at by go-redis for whether it is alive.
func (w *wires) wrap(conn net.Conn) net.Conn {
	c := &wire{Conn: conn, of: w}
	w.mu.Lock()
	w.open[c] = struct{}{}
	w.mu.Unlock()
	if system, ok := conn.(syscall.Conn); ok {
		return struct {
			*wire
			syscall.Conn
		}{c, system}
	}
	return c
}

func (c *wire) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

func (c *wire) SetDeadline(t time.Time) error      { return c.set(t, c.Conn.SetDeadline) }
func (c *wire) SetReadDeadline(t time.Time) error  { return c.set(t, c.Conn.SetReadDeadline) }
func (c *wire) SetWriteDeadline(t time.Time) error { return c.set(t, c.Conn.SetWriteDeadline) }

func (c *wire) set(t time.Time, deadline func(time.Time) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = t.UnixNano()
	if c.of.over(c.at) {
		t = past
	}
	return deadline(t)
}

// past is a deadline that has passed.
var past = time.Unix(1, 0)

// interrupt ends the reading and writing for a request.
func (c *wire) interrupt(request int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at == request {
		_ = c.Conn.SetDeadline(past)
	}
}

func (w *wires) over(request int64) bool {
	if w.ending.Load() == 0 {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_, given := w.givenUp[request]
	return given
}

// A limited is a context with a deadline that is its own.
type limited struct {
	context.Context
	deadline time.Time
}

func (l limited) Deadline() (time.Time, bool) { return l.deadline, true }

// request begins a request. When ctx ends what waits on a wire for it ends; ended says afterwards whether that was so.
//
// The deadline of ctx is none of a wire's: it could end the reading before ctx says that it has ended.
func (w *wires) request(ctx context.Context) (request context.Context, ended func() bool) {
	// go-redis reads a clock that may be a little late. Each is a little later than the one before: for one that is sooner than those that
	// there are the runtime would wake a thread.
	deadline := time.Now().Add(w.read - w.read/8 - time.Millisecond + time.Duration(w.next.Add(1)%int64(time.Millisecond)))
	id, returned := deadline.UnixNano(), false
	stop := context.AfterFunc(ctx, func() {
		for _, c := range w.giveUp(id, &returned) {
			c.interrupt(id)
		}
	})
	return limited{ctx, deadline}, func() bool {
		if stop() {
			return false
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		returned = true
		if _, given := w.givenUp[id]; given {
			delete(w.givenUp, id)
			w.ending.Add(-1)
		}
		return true
	}
}

// giveUp notes that a request is to end, unless it has returned, and answers the wires.
func (w *wires) giveUp(id int64, returned *bool) []*wire {
	w.mu.Lock()
	defer w.mu.Unlock()
	if *returned {
		return nil
	}
	w.givenUp[id] = struct{}{}
	w.ending.Add(1)
	return slices.Collect(maps.Keys(w.open))
}
