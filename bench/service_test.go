package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/internal/load"
	api "github.com/soloist-dev/soloist/server"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"
)

var quiet = slog.New(slog.DiscardHandler)

// BenchmarkPages measures how long an instance of the service takes for a page, with 10,000 jobs and 100,000 locks in the store: the first page of an instance that
// has just started, and one of an instance that has read the store.
func BenchmarkPages(b *testing.B) {
	for _, of := range []backend{redisBackends()[0], postgresBackend()} {
		b.Run(of.name, func(b *testing.B) {
			server, err := of.start(b)
			if err != nil {
				b.Fatal(err)
			}
			s, err := of.open(b.Context(), server.url)
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = s.Close() })
			fill(b, s)
			for _, path := range []string{"/", "/jobs", "/locks", "/timeline"} {
				b.Run("first"+path, func(b *testing.B) {
					for b.Loop() {
						b.StopTimer()
						instance, end := instanceOn(b, s)
						b.StartTimer()
						get(b, instance, path)
						b.StopTimer()
						end()
						b.StartTimer()
					}
				})
				b.Run("later"+path, func(b *testing.B) {
					instance, end := instanceOn(b, s)
					defer end()
					servers.Wait(b, "the store to be read", func() bool {
						page := get(b, instance, "/")
						return strings.Contains(page, ">100000<") && strings.Contains(page, ">10000<")
					})
					for b.Loop() {
						get(b, instance, path)
					}
				})
			}
		})
	}
}

// fill makes the records of 10,000 jobs and 100,000 locks.
func fill(b *testing.B, s store.Store) {
	b.Helper()
	const locks, batch = 100_000, 1000
	for from := 0; from < locks; from += batch {
		var claims []store.Claim
		for i := range batch {
			claims = append(claims, store.Claim{Name: fmt.Sprintf("lock/lock-%06d", from+i), Holder: "a#b", TTL: 24 * time.Hour})
		}
		if _, err := s.Acquire(b.Context(), claims); err != nil {
			b.Fatal(err)
		}
	}
	c, err := soloist.New(s, soloist.Config{Logger: quiet, RequestTimeout: time.Minute})
	if err != nil {
		b.Fatal(err)
	}
	jobs := make([]soloist.Job, 10_000)
	for i := range jobs {
		jobs[i] = soloist.Job{Name: fmt.Sprintf("job-%05d", i), Schedule: soloist.Every(time.Hour), Do: func(context.Context, soloist.Run) error { return nil }}
	}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error)
	go func() { ended <- c.Run(ctx, jobs...) }()
	servers.Wait(b, "the jobs to be registered", func() bool {
		_, err := c.Admin().Job(b.Context(), jobs[len(jobs)-1].Name)
		return err == nil
	})
	cancel()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
	_ = c.Close()
}

// instanceOn starts an instance of the service.
func instanceOn(b *testing.B, s store.Store) (handler http.Handler, end func()) {
	b.Helper()
	c, err := soloist.New(s, soloist.Config{Logger: quiet, RequestTimeout: time.Minute})
	if err != nil {
		b.Fatal(err)
	}
	instance, err := api.New(c, api.Config{OpenActions: true, Logger: quiet})
	if err != nil {
		b.Fatal(err)
	}
	return instance, func() {
		instance.Drain()
		_ = c.Close()
	}
}

// get gets a page.
func get(b *testing.B, handler http.Handler, path string) string {
	b.Helper()
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequestWithContext(b.Context(), http.MethodGet, "http://localhost"+path, nil))
	if w.Code != http.StatusOK {
		b.Fatalf("%s: %d", path, w.Code)
	}
	return w.Body.String()
}

