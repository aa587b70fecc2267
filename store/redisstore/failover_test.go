package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"
)

// regains takes new names until it is granted one, and says how long that took.
func regains(t *testing.T, s store.Store, name func(int) string) time.Duration {
	t.Helper()
	n := 0
	return repeated(t, "a grant", func() error {
		n++
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		return tried(ctx, s, name(n), "h")
	})
}

// A watch that was there before goes on after, and is woken at once for what it may have missed.
func watched(t *testing.T, s store.Watcher, name string) <-chan struct{} {
	t.Helper()
	w, err := s.Watch(t.Context(), []string{name})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// wakes releases the name until the watch is woken.
func wakes(t *testing.T, s store.Store, name string, w <-chan struct{}) {
	t.Helper()
	n := 0
	var r *store.Release // that has no certain outcome yet
	repeated(t, "a wake", func() error {
		if r == nil {
			n++
			taken := take(t, s, name, fmt.Sprint("waker", n))
			r = &taken
		}
		if err := release(s, *r); err != nil && !errors.Is(err, store.ErrLost) {
			return err
		}
		r = nil
		select {
		case <-w:
			return nil
		case <-time.After(200 * time.Millisecond):
			return fmt.Errorf("nothing within 200ms")
		}
	})
}

func TestSentinelFailover(t *testing.T) {
	for how, end := range map[string]func(*servers.Process){"killed": (*servers.Process).Kill, "paused": (*servers.Process).Pause} {
		t.Run(how, func(t *testing.T) {
			servers.Long(t)
			group := servers.RedisSentinel(t, time.Second)
			if group.Master == nil {
				t.Skip("the servers are somebody else's")
			}
			s := open(t, fresh(t, group.URL))
			take(t, s, "before", "h")
			w := watched(t, s, "watched")
			replica := plainClient(t, group.Replica.URL)
			end(group.Master.Process)
			promoted := make(chan time.Duration, 1)
			begin := time.Now()
			go func() {
				for time.Since(begin) < servers.Patience {
					if text, err := replica.Info(background, "replication").Result(); err == nil && strings.Contains(text, "role:master") {
						break
					}
					time.Sleep(10 * time.Millisecond)
				}
				promoted <- time.Since(begin)
			}()
			took := regains(t, s, func(n int) string { return fmt.Sprint("after", n) })
			t.Logf("the servers took %v, the client %v", <-promoted, took)
			wakes(t, s, "watched", w)
		})
	}
}

func TestClusterFailover(t *testing.T) {
	servers.Long(t)
	cluster := servers.RedisCluster(t, time.Second)
	if cluster.Nodes == nil {
		t.Skip("the cluster is somebody else's")
	}
	s := open(t, fresh(t, cluster.URL))
	names := make([]string, 200) // in all parts
	for i := range names {
		names[i] = fmt.Sprint("name", i)
		take(t, s, names[i], "h")
	}
	w := watched(t, s, "watched")
	i := slices.IndexFunc(cluster.Nodes, func(n *servers.RedisServer) bool {
		text, _ := plainClient(t, n.URL).Info(background, "replication").Result()
		return strings.Contains(text, "role:master")
	})
	other := plainClient(t, cluster.Nodes[(i+1)%6].URL)
	cluster.Nodes[i].Kill()
	begin := time.Now()
	failed := false
	healed := make(chan time.Duration, 1)
	go func() {
		for time.Since(begin) < servers.Patience {
			text, err := other.Do(background, "CLUSTER", "NODES").Text()
			lines := strings.Split(strings.TrimSpace(text), "\n")
			slots := 0
			for _, line := range lines {
				f := strings.Fields(line)
				if len(f) > 8 && strings.Contains(f[2], "master") && !strings.Contains(f[2], "fail") {
					slots++
				}
			}
			state, _ := other.Do(background, "CLUSTER", "INFO").Text()
			if err == nil && slots == 3 && strings.Contains(state, "cluster_state:ok") && strings.Contains(text, "fail") {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		healed <- time.Since(begin)
	}()
	// All names at once: whole when every part answers.
	took := repeated(t, "all parts", func() error {
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		claims := make([]store.Claim, len(names))
		for i, name := range names {
			claims[i] = store.Claim{Name: name, Holder: "h", TTL: time.Minute}
		}
		outs, err := s.Acquire(ctx, claims)
		for _, out := range outs {
			if err == nil {
				err = out.Err
			}
		}
		failed = failed || err != nil
		return err
	})
	t.Logf("the servers took %v, the client %v", <-healed, took)
	if !failed {
		t.Error("no call has met the failure")
	}
	wakes(t, s, "watched", w)
}
