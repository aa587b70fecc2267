package consulstore_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/consulstore"
	"github.com/soloist-dev/soloist/test/servers"
)

// A network carries connections to an address until they go dead: nothing arrives on them any more, and neither side is told.
type network struct {
	net.Listener
	to string

	mu    sync.Mutex
	conns []*carried
}

// A carried is a connection of a network.
type carried struct {
	in, out net.Conn
	dead    atomic.Bool
}

func newNetwork(t testing.TB, to string) *network {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &network{Listener: l, to: to}
	var work sync.WaitGroup
	work.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				_ = in.Close()
				continue
			}
			c := &carried{in: in, out: out}
			n.mu.Lock()
			n.conns = append(n.conns, c)
			n.mu.Unlock()
			work.Go(func() { c.carry(in, out) })
			work.Go(func() { c.carry(out, in) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		n.mu.Lock()
		for _, c := range n.conns {
			_, _ = c.in.Close(), c.out.Close()
		}
		n.mu.Unlock()
		work.Wait()
	})
	return n
}

// carry copies what arrives, and drops it when the connection is dead.
func (c *carried) carry(from, to net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if c.dead.Load() {
			if err != nil {
				return
			}
			continue
		}
		if _, failed := to.Write(buffer[:n]); err != nil || failed != nil {
			_, _ = from.Close(), to.Close()
			return
		}
	}
}

// die makes all connections dead that there are now, and returns how many.
func (n *network) die() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.conns {
		c.dead.Store(true)
	}
	return len(n.conns)
}

// TestDeadConnections: after connections have gone dead without a word one request is lost, and the next one makes a new connection, also where the server has HTTP/2 and a
// watch waits.
func TestDeadConnections(t *testing.T) {
	for _, secure := range []bool{false, true} {
		f := newFake(t)
		cfg := consulstore.Config{}
		if secure {
			server := httptest.NewUnstartedServer(f)
			server.EnableHTTP2 = true
			server.StartTLS()
			t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
			f = &fake{Server: server}
			cfg.TLS = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // the certificate is not what is tested
		}
		n := newNetwork(t, f.Listener.Addr().String())
		cfg.Addresses = []string{n.Addr().String()}
		s := open(t, cfg)
		if _, err := s.Watch(t.Context(), []string{"watched"}); err != nil {
			t.Fatal(err)
		}
		claims := make([]store.Claim, 1000) // several connections are used at once
		for i := range claims {
			claims[i] = store.Claim{Name: strings.Repeat("n", i%200+1) + string(rune('a'+i/200)), Holder: "x", TTL: time.Hour}
		}
		if _, err := s.Acquire(background, claims); err != nil {
			t.Fatal(err)
		}
		servers.Wait(t, "a request on a dead connection", func() bool {
			t.Logf("%d connections went dead", n.die()) // another one may just have been on its way to the network
			soon, cancel := context.WithTimeout(background, 300*time.Millisecond)
			defer cancel()
			err := s.Ping(soon)
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("a request on a dead connection: %v", err)
			}
			return err != nil
		})
		late, cancel := context.WithTimeout(background, servers.Patience)
		defer cancel()
		if err := s.Ping(late); err != nil {
			t.Errorf("with TLS %t, the next request: %v", secure, err)
		}
	}
}

// TestGivenUp: a caller that gives up leaves the address alone, and one whose time has passed does not. Else each wait that ends would move the store to another address,
// which may be down.
func TestGivenUp(t *testing.T) {
	for rule, test := range map[string]struct {
		context func() (context.Context, context.CancelFunc)
		moves   bool
	}{
		"given up": {func() (context.Context, context.CancelFunc) { return context.WithCancel(background) }, false},
		"time is up": {func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(background, 300*time.Millisecond)
		}, true},
	} {
		f, other := newFake(t), newFake(t)
		s := open(t, consulstore.Config{Addresses: []string{f.addr(), other.addr()}})
		ctx, cancel := test.context()
		defer cancel()
		f.meets(func(_ http.ResponseWriter, r *http.Request, _ func()) bool {
			_, _ = io.Copy(io.Discard, r.Body) // else the end of the connection is not noticed
			if !test.moves {
				cancel()
			}
			<-r.Context().Done()
			return true
		})
		if err := s.Ping(ctx); err == nil {
			t.Errorf("%s: there was a reply", rule)
		}
		var moved atomic.Bool
		other.meets(func(http.ResponseWriter, *http.Request, func()) bool { moved.Store(true); return false })
		f.meets(nil)
		if err := s.Ping(background); err != nil || moved.Load() != test.moves {
			t.Errorf("%s: %v, the next request went to the next address: %t", rule, err, moved.Load())
		}
	}
}

// TestSilentServer: a server that accepts a connection and never replies is left after the time for connecting, with TLS, too. Nothing was sent to it.
func TestSilentServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := open(t, consulstore.Config{
		Addresses: []string{l.Addr().String()}, DialTimeout: 50 * time.Millisecond, TLS: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // there is no certificate
	})
	late, cancel := context.WithTimeout(background, servers.Patience)
	defer cancel()
	if _, err := acquire(late, s, "a", "x", time.Hour); err == nil || late.Err() != nil || errors.Is(err, store.ErrUnknown) || !says(err, "nothing was sent") {
		t.Errorf("%v, want that nothing was sent", err)
	}
}
