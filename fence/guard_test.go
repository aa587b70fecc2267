package fence_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/fence"
)

var background = context.Background()

func nothing(context.Context) error { return nil }

func TestGuardRefusesLowerTokens(t *testing.T) {
	var g fence.Memory
	for _, step := range []struct {
		resource string
		token    int64
		stale    bool
	}{
		{"a", 5, false}, {"a", 5, false}, {"a", 4, true}, {"a", 7, false}, {"a", 5, true}, {"b", 1, false}, {"a", 7, false},
	} {
		err := g.Do(background, step.resource, step.token, nothing)
		if errors.Is(err, fence.ErrStale) != step.stale {
			t.Errorf("%+v: %v", step, err)
		}
	}
	if err := g.Claim(background, "a", 9); err != nil {
		t.Fatal(err)
	}
	var stale *fence.StaleError
	if err := g.Do(background, "a", 8, nothing); !errors.As(err, &stale) || stale.Seen != 9 || stale.Token != 8 {
		t.Errorf("after a claim: %v", err)
	}
	for _, token := range []int64{0, -1} {
		if err := g.Do(background, "a", token, nothing); err == nil || errors.Is(err, fence.ErrStale) {
			t.Errorf("token %d: %v", token, err)
		}
	}
	restarted := fence.NewMemory(g.Seen())
	if err := restarted.Claim(background, "a", 8); !errors.Is(err, fence.ErrStale) {
		t.Errorf("after a restart: %v", err)
	}
}

// By effect: whatever the interleaving, no write of a lower token lands after one of a higher.
func TestWritesLandInTheOrderOfTheirTokens(t *testing.T) {
	var g fence.Memory
	var landed []int64 // written under the guard alone
	var wg sync.WaitGroup
	for token := int64(1); token <= 64; token++ {
		wg.Go(func() {
			for range 20 {
				err := g.Do(background, "x", token, func(context.Context) error {
					landed = append(landed, token)
					return nil
				})
				if err != nil && !errors.Is(err, fence.ErrStale) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for i := 1; i < len(landed); i++ {
		if landed[i] < landed[i-1] {
			t.Fatalf("%d landed after %d", landed[i], landed[i-1])
		}
	}
}

// A write that has begun ends before a higher token is let in; waiting for it is bounded by the context.
func TestSuccessorWaitsForTheWriteUnderWay(t *testing.T) {
	var g fence.Memory
	in, out := make(chan struct{}), make(chan struct{})
	go func() {
		_ = g.Do(background, "x", 1, func(context.Context) error { close(in); <-out; return nil })
	}()
	<-in
	ctx, cancel := context.WithTimeout(background, 10*time.Millisecond)
	defer cancel()
	if err := g.Claim(ctx, "x", 2); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while a write is under way: %v", err)
	}
	over := errors.New("the caller has had enough")
	ended, end := context.WithCancelCause(background)
	end(over)
	if err := g.Claim(ended, "x", 2); !errors.Is(err, over) {
		t.Errorf("its error %v does not say why the wait has ended", err)
	}
	close(out)
	if err := g.Claim(background, "x", 2); err != nil {
		t.Error(err)
	}
}

// The token of a write has been seen, however the write ended, and the next write has its turn.
func TestTokensOfFailedWritesAreSeen(t *testing.T) {
	for how, end := range map[string]func(context.Context) error{
		"an error": func(context.Context) error { return errors.New("failed") },
		"a panic":  func(context.Context) error { panic("failed") },
		"Goexit":   func(context.Context) error { runtime.Goexit(); return nil },
	} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // who waits for a turn that never comes is told at once
				var g fence.Memory
				var wg sync.WaitGroup
				wg.Go(func() {
					defer func() { _ = recover() }()
					if err := g.Do(background, "x", 5, end); err == nil {
						t.Error("Do returns nil")
					}
				})
				wg.Wait()
				if err := g.Claim(background, "x", 4); !errors.Is(err, fence.ErrStale) {
					t.Errorf("a lower token: %v", err)
				}
				if err := g.Claim(background, "x", 5); err != nil {
					t.Errorf("the same token: %v", err)
				}
			})
		})
	}
}

type token int64

