package zkstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/zkstore"
	"github.com/soloist-dev/soloist/test/servers"
)

func TestURLs(t *testing.T) {
	for url, text := range map[string]string{
		"zk://":                               "HOST or HOST:PORT",
		"zk://host,/locks":                    "HOST or HOST:PORT",
		"zk://host:0/locks":                   "HOST or HOST:PORT",
		"zk://user@host/locks":                "write both",
		"zk://us%3Aer:canary@host/locks":      "no colon",
		"zk://user:ca/nary@host/locks":        "has an @ after the hosts",
		"zk://host/a*":                        "such as /soloist",
		"zk://host/a//b":                      "such as /soloist",
		"zk://host/a/../b":                    "such as /soloist",
		"zk://host/a/./b":                     "such as /soloist",
		"zk://host/a/":                        "such as /soloist",
		"zk://host/zookeeper/x":               "not below /zookeeper",
		"zk://host/locks?session=1s":          "there are cafile, certfile, dialtimeout",
		"zk://host/locks?sessiontimeout=5":    "duration",
		"zk://host/locks?sessiontimeout=1ms":  "100ms to 1h",
		"zk://host/locks?sessiontimeout=99h":  "100ms to 1h",
		"zk://host/locks?tls=maybe":           "true or false",
		"zk://host/locks?cafile=x":            "tls=true",
		"zk://host?tls=true&tls=true":         "twice",
		"zk:host/locks":                       "zk://USER",
		"zookeeper://user:canary@host/locks":  "zk://USER",
		"zk://user:canary@host/ca nary*":      "such as /soloist",
		"zk://user:canary@host/x?dialtimeout": "duration",

		"zk://host/" + strings.Repeat("a", 255): "at most 255 bytes",
		"zk://host/locks?sessiontimeout=99ms":   "100ms to 1h",
		"zk://host/locks?sessiontimeout=3601s":  "100ms to 1h",
	} {
		s, err := zkstore.OpenURL(background, url)
		if s != nil || !errors.Is(err, store.ErrInvalid) || !says(err, text) || says(err, "nary@") || says(err, "canary") {
			t.Errorf("%q: %v, want an invalid input that says %q", url, err, text)
		}
	}
	for _, url := range []string{
		"zk://host", "zk://host/" + strings.Repeat("a", 254), "zk://host/.a/b..?sessiontimeout=100ms",
		"zk://host/zookeepers?sessiontimeout=1h",
		"zk://u:p@a:2182,b,[::1]:2183/apps/soloist?sessiontimeout=10s&dialtimeout=1s",
		"zk://10.0.0.1/k?tls=true&servername=x",
	} {
		s, err := zkstore.OpenURL(background, url)
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
}

func TestConfigs(t *testing.T) {
	s := shared(t)
	if _, err := zkstore.New(nil, zkstore.Config{}); !errors.Is(err, store.ErrInvalid) || !says(err, "*zk.Conn") {
		t.Errorf("without a connection: %v", err)
	}
	for _, cfg := range []zkstore.Config{{Path: "soloist"}, {Path: "/"}, {ACL: []zk.ACL{}}} {
		if _, err := zkstore.New(s.conn, cfg); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%+v: %v, want an invalid input", cfg, err)
		}
	}
}

// TestNoServer: a store without a server says so, and nothing is unknown.
func TestNoServer(t *testing.T) {
	addr := fmt.Sprintf("127.0.0.1:%d", servers.FreePort(t))
	for _, user := range []string{"", "user:canary@"} {
		s, err := zkstore.OpenURL(background, "zk://"+user+addr)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := claim(background, s, "a", "x", time.Hour); err == nil || errors.Is(err, store.ErrUnknown) || !says(err, "refused") || says(err, "canary") {
				t.Errorf("got %v, want that no server could be reached", err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestServerThatComesLate: a user for whom no server could be reached is named to the first one that can be.
func TestServerThatComesLate(t *testing.T) {
	p := newProxy(t, shared(t).Addr)
	p.away.Store(true)
	s := openURL(t, "user:canary@"+p.addr(), "/late")
	for range 2 {
		if err := s.Ping(background); !errors.Is(err, zk.ErrNoServer) {
			t.Errorf("got %v, want that no server could be reached", err)
		}
	}
	p.away.Store(false)
	if _, err := claim(background, s, "a", "x", time.Hour); err != nil {
		t.Errorf("when there is a server: %v", err)
	}
}

// TestSilentServer: a server that accepts a connection and says nothing keeps a store from working for as long as the caller waits, and no longer from closing.
func TestSilentServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s, err := zkstore.OpenURL(background, "zk://"+l.Addr().String()+"?sessiontimeout=1h")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(background, 50*time.Millisecond)
	defer cancel()
	if _, err := claim(ctx, s, "a", "x", time.Hour); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the deadline", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestDialTimeout: connecting ends after the option dialtimeout, also where a server accepts a connection and says nothing to TLS.
func TestDialTimeout(t *testing.T) {
	addr := strangers(t, "", true)
	s, err := zkstore.OpenURL(background, "zk://"+addr+"?tls=true&sessiontimeout=1h&dialtimeout=50ms")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(background, servers.Patience)
	defer cancel()
	if err := s.Ping(ctx); !errors.Is(err, zk.ErrNoServer) || ctx.Err() != nil {
		t.Errorf("got %v, want that no server can be reached, before the context ends", err)
	}
}

// TestOtherServers: a server that is not one of ZooKeeper is named, with what to do, and no memory is reserved for what it says.
func TestOtherServers(t *testing.T) {
	for reply, text := range map[string]string{
		"HTTP/1.1 400 Bad Request\r\n\r\n":   "is a server of HTTP",
		"\x15\x03\x01\x00\x02\x02\x46":       "wants TLS: write tls=true",
		"INFO {}\r\n":                        `begins with "INFO"`,
		"":                                   "ends each connection",
		"\x00\x00\x00\x25\x00":               "ends each connection",
		"(silence)":                          "does not reply within 100ms",
		"\x00\x00\x00\x25\x00 (and silence)": "does not reply within 100ms",
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			reply, silence := strings.CutSuffix(reply, "(silence)")
			if !silence {
				reply, silence = strings.CutSuffix(reply, " (and silence)")
			}
			addr, patience := strangers(t, reply, silence), "5m"
			if silence {
				patience = "100ms"
			}
			s, err := zkstore.OpenURL(background, "zk://user:canary@"+addr+"?sessiontimeout="+patience+"&dialtimeout=5m")
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			ctx, cancel := context.WithTimeout(background, servers.Patience)
			defer cancel()
			if err := s.Ping(ctx); err == nil || !says(err, addr+" ") || !says(err, text) || says(err, "canary") {
				t.Errorf("%q: %v, want an error that names %s and says %q", reply, err, addr, text)
			}
		})
	}
}

// strangers returns the address of a server that replies to each connection, and then ends it or is silent.
func strangers(t *testing.T, reply string, silence bool) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = conn.Read(make([]byte, 1024)) // an end before that could take the reply with it
				_, _ = io.WriteString(conn, reply)
				if silence {
					_, _ = io.Copy(io.Discard, conn)
				}
			}()
		}
	}()
	return l.Addr().String()
}

