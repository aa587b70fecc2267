//go:build unix

package servers

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A PostgresServer is one PostgreSQL server with its own data, unless SOLOIST_TEST_POSTGRES_URL named it.
type PostgresServer struct {
	*Process        // nil when the server is somebody else's
	Addr     string // host:port; "" when the server is somebody else's
	URL      string // postgres://postgres:…@host:port/postgres, of the superuser

	data string
	bin  string
}

// The superuser of our own servers and its password, which is asked for over TCP.
const (
	PostgresUser     = "postgres"
	PostgresPassword = "soloist-test"
)

// Postgres starts a PostgreSQL server with an empty database, in UTF-8 and the locale C. Settings are as in postgresql.conf, each in
// one word: "fsync=off". With settings the server is always our own.
func Postgres(t Test, settings ...string) *PostgresServer {
	t.Helper()
	if url := fromEnvironment("POSTGRES"); url != "" && len(settings) == 0 {
		return &PostgresServer{URL: url}
	}
	bin := postgresPrograms(t)
	dir := Directory(t)
	data := filepath.Join(dir, "data")
	if err := os.CopyFS(data, os.DirFS(postgresTemplate(t, bin))); err != nil {
		t.Fatalf("copying the data of a new PostgreSQL server: %v", err)
	}
	return postgresAt(t, bin, dir, data, settings)
}

// PostgresStandby starts a server that follows primary, under the name that its log and synchronous_standby_names know it by. It is a
// synchronous one if the primary's synchronous_standby_names says so.
func PostgresStandby(t Test, primary *PostgresServer, name string, settings ...string) *PostgresServer {
	t.Helper()
	dir := Directory(t)
	data := filepath.Join(dir, "data")
	to, err := url.Parse(primary.URL)
	if err != nil {
		t.Fatalf("the URL of the primary: %v", err)
	}
	to.RawQuery = "application_name=" + url.QueryEscape(name)
	runAs(t, unprivileged(t, dir), filepath.Join(primary.bin, "pg_basebackup"),
		"-R", "-X", "stream", "-c", "fast", "--no-sync", "-D", data, "-d", to.String())
	return postgresAt(t, primary.bin, dir, data, settings)
}

func postgresAt(t Test, bin, dir, data string, settings []string) *PostgresServer {
	t.Helper()
	if err := os.Chmod(data, 0o700); err != nil { // the server insists
		t.Fatalf("preparing %s: %v", data, err)
	}
	port := FreePort(t)
	args := []string{"-D", data, "-p", strconv.Itoa(port), "-k", dir, "-c", "listen_addresses=127.0.0.1",
		"-c", "dynamic_shared_memory_type=mmap"} // a server that is killed leaves nothing outside of its directory
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	as := unprivileged(t, dir)
	p := launch(t, &Process{
		name: fmt.Sprintf("postgres-%d", port), path: filepath.Join(bin, "postgres"), args: args, dir: dir, as: as,
		ready: postgresReady(address(port)),
	})
	to := url.URL{Scheme: "postgres", User: url.UserPassword(PostgresUser, PostgresPassword), Host: address(port), Path: "/postgres"}
	s := &PostgresServer{Process: p, Addr: address(port), URL: to.String(), data: data, bin: bin}
	t.Cleanup(func() { // before the directory goes: the backends outlive the postmaster by a moment
		s.Kill()
		removeSegment(data)
	})
	return s
}

// postgresPrograms returns the directory of the programs of PostgreSQL.
func postgresPrograms(t Test) string {
	t.Helper()
	initdb := Program(t, "PostgreSQL", "/usr/lib/postgresql/*/bin/initdb", "/usr/pgsql-*/bin/initdb", "initdb")
	if real, err := filepath.EvalSymlinks(initdb); err == nil {
		initdb = real
	}
	return filepath.Dir(initdb)
}

var postgresData struct {
	once sync.Once
	dir  string
}

// postgresTemplate returns the data of a server that has never been started. It is made once for the test program.
func postgresTemplate(t Test, bin string) string {
	t.Helper()
	postgresData.once.Do(func() {
		postgresData.dir = initialized(whole, bin, Directory(whole))
	})
	if postgresData.dir == "" {
		t.Fatalf("initdb has failed before")
	}
	return postgresData.dir
}

// initialized makes the data of a server in a directory, and returns where they are.
func initialized(t Test, bin, dir string) string {
	t.Helper()
	as := unprivileged(t, dir)
	password := filepath.Join(dir, "password")
	if err := os.WriteFile(password, []byte(PostgresPassword), 0o644); err != nil {
		t.Fatalf("preparing initdb: %v", err)
	}
	data := filepath.Join(dir, "data")
	runAs(t, as, filepath.Join(bin, "initdb"), "-N", "-D", data, "-U", PostgresUser, "-E", "UTF8", "--locale=C",
		"-A", "scram-sha-256", "--pwfile", password)
	return data
}

