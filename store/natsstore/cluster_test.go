package natsstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/natsstore"
	"github.com/soloist-dev/soloist/store/storetest"
	"github.com/soloist-dev/soloist/test/failover"
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

// TestWatchIsKnownToTheLeader: a watch begins when the leader knows of it, which reports the releases, and not when the server does to which the client is
// connected: what is released at once would not be heard.
func TestWatchIsKnownToTheLeader(t *testing.T) {
	c := three(t)
	bucket := c.bucket(t)
	servers.Wait(t, "a leader that leads until it is stopped", func() bool {
		leader := c.leader(t, bucket)
		s := c.url(t, (slices.Index(c, leader)+1)%len(c), bucket)
		if _, err := s.Watch(background, []string{"w"}); err != nil { // after this it knows its bucket
			t.Fatal(err)
		}
		begun := make(chan error, 1)
		leader.Pause()
		stopped := time.Now()
		go func() {
			_, err := s.Watch(background, []string{"x"})
			begun <- err
		}()
		var err error
		early := false
		select {
		case err = <-begun:
			early = true
		case <-time.After(300 * time.Millisecond):
		}
		another := time.Since(stopped) > 2*time.Second // may lead
		leader.Resume()
		if early && (another || c.leader(t, bucket) != leader) {
			return false
		}
		if early {
			t.Fatalf("the watch has begun while the leader was stopped: %v", err)
		}
		if err = <-begun; err != nil {
			t.Fatal(err)
		}
		return true
	})
}

// TestReplicas: in a cluster a new bucket has three replicas, if the configuration says nothing else. Migrate changes
// how many there are when it says so, and a server that is alone tells that it cannot.
func TestReplicas(t *testing.T) {
	c := three(t)
	js, bucket := connect(t, c[0].Addr), fresh()
	for _, test := range []struct {
		configured, want int
		says             string
	}{
		{0, 3, "replicas: 3"}, {0, 3, ""}, {1, 1, "replicas: 1 instead of 3"}, {0, 1, ""},
		{3, 3, "replicas: 3 instead of 1"}, {3, 3, ""},
	} {
		s := open(t, js, natsstore.Config{Bucket: bucket, Replicas: test.configured})
		var lines []string
		unheard := false // an attempt, which may have done all, and then the next one has nothing to do
		servers.Wait(t, "the cluster", func() bool {
			ctx, cancel := context.WithTimeout(background, 10*time.Second)
			defer cancel()
			var err error
			lines, err = s.Migrate(ctx)
			unheard = unheard || err != nil
			return err == nil
		})
		if len(lines) != min(len(test.says), 1) && !(unheard && len(lines) == 0) ||
			len(lines) == 1 && !strings.Contains(lines[0], test.says) {
			t.Errorf("with %d replicas: %q, want %q", test.configured, lines, test.says)
		}
		var stream jetstream.Stream
		servers.Wait(t, "the leader of the bucket, which may be another one now", func() bool {
			ctx, cancel := context.WithTimeout(background, 10*time.Second)
			defer cancel()
			var err error
			stream, err = js.Stream(ctx, "KV_"+bucket)
			return err == nil
		})
		if got := stream.CachedInfo().Config.Replicas; got != test.want {
			t.Errorf("with %d replicas there are %d, want %d", test.configured, got, test.want)
		}
	}
	alone := connect(t, shared(t).Addr)
	lines, err := open(t, alone, natsstore.Config{Bucket: bucket, Replicas: 3}).Migrate(background)
	if !says(err, "with 3 replicas") || errors.Is(err, store.ErrSchema) {
		t.Errorf("one server: %q, %v, want that it cannot have three replicas", lines, err)
	}
	made(t, alone, natsstore.Config{Bucket: bucket})
	if got := streamOf(t, alone, bucket).Replicas; got != 1 {
		t.Errorf("one server has %d replicas", got)
	}
}

// brought returns the cluster with a new bucket, for the checks of package failover.
func (c cluster) brought(t testing.TB) failover.Cluster {
	bucket := c.bucket(t)
	return failover.Cluster{
		Servers: []failover.Server{c[0], c[1], c[2]},
		Open:    func(first int) store.Store { return c.url(t, first, bucket) },
		Leader:  func() failover.Server { return c.leader(t, bucket) },
		Leads: func(ctx context.Context, s failover.Server) bool {
			return s.(*servers.NATSServer).Leads(ctx, "KV_"+bucket)
		},
	}
}

func TestFailover(t *testing.T) {
	servers.Long(t)
	failover.OneAway(t, cluster(servers.NATS(t, 3)).brought(t))
}

// BenchmarkLeader: how long a client waits when the leader is killed.
func BenchmarkLeader(b *testing.B) { failover.Measure(b, three(b).brought(b)) }

func TestNoMajority(t *testing.T) {
	servers.Long(t)
	failover.NoMajority(t, cluster(servers.NATS(t, 3)).brought(t))
}

func TestRestart(t *testing.T) {
	server := servers.NATS(t, 1)[0]
	s, err := natsstore.OpenURL(background, "nats://"+server.Addr+"/"+fresh())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Migrate(background); err != nil {
		t.Fatal(err)
	}
	failover.Restart(t, server, s)
}
