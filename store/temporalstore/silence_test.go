package temporalstore_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store/temporalstore"
	"github.com/soloist-dev/soloist/test/servers"
)

// A relay leads connections to a server. On those that are silenced nothing arrives any more, and neither end learns of it.
type relay struct {
	net.Listener
	mu       sync.Mutex
	silenced []chan struct{} // of each connection
}

func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	r := &relay{Listener: l}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				_ = client.Close()
				continue
			}
			silent := make(chan struct{})
			r.mu.Lock()
			r.silenced = append(r.silenced, silent)
			r.mu.Unlock()
			go pour(server, client, silent)
			go pour(client, server, silent)
		}
	}()
	return r
}

// pour copies what is read, until it is to be silent.
func pour(to, from net.Conn, silent chan struct{}) {
	defer to.Close()
	defer from.Close()
	for buffer := make([]byte, 64<<10); ; {
		n, err := from.Read(buffer)
		select {
		case <-silent:
			n = 0
		default:
		}
		if _, wrong := to.Write(buffer[:n]); err != nil || wrong != nil {
			return
		}
	}
}

// silence silences the connections that there are.
func (r *relay) silence() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, silent := range r.silenced {
		close(silent)
	}
	r.silenced = nil
}

// TestSilentConnection: a connection on which nothing arrives any more, as behind a firewall that has forgotten it, is given up, and another one is made.
func TestSilentConnection(t *testing.T) {
	servers.Long(t)
	t.Parallel() // it waits
	r := newRelay(t, shared(t).Addr)
	s, err := temporalstore.OpenURL(background, "temporal://"+r.Addr().String()+"/default")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Ping(background); err != nil {
		t.Fatal(err)
	}
	r.silence()
	servers.Wait(t, "another connection", func() bool {
		ctx, cancel := context.WithTimeout(background, 2*time.Second)
		defer cancel()
		return s.Ping(ctx) == nil
	})
}
