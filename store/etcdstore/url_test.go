package etcdstore_test

import (
	"context"
	"errors"
	"net"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/etcdstore"
	"github.com/soloist-dev/soloist/test/servers"
)

func TestURLs(t *testing.T) {
	for url, text := range map[string]string{
		"etcd://":                                 "HOST or HOST:PORT",
		"etcd:///prefix":                          "HOST or HOST:PORT",
		"etcd://host,/prefix":                     "HOST or HOST:PORT",
		"etcd://host:0":                           "HOST or HOST:PORT",
		"etcd://user@host":                        "write both",
		"etcd://:canary@host":                     "write both",
		"etcd://user:%zz@host":                    "%XX",
		"etcd://user:ca/nary@host/prefix":         "has an @ after the hosts",
		"etcd://host/a%20b":                       "no %",
		"etcd://host/a#b":                         "no %",
		"etcd://host/" + strings.Repeat("a", 256): "at most 255",
		"etcd://host/a?tabel=a":                   "there is none of that name",
		"etcd://host/?tls=yes":                    "true or false",
		"etcd://host/?tls=true&tls=true":          "twice",
		"etcd://host/?dialtimeout=5":              "duration",
		"etcd://host/?cafile=x":                   "tls=true",
		"etcd://host/?tls=true&cafile=/nowhere":   "no such file",
		"etcd:host":                               "etcd://USER",
	} {
		s, err := etcdstore.OpenURL(background, url)
		if s != nil || !errors.Is(err, store.ErrInvalid) || !says(err, text) || says(err, "canary") || says(err, "nary@") {
			t.Errorf("%q: %v, want an invalid input that says %q", url, err, text)
		}
	}
	for _, url := range []string{"etcd://host", "etcd://u:p@a:2379,b,[::1]:2380,[::1]/some/prefix/?dialtimeout=1s", "etcd://10.0.0.1/k?tls=true&insecure=true&servername=x"} {
		s, err := etcdstore.OpenURL(background, url)
		if err != nil {
			t.Errorf("%q: %v", url, err)
			continue
		}
		if err := s.Close(); err != nil { // it has not connected
			t.Error(err)
		}
		if err := s.Ping(background); !errors.Is(err, store.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
	if _, err := etcdstore.New(nil, etcdstore.Config{}); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("a nil client: %v", err)
	}
}

// TestNoServer: a store without a server says so, and nothing is unknown.
func TestNoServer(t *testing.T) {
	addr := net.JoinHostPort("127.0.0.1", "1")
	for _, user := range []string{"", "user:canary@"} {
		s, err := etcdstore.OpenURL(background, "etcd://"+user+addr+"?dialtimeout=100ms")
		if err != nil {
			t.Fatal(err)
		}
		for wait := 500 * time.Millisecond; ; wait *= 2 { // a slow machine may take longer to be refused
			ctx, cancel := context.WithTimeout(background, wait)
			_, err := acquire(ctx, s, "a", time.Hour)
			cancel()
			if err != nil && !says(err, "connection refused") && wait < servers.Patience {
				continue
			}
			if err == nil || errors.Is(err, store.ErrUnknown) || says(err, "canary") || !says(err, "connection refused") {
				t.Errorf("got %v, want that the connection is refused", err)
			}
			break
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestOtherPorts: a port that is not for clients of etcd, or has TLS where the URL has not, or the reverse, is reported with what to do.
func TestOtherPorts(t *testing.T) {
	web := httptest.NewServer(nil)
	t.Cleanup(web.Close) // after the parallel tests
	secured, _ := servers.EndTLS(t, shared(t).Addr, "h2")
	for at, text := range map[string]string{
		web.Listener.Addr().String() + "/":          "--listen-client-urls",
		servers.Redis(t).Addr + "/":                 "--listen-client-urls",
		secured + "/":                               "write tls=true",
		shared(t).Addr + "/?tls=true":               "leave tls=true out",
		web.Listener.Addr().String() + "/?tls=true": "leave tls=true out",
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			s, err := etcdstore.OpenURL(background, "etcd://"+at)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			for wait := time.Second; ; wait *= 2 { // a slow machine may take longer to find out
				ctx, cancel := context.WithTimeout(background, wait)
				_, err = acquire(ctx, s, "a", time.Hour)
				cancel()
				if err == nil || says(err, text) || wait > servers.Patience {
					break
				}
			}
			if err == nil || !says(err, text) {
				t.Errorf("%s: %v, want an error that says %q", at, err, text)
			}
		})
	}
}

// TestTLS: a URL with tls=true speaks TLS, and refuses a server whose certificate it does not trust.
func TestTLS(t *testing.T) {
	server := shared(t)
	address, ca := servers.EndTLS(t, server.Addr, "h2")
	var open func(time.Duration, string) error
	refused := func(options string) (err error) { // a slow machine may take longer to find out
		for wait := time.Second; wait < servers.Patience && !says(err, "certificate"); wait *= 2 {
			err = open(wait, options)
		}
		return err
	}
	open = func(wait time.Duration, options string) error {
		s, err := etcdstore.OpenURL(background, "etcd://"+address+"/?"+options)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		ctx, cancel := context.WithTimeout(background, wait)
		defer cancel()
		return s.Ping(ctx)
	}
	if err := open(servers.Patience, "tls=true&servername=example.com&cafile="+url.QueryEscape(ca)); err != nil {
		t.Errorf("with the right certificate: %v", err)
	}
	if err := open(servers.Patience, "tls=true&insecure=true"); err != nil {
		t.Errorf("with whatever certificate: %v", err)
	}
	if err := refused("tls=true&servername=example.com"); !says(err, "certificate") {
		t.Errorf("with a certificate that nobody has signed: %v", err)
	}
	if err := refused("tls=true&servername=other.example&cafile=" + url.QueryEscape(ca)); !says(err, "certificate") {
		t.Errorf("with a certificate of another host: %v", err)
	}
}
