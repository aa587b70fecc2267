package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"

	"github.com/jackc/pgx/v5/pgxpool"
)

// benchServer is that of SOLOIST_TEST_POSTGRES_URL, or one with its data in memory, where a commit costs next to nothing and all that is
// compared is work.
var benchServer = servers.Shared(func(t servers.Test) *servers.PostgresServer {
	return servers.Postgres(t)
})

// bare are the statements that any store on PostgreSQL needs at least: an upsert that takes and an update that frees.
type bareFloor struct{ pool *pgxpool.Pool }

func newFloor(b *testing.B, s *Store) bareFloor {
	run(b, s.pool, "CREATE TABLE IF NOT EXISTS "+s.tables.schema+".bare (name text PRIMARY KEY, holder text, token bigint, until timestamptz)")
	cfg := s.pool.Config()
	cfg.ConnConfig.RuntimeParams["search_path"] = s.tables.schema
	cfg.MaxConns = 64 // one for each goroutine
	pool, err := pgxpool.NewWithConfig(background, cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	return bareFloor{pool}
}

func (f bareFloor) take(name, holder string) (token int64, err error) {
	err = f.pool.QueryRow(background, `INSERT INTO bare VALUES ($1, $2, 1, now() + interval '1 minute')
		ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, token = bare.token + 1, until = excluded.until
		WHERE bare.until <= now() RETURNING token`, name, holder).Scan(&token)
	return token, err
}

func (f bareFloor) free(name string, token int64) error {
	_, err := f.pool.Exec(background, "UPDATE bare SET until = now() WHERE name = $1 AND token = $2", name, token)
	return err
}

func (f bareFloor) pair(name, holder string) error {
	token, err := f.take(name, holder)
	if err != nil {
		return err
	}
	return f.free(name, token)
}

func newBench(b *testing.B) (*Store, bareFloor) {
	b.Helper()
	s := fresh(b, benchServer(b).URL, "pool_max_conns", "16")
	return s, newFloor(b, s)
}

// BenchmarkPair takes and releases a name, in turns with the floor, and compares the medians.
func BenchmarkPair(b *testing.B) {
	s, floor := newBench(b)
	var ours, theirs []time.Duration
	timed := func(times *[]time.Duration, f func()) {
		start := time.Now()
		f()
		*times = append(*times, time.Since(start))
	}
	for b.Loop() {
		holder := fmt.Sprintf("holder-%d", len(ours))
		timed(&ours, func() { release(b, s, take(b, s, "name", holder, time.Minute)) })
		timed(&theirs, func() {
			if err := floor.pair("name", holder); err != nil {
				b.Fatal(err)
			}
		})
	}
	slices.Sort(ours)
	slices.Sort(theirs)
	our, their := ours[len(ours)/2], theirs[len(theirs)/2]
	b.ReportMetric(float64(our), "p50-ns/op")
	b.ReportMetric(float64(ours[len(ours)*99/100]), "p99-ns/op")
	b.ReportMetric(float64(their), "floor-ns/op")
	b.ReportMetric(float64(our)/float64(their), "x-floor")
	b.ReportMetric(float64(ours[len(ours)/10])/float64(theirs[len(theirs)/10]), "x-floor-p10") // says more on a busy machine
	b.ReportMetric(2, "trips/op")
}

// BenchmarkRefused asks for what is held; the floor is an upsert that does not change the row.
func BenchmarkRefused(b *testing.B) {
	s, floor := newBench(b)
	take(b, s, "name", "a", time.Hour)
	if _, err := floor.take("name", "a"); err != nil {
		b.Fatal(err)
	}
	b.Run("store", func(b *testing.B) {
		before := walOf(b, s.pool)
		for b.Loop() {
			if _, err := try(s, "name", "b", time.Hour); !errors.Is(err, store.ErrHeld) {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(walOf(b, s.pool)-before)/float64(b.N), "wal-B/op")
		b.ReportMetric(1, "trips/op")
	})
	b.Run("upsert", func(b *testing.B) {
		before := walOf(b, s.pool)
		for b.Loop() {
			if _, err := floor.take("name", "b"); err == nil {
				b.Fatal("taken")
			}
		}
		b.ReportMetric(float64(walOf(b, s.pool)-before)/float64(b.N), "wal-B/op")
		b.ReportMetric(1, "trips/op")
	})
}

// together runs f in 64 goroutines until b has had enough.
func together(b *testing.B, f func(worker int) error) {
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	for worker := range 64 {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := f(worker); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkGoroutines is 64 goroutines, each with its own name: through the client, which makes batches of their calls, and as
// bare statements.
func BenchmarkGoroutines(b *testing.B) {
	s, floor := newBench(b)
	b.Run("client", func(b *testing.B) {
		counted := &trips{Store: s}
		client, err := soloist.New(counted, soloist.Config{})
		if err != nil {
			b.Fatal(err)
		}
		defer client.Close()
		b.ResetTimer()
		together(b, func(worker int) error {
			lease, err := client.TryLock(background, fmt.Sprint("name-", worker))
			if err != nil {
				return err
			}
			return lease.Release()
		})
		b.StopTimer()
		b.ReportMetric(float64(counted.n.Load())/float64(b.N), "trips/op")
	})
	b.Run("bare", func(b *testing.B) {
		together(b, func(worker int) error { return floor.pair(fmt.Sprint("name-", worker), "holder") })
		b.ReportMetric(2, "trips/op")
	})
}

// trips counts the calls of a store.
type trips struct {
	*Store
	n atomic.Int64
}

func (c *trips) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	c.n.Add(1)
	return c.Store.Acquire(ctx, claims)
}

func (c *trips) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	c.n.Add(1)
	return c.Store.Release(ctx, releases)
}

// BenchmarkBatch takes and releases 1,000 names in two statements.
func BenchmarkBatch(b *testing.B) {
	s, _ := newBench(b)
	for b.Loop() {
		errs, err := s.Release(background, granted(b, s, batchOf(1000, "holder")))
		allNil(b, errs, err)
	}
	b.ReportMetric(2, "trips/op")
}

// BenchmarkExtend keeps 10,000 leases alive once.
func BenchmarkExtend(b *testing.B) {
	s, _ := newBench(b)
	var leases []store.Extension
	claims := batchOf(10_000, "holder")
	for at := 0; at < len(claims); at += 1000 {
		leases = append(leases, extensionsOf(granted(b, s, claims[at:at+1000]), time.Hour)...)
	}
	for b.Loop() {
		for at := 0; at < len(leases); at += 1000 {
			errs, err := s.Extend(background, leases[at:at+1000])
			allNil(b, errs, err)
		}
	}
	b.ReportMetric(10, "trips/op")
}

// BenchmarkHandover passes a name between 8 that wait for it.
func BenchmarkHandover(b *testing.B) {
	s, _ := newBench(b)
	b.ResetTimer()
	var left atomic.Int64
	left.Store(int64(b.N))
	var released atomic.Int64
	var gaps atomic.Int64
	var wg sync.WaitGroup
	for worker := range 8 {
		client, err := soloist.New(s, soloist.Config{Replica: fmt.Sprint("replica-", worker)})
		if err != nil {
			b.Fatal(err)
		}
		defer client.Close()
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				lease, err := client.Lock(background, "name")
				if err != nil {
					b.Error(err)
					return
				}
				if at := released.Load(); at > 0 {
					gaps.Add(time.Now().UnixNano() - at)
				}
				time.Sleep(time.Millisecond)
				released.Store(time.Now().UnixNano())
				if err := lease.Release(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(gaps.Load())/float64(b.N), "gap-ns/op")
}