func (t token) Token() int64 { return int64(t) }

// A write that was good when it came, and had to wait while a later holder's was let in, is stale by its turn.
func TestATokenIsComparedWhenItsTurnComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g fence.Memory
		out := make(chan struct{})
		write := func(token int64, err chan<- error) {
			go func() { err <- g.Claim(background, "x", token) }()
			synctest.Wait()
		}
		go func() {
			_ = g.Do(background, "x", 1, func(context.Context) error { <-out; return nil })
		}()
		synctest.Wait()
		late, early := make(chan error, 1), make(chan error, 1)
		write(3, late)
		write(2, early)
		close(out)
		if err := <-late; err != nil {
			t.Error(err)
		}
		if err := <-early; !errors.Is(err, fence.ErrStale) {
			t.Errorf("a write with token 2, whose turn came after that of 3: %v", err)
		}
	})
}

func TestHandler(t *testing.T) {
	var written []string
	server := httptest.NewServer(fence.Handler(&fence.Memory{}, nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(fence.TokenHeader) != "" {
			written = append(written, r.Header.Get(fence.TokenHeader)+r.URL.Path)
		}
		fmt.Fprint(w, "ok")
	})))
	defer server.Close()
	send := func(method, path string, tokens ...string) (int, string) {
		r := httptest.NewRequest(method, server.URL+path, nil)
		for _, token := range tokens {
			r.Header.Add(fence.TokenHeader, token)
		}
		w := httptest.NewRecorder()
		server.Config.Handler.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	for _, step := range []struct {
		method, path string
		tokens       []string
		status       int
		says         string
	}{
		{"POST", "/a", []string{"5"}, 200, "ok"},
		{"POST", "/a", []string{"4"}, 412, "has seen token 5, and 4 is lower"},
		{"GET", "/a", nil, 200, "ok"},
		{"POST", "/a", nil, 428, "Fencing-Token"},
		{"PUT", "/b", []string{"1"}, 200, "ok"},
		{"PUT", "/a", nil, 428, "Fencing-Token"},
		{"PATCH", "/a", nil, 428, "Fencing-Token"},
		{"DELETE", "/a", nil, 428, "Fencing-Token"},
		{"DELETE", "/a", []string{"4"}, 412, "has seen token 5, and 4 is lower"},
		{"LOCK", "/a", nil, 428, "Fencing-Token"}, // what is not known to read only may write
		{"HEAD", "/a", nil, 200, ""},
		{"OPTIONS", "/a", nil, 200, "ok"},
		{"POST", "/a", []string{"x"}, 400, "decimal"},
		{"POST", "/a", []string{"0"}, 400, "decimal"},
		{"POST", "/a", []string{"6", "7"}, 400, "one"},
		{"POST", "/a", []string{"9223372036854775808"}, 400, "decimal"},
	} {
		status, body := send(step.method, step.path, step.tokens...)
		if status != step.status || !strings.Contains(body, step.says) {
			t.Errorf("%s %s %v: %d %s", step.method, step.path, step.tokens, status, body)
		}
	}
	claim := httptest.NewRequest(http.MethodPut, server.URL+"/a", nil)
	claim.Header.Set(fence.TokenHeader, "7")
	claim.Header.Set(fence.ClaimHeader, "1")
	claimed := httptest.NewRecorder()
	if server.Config.Handler.ServeHTTP(claimed, claim); claimed.Code != http.StatusNoContent {
		t.Errorf("a claim by PUT: %d", claimed.Code)
	}
	for _, values := range [][]string{{"0"}, {"true"}, {""}, {"1", "1"}} {
		malformed := httptest.NewRequest(http.MethodPost, server.URL+"/a", nil)
		malformed.Header.Set(fence.TokenHeader, "7")
		malformed.Header[fence.ClaimHeader] = values
		refused := httptest.NewRecorder()
		if server.Config.Handler.ServeHTTP(refused, malformed); refused.Code != http.StatusBadRequest || !strings.Contains(refused.Body.String(), fence.ClaimHeader) {
			t.Errorf("a claim with %q: %d %s", values, refused.Code, refused.Body)
		}
	}
	client := func(n int64) *http.Client { return &http.Client{Transport: fence.Transport{Lease: token(n)}} }
	if err := fence.ClaimURL(background, client(9), server.URL+"/a"); err != nil {
		t.Fatal(err)
	}
	if err := fence.ClaimURL(background, client(8), server.URL+"/a"); !errors.Is(err, fence.ErrStale) {
		t.Errorf("claiming with a stale token: %v", err)
	}
	request, err := http.NewRequestWithContext(background, http.MethodPost, server.URL+"/a", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set(fence.TokenHeader, "9") // of a request that is passed on, say
	answer, err := client(8).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if _ = answer.Body.Close(); answer.StatusCode != http.StatusPreconditionFailed {
		t.Errorf("a request that has another token than the lease: %s", answer.Status)
	}
	if kept := request.Header.Get(fence.TokenHeader); kept != "9" {
		t.Errorf("Transport has changed the caller's request: its token is %q, want 9", kept)
	}
	if fmt.Sprint(written) != "[5/a 1/b]" {
		t.Errorf("written: %v", written)
	}
}

// TestHandlerOfNamedResources: writes to different URLs that are of one resource are guarded as one, and those of different resources are not. Requests are sent by the
// transport that was given.
func TestHandlerOfNamedResources(t *testing.T) {
	server := httptest.NewServer(fence.Handler(&fence.Memory{}, func(r *http.Request) string { return r.URL.Query().Get("of") }, http.NotFoundHandler()))
	defer server.Close()
	sent := 0
	for _, step := range []struct {
		token int64
		path  string
		stale bool
	}{{7, "/a?of=x", false}, {6, "/b?of=x", true}, {6, "/a?of=y", false}, {7, "/b?of=x", false}} {
		counts := roundTrip(func(r *http.Request) (*http.Response, error) {
			sent++
			return http.DefaultTransport.RoundTrip(r)
		})
		client := &http.Client{Transport: fence.Transport{Lease: token(step.token), Base: counts}}
		if err := fence.ClaimURL(background, client, server.URL+step.path); errors.Is(err, fence.ErrStale) != step.stale || err != nil && !step.stale {
			t.Errorf("a claim of %s with the token %d: %v", step.path, step.token, err)
		}
	}
	if sent != 4 {
		t.Errorf("the transport has sent %d of 4 requests", sent)
	}
}

// A roundTrip sends requests.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// broken is a guard that cannot be asked.
type broken struct{}

func (broken) Do(context.Context, string, int64, func(context.Context) error) error {
	return errors.New("the database is away")
}

func (b broken) Claim(ctx context.Context, resource string, token int64) error {
	return b.Do(ctx, resource, token, nil)
}

// A guard that fails has not found the token stale: who sent it may try again.
func TestGuardThatFails(t *testing.T) {
	for _, claim := range []string{"", "1"} {
		r := httptest.NewRequest(http.MethodPost, "/a", nil)
		r.Header.Set(fence.TokenHeader, "5")
		if claim != "" {
			r.Header.Set(fence.ClaimHeader, claim)
		}
		w := httptest.NewRecorder()
		fence.Handler(broken{}, nil, http.NotFoundHandler()).ServeHTTP(w, r)
		if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "away") {
			t.Errorf("claim %q: %d %s", claim, w.Code, w.Body)
		}
	}
}

