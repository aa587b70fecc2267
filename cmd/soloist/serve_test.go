//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/soloist-dev/soloist/test/servers"
)

// The page on the service is true: curl does what it says.
func TestCurlPage(t *testing.T) {
	curl := servers.Program(t, "curl", "curl")
	sh := servers.Program(t, "a shell", "sh")
	page, err := os.ReadFile("../../docs/operate/service.md")
	if err != nil {
		t.Fatal(err)
	}
	script := regexp.MustCompile("(?s)```sh\n(.*?)```").FindSubmatch(page)[1]
	dir := memoryDir(t)
	p := watched(t, dir, "memory:", "serve", "--listen", "0")
	p.until("/readyz", "200 ok")
	run := exec.Command(sh, "-e", "-c", string(script))
	run.Dir = dir
	run.Env = append(os.Environ(), "API=http://"+listensAt.FindStringSubmatch(p.said())[2], "PATH="+filepath.Dir(curl)+":"+os.Getenv("PATH"))
	out, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{`"expiresIn":`, `"permit":0`, `"event":"held"`, `"name":"close-month"`} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %s in:\n%s", want, out)
		}
	}
	until(t, "the lock of the connection is released", func() bool { return !strings.Contains(p.get("/v1/locks"), "nightly") })
	p.until("/metrics", "soloist_store_request_duration_seconds_count")
	p.ends()
}
