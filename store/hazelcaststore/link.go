package hazelcaststore

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hazelcast/hazelcast-go-client"

	"github.com/soloist-dev/soloist/store"
)

// A dialer connects to members, for the CP Subsystem or for a map.
type dialer struct {
	plain          bool // whether any member will do, with the CP Subsystem or without
	addrs          []string
	cluster        string
	user, password string
	client         string // its name
	labels         []string
	tls            *tls.Config   // nil: without
	dialing        time.Duration // how long it takes at most until the network connects to a member
	within         time.Duration // and until a member has told that it has the CP Subsystem
	heartbeat      time.Duration // how long a member may be silent
}

// newDialer reads what it needs of a valid configuration.
func newDialer(c hazelcast.Config) *dialer {
	network := c.Cluster.Network
	d := &dialer{
		addrs: slices.Clone(network.Addresses), cluster: c.Cluster.Name, client: c.ClientName, labels: c.Labels,
		user: c.Cluster.Security.Credentials.Username, password: c.Cluster.Security.Credentials.Password,
		dialing: time.Duration(network.ConnectionTimeout), within: time.Duration(c.Cluster.ConnectionStrategy.Timeout),
		heartbeat: time.Duration(c.Cluster.HeartbeatTimeout),
	}
	if network.SSL.Enabled {
		d.tls = network.SSL.TLSConfig()
	}
	for i, addr := range d.addrs {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			d.addrs[i] = net.JoinHostPort(strings.Trim(addr, "[]"), "5701")
		}
	}
	return d
}

// A link is a connection to one member, which has the CP Subsystem, unless the link is plain: that was asked through
// this connection. A member
// has it for as long as it lives, or not at all. So every request through a link is decided by the CP group, whatever
// other members of the cluster have.
type link struct {
	raw     net.Conn // what is closed
	conn    net.Conn // raw, or TLS on it
	version string
	group   groupID
	silence time.Duration // after which the member is given up

	outbox chan []byte // what is to be written

	mu      sync.Mutex
	waiting map[uint64]chan message
	last    uint64
	heard   time.Time // when the member has sent something
	retired bool      // it takes no more requests, and ends after the last reply
	broken  error     // why it has ended

	done chan struct{} // closed when it has ended
}

var (
	errUnsent = errors.New("the connection takes no more requests") // of a request that was not sent
	errEnded  = errors.New("the connection has ended")
)

func newLink(conn net.Conn, silence time.Duration) *link {
	return &link{
		raw: conn, conn: conn, silence: silence, heard: time.Now(),
		outbox: make(chan []byte), waiting: map[uint64]chan message{}, done: make(chan struct{}),
	}
}

// dial connects to a member, and looks whether it has the CP Subsystem, if it must.
func (d *dialer) dial(ctx context.Context, addr string) (*link, error) {
	network := net.Dialer{Timeout: d.dialing}
	conn, err := network.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	l := newLink(conn, d.heartbeat)
	stop := context.AfterFunc(ctx, func() { l.end(ctx.Err()) })
	defer stop()
	if d.tls != nil {
		config := d.tls.Clone()
		if config.ServerName == "" {
			config.ServerName, _, _ = net.SplitHostPort(addr)
		}
		secure := tls.Client(conn, config)
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
			return nil, err
		}
		l.conn = secure
	}
	if _, err := l.conn.Write([]byte("CP2")); err != nil { // the name of the protocol
		_ = conn.Close()
		return nil, err
	}
	go l.read()
	go l.write()
	if err := d.open(ctx, l); err != nil {
		l.end(err)
		return nil, err
	}
	if !stop() {
		return nil, ctx.Err()
	}
	go l.ping()
	return l, nil
}

// open introduces the client, and looks whether the member has the CP Subsystem, if it must.
func (d *dialer) open(ctx context.Context, l *link) error {
	if err := d.authenticate(ctx, l); err != nil || d.plain {
		return err
	}
	r, err := l.ask(ctx, request(typeCreateGroup).text("records@"+groupName))
	if err != nil {
		return withoutCP(err)
	}
	l.group = r.group()
	if r.err != nil {
		return r.err
	}
	// A member without the CP Subsystem has made up a group, and its structures are kept without Raft: each side of a
	// split cluster would go on. It refuses this request.
	if r, err = l.ask(ctx, request(typeGroups)); err != nil {
		return withoutCP(err)
	}
	metadata, ours := false, false
	for r.begin(); !r.ends(); {
		g := r.group()
		metadata, ours = metadata || g.name == "METADATA", ours || g == l.group
	}
	switch {
	case r.err != nil:
		return r.err
	case !metadata || !ours || l.group.name != groupName:
		return fmt.Errorf("the CP Subsystem does not have the group %q: %w", groupName, store.ErrUnusable)
	}
	return nil
}

// authenticate tells the member who connects. The type and version are those of the client library for Go.
func (d *dialer) authenticate(ctx context.Context, l *link) error {
	id := make([]byte, 18) // that there is one, the identity, and the version of the serialization
	_, _ = rand.Read(id[1:17])
	id[17] = 1
	m := request(typeAuthenticate, id...).text(d.cluster)
	for _, text := range []string{d.user, d.password} {
		if d.user == "" {
			m = m.data(nil)
		} else {
			m = m.text(text)
		}
	}
	m = append(m.text("GOO").text("1.4.2").text(d.client), frame{flagBegin, nil})
	for _, label := range d.labels {
		m = m.text(label)
	}
	replied, err := l.do(ctx, append(m, frame{flagEnd, nil}))
	if err != nil {
		return err
	}
	if len(replied[0].content) <= atReply {
		return errProtocol
	}
	switch status := replied[0].content[atReply]; status {
	case 0:
	case 1:
		return fmt.Errorf("the member refuses the user, the password or the name of the cluster: %w", fs.ErrPermission)
	default:
		return fmt.Errorf("the member refuses the client, with the status %d: %w", status, fs.ErrPermission)
	}
	r := replied.reply()
	if f := r.next(); f.flags&flagBegin != 0 { // its address
		r.skip()
	}
	l.version = string(r.next().content)
	return r.err
}

