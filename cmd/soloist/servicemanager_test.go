//go:build linux

package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/test/servers"
)

// TestServiceManager: what goes on for long tells the service manager when it is ready, reads its files again, and stops.
func TestServiceManager(t *testing.T) {
	const again = "READY=1 HUP RELOADING=1 READY=1 TERM STOPPING=1"
	for args, course := range map[string]string{
		"serve --listen 0":  again,
		"cron crontab":      again,
		"cron crontab.yaml": "READY=1 broken HUP RELOADING=1 READY=1 TERM STOPPING=1",
		"lead x -- true":    "READY=1",
		"lock x -- true":    "",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			dir := memoryDir(t)
			for file, text := range map[string]string{"crontab": "@yearly true\n", "crontab.yaml": "jobs:\n  - {name: x, schedule: \"@yearly\", command: [\"true\"]}\n"} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			socket := filepath.Join(dir, "manager")
			manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
			if err != nil {
				t.Fatal(err)
			}
			defer manager.Close()
			path, err := exec.LookPath("soloist")
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(path, strings.Fields(args)...)
			cmd.Dir, cmd.Stderr = dir, os.Stderr
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "SOLOIST_STORE=sqlite:store.db", "NOTIFY_SOCKET=" + socket}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
			for _, step := range strings.Fields(course) {
				switch step {
				case "HUP", "TERM":
					err = cmd.Process.Signal(map[string]os.Signal{"HUP": syscall.SIGHUP, "TERM": syscall.SIGTERM}[step])
				case "broken":
					err = os.WriteFile(filepath.Join(dir, "crontab.yaml"), []byte("jobs: 1\n"), 0o600)
				default:
					if told := hear(t, manager); told != step {
						t.Fatalf("the manager is told %q, want %q of %q", told, step, course)
					}
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
			if err := sendState(socket, "the end"); err != nil {
				t.Fatal(err)
			}
			if told := hear(t, manager); told != "the end" {
				t.Errorf("after %q the manager is told %q", course, told)
			}
		})
	}
}

// hear returns the next datagram.
func hear(t *testing.T, manager *net.UnixConn) string {
	t.Helper()
	if err := manager.SetReadDeadline(time.Now().Add(servers.Patience)); err != nil {
		t.Fatal(err)
	}
	told := make([]byte, 100)
	n, err := manager.Read(told)
	if err != nil {
		t.Fatal(err)
	}
	return string(told[:n])
}

// TestServiceManagerThatIsNotThere: the process goes on, and says so.
func TestServiceManagerThatIsNotThere(t *testing.T) {
	for _, socket := range []string{"/nowhere/manager", "vsock:2:1", "relative"} {
		if err := sendState(socket, managerReady); err == nil || !strings.Contains(err.Error(), strings.TrimPrefix(socket, "@")) {
			t.Errorf("%s: %v, want an error that names it", socket, err)
		}
	}
}
