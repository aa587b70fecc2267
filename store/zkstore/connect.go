package zkstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/soloist-dev/soloist/store"
)

// conns is where a store has its connection from.
type conns interface {
	get(ctx context.Context) (*zk.Conn, error)
	explain(err error) error // adds why no server could be reached
	close()
}

// given is a connection that its owner closes.
type given struct{ conn *zk.Conn }

func (g given) get(ctx context.Context) (*zk.Conn, error) { return g.conn, ctx.Err() }
func (g given) explain(err error) error                   { return err }
func (g given) close()                                    {}

// A connector makes a connection when one is first wanted, and again when that was not possible or the connection was lost.
//
// Each connection has a client, and so a session, that ends with it. A client that connects again restores its watches from the transaction that it
// has seen last; it reads that number while its receiving goroutine may raise it (github.com/go-zookeeper/zk/pull/35). That is a data race, and
// a change in between is never reported. A client that is closed reports that its watches are lost.
type connector struct {
	target  *target
	failure atomic.Pointer[string] // of the last attempt to reach a server; nil if it succeeded
	seen    *seen
	ctx     context.Context // of what is under way
	cancel  context.CancelFunc

	mu      sync.Mutex
	attempt *attempt // under way, or the one that succeeded
	closed  bool
	work    sync.WaitGroup
}

// An attempt is one of making a connection, and the connection when it has succeeded.
type attempt struct {
	conn   *zk.Conn
	events <-chan zk.Event
	done   chan struct{} // closed when err is set
	err    error
}