// withoutCP adds to the error of a member what to change if it has no CP Subsystem.
func withoutCP(err error) error {
	refused, ok := errors.AsType[*memberError](err)
	if !ok {
		return err
	}
	switch text := strings.ToLower(refused.text); {
	case strings.Contains(text, "licens"):
		return fmt.Errorf("%w: members of Hazelcast 5.5 and later have the CP Subsystem only with a license: "+
			"use 5.4, install a license, or leave out cp: %w", err, store.ErrUnusable)
	case strings.Contains(text, "not enabled"):
		return fmt.Errorf("%w: set cp-member-count to 3 or more on all members, or leave out cp: %w",
			err, store.ErrUnusable)
	case strings.Contains(refused.class, "UnsupportedOperation"), strings.Contains(text, "unrecognized client message"):
		return fmt.Errorf("%w: cp needs members of Hazelcast 5.4: %w", err, store.ErrUnusable)
	}
	return err
}

// ask makes a request and returns the reply after its first frame.
func (l *link) ask(ctx context.Context, m message) (*reply, error) {
	replied, err := l.do(ctx, m)
	if err != nil {
		return nil, err
	}
	return replied.reply(), nil
}

// do makes a request. Its error is errUnsent if it was not sent, and a *memberError if the member has replied with one.
func (l *link) do(ctx context.Context, m message) (message, error) {
	if err := ctx.Err(); err != nil {
		return nil, unsent(err)
	}
	replied := make(chan message, 1)
	l.mu.Lock()
	if l.retired || l.broken != nil {
		defer l.mu.Unlock()
		return nil, unsent(l.broken)
	}
	l.last++
	correlation := l.last
	l.waiting[correlation] = replied
	l.mu.Unlock()
	defer l.forget(correlation)
	select {
	case l.outbox <- m.bytes(correlation):
	case <-ctx.Done():
		return nil, unsent(ctx.Err())
	case <-l.done:
		return nil, unsent(l.why())
	}
	select {
	case r := <-replied:
		return checked(r, m)
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-l.done:
		select {
		case r := <-replied:
			return checked(r, m)
		default:
		}
		return nil, l.why()
	}
}

// checked returns a reply to m, or the error that it is.
func checked(r, m message) (message, error) {
	switch r.kind() {
	case typeError:
		return nil, r.failure()
	case m.kind() + 1:
		return r, nil
	}
	return nil, errProtocol
}

// unsent is errUnsent with the reason, if there is one: what the member has sent may be told before the request is.
func unsent(why error) error {
	if why == nil {
		return errUnsent
	}
	return fmt.Errorf("%w: %w", errUnsent, why)
}

// write sends messages one after the other. Its callers do not wait for the network: a context may end before the
// connection has taken the message.
func (l *link) write() {
	for {
		select {
		case <-l.done:
			return
		case bytes := <-l.outbox:
			_ = l.conn.SetWriteDeadline(time.Now().Add(l.silence))
			if _, err := l.conn.Write(bytes); err != nil {
				l.end(fmt.Errorf("the connection to the member has broken: %w", err))
				return
			}
		}
	}
}

// forget is called when nobody waits for a reply any more.
func (l *link) forget(correlation uint64) {
	l.mu.Lock()
	delete(l.waiting, correlation)
	over := l.retired && len(l.waiting) == 0
	l.mu.Unlock()
	if over {
		l.end(errEnded)
	}
}

// retire lets those who wait have their replies, and takes no more requests.
func (l *link) retire() {
	l.mu.Lock()
	l.retired = true
	over := len(l.waiting) == 0
	l.mu.Unlock()
	if over {
		l.end(errEnded)
	}
}

// end closes the connection. The first error counts.
func (l *link) end(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken == nil {
		l.broken = why
		close(l.done)
		_ = l.raw.Close()
	}
}

func (l *link) why() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.broken
}

// usable reports whether the link takes requests.
func (l *link) usable() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.retired && l.broken == nil
}

// read passes replies to those who wait for them.
func (l *link) read() {
	in := bufio.NewReader(l)
	for {
		m, err := readMessage(in)
		if err != nil {
			l.end(fmt.Errorf("the connection to the member has broken: %w", err))
			return
		}
		l.mu.Lock()
		if replied := l.waiting[m.correlation()]; replied != nil && !m.event() {
			delete(l.waiting, m.correlation())
			replied <- m
		}
		l.mu.Unlock()
	}
}

// Read reads from the connection. A member is there that sends anything, also if a long reply takes long.
func (l *link) Read(b []byte) (int, error) {
	n, err := l.conn.Read(b)
	if n > 0 {
		l.mu.Lock()
		l.heard = time.Now()
		l.mu.Unlock()
	}
	return n, err
}

// ping keeps the member from closing the connection, and closes it when the member is silent.
func (l *link) ping() {
	tick := time.NewTicker(max(time.Millisecond, l.silence/5))
	defer tick.Stop()
	for {
		select {
		case <-l.done:
			return
		case <-tick.C:
		}
		l.mu.Lock()
		silent := time.Since(l.heard)
		l.last++
		correlation := l.last
		l.mu.Unlock()
		if silent > l.silence {
			l.end(fmt.Errorf("the member has been silent for %v", l.silence))
			return
		}
		select {
		case l.outbox <- request(typePing).bytes(correlation):
		case <-l.done:
			return
		}
	}
}