// TestServerStopsInItsFirstReply: a server that says how long its first reply is, and then nothing more, is left, and the next one is tried; here it is the same.
func TestServerStopsInItsFirstReply(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s, err := zkstore.OpenURL(background, "zk://"+l.Addr().String()+"?sessiontimeout=100ms")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	claimed := make(chan error, 1)
	go func() { _, err := claim(ctx, s, "a", "x", time.Hour); claimed <- err }()
	if tcp, ok := l.(*net.TCPListener); ok {
		_ = tcp.SetDeadline(time.Now().Add(5 * time.Minute))
	}
	for try := range 2 {
		conn, err := l.Accept()
		if err != nil {
			t.Fatalf("%d connections: %v", try, err)
		}
		defer conn.Close()
		if _, err := conn.Write([]byte{0, 0, 0, 41}); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	<-claimed
}

// TestTLS: a URL with tls=true speaks TLS, and refuses a server whose certificate it does not trust.
func TestTLS(t *testing.T) {
	path := fresh()
	address, ca := servers.EndTLS(t, shared(t).Addr)
	try := func(options string) error {
		s, err := zkstore.OpenURL(background, "zk://"+address+path+"?sessiontimeout=5m&dialtimeout=5m&"+options)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		return s.Ping(background)
	}
	for _, options := range []string{"tls=true&servername=example.com&cafile=" + url.QueryEscape(ca), "tls=true&insecure=true"} {
		if err := try(options); err != nil {
			t.Errorf("%s: %v", options, err)
		}
	}
	for _, options := range []string{"tls=true&servername=example.com", "tls=true&servername=other.example&cafile=" + url.QueryEscape(ca)} {
		if err := try(options); err == nil || !says(err, "certificate") {
			t.Errorf("%s: %v, want that the certificate is not trusted", options, err)
		}
	}
}

// deadlines remembers how long reads may take.
type deadlines struct {
	net.Conn

	all []time.Duration
}

// SetReadDeadline implements net.Conn.
func (d *deadlines) SetReadDeadline(t time.Time) error {
	d.all = append(d.all, time.Until(t))
	return nil
}

// TestPatience: the first reply may take the session timeout that was asked for, and later ones what the server has agreed to.
func TestPatience(t *testing.T) {
	var d deadlines
	link := zkstore.NewLink(&d, time.Minute)
	for range 2 {
		if err := link.SetReadDeadline(time.Now().Add(24 * time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	if d.all[0] > time.Minute || d.all[1] < 23*time.Hour {
		t.Errorf("the reads may take %v, want a minute for the first one, and a day for the second", d.all)
	}
}

// TestNoTransactions: what the client would keep for its next connection is blanked in each reply but the first one, however the bytes arrive: the client has a data race about it.
func TestNoTransactions(t *testing.T) {
	for _, chunk := range []int{1, 3, 100} {
		server, client := net.Pipe()
		link := zkstore.NewLink(client, time.Hour)
		go func() {
			defer server.Close()
			for some := range slices.Chunk([]byte("\x00\x00\x00\x13connection and more"+"\x00\x00\x00\x13xxxxzzzzzzzzerrrdat"+"\x00\x00\x00\x10xxxxzzzzzzzzerrr"), chunk) {
				_, _ = server.Write(some)
			}
		}()
		got, err := io.ReadAll(link)
		_ = client.Close()
		const none = "\x00\x00\x00\x00\x00\x00\x00\x00"
		if want := "\x00\x00\x00\x13connection and more" + "\x00\x00\x00\x13xxxx" + none + "errrdat" + "\x00\x00\x00\x10xxxx" + none + "errr"; err != nil || string(got) != want {
			t.Errorf("%d bytes at once: %q, %v, want %q", chunk, got, err, want)
		}
	}
}
