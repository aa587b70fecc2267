package consulstore_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/consulstore"
	"github.com/soloist-dev/soloist/store/storetest"
	"github.com/soloist-dev/soloist/test/servers"
)

// TestConformanceOfAFake: the fake of these tests is enough of Consul for the laws.
func TestConformanceOfAFake(t *testing.T) {
	f := newFake(t)
	h := harness(f.addr())
	h.Corrupt, h.Writes = nil, nil // by requests that the fake does not have
	storetest.Run(t, h)
}

// writes reports whether a request may change records.
func writes(r *http.Request) bool { return r.URL.Path == "/v1/txn" && r.URL.RawQuery == "" }

// cut breaks the connection of a request.
func cut() { panic(http.ErrAbortHandler) }

// replies has a fake give one reply to each write.
func replies(status int, body string) func(http.ResponseWriter, *http.Request, func()) bool {
	return func(w http.ResponseWriter, r *http.Request, _ func()) bool {
		if !writes(r) {
			return false
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
		return true
	}
}

// TestWhatErrorsMean: an error tells whether something may have been written, and what to do.
func TestWhatErrorsMean(t *testing.T) {
	result := func(key string, index string) string {
		return fmt.Sprintf(`{"Results":[{"KV":{"Key":%q,"ModifyIndex":%s}}],"Errors":null}`, key, index)
	}
	for _, test := range []struct {
		rule      string
		status    int
		body      string
		says      string
		is, isNot error
	}{
		{"there is no leader", 500, "No cluster leader", "no leader", store.ErrUnknown, nil},
		{"the leader is deposed", 500, "rpc error making call: leadership lost while committing log", "leadership lost", store.ErrUnknown, nil},
		{"there is no such datacenter", 500, "No path to datacenter", "no datacenter of that name", store.ErrUnknown, nil},
		{"requests are limited by the leader", 503, "rate limit exceeded", "request_limits", store.ErrUnknown, nil},
		{"requests are limited", 429, "rate limit exceeded", "http_max_conns_per_client", nil, store.ErrUnknown},
		{"the token has no right", 403, "Permission denied: lacks permission 'key:write'", "key_prefix", fs.ErrPermission, store.ErrUnknown},
		{"the token is unknown", 403, "ACL not found", "token is not valid", fs.ErrPermission, store.ErrUnknown},
		{"a proxy wants a token", 401, "Unauthorized", "token is not valid", fs.ErrPermission, store.ErrUnknown},
		{"the key is not allowed", 409, `{"Results":null,"Errors":[{"OpIndex":0,"What":"Permission denied: token lacks permission 'key:write' on \"apps\""}]}`, "key_prefix", fs.ErrPermission, store.ErrUnknown},
		{"a proxy has waited too long", 408, "stream timeout", "stream timeout", store.ErrUnknown, nil},
		{"the transaction is too large", 413, "Request body too large", "txn_max_req_len", nil, store.ErrUnknown},
		{"no right, in other words", 409, `{"Errors":[{"OpIndex":0,"What":"rpc error: lacks permission 'key:write'"}]}`, "key_prefix", fs.ErrPermission, store.ErrUnknown},
		{"no right, without which one", 409, `{"Errors":[{"OpIndex":0,"What":"Permission denied"}]}`, "key_prefix", fs.ErrPermission, store.ErrUnknown},
		{"a request that is not valid", 400, "Bad request", "Bad request", nil, store.ErrUnknown},
		{"another server", 404, "404 page not found", "HTTP API", nil, store.ErrUnknown},
		{"a server that only reads", 405, "method not allowed", "not allowed", nil, store.ErrUnknown},
		{"another refusal", 409, `{"Results":null,"Errors":[{"OpIndex":0,"What":"so it is"}]}`, "so it is", nil, store.ErrUnknown},
		{"a redirection", 301, "", "HTTP API", store.ErrUnknown, nil},
		{"nonsense", 200, "<html>", "not one of Consul", store.ErrUnknown, nil},
		{"an empty reply", 200, "{}", "no index", store.ErrUnknown, nil},
		{"another key", 200, result("soloist/b", "99"), "no index", store.ErrUnknown, nil},
		{"no index", 200, result("soloist/a", "0"), "no index", store.ErrUnknown, nil},
		{"an index that is no token", 200, result("soloist/a", "18446744073709551615"), "no index", store.ErrUnknown, nil},
		{"a negative index", 200, result("soloist/a", "-1"), "cannot be read", store.ErrUnknown, nil},
		{"a result of something else", 200, `{"Results":[{"Node":{}}]}`, "without a key", store.ErrUnknown, nil},
		{"a conflict without an error", 409, `{"Results":null,"Errors":null}`, "0 errors", store.ErrUnknown, nil},
		{"errors in a success", 200, `{"Errors":[{"OpIndex":0,"What":"index is stale"}]}`, "1 errors", store.ErrUnknown, nil},
		{"more than was written", 200, `{"Results":[{"KV":{"Key":"soloist/a","ModifyIndex":99}},{"KV":{"Key":"soloist/a","ModifyIndex":99}}]}`, "not written", store.ErrUnknown, nil},
		{"an error of no operation", 409, `{"Errors":[{"OpIndex":-1,"What":"index is stale"}]}`, "operation -1 of 1", store.ErrUnknown, nil},
		{"an error of another operation", 409, `{"Errors":[{"OpIndex":1,"What":"index is stale"}]}`, "operation 1 of 1", store.ErrUnknown, nil},
	} {
		t.Run(test.rule, func(t *testing.T) {
			f := newFake(t)
			f.meets(replies(test.status, test.body))
			g, err := acquire(background, on(t, f.addr(), "soloist"), "a", "x", time.Hour)
			if err == nil || g.Token != 0 || test.is != nil && !errors.Is(err, test.is) || test.isNot != nil && errors.Is(err, test.isNot) || !says(err, test.says) {
				t.Errorf("got %v, %v, want an error that is %v and not %v, and says %q", g, err, test.is, test.isNot, test.says)
			}
		})
	}
}

// TestReads: what cannot be a reply to a read is an error, and no record is free because of it.
func TestReads(t *testing.T) {
	other := newFake(t)
	if _, err := acquire(background, on(t, other.addr(), "soloist"), "a", "y", time.Hour); err != nil {
		t.Fatal(err)
	}
	record := func(index, more string) string { // one that is good, but for its index or what is beside it
		return fmt.Sprintf(`{"Results":[{"KV":{"Key":"soloist/a","Value":%q,"ModifyIndex":%s%s}}]}`, base64.StdEncoding.EncodeToString(other.entries["soloist/a"].Value), index, more)
	}
	for rule, test := range map[string]struct {
		status     int
		body, says string
	}{
		"nonsense":                  {200, "<html>", "not one of Consul"},
		"the key of another name":   {200, `{"Results":[{"KV":{"Key":"soloist/b","ModifyIndex":0}}]}`, "wrong place"},
		"two keys":                  {200, `{"Results":[{"KV":{"Key":"soloist/a","ModifyIndex":0}},{"KV":{"Key":"soloist/a","ModifyIndex":0}}]}`, "wrong place"},
		"a key that may not be":     {200, `{"Results":[],"Errors":null}`, "key_prefix"},
		"a key that is locked":      {200, record("7", `,"Session":"s"`), "locked by a session"},
		"an index that is no token": {200, record("18446744073709551615", ""), "too large"},
		"an old version":            {409, `{"Errors":[{"OpIndex":0,"What":"unknown verb \"get-or-empty\""}]}`, "Consul 1.14 or later"},
	} {
		t.Run(rule, func(t *testing.T) {
			f := newFake(t)
			f.meets(func(w http.ResponseWriter, r *http.Request, _ func()) bool {
				if writes(r) {
					t.Error("something was written")
				}
				w.WriteHeader(test.status)
				_, _ = io.WriteString(w, test.body)
				return true
			})
			if g, err := acquire(background, on(t, f.addr(), "soloist"), "a", "x", time.Hour); err == nil || errors.Is(err, store.ErrUnknown) || !says(err, test.says) {
				t.Errorf("got %v, %v, want an error that says %q, and that nothing was written", g, err, test.says)
			}
		})
	}
}

// TestWrongPorts: the error says what to do about an address that is not that of Consul, and quotes nothing of what it has sent.
func TestWrongPorts(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var open sync.WaitGroup
	t.Cleanup(func() { _ = listener.Close(); open.Wait() })
	open.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			open.Go(func() {
				defer conn.Close()
				_, _ = conn.Read(make([]byte, 1))
				_, _ = io.WriteString(conn, "INFO its own words\r\n\r\n")
			})
		}
	})
	for url, want := range map[string]string{
		"consul://" + listener.Addr().String():         "is it the address of Consul's HTTP API?",
		"consul://" + newFake(t).addr() + "/?tls=true": "leave out tls=true",
	} {
		s, err := consulstore.OpenURL(background, url)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Ping(background); !says(err, want) || says(err, "its own words") {
			t.Errorf("%s: %v, want an error that says %q", url, err, want)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestLostReplies: a write whose connection breaks is unknown, whether it was carried out or not, and asking again gives what the first one did.
func TestLostReplies(t *testing.T) {
	const before, after, within = "before it was carried out", "after it was carried out", "within the reply"
	for _, rule := range []string{before, after, within} {
		t.Run(rule, func(t *testing.T) {
			f := newFake(t)
			s := open(t, consulstore.Config{Addresses: []string{f.addr(), f.addr()}}) // it is not sent to the second one
			var lose atomic.Bool
			f.meets(func(w http.ResponseWriter, r *http.Request, carryOut func()) bool {
				if !writes(r) || !lose.Swap(false) {
					return false
				}
				if rule != before {
					carryOut()
				}
				if rule == within {
					w.Header().Set("Content-Length", "1000")
					_, _ = io.WriteString(w, `{"Results":[`)
					_ = http.NewResponseController(w).Flush()
				}
				cut()
				return true
			})
			meets := func(what string, do func() error) {
				t.Helper()
				lose.Store(true)
				if err := do(); !errors.Is(err, store.ErrUnknown) {
					t.Errorf("%s: got %v, want an unknown outcome", what, err)
				}
				if err := do(); err != nil {
					t.Errorf("the second %s: %v", what, err)
				}
			}
			var g store.Grant
			meets("claim", func() (err error) { g, err = acquire(background, s, "a", "x", time.Hour); return err })
			if index := f.entries["soloist/a"].ModifyIndex; g.Token != int64(index) {
				t.Errorf("got token %d, want %d, that of the record", g.Token, index)
			}
			meets("extension", func() error { return extend(background, s, "a", "x", g.Token, time.Hour) })
			meets("release", func() error { return release(background, s, "a", "x", g.Token) })
		})
	}
}

// TestRepliesThatDoNotCome: a write that is cut off by its context is unknown, and one that is not sent any more is not.
func TestRepliesThatDoNotCome(t *testing.T) {
	f := newFake(t)
	s := on(t, f.addr(), "soloist")
	ctx, cancel := context.WithCancel(background)
	f.meets(func(_ http.ResponseWriter, r *http.Request, carryOut func()) bool {
		if !writes(r) {
			return false
		}
		carryOut()
		cancel()
		<-r.Context().Done()
		return true
	})
	if _, err := acquire(ctx, s, "a", "x", time.Hour); !errors.Is(err, store.ErrUnknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want an unknown outcome", err)
	}
	if _, err := acquire(ctx, s, "a", "x", time.Hour); err == nil || errors.Is(err, store.ErrUnknown) {
		t.Errorf("got %v, want that nothing was sent", err)
	}
}

// TestWriteThatIsNotSent: a write for which there was no connection any more, after a read that had one, has surely not
// been carried out.
func TestWriteThatIsNotSent(t *testing.T) {
	f := newFake(t)
	s := on(t, f.addr(), "soloist")
	f.meets(func(w http.ResponseWriter, r *http.Request, _ func()) bool {
		if writes(r) {
			t.Error("something was written")
		}
		w.Header().Set("Connection", "close")
		_ = f.Listener.Close()
		return false
	})
	if g, err := acquire(background, s, "a", "x", time.Hour); errors.Is(err, store.ErrUnknown) ||
		!says(err, "nothing was sent") || !says(err, "writing") || g.Token != 0 {
		t.Errorf("got %v, %v, want that nothing was sent", g, err)
	}
}

// TestIndexFalls: a store that has seen a later index than Consul confirms, or the same one, grants nothing, and reports that tokens would be granted again.
func TestIndexFalls(t *testing.T) {
	for index, want := range map[uint64]string{5: "has fallen from 11 to 6", 10: "has fallen from 11 to 11"} {
		f := newFake(t)
		s := on(t, f.addr(), "soloist")
		a, err := acquire(background, s, "a", "x", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		f.mu.Lock()
		f.index, f.entries = index, map[string]*entry{}
		f.mu.Unlock()
		if g, err := acquire(background, s, "b", "x", time.Hour); !errors.Is(err, store.ErrUnusable) || !says(err, want) {
			t.Errorf("got %v, %v, want that the index %s", g, err, want)
		}
		for range 2 { // the record of that claim is there, with a token that is too small
			if g, err := acquire(background, s, "b", "x", time.Hour); !errors.Is(err, store.ErrUnusable) {
				t.Errorf("the second claim got %v, %v, want that the index has fallen", g, err)
			}
		}
		for what, do := range map[string]func() error{
			"an extension": func() error { return extend(background, s, "a", "x", a.Token, time.Hour) },
			"a release":    func() error { return release(background, s, "a", "x", a.Token) },
			"a list":       func() error { _, err := list(s); return err },
			"a sweep":      func() error { _, err := s.Sweep(background, 10); return err },
			"a watch":      func() error { _, err := s.Watch(t.Context(), []string{"a"}); return err },
			"a ping":       func() error { return s.Ping(background) },
		} {
			if err := do(); !errors.Is(err, store.ErrUnusable) {
				t.Errorf("%s: %v, want that the index has fallen", what, err)
			}
		}
	}
}

// TestIndexThatWasRead: an index that was only read counts, too.
func TestIndexThatWasRead(t *testing.T) {
	refused := func(s *consulstore.Store, name string) error {
		_, err := acquire(background, s, name, "y", time.Hour)
		if errors.Is(err, store.ErrHeld) {
			return nil
		}
		return fmt.Errorf("not refused: %w", err)
	}
	for rule, see := range map[string]func(s *consulstore.Store) error{
		"a refusal":                        func(s *consulstore.Store) error { return refused(s, "b") },
		"a refusal, and an older one next": func(s *consulstore.Store) error { return errors.Join(refused(s, "b"), refused(s, "a")) },
		"a watch": func(s *consulstore.Store) error {
			_, err := s.Watch(t.Context(), []string{"b"})
			return err
		},
	} {
		f := newFake(t)
		for _, name := range []string{"a", "b"} {
			if _, err := acquire(background, on(t, f.addr(), "soloist"), name, "x", time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		s := on(t, f.addr(), "soloist")
		if err := see(s); err != nil {
			t.Fatalf("%s: %v", rule, err)
		}
		f.mu.Lock()
		f.index, f.entries = 11, map[string]*entry{} // the next one is that of b
		f.mu.Unlock()
		if g, err := acquire(background, s, "a", "y", time.Hour); !errors.Is(err, store.ErrUnusable) {
			t.Errorf("%s: got %v, %v, want that the index has fallen", rule, g, err)
		}
	}
}

// TestImportedRecords: a record whose token is greater than its index was written in another datacenter. It is not replaced by a grant with a smaller token.
func TestImportedRecords(t *testing.T) {
	f, other := newFake(t), newFake(t)
	other.index = 1000
	s := on(t, other.addr(), "soloist")
	g, err := acquire(background, s, "a", "x", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if err := release(background, s, "a", "x", g.Token); err != nil {
		t.Fatal(err)
	}
	f.entries["soloist/a"] = &entry{Key: "soloist/a", Value: other.entries["soloist/a"].Value, ModifyIndex: 9}
	if g, err := acquire(background, on(t, f.addr(), "soloist"), "a", "y", time.Hour); err == nil || !says(err, "imported") {
		t.Errorf("got %v, %v, want that the record was imported", g, err)
	}
}

// TestNextAddress: a request of which nothing was sent is sent to the next address, and one that may have been carried out is not.
func TestNextAddress(t *testing.T) {
	gone := fmt.Sprintf("127.0.0.1:%d", servers.FreePort(t))
	f, g := newFake(t), newFake(t)
	s := open(t, consulstore.Config{Addresses: []string{gone, f.addr(), g.addr()}})
	if _, err := acquire(background, s, "a", "x", time.Hour); err != nil {
		t.Errorf("with the first address down: %v", err)
	}
	f.meets(func(_ http.ResponseWriter, r *http.Request, carryOut func()) bool { carryOut(); cut(); return true })
	if _, err := acquire(background, s, "b", "x", time.Hour); err == nil {
		t.Error("a request that was cut off was sent to the next address")
	}
	if len(g.entries) != 0 {
		t.Errorf("the next address has %d records", len(g.entries))
	}
	if err := s.Ping(background); err != nil { // the next request goes there
		t.Error(err)
	}
	both := newFake(t)
	var arrived sync.WaitGroup
	var asked atomic.Int64
	arrived.Add(2)
	both.meets(func(http.ResponseWriter, *http.Request, func()) bool {
		if asked.Add(1) <= 2 {
			arrived.Done()
			arrived.Wait()
		}
		cut()
		return true
	})
	s = open(t, consulstore.Config{Addresses: []string{both.addr(), g.addr(), gone}})
	var failed sync.WaitGroup
	for range 2 {
		failed.Go(func() {
			if err := s.Ping(background); err == nil {
				t.Error("a request that was cut off has no error")
			}
		})
	}
	failed.Wait()
	if err := s.Ping(background); err != nil {
		t.Errorf("after two errors of one address at once: %v, want that the next one is asked", err)
	}
	failing := newFake(t)
	failing.meets(func(w http.ResponseWriter, _ *http.Request, _ func()) bool { // it replies, and its servers are cut off
		http.Error(w, "No cluster leader", http.StatusInternalServerError)
		return true
	})
	s = open(t, consulstore.Config{Addresses: []string{failing.addr(), g.addr()}})
	if err := s.Ping(background); err == nil {
		t.Error("a reply that is an error is none")
	}
	if err := s.Ping(background); err != nil {
		t.Errorf("after an error of one address: %v, want that the next one is asked", err)
	}
	silent := newFake(t)
	silent.meets(func(_ http.ResponseWriter, r *http.Request, _ func()) bool {
		_, _ = io.Copy(io.Discard, r.Body) // or the end of the connection is not noticed
		<-r.Context().Done()
		return true
	})
	s = open(t, consulstore.Config{Addresses: []string{silent.addr(), g.addr()}})
	bound, cancel := context.WithTimeout(background, 100*time.Millisecond)
	defer cancel()
	if err := s.Ping(bound); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without a reply: %v", err)
	}
	patient, end := context.WithTimeout(background, servers.Patience)
	defer end()
	if err := s.Ping(patient); err != nil {
		t.Errorf("after a request that had no reply in time: %v, want that the next one is asked", err)
	}
	nobody := open(t, consulstore.Config{Addresses: []string{gone, gone}})
	if _, err := acquire(background, nobody, "a", "x", time.Hour); err == nil || errors.Is(err, store.ErrUnknown) || !says(err, "nothing was sent") {
		t.Errorf("with all addresses down: %v, want that nothing was sent", err)
	}
}

// TestNoToken: errors do not have the token, whatever a server replies.
func TestNoToken(t *testing.T) {
	f := newFake(t)
	f.meets(func(w http.ResponseWriter, r *http.Request, _ func()) bool {
		http.Error(w, "no leader for "+r.Header.Get("X-Consul-Token"), http.StatusInternalServerError)
		return true
	})
	s := open(t, consulstore.Config{Addresses: []string{f.addr()}, Token: "canary"})
	if _, err := acquire(background, s, "a", "x", time.Hour); err == nil || says(err, "canary") || !says(err, "(token)") {
		t.Errorf("got %v, want an error without the token", err)
	}
	f.meets(func(w http.ResponseWriter, r *http.Request, _ func()) bool { // a long text, which is shown in part
		http.Error(w, strings.Repeat("x", 296)+r.Header.Get("X-Consul-Token"), http.StatusInternalServerError)
		return true
	})
	if _, err := acquire(background, s, "a", "x", time.Hour); err == nil || says(err, "xcan") {
		t.Errorf("got %v, want an error without a part of the token", err)
	}
}

// TestNamespaceOfNoEnterprise: transactions of a Consul without namespaces ignore them, so the store asks first.
func TestNamespaceOfNoEnterprise(t *testing.T) {
	f := newFake(t)
	f.meets(func(w http.ResponseWriter, r *http.Request, _ func()) bool {
		scoped := r.URL.Query().Has("ns") || r.URL.Query().Has("partition")
		if scoped {
			http.Error(w, `Invalid query parameter: "ns" - Namespaces are a Consul Enterprise feature`, http.StatusBadRequest)
		}
		return scoped
	})
	for _, cfg := range []consulstore.Config{{Namespace: "team"}, {Partition: "part"}} {
		cfg.Addresses = []string{f.addr()}
		s := open(t, cfg)
		for range 2 {
			if _, err := acquire(background, s, "a", "x", time.Hour); err == nil || errors.Is(err, store.ErrUnknown) || !says(err, "need Consul Enterprise") {
				t.Errorf("got %v, want that namespaces need Enterprise", err)
			}
		}
	}
	if len(f.entries) != 0 {
		t.Error("something was written")
	}
}

// TestScope: requests name namespace, partition and datacenter, and reads are decided by the leader. Whether there are namespaces is asked once.
func TestScope(t *testing.T) {
	f := newFake(t)
	var mu sync.Mutex
	var seen []string
	f.meets(func(_ http.ResponseWriter, r *http.Request, _ func()) bool {
		text := r.URL.Query().Encode()
		if r.URL.Path == "/v1/txn" {
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(strings.NewReader(string(body)))
			text += " " + string(body)
		}
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, text)
		return false
	})
	s := open(t, consulstore.Config{Addresses: []string{f.addr()}, Datacenter: "dc2", Namespace: "team", Partition: "part"})
	g, err := acquire(background, s, "a", "x", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := list(s); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Watch(t.Context(), []string{"a"}); err != nil {
		t.Fatal(err)
	}
	if err := release(background, s, "a", "x", g.Token); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Sweep(background, 10); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	asked := 0
	for _, text := range seen {
		query, body, txn := strings.Cut(text, " ")
		if !strings.Contains(query, "dc=dc2") || !txn && !strings.Contains(query, "ns=team&partition=part") ||
			txn && !strings.Contains(body, `"Namespace":"team","Partition":"part"`) {
			t.Errorf("the request %s", text)
		}
		switch reads := !txn || strings.Contains(body, "get-or-empty"); {
		case query == "dc=dc2&ns=team&partition=part":
			asked++
		case reads != (strings.Contains(query, "consistent=") || strings.Contains(query, "index=")):
			t.Errorf("the request %s is not decided by the leader", text)
		}
	}
	if asked != 1 {
		t.Errorf("whether there are namespaces was asked %d times", asked)
	}
}

// TestBatches: one change that is refused does not keep others in its transaction from being carried out, and large changes are divided.
func TestBatches(t *testing.T) {
	f := newFake(t)
	s, other := on(t, f.addr(), "soloist"), on(t, f.addr(), "soloist")
	var extensions []store.Extension
	for i := range 200 {
		name := fmt.Sprint("n", i)
		g, err := acquire(background, s, name, "x", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		extensions = append(extensions, store.Extension{Name: name, Holder: "x", Token: g.Token, TTL: time.Hour})
	}
	for _, i := range []int{0, 127, 150} {
		if err := release(background, other, extensions[i].Name, "x", extensions[i].Token); err != nil {
			t.Fatal(err)
		}
	}
	errs, err := s.Extend(background, extensions)
	if err != nil {
		t.Fatal(err)
	}
	for i, err := range errs {
		if lost := i == 0 || i == 127 || i == 150; errors.Is(err, store.ErrLost) != lost || !lost && err != nil {
			t.Errorf("extension %d: %v", i, err)
		}
	}
	var largest atomic.Int64
	f.meets(func(_ http.ResponseWriter, r *http.Request, _ func()) bool {
		largest.Store(max(largest.Load(), r.ContentLength))
		return false
	})
	for _, size := range []int{store.MaxState, 20_000} {
		for i := range extensions {
			extensions[i].State = make([]byte, size)
		}
		if errs, err = s.Extend(background, extensions[1:100]); err != nil || errors.Join(errs...) != nil {
			t.Errorf("%v, %v", errs, err)
		}
		if n := largest.Load(); n > 512<<10 {
			t.Errorf("with states of %d bytes a request has %d bytes, want at most 512 KiB", size, n)
		}
	}
}

// TestRestOfATransaction: when one change was refused, the others are sent again, and what becomes of that is reported for them alone.
func TestRestOfATransaction(t *testing.T) {
	f := newFake(t)
	s, other := on(t, f.addr(), "soloist"), on(t, f.addr(), "soloist")
	var extensions []store.Extension
	for _, name := range []string{"a", "b", "c"} {
		g, err := acquire(background, s, name, "x", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		extensions = append(extensions, store.Extension{Name: name, Holder: "x", Token: g.Token, TTL: time.Hour})
	}
	if err := release(background, other, "a", "x", extensions[0].Token); err != nil {
		t.Fatal(err)
	}
	var sent atomic.Int64
	f.meets(func(w http.ResponseWriter, r *http.Request, _ func()) bool {
		if !writes(r) || sent.Add(1) != 2 {
			return false
		}
		http.Error(w, "leadership lost", http.StatusInternalServerError)
		return true
	})
	errs, err := s.Extend(background, extensions)
	if err != nil || !errors.Is(errs[0], store.ErrLost) || !errors.Is(errs[1], store.ErrUnknown) || !errors.Is(errs[2], store.ErrUnknown) {
		t.Errorf("%v, %v, want that the first is lost, and the others are unknown", errs, err)
	}
	f.meets(func(w http.ResponseWriter, r *http.Request, carryOut func()) bool { // two indexes for one transaction
		if !writes(r) {
			return false
		}
		_, _ = io.WriteString(w, `{"Results":[{"KV":{"Key":"soloist/d","ModifyIndex":90}},{"KV":{"Key":"soloist/e","ModifyIndex":91}}]}`)
		return true
	})
	outcomes, err := other.Acquire(background, []store.Claim{{Name: "d", Holder: "x", TTL: time.Hour}, {Name: "e", Holder: "x", TTL: time.Hour}})
	if err != nil || !errors.Is(outcomes[0].Err, store.ErrUnknown) || !errors.Is(outcomes[1].Err, store.ErrUnknown) {
		t.Errorf("%v, %v, want that a transaction has one index", outcomes, err)
	}
}

// fill makes a fake have n records that may be forgotten.
func (f *fake) fill(t *testing.T, n int) {
	t.Helper()
	s := on(t, f.addr(), "soloist")
	g, err := acquire(background, s, "n", "x", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if err := release(background, s, "n", "x", g.Token); err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	value := regexp.MustCompile(`"forget_at":"[^"]*"`).ReplaceAll(f.entries["soloist/n"].Value, []byte(`"forget_at":"2001-01-01T00:00:00Z"`))
	delete(f.entries, "soloist/n")
	for i := range n {
		key := fmt.Sprintf("soloist/n%04d", i)
		f.entries[key] = &entry{Key: key, Value: value, ModifyIndex: f.index}
	}
}

// TestManyNames: a list has all names in their order, and sweeps come to all of them, though they are read in several requests.
func TestManyNames(t *testing.T) {
	const names = 1100 // more than a list reads at once, and than one sweep
	f := newFake(t)
	f.fill(t, names)
	s := on(t, f.addr(), "soloist")
	all, err := list(s)
	if err != nil || len(all) != names || !slices.IsSortedFunc(all, func(a, b store.Record) int { return strings.Compare(a.Name, b.Name) }) {
		t.Errorf("%d records, %v, want %d in order", len(all), err, names)
	}
	for _, want := range []int{1000, names - 1000} {
		if n, err := s.Sweep(background, names); err != nil || n != want {
			t.Errorf("%d were forgotten, %v, want %d", n, err, want)
		}
	}
	if n := len(f.entries); n != 0 {
		t.Errorf("there are %d still", n)
	}
	f.fill(t, 10)
	if n, err := s.Sweep(background, names); err != nil || n != 10 {
		t.Errorf("of ten new ones %d were forgotten, %v", n, err)
	}
}

// TestListThatIsNotWhole: an error of one of the requests of a list is that of the list, so nobody takes it for whole.
func TestListThatIsNotWhole(t *testing.T) {
	f := newFake(t)
	f.fill(t, 1100) // more than are read at once
	for _, fails := range []string{"keys", "soloist/n0000", "soloist/n0199", "soloist/n1099"} {
		f.meets(func(w http.ResponseWriter, r *http.Request, _ func()) bool {
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			if !r.URL.Query().Has(fails) && !bytes.Contains(body, []byte(fails)) {
				return false
			}
			http.Error(w, "No cluster leader", http.StatusInternalServerError)
			return true
		})
		if all, err := list(on(t, f.addr(), "soloist")); !says(err, "no leader") {
			t.Errorf("without %s: %d records, %v, want an error", fails, len(all), err)
		}
	}
	f.meets(func(w http.ResponseWriter, _ *http.Request, _ func()) bool {
		w.Header().Set("X-Consul-Results-Filtered-By-ACLs", "true")
		return false
	})
	if all, err := list(on(t, f.addr(), "soloist")); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("without what the token may not read: %d records, %v, want an error", len(all), err)
	}
}

// TestListOfNothing: that there are no keys is believed only if a read of one says so, too, and a list that cannot be
// read is not one of no names.
func TestListOfNothing(t *testing.T) {
	f := newFake(t)
	f.fill(t, 3)
	for what, test := range map[string]struct {
		status int
		body   string
		fails  bool // the read that follows
		says   string
	}{
		"not there":             {http.StatusNotFound, "", true, "no leader"},
		"nonsense":              {http.StatusOK, "<html>", false, "not one of Consul"},
		"something else":        {http.StatusOK, `{"keys":[]}`, false, "not one of Consul"},
		"keys that are no text": {http.StatusOK, `["soloist/n0000",1]`, false, "not one of Consul"},
	} {
		f.meets(func(w http.ResponseWriter, r *http.Request, _ func()) bool {
			switch {
			case r.URL.Query().Has("keys"):
				w.WriteHeader(test.status)
				_, _ = io.WriteString(w, test.body)
			case test.fails:
				http.Error(w, "No cluster leader", http.StatusInternalServerError)
			default:
				return false
			}
			return true
		})
		s := on(t, f.addr(), "soloist")
		if all, err := list(s); !says(err, test.says) {
			t.Errorf("%s: %d records, %v, want an error that says %q", what, len(all), err, test.says)
		}
		if n, err := s.Sweep(background, 10); n != 0 || !says(err, test.says) {
			t.Errorf("%s: a sweep forgot %d, %v, want an error that says %q", what, n, err, test.says)
		}
	}
	if n := len(f.entries); n != 3 {
		t.Errorf("%d records are left, want 3", n)
	}
}

// TestUnreadableBesideOthers: lists and sweeps come to all names, also if the key of one is that of no name, or its
// record cannot be read. They say so of each, and leave it where it is.
func TestUnreadableBesideOthers(t *testing.T) {
	f := newFake(t)
	f.fill(t, 5)
	f.mu.Lock()
	f.entries["soloist/n0001"].Value = []byte("held")
	f.entries["soloist/=zz"] = &entry{Key: "soloist/=zz", Value: f.entries["soloist/n0002"].Value, ModifyIndex: f.index}
	f.mu.Unlock()
	s := on(t, f.addr(), "soloist")
	all, err := list(s)
	var names []string
	for _, r := range all {
		names = append(names, r.Name)
	}
	if !slices.Equal(names, []string{"n0000", "n0002", "n0003", "n0004"}) || !says(err, `"soloist/n0001"`) ||
		!says(err, `"soloist/=zz"`) {
		t.Errorf("%q, %v, want the others, and an error that names both", names, err)
	}
	if n, err := s.Sweep(background, 100); n != 4 || !says(err, `"soloist/n0001"`) || !says(err, `"soloist/=zz"`) {
		t.Errorf("a sweep forgot %d, %v, want the others, and an error that names both", n, err)
	}
	if n := len(f.entries); n != 2 {
		t.Errorf("%d keys are left, want the two that cannot be read", n)
	}
}

// TestSweepThatCannotRead: a sweep that cannot read some of the records forgets nothing of them, and says so.
func TestSweepThatCannotRead(t *testing.T) {
	f := newFake(t)
	f.fill(t, 3)
	s := on(t, f.addr(), "soloist")
	f.meets(func(w http.ResponseWriter, r *http.Request, _ func()) bool {
		if r.URL.Path != "/v1/txn" {
			return false
		}
		http.Error(w, "No cluster leader", http.StatusInternalServerError)
		return true
	})
	if n, err := s.Sweep(background, 10); n != 0 || !says(err, "no leader") {
		t.Errorf("%d were forgotten, %v, want an error", n, err)
	}
	f.meets(nil)
	if n, err := s.Sweep(background, 10); n != 3 || err != nil {
		t.Errorf("when they can be read: %d were forgotten, %v, want 3", n, err)
	}
}

// TestRecordThatCannotBeWrittenAgain: a time in a record that could be read, and not be written again, keeps nothing else of its batch from being written.
func TestRecordThatCannotBeWrittenAgain(t *testing.T) {
	f := newFake(t)
	s := on(t, f.addr(), "soloist")
	var extensions []store.Extension
	for _, name := range []string{"a", "b", "c"} {
		g, err := acquire(background, s, name, "x", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		extensions = append(extensions, store.Extension{Name: name, Holder: "x", Token: g.Token, TTL: time.Hour})
	}
	f.mu.Lock()
	f.index++
	e := f.entries["soloist/b"]
	was := *e
	*e = entry{Key: e.Key, ModifyIndex: f.index, Value: bytes.Replace(e.Value, []byte(`"granted_at":`), fmt.Appendf(nil, `"token":%d,"granted_at":"9999-12-31T23:59:59-01:00","forget_at":`, was.ModifyIndex), 1)}
	f.mu.Unlock()
	for range 2 {
		errs, err := s.Extend(background, extensions)
		if err != nil || errs[0] != nil || errs[2] != nil || !says(errs[1], `"b"`) || errors.Is(errs[1], store.ErrLost) {
			t.Errorf("%v, %v, want an error that names b, and no other", errs, err)
		}
	}
}

// TestWatchRestarts: an index that goes backwards wakes those who wait, and the watch begins anew.
func TestWatchRestarts(t *testing.T) {
	f := newFake(t)
	s, other := on(t, f.addr(), "soloist"), on(t, f.addr(), "soloist")
	g, err := acquire(background, other, "a", "x", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	wake, err := s.Watch(t.Context(), []string{"a"})
	if err != nil {
		t.Fatal(err)
	}
	var restored atomic.Bool
	f.meets(func(w http.ResponseWriter, r *http.Request, _ func()) bool {
		if !r.URL.Query().Has("index") || restored.Swap(true) {
			return false
		}
		now := httptest.NewRecorder()
		r.URL.RawQuery = "" // at once
		f.serve(now, r)
		w.Header().Set("X-Consul-Index", "2")
		w.WriteHeader(now.Code)
		_, _ = w.Write(now.Body.Bytes())
		return true
	})
	if err := extend(background, other, "a", "x", g.Token, time.Hour); err != nil { // the query that is under way ends
		t.Fatal(err)
	}
	select { // though somebody has the name, as far as is known
	case _, open := <-wake:
		if !open {
			t.Fatal("the watch was lost")
		}
	case <-time.After(servers.Patience):
		t.Fatal("nobody is woken")
	}
	for len(wake) > 0 {
		<-wake
	}
	if err := release(background, other, "a", "x", g.Token); err != nil {
		t.Fatal(err)
	}
	if _, open := <-wake; !open {
		t.Error("the watch was lost")
	}
}

// TestWatchThatIsAnsweredAtOnce: a Consul that replies to the query of a watch at once, although nothing has changed, is asked again only after a pause.
func TestWatchThatIsAnsweredAtOnce(t *testing.T) {
	f := newFake(t)
	s, other := on(t, f.addr(), "soloist"), on(t, f.addr(), "soloist")
	if _, err := acquire(background, other, "a", "x", time.Hour); err != nil {
		t.Fatal(err)
	}
	const queries, pause = 10, 50 * time.Millisecond
	asked := make(chan struct{}, queries)
	f.meets(func(w http.ResponseWriter, r *http.Request, _ func()) bool {
		if !r.URL.Query().Has("index") {
			return false
		}
		select {
		case asked <- struct{}{}:
		default:
		}
		r.URL.RawQuery = "" // at once
		f.serve(w, r)
		return true
	})
	begun := time.Now()
	if _, err := s.Watch(t.Context(), []string{"a"}); err != nil {
		t.Fatal(err)
	}
	for range queries {
		<-asked
	}
	if took := time.Since(begun); took < (queries-1)*pause {
		t.Errorf("%d queries in %v, want %v between two", queries, took, pause)
	}
}

// TestWatchOfAnotherKey: a reply to the query of a watch that is about another key, or about several, is not believed: the caller asks for the name by itself.
func TestWatchOfAnotherKey(t *testing.T) {
	f := newFake(t)
	s, other := on(t, f.addr(), "soloist"), on(t, f.addr(), "soloist")
	if _, err := acquire(background, other, "b", "x", time.Hour); err != nil {
		t.Fatal(err)
	}
	for what, body := range map[string]func(e string) string{
		"another": func(e string) string { return "[" + e + "]" }, "two": func(e string) string { return "[" + e + "," + e + "]" }, "none": func(string) string { return "[]" },
		"one that cannot be read": func(string) string { return `[{"Key":"soloist/a","ModifyIndex":"x"}]` },
	} {
		f.meets(func(w http.ResponseWriter, r *http.Request, _ func()) bool {
			if r.URL.Path != "/v1/kv/soloist/a" {
				return false
			}
			now := httptest.NewRecorder()
			f.get(now, r, "soloist/b")
			w.Header().Set("X-Consul-Index", now.Header().Get("X-Consul-Index"))
			_, _ = io.WriteString(w, body(strings.Trim(strings.TrimSpace(now.Body.String()), "[]")))
			return true
		})
		if _, err := s.Watch(t.Context(), []string{"a"}); err == nil || !strings.Contains(err.Error(), "soloist/a") {
			t.Errorf("%s: %v, want that it is not about the key", what, err)
		}
	}
}

// TestWatchWithoutAnIndex: a reply that does not contain up to where it is known ends the watch: the next query could not wait for what comes after.
func TestWatchWithoutAnIndex(t *testing.T) {
	for _, index := range []string{"", "0", "-1", "x"} {
		f := newFake(t)
		f.meets(func(w http.ResponseWriter, _ *http.Request, _ func()) bool {
			w.Header().Set("X-Consul-Index", index)
			w.WriteHeader(http.StatusNotFound)
			return true
		})
		if _, err := on(t, f.addr(), "soloist").Watch(t.Context(), []string{"a"}); !says(err, "its index is") {
			t.Errorf("the index %q: %v, want an error", index, err)
		}
	}
}

// TestWatchThatDoesNotBegin: a call that gives up while its names are read for the first time, or that fails because of one of them, watches none of them any more.
func TestWatchThatDoesNotBegin(t *testing.T) {
	for _, fails := range []bool{false, true} {
		f := newFake(t)
		s := on(t, f.addr(), "soloist")
		names := make([]string, 64) // as many as one store follows
		for i := range names {
			names[i] = fmt.Sprint("n", i)
		}
		ctx, cancel := context.WithCancel(background)
		defer cancel()
		f.meets(func(w http.ResponseWriter, r *http.Request, _ func()) bool {
			switch {
			case r.URL.Path != "/v1/kv/soloist/n1":
				return false
			case fails:
				http.Error(w, "No cluster leader", http.StatusInternalServerError)
			default:
				cancel()
				<-r.Context().Done()
			}
			return true
		})
		if _, err := s.Watch(ctx, names); err == nil || !fails && !errors.Is(err, context.Canceled) {
			t.Errorf("fails %t: %v", fails, err)
		}
		if _, err := s.Watch(t.Context(), []string{"more"}); err != nil {
			t.Errorf("fails %t: the next watch: %v", fails, err)
		}
	}
}

// TestWatchOfSeveralIsLost: who watches two names loses both when the query of one fails, and others who watch one of them go on.
func TestWatchOfSeveralIsLost(t *testing.T) {
	f := newFake(t)
	s, other := on(t, f.addr(), "soloist"), on(t, f.addr(), "soloist")
	g, err := acquire(background, other, "b", "x", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	fail := make(chan struct{})
	f.meets(func(w http.ResponseWriter, r *http.Request, _ func()) bool {
		if r.URL.Path != "/v1/kv/soloist/a" || !r.URL.Query().Has("index") {
			return false
		}
		<-fail
		http.Error(w, "No cluster leader", http.StatusInternalServerError)
		return true
	})
	three, err := s.Watch(t.Context(), []string{"a", "b", "c"})
	if err != nil {
		t.Fatal(err)
	}
	one, err := s.Watch(t.Context(), []string{"b"})
	if err != nil {
		t.Fatal(err)
	}
	close(fail)
	for range three { // until it is closed
	}
	if err := release(background, other, "b", "x", g.Token); err != nil {
		t.Fatal(err)
	}
	if _, open := <-one; !open {
		t.Error("a watch of another name was lost")
	}
	names := make([]string, 63) // as many as one store follows beside b
	for i := range names {
		names[i] = fmt.Sprint("n", i)
	}
	if _, err := s.Watch(t.Context(), names); err != nil {
		t.Errorf("a name for which nobody waits is watched: %v", err)
	}
}

// TestWatchesAreBounded: a store follows 64 names, each with one query for all who wait for it, and refuses more, so that the caller polls.
func TestWatchesAreBounded(t *testing.T) {
	f := newFake(t)
	s := on(t, f.addr(), "soloist")
	var queries atomic.Int64
	f.meets(func(_ http.ResponseWriter, r *http.Request, _ func()) bool {
		if strings.HasPrefix(r.URL.Path, "/v1/kv/") && !r.URL.Query().Has("index") {
			queries.Add(1)
		}
		return false
	})
	var names []string
	for i := range 64 {
		names = append(names, fmt.Sprint("n", i))
	}
	ctx, cancel := context.WithCancel(background)
	for range 3 {
		if _, err := s.Watch(ctx, append(names, names...)); err != nil {
			t.Fatal(err)
		}
	}
	if n := queries.Load(); n != 64 {
		t.Errorf("%d queries, want one for each name", n)
	}
	if _, err := s.Watch(ctx, []string{"n1", "more"}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("the 65th name: %v", err)
	}
	wake, err := s.Watch(background, []string{"n1"})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	another, err := s.Watch(background, []string{"more"}) // when the others have ended
	for ; errors.Is(err, errors.ErrUnsupported); another, err = s.Watch(background, []string{"more"}) {
	}
	if err != nil {
		t.Fatal(err)
	}
	f.meets(func(http.ResponseWriter, *http.Request, func()) bool { cut(); return true })
	f.CloseClientConnections() // net/http asks once more
	for _, ch := range []<-chan struct{}{wake, another} {
		if _, open := <-ch; open {
			t.Error("a watch that was lost has sent a value")
		}
	}
}

// TestPromisesWithoutAnAgent: without the right to read the agent a single server may run with -dev, so nothing is promised.
func TestPromisesWithoutAnAgent(t *testing.T) {
	const one, three = `["127.0.0.1:1"]`, `["127.0.0.1:1","127.0.0.1:2","127.0.0.1:3"]`
	for rule, test := range map[string]struct {
		peers, agent, datacenter string
		want                     store.Answer
		backend, why             string
	}{
		"one server, which may not be asked":    {one, "", "", store.Unknown, "Consul, servers: 1", "may run with -dev"},
		"three servers, which may not be asked": {three, "", "", store.Yes, "Consul, servers: 3", "of 3 servers"},
		"one server behind an agent":            {one, `{"Config":{"Version":"1.22.2","Server":false}}`, "", store.Unknown, "Consul 1.22.2, servers: 1", "may run with -dev"},
		"a server of another datacenter":        {one, `{"Config":{"Version":"1.22.2","Server":true,"Datacenter":"dc1"}}`, "dc2", store.Unknown, "Consul 1.22.2, servers: 1", "may run with -dev"},
		"one server":                            {one, `{"Config":{"Version":"1.22.2","Server":true}}`, "", store.Yes, "Consul 1.22.2, servers: 1", "only server"},
		"one server of the datacenter":          {one, `{"Config":{"Version":"1.22.2","Server":true,"Datacenter":"dc1"}}`, "dc1", store.Yes, "Consul 1.22.2, servers: 1", "only server"},
		"a server with -dev":                    {one, `{"Config":{"Version":"1.22.2","Server":true},"DebugConfig":{"DevMode":true}}`, "", store.No, "Consul 1.22.2, servers: 1", "runs with -dev"},
	} {
		f := newFake(t)
		f.meets(func(w http.ResponseWriter, r *http.Request, _ func()) bool {
			switch {
			case r.URL.Path == "/v1/status/peers":
				_, _ = io.WriteString(w, test.peers)
			case r.URL.Path == "/v1/agent/self" && test.agent != "":
				_, _ = io.WriteString(w, test.agent)
			default:
				return false
			}
			return true
		})
		c, err := open(t, consulstore.Config{Addresses: []string{f.addr()}, Datacenter: test.datacenter}).Capabilities(background)
		if err != nil || c.Fencing.Answer != test.want || c.Durable.Answer != test.want || c.Backend != test.backend || !strings.Contains(c.Durable.Why, test.why) {
			t.Errorf("%s: %+v, %v, want %v of %q, because of %q", rule, c, err, test.want, test.backend, test.why)
		}
	}
}

// TestExaminations: what is found out about the servers, the agent and the rights, and how bad that is. What could not be asked is not good.
func TestExaminations(t *testing.T) {
	const one, agent = `["127.0.0.1:1"]`, `{"Config":{"Version":"1.22.2","Server":true},"DebugConfig":{"ACLsEnabled":true}}`
	denied := func(w http.ResponseWriter) { http.Error(w, "Permission denied", http.StatusForbidden) }
	failed := func(w http.ResponseWriter) { http.Error(w, "No cluster leader", http.StatusInternalServerError) }
	refused := func(w http.ResponseWriter) {
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, `{"Errors":[{"OpIndex":0,"What":"Permission denied"}]}`)
	}
	text := func(s string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { _, _ = io.WriteString(w, s) }
	}
	servers := func(n int) func(http.ResponseWriter) {
		return text("[" + strings.TrimSuffix(strings.Repeat(`"127.0.0.1:1",`, n), ",") + "]")
	}
	for rule, test := range map[string]struct {
		which  string // requests have another reply: peers, self, keys, get or write
		reply  func(http.ResponseWriter)
		want   string // the subjects and levels of what is not good
		broken bool
	}{
		"one server":                        {"", nil, "servers:warning", false},
		"two servers":                       {"peers", servers(2), "servers:warning", false},
		"three servers":                     {"peers", servers(3), "", false},
		"four servers":                      {"peers", servers(4), "servers:warning", false},
		"five servers":                      {"peers", servers(5), "", false},
		"no servers":                        {"peers", text("[]"), "", true},
		"nonsense for servers":              {"peers", text("{}"), "", true},
		"servers not told":                  {"peers", failed, "", true},
		"no version":                        {"self", text("{}"), "", true},
		"nonsense of an agent":              {"self", text("<html>"), "", true},
		"an agent that fails":               {"self", failed, "", true},
		"an agent that is not to be read":   {"self", denied, "servers:warning agent:unknown", false},
		"an agent without ACLs":             {"self", text(`{"Config":{"Version":"1.22.2"}}`), "servers:warning ACLs:warning", false},
		"an agent that keeps all in memory": {"self", text(`{"Config":{"Version":"1.22.2"},"DebugConfig":{"ACLsEnabled":true,"DevMode":true}}`), "servers:warning agent:error", false},
		"no right to read":                  {"get", denied, "servers:warning rights:error", false},
		"no right to list":                  {"keys", denied, "servers:warning rights:error", false},
		"no right to write":                 {"write", refused, "servers:warning rights:error", false},
		"no reply to a read":                {"get", failed, "servers:warning rights:unknown", false},
		"no reply to a list":                {"keys", failed, "servers:warning rights:unknown", false},
		"no reply to a write":               {"write", failed, "servers:warning rights:unknown", false},
	} {
		f := newFake(t)
		f.meets(func(w http.ResponseWriter, r *http.Request, _ func()) bool {
			which := "write"
			switch {
			case r.URL.Path == "/v1/status/peers":
				which = "peers"
			case r.URL.Path == "/v1/agent/self":
				which = "self"
			case r.URL.Query().Has("keys"):
				which = "keys"
			case !writes(r):
				which = "get"
			}
			switch {
			case which == test.which:
				test.reply(w)
			case which == "peers":
				text(one)(w)
			case which == "self":
				text(agent)(w)
			default:
				return false
			}
			return true
		})
		s := on(t, f.addr(), "soloist")
		findings, err := s.Examine(background)
		var bad []string
		for _, f := range findings {
			if f.Level != store.LevelOK {
				bad = append(bad, fmt.Sprintf("%s:%s", f.Subject, f.Level))
			}
			told := true
			switch {
			case f.Subject == "ACLs":
				told = (f.Found == "enabled") == (f.Level == store.LevelOK)
			case f.Subject == "agent" && f.Level != store.LevelUnknown:
				told = strings.Contains(f.Found, "1.22.2") && strings.Contains(f.Found, "-dev") == (f.Level == store.LevelError)
			}
			if (f.Level == store.LevelOK) != (f.Fix == "") || f.Found == "" || !told {
				t.Errorf("%s: %+v", rule, f)
			}
		}
		if got := strings.Join(bad, " "); (err != nil) != test.broken || got != test.want {
			t.Errorf("%s: found %q, %v, want %q", rule, got, err, test.want)
		}
		if _, err := s.Capabilities(background); (err != nil) != test.broken {
			t.Errorf("%s: what it promises: %v", rule, err)
		}
	}
}

// TestTokenFile: the token is read anew for each request.
func TestTokenFile(t *testing.T) {
	f := newFake(t)
	var last atomic.Value
	f.meets(func(_ http.ResponseWriter, r *http.Request, _ func()) bool {
		last.Store(r.Header.Get("X-Consul-Token"))
		return false
	})
	file := t.TempDir() + "/token"
	s := open(t, consulstore.Config{Addresses: []string{f.addr()}, TokenFile: file})
	if err := s.Ping(background); err == nil || !says(err, "reading the token") {
		t.Errorf("without the file: %v", err)
	}
	for _, token := range []string{"first", "second"} {
		write(t, file, token+"\n")
		if err := s.Ping(background); err != nil || last.Load() != token {
			t.Errorf("%v, %q was sent, want %q", err, last.Load(), token)
		}
	}
	for _, text := range []string{"a b\n", "\n", ""} {
		write(t, file, text)
		if err := s.Ping(background); err == nil || says(err, "a b") || !says(err, "has no token") {
			t.Errorf("with %q in the file: %v", text, err)
		}
	}
}

// TestWayWithoutTLS: that everything can be read on the way is reported for each address to which requests may go, and not for the agent of this machine.
func TestWayWithoutTLS(t *testing.T) {
	f := newFake(t)
	f.meets(func(w http.ResponseWriter, r *http.Request, _ func()) bool {
		switch r.URL.Path {
		case "/v1/status/peers":
			_, _ = io.WriteString(w, `["127.0.0.1:1"]`)
		case "/v1/agent/self":
			_, _ = io.WriteString(w, `{"Config":{"Version":"1.22.2","Server":true}}`)
		default:
			return false
		}
		return true
	})
	for also, warns := range map[string]bool{"127.0.0.2:8500": false, "[::1]:8500": false, "localhost:8500": false, "192.0.2.1:8500": true, "consul.example:8500": true} {
		findings, err := open(t, consulstore.Config{Addresses: []string{f.addr(), also}}).Examine(background)
		if err != nil {
			t.Fatal(err)
		}
		warned := slices.ContainsFunc(findings, func(f store.Finding) bool { return f.Subject == "connection" && f.Level == store.LevelWarning })
		if warned != warns {
			t.Errorf("with the address %s: %+v, want a warning of the connection: %v", also, findings, warns)
		}
	}
}
