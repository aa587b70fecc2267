package natsstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/natsstore"
	"github.com/soloist-dev/soloist/store/storetest"
	"github.com/soloist-dev/soloist/test/servers"
)

// A cluster is three servers.
type cluster []*servers.NATSServer

var three = servers.Shared(func(t servers.Test) cluster { return servers.NATS(t, 3) })

// addrs returns the servers for a URL, beginning with one of them.
func (c cluster) addrs(first int) string {
	var all []string
	for i := range c {
		all = append(all, c[(first+i)%len(c)].Addr)
	}
	return strings.Join(all, ",")
}

// url opens a store by a URL that names all servers.
func (c cluster) url(t testing.TB, first int, bucket string) *natsstore.Store {
	t.Helper()
	s, err := natsstore.OpenURL(background, "nats://"+c.addrs(first)+"/"+bucket+"?replicas=3&dialtimeout=2s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// bucket makes a bucket with three replicas, when the cluster can.
func (c cluster) bucket(t testing.TB) string {
	t.Helper()
	bucket := fresh()
	s := c.url(t, 0, bucket)
	servers.Wait(t, "a bucket with three replicas", func() bool {
		ctx, cancel := context.WithTimeout(background, 10*time.Second)
		defer cancel()
		_, err := s.Migrate(ctx)
		return err == nil
	})
	return bucket
}

// leader returns the server that is the leader of a bucket, and waits until there is one.
func (c cluster) leader(t testing.TB, bucket string) *servers.NATSServer {
	t.Helper()
	js := connect(t, strings.ReplaceAll(c.addrs(0), ",", ",nats://"))
	var found *servers.NATSServer
	servers.Wait(t, "a leader", func() bool {
		ctx, cancel := context.WithTimeout(background, 5*time.Second)
		defer cancel()
		stream, err := js.Stream(ctx, "KV_"+bucket)
		if err != nil || stream.CachedInfo().Cluster == nil {
			return false
		}
		for i, s := range c {
			if stream.CachedInfo().Cluster.Leader == fmt.Sprintf("n%d", i) {
				found = s
			}
		}
		return found != nil
	})
	return found
}

// TestClusterConformance: the laws hold with three replicas, and clients that are connected to different servers.
func TestClusterConformance(t *testing.T) {
	servers.Long(t)
	c := three(t)
	var js []jetstream.JetStream
	for _, s := range c {
		js = append(js, connect(t, s.Addr))
	}
	h, n := harness(js[0], 3), 0
	h.Open = func(t testing.TB) store.Store {
		b := c.bucket(t)
		return handle{open(t, js[0], natsstore.Config{Bucket: b}), b}
	}
	h.Reopen = func(t testing.TB, s store.Store) store.Store {
		n++
		bucket := s.(handle).bucket
		return handle{open(t, js[n%len(js)], natsstore.Config{Bucket: bucket}), bucket}
	}
	storetest.Run(t, h)
}

// A fleet has workers that hold one name in turn, and reports when two hold it at once, or tokens do not grow.
type fleet struct {
	mu     sync.Mutex
	until  time.Time // the deadline of who holds it now
	holder string
	last   int64
	grants int
	wrong  []string
}

func (f *fleet) begin(holder string, g store.Grant, deadline time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Now().After(deadline) {
		return
	}
	if f.holder != "" && time.Now().Before(f.until) {
		f.wrong = append(f.wrong, fmt.Sprintf("%s was granted the name while %s held it", holder, f.holder))
	}
	if g.Token <= f.last {
		f.wrong = append(f.wrong, fmt.Sprintf("the token %d was granted after %d", g.Token, f.last))
	}
	f.holder, f.until, f.last = holder, deadline, g.Token
	f.grants++
}

func (f *fleet) end(holder string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.holder == holder {
		f.holder = ""
	}
}

func (f *fleet) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.grants
}

// work holds the name in turn with others, and extends a batch of leases beside it, until ctx ends.
func (f *fleet) work(ctx context.Context, s store.Store, worker int) {
	const ttl = 2 * time.Second
	for i := 0; ctx.Err() == nil; i++ {
		holder := fmt.Sprintf("%d/%d", worker, i)
		began := time.Now()
		request, cancel := context.WithTimeout(ctx, ttl)
		claims := []store.Claim{{Name: "turn", Holder: holder, TTL: ttl}}
		for j := range 20 {
			claims = append(claims, store.Claim{Name: fmt.Sprintf("own/%d/%d", worker, j), Holder: holder, TTL: time.Millisecond})
		}
		outcomes, err := s.Acquire(request, claims)
		cancel()
		if err != nil || outcomes[0].Err != nil {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		f.begin(holder, outcomes[0].Grant, began.Add(ttl))
		f.end(holder)
		request, cancel = context.WithTimeout(ctx, ttl)
		_ = release(request, s, "turn", holder, outcomes[0].Grant.Token)
		cancel()
	}
}

// TestFailover: leaders that are killed, paused and started again in the midst of batches never let two hold a name, and the fleet continues.
func TestFailover(t *testing.T) {
	servers.Long(t)
	c := cluster(servers.NATS(t, 3))
	bucket, f := c.bucket(t), &fleet{}
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	var workers sync.WaitGroup
	for i := range 4 {
		s := c.url(t, i, bucket)
		workers.Go(func() { f.work(ctx, s, i) })
	}
	progress := func(what string) {
		t.Helper()
		from, start := f.count(), time.Now()
		servers.Wait(t, "grants after "+what, func() bool { return f.count() >= from+20 })
		t.Logf("20 grants %v after %s", time.Since(start).Round(time.Millisecond), what)
	}
	progress("the beginning")
	for range 2 {
		leader := c.leader(t, bucket)
		leader.Kill()
		progress("the leader was killed")
		leader.Start()
		leader = c.leader(t, bucket)
		leader.Pause()
		progress("the leader was paused")
		leader.Resume()
		progress("it was resumed")
	}
	cancel()
	workers.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, wrong := range f.wrong {
		t.Error(wrong)
	}
}

// TestNoMajority: one server of three grants nothing and extends nothing, and says so; with the second it continues, with the same leases.
func TestNoMajority(t *testing.T) {
	servers.Long(t)
	c := cluster(servers.NATS(t, 3))
	bucket := c.bucket(t)
	s := c.url(t, 0, bucket)
	var g store.Grant
	servers.Wait(t, "a grant", func() (ok bool) {
		var err error
		g, err = acquire(background, s, "a", "x", time.Hour)
		return err == nil
	})
	c[1].Kill()
	c[2].Kill()
	short := func(do func(ctx context.Context) error) error {
		ctx, cancel := context.WithTimeout(background, 500*time.Millisecond)
		defer cancel()
		return do(ctx)
	}
	for i := range 4 {
		err := short(func(ctx context.Context) error {
			_, err := acquire(ctx, s, fmt.Sprintf("b%d", i), "x", time.Hour)
			return err
		})
		if err == nil || errors.Is(err, store.ErrHeld) {
			t.Errorf("acquired without a majority: %v", err)
		}
		err = short(func(ctx context.Context) error { return extend(ctx, s, "a", "x", g.Token, time.Hour) })
		if err == nil || errors.Is(err, store.ErrLost) {
			t.Errorf("extended without a majority: %v", err)
		}
	}
	c[1].Start()
	servers.Wait(t, "an extension", func() bool {
		err := short(func(ctx context.Context) error { return extend(ctx, s, "a", "x", g.Token, time.Hour) })
		if errors.Is(err, store.ErrLost) {
			t.Fatalf("the lease is lost: %v", err)
		}
		return err == nil
	})
}

// TestRestart: one server that is killed in the midst of writes and started again keeps what it has confirmed.
func TestRestart(t *testing.T) {
	server := servers.NATS(t, 1)[0]
	bucket := fresh()
	s, err := natsstore.OpenURL(background, "nats://"+server.Addr+"/"+bucket)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Migrate(background); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	var mu sync.Mutex
	confirmed := map[string]int64{}
	var workers sync.WaitGroup
	for w := range 4 {
		workers.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				name := fmt.Sprintf("%d/%d", w, i)
				if g, err := acquire(ctx, s, name, "x", time.Hour); err == nil {
					mu.Lock()
					confirmed[name] = g.Token
					mu.Unlock()
				}
			}
		})
	}
	many := func(n int) func() bool {
		return func() bool { mu.Lock(); defer mu.Unlock(); return len(confirmed) >= n }
	}
	servers.Wait(t, "grants", many(50))
	server.Kill()
	server.Start()
	mu.Lock()
	before := len(confirmed)
	mu.Unlock()
	servers.Wait(t, "grants after the restart", many(before+50))
	cancel()
	workers.Wait()
	var extensions []store.Extension
	for name, token := range confirmed {
		extensions = append(extensions, store.Extension{Name: name, Holder: "x", Token: token, TTL: time.Hour})
	}
	errs, err := s.Extend(background, extensions)
	if err != nil {
		t.Fatal(err)
	}
	for i, err := range errs {
		if err != nil {
			t.Errorf("%q was confirmed: %v", extensions[i].Name, err)
		}
	}
}
