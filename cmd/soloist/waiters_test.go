//go:build unix

package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/test/servers"
)

var waiters = flag.Int("waiters", 30, "how many processes wait for locks in TestAllWaitersAreServed")

// More processes wait for locks than the server takes connections: all are served, one after another.
func TestAllWaitersAreServed(t *testing.T) {
	servers.Long(t)
	locks := max(2, *waiters/25)
	for name, start := range map[string]func() string{
		"PostgreSQL": func() string { return servers.Postgres(t, fmt.Sprint("max_connections=", *waiters*2/3)).URL },
		"Redis":      func() string { return servers.Redis(t, "--maxclients", fmt.Sprint(max(10, *waiters/3))).URL },
	} {
		t.Run(name, func(t *testing.T) {
			store := start()
			if code, text := ended(t, store, "migrate", "up"); code != 0 {
				t.Fatal(text)
			}
			order := filepath.Join(t.TempDir(), "order")
			begin := time.Now()
			var all sync.WaitGroup
			for i := range *waiters {
				lock := fmt.Sprint("lock ", i%locks)
				all.Go(func() {
					code, text := ended(t, store, "lock", "--ttl", servers.Patience.String(), "--wait", servers.Patience.String(), lock, "--",
						"sh", "-c", `echo "begin $2" >>"$1" && sleep 0.2 && echo "end $2" >>"$1"`, "sh", order, lock)
					if code != 0 {
						t.Errorf("a waiter for %s ended with %d: %s", lock, code, text)
					}
				})
			}
			all.Wait()
			t.Logf("%d processes that waited for %d locks were served within %v", *waiters, locks, time.Since(begin).Round(time.Second/10))
			checkOrder(t, order)
		})
	}
}

// checkOrder checks that each lock was held as often as it was waited for, and by one at a time.
func checkOrder(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	held, ends := map[string]bool{}, 0
	for line := range strings.Lines(string(text)) {
		what, lock, _ := strings.Cut(strings.TrimSpace(line), " ")
		if begins := what == "begin"; begins == held[lock] {
			t.Errorf("%s: %q while it is held: %v", lock, what, held[lock])
		} else if held[lock] = begins; !begins {
			ends++
		}
	}
	if ends != *waiters {
		t.Errorf("%d commands have ended, want %d", ends, *waiters)
	}
}