func newConnector(t *target) *connector {
	c := &connector{target: t, seen: &seen{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

func (c *connector) get(ctx context.Context) (*zk.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	a, err := c.begin()
	if err != nil {
		return nil, wrap("connecting", err)
	}
	select {
	case <-a.done:
		return a.conn, wrap("connecting", c.explain(a.err))
	case <-ctx.Done():
		return nil, wrap("connecting", c.explain(ctx.Err()))
	}
}

// begin returns the attempt that counts, and starts one if there is none.
func (c *connector) begin() (*attempt, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, store.ErrClosed
	}
	if c.attempt == nil {
		a := &attempt{done: make(chan struct{})}
		h := &hosts{lost: func() { c.drop(a) }}
		var err error
		a.conn, a.events, err = zk.Connect(c.target.hosts, c.target.session, zk.WithHostProvider(h), zk.WithDialer(c.dialer(h)),
			zk.WithLogger(silent{}), zk.WithLogInfo(false))
		if err != nil {
			return nil, err
		}
		c.attempt = a
		c.work.Go(func() { c.authenticate(a) })
	}
	return c.attempt, nil
}

// authenticate tells the server who the user is, before anything else is asked. The client repeats that on later connections.
func (c *connector) authenticate(a *attempt) {
	defer close(a.done)
	if c.target.user == "" {
		return
	}
	if a.err = a.conn.AddAuth("digest", []byte(c.target.user+":"+c.target.password)); a.err != nil {
		c.drop(a)
	}
}

// drop ends an attempt that has failed, or whose connection was lost. The next call makes another one.
func (c *connector) drop(a *attempt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return // close ends it
	}
	if c.attempt == a {
		c.attempt = nil
	}
	c.work.Go(func() { shut(a) })
}

// dialer returns a function that connects to a server until there has been a connection.
func (c *connector) dialer(h *hosts) zk.Dialer {
	return func(network, address string, _ time.Duration) (net.Conn, error) {
		if h.connected() {
			return nil, zk.ErrConnectionClosed
		}
		return c.dial(network, address)
	}
}

// dial connects to a server.
func (c *connector) dial(network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(c.ctx, c.target.dial)
	defer cancel()
	conn, err := c.target.connect(ctx, network, address)
	if err != nil {
		why := err.Error()
		c.failure.Store(&why)
		return nil, err
	}
	silent := address + " has not replied yet"
	c.failure.CompareAndSwap(nil, &silent)
	link := &link{Conn: conn, patience: c.target.session, seen: c.seen, greeted: func(err error) { c.greeted(address, err) }}
	link.stop = context.AfterFunc(c.ctx, func() { _ = conn.Close() })
	return link, nil
}

// greeted notes that a server has sent its first reply, or why it has not.
func (c *connector) greeted(address string, err error) {
	if err == nil {
		c.failure.Store(nil)
		return
	}
	var why string
	switch stranger, ok := errors.AsType[*strangerError](err); {
	case ok:
		why = address + " " + stranger.Error()
	case errors.Is(err, os.ErrDeadlineExceeded):
		why = fmt.Sprintf("%s accepts a connection, and does not reply within %s as ZooKeeper does: name its clientPort, and write tls=true if it is secureClientPort", address, c.target.session)
	case c.ctx.Err() == nil:
		why = address + " ends each connection before it replies as ZooKeeper does (" + err.Error() + "): it has no leader, or " + c.seen.explain() +
			"it is another server: name its clientPort, and write tls=true if it is secureClientPort"
	default:
		return // this process ended it
	}
	c.failure.Store(&why)
}

// longestGreeting is in bytes. The first reply has 37.
const longestGreeting = 1 << 10

// shortestReply is how many bytes each later reply begins with: the number of its request, the transaction and an
// error. The client reads that many of a shorter one, too, and panics.
const shortestReply = 16

// A strangerError is that a server is not one of ZooKeeper: the length of its first reply would be one that the client reserves memory for.
type strangerError struct{ begin string }

func (e *strangerError) Error() string {
	switch {
	case e.begin == "HTTP":
		return "is a server of HTTP, not of ZooKeeper: name the clientPort of ZooKeeper, which is usually 2181"
	case strings.HasPrefix(e.begin, "\x15\x03"):
		return "wants TLS: write tls=true"
	}
	return fmt.Sprintf("is not a server of ZooKeeper, since its reply begins with %q: name the clientPort of ZooKeeper, which is usually 2181", e.begin)
}

// A seen is the last transaction that a server has replied with. Servers refuse a client that has seen a later one than they have: they lag behind, or the ensemble was
// restored from a snapshot, or has lost its data, so that tokens would be granted again.
type seen struct{ last atomic.Int64 }

// raise notes a transaction.
func (s *seen) raise(to int64) {
	for known := s.last.Load(); to > known && !s.last.CompareAndSwap(known, to); {
		known = s.last.Load()
	}
}

// explain says why a server may end a connection because of it.
func (s *seen) explain() string {
	last := s.last.Load()
	if last == 0 {
		return ""
	}
	return fmt.Sprintf("it has not the transaction %#x, which this process has seen: it lags behind, or was restored from a snapshot, or has lost its data, "+
		"and then tokens would be granted again (see \"What is promised\" on the page about ZooKeeper); or ", last)
}

// A link is a connection to a server. The client would wait for the first reply of a server that accepts it, and then says nothing, for almost seven
// session timeouts, and without end if the server stops after the reply's length.
type link struct {
	net.Conn

	patience time.Duration // with the first reply; later ones have as long as the server has agreed to
	begun    bool
	stop     func() bool
	greeted  func(error) // is told once that the first reply is there, or why it is not
	told     bool
	seen     *seen
	sent     int // how many bytes, up to those that seen is written to

	transaction int64 // of the reply that is being read, as far as it was read

	packet int    // which packet is being read, from 0
	at     int    // how much of it, with its length, has been read
	size   int    // its length
	begin  []byte // how the first packet begins: its length
}

// Read implements net.Conn. It takes the transaction from the header of each reply, for the next connection: the client keeps that only for the next one of its own, which it will
// not have, and already looks at it while its receiving goroutine may change it, if the first request of a connection is one for a watch.
func (l *link) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	defer func() { l.tell(err) }()
	for i := range b[:n] {
		switch { // a packet is its length and, after the first one, a number of the request, the transaction, and so on
		case l.at < 4:
			l.size = l.size<<8 | int(b[i])
			if l.packet == 0 {
				l.begin = append(l.begin, b[i])
			}
		case l.packet > 0 && l.at >= 8 && l.at < 16:
			l.transaction = l.transaction<<8 | int64(b[i])
			b[i] = 0
		}
		if l.at++; l.at == 16 && l.packet > 0 {
			l.seen.raise(l.transaction)
		}
		if l.at == 4 && l.packet > 0 && (l.size < shortestReply || l.size > math.MaxInt32) {
			err = fmt.Errorf("zkstore: a reply of %d bytes is none of ZooKeeper", l.size)
			return 0, err
		}
		if l.at >= 4 && l.at-4 == l.size {
			l.packet, l.at, l.size, l.transaction = l.packet+1, 0, 0, 0
		}
	}
	if l.packet == 0 && l.at >= 4 && l.size > longestGreeting {
		err = &strangerError{string(l.begin)}
		return 0, err
	}
	return n, err
}

