package soloist_test

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"syscall"
	"testing"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

// BenchmarkDo measures what Do adds to the store's own time: both are run in one loop, a thousand at a time, so that they meet
// the same machine.
func BenchmarkDo(b *testing.B) {
	comparePair(b, func(c *soloist.Client) error { return c.Do(background, "x", ok) })
}

// BenchmarkLock measures what Lock and Release add to the store's own time.
func BenchmarkLock(b *testing.B) { comparePair(b, lockAndRelease) }

func lockAndRelease(c *soloist.Client) error {
	l, err := c.Lock(background, "x")
	if err != nil {
		return err
	}
	return l.Release()
}

// comparePair compares a call that acquires a name and releases it with the two calls of the store.
func comparePair(b *testing.B, pair func(*soloist.Client) error) {
	s := memstore.New()
	c := soloisttest.NewReplica(b, s, soloist.Config{})
	compare(b, func() {
		if err := pair(c); err != nil {
			b.Fatal(err)
		}
	}, func() { barePair(s) })
	trips(b, func(c *soloist.Client) { _ = pair(c) })
}

func barePair(s store.Store) {
	outs, _ := s.Acquire(background, []store.Claim{{Name: "lock/bare", Holder: "h", TTL: time.Minute}})
	_, _ = s.Release(background, []store.Release{{Name: "lock/bare", Holder: "h", Token: outs[0].Grant.Token}})
}

// A pair without contention needs no channel to wait for others, no context of a subscription and no value for an error that there is not.
func TestAllocationsOfAPair(t *testing.T) {
	s := memstore.New()
	c := soloisttest.NewReplica(t, s, soloist.Config{})
	bare := testing.AllocsPerRun(1000, func() { barePair(s) })
	for what, pair := range map[string]func(*soloist.Client) error{
		"Lock and Release": lockAndRelease,
		"Do":               func(c *soloist.Client) error { return c.Do(background, "x", ok) },
	} {
		added := testing.AllocsPerRun(1000, func() {
			if err := pair(c); err != nil {
				t.Fatal(err)
			}
		}) - bare
		if most := 12.0; added > most { // it is 9 or 10, and one more with the race detector
			t.Errorf("%s: %v allocations above those of the store, at most %v are needed", what, added, most)
		}
	}
}

// trips reports how many requests a call makes.
func trips(b *testing.B, call func(*soloist.Client)) {
	const calls = 100
	s := soloisttest.NewStore()
	c := soloisttest.NewReplica(b, s, soloist.Config{})
	for range calls {
		call(c)
	}
	b.ReportMetric(float64(s.Calls())/calls, "trips/call")
}

// BenchmarkRefused measures what a refused try adds to the store's own time.
func BenchmarkRefused(b *testing.B) {
	s := memstore.New()
	c := soloisttest.NewReplica(b, s, soloist.Config{})
	if _, err := s.Acquire(background, []store.Claim{{Name: "lock/x", Holder: "somebody", TTL: time.Hour}}); err != nil {
		b.Fatal(err)
	}
	compare(b, func() { _, _ = c.TryLock(background, "x") }, func() {
		_, _ = s.Acquire(background, []store.Claim{{Name: "lock/x", Holder: "h", TTL: time.Minute}})
	})
	held := soloisttest.NewStore()
	mustLock(b, soloisttest.NewReplica(b, held, soloist.Config{}), "x")
	before := held.Calls()
	_, _ = soloisttest.NewReplica(b, held, soloist.Config{}).TryLock(background, "x")
	b.ReportMetric(float64(held.Calls()-before), "trips/call")
}

