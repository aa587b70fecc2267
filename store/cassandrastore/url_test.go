package cassandrastore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/cassandrastore"
	"github.com/soloist-dev/soloist/test/servers"
)

func TestURLs(t *testing.T) {
	pemFile := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(pemFile, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for url, text := range map[string]string{
		"cassandra://":                                                            "names no keyspace",
		"cassandra://host":                                                        "names no keyspace",
		"cassandra:///keyspace":                                                   "HOST or HOST:PORT",
		"cassandra://host,/keyspace":                                              "HOST or HOST:PORT",
		"cassandra://host:0/keyspace":                                             "HOST or HOST:PORT",
		"cassandra://host:x/keyspace":                                             "HOST or HOST:PORT",
		"cassandra://user@host/keyspace":                                          "write both",
		"cassandra://user:%zz@host/keyspace":                                      "%XX",
		"cassandra://user:ca/nary@host/keyspace":                                  "has an @ after the hosts",
		"cassandra://host/key-space":                                              "a letter, then",
		"cassandra://host/keyspace/more":                                          "a letter, then",
		"cassandra://host/k?table=a;b":                                            "key=value",
		"cassandra://host/k?table=a.b":                                            "a letter, then",
		"cassandra://host/k?tabel=a":                                              "there is none of that name",
		"cassandra://host/k?table=a&table=b":                                      "twice",
		"cassandra://host/k?table=":                                               "must not be empty",
		"cassandra://host/k?consistency=one":                                      "serial or local_serial",
		"cassandra://host/k?consistency=local_serial":                             "datacenter=dc1",
		"cassandra://host/k?timeout=5":                                            "duration",
		"cassandra://host/k?timeout=-5s":                                          "duration",
		"cassandra://host/k?tls=yes":                                              "true or false",
		"cassandra://host/k?cafile=x":                                             "tls=true",
		"cassandra://host/k?tls=true&cafile=/nonexistent":                         "no such file",
		"cassandra://host/k?tls=true&cafile=" + pemFile:                           "no certificate",
		"cassandra://host/k?tls=true&certfile=x":                                  "give both",
		"cassandra://host/k?tls=true&certfile=" + pemFile + "&keyfile=" + pemFile: "certfile and keyfile",
		"cassandra:host/k":                                                        "cassandra://USER",
	} {
		s, err := cassandrastore.OpenURL(background, url)
		if s != nil || !errors.Is(err, store.ErrInvalid) || !says(err, text) || says(err, "canary") || says(err, "nary@") {
			t.Errorf("%q: %v, want an invalid input that says %q", url, err, text)
		}
	}
	for _, url := range []string{
		"cassandra://host/k", "cassandra://u:p@a:9042,b,[::1]:9043,[::1]/Key_space1?table=T&datacenter=dc1&consistency=local_serial&timeout=1s&dialtimeout=1s",
		"cassandra://10.0.0.1/k?tls=true&insecure=true&servername=x",
	} {
		s, err := cassandrastore.OpenURL(background, url)
		if err != nil {
			t.Errorf("%q: %v", url, err)
			continue
		}
		if err := s.Close(); err != nil { // it has not connected
			t.Error(err)
		}
		_, migrating := s.Migrate(background)
		_, probing := s.Capabilities(background)
		_, examining := s.Examine(background)
		for what, err := range map[string]error{"Ping": s.Ping(background), "Migrate": migrating, "Capabilities": probing, "Examine": examining} {
			if !errors.Is(err, store.ErrClosed) {
				t.Errorf("%s after Close: %v", what, err)
			}
		}
	}
}

func TestConfigs(t *testing.T) {
	if _, err := cassandrastore.New(nil, cassandrastore.Config{}); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("a nil session: %v", err)
	}
	server := shared(t)
	for _, cfg := range []cassandrastore.Config{{Keyspace: `a"b`}, {Table: "a b"}, {Table: strings.Repeat("a", 49)}} {
		if _, err := cassandrastore.New(server.session, cfg); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	keyspace := server.keyspace(t, oneCopy)
	s := server.migrated(t, cassandrastore.Config{Keyspace: keyspace, Table: "Upper"})
	if _, err := acquire(background, s, "a"); err != nil {
		t.Errorf("a table with a letter in upper case: %v", err)
	}
	if text := s.Schema(); !strings.Contains(text, `CREATE TABLE IF NOT EXISTS "`+keyspace+`"."Upper"`) {
		t.Errorf("the schema is %q", text)
	}
}

// TestNoServer: a store without a server says so, and nothing is unknown.
func TestNoServer(t *testing.T) {
	addr := fmt.Sprintf("127.0.0.1:%d", servers.FreePort(t))
	s, err := cassandrastore.OpenURL(background, "cassandra://"+addr+"/k")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 2 {
		if _, err := acquire(background, s, "a"); err == nil || errors.Is(err, store.ErrUnknown) || !says(err, "connecting") {
			t.Errorf("got %v, want that it cannot connect", err)
		}
	}
}

// TestConnectsOnceThereIsAServer: a store whose first attempts to connect failed connects when there is a server.
func TestConnectsOnceThereIsAServer(t *testing.T) {
	server := shared(t)
	_, cfg := server.fresh(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var there atomic.Bool
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			if !there.Load() {
				_ = client.Close()
				continue
			}
			go func() {
				defer client.Close()
				node, err := net.Dial("tcp", server.Addr)
				if err != nil {
					return
				}
				go func() { defer client.Close(); _, _ = io.Copy(client, node) }()
				defer node.Close()
				_, _ = io.Copy(node, client)
			}()
		}
	}()
	s, err := cassandrastore.OpenURL(background, "cassandra://cassandra:cassandra@"+l.Addr().String()+"/"+cfg.Keyspace+"?timeout=5m&dialtimeout=5m")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 2 {
		if _, err := acquire(background, s, "a"); err == nil || errors.Is(err, store.ErrUnknown) || !says(err, "connecting") {
			t.Errorf("got %v, want that it cannot connect", err)
		}
	}
	there.Store(true)
	if _, err := acquire(background, s, "a"); err != nil {
		t.Errorf("once there is a server: %v", err)
	}
}

