//go:build unix

package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/soloist-dev/soloist/test/servers"
)

// A watchedProcess is a soloist with --listen.
type watchedProcess struct {
	*exec.Cmd
	t        *testing.T
	messages string // the path of what it writes to standard error
}

// watched starts a soloist in dir. It listens on a port that is free.
func watched(t *testing.T, dir, store string, args ...string) *watchedProcess {
	t.Helper()
	path, err := exec.LookPath("soloist")
	if err != nil {
		t.Fatal(err)
	}
	p := &watchedProcess{exec.Command(path, args...), t, filepath.Join(dir, args[0]+".err")}
	errs, err := os.Create(p.messages)
	if err != nil {
		t.Fatal(err)
	}
	defer errs.Close()
	p.Dir, p.Stderr = dir, errs
	p.Env = append(os.Environ(), "SOLOIST_STORE="+store)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Process.Kill()
		_ = p.Wait()
		if t.Failed() {
			t.Log(p.said())
		}
	})
	return p
}

func (p *watchedProcess) said() string {
	text, err := os.ReadFile(p.messages)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text)
}

var listensAt = regexp.MustCompile(`msg=listening address="?(tcp|unix) ([^ "\n]+)"?\n`)

// get returns a page, "" when there is none yet.
func (p *watchedProcess) get(page string) string {
	p.t.Helper()
	found := listensAt.FindStringSubmatch(p.said())
	if found == nil {
		return ""
	}
	if found[1] == "unix" {
		found[2] = filepath.Join(p.Dir, found[2])
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, found[1], found[2])
	}
	client := &http.Client{Timeout: servers.Patience, Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	response, err := client.Get("http://localhost" + page)
	if err != nil {
		return ""
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		p.t.Error(err)
	}
	return response.Status[:3] + " " + string(text)
}

// until waits until a page has a text.
func (p *watchedProcess) until(page, text string) {
	p.t.Helper()
	until(p.t, page+" has "+text, func() bool { return strings.Contains(p.get(page), text) })
}

// address waits until the process listens, and returns where.
func (p *watchedProcess) address() (addr string) {
	p.t.Helper()
	until(p.t, "it listens", func() bool {
		found := listensAt.FindStringSubmatch(p.said())
		if found != nil {
			addr = found[2]
		}
		return found != nil
	})
	return addr
}

// untilSaid waits until the process has written a text.
func (p *watchedProcess) untilSaid(text string) {
	p.t.Helper()
	until(p.t, "it says "+text, func() bool { return strings.Contains(p.said(), text) })
}

// ends sends TERM and waits for the end, which is a good one.
func (p *watchedProcess) ends() {
	p.t.Helper()
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		p.t.Errorf("after TERM: %v", err)
	}
}

// cron serves probes and metrics; while it drains, it is not ready.
func TestCronListens(t *testing.T) {
	dir := memoryDir(t)
	job := "# name: tick\n* * * * * * * touch began; while [ ! -e stop ]; do sleep 0.05; done\n"
	if err := os.WriteFile(filepath.Join(dir, "crontab"), []byte(job), 0o600); err != nil {
		t.Fatal(err)
	}
	cron := watched(t, dir, "memory:", "cron", "--listen", "0", "--drain", servers.Patience.String(), "crontab")
	cron.until("/readyz", "200 ok")
	until(t, "the job runs", func() bool { _, err := os.Stat(filepath.Join(dir, "began")); return err == nil })
	cron.until("/metrics", `soloist_leases_held{kind="job"} 1`)
	cron.until("/metrics", "soloist_cron_waiting_runs 0")
	if err := cron.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	cron.until("/readyz", "503 not ready: draining")
	if page := cron.get("/healthz"); page != "200 ok\n" {
		t.Errorf("/healthz: %q", page)
	}
	if err := os.WriteFile(filepath.Join(dir, "stop"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := cron.Wait(); err != nil {
		t.Errorf("after TERM: %v", err)
	}
}

// A cron whose store refuses connections is live and not ready; a unix socket will do as well.
func TestCronListensWithoutItsStore(t *testing.T) {
	dir := memoryDir(t)
	if err := os.WriteFile(filepath.Join(dir, "crontab"), []byte("@daily true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cron := watched(t, dir, "redis://127.0.0.1:1", "cron", "--listen", "unix:s", "crontab") // nothing listens on port 1
	cron.until("/healthz", "200 ok")
	cron.until("/readyz", "503 not ready: store")
	cron.ends()
	if _, err := os.Lstat(filepath.Join(dir, "s")); err == nil {
		t.Error("the socket is left")
	}
}

func TestLeadListens(t *testing.T) {
	dir := memoryDir(t)
	lead := watched(t, dir, "memory:", "lead", "x", "--listen", "0", "--", "sh", "-c", "while [ ! -e stop ]; do sleep 0.05; done")
	lead.until("/readyz", "200 ok")
	lead.until("/metrics", `soloist_leases_held{kind="leader"} 1`)
	lead.until("/metrics", "go_goroutines")
	if err := os.WriteFile(filepath.Join(dir, "stop"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := lead.Wait(); err != nil {
		t.Error(err)
	}
}
