//go:build unix

package main

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/server"
	"github.com/soloist-dev/soloist/store/memstore"
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

// While requests are drained, HUP changes nothing for them.
func TestDrainedRequestsOutlastHUP(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	c, err := soloist.New(memstore.New(), soloist.Config{Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	api, err := server.New(c, server.Config{Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	begun, goOn := make(chan struct{}), make(chan struct{})
	run := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(begun)
		<-goOn
		_, _ = io.WriteString(w, "done")
	})}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = run.Serve(l) }()
	got := make(chan string, 1)
	go func() {
		response, err := http.Get("http://" + l.Addr().String())
		if err != nil {
			got <- err.Error()
			return
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		got <- fmt.Sprint(string(text), err)
	}()
	<-begun
	signals, ended := make(chan os.Signal), make(chan error)
	r := &serveRun{app: &app{}, drain: servers.Patience}
	go func() { ended <- r.end(signals, api, run, log) }()
	for range 1000 { // without room in the channel: each is dealt with before the next
		signals <- syscall.SIGHUP
	}
	close(goOn)
	if text := <-got; text != "done<nil>" {
		t.Errorf("the request got %q", text)
	}
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
	close(signals)
}
