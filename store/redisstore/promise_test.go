package redisstore_test

import (
	"strings"
	"testing"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"
)

// What looks safe and is not: a server that does not sync while it writes its file anew, and one whose replica is only away.
func TestCapabilitiesThatLookBetterThanTheyAre(t *testing.T) {
	server := servers.Redis(t, "--appendonly", "yes", "--appendfsync", "always")
	admin := plainClient(t, server.URL)
	s := open(t, server.URL)
	if c := capable(t, s); c.Fencing.Answer != store.Yes || c.Durable.Answer != store.Yes {
		t.Fatalf("to begin with: %+v", c)
	}
	if err := admin.ConfigSet(t.Context(), "no-appendfsync-on-rewrite", "yes").Err(); err != nil {
		t.Fatal(err)
	}
	if c := capable(t, s); c.Fencing.Answer != store.No || c.Durable.Answer != store.No || !strings.Contains(c.Fencing.Why, "no-appendfsync-on-rewrite") {
		t.Errorf("no sync while the file is written anew: %+v", c)
	}
	if err := admin.ConfigSet(t.Context(), "no-appendfsync-on-rewrite", "no").Err(); err != nil {
		t.Fatal(err)
	}
	replica := servers.Redis(t, "--replicaof", strings.Replace(server.Addr, ":", " ", 1))
	attached := func() int64 { return info(t, admin, "replication", "connected_slaves") }
	servers.Wait(t, "the replica to follow", func() bool { return attached() == 1 })
	replica.Kill()
	servers.Wait(t, "the replica to be gone", func() bool { return attached() == 0 })
	if c := capable(t, s); c.Fencing.Answer != store.No || c.Durable.Answer != store.Yes || !strings.Contains(c.Fencing.Why, "take over") {
		t.Errorf("a replica that is away: %+v", c)
	}
}