// BenchmarkLoopback measures what 64 connections cost over which a pair's two requests and responses go, with nothing that reads them: what is left of
// HTTP when nothing of HTTP is done. Both ends are in this process.
func BenchmarkLoopback(b *testing.B) {
	const connections, size = 64, 250 // bytes of a message
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				for message := make([]byte, size); ; {
					if _, err := io.ReadFull(conn, message); err != nil {
						_ = conn.Close()
						return
					}
					_, _ = conn.Write(message) // the other end notices
				}
			}()
		}
	}()
	conns := make([]net.Conn, connections)
	for i := range conns {
		if conns[i], err = net.Dial("tcp", l.Addr().String()); err != nil {
			b.Fatal(err)
		}
		defer conns[i].Close()
	}
	var next atomic.Int64
	b.SetParallelism(connections / runtime.GOMAXPROCS(0))
	before := load.CPU()
	b.RunParallel(func(pairs *testing.PB) {
		conn, message := conns[next.Add(1)-1], make([]byte, size)
		for pairs.Next() {
			for range 2 {
				_, err := conn.Write(message)
				if err == nil {
					_, err = io.ReadFull(conn, message)
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		}
	})
	b.ReportMetric(load.Micros(load.CPU()-before)/float64(b.N), "CPU-µs/op")
}

// waitingRequests is how many requests wait in an instance.
const waitingRequests = 5000

// BenchmarkServiceMemory measures the memory of an instance of the service on Redis, in which 5,000 requests wait for leases and 1,000 connections hold one.
func BenchmarkServiceMemory(b *testing.B) {
	const holds = 1000
	server, err := redisBackends()[0].start(b)
	if err != nil {
		b.Fatal(err)
	}
	program := filepath.Join(b.TempDir(), "soloist")
	if out, err := exec.CommandContext(b.Context(), "go", "build", "-o", program, "github.com/soloist-dev/soloist/cmd/soloist").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	for round := 0; b.Loop(); round++ {
		func() {
			instance := exec.CommandContext(b.Context(), program, "serve", "--listen", "127.0.0.1:0", "--open-actions", "--max-waiting", strconv.Itoa(waitingRequests+holds))
			instance.Env = append(os.Environ(), "SOLOIST_STORE="+server.url)
			log, _ := instance.StderrPipe()
			if err := instance.Start(); err != nil {
				b.Fatal(err)
			}
			defer func() {
				_ = instance.Process.Kill()
				_ = instance.Wait()
			}()
			address := listening(b, log)
			go func() { _, _ = io.Copy(os.Stderr, log) }()
			idle := memory(b, instance.Process.Pid, "RssAnon")
			send := func(path, body string) net.Conn {
				conn, err := net.Dial("tcp", address)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, address, len(body), body); err != nil {
					b.Fatal(err)
				}
				return conn
			}
			status := func(conn net.Conn) string {
				line, err := bufio.NewReader(conn).ReadString('\n')
				if err != nil {
					b.Fatal(err)
				}
				return line
			}
			var all []net.Conn
			for i := range holds {
				all = append(all, send(fmt.Sprintf("/v1/locks/held-%d-%d/hold", round, i), `{"ttl": 60}`))
			}
			for _, conn := range all {
				if line := status(conn); !strings.Contains(line, "200") {
					b.Fatal(line)
				}
			}
			for i := range waitingRequests {
				all = append(all, send(fmt.Sprintf("/v1/locks/held-%d-%d/acquire", round, i%holds), `{"ttl": 60, "wait": 600}`))
			}
			servers.Wait(b, "all requests to wait", func() bool {
				return goroutines(b, address) >= 2*len(all) // one answers the request, and another one would see that the client goes
			})
			b.ReportMetric(memory(b, instance.Process.Pid, "RssAnon"), "MB")
			b.ReportMetric(idle, "MB-idle")
			b.ReportMetric(memory(b, instance.Process.Pid, "RssFile"), "MB-of-the-program-file")
			for _, conn := range all {
				_ = conn.Close()
			}
		}()
	}
}

// listening returns the address that an instance logs.
func listening(b *testing.B, log io.Reader) string {
	b.Helper()
	lines := bufio.NewReader(log)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			b.Fatal("the service has ended: ", err)
		}
		if _, address, found := strings.Cut(strings.TrimSpace(line), "address=\"tcp "); found {
			return strings.TrimSuffix(address, "\"")
		}
	}
}

// goroutines is how many goroutines an instance has.
func goroutines(b *testing.B, address string) (n int) {
	b.Helper()
	response, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		b.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if _, err := fmt.Sscanf(lines.Text(), "go_goroutines %d", &n); err == nil {
			return n
		}
	}
	b.Fatal("the metrics do not have go_goroutines: ", lines.Err())
	return 0
}

// memory is how much resident memory of a kind a process has, in MB: RssAnon is its own, RssFile the pages of its program's file that it has used, which
// the system can take back at any time, and which processes of one program share.
func memory(b *testing.B, pid int, kind string) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Skip(err)
	}
	for line := range strings.Lines(string(text)) {
		var kb float64
		if n, _ := fmt.Sscanf(line, kind+": %f kB", &kb); n == 1 {
			return kb / 1000
		}
	}
	b.Fatal("it has no ", kind)
	return 0
}
