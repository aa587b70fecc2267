//go:build unix

package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/test/servers"
)

// A foreignClient is one of the programs of examples/clients.
type foreignClient struct {
	*exec.Cmd
	t     *testing.T
	stdin io.Closer
	out   *os.File // its output, into which a test can write, too

	mu   sync.Mutex
	said []string
}

func startForeign(t *testing.T, argv ...string) *foreignClient {
	t.Helper()
	c := &foreignClient{Cmd: exec.Command(argv[0], argv[1:]...), t: t}
	c.Env = append(os.Environ(), "no_proxy=*")
	stdin, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c.stdin, c.out, c.Stdout, c.Stderr = stdin, write, write, write
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		defer read.Close()
		for in := bufio.NewScanner(read); in.Scan(); {
			c.mu.Lock()
			c.said = append(c.said, in.Text())
			c.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		_ = c.out.Close()
		<-heard
		if t.Failed() {
			t.Logf("%v: %q", argv, c.said)
		}
	})
	return c
}

// lines returns the lines that begin with a word.
func (c *foreignClient) lines(word string) (found []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, line := range c.said {
		if line == word || strings.HasPrefix(line, word+" ") {
			found = append(found, line)
		}
	}
	return found
}

// until waits for n lines that begin with a word, and returns the last.
func (c *foreignClient) until(n int, word string) string {
	c.t.Helper()
	until(c.t, "it says "+word, func() bool { return len(c.lines(word)) >= n })
	return c.lines(word)[n-1]
}

// before returns the lines before another, which is there.
func (c *foreignClient) before(line string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.said[:slices.Index(c.said, line)])
}

// ends ends the work of the client, and waits for its good end.
func (c *foreignClient) ends() {
	c.t.Helper()
	_ = c.stdin.Close()
	if err := c.Wait(); err != nil {
		c.t.Errorf("%v: %v", c.Args, err)
	}
}

// The clients of examples/clients hold leases through the end of an instance of the service: they go on with another, and no lease is lost. A lock
// that is held by a connection is held again, with a higher token. What waits at an instance that shuts down waits on at another.
func TestClientsInOtherLanguages(t *testing.T) {
	examples := filepath.Join("..", "..", "examples", "clients")
	for name, prepare := range map[string]func(*testing.T) []string{
		"Python": func(t *testing.T) []string {
			return []string{servers.Program(t, "Python", "python3"), filepath.Join(examples, "soloist.py")}
		},
		"JavaScript": func(t *testing.T) []string {
			as18 := filepath.Join(t.TempDir(), "18.cjs") // modules of Node.js 18 have no global crypto
			if err := os.WriteFile(as18, []byte("delete globalThis.crypto"), 0o600); err != nil {
				t.Fatal(err)
			}
			return []string{servers.Program(t, "Node.js", "node"), "--require", as18, filepath.Join(examples, "soloist.mjs")}
		},
		"Java": func(t *testing.T) []string {
			classes := t.TempDir()
			compile := exec.Command(servers.Program(t, "the compiler of Java", "javac"), "-d", classes, filepath.Join(examples, "Soloist.java"))
			if out, err := compile.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			return []string{servers.Program(t, "Java", "java"), "-cp", classes, "Soloist"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := prepare(t)
			isCareful(t, client)
			countsSuspends(t, client)
			var all []*watchedProcess
			var urls []string
			dir := memoryDir(t)
			for range 3 {
				p := watched(t, memoryDir(t), "sqlite:"+filepath.Join(dir, "store.db"), "serve", "--listen", "0")
				all, urls = append(all, p), append(urls, "http://"+p.address())
			}
			run := func(args ...string) *foreignClient {
				t.Helper()
				return startForeign(t, slices.Concat(client, []string{strings.Join(urls[:2], ",")}, args)...)
			}
			front := run("lease", "report")
			front.until(1, "held")
			const asked = `soloist_store_request_duration_seconds_count{outcome="ok",verb="acquire"}`
			if strings.Contains(all[2].get("/metrics"), asked) {
				t.Error("the third instance has asked for a lease, and no client has")
			}
			waiting := startForeign(t, slices.Concat(client, []string{urls[2] + "," + urls[1], "lease", "report"})...)
			all[2].until("/metrics", asked)
			all[2].ends() // before the wait is over
			front.ends()
			waiting.until(1, "held")
			waiting.ends()
			lease, hold := run("lease", "close month/ü", "40"), run("hold", "nightly") // a third and a sixth of 40 s are no whole milliseconds
			leaseToken := strings.TrimPrefix(lease.until(1, "held"), "held ")
			first := hold.until(1, "held")
			_ = all[0].Process.Kill()
			_ = all[0].Wait()
			before := len(lease.lines("renewed"))
			lease.until(before+1, "renewed")
			if !strings.Contains(all[1].get("/v1/locks"), `{"name":"close month/ü","replica":`) || !strings.Contains(all[1].get("/v1/locks"), `"token":`+leaseToken+`,`) {
				t.Errorf("the lease with token %s is not held: %s", leaseToken, all[1].get("/v1/locks"))
			}
			if second := hold.until(2, "held"); tokenOf(t, second) <= tokenOf(t, first) {
				t.Errorf("%q after %q", second, first)
			}
			permit := run("permit", "pdf", "1")
			permit.until(1, "held")
			for _, want := range []string{"processed", "done"} {
				element := run("element", "invoices", "4711")
				element.until(1, want)
				element.ends()
			}
			for _, c := range []*foreignClient{permit, lease, hold} {
				c.ends()
			}
			permit.until(1, "released")
			lease.until(1, "released")
			until(t, "nothing is held", func() bool {
				return strings.Contains(all[1].get("/v1/locks"), `"items":[]`) && strings.Contains(all[1].get("/v1/semaphores"), `"permits":[]`)
			})
			all[1].ends()
		})
	}
}

