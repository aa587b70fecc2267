package consulstore

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"
)

// A transport replies to nothing. It tells for how long it was to wait.
type transport struct {
	asked, patience time.Duration
	url             string
}

// RoundTrip implements http.RoundTripper.
func (r *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	until, _ := request.Context().Deadline()
	r.patience = time.Until(until)
	r.url = request.URL.String()
	r.asked, _ = time.ParseDuration(request.URL.Query().Get("wait"))
	return nil, errors.New("no reply")
}

// TestQueryOutlastsConsul: the query of a watch has longer than Consul may wait before it replies that nothing has changed, which is a sixteenth more than it is
// asked for. Otherwise each watch of a quiet name would be lost.
func TestQueryOutlastsConsul(t *testing.T) {
	s, err := New(Config{Prefix: "p"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var r transport
	s.backend.http.Transport = &r
	begun := time.Now()
	_, _, err = s.backend.block(t.Context(), "a", 7)
	took := time.Since(begun)
	if longest := r.asked + r.asked/16; err == nil || r.asked == 0 || r.patience+took <= longest {
		t.Errorf("Consul is asked to wait for %v, and may wait for %v, and the query has %v (%v)", r.asked, longest, r.patience, err)
	}
}

// A quietTransport replies that nobody has a name, and then to nothing more. It reports when the next query has begun, and how it has ended.
type quietTransport struct {
	begun chan struct{}
	ended chan error
}

// RoundTrip implements http.RoundTripper.
func (q quietTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if !request.URL.Query().Has("index") {
		return &http.Response{StatusCode: http.StatusNotFound, Header: http.Header{"X-Consul-Index": {"5"}}, Body: http.NoBody}, nil
	}
	close(q.begun)
	<-request.Context().Done()
	q.ended <- request.Context().Err()
	return nil, request.Context().Err()
}

// TestWatchWhileTheStoreIsClosed: a watch that is about to begin when the store is closed does not begin, and Close
// need not wait for it.
func TestWatchWhileTheStoreIsClosed(t *testing.T) {
	s, err := New(Config{Prefix: "p"})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if all, err := s.watches.join(&wake{ch: make(chan struct{}, 1), names: []string{"a"}}); !errors.Is(err,
		store.ErrClosed) || len(all)+len(s.watches.names) > 0 {
		t.Errorf("%d names are watched, %v", len(s.watches.names), err)
	}
}

// TestQueryEndsWithItsWaiters: when nobody waits for a name any more its query is given up, and does not go on until Consul replies.
func TestQueryEndsWithItsWaiters(t *testing.T) {
	s, err := New(Config{Prefix: "p"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	q := quietTransport{make(chan struct{}), make(chan error, 1)}
	s.backend.http.Transport = q
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := s.Watch(ctx, []string{"a"}); err != nil {
		t.Fatal(err)
	}
	<-q.begun // one that has not been sent is given up without a word
	cancel()
	if err := <-q.ended; !errors.Is(err, context.Canceled) {
		t.Errorf("its query ends with %v", err)
	}
}

// TestDefaults: without a configuration the agent of this machine is asked, without TLS and below the prefix of the documentation.
func TestDefaults(t *testing.T) {
	s, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var r transport
	s.backend.http.Transport = &r
	if _, _, err = s.backend.block(t.Context(), "a", 0); err == nil || r.url != "http://127.0.0.1:8500/v1/kv/soloist/a?consistent=" {
		t.Errorf("%v, %q was asked", err, r.url)
	}
}

// TestCloseClosesConnections: a store that is closed keeps no connection.
func TestCloseClosesConnections(t *testing.T) {
	closed := make(chan struct{}, 1)
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ConnState = func(_ net.Conn, now http.ConnState) {
		if now == http.StateClosed {
			closed <- struct{}{}
		}
	}
	server.Start()
	defer server.Close()
	s, err := New(Config{Addresses: []string{server.Listener.Addr().String()}})
	if err != nil {
		t.Fatal(err)
	}
	s.backend.transport.IdleConnTimeout = 0 // for ever
	if err := s.Ping(t.Context()); err == nil {
		t.Fatal("a reply that is an error is none")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-closed:
	case <-time.After(servers.Patience):
		t.Error("the connection is open still")
	}
}

// TestAddressIsLeftOnce: when several requests have failed at one address the next ones use the next address, and not the one after that.
func TestAddressIsLeftOnce(t *testing.T) {
	s, err := New(Config{Addresses: []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 3 {
		s.backend.leave(0, errors.New("no reply"))
	}
	if at := s.backend.at.Load(); at != 1 {
		t.Errorf("the address %d is next, want 1", at)
	}
}
