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
	"strconv"
	"strings"
	"syscall"
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

		"unix:" + strings.Repeat("x", longestPath): "unix:" + strings.Repeat("x", longestPath),
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
	const port, host, brackets, path = "the port must be", "the host must be", "in brackets", "the path of a socket"
	for text, rule := range map[string]string{
		"": port, ":": port, "x": port, "http": port, ":http": port, "localhost": port, "localhost:": port, "127.0.0.1": port, "127.0.0.1:x": port,
		"127.0.0.1:65536": port, "127.0.0.1:-1": port, "127.0.0.1:+1": port, "127.0.0.1:09": port, "127.0.0.1:9090 ": port,
		" 127.0.0.1:9090": host, "example.com:80": host, "127.1:80": host, "*:80": host,
		"::1:9090": brackets, "[::1]": brackets, "127.0.0.1:1:2": brackets, "http://127.0.0.1:80": brackets,
		"unix:": path, "unix:/run/../x": path, "unix:a\n": path, "unix:" + strings.Repeat("x", longestPath+1): path,
	} {
		a, err := Parse(text)
		var invalid *store.InvalidError
		if !errors.As(err, &invalid) || !strings.Contains(invalid.Rule, rule) || invalid.Value != strconv.Quote(text) {
			t.Errorf("%q: %v, %v; want an InvalidError with %q", text, a, err, rule)
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
	_ = l.(*socket).UnixListener.Close() // as of a process that is killed
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

// TestSocketOfAnotherProcess: the socket of a process that cannot answer at present stays. Only one that refuses connections is left from a process that has died.
func TestSocketOfAnotherProcess(t *testing.T) {
	a := mustParse(t, "unix:s")
	t.Chdir(t.TempDir()) // its path can be too long for a socket
	l, err := a.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if l, err := a.Listen(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v; want that the context has ended", l, err)
	}
	if _, err := a.Listen(t.Context()); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("a socket that is used: %v", err)
	}
}

// A process that ends removes its own socket, and not that of another one which has its path now; nor does one that begins, if that one was faster.
func TestSocketThatHasBeenReplaced(t *testing.T) {
	a := mustParse(t, "unix:s")
	t.Chdir(t.TempDir()) // its path can be too long for a socket
	first, err := a.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	seen, err := os.Lstat("s")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove("s"); err != nil { // as by a cleaner of temporary files
		t.Fatal(err)
	}
	if err := removeSeen("s", seen); err != nil {
		t.Errorf("a file that is gone: %v", err)
	}
	second, err := a.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := removeSeen("s", seen); !errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, fs.ErrExist) { // that would be a file of something else
		t.Errorf("a file that is another one: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	conn, err := net.Dial("unix", "s")
	if err != nil {
		t.Fatalf("the second process cannot be reached: %v", err)
	}
	_ = conn.Close()
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat("s"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its own file: %v", err)
	}
	if err := second.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed again: %v", err)
	}
}

// A socket that cannot be made is an error.
func TestSocketInNoDirectory(t *testing.T) {
	path := filepath.Join("no", "such", "directory")
	if l, err := mustParse(t, "unix:"+path).Listen(t.Context()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, %v", l, err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if l, err := mustParse(t, "unix:"+filepath.Join(file, "socket")).Listen(t.Context()); err == nil {
		t.Errorf("listens on %v", l.Addr())
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
	const served = http.StatusNoContent
	h := OnlyHosts(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(served) }))
	for host, want := range map[string]int{
		"127.0.0.1": served, "127.0.0.1:9090": served, "localhost": served, "LocalHost:80": served, "[::1]": served, "[::1]:80": served, "127.8.9.1:1": served, "[::ffff:127.0.0.1]:80": served,
		"evil": 421, "evil:9090": 421, "": 421, "localhost.evil": 421, "127.0.0.1.evil": 421, "10.0.0.7": 421, "[2001:db8::1]:80": 421, "127.0.0.1@evil": 421,
		"[::1]evil": 421, "[::1": 421, ":80": 421, "[127.0.0.1x": 421, "x127.0.0.1]": 421,
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
