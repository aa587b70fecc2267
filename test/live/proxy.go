package live

import (
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A proxy stands between the clients and a server, and spoils what they say to each other. It counts what it has spoiled.
type proxy struct {
	listener net.Listener

	mu      sync.Mutex
	targets []string // new connections go to any of them
	links   map[*link]bool
	weather weather

	swallowed [2]atomic.Int64 // bytes that never arrived, by direction
	delayed   atomic.Int64    // pieces that were held back for a while
	trickled  atomic.Int64    // pieces that arrived byte by byte
	halved    atomic.Int64    // replies of which a part arrived before the connection was cut
	cut       atomic.Int64    // connections that were cut while a request was under way
	lost      atomic.Int64    // connections that the server has closed
}

// A direction is one of the two of a connection.
type direction int

const (
	requests direction = iota
	replies
)

// A mode is what is done to what goes in a direction.
type mode int32

const (
	pass    mode = iota
	swallow      // it never arrives, and the connection stays
	delay        // it is held back for up to longestDelay
	trickle      // it arrives byte by byte
	halve        // a part arrives, and then the connection is cut
)

const (
	longestDelay = 50 * time.Millisecond
	trickleBytes = 40 // of a piece; the rest follows at once
)

// The weather is what new connections meet.
type weather struct {
	part  float64 // of them
	modes [2]mode
}

// A link is one connection of a client.
type link struct {
	client, server net.Conn
	modes          [2]atomic.Int32
	waiting        atomic.Bool // a request is under way
	gone           atomic.Bool
}

func newProxy(target string) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: l, links: map[*link]bool{}, targets: []string{target}}
	go p.accept()
	return p, nil
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

// retarget sends new connections elsewhere, and cuts a part of the old ones.
func (p *proxy) retarget(part float64, targets ...string) {
	p.mu.Lock()
	p.targets = targets
	p.mu.Unlock()
	for _, l := range p.some(part) {
		p.end(l)
	}
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		go p.join(client)
	}
}

// join leads a connection to a server.
func (p *proxy) join(client net.Conn) {
	p.mu.Lock()
	target := p.targets[rand.IntN(len(p.targets))]
	p.mu.Unlock()
	server, err := net.DialTimeout("tcp", target, time.Second)
	if err != nil {
		_ = client.Close()
		return
	}
	l := &link{client: client, server: server}
	p.mu.Lock()
	if rand.Float64() < p.weather.part {
		l.set(p.weather.modes)
	}
	p.links[l] = true
	p.mu.Unlock()
	go p.copy(l, requests, server, client)
	go p.copy(l, replies, client, server)
}

func (l *link) set(modes [2]mode) {
	l.modes[requests].Store(int32(modes[requests]))
	l.modes[replies].Store(int32(modes[replies]))
}

func (p *proxy) copy(l *link, way direction, to, from net.Conn) {
	defer p.end(l)
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			if way == replies && !l.gone.Load() {
				p.lost.Add(1)
			}
			return
		}
		if way == requests {
			l.waiting.Store(true)
		}
		if !p.pass(l, way, to, buf[:n]) {
			return
		}
	}
}

// pass hands on a piece with what is to be done to it, and returns whether the connection goes on.
func (p *proxy) pass(l *link, way direction, to net.Conn, piece []byte) bool {
	switch mode(l.modes[way].Load()) {
	case swallow:
		p.swallowed[way].Add(int64(len(piece)))
		return true
	case halve:
		_, err := to.Write(piece[:len(piece)/2])
		if err == nil && len(piece) > 1 {
			time.Sleep(time.Millisecond) // for a reset overtakes what was not read
			p.halved.Add(1)
		}
		return false
	case delay:
		p.delayed.Add(1)
		time.Sleep(rand.N(longestDelay))
	case trickle:
		p.trickled.Add(1)
		for n := 0; n < trickleBytes && len(piece) > 1; n++ {
			if _, err := to.Write(piece[:1]); err != nil {
				return false
			}
			piece = piece[1:]
			time.Sleep(100 * time.Microsecond)
		}
	}
	_, err := to.Write(piece)
	if way == replies {
		l.waiting.Store(false)
	}
	return err == nil
}

// end resets a connection: whatever is under way on it is lost.
func (p *proxy) end(l *link) {
	if l.gone.Swap(true) {
		return
	}
	for _, conn := range []net.Conn{l.client, l.server} {
		_ = conn.(*net.TCPConn).SetLinger(0)
		_ = conn.Close()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

// some returns a part of the connections.
func (p *proxy) some(part float64) []*link {
	p.mu.Lock()
	defer p.mu.Unlock()
	var some []*link
	for l := range p.links {
		if rand.Float64() < part {
			some = append(some, l)
		}
	}
	return some
}

// waiting returns how many connections have a request under way.
func (p *proxy) waiting() int {
	n := 0
	for _, l := range p.some(1) {
		if l.waiting.Load() {
			n++
		}
	}
	return n
}

// spoil changes what becomes of a part of the connections, those that are there and those to come, until clear.
func (p *proxy) spoil(part float64, forRequests, forReplies mode) {
	w := weather{part, [2]mode{forRequests, forReplies}}
	p.mu.Lock()
	p.weather = w
	p.mu.Unlock()
	for _, l := range p.some(part) {
		l.set(w.modes)
	}
}

// clear lets everything pass again. A connection of which something was swallowed is cut: the rest would make no sense.
func (p *proxy) clear() {
	p.mu.Lock()
	p.weather = weather{}
	p.mu.Unlock()
	for _, l := range p.some(1) {
		if l.modes[requests].Swap(int32(pass)) == int32(swallow) || l.modes[replies].Swap(int32(pass)) == int32(swallow) {
			p.end(l)
		}
	}
}

// cutWaiting cuts the connections that have a request under way, and returns how many there were.
func (p *proxy) cutWaiting() int {
	n := 0
	for _, l := range p.some(1) {
		if l.waiting.Load() {
			n++
			p.end(l)
		}
	}
	p.cut.Add(int64(n))
	return n
}

func (p *proxy) close() {
	_ = p.listener.Close()
	for _, l := range p.some(1) {
		p.end(l)
	}
}
