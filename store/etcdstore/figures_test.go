package etcdstore_test

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"
)

// counts returns how many requests of each kind a server has begun to serve, and how many proposals its cluster has agreed on.
func (s *server) counts(t testing.TB) map[string]int {
	t.Helper()
	response, err := http.Get(s.URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	all := map[string]int{}
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), "} ")
		if method, ok := strings.CutPrefix(name, "grpc_server_started_total{"); ok {
			_, method, _ = strings.Cut(method, `grpc_method="`)
			method, _, _ = strings.Cut(method, `"`)
			n, _ := strconv.ParseFloat(value, 64)
			all[method] += int(n)
		}
		if value, ok := strings.CutPrefix(lines.Text(), "etcd_server_proposals_applied_total "); ok {
			n, _ := strconv.ParseFloat(value, 64)
			all["proposals"] = int(n)
		}
	}
	if all["Txn"] == 0 || all["proposals"] == 0 {
		t.Fatal("the server's metrics have no counts")
	}
	return all
}

// costs returns what a function has cost the server.
func (s *server) costs(t testing.TB, do func()) map[string]int {
	t.Helper()
	before := s.counts(t)
	do()
	cost := map[string]int{}
	for what, n := range s.counts(t) {
		if n -= before[what]; n > 0 {
			cost[what] = n
		}
	}
	return cost
}

// TestRequests counts, at the server, what the verbs cost. It has a server to itself. The leases of etcd are renewed in the background, which a slow machine may
// see in between; their requests are not those of the verbs.
func TestRequests(t *testing.T) {
	member := servers.Etcd(t, 1)[0]
	server := &server{EtcdServer: member, client: newClient(t, member.URL)}
	t.Cleanup(func() { _ = server.client.Close() })
	below := prefix()
	a, b := server.open(t, below), server.open(t, below)
	const ttl = time.Hour
	grant, err := acquire(background, a, "first", ttl) // grants the lease of etcd
	if err != nil {
		t.Fatal(err)
	}
	if _, err := acquire(background, b, "second", ttl); err != nil {
		t.Fatal(err)
	}
	expect := func(what string, do func() error) {
		t.Helper()
		got := server.costs(t, func() {
			if err := do(); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		})
		delete(got, "LeaseKeepAlive")
		delete(got, "proposals")
		if fmt.Sprint(got) != "map[Txn:1]" {
			t.Errorf("%s costs %v, want one transaction", what, got)
		}
	}
	// A server proposes something itself now and then, in its first seconds.
	writesNothing := func(what string, do func() error) {
		t.Helper()
		servers.Wait(t, what+" to be no proposal", func() bool { return server.costs(t, func() { expect(what, do) })["proposals"] == 0 })
	}
	expect("acquiring a new name", func() (err error) { grant, err = acquire(background, a, "name", ttl); return err })
	writesNothing("extending it", func() error { return extend(background, a, "name", grant.Token, ttl) })
	longer, err := acquire(background, a, "longer", 5*ttl)
	if err != nil {
		t.Fatal(err)
	}
	writesNothing("extending two of different TTLs", func() error {
		errs, err := a.Extend(background, []store.Extension{
			{Name: "name", Holder: "x", Token: grant.Token, TTL: ttl}, {Name: "longer", Holder: "x", Token: longer.Token, TTL: 5 * ttl},
		})
		return errors.Join(append(errs, err)...)
	})
	refuse := func() error {
		out, err := b.Acquire(background, []store.Claim{{Name: "name", Holder: "y", TTL: ttl}})
		if err == nil && !errors.Is(out[0].Err, store.ErrHeld) {
			t.Errorf("got %v, want that it is held", out[0].Err)
		}
		return err
	}
	expect("refusing it for the first time", refuse) // it tries to make the name
	writesNothing("refusing it", refuse)
	crowd := func(name string, granted int) func() error {
		claims := make([]store.Claim, 64)
		for i := range claims {
			claims[i] = store.Claim{Name: name, Holder: fmt.Sprint("of the crowd ", i), TTL: ttl}
		}
		return func() error {
			out, err := b.Acquire(background, claims)
			if err != nil {
				return err
			}
			for i, o := range out {
				var held *store.HeldError
				if i < granted && o.Err != nil || i >= granted && (!errors.As(o.Err, &held) || held.Record.Token == 0) {
					t.Errorf("%s, number %d: %v", name, i, o.Err)
				}
			}
			return nil
		}
	}
	expect("refusing it 64 times in a batch", crowd("name", 0))
	expect("granting a new name to the first of 64 in a batch", crowd("new to all", 1))
	expect("releasing it", func() error { return release(background, a, "name", grant.Token) })
	expect("acquiring it again", func() (err error) { grant, err = acquire(background, a, "name", ttl); return err })

	claims := make([]store.Claim, 100)
	for i := range claims {
		claims[i] = store.Claim{Name: fmt.Sprintf("batch/%d", i), Holder: "x", TTL: ttl}
	}
	var outcomes []store.Outcome
	expect("acquiring a hundred names", func() (err error) { outcomes, err = a.Acquire(background, claims); return err })
	releases := make([]store.Release, len(claims))
	for i, c := range claims {
		releases[i] = store.Release{Name: c.Name, Holder: c.Holder, Token: outcomes[i].Grant.Token}
	}
	expect("releasing a hundred names", func() error { _, err := a.Release(background, releases); return err })
}

