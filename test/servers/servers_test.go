//go:build unix

package servers_test

import (
	"flag"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

var shared = servers.Shared(func(t servers.Test) *servers.RedisServer { return servers.Redis(t, "--databases", "1") })

func TestServersEndAndStartAgain(t *testing.T) {
	s := servers.Redis(t, "--databases", "1")
	reachable := func() bool {
		c, err := net.DialTimeout("tcp", s.Addr, time.Second)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	}
	if !reachable() {
		t.Fatal("the server is not there")
	}
	s.Kill()
	if reachable() {
		t.Fatal("the server is there after Kill")
	}
	s.Start()
	if !reachable() {
		t.Fatal("the server is not there after Start")
	}
	s.Pause()
	s.Kill() // works on a paused one too
	if reachable() {
		t.Fatal("the server is there after Kill of a paused one")
	}
}

func TestSharedServersAreOne(t *testing.T) {
	if a, b := shared(t), shared(t); a != b || a.PID() == 0 {
		t.Errorf("two servers, %v and %v, where one is shared", a, b)
	}
}

// Short tests have ten minutes, of which others need the processors: the build of Consul may take longer.
func TestShortTestsDoNotBuildForMinutes(t *testing.T) {
	t.Setenv("PATH", "") // there is no go command
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("SOLOIST_TEST_REQUIRE", "")
	before := flag.Lookup("test.short").Value.String()
	defer func() { _ = flag.Set("test.short", before) }()
	for short, want := range map[string]string{"true": "make test builds it", "false": "could not be built"} {
		if err := flag.Set("test.short", short); err != nil {
			t.Fatal(err)
		}
		if why := servers.Skipped(t, func(t testing.TB) { servers.Consul(t, 1, nil) }); !strings.Contains(why, want) {
			t.Errorf("with -short=%s: %q, want a text that says %q", short, why, want)
		}
	}
}

func TestMissingServersAreSaidAloud(t *testing.T) {
	t.Setenv("PATH", "")
	t.Setenv("SOLOIST_TEST_REQUIRE", "")
	missing := servers.Shared(func(t servers.Test) *servers.RedisServer { return servers.Redis(t, "--databases", "1") })
	for range 2 {
		if why := servers.Skipped(t, func(t testing.TB) { missing(t) }); !strings.Contains(why, "Redis is not here") {
			t.Errorf("a test without its server was not skipped because of that: %q", why)
		}
	}
}

// A port stays a test's while nobody listens on it: neither the system gives it to another, nor FreePort.
func TestFreePortsAreNobodyElses(t *testing.T) {
	mine := servers.FreePort(t)
	for range 100 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if any := l.Addr().(*net.TCPAddr).Port; any <= mine {
			t.Errorf("the system gives the port %d, and %d is a test's", any, mine)
		}
	}
	if l, err := net.ListenPacket("udp", fmt.Sprintf("127.0.0.1:%d", mine)); err == nil {
		_ = l.Close()
		t.Errorf("nothing shows another program that %d is taken", mine)
	}
}