// Write implements net.Conn. In the first packet, the request for a session, it writes the last transaction that was seen: after the packet's length and the version
// of the protocol, in eight bytes (ConnectRequest of zookeeper.jute).
func (l *link) Write(b []byte) (int, error) {
	const from, to = 8, 16
	if l.sent >= to {
		return l.Conn.Write(b)
	}
	b = bytes.Clone(b)
	last := binary.BigEndian.AppendUint64(nil, uint64(l.seen.last.Load())) //nolint:gosec // the bits are what is written
	for i := max(from, l.sent); i < to && i-l.sent < len(b); i++ {
		b[i-l.sent] = last[i-from]
	}
	n, err := l.Conn.Write(b)
	l.sent += n
	return n, err
}

// tell reports the end of the first reply, once.
func (l *link) tell(err error) {
	if !l.told && (err != nil || l.packet > 0) {
		l.told = true
		if l.packet > 0 {
			err = nil
		}
		l.greeted(err)
	}
}

// SetReadDeadline implements net.Conn. The client sets the first one for the first reply, and another before each later reply. It takes the first one back before it has read
// the whole reply, so a deadline stays until the next one is set.
func (l *link) SetReadDeadline(t time.Time) error {
	if t.IsZero() {
		return nil
	}
	if latest := time.Now().Add(l.patience); !l.begun && t.After(latest) {
		t = latest
	}
	l.begun = true
	return l.Conn.SetReadDeadline(t)
}

// Close implements net.Conn.
func (l *link) Close() error {
	l.stop()
	return l.Conn.Close()
}

func (c *connector) explain(err error) error {
	failure := c.failure.Load()
	if failure == nil || !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, zk.ErrNoServer) {
		return err
	}
	return fmt.Errorf("%w (%s)", err, *failure)
}

// close closes the connection, after an attempt that is under way has been given up.
func (c *connector) close() {
	c.mu.Lock()
	c.closed = true
	a := c.attempt
	c.mu.Unlock()
	if a != nil {
		a.conn.Close()
		c.cancel()
		c.work.Wait()
		shut(a)
	}
	c.cancel()
	c.work.Wait()
}

// shut closes a connection, and waits until nothing of it runs any more.
func shut(a *attempt) {
	a.conn.Close()
	for range a.events { // until it is closed
	}
}

// hosts are the servers that are tried one after the other, until there is a connection. The names are looked up with each attempt, and stay, for TLS.
type hosts struct {
	lost func() // called once, when the connection was lost

	mu   sync.Mutex
	all  []string
	at   int
	used bool // there has been a connection
	over bool // lost was called
}

// Init implements zk.HostProvider.
func (h *hosts) Init(servers []string) error {
	h.all, h.at = servers, -1
	return nil
}

// Len implements zk.HostProvider.
func (h *hosts) Len() int { return len(h.all) }

// Next implements zk.HostProvider. When all were tried the client answers the requests that were not sent, and pauses.
func (h *hosts) Next() (server string, allTried bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.used {
		if !h.over {
			h.over = true
			h.lost()
		}
		return h.all[h.at], true
	}
	tried := h.at >= 0
	h.at = (h.at + 1) % len(h.all)
	return h.all[h.at], tried && h.at == 0
}

// Connected implements zk.HostProvider.
func (h *hosts) Connected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.used = true
}

func (h *hosts) connected() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.used
}

// silent is a zk.Logger that logs nothing.
type silent struct{}

func (silent) Printf(string, ...any) {}