// isCareful checks a client against a service whose replies come late or not at all, whose proxies have no instance at first, which each says in its own way, and
// that shuts down. The work is told to stop before the connection that holds the lock is closed: the output of the client has the ends of its connections in it.
func isCareful(t *testing.T, client []string) {
	t.Helper()
	byProxies := []string{"<html>Bad Gateway</html>", `{"message":"Bad Gateway"}`, `"Bad Gateway"`, "null"}
	holds := []string{
		``, // not even a status
		`{"event":"held","token":2,"expiresIn":0}` + "\n",
		`{"event":"held","token":3,"expiresIn":3600}` + "\n", // and then nothing
		`{"event":"held","token":4,"expiresIn":3600}` + "\n" + `{"event":"closing","token":4,"expiresIn":3600}` + "\n",
		`{"event":"held","token":5,"expiresIn":3600}` + "\n",
	}
	var asked, held, released atomic.Int32
	var hold *foreignClient
	started := make(chan struct{})
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		nth := int(asked.Add(1)) - 1
		switch path := r.URL.Path; {
		case nth < len(byProxies):
			http.Error(w, byProxies[nth], http.StatusBadGateway)
		case strings.HasSuffix(path, "/acquire"):
			_, _ = io.WriteString(w, `{"lease":"abc","token":1,"expiresIn":0}`)
		case strings.HasSuffix(path, "/release"):
			released.Add(1)
		default:
			<-started
			nth := min(int(held.Add(1)), len(holds))
			if lines := holds[nth-1]; lines != "" {
				_, _ = io.WriteString(w, lines)
				_ = http.NewResponseController(w).Flush()
			}
			<-r.Context().Done()
			_, _ = fmt.Fprintln(hold.out, "ended", nth)
		}
	}))
	t.Cleanup(service.Close)
	run := func(what string) *foreignClient {
		return startForeign(t, slices.Concat(client, []string{service.URL, what, "x"})...)
	}
	lease := run("lease")
	hold = run("hold")
	close(started)
	lease.until(1, "held")
	_ = lease.stdin.Close()
	if err := lease.Wait(); err == nil || released.Load() != 0 {
		t.Errorf("a lease that has ended is not noticed: %v, %d releases", err, released.Load())
	}
	if got := hold.until(1, "held"); got != "held 3" {
		t.Errorf("%q of a line that came after the lease could have ended", got)
	}
	hold.until(1, "closing")
	before := len(hold.lines("broken"))
	if got := hold.until(2, "held"); got != "held 4" {
		t.Errorf("%q after a connection without a line", got)
	}
	if got := hold.until(3, "held"); got != "held 5" || len(hold.lines("broken")) > before {
		t.Errorf("%q, and the connection was not closed after the line closing", got)
	}
	for nth, last := range map[int]string{2: "late 2", 3: "late 3", 4: "closing 4"} {
		end := fmt.Sprint("ended ", nth)
		hold.until(1, end)
		if said := hold.before(end); !slices.Contains(said, last) {
			t.Errorf("the connection was closed before the work was told to stop, by %q: %q", last, said)
		}
	}
	hold.ends()
}

// countsSuspends checks that a lease ends in time for a client whose machine was suspended: its wall clock has gone on, and the one that cannot be set has not.
func countsSuspends(t *testing.T, client []string) {
	t.Helper()
	var held, released atomic.Int32
	resumed := make(chan struct{})
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		switch path := r.URL.Path; {
		case strings.HasSuffix(path, "/hold"):
			token := held.Add(1)
			_, _ = fmt.Fprintf(w, `{"event":"held","token":%d,"expiresIn":3600}`+"\n", token)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-resumed:
				_, _ = fmt.Fprintf(w, `{"event":"alive","token":%d,"expiresIn":3600}`+"\n", token)
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			case <-r.Context().Done():
			}
		case strings.HasSuffix(path, "/release"):
			released.Add(1)
		default:
			_, _ = io.WriteString(w, `{"lease":"abc","token":1,"expiresIn":3600}`)
		}
	}))
	t.Cleanup(service.Close)
	clock := servers.NewClock(t)
	run := func(what string) *foreignClient {
		return startForeign(t, slices.Concat([]string{"env"}, clock.Env, client, []string{service.URL, what, "x"})...)
	}
	lease, hold := run("lease"), run("hold")
	lease.until(1, "held")
	hold.until(1, "held")
	clock.Set(2 * time.Hour)
	_ = lease.stdin.Close()
	if err := lease.Wait(); err == nil || released.Load() != 0 {
		t.Errorf("a lease that has ended during a suspend is not noticed: %v, %d releases", err, released.Load())
	}
	close(resumed)
	hold.until(2, "held")
	if alive := hold.lines("alive"); slices.Contains(alive, "alive 1") {
		t.Errorf("%q of a connection that had its lock before the suspend", alive)
	}
	hold.ends()
}

func tokenOf(t *testing.T, held string) int64 {
	t.Helper()
	token, err := strconv.ParseInt(strings.TrimPrefix(held, "held "), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return token
}
