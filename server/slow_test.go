package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/internal/listen"
	"github.com/soloist-dev/soloist/soloisttest"
)

// pipes are connections without buffers, which follow the clock of synctest.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if conn, open := <-p; open {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

func (p pipes) dial() net.Conn {
	near, far := net.Pipe()
	p <- far
	return near
}

// startInBubble starts a service whose connections are pipes.
func startInBubble(t *testing.T, cfg Config) (*service, pipes) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	store := soloisttest.NewStore()
	client := soloisttest.NewReplica(t, store, soloist.Config{Logger: log, RequestTimeout: 20 * time.Second})
	cfg.Logger = log
	api, err := New(client, cfg)
	if err != nil {
		t.Fatal(err)
	}
	p := make(pipes)
	run := listen.NewServer(api, log)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = run.Serve(p)
	}()
	t.Cleanup(func() {
		api.Drain()
		close(p)
		<-ended
		_ = run.Close()
	})
	return &service{t: t, store: store, client: client, server: api, http: &httptest.Server{URL: "http://localhost", Config: run}}, p
}

// A client that is slow to send what no handler reads, or to read, does not keep its connection.
func TestSlowClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := startInBubble(t, Config{OpenActions: true})
		for _, request := range []string{
			"POST /v1/leases/x/renew HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n1",
			"DELETE /v1/locks/x?token=1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n1",
			"POST /v1/locks/x/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{",
		} {
			conn := p.dial()
			if _, err := io.WriteString(conn, request); err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, conn) // until the server closes it
			_ = conn.Close()
		}
		conn := p.dial()
		if _, err := io.WriteString(conn, "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		if got, _ := io.ReadAll(conn); len(got) >= len(s.server.openapi) {
			t.Error("the whole response was still to be had")
		}
		_ = conn.Close()
	})
}

// A hold whose store does not respond is told that it is lost before another can have the name.
func TestHoldIsLostInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := startInBubble(t, Config{OpenActions: true})
		next := lines(t, s.holdInBubble(p, AcquireRequest{TTL: 3}))
		if first := next(); first.Event != "held" {
			t.Fatalf("%+v", first)
		}
		begin := time.Now()
		s.store.Stall()
		event := next()
		for event.Event == "alive" {
			event = next()
		}
		if event.Event != "lost" {
			t.Errorf("%+v", event)
		}
		if took := time.Since(begin); took > 3*time.Second {
			t.Errorf("it was told %v after the lease was granted for 3s", took)
		}
		s.store.Heal()
	})
}

// No request waits without end for a store that does not respond, also if its client does. Of an action nobody knows then whether it was done.
func TestRequestsToAStoreThatDoesNotRespondEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := startInBubble(t, Config{OpenActions: true})
		s.store.Stall()
		requests := [][2]string{{"GET", "/job?name=x"}}
		for _, r := range s.server.routes {
			if r.in == nil && r.stream == "" && !strings.Contains(r.path, "{lease}") || strings.HasPrefix(r.path, "/v1/jobs/") {
				path := strings.NewReplacer("{permit}", "1", "{name}", "x", "{job}", "x", "{id}", "1").Replace(r.path)
				if r.method == http.MethodDelete {
					path += "?token=1"
				}
				requests = append(requests, [2]string{r.method, path})
			}
		}
		for _, r := range requests {
			begin, w := time.Now(), httptest.NewRecorder()
			s.server.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), r[0], "http://localhost"+r[1], nil))
			if took := time.Since(begin); w.Code != 503 || took > storeWithin || r[0] != http.MethodGet && !strings.Contains(w.Body.String(), codeUnknown) {
				t.Errorf("%v: %d after %v: %s", r, w.Code, took, w.Body)
			}
		}
		s.store.Heal()
	})
}

