//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/test/servers"
)

// On a store without a clock, a process that has just begun gets a name that has lingered for long enough, and an element whose back-off is over.
func TestNextInvocationWithoutAClock(t *testing.T) {
	store := "nats://" + servers.NATS(t, 1)[0].Addr + "/invocations"
	if code, text := ended(t, store, "migrate", "up"); code != 0 {
		t.Fatal(code, text)
	}
	for _, row := range []struct {
		first, next []string
		quick       []string // does not wait, and so is refused
		code        int      // of the first
	}{
		{[]string{"lock", "a", "--at-least", "1s", "--", "true"}, []string{"lock", "a", "--", "true"}, []string{"lock", "a", "-n", "--", "true"}, 0},
		{[]string{"once", "job", "1", "--backoff", "1s", "--", "false"}, []string{"once", "job", "1", "--", "true"}, nil, 1},
	} {
		if code, text := ended(t, store, row.first...); code != row.code {
			t.Fatalf("%v: %d %s", row.first, code, text)
		}
		over := time.Now().Add(time.Second)
		for begun := time.Now(); row.quick != nil && !begun.After(over); {
			begun = time.Now()
			if code, text := ended(t, store, row.quick...); code != exitHeld {
				t.Fatalf("%v: %d %s", row.quick, code, text)
			}
		}
		for code := exitHeld; code != 0; {
			begun, text := time.Now(), ""
			if code, text = ended(t, store, row.next...); code != 0 && (code != exitHeld || begun.After(over)) {
				t.Fatalf("%v: %d %s", row.next, code, text)
			}
		}
		if code, text := ended(t, store, row.next...); code != 0 {
			t.Fatalf("%v again: %d %s", row.next, code, text)
		}
	}
}

// longAgo rewrites what a process has left in Consul as one whose wall clock is hours behind: it looks like what was left hours ago.
func longAgo(t *testing.T, addr string) {
	t.Helper()
	call := func(method, path string, body []byte) []byte {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+addr+"/v1/kv/"+path, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatal(resp.Status, err)
		}
		return text
	}
	var all []struct {
		Key   string
		Value []byte
	}
	if err := json.Unmarshal(call(http.MethodGet, "soloist/?recurse", nil), &all); err != nil {
		t.Fatal(err)
	}
	ago := strconv.FormatInt(time.Now().Add(-3*time.Hour).UnixMilli(), 36)
	stamp := regexp.MustCompile(`("write":"[^"]*-)[^-"]*"`)
	rewritten := 0
	for _, one := range all {
		if value := stamp.ReplaceAll(one.Value, []byte("${1}"+ago+`"`)); !bytes.Equal(value, one.Value) {
			call(http.MethodPut, (&url.URL{Path: one.Key}).EscapedPath(), value)
			rewritten++
		}
	}
	if rewritten == 0 {
		t.Fatal("nothing was rewritten")
	}
}

// On a store without a clock, what people have done with a job whose replicas are dead, or an element that waits after a failure, is done by a command that watches
// these for longer than any other takes. An INT ends it.
func TestChangesOfWhatIsOverdue(t *testing.T) {
	const ttl = "31s" // longer than a command that only looks may take
	for _, row := range []struct {
		rule string
		ends bool // with an INT
		left func(t *testing.T, store string)
		does []string
	}{
		{"a job", false, leaveJob(ttl), []string{"jobs", "forget", "nightly"}},
		{"an element", false, leaveElement(ttl), []string{"elements", "retry", "invoices", "1"}},
		{"a job, interrupted", true, leaveJob("10m"), []string{"jobs", "forget", "nightly"}},
	} {
		t.Run(row.rule, func(t *testing.T) {
			t.Parallel()
			server := servers.Consul(t, 1, nil)[0]
			store := "consul://" + server.Addr + "/soloist"
			row.left(t, store)
			longAgo(t, server.Addr)
			if !row.ends {
				if code, text := ended(t, store, row.does...); code != 0 {
					t.Errorf("%d %s", code, text)
				}
				return
			}
			for after := 100 * time.Millisecond; ; after *= 2 { // until it has got as far as to notice the signal
				cmd, said := process(t, store, row.does...)
				time.Sleep(after)
				if err := cmd.Process.Signal(syscall.SIGINT); err != nil && !errors.Is(err, os.ErrProcessDone) {
					t.Fatal(err)
				}
				_ = cmd.Wait()
				if status := cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() {
					if code := status.ExitStatus(); code != 130 || !strings.Contains(said.String(), "interrupted") {
						t.Errorf("%d %s", code, said)
					}
					return
				}
			}
		})
	}
}

// process begins the command.
func process(t *testing.T, store string, args ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	path, err := exec.LookPath("soloist")
	if err != nil {
		t.Fatal(err)
	}
	cmd, said := exec.Command(path, args...), new(bytes.Buffer)
	cmd.Dir = t.TempDir()
	cmd.Env = []string{"SOLOIST_STORE=" + store, "PATH=" + os.Getenv("PATH"), "HOME=" + cmd.Dir}
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, said
}

// leaveJob leaves a job whose one replica was killed.
func leaveJob(ttl string) func(*testing.T, string) {
	return func(t *testing.T, store string) {
		file := filepath.Join(t.TempDir(), "jobs.yaml")
		if err := os.WriteFile(file, []byte("jobs:\n  - {name: nightly, every: 1h, command: [\"true\"]}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd, said := process(t, store, "cron", "--ttl", ttl, file)
		defer func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			if t.Failed() {
				t.Log(said)
			}
		}()
		servers.Wait(t, "the job has a replica", func() bool {
			code, text := ended(t, store, "jobs", "show", "nightly", "-o", "json")
			return code == 0 && strings.Contains(text, `"digest"`)
		})
	}
}

// leaveElement leaves an element that has failed.
func leaveElement(backoff string) func(*testing.T, string) {
	return func(t *testing.T, store string) {
		if code, text := ended(t, store, "once", "invoices", "1", "--backoff", backoff, "--", "false"); code != 1 {
			t.Fatal(code, text)
		}
	}
}