// compare reports nanoseconds of processor time and allocations per call of ours above those of bare.
func compare(b *testing.B, ours, bare func()) {
	const round = 1000
	measure := func(fn func()) (time.Duration, uint64) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := cpu()
		for range round {
			fn()
		}
		took := cpu() - start
		runtime.ReadMemStats(&after)
		return took, after.Mallocs - before.Mallocs
	}
	var timeOurs, timeBare time.Duration
	var allocsOurs, allocsBare, rounds uint64
	for b.Loop() {
		d, n := measure(bare)
		timeBare, allocsBare = timeBare+d, allocsBare+n
		d, n = measure(ours)
		timeOurs, allocsOurs = timeOurs+d, allocsOurs+n
		rounds++
	}
	calls := float64(rounds * round)
	b.ReportMetric(0, "ns/op") // of a whole round: says nothing
	b.ReportMetric(float64(timeOurs.Nanoseconds())/calls, "ns/call")
	b.ReportMetric(float64(timeBare.Nanoseconds())/calls, "ns/bare")
	b.ReportMetric(float64((timeOurs-timeBare).Nanoseconds())/calls, "ns/added")
	b.ReportMetric((float64(allocsOurs)-float64(allocsBare))/calls, "allocs/added")
}

// BenchmarkHeldLease measures the heap that one of 10,000 leases takes in the client, and its goroutines.
func BenchmarkHeldLease(b *testing.B) {
	const n = 10_000
	for b.Loop() {
		s := memstore.New()
		c := soloisttest.NewReplica(b, s, soloist.Config{})
		names := make([]string, n)
		for i := range names {
			names[i] = fmt.Sprint("name-", i)
			if _, err := s.Acquire(background, []store.Claim{{Name: "lock/" + names[i], Holder: "h", TTL: time.Millisecond}}); err != nil {
				b.Fatal(err)
			}
		}
		before, goroutines := heap(), runtime.NumGoroutine()
		leases := make([]*soloist.Lease, n)
		for i, name := range names {
			l, err := c.Lock(background, name)
			if err != nil {
				b.Fatal(err)
			}
			leases[i] = l
		}
		b.ReportMetric(float64(heap()-before)/n, "B/lease")
		b.ReportMetric(float64(runtime.NumGoroutine()-goroutines), "goroutines")
		runtime.KeepAlive(leases)
		_ = c.Close()
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkStart measures how long it takes to start a client with 10,000 jobs that are new to the store (first), and that are
// known to it (again).
func BenchmarkStart(b *testing.B) {
	jobs := manyJobs(10_000)
	for _, known := range []string{"first", "again"} {
		b.Run(known, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				s := memstore.New()
				if known == "again" {
					run(b, s, jobs)
				}
				b.StartTimer()
				run(b, s, jobs)
			}
		})
	}
}

// run starts jobs and ends them when they have been registered.
func run(b *testing.B, s store.Store, jobs []soloist.Job) {
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	c := soloisttest.NewReplica(b, watched{s, cancel}, soloist.Config{})
	if err := c.Run(ctx, jobs...); err != nil {
		b.Fatal(err)
	}
}

// watched is told when the client has begun to watch for controls: then its jobs are registered.
type watched struct {
	store.Store
	registered func()
}

func (w watched) Watch(context.Context, []string) (<-chan struct{}, error) {
	w.registered()
	ended := make(chan struct{})
	close(ended)
	return ended, nil
}

func manyJobs(n int) []soloist.Job {
	jobs := make([]soloist.Job, n)
	for i := range jobs {
		jobs[i] = soloist.Job{Name: fmt.Sprint("job-", i), Schedule: soloist.Every(24 * 365 * time.Hour), Do: func(context.Context, soloist.Run) error { return nil }}
	}
	return jobs
}

// BenchmarkIdle reports the CPU that a client with 10,000 jobs takes while none is due, in % of one core.
func BenchmarkIdle(b *testing.B) {
	ctx, cancel := context.WithCancel(background)
	c := soloisttest.NewReplica(b, memstore.New(), soloist.Config{})
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx, manyJobs(10_000)...) }()
	for {
		if infos, err := collect(c.Admin().Jobs(ctx)); err == nil && len(infos) == 10_000 {
			break
		}
		runtime.Gosched()
	}
	debug.FreeOSMemory() // what starting has left for the collector is not idling
	before, start := cpu(), time.Now()
	for b.Loop() {
		time.Sleep(3 * time.Second)
	}
	b.ReportMetric(100*(cpu()-before).Seconds()/time.Since(start).Seconds(), "%cpu")
	cancel()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
}

func cpu() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