// A hold whose store refuses connections is told that it is lost when its lease could have ended, and not later.
func TestHoldOfAStoreThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := startInBubble(t, Config{OpenActions: true})
		next := lines(t, s.holdInBubble(p, AcquireRequest{TTL: 3}))
		first := next()
		begin := time.Now()
		s.store.Break(errors.New("connection refused"))
		event := next()
		for event.Event == "alive" {
			if left := first.ExpiresIn - time.Since(begin).Seconds(); left <= 0 {
				t.Fatalf("%+v, of which %v s are left", event, left)
			}
			event = next()
		}
		if took := time.Since(begin).Seconds(); event.Event != "lost" || event.ExpiresIn != 0 || took > first.ExpiresIn+0.001 {
			t.Errorf("%+v after %v s, want it lost after %v s", event, took, first.ExpiresIn)
		}
		if end := next(); end.Event != "" {
			t.Errorf("%+v after the end", end)
		}
	})
}

// Each line of a hold tells how long the lease is certainly held from when the request was sent on, also of one that has waited.
func TestHoldTellsHowLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := startInBubble(t, Config{OpenActions: true})
		l, err := s.client.TryLock(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		time.AfterFunc(10*time.Second, func() { _ = l.Release() })
		next := lines(t, s.holdInBubble(p, AcquireRequest{TTL: 15, Wait: 60}))
		for i, event := range []string{"held", "alive", "alive"} {
			e, after := next(), time.Duration(10+5*i)*time.Second // it is renewed each third of the TTL
			if took := time.Since(begin); e.Event != event || e.ExpiresIn != (after+13500*time.Millisecond).Seconds() || took != after {
				t.Errorf("after %v: %+v; want it %s after %v, for the TTL without the margin from then on", took, e, event, after)
			}
		}
		s.server.Drain()
		if e := next(); e.Event != "closing" || e.ExpiresIn != 33.5 {
			t.Errorf("%+v", e)
		}
	})
}

// A client that does not read keeps its name for as long as it was told, and as its TTL is, for it has not closed the connection.
func TestHoldOfAClientThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := startInBubble(t, Config{OpenActions: true})
		begin := time.Now()
		if e := lines(t, s.holdInBubble(p, AcquireRequest{TTL: 60}))(); e.Event != "held" || e.ExpiresIn != 54 {
			t.Fatalf("%+v", e)
		}
		other := soloisttest.NewReplica(t, s.store.Share(), soloist.Config{})
		time.Sleep(54 * time.Second)
		if _, err := other.TryLock(t.Context(), "x"); !errors.Is(err, soloist.ErrHeld) {
			t.Errorf("after %v, although it was told to be held: %v", time.Since(begin), err)
		}
		if used := s.server.waiting.used(); used != 0 {
			t.Errorf("%d places are used", used)
		}
		time.Sleep(27 * time.Second) // it was renewed after 20 s
		if _, err := other.TryLock(t.Context(), "x"); err != nil {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
	})
}

// A grant or a renewal tells how long the lease is certainly held from when its request was sent on, however long that waited for the name or for the store.
func TestGrantTellsHowLong(t *testing.T) {
	waits := struct {
		TTL  float64 `json:"ttl"`
		Wait float64 `json:"wait"`
	}{15, 60}
	for _, path := range []string{"/v1/locks/x/acquire", "/v1/semaphores/x/acquire?limit=1", "/v1/elements/x/1/claim"} {
		for _, key := range []string{"", aKey} {
			synctest.Test(t, func(t *testing.T) {
				s, _ := startInBubble(t, Config{OpenActions: true})
				ask := func(path, key string, body any) (l LeaseResponse) {
					t.Helper()
					r := s.request("POST", path, body)
					if key != "" {
						r.Header.Set(keyHeader, key)
					}
					w := httptest.NewRecorder()
					s.server.ServeHTTP(w, r)
					if err := json.Unmarshal(w.Body.Bytes(), &l); err != nil && w.Code != http.StatusNoContent {
						t.Errorf("%s: %d: %s", path, w.Code, w.Body)
					}
					return l
				}
				other := "/v1/leases/" + ask(path, "", waits).Lease
				for after := 10 * time.Second; after < 40*time.Second; after += 10 * time.Second {
					time.AfterFunc(after, func() { ask(other+"/renew", "", nil) })
				}
				time.AfterFunc(40*time.Second, func() { ask(other+"/release", "", nil) })
				begin := time.Now()
				l := ask(path, key, waits)
				if took := time.Since(begin); took < 40*time.Second || l.ExpiresIn != (took+13500*time.Millisecond).Seconds() {
					t.Errorf("%s: granted after %v for %v s from the request on; want the TTL without the margin from the grant on", path, took, l.ExpiresIn)
				}
				s.store.Slow(time.Second)
				begin = time.Now()
				if l = ask("/v1/leases/"+l.Lease+"/renew", "", nil); time.Since(begin) < time.Second || l.ExpiresIn != 13.5 {
					t.Errorf("%s: renewed for %v s after %v; want the TTL without the margin from when the store was asked", path, l.ExpiresIn, time.Since(begin))
				}
			})
		}
	}
}

