package redisstore_test

import (
	"strings"
	"testing"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"
)

func capable(t *testing.T, s store.Prober) store.Capabilities {
	t.Helper()
	c, err := s.Capabilities(background)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCapabilities(t *testing.T) {
	server := servers.Redis(t, "--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "noeviction")
	admin := plainClient(t, server.URL)
	s := open(t, server.URL)
	expect := func(what string, fencing, durable store.Answer, why string) {
		t.Helper()
		c := capable(t, s)
		if c.Fencing.Answer != fencing || c.Durable.Answer != durable || c.Waiting.Answer != store.Yes || c.Scope != store.ScopeFleet ||
			!strings.Contains(c.Fencing.Why, why) || !strings.Contains(c.Backend, "Redis ") {
			t.Errorf("%s: %+v; want fencing %v (%q), durable %v", what, c, fencing, why, durable)
		}
	}
	set := func(name, value string) {
		t.Helper()
		if err := admin.ConfigSet(background, name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	expect("always", store.Yes, store.Yes, "one server")
	set("maxmemory", "100mb")
	expect("with a limit of memory", store.Yes, store.Yes, "one server")
	set("maxmemory-policy", "allkeys-lru")
	expect("evicting", store.No, store.Yes, "allkeys-lru")
	set("maxmemory-policy", "noeviction")
	set("appendfsync", "everysec")
	expect("every second", store.No, store.No, "everysec")
	set("appendonly", "no")
	expect("in memory", store.No, store.No, "appendonly is off")
	set("appendonly", "yes")
	set("appendfsync", "always")
	expect("always again", store.Yes, store.Yes, "")

	replica := servers.Redis(t, "--replicaof", strings.Replace(server.Addr, ":", " ", 1))
	servers.Wait(t, "the replica", func() bool { return info(t, admin, "replication", "connected_slaves") == 1 })
	expect("with a replica", store.No, store.Yes, "failover")
	if c := capable(t, open(t, replica.URL)); c.Fencing.Answer != store.No || !strings.Contains(c.Fencing.Why, "replica") {
		t.Errorf("a replica: %+v", c)
	}
	levels := finding(t, open(t, replica.URL))
	if f := levels["role"]; f.Level != store.LevelError || !strings.Contains(f.Fix, "primary") {
		t.Errorf("the role of a replica: %+v", f)
	}

	if err := admin.Do(background, words("ACL SETUSER app on >pw ~* &* +@all -config")...).Err(); err != nil {
		t.Fatal(err)
	}
	replica.Kill()
	servers.Wait(t, "the replica to go", func() bool { return info(t, admin, "replication", "connected_slaves") == 0 })
	s = open(t, strings.Replace(server.URL, "redis://", "redis://app:pw@", 1))
	expect("CONFIG is denied", store.Unknown, store.Unknown, "CONFIG GET is denied")
}

func TestCapabilitiesOfSeveralServers(t *testing.T) {
	for kind, url := range map[string]string{"cluster": sharedCluster(t).URL, "Sentinel": sharedSentinel(t).URL} {
		c := capable(t, open(t, url))
		if c.Fencing.Answer != store.No || !strings.Contains(c.Fencing.Why, "best effort") || !strings.Contains(c.Backend, kind) {
			t.Errorf("%s: %+v", kind, c)
		}
	}
}

// finding returns the findings by subject.
func finding(t *testing.T, s store.Examiner) map[string]store.Finding {
	t.Helper()
	found, err := s.Examine(background)
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]store.Finding{}
	for _, f := range found {
		by[f.Subject] = f
		if f.Level != store.LevelOK && f.Fix == "" {
			t.Errorf("%+v has no fix", f)
		}
	}
	return by
}

func TestExamine(t *testing.T) {
	server := servers.Redis(t)
	admin := plainClient(t, server.URL)
	expect := func(s store.Examiner, subject string, level store.Level, says string) {
		t.Helper()
		f := finding(t, s)[subject]
		if f.Level != level || !strings.Contains(f.Found+" "+f.Fix, says) {
			t.Errorf("%+v; want %s, %q", f, level, says)
		}
	}
	s := open(t, server.URL)
	expect(s, "version", store.LevelOK, "Redis 7")
	expect(s, "role", store.LevelOK, "primary")
	expect(s, "persistence", store.LevelWarning, "appendfsync always")
	expect(s, "eviction", store.LevelOK, "noeviction")
	expect(s, "memory", store.LevelOK, "used")
	expect(s, "replication", store.LevelOK, "none")
	expect(s, "round trip", store.LevelOK, "in the middle of 5")
	expect(s, "clock", store.LevelOK, "off this machine")
	expect(s, "privileges", store.LevelOK, "default")
	expect(s, "TLS", store.LevelOK, "")
	if err := admin.ConfigSet(background, "maxmemory", "1mb").Err(); err != nil {
		t.Fatal(err)
	}
	expect(s, "memory", store.LevelWarning, "raise maxmemory")
	admin.ConfigSet(background, "maxmemory", "100mb")
	admin.ConfigSet(background, "maxmemory-policy", "allkeys-lru")
	expect(s, "eviction", store.LevelError, "noeviction")
	if err := admin.Do(background, words("ACL SETUSER app on >pw ~* &* +@all -zadd -config")...).Err(); err != nil {
		t.Fatal(err)
	}
	app := open(t, strings.Replace(server.URL, "redis://", "redis://app:pw@", 1))
	expect(app, "privileges", store.LevelError, "ACL SETUSER app +zadd")
	expect(app, "eviction", store.LevelUnknown, "noeviction")
	expect(app, "persistence", store.LevelUnknown, "CONFIG GET")
	expect(open(t, sharedCluster(t).URL), "cluster", store.LevelOK, "state ok")
	expect(open(t, sharedSentinel(t).URL), "replication", store.LevelWarning, "fencing")
	expect(open(t, sharedSentinel(t).URL), "role", store.LevelOK, "primary")
}

// What a server without the least right answers is still no secret, and no panic.
func TestExamineWithLeastPrivilege(t *testing.T) {
	server := servers.Redis(t)
	if err := plainClient(t, server.URL).Do(background, words(aclLine("app", "pw", "mine"))...).Err(); err != nil {
		t.Fatal(err)
	}
	s := open(t, strings.Replace(server.URL, "redis://", "redis://app:pw@", 1)+"?prefix=mine")
	for subject, f := range finding(t, s) {
		if f.Level == store.LevelError || f.Level == store.LevelUnknown {
			t.Errorf("%s: %+v", subject, f)
		}
	}
	other := open(t, strings.Replace(server.URL, "redis://", "redis://app:pw@", 1)+"?prefix=other")
	if f := finding(t, other)["privileges"]; f.Level != store.LevelError || !strings.Contains(f.Fix, "~{other:*") {
		t.Errorf("another prefix: %+v", f)
	}
}
