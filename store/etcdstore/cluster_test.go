package etcdstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/etcdstore"
	"github.com/soloist-dev/soloist/test/servers"
)

// A trio is a cluster of three members. Each test leaves all of them running.
type trio struct {
	members []*servers.EtcdServer
	client  *clientv3.Client
}

var cluster = servers.Shared(func(t servers.Test) *trio {
	c := &trio{members: servers.Etcd(t, 3)}
	c.client = newClient(t, c.members[0].URL, c.members[1].URL, c.members[2].URL)
	t.Cleanup(func() { _ = c.client.Close() })
	return c
})

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

// leader returns the member that leads.
func (c *trio) leader(t testing.TB) (leader *servers.EtcdServer) {
	t.Helper()
	servers.Wait(t, "a leader", func() bool {
		for _, m := range c.members {
			err := within(func(ctx context.Context) error {
				status, err := c.client.Status(ctx, m.URL)
				if err == nil && status.Leader == status.Header.MemberId {
					leader = m
				}
				return err
			})
			if err == nil && leader == m {
				return true
			}
		}
		return false
	})
	return leader
}

// claim acquires a name for a holder.
func claim(ctx context.Context, s store.Store, name, holder string, ttl time.Duration) (store.Grant, error) {
	outcomes, err := s.Acquire(ctx, []store.Claim{{Name: name, Holder: holder, TTL: ttl}})
	if err != nil {
		return store.Grant{}, err
	}
	return outcomes[0].Grant, outcomes[0].Err
}

// A count is a plain number, that each of some processes adds to under a lock.
type count struct {
	number int64 // guarded by the lock alone
	tokens []int64
	done   atomic.Int64
}

// adding lets processes add until the function returned is called.
func (n *count) adding(t testing.TB, open func() *etcdstore.Store) (end func()) {
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
func survives(t *testing.T, fail func(leader *servers.EtcdServer), mend func(leader *servers.EtcdServer)) {
	c := cluster(t)
	below := prefix()
	s := on(t, c.client, below)
	var held store.Grant
	if err := insist(t, "a claim", func(ctx context.Context) (err error) { held, err = claim(ctx, s, "held", "x", time.Hour); return err }); err != nil {
		t.Fatal(err)
	}
	var n count
	end := n.adding(t, func() *etcdstore.Store { return on(t, c.client, below) })
	more := func() {
		from := n.done.Load()
		servers.Wait(t, "work to go on", func() bool { return n.done.Load() > from+5 })
	}
	more()
	leader := c.leader(t)
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
	survives(t, func(m *servers.EtcdServer) { m.Kill() }, func(m *servers.EtcdServer) { m.Start() })
}

func TestLeaderPaused(t *testing.T) {
	servers.Long(t)
	survives(t, func(m *servers.EtcdServer) { m.Pause() }, func(m *servers.EtcdServer) { m.Resume() })
}

func TestMemberDown(t *testing.T) {
	servers.Long(t)
	c := cluster(t)
	leader := c.leader(t)
	for _, m := range c.members {
		if m != leader {
			m.Kill()
			defer m.Start()
			break
		}
	}
	s := on(t, c.client, prefix())
	var grant store.Grant
	if err := insist(t, "a claim", func(ctx context.Context) (err error) { grant, err = claim(ctx, s, "a", "x", time.Hour); return err }); err != nil {
		t.Fatal(err)
	}
	if err := insist(t, "a release", func(ctx context.Context) error { return release(ctx, s, "a", grant.Token) }); err != nil {
		t.Fatal(err)
	}
}

// TestNoMajority: without a majority nothing is granted and nothing is lost, and afterwards all goes on.
func TestNoMajority(t *testing.T) {
	servers.Long(t)
	c := cluster(t)
	s := on(t, c.client, prefix())
	var held store.Grant
	if err := insist(t, "a claim", func(ctx context.Context) (err error) { held, err = claim(ctx, s, "held", "x", time.Hour); return err }); err != nil {
		t.Fatal(err)
	}
	c.members[0].Kill()
	c.members[1].Kill()
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
	c.members[0].Start()
	c.members[1].Start()
	if err := insist(t, "an extension", func(ctx context.Context) error { return extend(ctx, s, "held", held.Token, time.Hour) }); err != nil {
		t.Errorf("an extension afterwards: %v", err)
	}
	if err := insist(t, "a claim", func(ctx context.Context) error { _, err := claim(ctx, s, "free", "y", time.Hour); return err }); err != nil {
		t.Errorf("a claim afterwards: %v", err)
	}
}
