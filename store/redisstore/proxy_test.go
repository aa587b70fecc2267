package redisstore_test

import (
	"io"
	"net"
	"sync"
	"testing"
)

// A proxy stands between a client and a server, and loses what it is told to.
type proxy struct {
	listener net.Listener
	server   string

	mu    sync.Mutex
	mute  bool // replies are read and lost
	conns map[net.Conn]bool
}

func newProxy(t testing.TB, server string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, server: server, conns: map[net.Conn]bool{}}
	t.Cleanup(func() {
		l.Close()
		p.cut()
	})
	go p.serve()
	return p
}

func (p *proxy) url() string { return "redis://" + p.listener.Addr().String() }

func (p *proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.server)
		if err != nil {
			client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = true, true
		p.mu.Unlock()
		go func() {
			io.Copy(server, client)
			server.Close()
		}()
		go func() {
			p.replies(client, server)
			client.Close()
		}()
	}
}

func (p *proxy) replies(client, server net.Conn) {
	buf := make([]byte, 64<<10)
	for {
		n, err := server.Read(buf)
		if err != nil {
			return
		}
		p.mu.Lock()
		mute := p.mute
		p.mu.Unlock()
		if !mute {
			if _, err := client.Write(buf[:n]); err != nil {
				return
			}
		}
	}
}

// lose loses the replies from now on, or no longer.
func (p *proxy) lose(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mute = on
}

// cut ends the connections there are.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
		delete(p.conns, c)
	}
}
