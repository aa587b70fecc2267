package live

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/test/servers"
)

// A backend is a server that keeps what it has answered, and so must hold under everything that happens here.
type backend struct {
	process process
	addr    string
	url     string // of the server itself
}

// A process is what is done to a server.
type process interface {
	Kill()
	Start()
	Pause()
	Resume()
	Paused() bool
}

// through is the URL that leads through a proxy.
func (b backend) through(t *testing.T, p *proxy) string {
	t.Helper()
	u, err := url.Parse(b.url)
	must(t, err)
	u.Host = p.addr()
	return u.String()
}

func redisBackend(t *testing.T) backend {
	s := servers.Redis(t, "--appendonly", "yes", "--appendfsync", "always")
	return backend{s, s.Addr, s.URL}
}

func postgresBackend(t *testing.T) backend {
	s := servers.Postgres(t, "shared_buffers=32MB")
	b := backend{s, s.Addr, s.URL}
	migrate(t, b.url)
	return b
}

func mariadbBackend(t *testing.T) backend {
	s := servers.MariaDB(t, "--innodb-flush-log-at-trx-commit=1")
	b := backend{s, s.Addr, s.URL}
	migrate(t, b.url)
	return b
}

func migrate(t *testing.T, url string) {
	t.Helper()
	if out, err := soloist(t, url, "migrate", "up").CombinedOutput(); err != nil {
		t.Fatalf("migrating: %v\n%s", err, out)
	}
}

// The TTL of these runs is longer than a server takes to start again.
const ttl = time.Second

// storm does one thing after the other to the server and to the connections, and counts what took effect.
func storm(ctx context.Context, t *testing.T, b backend, p *proxy) map[string]int {
	effective := map[string]int{}
	count := func(kind string, ok bool) {
		if ok {
			effective[kind]++
		}
	}
	swallowed := func(kind string, requests, replies bool) {
		before := p.dropped.Load()
		p.swallow(0.5, requests, replies, time.Duration(rand.Int64N(int64(ttl))))
		count(kind, p.dropped.Load() > before)
	}
	acts := []func(){
		func() { swallowed("replies lost", false, true) },
		func() { swallowed("requests lost", true, false) },
		func() { swallowed("partition", true, true) },
		func() {
			before := p.resets.Load()
			p.each(0.5, p.cut)
			count("reset", p.resets.Load() > before)
		},
		func() {
			p.delay(0.5, time.Duration(rand.Int64N(int64(50*time.Millisecond))), ttl/2)
			count("slow link", true)
		},
		func() {
			b.process.Pause()
			pause(ctx, time.Duration((0.2+rand.Float64())*float64(ttl)))
			count("server paused", b.process.Paused())
			b.process.Resume()
		},
		func() {
			b.process.Kill()
			b.process.Start()
			count("server killed", true)
		},
	}
	for i := 0; pause(ctx, time.Duration(rand.Int64N(int64(ttl/2)))); i++ {
		if i < len(acts) {
			acts[i]()
		} else {
			acts[rand.IntN(len(acts))]()
		}
	}
	return effective
}

// pause waits, and says false when ctx has ended.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

func TestServersThatKeepTheirDataHold(t *testing.T) {
	for name, start := range map[string]func(*testing.T) backend{"Redis": redisBackend, "PostgreSQL": postgresBackend, "MariaDB": mariadbBackend} {
		t.Run(name, func(t *testing.T) {
			b := start(t)
			p, err := newProxy(b.addr)
			must(t, err)
			defer p.close()
			var effective map[string]int
			v := verified(t, b.through(t, p), func(ctx context.Context) { effective = storm(ctx, t, b, p) }, "--ttl", ttl.String())
			t.Logf("to the server and its connections: %v; %d bytes swallowed, %d connections cut", effective, p.dropped.Load(), p.resets.Load())
			if v.Verdict == "violated" {
				t.Error("a promise did not hold")
			}
			if v.Checked.Grants < 100 {
				t.Errorf("there were %d grants in %v, which shows little", v.Checked.Grants, *span)
			}
			for _, kind := range []string{"server killed", "server paused", "replies lost"} {
				if effective[kind] == 0 && *span >= 20*time.Second {
					t.Errorf("%q did not happen", kind)
				}
			}
		})
	}
	t.Run("SQLite", func(t *testing.T) {
		v := verified(t, "sqlite:"+filepath.Join(servers.Directory(t), "store.db"), func(context.Context) {}, "--ttl", ttl.String())
		if v.Verdict == "violated" {
			t.Error("a promise did not hold")
		}
	})
}