// TestManyLeases: what 10,000 leases cost for one period, extended a thousand at a time.
func TestManyLeases(t *testing.T) {
	const leases, batch, ttl = 10_000, 1000, time.Hour
	member := servers.Etcd(t, 1)[0]
	server := &server{EtcdServer: member, client: newClient(t, member.URL)}
	t.Cleanup(func() { _ = server.client.Close() })
	below := prefix()
	s := server.open(t, below)
	claims := make([]store.Claim, leases)
	for i := range claims {
		claims[i] = store.Claim{Name: fmt.Sprintf("name/%05d", i), Holder: "x", TTL: ttl}
	}
	outcomes, err := s.Acquire(background, claims)
	if err != nil {
		t.Fatal(err)
	}
	extensions := make([]store.Extension, leases)
	for i, c := range claims {
		if outcomes[i].Err != nil {
			t.Fatal(outcomes[i].Err)
		}
		extensions[i] = store.Extension{Name: c.Name, Holder: c.Holder, Token: outcomes[i].Grant.Token, TTL: ttl}
	}
	granted, err := server.client.Leases(background)
	if err != nil || len(granted.Leases) != 1 {
		t.Errorf("%d leases of etcd, %v, want one", len(granted.Leases), err)
	}
	total := 0
	for what, n := range server.costs(t, func() {
		for i := 0; i < leases; i += batch {
			errs, err := s.Extend(background, extensions[i:i+batch])
			if err != nil {
				t.Fatal(err)
			}
			for j, err := range errs {
				if err != nil {
					t.Fatal(extensions[i+j].Name, err)
				}
			}
		}
	}) {
		if what != "proposals" {
			total += n
		}
	}
	if total > 20 {
		t.Errorf("%d requests to extend %d leases, want at most 20", total, leases)
	}
	t.Logf("%d requests to extend %d leases", total, leases)

	// Another handle ends two of them: the next extension of others of the same session must notice it, also after some have been extended.
	other := server.open(t, below)
	const ended, endedToo = 7, batch + 7
	for _, i := range []int{ended, endedToo} {
		if err := release(background, other, extensions[i].Name, extensions[i].Token); err != nil {
			t.Fatal(err)
		}
	}
	for _, from := range []int{0, batch / 2} {
		errs, err := s.Extend(background, extensions[from:from+batch])
		if err != nil {
			t.Fatal(err)
		}
		for i, err := range errs {
			if lost := err != nil; lost != (from+i == ended || from+i == endedToo) {
				t.Errorf("%s: %v", extensions[from+i].Name, err)
			}
		}
	}
	// After that the others are as cheap as before.
	cost := server.costs(t, func() {
		if errs, err := s.Extend(background, extensions[ended+1:batch]); errors.Join(append(errs, err)...) != nil {
			t.Error(errors.Join(append(errs, err)...))
		}
	})
	if cost["Txn"] != 1 {
		t.Errorf("%v to extend leases of which a process has ended one before, want one transaction", cost)
	}
}
