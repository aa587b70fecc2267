package mysqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store"

	"github.com/go-sql-driver/mysql"
)

// The bare statements are what anybody would write by hand: an upsert that takes a row, an update that frees it, one trip each.
const (
	bareTake = "INSERT INTO %s (name, lock_until, locked_at, locked_by, token) " +
		"VALUES (?, UTC_TIMESTAMP(6) + INTERVAL 30 SECOND, UTC_TIMESTAMP(6), ?, 1) " +
		"ON DUPLICATE KEY UPDATE token = token + 1, locked_at = IF(lock_until <= UTC_TIMESTAMP(6), VALUES(locked_at), locked_at), " +
		"locked_by = IF(lock_until <= UTC_TIMESTAMP(6), VALUES(locked_by), locked_by), " +
		"lock_until = IF(lock_until <= UTC_TIMESTAMP(6), VALUES(lock_until), lock_until)"
	bareFree = "UPDATE %s SET lock_until = UTC_TIMESTAMP(6) WHERE name = ? AND locked_by = ?"
)

type bare struct {
	db         *sql.DB
	take, free string
}

func newBare(b *testing.B, w *wire) bare {
	db := connect(b, mariadb(b).URL, func(c *mysql.Config) {
		c.InterpolateParams = true
		w.dial(c)
	})
	db.SetMaxIdleConns(128)
	s := open(b, db, Config{})
	return bare{db, fmt.Sprintf(bareTake, s.cfg.Table), fmt.Sprintf(bareFree, s.cfg.Table)}
}

func (x bare) pair(name string) error {
	for _, statement := range []string{x.take, x.free} {
		if _, err := x.db.ExecContext(context.Background(), statement, name, "holder"); err != nil {
			return err
		}
	}
	return nil
}

// report tells the round trips of an operation, and the median time.
func report(b *testing.B, w *wire, before int64, times []time.Duration) {
	b.ReportMetric(float64(w.requests.Load()-before)/float64(b.N), "trips/op")
	if len(times) > 0 {
		slices.Sort(times)
		b.ReportMetric(float64(times[len(times)/2].Microseconds()), "p50-µs")
	}
}

// BenchmarkPair acquires and releases one name.
func BenchmarkPair(b *testing.B) {
	b.Run("bare", func(b *testing.B) {
		w := &wire{}
		x := newBare(b, w)
		measure(b, w, func() error { return x.pair("x") })
	})
	for _, m := range modes {
		b.Run(m.name, func(b *testing.B) {
			s, w := wired(b, m.config, m.driver)
			n := 0
			measure(b, w, func() error {
				n++
				holder := intLiteral(int64(n))
				g := take(b, s, "x", holder)
				release(b, s, store.Release{Name: "x", Holder: holder, Token: g.Token})
				return nil
			})
		})
	}
}

func measure(b *testing.B, w *wire, do func() error) {
	if err := do(); err != nil {
		b.Fatal(err)
	}
	var times []time.Duration
	before := w.requests.Load()
	for b.Loop() {
		start := time.Now()
		if err := do(); err != nil {
			b.Fatal(err)
		}
		times = append(times, time.Since(start))
	}
	report(b, w, before, times)
}

// BenchmarkMany has 64 goroutines acquire and release their own names, through a client and by bare statements.
func BenchmarkMany(b *testing.B) {
	b.Run("bare", func(b *testing.B) {
		w := &wire{}
		x := newBare(b, w)
		many(b, w, func(name string) error { return x.pair(name) })
	})
	for _, m := range modes[:2] {
		b.Run("client/"+m.name, func(b *testing.B) {
			s, w := wired(b, m.config, m.driver)
			client, err := soloist.New(s, soloist.Config{})
			if err != nil {
				b.Fatal(err)
			}
			defer client.Close()
			many(b, w, func(name string) error {
				return client.Do(context.Background(), name, func(context.Context, *soloist.Lease) error { return nil })
			})
		})
	}
}

func many(b *testing.B, w *wire, do func(name string) error) {
	const goroutines = 64
	for i := range goroutines {
		if err := do(fmt.Sprintf("n%d", i)); err != nil {
			b.Fatal(err)
		}
	}
	var next atomic.Int64
	before := w.requests.Load()
	b.ResetTimer()
	var group sync.WaitGroup
	for i := range goroutines {
		group.Go(func() {
			for next.Add(1) <= int64(b.N) {
				if err := do(fmt.Sprintf("n%d", i)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	b.StopTimer()
	report(b, w, before, nil)
}

// BenchmarkRefused asks for a name that somebody has.
func BenchmarkRefused(b *testing.B) {
	b.Run("bare", func(b *testing.B) {
		w := &wire{}
		x := newBare(b, w)
		measure(b, w, func() error {
			_, err := x.db.ExecContext(context.Background(), x.take, "x", "holder")
			return err
		})
	})
	for _, m := range modes {
		b.Run(m.name, func(b *testing.B) {
			s, w := wired(b, m.config, m.driver)
			take(b, s, "x", "a")
			measure(b, w, func() error {
				acquire(b, s, claim("x", "b"))
				return nil
			})
		})
	}
}

// BenchmarkBatch acquires and releases 1,000 names in one batch each.
func BenchmarkBatch(b *testing.B) {
	for _, m := range modes {
		b.Run(m.name, func(b *testing.B) {
			s, w := wired(b, m.config, m.driver)
			claims, releases := make([]store.Claim, 1000), make([]store.Release, 1000)
			measure(b, w, func() error {
				for i := range claims {
					claims[i] = claim("element/j/"+intLiteral(int64(i)), "a")
				}
				for i, o := range acquire(b, s, claims...) {
					releases[i] = store.Release{Name: claims[i].Name, Holder: "a", Token: o.Grant.Token}
				}
				_, err := s.Release(context.Background(), releases)
				return err
			})
		})
	}
}

// BenchmarkExtend extends 10,000 leases in batches of 1,000, as the client does.
func BenchmarkExtend(b *testing.B) {
	s, w := wired(b, Config{}, nil)
	const n = 10_000
	claims, extensions := make([]store.Claim, n), make([]store.Extension, n)
	for i := range claims {
		claims[i] = claim("n"+intLiteral(int64(i)), "a")
	}
	for i, o := range acquire(b, s, claims...) {
		extensions[i] = store.Extension{Name: claims[i].Name, Holder: "a", Token: o.Grant.Token, TTL: time.Hour}
	}
	measure(b, w, func() error {
		_, err := s.Extend(context.Background(), extensions)
		return err
	})
}

// BenchmarkHandOver has another handle release a name that has been waited for, and tells how long the waiter took to have it.
func BenchmarkHandOver(b *testing.B) {
	s, w := wired(b, Config{}, nil)
	other, err := New(connect(b, mariadb(b).URL, nil), s.cfg)
	if err != nil {
		b.Fatal(err)
	}
	defer other.Close()
	client, err := soloist.New(s, soloist.Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	var times []time.Duration
	before := w.requests.Load()
	for b.Loop() {
		g := take(b, other, "lock/x", "a")
		released := make(chan time.Time, 1)
		timer := time.AfterFunc(40*time.Millisecond, func() { // while the client waits
			at := time.Now()
			release(b, other, store.Release{Name: "lock/x", Holder: "a", Token: g.Token})
			released <- at
		})
		lease, err := client.Lock(context.Background(), "x")
		if err != nil {
			b.Fatal(err)
		}
		times = append(times, time.Since(<-released))
		timer.Stop()
		if err := lease.Release(); err != nil {
			b.Fatal(err)
		}
	}
	report(b, w, before, times)
}