// transaction is a guard of which a write is carried out when its Do ends, as those in databases are.
type transaction struct {
	commit error
	done   bool
}

type inTransaction struct{}

func (g *transaction) Do(ctx context.Context, _ string, _ int64, write func(context.Context) error) error {
	if err := write(context.WithValue(ctx, inTransaction{}, g)); err != nil {
		return err
	}
	g.done = g.commit == nil
	return g.commit
}

func (g *transaction) Claim(context.Context, string, int64) error { return nil }

// A service that writes in the transaction of its guard finds it in the context, and responds when that is carried out: with what became of it.
func TestHandlerOfATransaction(t *testing.T) {
	for what, test := range map[string]struct {
		status int // of the service
		commit error
		want   int
		says   string
		done   bool
	}{
		"carried out":       {0, nil, http.StatusOK, "written", true},
		"created":           {http.StatusCreated, nil, http.StatusCreated, "written", true},
		"not carried out":   {0, errors.New("the database is away"), http.StatusServiceUnavailable, "away", false},
		"overtaken":         {http.StatusCreated, &fence.StaleError{Resource: "/a", Token: 5, Seen: 6}, http.StatusPreconditionFailed, "6", false},
		"elsewhere":         {http.StatusPermanentRedirect, nil, http.StatusPermanentRedirect, "written", true},
		"a bad request":     {http.StatusBadRequest, nil, http.StatusBadRequest, "written", false},
		"refused by itself": {http.StatusConflict, nil, http.StatusConflict, "written", false},
	} {
		t.Run(what, func(t *testing.T) {
			guard := &transaction{commit: test.commit}
			h := fence.Handler(guard, nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Context().Value(inTransaction{}) != guard {
					t.Error("the transaction is not in the context of the request")
				}
				w.Header().Set("Location", "/a/1")
				if test.status != 0 {
					w.WriteHeader(http.StatusEarlyHints)
					w.WriteHeader(test.status)
				}
				fmt.Fprint(w, "written")
			}))
			r := httptest.NewRequest(http.MethodPost, "/a", nil)
			r.Header.Set(fence.TokenHeader, "5")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			passed := test.commit == nil
			if w.Code != test.want || !strings.Contains(w.Body.String(), test.says) || strings.Contains(w.Body.String(), "written") != passed || guard.done != test.done {
				t.Errorf("%d %s; carried out: %t", w.Code, w.Body, guard.done)
			}
			if got := w.Result().Header.Get("Location"); (got == "/a/1") != passed {
				t.Errorf("Location is %q", got)
			}
		})
	}
}