// runAs runs a program to its end.
func runAs(t Test, as *syscall.Credential, path string, args ...string) {
	t.Helper()
	cmd := exec.Command(path, args...)
	cmd.Dir = "/"
	cmd.SysProcAttr = attributes(as)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", filepath.Base(path), err, out)
	}
}

// postgresReady is nil when the server asks a client that says hello who it is.
func postgresReady(addr string) func(context.Context) error {
	return func(ctx context.Context) error {
		var d net.Dialer
		c, err := d.DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		defer c.Close()
		if deadline, ok := ctx.Deadline(); ok {
			_ = c.SetDeadline(deadline)
		}
		const version = 3 << 16 // of the protocol
		hello := binary.BigEndian.AppendUint32(make([]byte, 4), version)
		hello = append(hello, "user\x00"+PostgresUser+"\x00database\x00postgres\x00\x00"...)
		binary.BigEndian.PutUint32(hello, uint32(len(hello)))
		if _, err := c.Write(hello); err != nil {
			return err
		}
		head := make([]byte, 5)
		if _, err := io.ReadFull(c, head); err != nil {
			return err
		}
		if head[0] == 'R' { // it wants a password, or none
			return nil
		}
		why, _ := io.ReadAll(c)
		return fmt.Errorf("the server is not ready: %q", why)
	}
}

// Promote makes a primary of a standby and waits until it is one.
func (s *PostgresServer) Promote() {
	s.t.Helper()
	runAs(s.t, s.as, filepath.Join(s.bin, "pg_ctl"), "promote", "-w", "-D", s.data)
}

// Kill ends the server and everything that it has started with SIGKILL, as a power cut would. After it the server can be started
// again.
func (s *PostgresServer) Kill() { s.all(syscall.SIGKILL); s.Process.Kill(); s.waitGone() }

// Stop ends the server with SIGINT: it disconnects its clients and writes a checkpoint.
func (s *PostgresServer) Stop() { s.end(syscall.SIGINT) }

// Pause stops the server and all its backends with SIGSTOP: the connections stay, and nothing answers.
func (s *PostgresServer) Pause() { s.all(syscall.SIGSTOP) }

// Resume lets a paused server go on.
func (s *PostgresServer) Resume() { s.all(syscall.SIGCONT) }

// all sends a signal to the server and to the processes that it has started, those first.
func (s *PostgresServer) all(sig syscall.Signal) {
	s.mu.Lock()
	pid, done := s.cmd.Process.Pid, s.done
	s.mu.Unlock()
	select {
	case <-done: // the number may be another process's by now
		return
	default:
	}
	if sig != syscall.SIGCONT {
		_ = syscall.Kill(pid, syscall.SIGSTOP) // so that it starts no more
		untilStopped(pid)
	}
	children := childrenOf(pid)
	for _, child := range children {
		_ = syscall.Kill(child, sig)
	}
	_ = syscall.Kill(pid, sig)
	if sig == syscall.SIGSTOP {
		untilStopped(append(children, pid)...)
	}
}

// waitGone waits until the backends have ended: a new server cannot be started on their data before. It ends those that came into being while the server was
// killed: they could wait forever for a lock that a killed one had.
func (s *PostgresServer) waitGone() {
	for end := time.Now().Add(Patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		left := processesIn(s.data)
		if len(left) == 0 {
			return
		}
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// childrenOf returns the processes that pid has started, where the system says so in /proc.
func childrenOf(pid int) []int {
	var children []int
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		if fields := fieldsOf(path); len(fields) < 2 || fields[1] != strconv.Itoa(pid) {
			continue
		}
		if child, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			children = append(children, child)
		}
	}
	return children
}

// fieldsOf returns the fields of a file stat of /proc behind the name of the program, which is in parentheses and may have any character in
// it: the state, the parent and so on. There are none if it has ended.
func fieldsOf(stat string) []string {
	text, err := os.ReadFile(stat) //nolint:gosec // it is of /proc
	name := strings.LastIndexByte(string(text), ')')
	if err != nil || name < 0 {
		return nil
	}
	return strings.Fields(string(text[name+1:]))
}

// processesIn returns the processes that have dir as their working directory, as those of PostgreSQL have that of their data.
func processesIn(dir string) (pids []int) {
	links, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && to == dir {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(link))) // of digits; it cannot fail
			pids = append(pids, pid)
		}
	}
	return pids
}
