//go:build linux

package hazelcaststore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hazelcast/hazelcast-go-client"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/hazelcaststore"
	"github.com/soloist-dev/soloist/test/servers"
)

// TestSplitCluster shows what each side of a cluster that is cut in two answers. It is why the store promises no fencing.
func TestSplitCluster(t *testing.T) {
	servers.Long(t)
	c := servers.NewHazelcastCluster(t, 3)
	to := func(i int) hazelcast.Config { // a client that reaches one member alone, as a process on that side does
		client := config(c.Members[i].Addr)
		client.Cluster.Unisocket = true
		return client
	}
	small, large := to(0), to(1)
	plain, careful := hazelcaststore.Config{Map: "plain"}, hazelcaststore.Config{Map: "plain", MinMembers: 2}
	protected := hazelcaststore.Config{Map: "protected"}
	until := func(what string, s *hazelcaststore.Store, fits func(error) bool) {
		t.Helper()
		servers.Wait(t, what, func() bool { return fits(soon(s.Ping)) })
	}
	few := func(members int) func(error) bool {
		return func(err error) bool {
			few, ok := errors.AsType[*hazelcaststore.FewMembersError](err)
			return ok && few.Members == members
		}
	}
	fine := func(err error) bool { return err == nil }
	grants := func(s *hazelcaststore.Store, name, holder string) (grant store.Grant) {
		t.Helper()
		again(t, name+" for "+holder, func(ctx context.Context) (err error) { grant, err = acquireFor(ctx, s, name, holder); return err })
		return grant
	}

	all := hazelcaststore.Config{Map: "plain", MinMembers: 3}
	whole := open(t, small, all)
	until("a cluster of three", whole, fine)
	smallPlain, largePlain := open(t, small, plain), open(t, large, plain)
	smallCareful, largeCareful := open(t, small, careful), open(t, large, careful)
	smallProtected := open(t, small, protected)
	before := grants(smallCareful, "before", "x")
	grants(smallProtected, "before", "x")

	c.Cut(0)
	until("the smaller side to notice", smallCareful, few(1))
	until("the larger side to notice", open(t, large, all), few(2))

	// Without MinMembers both sides grant the name, with the same token, and neither gets an error.
	one, two := grants(smallPlain, "plain", "small"), grants(largePlain, "plain", "large")
	if one.Token != two.Token {
		t.Errorf("the sides granted the tokens %d and %d, want the same, as docs/stores/hazelcast.md says", one.Token, two.Token)
	}

	// With MinMembers the smaller side refuses, and its leases are lost. The larger side goes on.
	if _, err := acquireFor(background, smallCareful, "careful", "small"); !few(1)(err) {
		t.Errorf("a claim on the smaller side: %v, want that it has too few members", err)
	}
	if err := extend(background, smallCareful, "before", before.Token); !errors.Is(err, store.ErrLost) || !few(1)(err) {
		t.Errorf("a lease on the smaller side: %v, want that it is lost", err)
	}
	grants(largeCareful, "careful", "large")

	// A protected map refuses there, too, by itself.
	servers.Wait(t, "the protected map to refuse", func() bool {
		err := soon(func(ctx context.Context) error { _, err := acquireFor(ctx, smallProtected, "new", "small"); return err })
		return says(err, "SplitBrainProtection")
	})

	// When the sides meet again, one of the two leases is lost.
	c.Heal()
	until("the sides to meet", whole, fine)
	lost := 0
	for side, s := range map[string]*hazelcaststore.Store{"small": smallPlain, "large": largePlain} {
		again(t, "the renewal of "+side, func(ctx context.Context) error {
			errs, err := s.Extend(ctx, []store.Extension{{Name: "plain", Holder: side, Token: one.Token, TTL: time.Hour}})
			if err = errors.Join(append(errs, err)...); errors.Is(err, store.ErrLost) {
				lost++
				return nil
			}
			return err
		})
	}
	if lost != 1 {
		t.Errorf("%d leases were lost, want one of the two", lost)
	}
}
