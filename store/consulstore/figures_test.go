package consulstore_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/consulstore"
	"github.com/soloist-dev/soloist/test/servers"
)

// A counter counts the requests that pass it.
type counter struct {
	addr string
	n    atomic.Int64
}

func counting(t testing.TB, addr string) *counter {
	t.Helper()
	c := &counter{}
	to := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: addr})
	c.addr = listening(t, func(w http.ResponseWriter, r *http.Request) {
		c.n.Add(1)
		to.ServeHTTP(w, r)
	})
	return c
}

func (c *counter) count(f func()) int64 {
	before := c.n.Load()
	f()
	return c.n.Load() - before
}

// TestRequests: what each verb costs.
func TestRequests(t *testing.T) {
	addr, prefix := shared(t).Addr, fresh()
	c := counting(t, addr)
	s, other := on(t, c.addr, prefix), on(t, c.addr, prefix)
	var g store.Grant
	var err error
	for _, step := range []struct {
		what     string
		requests int64
		do       func()
	}{
		{"a name that this process has not seen", 2, func() { g, err = acquire(background, s, "a", "x", time.Hour) }},
		{"a renewal", 1, func() { err = extend(background, s, "a", "x", g.Token, time.Hour) }},
		{"a release", 1, func() { err = release(background, s, "a", "x", g.Token) }},
		{"a name that was released here", 1, func() { g, err = acquire(background, s, "a", "y", time.Hour) }},
	} {
		n := c.count(step.do)
		if err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		if n != step.requests {
			t.Errorf("%s: %d requests, want %d", step.what, n, step.requests)
		}
	}
	before := written(t, addr, prefix)
	for _, s := range []*consulstore.Store{s, other} {
		if n := c.count(func() { _, _ = acquire(background, s, "a", "z", time.Hour) }); n != 1 {
			t.Errorf("a refusal: %d requests, want one", n)
		}
	}
	if now := written(t, addr, prefix); now != before {
		t.Errorf("refusals have written: the index went from %d to %d", before, now)
	}
}

// TestManyLeases: 10,000 leases are extended with a transaction for each 128, and listed with one request more than that.
func TestManyLeases(t *testing.T) {
	c := counting(t, shared(t).Addr)
	s := on(t, c.addr, fresh())
	const n, transactions = 10_000, (10_000 + 127) / 128
	claims := make([]store.Claim, n)
	for i := range claims {
		claims[i] = store.Claim{Name: fmt.Sprint(i), Holder: "x", TTL: time.Hour}
	}
	start := time.Now()
	outcomes, err := s.Acquire(background, claims)
	if err != nil {
		t.Fatal(err)
	}
	acquired := time.Since(start)
	extensions := make([]store.Extension, n)
	for i, o := range outcomes {
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		extensions[i] = store.Extension{Name: claims[i].Name, Holder: "x", Token: o.Grant.Token, TTL: time.Hour}
	}
	start = time.Now()
	requests := c.count(func() {
		errs, err := s.Extend(background, extensions)
		if err != nil {
			t.Fatal(err)
		}
		for i, err := range errs {
			if err != nil {
				t.Fatalf("lease %d: %v", i, err)
			}
		}
	})
	t.Logf("acquired in %v, extended in %v with %d requests", acquired, time.Since(start), requests)
	if requests != transactions {
		t.Errorf("%d leases were extended with %d requests, want %d", n, requests, transactions)
	}
	var all []store.Record
	requests = c.count(func() { all, err = list(s) })
	if err != nil || len(all) != n || requests != 1+transactions+1 && requests != 1+transactions {
		t.Errorf("%d of %d records were listed with %d requests, %v", len(all), n, requests, err)
	}
	looked := 0
	for range 2 * n / 1000 { // two rounds: nothing of it may be forgotten, and each round comes to its end
		k, err := s.Sweep(background, 100)
		if err != nil {
			t.Fatal(err)
		}
		looked += k
	}
	if looked != 0 {
		t.Errorf("%d leases that are held were forgotten", looked)
	}
}

