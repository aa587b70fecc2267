package etcdstore

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"
)

// TestWhyNoServerIsReached: a request that took too long reports why the last one could not be sent, and what to do about that, until one was sent. Other errors are as they were.
func TestWhyNoServerIsReached(t *testing.T) {
	c := newConnector(clientv3.Config{})
	defer func() { _ = c.close() }()
	const handshake = "connection error: authentication handshake failed: "
	port, tls := "--listen-client-urls (usually 2379", "leave tls=true out"
	for _, test := range []struct {
		what      string
		sent      error // what became of the next request
		says, not string
	}{
		{"one that cannot be sent", status.Error(codes.Unavailable, "no way"), ": no way", "tls=true"},
		{"one that is refused", status.Error(codes.PermissionDenied, "denied"), ": no way", "denied"},
		{"one that waits for a connection", status.Error(codes.DeadlineExceeded, waited+"another way"), ": another way", waited},
		{"one that etcd takes too long for", status.Error(codes.DeadlineExceeded, "slow"), ": another way", "slow"},
		{"another port", status.Error(codes.Unavailable, "error reading server preface: EOF"), port, tls},
		{"a port without TLS that closes", status.Error(codes.Unavailable, handshake+"EOF"), tls, port},
		{"a port without TLS that resets", status.Error(codes.Unavailable, handshake+"read: connection reset by peer"), tls, port},
		{"a port without TLS that replies", status.Error(codes.Unavailable, handshake+"tls: first record does not look like a TLS handshake"), tls, port},
		{"a certificate that is not trusted", status.Error(codes.Unavailable, handshake+"x509: unknown authority"), "unknown authority", tls},
		{"one that is sent", nil, "", ":"},
	} {
		err := c.note(t.Context(), etcdserverpb.Maintenance_Status_FullMethodName, nil, nil, nil,
			func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return test.sent })
		if !errors.Is(err, test.sent) {
			t.Errorf("%s: %v", test.what, err)
		}
		for _, late := range []error{context.DeadlineExceeded, status.Error(codes.DeadlineExceeded, "late")} {
			err := c.explain(late)
			if text := strings.TrimPrefix(err.Error(), late.Error()); !errors.Is(err, late) || !strings.Contains(text, test.says) || strings.Contains(text, test.not) {
				t.Errorf("after %s: %q, want that it says %q and not %q", test.what, text, test.says, test.not)
			}
		}
		if err := c.explain(context.Canceled); err != context.Canceled { //nolint:errorlint // it is that itself
			t.Errorf("after %s: %v", test.what, err)
		}
	}
}

// TestClientIsMadeAgain: a client that could not be made is made again for the next request, and one that was made is kept until the end.
func TestClientIsMadeAgain(t *testing.T) {
	c := newConnector(clientv3.Config{Logger: zap.NewNop()})
	if client, err := c.get(t.Context()); err == nil {
		t.Fatalf("%v was made without an address", client)
	}
	c.config.Endpoints = []string{"http://127.0.0.1:1"}
	first, err := c.get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if second, err := c.get(t.Context()); err != nil || second != first {
		t.Errorf("the next request has another client, %v", err)
	}
	for range 2 {
		if err := c.close(); err != nil || first.Ctx().Err() == nil {
			t.Errorf("%v, the client is open: %v", err, first.Ctx().Err() == nil)
		}
	}
	if _, err := c.get(t.Context()); !errors.Is(err, store.ErrClosed) {
		t.Errorf("after that: %v", err)
	}
}

// TestClientThatIsBeingMade: a client with a password waits for etcd. Neither a caller whose time is over nor the end of the store waits for that.
func TestClientThatIsBeingMade(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	c := newConnector(clientv3.Config{Endpoints: []string{"http://" + silent.Addr().String()}, Username: "u", Password: "p", DialTimeout: time.Hour, Logger: zap.NewNop()})
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.get(over); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller whose time is over: %v", err)
	}
	got, closed := make(chan error, 1), make(chan error, 1)
	a, err := c.begin()
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, err := c.get(context.Background()); got <- err }()
	go func() { closed <- c.close() }()
	for what, ended := range map[string]chan error{"a request": got, "the end": closed} {
		select {
		case err := <-ended:
			if (err == nil) != (what == "the end") {
				t.Errorf("%s: %v", what, err)
			}
		case <-time.After(servers.Patience):
			t.Fatalf("%s waits still", what)
		}
	}
	<-a.done
}

// TestClientOfAURL: what a URL has is what the client of etcd gets. Connections are checked, so a server that is gone without a word is left.
func TestClientOfAURL(t *testing.T) {
	for url, want := range map[string]struct {
		endpoints      []string
		user, password string
		dial           time.Duration
		tls            bool
		name, prefix   string
	}{
		"etcd://a": {[]string{"http://a:2379"}, "", "", 5 * time.Second, false, "", "soloist/"},
		"etcd://u%40x:p%2Fw@a:1,b,[::1]/some/pre":                  {[]string{"http://a:1", "http://b:2379", "http://[::1]:2379"}, "u@x", "p/w", 5 * time.Second, false, "", "some/pre/"},
		"etcd://a/p/?tls=true&dialtimeout=2s&servername=x.example": {[]string{"https://a:2379"}, "", "", 2 * time.Second, true, "x.example", "p/"},
	} {
		to, err := parseURL(url)
		if err != nil {
			t.Fatal(err)
		}
		c := to.client()
		if !slices.Equal(c.Endpoints, want.endpoints) || c.Username != want.user || c.Password != want.password || c.DialTimeout != want.dial || to.config.Prefix != want.prefix {
			t.Errorf("%s: %v for %s:%s within %v, below %s", url, c.Endpoints, c.Username, c.Password, c.DialTimeout, to.config.Prefix)
		}
		if (c.TLS != nil) != want.tls || want.tls && (c.TLS.ServerName != want.name || c.TLS.InsecureSkipVerify) || (len(c.DialOptions) > 0) != (want.name != "") {
			t.Errorf("%s: TLS %+v", url, c.TLS)
		}
		if c.DialKeepAliveTime <= 0 || c.DialKeepAliveTime > 10*time.Second || c.DialKeepAliveTimeout <= 0 || c.DialKeepAliveTimeout > 10*time.Second {
			t.Errorf("%s: connections are checked each %v, for %v", url, c.DialKeepAliveTime, c.DialKeepAliveTimeout)
		}
	}
}

// TestPrefixes: a prefix ends with one slash, and has at most 255 bytes with that.
func TestPrefixes(t *testing.T) {
	for prefix, want := range map[string]string{
		"": "soloist/", "a": "a/", "a/": "a/", "a b/é": "a b/é/", strings.Repeat("p", 254): strings.Repeat("p", 254) + "/",
		strings.Repeat("p", 255): "", "a\x00": "", "a\n": "", "a\xff": "",
	} {
		cfg, err := Config{Prefix: prefix}.filled()
		if want == "" && !errors.Is(err, store.ErrInvalid) || want != "" && (err != nil || cfg.Prefix != want) {
			t.Errorf("%q: %q, %v, want %q", prefix, cfg.Prefix, err, want)
		}
	}
}
