//go:build unix

package servers_test

import (
	"net"
	"os/exec"
	"path/filepath"
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

// A backend that came into being while its server was killed goes too, and the server can be started again. It would wait forever for a lock that a killed
// backend had.
func TestKillLeavesNoBackend(t *testing.T) {
	s := servers.Postgres(t, "fsync=off")
	backend := exec.Command("sleep", "1000")
	backend.Dir = filepath.Join(filepath.Dir(s.LogFile()), "data") // by that a backend is known
	if err := backend.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- backend.Wait() }()
	s.Kill()
	select {
	case <-ended:
	case <-time.After(servers.Patience):
		_ = backend.Process.Kill()
		t.Error("a backend is left")
	}
}
