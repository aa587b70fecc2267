package redisstore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"
)

// requests returns how many commands clients have sent that carry scripts, and how many errors they got.
func requests(t testing.TB, c *redis.Client) (n int) {
	t.Helper()
	text, err := c.Info(background, "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		for _, command := range []string{"eval", "evalsha", "wait"} {
			if rest, ok := strings.CutPrefix(line, "cmdstat_"+command+":calls="); ok {
				calls := 0
				if _, err := fmt.Sscanf(rest, "%d,", &calls); err != nil {
					t.Fatal(err)
				}
				n += calls
			}
		}
	}
	return n
}

func TestTripsAreCountedAtTheServer(t *testing.T) {
	server := servers.Redis(t)
	admin := plainClient(t, server.URL)
	s := open(t, fresh(t, server.URL))
	counted := func(what string, most int, do func()) {
		t.Helper()
		before := requests(t, admin)
		do()
		if n := requests(t, admin) - before; n < 1 || n > most {
			t.Errorf("%s: %d requests, want 1 to %d", what, n, most)
		}
	}
	for range 2 { // the first time the server learns the scripts
		if err := release(s, take(t, s, "name", "warm")); err != nil {
			t.Fatal(err)
		}
	}
	if err := extend(s, take(t, s, "other", "warm")); err != nil {
		t.Fatal(err)
	}

	var r store.Release
	counted("acquire", 1, func() { r = take(t, s, "name", "a") })
	before := changes(t, admin)
	counted("refused", 1, func() {
		if out := acquire(t, s, "name", "b"); !errors.Is(out.Err, store.ErrHeld) {
			t.Fatal(out.Err)
		}
	})
	if n := changes(t, admin) - before; n != 0 {
		t.Errorf("a refused claim has changed %d keys", n)
	}
	counted("extend", 1, func() {
		if err := extend(s, r); err != nil {
			t.Fatal(err)
		}
	})
	counted("release", 1, func() {
		if err := release(s, r); err != nil {
			t.Fatal(err)
		}
	})
	counted("a batch of 1,000", 1, func() { takeMany(t, s, 1000) })
	leases := takeMany(t, s, 10_000)
	counted("extending 10,000", 20, func() {
		extensions := make([]store.Extension, len(leases))
		for i, r := range leases {
			extensions[i] = store.Extension{Name: r.Name, Holder: r.Holder, Token: r.Token, TTL: time.Minute}
		}
		errs, err := s.Extend(background, extensions)
		if err = errors.Join(append(errs, err)...); err != nil {
			t.Fatal(err)
		}
	})
}

// takeMany takes names that are free, in one batch; a second time the same holder gets them again.
func takeMany(t testing.TB, s store.Store, n int) []store.Release {
	t.Helper()
	claims := make([]store.Claim, n)
	for i := range claims {
		claims[i] = store.Claim{Name: fmt.Sprintf("many/%d", i), Holder: "many", TTL: time.Minute}
	}
	outs, err := s.Acquire(background, claims)
	if err != nil {
		t.Fatal(err)
	}
	leases := make([]store.Release, n)
	for i, out := range outs {
		if out.Err != nil {
			t.Fatal(out.Err)
		}
		leases[i] = store.Release{Name: claims[i].Name, Holder: "many", Token: out.Grant.Token}
	}
	return leases
}

// A batch in a cluster is at most one request for each of 64 parts.
func TestTripsInACluster(t *testing.T) {
	cluster := sharedCluster(t)
	if cluster.Nodes == nil {
		t.Skip("the cluster is somebody else's")
	}
	s := open(t, fresh(t, cluster.URL))
	takeMany(t, s, 1000)
	total := func() (n int) {
		for _, node := range cluster.Nodes {
			n += requests(t, plainClient(t, node.URL))
		}
		return n
	}
	before := total()
	takeMany(t, s, 1000)
	if n := total() - before; n > 64 {
		t.Errorf("1,000 claims: %d requests, want at most 64", n)
	}
}

// The server may forget the scripts at any time.
func TestScriptFlushIsNotNoticed(t *testing.T) {
	for kind, url := range map[string]string{"one server": shared(t).URL, "cluster": sharedCluster(t).URL} {
		t.Run(kind, func(t *testing.T) {
			s := open(t, fresh(t, url))
			flush := func() {
				if kind == "cluster" {
					for _, node := range sharedCluster(t).Nodes {
						plainClient(t, node.URL).ScriptFlush(background)
					}
				} else if err := plainClient(t, url).ScriptFlush(background).Err(); err != nil {
					t.Fatal(err)
				}
			}
			for i := range 5 {
				flush()
				r := take(t, s, "name", fmt.Sprint("h", i))
				flush()
				if err := extend(s, r); err != nil {
					t.Fatal(err)
				}
				flush()
				if err := release(s, r); err != nil {
					t.Fatal(err)
				}
				flush()
				takeMany(t, s, 1500)
				flush()
				if n := count(t, s); n < 1500 {
					t.Fatalf("%d records are listed", n)
				}
			}
		})
	}
}

func count(t testing.TB, s store.Store) (n int) {
	t.Helper()
	for _, err := range s.List(background, "") {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}