// holdInBubble holds a lock by a connection in a bubble, and returns its lines.
func (s *service) holdInBubble(p pipes, body AcquireRequest) io.ReadCloser {
	s.t.Helper()
	conn := p.dial()
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil }}
	response, err := (&http.Client{Transport: transport}).Do(s.request("POST", "/v1/locks/x/hold", body))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = response.Body.Close()
		transport.CloseIdleConnections()
	})
	return response.Body
}

// An operator whose connection is cut leaves no change that the list of actions does not have.
func TestActionsAreNotedWithoutTheirCaller(t *testing.T) {
	for cut := 500 * time.Millisecond; cut < 8*time.Second; cut += time.Second {
		synctest.Test(t, func(t *testing.T) {
			s, _ := startInBubble(t, Config{OpenActions: true})
			l, err := s.client.TryLock(t.Context(), "x")
			if err != nil {
				t.Fatal(err)
			}
			s.store.Slow(time.Second)
			ctx, cancel := context.WithTimeout(t.Context(), cut)
			defer cancel()
			r := httptest.NewRequestWithContext(ctx, "DELETE", "http://localhost/v1/locks/x?token="+strconv.FormatInt(l.Token(), 10), nil)
			s.server.ServeHTTP(httptest.NewRecorder(), r)
			s.store.Heal()
			s.store.Slow(0)
			noted := 0
			for _, err := range s.client.Admin().Actions(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				noted++
			}
			if noted != 1 {
				t.Errorf("cut after %v: %d actions in the list", cut, noted)
			}
		})
	}
}

// A caller that has gone leaves no lease behind, whenever it goes: before the grant, during it, or while it holds.
func TestACallerThatHasGoneHoldsNothing(t *testing.T) {
	for _, verb := range []string{"acquire", "hold"} {
		for cut := 500 * time.Millisecond; cut < 8*time.Second; cut += time.Second {
			synctest.Test(t, func(t *testing.T) {
				s, _ := startInBubble(t, Config{OpenActions: true})
				l, err := s.client.TryLock(t.Context(), "x")
				if err != nil {
					t.Fatal(err)
				}
				s.store.Slow(time.Second)
				ctx, cancel := context.WithTimeout(t.Context(), cut)
				defer cancel()
				freed := make(chan error, 1)
				go func() { freed <- l.Release() }()
				w := httptest.NewRecorder()
				r := httptest.NewRequestWithContext(ctx, "POST", "http://localhost/v1/locks/x/"+verb, strings.NewReader(`{"ttl":3600,"wait":600}`))
				r.Header.Set("Content-Type", "application/json")
				s.server.ServeHTTP(w, r)
				if err := <-freed; err != nil {
					t.Fatal(err)
				}
				s.store.Slow(0)
				if s.server.waiting.used() != 0 {
					t.Errorf("%s, cut after %v: it has its place still", verb, cut)
				}
				told := verb == "acquire" && w.Code == http.StatusOK
				if told && ctx.Err() != nil {
					t.Errorf("%s, cut after %v: it was granted a lease that it cannot be told of", verb, cut)
				}
				if _, err := s.client.TryLock(t.Context(), "x"); (err != nil) != told {
					t.Errorf("%s, cut after %v: %d, and then %v", verb, cut, w.Code, err)
				}
			})
		}
	}
}

// The place of a connection that receives events is another's when it has ended.
func TestAConnectionOfEventsGivesItsPlaceBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := startInBubble(t, Config{MaxWaiting: 1})
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			w := httptest.NewRecorder()
			s.server.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "http://localhost/v1/events", nil))
			cancel()
			if w.Code != http.StatusOK {
				t.Errorf("%d: %s", w.Code, w.Body)
			}
		}
	})
}
