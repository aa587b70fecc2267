package consulstore_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/consulstore"
	"github.com/soloist-dev/soloist/store/storetest"
	"github.com/soloist-dev/soloist/test/servers"
)

// A cluster is three servers.
type cluster []*servers.ConsulServer

func (c cluster) addrs(first int) (all []string) {
	for i := range c {
		all = append(all, c[(first+i)%len(c)].Addr)
	}
	return all
}

// store returns one that uses the server with a number first.
func (c cluster) store(t testing.TB, first int, prefix string) *consulstore.Store {
	t.Helper()
	return open(t, consulstore.Config{Addresses: c.addrs(first), Prefix: prefix, DialTimeout: 2 * time.Second})
}

// leader returns the leader, and waits until there is one.
func (c cluster) leader(t testing.TB) (found *servers.ConsulServer) {
	t.Helper()
	servers.Wait(t, "a leader", func() bool {
		for _, s := range c {
			ctx, cancel := context.WithTimeout(background, 2*time.Second)
			if s.Leads(ctx) {
				found = s
			}
			cancel()
		}
		return found != nil
	})
	return found
}

// TestClusterConformance: the laws hold with three servers, and stores that use different ones. The leader must stay, so it has 2.5 s to hear from the others, not 0.5 s.
func TestClusterConformance(t *testing.T) {
	servers.Long(t)
	patient := map[string]any{"performance": map[string]int{"raft_multiplier": 5}}
	storetest.Run(t, harness(cluster(servers.Consul(t, 3, patient)).addrs(0)...))
}

// A fleet has workers that hold one name in turn, and reports when two hold it at once, or tokens do not grow.
type fleet struct {
	mu     sync.Mutex
	until  time.Time // the deadline of who holds it now
	holder string
	last   int64
	grants int
	wrong  []string
}

func (f *fleet) begin(holder string, g store.Grant, deadline time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Now().After(deadline) {
		return
	}
	if f.holder != "" && time.Now().Before(f.until) {
		f.wrong = append(f.wrong, fmt.Sprintf("%s was granted the name while %s held it", holder, f.holder))
	}
	if g.Token <= f.last {
		f.wrong = append(f.wrong, fmt.Sprintf("the token %d was granted after %d", g.Token, f.last))
	}
	f.holder, f.until, f.last = holder, deadline, g.Token
	f.grants++
}

func (f *fleet) end(holder string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.holder == holder {
		f.holder = ""
	}
}

func (f *fleet) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.grants
}

