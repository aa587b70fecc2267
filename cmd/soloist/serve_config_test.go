//go:build unix

package main

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/soloist-dev/soloist/internal/listen"
	"github.com/soloist-dev/soloist/server"
)

// serve does not start where callers could do what they may not.
func TestServeStartsSafely(t *testing.T) {
	_, line, err := server.NewToken("ci", "operate", "")
	if err != nil {
		t.Fatal(err)
	}
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte(line+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		address string
		run     *serveRun
		starts  bool
	}{
		{"8420", &serveRun{}, true},
		{"unix:s", &serveRun{}, true},
		{"8420", &serveRun{openActions: true}, true},
		{"8420", &serveRun{hosts: []string{"locks.example"}}, true},
		{"8420", &serveRun{hosts: []string{"*"}}, false},
		{"8420", &serveRun{hosts: []string{"locks.example:8420"}}, false},
		{"8420", &serveRun{hosts: []string{"2001:db8::1"}}, true},
		{"8420", &serveRun{hosts: []string{"[2001:db8::1]"}}, false},
		{"8420", &serveRun{hosts: []string{""}}, false},
		{"8420", &serveRun{hosts: []string{"*"}, tokens: tokens}, true},
		{"8420", &serveRun{openActions: true, tokens: tokens}, false},
		{"0.0.0.0:8420", &serveRun{}, false},
		{"0.0.0.0:8420", &serveRun{proxy: true}, false},
		{"0.0.0.0:8420", &serveRun{tokens: tokens}, false},
		{"0.0.0.0:8420", &serveRun{tokens: tokens, cert: "none"}, false},
		{"0.0.0.0:8420", &serveRun{tokens: tokens, proxy: true}, true},
		{"0.0.0.0:8420", &serveRun{tokens: tokens + "-not", proxy: true}, false},
	} {
		address, err := listen.Parse(c.address)
		if err != nil {
			t.Fatal(err)
		}
		c.run.probes.address.Address, c.run.waiting = &address, 1
		if _, _, err := c.run.config(slog.New(slog.DiscardHandler)); (err == nil) != c.starts {
			t.Errorf("--listen %s, tokens %q, hosts %q, behind a proxy: %t, open actions: %t: %v; want it to start: %t",
				c.address, c.run.tokens, c.run.hosts, c.run.proxy, c.run.openActions, err, c.starts)
		}
	}
}

// Paths that are not pages reach the API as they are: a redirect looks like success to a client that does not follow it.
func TestServeDoesNotRedirect(t *testing.T) {
	h := handlerOf(t)
	for _, path := range []string{"/v1/locks//acquire", "/v1/locks/a//b/acquire", "/v1/./locks"} {
		if got := codeOf(h, path, "evil"); got != 404 {
			t.Errorf("%s: %d, want that of the API", path, got)
		}
	}
}

// The pages on an address of this machine are for the hosts of the API alone, whether names were given or not: a web page can have its own name resolved to that address.
func TestPagesOfOtherHostsAreNotServed(t *testing.T) {
	for _, c := range []struct {
		given  []string
		served map[string]bool
	}{
		{nil, map[string]bool{"localhost": true, "127.0.0.1:8420": true, "locks.example": false}},
		{[]string{"locks.example"}, map[string]bool{"localhost": true, "locks.example": true, "Locks.Example:8420": true, "evil": false, "evil:8420": false}},
		{[]string{"*"}, map[string]bool{"localhost": true, "evil": true}},
	} {
		h := handlerOf(t, c.given...)
		for host, served := range c.served {
			want := 421
			if served {
				want = 200
			}
			for _, path := range []string{"/healthz", "/metrics"} {
				if got := codeOf(h, path, host); got != want {
					t.Errorf("--host %q: %s for %s: %d, want %d", c.given, path, host, got, want)
				}
			}
		}
	}
}

// handlerOf returns what serve serves on a loopback address, with an API that responds 404.
func handlerOf(t *testing.T, hosts ...string) http.Handler {
	t.Helper()
	address, err := listen.Parse("0")
	if err != nil {
		t.Fatal(err)
	}
	r := &serveRun{probes: probes{address: addressFlag{&address}}, hosts: hosts}
	return r.handler(r.probes.pages(slog.New(slog.DiscardHandler)), http.NotFoundHandler())
}

// codeOf returns the status of the response to a GET.
func codeOf(h http.Handler, path, host string) int {
	w := httptest.NewRecorder()
	request := httptest.NewRequest(http.MethodGet, path, nil)
	request.Host = host
	h.ServeHTTP(w, request)
	return w.Code
}
