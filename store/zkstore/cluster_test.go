package zkstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/zkstore"
	"github.com/soloist-dev/soloist/test/servers"
)

// An ensemble has three servers. Each test leaves all of them running.
type ensemble struct{ servers []*servers.ZooKeeperServer }

var three = servers.Shared(func(t servers.Test) *ensemble { return &ensemble{servers.ZooKeeper(t, 3)} })

// open returns a store with a connection of its own, which leaves a server that is silent soon.
func (e *ensemble) open(t testing.TB, path string) *zkstore.Store {
	t.Helper()
	var addrs []string
	for _, s := range e.servers {
		addrs = append(addrs, s.Addr)
	}
	s, err := zkstore.OpenURL(background, "zk://"+strings.Join(addrs, ",")+path+"?sessiontimeout=10s&dialtimeout=10s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// leader returns the server that leads.
func (e *ensemble) leader(t testing.TB) (leader *servers.ZooKeeperServer) {
	t.Helper()
	servers.Wait(t, "a leader", func() bool {
		for _, s := range e.servers {
			if status, err := s.Status(); err == nil && status.Mode == "leader" {
				leader = s
				return true
			}
		}
		return false
	})
	return leader
}

// within calls a function with a context that ends soon, as the client of soloist does.
func within(do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(background, 2*time.Second)
	defer cancel()
	return do(ctx)
}

// insist repeats a request until it is answered: the error is nil, or that the name is held or the lease is lost.
func insist(t testing.TB, what string, do func(context.Context) error) (err error) {
	t.Helper()
	servers.Wait(t, what, func() bool {
		err = within(do)
		return err == nil || errors.Is(err, store.ErrHeld) || errors.Is(err, store.ErrLost)
	})
	return err
}

// A count is a plain number, to which some processes add under a lock.
type count struct {
	number int64 // guarded by the lock alone
	tokens []int64
	done   atomic.Int64
}

// adding lets processes add until the function returned is called.
func (n *count) adding(t testing.TB, open func() *zkstore.Store) (end func()) {
	var wait sync.WaitGroup
	var over atomic.Bool
	for p := range 3 {
		s := open()
		wait.Go(func() {
			for i := 0; !over.Load(); i++ {
				n.add(t, s, fmt.Sprintf("%d/%d", p, i))
			}
		})
	}
	return func() {
		over.Store(true)
		wait.Wait()
		if n.number != n.done.Load() {
			t.Errorf("counted to %d, want %d", n.number, n.done.Load())
		}
		for i := 1; i < len(n.tokens); i++ {
			if n.tokens[i] <= n.tokens[i-1] {
				t.Fatalf("token %d after %d", n.tokens[i], n.tokens[i-1])
			}
		}
	}
}

// add adds one, if it is granted the lock.
func (n *count) add(t testing.TB, s store.Store, holder string) {
	var grant store.Grant
	err := insist(t, "a claim", func(ctx context.Context) (err error) {
		grant, err = claim(ctx, s, "number", holder, time.Hour)
		return err
	})
	if err != nil {
		time.Sleep(time.Millisecond)
		return
	}
	was := n.number
	time.Sleep(100 * time.Microsecond)
	n.number, n.tokens = was+1, append(n.tokens, grant.Token)
	n.done.Add(1)
	err = insist(t, "a release", func(ctx context.Context) error {
		errs, err := s.Release(ctx, []store.Release{{Name: "number", Holder: holder, Token: grant.Token, Retain: store.Forever}})
		return errors.Join(append(errs, err)...)
	})
	if err != nil && !errors.Is(err, store.ErrLost) { // a release that is repeated after another process has acquired the name
		t.Errorf("a release: %v", err)
	}
}

// survives checks what must hold when the leader fails: leases stay, locks exclude, tokens grow, and work goes on.
func survives(t *testing.T, fail, mend func(leader *servers.ZooKeeperServer)) {
	e, path := three(t), fresh()
	s := e.open(t, path)
	var held store.Grant
	if err := insist(t, "a claim", func(ctx context.Context) (err error) { held, err = claim(ctx, s, "held", "x", time.Hour); return err }); err != nil {
		t.Fatal(err)
	}
	var n count
	end := n.adding(t, func() *zkstore.Store { return e.open(t, path) })
	more := func() {
		from := n.done.Load()
		servers.Wait(t, "work to go on", func() bool { return n.done.Load() > from+5 })
	}
	more()
	leader := e.leader(t)
	fail(leader)
	more()
	if err := insist(t, "an extension", func(ctx context.Context) error { return extend(ctx, s, "held", held.Token, time.Hour) }); err != nil {
		t.Errorf("extending a lease: %v", err)
	}
	if err := insist(t, "a claim", func(ctx context.Context) error { _, err := claim(ctx, s, "held", "y", time.Hour); return err }); !errors.Is(err, store.ErrHeld) {
		t.Errorf("claiming what is held: %v", err)
	}
	mend(leader)
	more()
	end()
}

func TestLeaderKilled(t *testing.T) {
	servers.Long(t)
	survives(t, func(s *servers.ZooKeeperServer) { s.Kill() }, func(s *servers.ZooKeeperServer) { s.Start() })
}

func TestLeaderPaused(t *testing.T) {
	servers.Long(t)
	survives(t, func(s *servers.ZooKeeperServer) { s.Pause() }, func(s *servers.ZooKeeperServer) { s.Resume() })
}

// TestNoMajority: without a majority nothing is granted and nothing is lost, and afterwards all goes on.
func TestNoMajority(t *testing.T) {
	servers.Long(t)
	e := three(t)
	s := e.open(t, fresh())
	var held store.Grant
	if err := insist(t, "a claim", func(ctx context.Context) (err error) { held, err = claim(ctx, s, "held", "x", time.Hour); return err }); err != nil {
		t.Fatal(err)
	}
	e.servers[0].Kill()
	e.servers[1].Kill()
	servers.Wait(t, "the third server to notice", func() bool { _, err := e.servers[2].Status(); return err != nil })
	for _, name := range []string{"held", "free"} {
		err := within(func(ctx context.Context) error { _, err := claim(ctx, s, name, "y", time.Hour); return err })
		if err == nil || errors.Is(err, store.ErrHeld) {
			t.Errorf("a claim of %s: %v, want an error that says nothing of the name", name, err)
		}
	}
	if err := within(func(ctx context.Context) error { return extend(ctx, s, "held", held.Token, time.Hour) }); err == nil || errors.Is(err, store.ErrLost) {
		t.Errorf("an extension: %v, want an error that does not say that it is lost", err)
	}
	if err := within(s.Ping); err == nil {
		t.Error("a ping succeeds")
	}
	e.servers[0].Start()
	e.servers[1].Start()
	if err := insist(t, "an extension", func(ctx context.Context) error { return extend(ctx, s, "held", held.Token, time.Hour) }); err != nil {
		t.Errorf("an extension afterwards: %v", err)
	}
	if err := insist(t, "a claim", func(ctx context.Context) error { _, err := claim(ctx, s, "free", "y", time.Hour); return err }); err != nil {
		t.Errorf("a claim afterwards: %v", err)
	}
}

// TestReadsCatchUp: a process whose server lags behind the others sees a release that came before its request.
func TestReadsCatchUp(t *testing.T) {
	servers.Long(t)
	e, path := three(t), fresh()
	a, b := e.open(t, path), e.open(t, path)
	for i := range 50 {
		name := fmt.Sprintf("n%d", i)
		var grant store.Grant
		if err := insist(t, "a claim", func(ctx context.Context) (err error) { grant, err = claim(ctx, a, name, "x", time.Hour); return err }); err != nil {
			t.Fatal(err)
		}
		if err := insist(t, "the extension of what another process holds", func(ctx context.Context) error { return extend(ctx, b, name, grant.Token, time.Hour) }); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

// TestCapabilities: they name the servers.
func TestCapabilities(t *testing.T) {
	servers.Long(t)
	for want, s := range map[string]*zkstore.Store{"one server": on(t, shared(t).conn, fresh()), "3 servers that vote": three(t).open(t, fresh())} {
		var c store.Capabilities
		if err := insist(t, "the capabilities", func(ctx context.Context) (err error) { c, err = store.CapabilitiesOf(ctx, s); return err }); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(c.Backend, want) || c.Fencing.Answer != store.Yes || c.Durable.Answer != store.Yes || c.Waiting.Answer != store.Yes {
			t.Errorf("got %+v, want %q and that all is promised", c, want)
		}
	}
}
