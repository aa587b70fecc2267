//go:build unix

package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/soloist-dev/soloist/test/servers"
)

// cron and lock --wait outlast a server that refuses connections when they begin; and cron reads its file again, when
// it changes, while the server is away.
func TestStoreThatComesLate(t *testing.T) {
	server := servers.Redis(t, "--databases", "1") // of our own, with an address
	address := fmt.Sprintf("127.0.0.1:%d", servers.FreePort(t))
	dir := memoryDir(t)
	path, err := exec.LookPath("soloist")
	if err != nil {
		t.Fatal(err)
	}
	begin := func(args ...string) (*exec.Cmd, func() string) {
		messages, err := os.Create(filepath.Join(dir, args[0]))
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(path, args...)
		cmd.Dir, cmd.Stderr = dir, messages
		cmd.Env = append(os.Environ(), "SOLOIST_STORE=redis://"+address)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = messages.Close() })
		return cmd, func() string { text, _ := os.ReadFile(messages.Name()); return string(text) }
	}
	crontab := filepath.Join(dir, "crontab")
	write := func(job string) {
		t.Helper()
		if err := os.WriteFile(crontab+".new", []byte("# name: tick\n* * * * * * * touch "+job+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(crontab+".new", crontab); err != nil {
			t.Fatal(err)
		}
	}
	there := func(name string) func() bool {
		return func() bool { _, err := os.Stat(filepath.Join(dir, name)); return err == nil }
	}
	says := func(messages func() string, text string) func() bool {
		return func() bool { return strings.Contains(messages(), text) }
	}
	write("first")
	cron, cronSays := begin("cron", "--watch", crontab)
	lock, lockSays := begin("lock", "x", "--wait", servers.Patience.String(), "--", "touch", "locked")
	until(t, "cron waits", says(cronSays, "waiting for the store"))
	until(t, "lock waits", says(lockSays, "waiting for it"))
	write("second")
	until(t, "cron has read the file again", says(cronSays, "read again"))
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go forward(listener, server.Addr)
	until(t, "the job has run", there("second"))
	if err := lock.Wait(); err != nil || !there("locked")() {
		t.Errorf("lock: %v", err)
	}
	if there("first")() {
		t.Error("the job of the file before has run")
	}
	if err := cron.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cron.Wait(); err != nil {
		t.Errorf("cron: %v\n%s", err, cronSays())
	}
}

// forward passes connections on to another address.
func forward(listener net.Listener, to string) {
	for {
		from, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer from.Close()
			server, err := net.Dial("tcp", to)
			if err != nil {
				return
			}
			defer server.Close()
			go func() { _, _ = io.Copy(server, from) }()
			_, _ = io.Copy(from, server)
		}()
	}
}

// --store-wait bounds the wait for a store that was not reached yet, also if the file is read again meanwhile.
func TestReloadBeforeTheStoreWasReached(t *testing.T) {
	dir := memoryDir(t)
	path, err := exec.LookPath("soloist")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "crontab"), []byte("@daily true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	messages, err := os.Create(filepath.Join(dir, "messages"))
	if err != nil {
		t.Fatal(err)
	}
	defer messages.Close()
	said := func() string { text, _ := os.ReadFile(messages.Name()); return string(text) }
	cmd := exec.Command(path, "cron", "--store-wait", "10s", "crontab")
	cmd.Dir, cmd.Stderr = dir, messages
	cmd.Env = append(os.Environ(), fmt.Sprintf("SOLOIST_STORE=redis://127.0.0.1:%d", servers.FreePort(t)))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	const waits = "waiting for the store" // told once a minute, and anew when another wait begins
	until(t, "cron waits", func() bool { return strings.Contains(said(), waits) })
	_ = cmd.Process.Signal(syscall.SIGHUP)
	until(t, "the wait is over, or another one begins", func() bool { return len(ended) > 0 || strings.Count(said(), waits) > 1 })
	if len(ended) == 0 {
		t.Fatalf("cron goes on:\n%s", said())
	}
	if <-ended; cmd.ProcessState.ExitCode() != exitUnavailable {
		t.Errorf("%v\n%s", cmd.ProcessState, said())
	}
}

// --store-wait is for the start alone: a file that is read again while the store is away waits for the store, however long that takes.
func TestReloadWhileTheStoreIsAway(t *testing.T) {
	server := servers.Redis(t, "--databases", "1")
	way := newDoor(t, server.Addr)
	dir := memoryDir(t)
	path, err := exec.LookPath("soloist")
	if err != nil {
		t.Fatal(err)
	}
	write := func(job string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "crontab"), []byte("# name: tick\n* * * * * * * touch "+job+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first")
	messages, err := os.Create(filepath.Join(dir, "messages"))
	if err != nil {
		t.Fatal(err)
	}
	defer messages.Close()
	said := func() string { text, _ := os.ReadFile(messages.Name()); return string(text) }
	cmd := exec.Command(path, "cron", "--store-wait", "0", "crontab")
	cmd.Dir, cmd.Stderr = dir, messages
	cmd.Env = append(os.Environ(), "SOLOIST_STORE=redis://"+way.Addr().String())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	goesOn := func(what string, met func() bool) {
		t.Helper()
		until(t, what, func() bool { return met() || len(ended) > 0 })
		if len(ended) > 0 {
			t.Fatalf("cron has ended: %v\n%s", <-ended, said())
		}
	}
	there := func(name string) func() bool {
		return func() bool { _, err := os.Stat(filepath.Join(dir, name)); return err == nil }
	}
	goesOn("the job has run", there("first"))
	way.shut()
	write("second")
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	goesOn("cron waits", func() bool { return strings.Contains(said(), "waiting for the store") })
	way.open()
	goesOn("the job has run as it is now", there("second"))
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("cron: %v\n%s", err, said())
	}
}

// A door leads to a server, and can be shut: connections are broken then, and new ones closed.
type door struct {
	net.Listener
	mu     sync.Mutex
	closed bool
	broken chan struct{} // closed when it is shut
}

func newDoor(t *testing.T, to string) *door {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	d := &door{Listener: listener, broken: make(chan struct{})}
	go forward(d, to)
	return d
}

// Accept returns the next connection, which ends when the door is shut.
func (d *door) Accept() (net.Conn, error) {
	for {
		conn, err := d.Listener.Accept()
		if err != nil {
			return nil, err
		}
		d.mu.Lock()
		closed, broken := d.closed, d.broken
		d.mu.Unlock()
		if closed {
			_ = conn.Close()
			continue
		}
		go func() { <-broken; _ = conn.Close() }()
		return conn, nil
	}
}

func (d *door) shut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	close(d.broken)
}

func (d *door) open() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed, d.broken = false, make(chan struct{})
}

// Who waits for a manual run is not told that it was asked for while the store does not respond.
func TestRunThatMayNotBeAskedFor(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	code, text := ended(t, "redis://"+silent.Addr().String(), "jobs", "trigger", "x", "--wait", "500ms")
	if code == 0 || strings.Contains(text, "asked for") || !strings.Contains(text, `trigger of job "x"`) {
		t.Errorf("exit code %d: %s", code, text)
	}
}
