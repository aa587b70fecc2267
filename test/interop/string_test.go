//go:build unix

package interop

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/test/servers"
)

// Libraries whose lock is a string in Redis, each with the key that it is given for a lock; * stands for the name.
var stringLocks = map[string]struct {
	key     string
	command func(t testing.TB, url, key string) (path string, args, env []string)
}{
	"redsync":   {"*", inGo("redsync")},
	"redislock": {"{lock}:*", inGo("redislock")},
	"redis-py": {"locks:*:mutex", func(t testing.TB, url, key string) (string, []string, []string) {
		python, modules := servers.Python(t, "redis==8.1.0")
		return python, []string{peerFile(t, "peer.py"), url, key}, []string{"PYTHONPATH=" + modules}
	}},
	"redlock 4": {"redlock:*", inNode("redlock4")},
	"redlock 5": {"redlock:{*}", inNode("redlock5")},
}

func inGo(library string) func(testing.TB, string, string) (string, []string, []string) {
	return func(t testing.TB, url, key string) (string, []string, []string) {
		self, err := os.Executable()
		must(t, err)
		return self, []string{url, key}, []string{goPeer + "=" + library}
	}
}

func inNode(redlock string) func(testing.TB, string, string) (string, []string, []string) {
	return func(t testing.TB, url, key string) (string, []string, []string) {
		node, modules := servers.Node(t, "ioredis@5.8.2", "redlock4@npm:redlock@4.2.0", "redlock5@npm:redlock@5.0.0-beta.2")
		return node, []string{peerFile(t, "peer.js"), url, key, redlock}, []string{"NODE_PATH=" + modules}
	}
}

func peerFile(t testing.TB, name string) string {
	path, err := filepath.Abs(filepath.Join("peers", name))
	must(t, err)
	return path
}

// TestStringLocks has real libraries, each in processes of its language, and the real client contend for names. What is under test is the option
// share of the Redis store.
func TestStringLocks(t *testing.T) {
	servers.Long(t)
	rules := map[string]func(*testing.T, *field){
		"theirs keeps ours out":                       theirsKeepsOursOut,
		"ours keeps theirs out":                       oursKeepsTheirsOut,
		"theirs expires":                              theirsExpires,
		"ours expires":                                oursExpires,
		"ours lingers":                                oursLingers,
		"theirs is extended":                          theirsIsExtended,
		"ours is extended":                            oursIsExtended,
		"a stale unlock of theirs":                    staleUnlockOfString,
		"stale calls of ours":                         staleCallsOfOurs,
		"tokens grow across their turns":              tokensGrow,
		"waiting for theirs ends with its unlock":     waitingForTheirs,
		"a lock and a job of one name are theirs too": jobsAreTheirsToo,
		"counting together":                           countingTogether,
		"a job among their turns":                     jobAmongAnnotatedMethods,
	}
	for library, o := range stringLocks {
		t.Run(library, func(t *testing.T) {
			url := redisServer(t).URL
			f := &field{url: url, mode: "share=" + o.key}
			path, args, env := o.command(t, url, o.key)
			f.a, f.b = startPeer(t, library, path, args, env), startPeer(t, library, path, args, env)
			t.Run("rules", func(t *testing.T) {
				for name, rule := range rules {
					t.Run(name+" "+library, func(t *testing.T) { // of redsync the name is the key
						t.Parallel()
						rule(t, f)
					})
				}
			})
		})
	}
}

// staleUnlockOfString: a peer that has lost its lock unlocks, which its library may report as an error or not. It changes nothing.
func staleUnlockOfString(t *testing.T, f *field) {
	c := f.client(t, soloist.Options{})
	stale := javaLock(t, f.a, name(t), ttl, 0)
	lease, err := c.Lock(bounded(t), name(t))
	must(t, err)
	_ = stale.Unlock()
	javaRefused(t, f.b, name(t))
	must(t, lease.Check(context.Background()))
	must(t, lease.Release())
}
