package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/redisstore"
)

// A bench has a store and its client; the floor uses the same client.
type bench struct {
	*testing.B
	client *redis.Client
	store  *redisstore.Store
}

func newBench(b *testing.B) *bench {
	opts, err := redis.ParseURL(shared(b).URL)
	if err != nil {
		b.Fatal(err)
	}
	opts.ContextTimeoutEnabled, opts.MaxRetries = true, -1
	client := redis.NewClient(opts)
	b.Cleanup(func() { client.Close() })
	s, err := redisstore.New(client, redisstore.Config{Prefix: "bench-" + strconv.FormatInt(time.Now().UnixNano(), 36)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	return &bench{B: b, client: client, store: s}
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// compareAndDelete is what bare locks in Redis are released with.
var compareAndDelete = redis.NewScript("if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0")

// bare is the floor: SET NX PX, and the script that deletes the key of its owner.
func (b *bench) bare(key, owner string) {
	taken, err := b.client.SetNX(context.Background(), key, owner, time.Minute).Result()
	if err == nil && !taken {
		err = errors.New("held")
	}
	if err == nil {
		err = compareAndDelete.Run(context.Background(), b.client, []string{key}, owner).Err()
	}
	if err != nil {
		b.Error(err)
	}
}

func (b *bench) pair(name, holder string) {
	outs, err := b.store.Acquire(context.Background(), []store.Claim{{Name: name, Holder: holder, TTL: time.Minute}})
	if err == nil && outs[0].Err == nil {
		_, err = b.store.Release(context.Background(), []store.Release{{Name: name, Holder: holder, Token: outs[0].Grant.Token}})
	}
	if err != nil || outs[0].Err != nil {
		b.Error(err, outs)
	}
}

var callsOf = regexp.MustCompile(`cmdstat_(\w+):calls=(\d+)`)

// commands counts what clients have asked for until now: a script is one, whatever it does within.
func (b *bench) commands() int64 {
	text, err := b.client.Info(context.Background(), "commandstats").Result()
	b.must(err)
	n := int64(0)
	for _, m := range callsOf.FindAllStringSubmatch(text, -1) {
		if slices.Contains([]string{"eval", "evalsha"}, m[1]) {
			calls, _ := strconv.ParseInt(m[2], 10, 64)
			n += calls
		}
	}
	return n
}

// alternate measures ours and the floor in one loop, each as often as the other first, so that they meet the same machine.
func (b *bench) alternate(ours, floor func(i int)) {
	ours(-1)
	floor(-1)
	var our, their []time.Duration
	timed := func(to *[]time.Duration, f func(int), i int) {
		start := time.Now()
		f(i)
		*to = append(*to, time.Since(start))
	}
	for i := 0; b.Loop(); i++ {
		if i%2 == 0 {
			timed(&our, ours, i)
			timed(&their, floor, i)
		} else {
			timed(&their, floor, i)
			timed(&our, ours, i)
		}
	}
	slices.Sort(our)
	slices.Sort(their)
	p50, floor50 := our[len(our)/2], their[len(their)/2]
	b.ReportMetric(float64(p50), "p50-ns")
	b.ReportMetric(float64(our[len(our)*99/100]), "p99-ns")
	b.ReportMetric(float64(floor50), "floor-p50-ns")
	b.ReportMetric(float64(p50)/float64(floor50), "x-floor")
}

// trips reports the scripts that the server ran for a call.
func (b *bench) trips(call func()) {
	call()
	const calls = 20
	before := b.commands()
	for range calls {
		call()
	}
	b.ReportMetric(float64(b.commands()-before)/calls, "trips/op")
}

// BenchmarkPair takes and releases a name, by one client.
func BenchmarkPair(b *testing.B) {
	m := newBench(b)
	m.alternate(func(i int) { m.pair("name", "h"+strconv.Itoa(i)) }, func(i int) { m.bare("bare", "h"+strconv.Itoa(i)) })
	m.trips(func() { m.pair("name", "counted") })
}

// BenchmarkRefused tries for a name that is held. The floor is a SET NX that is refused.
func BenchmarkRefused(b *testing.B) {
	m := newBench(b)
	_, err := m.store.Acquire(b.Context(), []store.Claim{{Name: "name", Holder: "somebody", TTL: time.Hour}})
	m.must(err)
	m.must(m.client.Set(b.Context(), "bare-held", "somebody", time.Hour).Err())
	try := func(int) {
		outs, err := m.store.Acquire(context.Background(), []store.Claim{{Name: "name", Holder: "h", TTL: time.Minute}})
		if err != nil || !errors.Is(outs[0].Err, store.ErrHeld) {
			b.Error(outs, err)
		}
	}
	m.alternate(try, func(int) { m.must(m.client.SetNX(context.Background(), "bare-held", "h", time.Minute).Err()) })
	m.trips(func() { try(0) })
}

// BenchmarkBatch takes and releases 1,000 names in two batches. The floor is one pair after the other.
func BenchmarkBatch(b *testing.B) {
	m := newBench(b)
	const names = 1000
	batch := func(i int) {
		claims, releases := make([]store.Claim, names), make([]store.Release, names)
		for n := range claims {
			claims[n] = store.Claim{Name: "name-" + strconv.Itoa(n), Holder: fmt.Sprint("h", i), TTL: time.Minute}
		}
		outs, err := m.store.Acquire(context.Background(), claims)
		m.must(err)
		for n, out := range outs {
			m.must(out.Err)
			releases[n] = store.Release{Name: claims[n].Name, Holder: claims[n].Holder, Token: out.Grant.Token}
		}
		errs, err := m.store.Release(context.Background(), releases)
		m.must(errors.Join(append(errs, err)...))
	}
	batch(-1)
	for i := 0; b.Loop(); i++ {
		batch(i)
	}
	m.trips(func() { batch(-2) })
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/names, "ns/pair")
}

// BenchmarkExtend extends 10,000 leases in one batch.
func BenchmarkExtend(b *testing.B) {
	m := newBench(b)
	const leases = 10_000
	claims, extensions := make([]store.Claim, leases), make([]store.Extension, leases)
	for n := range claims {
		claims[n] = store.Claim{Name: "name-" + strconv.Itoa(n), Holder: "h", TTL: time.Hour}
	}
	outs, err := m.store.Acquire(b.Context(), claims)
	m.must(err)
	for n, out := range outs {
		m.must(out.Err)
		extensions[n] = store.Extension{Name: claims[n].Name, Holder: "h", Token: out.Grant.Token, TTL: time.Hour}
	}
	extend := func() {
		errs, err := m.store.Extend(context.Background(), extensions)
		m.must(errors.Join(append(errs, err)...))
	}
	for b.Loop() {
		extend()
	}
	m.trips(extend)
}

// BenchmarkGoroutines takes and releases through soloist's client, by 64 goroutines with a name each. The floor is the same by SET NX PX and
// the script, through the same connections; both in turns of 10,000 pairs.
func BenchmarkGoroutines(b *testing.B) {
	m := newBench(b)
	c, err := soloist.New(m.store, soloist.Config{})
	m.must(err)
	b.Cleanup(func() { c.Close() })
	const pairs = 10_000
	ours := func(name string) {
		lease, err := c.TryLock(context.Background(), name)
		if err == nil {
			err = lease.Release()
		}
		if err != nil {
			b.Error(err)
		}
	}
	floor := func(name string) { m.bare("bare-"+name, "h") }
	m.many(1000, ours)
	m.many(1000, floor)
	var our, their, ourCPU, theirCPU time.Duration
	rounds := 0
	for b.Loop() {
		rounds++
		t, u := m.many(pairs, ours)
		our, ourCPU = our+t, ourCPU+u
		t, u = m.many(pairs, floor)
		their, theirCPU = their+t, theirCPU+u
	}
	n := float64(rounds * pairs)
	b.ReportMetric(n/our.Seconds(), "pairs/s")
	b.ReportMetric(n/their.Seconds(), "floor-pairs/s")
	b.ReportMetric(float64(their)/float64(our), "x-floor")
	b.ReportMetric(ourCPU.Seconds()/n*1e5, "cpu-s/100k")
	b.ReportMetric(theirCPU.Seconds()/n*1e5, "floor-cpu-s/100k")
	before := m.commands()
	m.many(pairs, ours)
	b.ReportMetric(float64(m.commands()-before)/pairs, "trips/op")
}

// many has 64 goroutines call f until it was called calls times, and returns how long that took, and the CPU time of this process.
func (b *bench) many(calls int64, f func(name string)) (took, cpu time.Duration) {
	var left atomic.Int64
	left.Store(calls)
	start, used := time.Now(), processTime()
	var wg sync.WaitGroup
	for g := range 64 {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				f("name-" + strconv.Itoa(g))
			}
		})
	}
	wg.Wait()
	return time.Since(start), processTime() - used
}

// processTime is the CPU time of this process: the server's is not in it.
func processTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