// TestHandOver: a release wakes waiters of another process, and a renewal does not. They know of it: a lease that is not renewed any more has ended a TTL after the last
// renewal, and not a TTL after somebody has looked.
func TestHandOver(t *testing.T) {
	addr, prefix := shared(t).Addr, fresh()
	s, other := on(t, addr, prefix), on(t, addr, prefix)
	g, err := acquire(background, s, "a", "x", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	wake, err := other.Watch(t.Context(), []string{"b", "a"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := extend(background, s, "a", "x", g.Token, time.Hour+time.Duration(i)); err != nil {
			t.Fatal(err)
		}
	}
	servers.Wait(t, "the last renewal to be known to who watches", func() bool { return other.Seen("a").Record.TTL == time.Hour+2 })
	if err := release(background, s, "a", "x", g.Token); err != nil {
		t.Fatal(err)
	}
	if _, open := <-wake; !open {
		t.Fatal("the watch was lost")
	}
	if _, err := acquire(background, other, "a", "y", time.Hour); err != nil {
		t.Errorf("after the first value: %v", err)
	}
}

// TestForgotten: a name that was forgotten is granted again with a greater token.
func TestForgotten(t *testing.T) {
	addr, prefix := shared(t).Addr, fresh()
	s := on(t, addr, prefix)
	g, err := acquire(background, s, "a", "x", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if errs, err := s.Release(background, []store.Release{{Name: "a", Holder: "x", Token: g.Token}}); err != nil || errs[0] != nil {
		t.Fatal(errs, err)
	}
	servers.Wait(t, "the record to be forgotten", func() bool {
		n, err := s.Sweep(background, 10)
		if err != nil {
			t.Fatal(err)
		}
		return n == 1
	})
	if again, err := acquire(background, on(t, addr, prefix), "a", "y", time.Hour); err != nil || again.Token <= g.Token {
		t.Errorf("token %d after %d, %v", again.Token, g.Token, err)
	}
}

// TestForeignKeys: a key of no name, one that `consul lock` has locked, and a session's end are what they are: errors of their own names.
func TestForeignKeys(t *testing.T) {
	addr, prefix := shared(t).Addr, fresh()
	s := on(t, addr, prefix)
	if _, err := acquire(background, s, "mine", "x", time.Hour); err != nil {
		t.Fatal(err)
	}
	request(t, http.MethodPut, addr, "/v1/kv/"+prefix+"/a.b", "x")
	if _, err := list(s); !says(err, "that of no name") {
		t.Errorf("a key of no name: %v", err)
	}
	request(t, http.MethodDelete, addr, "/v1/kv/"+prefix+"/a.b", "")
	_, session, _ := request(t, http.MethodPut, addr, "/v1/session/create", `{"Behavior":"delete"}`)
	id := strings.Split(session, `"`)[3]
	_, record, _ := request(t, http.MethodGet, addr, "/v1/kv/"+prefix+"/mine?raw", "")
	if _, out, _ := request(t, http.MethodPut, addr, "/v1/kv/"+prefix+"/mine?acquire="+id, record); !strings.Contains(out, "true") {
		t.Fatalf("locking: %s", out)
	}
	if _, err := acquire(background, on(t, addr, prefix), "mine", "y", time.Hour); !says(err, "locked by a session") {
		t.Errorf("a key that was locked: %v", err)
	}
}

// TestEditions: this edition of Consul has no namespaces, and says so before anything is written.
func TestEditions(t *testing.T) {
	s := open(t, consulstore.Config{Addresses: []string{shared(t).Addr}, Prefix: fresh(), Namespace: "team"})
	if _, err := acquire(background, s, "a", "x", time.Hour); !says(err, "need Consul Enterprise") {
		t.Errorf("got %v, want that namespaces need Enterprise", err)
	}
	elsewhere := open(t, consulstore.Config{Addresses: []string{shared(t).Addr}, Prefix: fresh(), Datacenter: "dc9"})
	if _, err := acquire(background, elsewhere, "a", "x", time.Hour); !says(err, "no datacenter of that name") {
		t.Errorf("got %v, want that there is no such datacenter", err)
	}
}

// TestExamination: what the store promises, and what an operator learns.
func TestExamination(t *testing.T) {
	s := on(t, shared(t).Addr, fresh())
	c, err := s.Capabilities(background)
	if err != nil || c.Fencing.Answer != store.Yes || c.Durable.Answer != store.Yes || !strings.HasPrefix(c.Backend, "Consul 1.22.2") {
		t.Errorf("%+v, %v", c, err)
	}
	findings, err := s.Examine(background)
	if err != nil {
		t.Fatal(err)
	}
	levels := map[string]store.Level{}
	for _, f := range findings {
		levels[f.Subject] = f.Level
	}
	if levels["servers"] != store.LevelWarning || levels["agent"] != store.LevelOK || levels["ACLs"] != store.LevelWarning || levels["rights"] != store.LevelOK {
		t.Errorf("%+v", findings)
	}
}

// TestCrowd: what a change of the owner costs while sixteen processes wait for a name. It cost 54 requests when each release had all of them claim.
func TestCrowd(t *testing.T) {
	servers.Long(t)
	c, prefix := counting(t, shared(t).Addr), fresh()
	var stores []store.Store
	for range 16 {
		stores = append(stores, on(t, c.addr, prefix))
	}
	servers.Crowd(t, stores, 200) // they learn how many they are
	servers.CrowdCosts(t, stores, 300, 35, func() float64 { return float64(c.n.Load()) })
}

// TestSteppedBack: a process that has lost its races with a crowd looks at the name again although nobody claims it.
func TestSteppedBack(t *testing.T) {
	addr, prefix := shared(t).Addr, fresh()
	loser := on(t, addr, prefix)
	var crowd []*consulstore.Store
	for range 8 {
		crowd = append(crowd, on(t, addr, prefix))
	}
	g, err := acquire(background, crowd[0], "name", "w", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	wake, err := loser.Watch(t.Context(), []string{"name"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 * len(crowd) {
		if err := release(background, crowd[i%len(crowd)], "name", "w", g.Token); err != nil {
			t.Fatal(err)
		}
		if _, open := <-wake; !open {
			t.Fatal("the watch was lost")
		}
		if g, err = acquire(background, crowd[(i+1)%len(crowd)], "name", "w", time.Hour); err != nil {
			t.Fatal(err)
		}
		if _, err := acquire(background, loser, "name", "l", time.Hour); !errors.Is(err, store.ErrHeld) {
			t.Fatalf("got %v, want that it is held", err)
		}
	}
	if err := release(background, crowd[0], "name", "w", g.Token); err != nil {
		t.Fatal(err)
	}
	if _, open := <-wake; !open { // nobody claims it but the loser
		t.Fatal("the watch was lost")
	}
	if _, err := acquire(background, loser, "name", "l", time.Hour); err != nil {
		t.Error(err)
	}
}
