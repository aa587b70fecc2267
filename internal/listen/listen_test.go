package listen

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/soloist-dev/soloist/store"
)

func TestAddresses(t *testing.T) {
	for text, want := range map[string]string{
		"9090":                 "127.0.0.1:9090",
		":9090":                "127.0.0.1:9090",
		"0":                    "127.0.0.1:0",
		"localhost:9090":       "127.0.0.1:9090",
		"127.0.0.2:9090":       "127.0.0.2:9090",
		"[::1]:9090":           "[::1]:9090",
		"unix:/run/x.sock":     "unix:/run/x.sock",
		"unix:x.sock":          "unix:x.sock",
		"[::ffff:127.0.0.1]:1": "127.0.0.1:1",
	} {
		a, err := Parse(text)
		if err != nil || a.String() != want || !a.Local() {
			t.Errorf("%q: %v, local %t, %v; want %v, local", text, a, a.Local(), err, want)
		}
	}
	for _, text := range []string{"0.0.0.0:9090", "[::]:9090", "10.0.0.7:9090", "[2001:db8::1]:65535"} {
		if a, err := Parse(text); err != nil || a.String() != text || a.Local() {
			t.Errorf("%q: %v, local %t, %v", text, a, a.Local(), err)
		}
	}
	for _, text := range []string{
		"", ":", "x", "http", ":http", "localhost", "localhost:", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:+1",
		"127.0.0.1:09", "127.0.0.1:9090 ", " 127.0.0.1:9090", "::1:9090", "[::1]", "example.com:80", "127.1:80", "*:80", "127.0.0.1:1:2",
		"http://127.0.0.1:80", "unix:", "unix:/run/../x", "unix:a\n", "unix:" + strings.Repeat("x", 101),
	} {
		a, err := Parse(text)
		var invalid *store.InvalidError
		if !errors.As(err, &invalid) || invalid.Rule == "" {
			t.Errorf("%q: %v, %v; want an InvalidError", text, a, err)
		}
	}
}

func mustParse(t *testing.T, text string) Address {
	t.Helper()
	a, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestUnixSocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "listen") // t.TempDir can be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	a := mustParse(t, "unix:"+path)
	l, err := a.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
	}
	if _, err := a.Listen(t.Context()); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("a socket that is used: %v", err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // as of a process that is killed
	_ = l.Close()
	again, err := a.Listen(t.Context())
	if err != nil {
		t.Fatalf("a socket that is left: %v", err)
	}
	_ = again.Close()
	if err := os.WriteFile(path, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Listen(t.Context()); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a file that is no socket: %v", err)
	}
	if text, _ := os.ReadFile(path); string(text) != "kept" {
		t.Errorf("the file has %q now", text)
	}
}

func TestListenOnAnyPort(t *testing.T) {
	l, err := mustParse(t, "0").Listen(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if a := mustParse(t, l.Addr().String()); !a.Local() {
		t.Errorf("listens on %v", a)
	}
}

// A web page that resolves its own name to 127.0.0.1 gets nothing.
func TestOtherHostsAreMisdirected(t *testing.T) {
	h := LocalHosts(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	for host, want := range map[string]int{
		"127.0.0.1": 200, "127.0.0.1:9090": 200, "localhost": 200, "LocalHost:80": 200, "[::1]": 200, "[::1]:80": 200, "127.8.9.1:1": 200, "[::ffff:127.0.0.1]:80": 200,
		"evil": 421, "evil:9090": 421, "": 421, "localhost.evil": 421, "127.0.0.1.evil": 421, "10.0.0.7": 421, "[2001:db8::1]:80": 421, "127.0.0.1@evil": 421,
		"[::1]evil": 421, "[::1": 421, ":80": 421,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = host
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("Host %q: %d, want %d", host, w.Code, want)
		}
	}
}
