package pgstore

import (
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// A proxy stands between a store and its server, and can keep back what the server answers.
type proxy struct {
	t      testing.TB
	listen net.Listener
	to     string

	mu    sync.Mutex
	conns []net.Conn
	mute  bool // drop the next answers, and with the first of them the connections
	muted int
	error []byte // takes the place of the next answer
	deaf  int    // of the connections, the first so many are there, and nothing comes on them any more
}

func newProxy(t testing.TB, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{t: t, listen: l, to: to}
	t.Cleanup(func() { l.Close(); p.cut() })
	go p.run()
	return p
}

// url returns base with the proxy's address.
func (p *proxy) url(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		p.t.Fatal(err)
	}
	u.Host = p.listen.Addr().String()
	return u.String()
}

func (p *proxy) run() {
	for {
		c, err := p.listen.Accept()
		if err != nil {
			return
		}
		s, err := net.Dial("tcp", p.to)
		if err != nil {
			c.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, c, s)
		number := len(p.conns)
		p.mu.Unlock()
		go func() { io.Copy(s, c); s.Close() }()
		go p.answers(c, s, number)
	}
}

// answers passes on what the server says, unless the proxy is mute.
func (p *proxy) answers(c, s net.Conn, number int) {
	defer c.Close()
	defer s.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := s.Read(buf[:cap(buf)])
		if err != nil {
			return
		}
		p.mu.Lock()
		mute := p.mute
		if mute {
			p.muted++
		}
		instead, deaf := p.error, number <= p.deaf
		p.error = nil
		p.mu.Unlock()
		if deaf {
			continue
		}
		if mute {
			return // the client sees the connection end where the answer should be
		}
		if instead != nil {
			buf, n = append(buf[:0], instead...), len(instead)
		}
		if _, err := c.Write(buf[:n]); err != nil {
			return
		}
	}
}

// silent reports whether answers are dropped from now on, and how many have been until now.
func (p *proxy) silent(mute bool) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mute = mute
	return p.muted
}

// deafen has nothing come any more on the connections that there are, which stay open, as those to a server that has gone without a word.
func (p *proxy) deafen() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deaf = len(p.conns)
}

// answer has the next answer of the server replaced by an error of this code, after which the session goes on.
func (p *proxy) answer(code string) {
	fields := "SERROR\x00VERROR\x00C" + code + "\x00Minjected\x00\x00"
	message := binary.BigEndian.AppendUint32([]byte{'E'}, uint32(4+len(fields)))
	message = append(append(message, fields...), 'Z', 0, 0, 0, 5, 'I')
	p.mu.Lock()
	defer p.mu.Unlock()
	p.error = message
}

// answered reports whether an error that was put in the place of an answer has been sent.
func (p *proxy) answered() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.error == nil
}

// cut ends all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
}
