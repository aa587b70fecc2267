package pgstore

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"
)

// The primary dies with its machine, and its synchronous standby is promoted. A client that knows both hosts goes on by itself, tokens grow,
// and what was acknowledged is there.
func TestFailover(t *testing.T) {
	primary := servers.Postgres(t, "max_connections=50")
	standby := servers.PostgresStandby(t, primary, "s1")
	u, err := url.Parse(primary.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = primary.Addr + "," + standby.Addr
	s := fresh(t, u.String(), "target_session_attrs", "read-write")

	onStandby := open(t, standby.URL, "schema", s.tables.schema)
	eventually(t, "the standby has the tables", func() bool { return onStandby.Ping(background) == nil })
	_, err = try(onStandby, "name", "a", time.Minute)
	says(t, err, "25006", "connect to the primary")
	if errors.Is(err, store.ErrUnknown) {
		t.Errorf("a standby has refused, and yet: %v", err)
	}
	bounded, cancel := context.WithTimeout(background, servers.Patience)
	defer cancel()
	errs, err := onStandby.Release(bounded, []store.Release{{Name: "name", Holder: "a", Token: 1}})
	if says(t, errors.Join(append(errs, err)...), "connect to the primary"); errors.Is(err, store.ErrUnknown) {
		t.Errorf("a standby has refused, and yet: %v", err)
	}
	_, err = onStandby.Leave(bounded, "name", "a")
	says(t, err, "connect to the primary")
	_, err = onStandby.Sweep(bounded, 1)
	says(t, err, "connect to the primary")
	if _, _, err := onStandby.Queue(bounded, claim("name", "a", time.Minute)); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("waiting in the queue on a standby: %v", err)
	}
	if c, err := onStandby.Capabilities(background); err != nil || c.Fencing.Answer != store.No {
		t.Errorf("the standby's capabilities: %+v, %v", c, err)
	}
	if f := finding(t, onStandby, "server"); f.Level != store.LevelError {
		t.Errorf("%+v", f)
	}
	w, err := onStandby.Watch(background, []string{"watched"}) // polls
	if err != nil {
		t.Fatal(err)
	}

	eventually(t, "the standby is connected", func() bool {
		c, err := s.Capabilities(background)
		return err == nil && c.Fencing.Answer == store.No
	})
	run(t, s.pool, "ALTER SYSTEM SET synchronous_standby_names = 's1'")
	run(t, s.pool, "SELECT pg_reload_conf()")
	eventually(t, "the standby is synchronous", func() bool {
		return one[int](t, s.pool, "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == 1
	})
	if c, err := s.Capabilities(background); err != nil || c.Fencing.Answer != store.Yes || c.Durable.Answer != store.Yes {
		t.Errorf("with a synchronous standby: %+v, %v", c, err)
	}
	if f := finding(t, s, "replication"); f.Level != store.LevelOK {
		t.Errorf("%+v", f)
	}
	drain(w)
	release(t, s, take(t, s, "watched", "a", time.Minute))
	if _, open := <-w; !open {
		t.Error("the watch on the standby was closed")
	}

	var leases []store.Release
	for i := range 50 {
		leases = append(leases, take(t, s, fmt.Sprint("name ", i), "a", time.Hour))
	}
	primary.Kill()
	begun := time.Now()
	standby.Promote()
	promoted := time.Since(begun)
	eventually(t, "the client has found the new primary", func() bool { return tryExtend(s, leases[0], time.Hour) == nil })
	t.Logf("the client took %v, the promotion %v", time.Since(begun), promoted)
	for _, lease := range leases {
		heldBy(t, s, lease.Name, "b")
		if err := tryExtend(s, lease, time.Hour); err != nil {
			t.Errorf("%q: %v", lease.Name, err)
		}
		release(t, s, lease)
		if next := take(t, s, lease.Name, "b", time.Hour); next.Token <= lease.Token {
			t.Errorf("%q: token %d after %d", lease.Name, next.Token, lease.Token)
		}
	}
}

// A server that has become read-only is looked for again: a pooler, an address that moves, or another host of the URL has led the client to it. Its connections
// stay open, so that a client that kept them would be refused for ever.
func TestConnectionToAServerThatHasBecomeReadOnly(t *testing.T) {
	s := fresh(t, server(t).URL, "pool_max_conns", "1")
	held := take(t, s, "held", "a", time.Hour)
	for what, do := range map[string]func() error{
		"Acquire": func() error { _, err := try(s, "name", "a", time.Hour); return err },
		"Choose": func() error {
			_, _, err := s.Choose(background, []string{"name"}, claim("x", "a", time.Minute))
			return err
		},
		"Extend":  func() error { return tryExtend(s, held, time.Hour) },
		"Release": func() error { return tryRelease(s, held) },
		"Leave":   func() error { _, err := s.Leave(background, "name", "a"); return err },
		"Sweep":   func() error { _, err := s.Sweep(background, 1); return err },
	} {
		run(t, s.pool, "SET default_transaction_read_only = on")
		says(t, do(), codeReadOnly)
		if on := one[string](t, s.pool, "SHOW default_transaction_read_only"); on != "off" {
			t.Errorf("%s: the connection is used again", what)
		}
	}
}
