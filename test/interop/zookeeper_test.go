//go:build unix

package interop

import (
	"context"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/zkstore"
	"github.com/soloist-dev/soloist/test/servers"
)

// TestOthersInZooKeeperShareNothing: what docs/stores/zookeeper.md says. ShedLock and Curator keep names out of each other's processes in ZooKeeper, and not out of ours, in either order.
func TestOthersInZooKeeperShareNothing(t *testing.T) {
	servers.Long(t)
	server := servers.ZooKeeper(t, 1)[0]
	for _, provider := range []string{"shedlock-zookeeper", "curator"} {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			o := Options{Provider: provider, URL: "zk://" + server.Addr}
			a, b := Start(t, o), Start(t, o)
			for _, path := range []string{"/shedlock", "/curator", "/soloist"} {
				s, err := zkstore.OpenURL(context.Background(), "zk://"+server.Addr+path+"?sessiontimeout=5m&dialtimeout=5m")
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				ours := func(name, holder string) error {
					outcomes, err := s.Acquire(context.Background(), []store.Claim{{Name: name, Holder: holder, TTL: long}})
					if err != nil {
						return err
					}
					return outcomes[0].Err
				}
				first, second := newName(), newName()
				held, err := a.Lock(first, long, 0)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := b.Lock(first, long, 0); err == nil {
					t.Error("another process has the lock of theirs")
				}
				if err := ours(first, "x"); err != nil {
					t.Errorf("below %s: ours is kept out by theirs: %v; the page says that it is not", path, err)
				}
				if err := held.Unlock(); err != nil {
					t.Error(err)
				}
				if err := ours(second, "x"); err != nil {
					t.Fatal(err)
				}
				if _, err := b.Wait(second, long, 0, time.Second); err != nil {
					t.Errorf("below %s: theirs is kept out by ours: %v; the page says that it is not", path, err)
				}
			}
		})
	}
}
