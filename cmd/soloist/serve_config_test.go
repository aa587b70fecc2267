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
	address, err := listen.Parse("0")
	if err != nil {
		t.Fatal(err)
	}
	r := &serveRun{probes: probes{address: addressFlag{&address}}}
	h := r.handler(r.probes.pages(slog.New(slog.DiscardHandler)), http.NotFoundHandler())
	for _, c := range []struct {
		path, host string
		want       int
	}{
		{"/v1/locks//acquire", "localhost", 404}, {"/v1/locks/a//b/acquire", "evil", 404}, {"/v1/./locks", "localhost", 404},
		{"/healthz", "localhost", 200}, {"/healthz", "evil", 421}, {"/metrics", "evil", 421},
	} {
		w := httptest.NewRecorder()
		request := httptest.NewRequest(http.MethodGet, c.path, nil)
		request.Host = c.host
		h.ServeHTTP(w, request)
		if w.Code != c.want {
			t.Errorf("%s for %s: %d, want %d", c.path, c.host, w.Code, c.want)
		}
	}
}