// TestCloseWhileConnecting: Close waits for an attempt to connect that is under way, and closes the session that comes of it: no connection is left.
func TestCloseWhileConnecting(t *testing.T) {
	server := shared(t)
	_, cfg := server.fresh(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var begun, open atomic.Int64
	goOn := make(chan struct{})
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			begun.Add(1)
			open.Add(1)
			go func() {
				defer open.Add(-1)
				defer client.Close()
				<-goOn
				node, err := net.Dial("tcp", server.Addr)
				if err != nil {
					return
				}
				go func() { defer client.Close(); _, _ = io.Copy(client, node) }()
				defer node.Close()
				_, _ = io.Copy(node, client)
			}()
		}
	}()
	s, err := cassandrastore.OpenURL(background, "cassandra://cassandra:cassandra@"+l.Addr().String()+"/"+cfg.Keyspace+"?timeout=5m&dialtimeout=5m")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Ping(background) }()
	servers.Wait(t, "the attempt to connect", func() bool { return begun.Load() > 0 })
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	servers.Wait(t, "Close to begin", func() bool {
		ctx, cancel := context.WithTimeout(background, 10*time.Millisecond)
		defer cancel()
		return errors.Is(s.Ping(ctx), store.ErrClosed)
	})
	early := len(closed) > 0
	close(goOn)
	if err := <-closed; err != nil || early {
		t.Fatalf("%v; Close has returned before the attempt has ended: %t", err, early)
	}
	servers.Wait(t, "the end of all connections", func() bool { return open.Load() == 0 })
}

// TestLocalSerialStaysInItsDatacenter: with local_serial no node of another datacenter is asked, whose copies would grant what these have granted, also if none of the
// datacenter that was named can be reached. With serial it makes no difference who is asked.
func TestLocalSerialStaysInItsDatacenter(t *testing.T) {
	server := shared(t)
	_, cfg := server.fresh(t)
	for options, reaches := range map[string]bool{
		"datacenter=datacenter1&consistency=local_serial": true,
		"datacenter=elsewhere&consistency=local_serial":   false,
		"datacenter=elsewhere":                            true,
	} {
		s, err := cassandrastore.OpenURL(background, "cassandra://cassandra:cassandra@"+server.Addr+"/"+cfg.Keyspace+"?timeout=5m&dialtimeout=5m&"+options)
		if err != nil {
			t.Fatal(err)
		}
		_, err = acquire(background, s, options)
		if reaches && err != nil || !reaches && !says(err, "datacenter= names") || errors.Is(err, store.ErrUnknown) {
			t.Errorf("%s: got %v", options, err)
		}
		_ = s.Close()
	}
}

// TestTLS: a URL with tls=true speaks TLS, and refuses a server whose certificate it does not trust.
func TestTLS(t *testing.T) {
	server := shared(t)
	_, cfg := server.fresh(t)
	address, ca := servers.EndTLS(t, server.Addr)
	open := func(options string) error {
		s, err := cassandrastore.OpenURL(background, "cassandra://cassandra:cassandra@"+address+"/"+cfg.Keyspace+"?timeout=5m&dialtimeout=5m&"+options)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		return s.Ping(background)
	}
	if err := open("tls=true&servername=example.com&cafile=" + url.QueryEscape(ca)); err != nil {
		t.Errorf("with the right certificate: %v", err)
	}
	if err := open("tls=true&servername=example.com"); !says(err, "certificate") {
		t.Errorf("with a certificate that nobody has signed: %v", err)
	}
	if err := open("tls=true&servername=other.example&cafile=" + url.QueryEscape(ca)); !says(err, "certificate") {
		t.Errorf("with a certificate of another host: %v", err)
	}
	if err := open("tls=true&insecure=true"); err != nil {
		t.Errorf("with whatever certificate: %v", err)
	}
	if err := open(""); !says(err, "write tls=true") {
		t.Errorf("without TLS: %v", err)
	}
	address = server.Addr
	if err := open("tls=true&insecure=true"); !says(err, "leave out tls=true") {
		t.Errorf("with TLS where there is none: %v", err)
	}
}