// A status that comes after the body is too late, as in net/http: the write was answered with 200, and is carried out.
func TestStatusAfterTheBody(t *testing.T) {
	guard := &transaction{}
	h := fence.Handler(guard, nil, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "written")
		w.WriteHeader(http.StatusInternalServerError)
	}))
	r := httptest.NewRequest(http.MethodPost, "/a", nil)
	r.Header.Set(fence.TokenHeader, "5")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusOK || w.Body.String() != "written" || !guard.done {
		t.Errorf("%d %s; carried out: %t", w.Code, w.Body, guard.done)
	}
}

// The response has the header fields that the service has left: one that an outer handler has set and the service has deleted is not in it.
func TestServiceDeletesAHeaderField(t *testing.T) {
	h := fence.Handler(&fence.Memory{}, nil, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Del("Cache-Control")
		fmt.Fprint(w, "written")
	}))
	r := httptest.NewRequest(http.MethodPost, "/a", nil)
	r.Header.Set(fence.TokenHeader, "5")
	w := httptest.NewRecorder()
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Vary", "Accept")
	h.ServeHTTP(w, r)
	if got := w.Result().Header; got.Get("Cache-Control") != "" || got.Get("Vary") != "Accept" || w.Body.String() != "written" {
		t.Errorf("%v, %s; want no Cache-Control, and the Vary of before", got, w.Body)
	}
}

// A service without a fence responds to a claim as to any request; that is no claim.
func TestClaimOfAServiceWithoutAFence(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }))
	defer server.Close()
	client := &http.Client{Transport: fence.Transport{Lease: token(1)}}
	if err := fence.ClaimURL(background, client, server.URL+"/a"); err == nil || !strings.Contains(err.Error(), "200 OK") {
		t.Errorf("claiming returned %v, want an error that shows the response 200 OK", err)
	}
}

// TestStaleTokenDoesNotWait: a token that is stale already is refused at once, while a write of its successor is under way, and the error says of what.
func TestStaleTokenDoesNotWait(t *testing.T) {
	var guard fence.Memory
	err := guard.Do(t.Context(), "invoices", 7, func(ctx context.Context) error {
		ended, cancel := context.WithCancel(ctx) // so that one which waits would not be told that it is stale
		cancel()
		return guard.Claim(ended, "invoices", 6)
	})
	var stale *fence.StaleError
	if !errors.As(err, &stale) || *stale != (fence.StaleError{Resource: "invoices", Token: 6, Seen: 7}) {
		t.Errorf("got %v, want that the token 6 for invoices is stale", err)
	}
}
