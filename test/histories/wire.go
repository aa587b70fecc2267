package histories

import (
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// A wire leads connections to a server, and can hold up or cut single ones.
type wire struct {
	listener net.Listener
	target   string

	mu    sync.Mutex
	links map[*link]bool
}

// A link is one connection of a client with its connection to the server.
type link struct {
	client, server net.Conn
	hold           sync.RWMutex // the one that copies holds it for reading
}

func newWire(target string) (*wire, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &wire{listener: listener, target: target, links: map[*link]bool{}}
	go w.accept()
	return w, nil
}

func (w *wire) addr() string { return w.listener.Addr().String() }

func (w *wire) accept() {
	for {
		client, err := w.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", w.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		l := &link{client: client, server: server}
		w.mu.Lock()
		w.links[l] = true
		w.mu.Unlock()
		go w.copy(l, server, client)
		go w.copy(l, client, server)
	}
}

func (w *wire) copy(l *link, to, from net.Conn) {
	defer w.end(l)
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		l.hold.RLock()
		_, wrong := to.Write(buffer[:n])
		l.hold.RUnlock()
		if err != nil || wrong != nil {
			return
		}
	}
}

func (w *wire) end(l *link) {
	w.mu.Lock()
	delete(w.links, l)
	w.mu.Unlock()
	_ = l.client.Close()
	_ = l.server.Close()
}

// one returns a link by chance, nil if there is none.
func (w *wire) one() *link {
	w.mu.Lock()
	defer w.mu.Unlock()
	skip := rand.IntN(max(1, len(w.links)))
	for l := range w.links {
		if skip--; skip < 0 {
			return l
		}
	}
	return nil
}

// delay holds up one connection for d, in both directions, and reports whether there was one.
func (w *wire) delay(d time.Duration) bool {
	l := w.one()
	if l == nil {
		return false
	}
	l.hold.Lock()
	defer l.hold.Unlock()
	time.Sleep(d)
	return true
}

// cut ends one connection, and reports whether there was one.
func (w *wire) cut() bool {
	l := w.one()
	if l != nil {
		w.end(l)
	}
	return l != nil
}

func (w *wire) close() {
	_ = w.listener.Close()
	w.mu.Lock()
	links := w.links
	w.links = map[*link]bool{}
	w.mu.Unlock()
	for l := range links {
		_ = l.client.Close()
		_ = l.server.Close()
	}
}
