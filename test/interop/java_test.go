//go:build unix

package interop

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/test/servers"
)

// These tests are of the peers themselves: that they do what they are told, and what their libraries promise.

func TestPeersExcludeEachOther(t *testing.T) {
	servers.Long(t)
	for name, o := range providers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := o(t)
			a, b := Start(t, o), Start(t, o)
			one, two := newName(), newName()
			held, err := a.Lock(one, long, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := b.Lock(one, long, 0); !errors.Is(err, ErrRefused) {
				t.Fatalf("a name that is held: %v; want ErrRefused", err)
			}
			other, err := b.Lock(two, long, 0)
			if err != nil {
				t.Fatal(err)
			}
			if err := other.Unlock(); err != nil {
				t.Fatal(err)
			}
			if err := held.Unlock(); err != nil {
				t.Fatal(err)
			}
			if held, err = b.Wait(one, long, 0, servers.Patience); err != nil {
				t.Fatalf("a name that is free: %v", err)
			}
			if err := held.Unlock(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestPeersCount(t *testing.T) {
	servers.Long(t)
	const each = 100
	for name, o := range providers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := o(t)
			file := filepath.Join(t.TempDir(), "number")
			if err := os.WriteFile(file, []byte("0"), 0o644); err != nil {
				t.Fatal(err)
			}
			peers := []*Peer{Start(t, o), Start(t, o)} // before any of them counts: they are faster than the next can start
			counter := newName()
			var all sync.WaitGroup
			for _, p := range peers {
				all.Go(func() {
					if err := p.Count(counter, file, each); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if string(text) != strconv.Itoa(2*each) {
				t.Errorf("two peers counted to %s; want %d", text, 2*each)
			}
		})
	}
}

func TestPeersMeasure(t *testing.T) {
	servers.Long(t)
	p := Start(t, Options{Provider: "lettuce", URL: redisServer(t).URL})
	for _, which := range []string{"A", "B", "D"} {
		r, err := p.Bench(which, 200*time.Millisecond, 4)
		if err != nil {
			t.Fatal(err)
		}
		if r.Case != which || r.Threads != 4 || r.Operations == 0 || r.Rate <= 0 || r.P50 <= 0 || r.P99 < r.P50 || r.Seconds < 0.2 {
			t.Errorf("case %s: %+v", which, r)
		}
	}
	if _, err := p.Bench("Z", time.Second, 1); err == nil || !strings.Contains(err.Error(), "no case Z") {
		t.Errorf("an unknown case: %v", err)
	}
}

func TestPeersWaitAndExtendAndExpire(t *testing.T) {
	servers.Long(t)
	p := Start(t, Options{Provider: "jedis", URL: redisServer(t).URL, Safe: true, Env: t.Name()})
	held, err := p.Lock("x", time.Hour, 0)
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	if err := held.Extend(800*time.Millisecond, 0); err != nil {
		t.Fatal(err)
	}
	next, err := p.Wait("x", time.Hour, 0, servers.Patience)
	if err != nil {
		t.Fatal(err)
	}
	if waited := time.Since(begun); waited < 790*time.Millisecond {
		t.Errorf("the lock was had %v after an extension to 800 ms", waited)
	}
	if err := held.Extend(long, 0); !errors.Is(err, ErrRefused) {
		t.Errorf("extending a lock that another has: %v; want ErrRefused", err)
	}
	if err := next.Unlock(); err != nil {
		t.Fatal(err)
	}
	if err := next.Unlock(); err == nil {
		t.Error("unlocking twice was not an error")
	}
}

func TestPeersEnd(t *testing.T) {
	servers.Long(t)
	p := Start(t, Options{Provider: "lettuce", URL: redisServer(t).URL, Env: t.Name()})
	if _, err := p.Lock("x", long, 0); err != nil {
		t.Fatal(err)
	}
	if err := p.Pause(); err != nil {
		t.Fatal(err)
	}
	p.Kill()
	if _, err := p.Lock("y", long, 0); err == nil {
		t.Error("a peer that was killed answered")
	}
	q := Start(t, Options{Provider: "lettuce", URL: redisServer(t).URL, Env: t.Name()})
	if _, err := q.Lock("x", long, 0); !errors.Is(err, ErrRefused) {
		t.Errorf("what a peer held when it was killed: %v; want ErrRefused", err)
	}
}

func TestPeersThatCannotBeBuilt(t *testing.T) {
	t.Setenv("PATH", "")
	t.Setenv("SOLOIST_TEST_REQUIRE", "")
	if why := servers.Skipped(t, func(t testing.TB) { Build(t, "") }); !strings.Contains(why, "a JDK is not here") {
		t.Errorf("a test without a JDK was not skipped because of that: %q", why)
	}
}

func TestPasswordsAreInNoError(t *testing.T) {
	const canary = "s3cret-canary"
	for _, o := range []Options{
		{Provider: "jdbc", URL: "postgres://u:" + canary + "@host:port:port/%zz"},
		{Provider: "jdbc", URL: "oracle://u:" + canary + "@host/x"},
	} {
		if _, err := o.arguments("."); err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("%v; want an error without the password", err)
		}
	}
}
