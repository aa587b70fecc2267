package natsstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"
)

// TestTwoDomains: buckets of one name in two domains that a leaf node connects are two stores, and each is reached from both sides: no write is for both.
func TestTwoDomains(t *testing.T) {
	port := servers.FreePort(t)
	start := func(name, leafnodes string) string {
		return servers.NATS(t, 1, "server_name: "+name, "jetstream: { domain: "+name+" }", "leafnodes: { "+leafnodes+" }")[0].Addr
	}
	hub := start("hub", fmt.Sprintf(`listen: "127.0.0.1:%d"`, port))
	leaf := start("leaf", fmt.Sprintf(`remotes: [ { url: "nats-leaf://127.0.0.1:%d" } ]`, port))
	of := func(addr, domain string) store.Store {
		s := byURL(t, "nats://"+addr+"/locks?replicas=1&dialtimeout=1m&domain="+domain)
		servers.Wait(t, "the bucket in "+domain, func() bool {
			ctx, cancel := context.WithTimeout(background, 2*time.Second)
			defer cancel()
			_, err := s.Migrate(ctx)
			return err == nil
		})
		return s
	}
	inHub, inLeaf := of(hub, "hub"), of(leaf, "leaf")
	toHub, toLeaf := of(leaf, "hub"), of(hub, "leaf")
	for _, side := range []struct {
		holder    string
		near, far store.Store
	}{{"x", inHub, toHub}, {"y", inLeaf, toLeaf}} {
		g, err := acquire(background, side.near, "a", side.holder, time.Hour)
		if err != nil {
			t.Fatalf("%s: %v", side.holder, err)
		}
		if _, err := acquire(background, side.far, "a", "z", time.Hour); !errors.Is(err, store.ErrHeld) {
			t.Errorf("from the other side of %s: %v, want that it is held", side.holder, err)
		}
		for _, s := range []store.Store{side.far, side.near} {
			if err := extend(background, s, "a", side.holder, g.Token, time.Hour); err != nil {
				t.Errorf("%s extends: %v", side.holder, err)
			}
		}
	}
}
