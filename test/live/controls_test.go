//go:build unix

package live

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/test/servers"
)

// Servers that forget, or that are two: what goes wrong must be found. A run that finds nothing elsewhere says little without these.
func TestServersThatForgetAreCaught(t *testing.T) {
	servers.Long(t)
	for name, control := range map[string]func(*testing.T) run{
		"Redis that is flushed":                                  flushedRedis,
		"Redis that keeps nothing and is killed":                 forgetfulRedis,
		"Redis whose clock jumps":                                jumpingRedis,
		"Redis Sentinel that promotes a replica which lags":      laggingReplica,
		"Redis from an older copy":                               func(t *testing.T) run { return olderCopy(t, redisRig(t)) },
		"PostgreSQL from an older copy":                          func(t *testing.T) run { return olderCopy(t, postgresRig(t)) },
		"MariaDB from an older copy":                             func(t *testing.T) run { return olderCopy(t, mariadbRig(t)) },
		"PostgreSQL whose asynchronous standby is promoted, too": twoPrimaries,
		"PostgreSQL whose rows are deleted":                      deletedRows,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mustBeCaught(t, control)
		})
	}
}

func flushedRedis(t *testing.T) run {
	b := redisRig(t)
	return run{url: b.url, meanwhile: repeatedly("flushed", *ttl/3, func() { redisCommand(t, b.addr, "FLUSHALL") })}
}

func forgetfulRedis(t *testing.T) run {
	s := servers.Redis(t, "--maxmemory-policy", "noeviction")
	return run{url: s.URL, meanwhile: repeatedly("killed", *ttl/2, func() {
		s.Kill()
		s.Start()
	})}
}

// Leases of Redis end by its wall clock: each jump ends all there are, while their holders believe in them.
func jumpingRedis(t *testing.T) run {
	s, clock := servers.RedisWithClock(t, durableRedis...)
	ahead := time.Duration(0)
	return run{url: s.URL, meanwhile: repeatedly("jumps by a minute", *ttl/3, func() {
		ahead += time.Minute
		clock.Set(ahead)
	})}
}

// What the master grants while its replica is paused, the replica never receives. The master is paused too, then, so that the Sentinels
// promote the replica; and at the end it goes on, a master that has slept.
func laggingReplica(t *testing.T) run {
	s := servers.RedisSentinel(t, time.Second)
	return run{url: s.URL, ttl: 3 * time.Second, span: 15 * time.Second, meanwhile: once(func(ctx context.Context) {
		wait(ctx, *ttl)
		s.Replica.Pause()
		wait(ctx, 2*(*ttl))
		s.Master.Pause()
		s.Replica.Resume()
		servers.Wait(t, "the replica to be promoted", func() bool {
			return ctx.Err() != nil || strings.Contains(redisCommand(t, s.Replica.Addr, "ROLE"), "master")
		})
		s.Master.Resume()
	})}
}

// olderCopy makes the server forget all that happened since before the run, again and again. The clients stay.
func olderCopy(t *testing.T, b *rig) run {
	restore := b.save(t)
	return run{url: b.url, ttl: 4 * time.Second, span: 15 * time.Second, meanwhile: repeatedly("restored", time.Second, restore)}
}

// Half of the connections lead to either of two servers, each of which takes itself for the primary.
func twoPrimaries(t *testing.T) run {
	b := postgresRig(t)
	standby := servers.PostgresStandby(t, b.server.(*servers.PostgresServer), "standby", smallPostgres...)
	return run{url: b.through(), meanwhile: once(func(ctx context.Context) {
		wait(ctx, *ttl)
		standby.Promote()
		b.proxy.retarget(0.5, b.addr, standby.Addr)
	})}
}

func deletedRows(t *testing.T) run {
	b := postgresRig(t)
	return run{url: b.url, meanwhile: repeatedly("deleted", *ttl/3, func() { psql(t, b.url, "DELETE FROM soloist") })}
}
