//go:build unix

package failover

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"
)

var background = context.Background()

// A Test is a test, or what stands for one.
type Test interface {
	servers.Test
	Errorf(format string, args ...any)
}

// A Server is one of a cluster. A [servers.Process] is one.
type Server interface {
	Kill()
	Start() // after Kill; returns when the server is ready
	Pause()
	Resume()
}

// A Cluster is three servers with one set of records, which no other test uses.
type Cluster struct {
	Servers []Server
	// Open returns a store with its own connections. Of the servers it uses that with the number first, if it can choose.
	Open func(first int) store.Store
	// Leader returns the server that leads, and waits until there is one. It is nil for a backend in which no server leads.
	Leader func() Server
	// Leads reports whether a server takes itself for the leader. Only Measure uses it.
	Leads func(context.Context, Server) bool
}

// victims returns a server that leads, or any if none does, and another one.
func (c Cluster) victims() (leader, other Server) {
	leader = c.Servers[1]
	if c.Leader != nil {
		leader = c.Leader()
	}
	for _, other = range c.Servers {
		if other != leader {
			break
		}
	}
	return leader, other
}

// OneAway checks that a fleet continues while one server of three is killed or paused, the leader first: no name has two holders, no token falls,
// a lease stays with its holder.
func OneAway(t Test, c Cluster) {
	t.Helper()
	s := c.Open(0)
	kept := lease{s, "kept", "x"}
	token := kept.granted(t)
	f := newFleet(t, 8)
	end := f.run(c)
	continues := func(when string) {
		t.Helper()
		f.more(when)
		if err := kept.extend(t, token); err != nil {
			t.Errorf("extending a lease, %s: %v", when, err)
		}
		if _, err := (lease{s, "kept", "y"}).claim(t); !errors.Is(err, store.ErrHeld) {
			t.Errorf("claiming what another holds, %s: %v, want an error that is ErrHeld", when, err)
		}
	}
	continues("with all servers")
	leader, _ := c.victims()
	leader.Kill()
	continues("after the leader, or one that is like all, was killed")
	leader.Start()
	leader, _ = c.victims()
	leader.Pause()
	continues("while that one is paused")
	leader.Resume()
	_, other := c.victims()
	other.Kill()
	continues("after another was killed")
	other.Start()
	continues("with all servers again")
	end()
}

// NoMajority checks that one server of three grants and extends nothing and says that nothing is known, and that with the others work
// continues with the same leases.
func NoMajority(t Test, c Cluster) {
	t.Helper()
	s := c.Open(0)
	kept := lease{s, "kept", "x"}
	token := kept.granted(t)
	c.Servers[1].Kill()
	c.Servers[2].Kill()
	if p, ok := store.As[store.Pinger](s); ok {
		servers.Wait(t, "a ping that fails", func() bool { return within(background, 1, p.Ping) != nil })
	}
	names := make([]lease, 4)
	for i := range names {
		names[i] = lease{s, fmt.Sprint("new-", i), "x"}
		err := within(background, 1, func(ctx context.Context) error { _, err := names[i].claimOnce(ctx); return err })
		if err == nil || errors.Is(err, store.ErrHeld) {
			t.Errorf("claiming a free name without a majority: %v, want an error that says nothing of the name", err)
		}
	}
	if err := within(background, 1, func(ctx context.Context) error { _, err := (lease{s, "kept", "y"}).claimOnce(ctx); return err }); err == nil {
		t.Errorf("what another holds was granted without a majority")
	}
	if err := within(background, 1, func(ctx context.Context) error { return kept.extendOnce(ctx, token) }); err == nil || errors.Is(err, store.ErrLost) {
		t.Errorf("extending without a majority: %v, want an error that does not say that the lease is lost", err)
	}
	c.Servers[1].Start()
	c.Servers[2].Start()
	if err := kept.extend(t, token); err != nil {
		t.Errorf("extending with all servers again: %v", err)
	}
	for _, l := range names {
		l.granted(t)
	}
}

// Restart checks that a server that is killed in the midst of writes and started again has what it confirmed. The store has no other
// server.
func Restart(t Test, server Server, s store.Store) {
	t.Helper()
	ctx, cancel := context.WithCancel(background)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer cancel()
	var mu sync.Mutex
	confirmed := make(map[lease]int64)
	for w := range 4 {
		workers.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				l := lease{s, fmt.Sprintf("%d/%d", w, i), "x"}
				if g, err := l.claimOnce(ctx); err == nil {
					mu.Lock()
					confirmed[l] = g.Token
					mu.Unlock()
				}
			}
		})
	}
	count := func() int { mu.Lock(); defer mu.Unlock(); return len(confirmed) }
	servers.Wait(t, "grants", func() bool { return count() >= 50 })
	server.Kill()
	before := count()
	server.Start()
	servers.Wait(t, "grants after the restart", func() bool { return count() >= before+50 })
	cancel()
	workers.Wait()
	for l, token := range confirmed {
		if err := l.extend(t, token); err != nil {
			t.Errorf("extending %q, which was confirmed: %v", l.name, err)
		}
	}
}

// A lease is a name that a holder claims, for an hour.
type lease struct {
	on           store.Store
	name, holder string
}

// within calls a function with a context that ends soon, and later with each attempt, so that a slow machine succeeds at last.
func within(ctx context.Context, attempt int, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, min(time.Duration(attempt)*2*time.Second, servers.Patience))
	defer cancel()
	return do(ctx)
}

// insist repeats a request until it is answered: with nil, or that the name is held or the lease is lost.
func insist(t Test, what string, do func(context.Context) error) (err error) {
	t.Helper()
	attempt := 0
	servers.Wait(t, what, func() bool {
		attempt++
		err = within(background, attempt, do)
		return err == nil || errors.Is(err, store.ErrHeld) || errors.Is(err, store.ErrLost)
	})
	return err
}

func (l lease) claimOnce(ctx context.Context) (store.Grant, error) {
	outcomes, err := l.on.Acquire(ctx, []store.Claim{{Name: l.name, Holder: l.holder, TTL: time.Hour}})
	if err != nil {
		return store.Grant{}, err
	}
	return outcomes[0].Grant, outcomes[0].Err
}

func (l lease) extendOnce(ctx context.Context, token int64) error {
	errs, err := l.on.Extend(ctx, []store.Extension{{Name: l.name, Holder: l.holder, Token: token, TTL: time.Hour}})
	return errors.Join(append(errs, err)...)
}

func (l lease) claim(t Test) (g store.Grant, err error) {
	t.Helper()
	err = insist(t, "a claim", func(ctx context.Context) (err error) { g, err = l.claimOnce(ctx); return err })
	return g, err
}

func (l lease) extend(t Test, token int64) error {
	t.Helper()
	return insist(t, "an extension", func(ctx context.Context) error { return l.extendOnce(ctx, token) })
}

// granted claims what must be free, and returns the token.
func (l lease) granted(t Test) int64 {
	t.Helper()
	g, err := l.claim(t)
	if err != nil {
		t.Fatalf("claiming %s: %v", l.name, err)
	}
	return g.Token
}
