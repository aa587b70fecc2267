package consulstore_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/consulstore"
	"github.com/soloist-dev/soloist/store/storetest"
	"github.com/soloist-dev/soloist/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

var background = context.Background()

// shared is a server that all tests of one server share.
var shared = servers.Shared(func(t servers.Test) *servers.ConsulServer { return servers.Consul(t, 1, nil)[0] })

var prefixes atomic.Int64

// fresh returns a new prefix of keys.
func fresh() string { return fmt.Sprintf("apps/test-%d", prefixes.Add(1)) }

func open(t testing.TB, cfg consulstore.Config) *consulstore.Store {
	t.Helper()
	s, err := consulstore.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// on returns a store at an address.
func on(t testing.TB, addr, prefix string) *consulstore.Store {
	t.Helper()
	return open(t, consulstore.Config{Addresses: []string{addr}, Prefix: prefix})
}

func acquire(ctx context.Context, s store.Store, name, holder string, ttl time.Duration) (store.Grant, error) {
	outcomes, err := s.Acquire(ctx, []store.Claim{{Name: name, Holder: holder, TTL: ttl}})
	if err != nil {
		return store.Grant{}, err
	}
	return outcomes[0].Grant, outcomes[0].Err
}

func extend(ctx context.Context, s store.Store, name, holder string, token int64, ttl time.Duration) error {
	errs, err := s.Extend(ctx, []store.Extension{{Name: name, Holder: holder, Token: token, TTL: ttl}})
	if err != nil {
		return err
	}
	return errs[0]
}

func release(ctx context.Context, s store.Store, name, holder string, token int64) error {
	errs, err := s.Release(ctx, []store.Release{{Name: name, Holder: holder, Token: token, Retain: time.Hour}})
	if err != nil {
		return err
	}
	return errs[0]
}

// list returns the records of a store.
func list(s store.Store) (all []store.Record, err error) {
	for r, err := range s.List(background, "") {
		if err != nil {
			return all, err
		}
		all = append(all, r)
	}
	return all, nil
}

// says reports whether an error has a text.
func says(err error, text string) bool { return err != nil && strings.Contains(err.Error(), text) }

// A handle is a store with the address and the prefix that it was opened with.
type handle struct {
	*consulstore.Store
	addr, prefix string
}

// Unwrap is the convention of package store.
func (h handle) Unwrap() store.Store { return h.Store }

// request asks Consul as an operator would.
func request(t testing.TB, method, addr, path, body string) (status int, text string, header http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(background, method, "http://"+addr+path, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Consul-Token", operator)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(all), response.Header
}

// operator is the token of who may do everything, on servers with ACLs.
const operator = "11111111-2222-3333-4444-555555555555"

// written returns the index of the last change below a prefix.
func written(t testing.TB, addr, prefix string) int64 {
	t.Helper()
	_, _, header := request(t, http.MethodGet, addr, "/v1/kv/"+prefix+"/?recurse", "")
	index, err := strconv.ParseInt(header.Get("X-Consul-Index"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return index
}

// harness is that of stores at addresses, which take turns.
func harness(addrs ...string) storetest.Harness {
	n := 0
	return storetest.Harness{
		Open: func(t testing.TB) store.Store {
			prefix := fresh()
			return handle{on(t, addrs[0], prefix), addrs[0], prefix}
		},
		Reopen: func(t testing.TB, s store.Store) store.Store {
			n++
			addr := addrs[n%len(addrs)]
			return handle{on(t, addr, s.(handle).prefix), addr, s.(handle).prefix}
		},
		Writes: func(t testing.TB, s store.Store) int64 { return written(t, s.(handle).addr, s.(handle).prefix) },
		Corrupt: func(t testing.TB, s store.Store, name string, way int) string {
			return corrupt(t, s.(handle).addr, s.(handle).prefix, name, way)
		},
		Fail: func(t testing.TB, s store.Store, fate func() storetest.Fate) store.Store {
			h := s.(handle)
			return handle{on(t, failing(t, h.addr, fate), h.prefix), h.addr, h.prefix}
		},
		TTL:   time.Second,
		Names: 300,
	}
}

// failing returns the address of a proxy that replies with an error to the requests that fail.
func failing(t testing.TB, addr string, fate func() storetest.Fate) string {
	t.Helper()
	to := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: addr})
	return listening(t, func(w http.ResponseWriter, r *http.Request) {
		switch fate() {
		case storetest.Carried:
			to.ServeHTTP(w, r)
			return
		case storetest.Unanswered:
			to.ServeHTTP(httptest.NewRecorder(), r)
		}
		http.Error(w, "the connection broke", http.StatusInternalServerError)
	})
}

// listening serves requests until the test ends, and returns the address.
func listening(t testing.TB, serve http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(serve)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return strings.TrimPrefix(server.URL, "http://")
}

func TestConformance(t *testing.T) {
	storetest.Run(t, harness(shared(t).Addr))
}

// corrupt writes over the value of a key.
func corrupt(t testing.TB, addr, prefix, name string, way int) string {
	t.Helper()
	key := "/v1/kv/" + prefix + "/" + strings.NewReplacer(" ", "=20", ":", "=3A", ".", "=2E", "/", "=2F").Replace(name)
	status, text, _ := request(t, http.MethodGet, addr, key+"?raw", "")
	if status != http.StatusOK {
		t.Fatalf("%q: %d", key, status)
	}
	ways := []struct{ what, value string }{
		{"no JSON", "held"},
		{"an empty text", ""},
		{"something after the record", text + text},
		{"a field that is not known", strings.Replace(text, `{"holder"`, `{"owner":"x","holder"`, 1)},
		{"no holder", strings.Replace(text, `"holder":"`, `"holder":"","state":"`, 1)},
		{"no write", strings.Replace(text, `"write":"`, `"write":"","state":"`, 1)},
		{"a token that is no number", strings.Replace(text, `"mark":`, `"token":"x","mark":`, 1)},
		{"a token below 0", strings.Replace(text, `"mark":`, `"token":-1,"mark":`, 1)},
		{"a token of another datacenter", strings.Replace(text, `"mark":`, `"token":9000000000,"mark":`, 1)},
		{"a TTL that no store takes", strings.Replace(text, `"ttl_ns":`, `"ttl_ns":9223372036854775807,"mark":`, 1)},
		{"a lease without a TTL", strings.Replace(text, `"ttl_ns":`, `"ttl_ns":0,"mark":`, 1)},
		{"a time of its grant that cannot be written again", strings.Replace(text, `"granted_at":`, `"granted_at":"9999-12-31T23:59:59-01:00","forget_at":`, 1)},
		{"a holder that no store takes", strings.Replace(text, `"holder":"`, `"holder":"`+strings.Repeat("x", 1000), 1)},
		{"no time of its grant", strings.Replace(text, `"granted_at":`, `"forget_at":`, 1)},
	}
	if way >= len(ways) {
		return ""
	}
	if ways[way].value == text {
		t.Fatalf("%s: nothing was changed in %s", ways[way].what, text)
	}
	if status, text, _ := request(t, http.MethodPut, addr, key, ways[way].value); status != http.StatusOK {
		t.Fatalf("%q: %d: %s", key, status, text)
	}
	return ways[way].what
}