// With faults of the clients alone the name of a dead holder is taken over soon after its TTL.
func TestTakeOverIsSoonAfterTheTTL(t *testing.T) {
	v := verified(t, redisBackend(t).url, func(context.Context) {}, "--ttl", ttl.String(), "--faults", "kill")
	if v.Verdict != "held" {
		t.Errorf("the verdict is %s: %v", v.Verdict, v.Void)
	}
	if limit := ttl + 2*time.Second; time.Duration(v.Figures.Takeover.P99) > limit {
		t.Errorf("take-over p99 %v; want at most %v", time.Duration(v.Figures.Takeover.P99), limit)
	}
}

// Servers that forget: what is wrong must be found.
func TestServersThatForgetAreCaught(t *testing.T) {
	ask := func(t *testing.T, addr, command string) {
		conn, err := net.DialTimeout("tcp", addr, time.Second)
		if err != nil {
			return // it is just being started again
		}
		defer conn.Close()
		_, _ = fmt.Fprint(conn, command+"\r\n")
		_, _ = conn.Read(make([]byte, 100))
	}
	controls := map[string]func(t *testing.T) verdict{
		"Redis that is flushed": func(t *testing.T) verdict {
			b := redisBackend(t)
			return verified(t, b.url, func(ctx context.Context) {
				for pause(ctx, ttl/3) {
					ask(t, b.addr, "FLUSHALL")
				}
			}, "--ttl", ttl.String(), "--faults", "none")
		},
		"Redis without persistence that is killed": func(t *testing.T) verdict {
			s := servers.Redis(t, "--maxmemory-policy", "noeviction")
			return verified(t, s.URL, func(ctx context.Context) {
				for pause(ctx, ttl/2) {
					s.Kill()
					s.Start()
				}
			}, "--ttl", ttl.String(), "--faults", "none")
		},
		"two Redis servers behind one address": func(t *testing.T) verdict {
			a, b := servers.Redis(t, "--databases", "1"), servers.Redis(t, "--databases", "1")
			p, err := newProxy(a.Addr)
			must(t, err)
			defer p.close()
			return verified(t, strings.Replace(a.URL, a.Addr, p.addr(), 1), func(ctx context.Context) {
				for i := 0; pause(ctx, ttl/4); i++ { // some connections stay with one server while others go to the other
					target := []string{b.Addr, a.Addr}[i%2]
					p.target.Store(&target)
					p.each(0.5, p.cut)
				}
			}, "--ttl", ttl.String(), "--faults", "none")
		},
		"Redis Sentinel that promotes a replica which lags behind": func(t *testing.T) verdict {
			s := servers.RedisSentinel(t)
			return verified(t, s.URL, func(ctx context.Context) {
				pause(ctx, 2*ttl)
				// From here on the replica receives nothing: it is cut off, and does not know the password to come back with. The clients
				// that are connected go on to be granted leases.
				ask(t, s.Master.Addr, "CONFIG SET requirepass secret")
				ask(t, s.Master.Addr, "AUTH secret\r\nCLIENT KILL TYPE replica")
				pause(ctx, ttl)
				s.Master.Kill()
				<-ctx.Done()
			}, "--ttl", "3s", "--faults", "none", "--for", "16s")
		},
		"PostgreSQL with an asynchronous standby that is promoted beside it": func(t *testing.T) verdict {
			primary := servers.Postgres(t, "shared_buffers=32MB")
			migrate(t, primary.URL)
			standby := servers.PostgresStandby(t, primary, "standby", "shared_buffers=32MB")
			p, err := newProxy(primary.Addr)
			must(t, err)
			defer p.close()
			return verified(t, backend{url: primary.URL}.through(t, p), func(ctx context.Context) {
				pause(ctx, ttl)
				standby.Promote()
				p.target.Store(&standby.Addr) // half of the clients learn of it
				p.each(0.5, p.cut)
				<-ctx.Done()
			}, "--ttl", ttl.String(), "--faults", "none")
		},
		"PostgreSQL whose rows are deleted": func(t *testing.T) verdict {
			b := postgresBackend(t)
			return verified(t, b.url, func(ctx context.Context) {
				for pause(ctx, ttl/3) {
					out, err := exec.Command("psql", b.url, "-c", "DELETE FROM soloist").CombinedOutput()
					if err != nil {
						t.Fatalf("deleting: %v\n%s", err, out)
					}
				}
			}, "--ttl", ttl.String(), "--faults", "none")
		},
	}
	for name, control := range controls {
		t.Run(name, func(t *testing.T) {
			for try := 1; ; try++ {
				v := control(t)
				if v.Verdict == "violated" {
					return
				}
				if try == 3 {
					t.Fatalf("it was not caught: %s %v", v.Verdict, v.Void)
				}
				t.Logf("not caught in run %d; again", try)
			}
		})
	}
}
