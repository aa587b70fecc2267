package hazelcaststore_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hazelcast/hazelcast-go-client"
	"github.com/hazelcast/hazelcast-go-client/logger"
	"github.com/hazelcast/hazelcast-go-client/types"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/hazelcaststore"
	"github.com/soloist-dev/soloist/store/storetest"
	"github.com/soloist-dev/soloist/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

var background = context.Background()

// A member is a cluster of one member, with a client that looks at its maps as others do.
type member struct {
	*servers.HazelcastServer
	client *hazelcast.Client
}

var shared = servers.Shared(func(t servers.Test) *member {
	m := &member{HazelcastServer: servers.Hazelcast(t)}
	client, err := hazelcast.StartNewClientWithConfig(background, config(m.Addr))
	if err != nil {
		t.Fatalf("connecting to Hazelcast: %v", err)
	}
	t.Cleanup(func() { _ = client.Shutdown(background) })
	m.client = client
	return m
})

// config returns how to connect to members, with the patience that a slow machine needs.
func config(addrs ...string) hazelcast.Config {
	var c hazelcast.Config
	c.Logger.Level = logger.OffLevel
	c.Cluster.Name = servers.HazelcastName
	c.Cluster.Network.Addresses = addrs
	c.Cluster.Network.ConnectionTimeout = types.Duration(servers.Patience)
	c.Cluster.ConnectionStrategy.Timeout = types.Duration(servers.Patience)
	c.Cluster.ConnectionStrategy.Retry.InitialBackoff = types.Duration(20 * time.Millisecond)
	c.Cluster.ConnectionStrategy.Retry.Multiplier = 1
	c.Cluster.HeartbeatTimeout = types.Duration(servers.Patience)
	return c
}

var maps atomic.Int64

// fresh returns the name of a new map.
func fresh() string { return fmt.Sprintf("map-%d", maps.Add(1)) }

func open(t testing.TB, client hazelcast.Config, cfg hazelcaststore.Config) *hazelcaststore.Store {
	t.Helper()
	s, err := hazelcaststore.New(client, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// entries returns a map as others see it.
func (m *member) entries(t testing.TB, name string) *hazelcast.Map {
	t.Helper()
	found, err := m.client.GetMap(background, name)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// A handle is a store with the name of its map.
type handle struct {
	*hazelcaststore.Store
	of string
}

// Unwrap is the convention of package store.
func (h handle) Unwrap() store.Store { return h.Store }

func TestConformance(t *testing.T) {
	m := shared(t)
	storetest.Run(t, storetest.Harness{
		Open: func(t testing.TB) store.Store {
			of := fresh()
			return handle{open(t, config(m.Addr), hazelcaststore.Config{Map: of}), of}
		},
		Reopen: func(t testing.TB, s store.Store) store.Store {
			of := s.(handle).of
			return handle{open(t, config(m.Addr), hazelcaststore.Config{Map: of, MinMembers: 1}), of}
		},
		Corrupt: func(t testing.TB, s store.Store, name string, way int) string {
			return m.corrupt(t, s.(handle).of, name, way)
		},
		Fail: func(t testing.TB, s store.Store, fate func() storetest.Fate) store.Store {
			p, of := newProxy(t, m.Addr), s.(handle).of
			p.each = fate
			return handle{open(t, p.config(), hazelcaststore.Config{Map: of}), of}
		},
		TTL:   time.Second,
		Names: 300,
	})
}

// corrupt writes over an entry.
func (m *member) corrupt(t testing.TB, of, name string, way int) string {
	t.Helper()
	entries := m.entries(t, of)
	found, err := entries.Get(background, name)
	if err != nil {
		t.Fatal(err)
	}
	text := found.(string)
	ways := []struct {
		what  string
		value any
	}{
		{"no text", int64(7)},
		{"no JSON", "held"},
		{"an empty text", ""},
		{"something after the record", text + text},
		{"a field that is not known", strings.Replace(text, `{"holder"`, `{"owner":"x","holder"`, 1)},
		{"no holder", strings.Replace(text, `"holder":"`, `"holder":"","holder2":"`, 1)},
		{"no version", strings.Replace(text, `"version":"`, `"version":"","state":"`, 1)},
		{"a token that is no number", strings.Replace(text, `"token":`, `"token":"x","mark":`, 1)},
		{"a token of 0", strings.Replace(text, `"token":`, `"token":0,"mark":`, 1)},
		{"a TTL that no store takes", strings.Replace(text, `"ttl_ns":`, `"ttl_ns":9223372036854775807,"mark":`, 1)},
		{"no time of its grant", strings.Replace(text, `"granted_at":`, `"forget_at":`, 1)},
	}
	if way >= len(ways) {
		return ""
	}
	if ways[way].value == text {
		t.Fatalf("%s: nothing was changed in %s", ways[way].what, text)
	}
	if err := entries.Set(background, name, ways[way].value); err != nil {
		t.Fatal(err)
	}
	return ways[way].what
}
