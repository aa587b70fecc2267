//go:build unix

package servers_test

import (
	"net"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/test/servers"
)

func TestPostgresEndsAndStartsAgain(t *testing.T) {
	s := servers.Postgres(t, "fsync=off")
	standby := servers.PostgresStandby(t, s, "follower")
	reachable := func(addr string) bool {
		c, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	}
	if !reachable(s.Addr) || !reachable(standby.Addr) {
		t.Fatal("a server is not there")
	}
	s.Kill()
	if reachable(s.Addr) {
		t.Fatal("the server is there after Kill")
	}
	standby.Promote()
	s.Start()
	s.Pause()
	s.Resume()
	s.Stop()
	s.Start()
	s.Pause()
	s.Kill() // works on a paused one too
	if reachable(s.Addr) || !reachable(standby.Addr) {
		t.Fatal("the wrong server is there")
	}
}
