//go:build unix

package live

import (
	"context"
	"flag"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/test/servers"
)

var events = flag.Int("live.events", 0, "measure each kind of event in so many runs, instead of repeating it until it is found")

// What happens once in a run is found by what was under way at that moment. docs/why/safety.md has how many runs of those that were measured found
// it. Small events are measured only: no single run must find them.
func TestOneEvent(t *testing.T) {
	servers.Long(t)
	kinds := map[string]func(*testing.T) run{
		"Redis whose clock is put forward by an hour": clockForward,
		"PostgreSQL that loses the last 1.7 s":        func(t *testing.T) run { return lostTail(t, 1700*time.Millisecond) },
	}
	if *events > 0 {
		kinds["PostgreSQL that loses the last 0.1 s"] = func(t *testing.T) run { return lostTail(t, 100*time.Millisecond) }
		kinds["PostgreSQL that loses the last 0.5 s"] = func(t *testing.T) run { return lostTail(t, 500*time.Millisecond) }
		kinds["PostgreSQL that loses the last 2.6 s"] = func(t *testing.T) run { return lostTail(t, 2600*time.Millisecond) }
		kinds["PostgreSQL that loses one lease"] = lostLease
	}
	for name, event := range kinds {
		t.Run(name, func(t *testing.T) {
			if *events == 0 {
				mustBeCaught(t, event)
				return
			}
			measure(t, event)
		})
	}
}

// measure counts how many runs find an event.
func measure(t *testing.T, event func(*testing.T) run) {
	t.Helper()
	found, shown := 0, 0
	for range *events {
		r := event(t)
		r.faults, r.ttl, r.span = "none", *ttl, *span
		switch r.verify(t).Verdict {
		case "violated":
			found++
			shown++
		case "held":
			shown++
		}
	}
	t.Logf("%d of %d runs have found it, and %d more were void", found, shown, *events-shown)
}

func clockForward(t *testing.T) run {
	s, clock := servers.RedisWithClock(t, durableRedis...)
	return run{url: s.URL, meanwhile: once(func(ctx context.Context) {
		wait(ctx, 3*(*ttl))
		clock.Set(time.Hour)
	})}
}

// lostTail is a primary that dies when its asynchronous standby has not received from it for a while, and is promoted.
func lostTail(t *testing.T, tail time.Duration) run {
	b := postgresRig(t)
	wire, err := newProxy(b.addr)
	must(t, err)
	t.Cleanup(wire.close)
	primary := b.server.(*servers.PostgresServer)
	standby := servers.PostgresStandby(t, heardThrough(primary, wire.addr()), "standby", smallPostgres...)
	return run{url: b.through(), meanwhile: once(func(ctx context.Context) {
		wait(ctx, 3*(*ttl))
		wire.spoil(1, swallow, swallow)
		wait(ctx, tail)
		primary.Kill()
		standby.Promote()
		b.proxy.retarget(1, standby.Addr)
	})}
}

// lostLease is a server that forgets one lease that is live, of a lock or a leadership.
func lostLease(t *testing.T) run {
	b := postgresRig(t)
	return run{url: b.url, meanwhile: once(func(ctx context.Context) {
		wait(ctx, 3*(*ttl))
		for deleted := "0"; deleted == "0" && wait(ctx, time.Millisecond); {
			deleted = psql(t, b.url, `WITH live AS (SELECT name FROM soloist WHERE lock_until > clock_timestamp() AND name ~ '/(lock|leader)/' AND name !~ 'control'
				ORDER BY random() LIMIT 1), gone AS (DELETE FROM soloist WHERE name IN (SELECT name FROM live) RETURNING name) SELECT count(*) FROM gone`)
		}
	})}
}
