package redisstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/redisstore"
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

// A grant that too few replicas have received is unknown, also to one that asks for it again on another connection, which has written nothing yet. So is an extension.
func TestGrantIsUnknownUntilItIsReplicated(t *testing.T) {
	server := servers.Redis(t)
	replica := servers.Redis(t, "--replicaof", strings.Replace(server.Addr, ":", " ", 1))
	url := fresh(t, server.URL, "wait=1", "waittimeout=200ms")
	before := open(t, url)
	mine := store.Release{Name: "extended", Holder: "a"}
	repeated(t, "the replica follows", func() error {
		out, err := before.Acquire(background, []store.Claim{{Name: mine.Name, Holder: mine.Holder, TTL: time.Hour}})
		if err != nil {
			return err
		}
		mine.Token = out[0].Grant.Token
		return out[0].Err
	})
	defer replica.Resume()
	replica.Pause()
	if err := tried(background, before, "name", "a"); !isUnknown(err) {
		t.Errorf("the replica is paused: %v", err)
	}
	if err := extend(before, mine); !isUnknown(err) {
		t.Errorf("the replica is paused, and an extension answers %v", err)
	}
	for kind, again := range map[string]func(s *redisstore.Store) error{
		"a claim": func(s *redisstore.Store) error { return tried(background, s, "name", "a") },
		"a choice": func(s *redisstore.Store) error {
			_, _, err := s.Choose(background, []string{"other", "name"}, store.Claim{Holder: "a", TTL: time.Minute})
			return err
		},
	} {
		if err := again(open(t, url)); !isUnknown(err) {
			t.Errorf("the replica is paused, and %s that is repeated answers %v", kind, err)
		}
	}
	replica.Resume()
	repeated(t, "asking for the grant again", func() error { return tried(background, open(t, url), "name", "a") })
}
