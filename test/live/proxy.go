package live

import (
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A proxy stands between the clients and a server, and spoils connections.
type proxy struct {
	listener net.Listener
	target   atomic.Pointer[string]

	mu    sync.Mutex
	links map[*link]bool

	dropped atomic.Int64 // bytes that were swallowed
	resets  atomic.Int64 // connections that were cut
}

// A link is one connection of a client.
type link struct {
	client, server net.Conn
	noRequests     atomic.Bool // what the client says is swallowed
	noReplies      atomic.Bool // what the server says is
	slow           atomic.Int64
}

func newProxy(target string) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: l, links: map[*link]bool{}}
	p.target.Store(&target)
	go p.accept()
	return p, nil
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

// retarget sends new connections elsewhere and cuts the old ones.
func (p *proxy) retarget(target string) {
	p.target.Store(&target)
	p.each(1, p.cut)
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.DialTimeout("tcp", *p.target.Load(), time.Second)
		if err != nil {
			_ = client.Close()
			continue
		}
		l := &link{client: client, server: server}
		p.mu.Lock()
		p.links[l] = true
		p.mu.Unlock()
		go p.copy(l, server, client, &l.noRequests)
		go p.copy(l, client, server, &l.noReplies)
	}
}

func (p *proxy) copy(l *link, to io.Writer, from io.Reader, swallow *atomic.Bool) {
	defer p.end(l)
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if d := l.slow.Load(); d > 0 {
			time.Sleep(time.Duration(d))
		}
		if swallow.Load() {
			p.dropped.Add(int64(n))
		} else if _, err := to.Write(buf[:n]); err != nil {
			return
		}
		if err != nil {
			return
		}
	}
}

func (p *proxy) end(l *link) {
	_, _ = l.client.Close(), l.server.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

// each does something to a part of the connections, and says to how many.
func (p *proxy) each(part float64, do func(*link)) int {
	p.mu.Lock()
	var some []*link
	for l := range p.links {
		if rand.Float64() < part {
			some = append(some, l)
		}
	}
	p.mu.Unlock()
	for _, l := range some {
		do(l)
	}
	return len(some)
}

// cut resets a connection: whatever is under way on it is lost.
func (p *proxy) cut(l *link) {
	if tcp, ok := l.client.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	p.resets.Add(1)
	p.end(l)
}

// swallow keeps a part of the connections one-way, or altogether silent, for a while. What was swallowed would leave a stream in pieces,
// so the connections are cut at the end.
func (p *proxy) swallow(part float64, requests, replies bool, d time.Duration) {
	var hit []*link
	p.each(part, func(l *link) {
		l.noRequests.Store(requests)
		l.noReplies.Store(replies)
		hit = append(hit, l)
	})
	time.Sleep(d)
	for _, l := range hit {
		p.cut(l)
	}
}

// delay makes a part of the connections slow for a while.
func (p *proxy) delay(part float64, by, d time.Duration) {
	var hit []*link
	p.each(part, func(l *link) {
		l.slow.Store(int64(by))
		hit = append(hit, l)
	})
	time.Sleep(d)
	for _, l := range hit {
		l.slow.Store(0)
	}
}

func (p *proxy) close() {
	_ = p.listener.Close()
	p.each(1, p.cut)
}