// work holds the name in turn with others, and claims a batch of names beside it, until ctx ends.
func (f *fleet) work(ctx context.Context, s store.Store, worker int) {
	const ttl = 2 * time.Second
	for i := 0; ctx.Err() == nil; i++ {
		holder := fmt.Sprintf("%d/%d", worker, i)
		began := time.Now()
		request, cancel := context.WithTimeout(ctx, ttl)
		claims := []store.Claim{{Name: "turn", Holder: holder, TTL: ttl}}
		for j := range 20 {
			claims = append(claims, store.Claim{Name: fmt.Sprintf("own/%d/%d", worker, j), Holder: holder, TTL: time.Millisecond})
		}
		outcomes, err := s.Acquire(request, claims)
		cancel()
		if err != nil || outcomes[0].Err != nil {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		f.begin(holder, outcomes[0].Grant, began.Add(ttl))
		f.end(holder)
		request, cancel = context.WithTimeout(ctx, ttl)
		_ = release(request, s, "turn", holder, outcomes[0].Grant.Token)
		cancel()
	}
}

// TestFailover: leaders that are killed, paused and started again in the midst of batches never let two hold a name, and the fleet continues.
func TestFailover(t *testing.T) {
	servers.Long(t)
	c, f, prefix := cluster(servers.Consul(t, 3, nil)), &fleet{}, fresh()
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	var workers sync.WaitGroup
	defer workers.Wait()
	defer cancel()
	for i := range 4 {
		s := c.store(t, i, prefix)
		workers.Go(func() { f.work(ctx, s, i) })
	}
	progress := func(what string) {
		t.Helper()
		from, start := f.count(), time.Now()
		servers.Wait(t, "grants after "+what, func() bool { return f.count() >= from+20 })
		t.Logf("20 grants %v after %s", time.Since(start).Round(time.Millisecond), what)
	}
	progress("the beginning")
	for range 2 {
		leader := c.leader(t)
		leader.Kill()
		progress("the leader was killed")
		leader.Start()
		leader = c.leader(t)
		leader.Pause()
		progress("the leader was paused")
		leader.Resume()
		progress("it was resumed")
	}
	cancel()
	workers.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, wrong := range f.wrong {
		t.Error(wrong)
	}
}

// TestNoMajority: one server of three grants nothing and extends nothing, and says so; with the second it continues, with the same leases.
func TestNoMajority(t *testing.T) {
	servers.Long(t)
	c := cluster(servers.Consul(t, 3, nil))
	s := c.store(t, 0, fresh())
	var g store.Grant
	servers.Wait(t, "a grant", func() bool { // the leader may be deposed on a busy machine
		var err error
		g, err = acquire(background, s, "a", "x", time.Hour)
		return err == nil
	})
	c[1].Kill()
	c[2].Kill()
	short := func(do func(ctx context.Context) error) error {
		ctx, cancel := context.WithTimeout(background, 500*time.Millisecond)
		defer cancel()
		return do(ctx)
	}
	for i := range 4 {
		err := short(func(ctx context.Context) error {
			_, err := acquire(ctx, s, fmt.Sprintf("b%d", i), "x", time.Hour)
			return err
		})
		if err == nil || errors.Is(err, store.ErrHeld) {
			t.Errorf("acquired without a majority: %v", err)
		}
		err = short(func(ctx context.Context) error { return extend(ctx, s, "a", "x", g.Token, time.Hour) })
		if err == nil || errors.Is(err, store.ErrLost) {
			t.Errorf("extended without a majority: %v", err)
		}
	}
	c[1].Start()
	servers.Wait(t, "an extension", func() bool {
		ctx, cancel := context.WithTimeout(background, 10*time.Second)
		defer cancel()
		err := extend(ctx, s, "a", "x", g.Token, time.Hour)
		if errors.Is(err, store.ErrLost) {
			t.Fatalf("the lease is lost: %v", err)
		}
		return err == nil
	})
}

// TestRestart: one server that is killed in the midst of writes and started again keeps what it has confirmed.
func TestRestart(t *testing.T) {
	server := servers.Consul(t, 1, nil)[0]
	s := on(t, server.Addr, fresh())
	ctx, cancel := context.WithCancel(background)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer cancel()
	var mu sync.Mutex
	confirmed := map[string]int64{}
	for w := range 4 {
		workers.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				name := fmt.Sprintf("%d/%d", w, i)
				if g, err := acquire(ctx, s, name, "x", time.Hour); err == nil {
					mu.Lock()
					confirmed[name] = g.Token
					mu.Unlock()
				}
			}
		})
	}
	many := func(n int) func() bool {
		return func() bool { mu.Lock(); defer mu.Unlock(); return len(confirmed) >= n }
	}
	servers.Wait(t, "grants", many(50))
	server.Kill()
	server.Start()
	mu.Lock()
	before := len(confirmed)
	mu.Unlock()
	servers.Wait(t, "grants after the restart", many(before+50))
	cancel()
	workers.Wait()
	var extensions []store.Extension
	for name, token := range confirmed {
		extensions = append(extensions, store.Extension{Name: name, Holder: "x", Token: token, TTL: time.Hour})
	}
	errs, err := s.Extend(background, extensions)
	if err != nil {
		t.Fatal(err)
	}
	for i, err := range errs {
		if err != nil {
			t.Errorf("%q was confirmed: %v", extensions[i].Name, err)
		}
	}
}

// TestSnapshot: a snapshot that is restored in its datacenter brings old records back, and no token is granted again.
func TestSnapshot(t *testing.T) {
	server := servers.Consul(t, 1, nil)[0]
	prefix := fresh()
	s := on(t, server.Addr, prefix)
	if _, err := acquire(background, s, "a", "old", time.Hour); err != nil {
		t.Fatal(err)
	}
	status, snapshot, _ := request(t, http.MethodGet, server.Addr, "/v1/snapshot", "")
	if status != http.StatusOK {
		t.Fatal(status)
	}
	later, err := acquire(background, s, "b", "x", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if err := release(background, s, "b", "x", later.Token); err != nil {
		t.Fatal(err)
	}
	if status, text, _ := request(t, http.MethodPut, server.Addr, "/v1/snapshot", snapshot); status != http.StatusOK {
		t.Fatalf("%d: %s", status, text)
	}
	for what, s := range map[string]store.Store{"the process before": s, "a new process": on(t, server.Addr, prefix)} {
		var g store.Grant
		servers.Wait(t, "a grant after the restoration", func() bool {
			g, err = acquire(background, s, what, "x", time.Hour)
			return err == nil
		})
		if g.Token <= later.Token {
			t.Errorf("%s: the token %d after %d", what, g.Token, later.Token)
		}
		if all, err := list(s); err != nil || len(all) == 0 || all[0].Name == "b" {
			t.Errorf("%s: the records %v, %v", what, all, err)
		}
	}
}
