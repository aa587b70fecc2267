package health_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/health"
	"github.com/soloist-dev/soloist/soloisttest"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

// get returns the status and the body of a response.
func get(h http.Handler, method string) (int, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, "/", nil))
	return w.Code, w.Body.String()
}

func want(t *testing.T, h http.Handler, code int, body string) {
	t.Helper()
	if c, b := get(h, http.MethodGet); c != code || b != body+"\n" {
		t.Errorf("got %d %q, want %d %q", c, b, code, body)
	}
}

// silent hides that a store can be pinged.
type silent struct{ store.Store }

func TestReadyFollowsTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := soloisttest.NewStore()
		for name, s := range map[string]store.Store{"with Ping": broken, "without": silent{broken}} {
			t.Log(name)
			var log bytes.Buffer
			h := health.Ready(health.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, health.Store(s))
			want(t, h, 200, "ok")
			broken.Break(errors.New("refused by 10.0.0.7"))
			time.Sleep(time.Second)
			want(t, h, 503, "not ready: store")
			time.Sleep(time.Second)
			want(t, h, 503, "not ready: store")
			broken.Heal()
			broken.Stall()
			time.Sleep(time.Second)
			want(t, h, 503, "not ready: store")
			broken.Heal()
			time.Sleep(time.Second)
			want(t, h, 200, "ok")
			if n := strings.Count(log.String(), "refused by 10.0.0.7"); n != 1 || strings.Count(log.String(), "ready again") != 1 {
				t.Errorf("the reason was logged %d times; want one line for the failure and one for its end:\n%s", n, log.String())
			}
		}
	})
}

// pingless has a Ping that is not supported, as a wrapper of a store without one has.
type pingless struct{ store.Store }

func (pingless) Ping(context.Context) error { return fmt.Errorf("ping: %w", errors.ErrUnsupported) }

// Where a store cannot be pinged, a claim that is refused shows that it can be reached, and leaves no record.
func TestReadyLeavesNothing(t *testing.T) {
	for name, wrap := range map[string]func(store.Store) store.Store{
		"without Ping":       func(s store.Store) store.Store { return silent{s} },
		"Ping not supported": func(s store.Store) store.Store { return pingless{s} },
	} {
		t.Run(name, func(t *testing.T) {
			mem := memstore.New()
			want(t, health.Ready(health.Options{}, health.Store(wrap(mem))), 200, "ok")
			for r, err := range mem.List(t.Context(), "") {
				t.Errorf("the check has left %+v, %v", r, err)
			}
		})
	}
}

// However many ask, the store is asked once a second, counted from its answer: those that have waited for a slow one do not ask again.
func TestReadyAsksOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		h := health.Ready(health.Options{}, health.Check{Name: "slow", Do: func(context.Context) error {
			asked.Add(1)
			time.Sleep(3 * time.Second)
			return nil
		}})
		for round := range 3 {
			var all sync.WaitGroup
			for range 100 {
				all.Go(func() { want(t, h, 200, "ok") })
			}
			all.Wait()
			if n := asked.Load(); n != int32(round)+1 {
				t.Fatalf("round %d: %d checks", round, n)
			}
			time.Sleep(time.Second)
		}
	})
}

// A client that does not wait neither holds up the others nor changes what they get.
func TestReadyWithoutWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := health.Ready(health.Options{}, health.Check{Name: "slow", Do: func(ctx context.Context) error {
			time.Sleep(time.Second)
			return ctx.Err()
		}})
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		var answered atomic.Int32
		for range 2 {
			all.Go(func() {
				h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
				answered.Add(1)
			})
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		if n := answered.Load(); n != 1 {
			t.Errorf("%d requests that were given up are over, want the one that waited for the other's check", n)
		}
		want(t, h, 200, "ok")
		all.Wait()
	})
}

func TestChecksInOrderAndWithinTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		begin := time.Now()
		h := health.Ready(health.Options{Timeout: 3 * time.Second, Logger: slog.New(slog.DiscardHandler)},
			health.Store(memstore.New()), health.Check{Name: "first", Do: hangs}, health.Check{Name: "second", Do: hangs})
		want(t, h, 503, "not ready: first")
		if took := time.Since(begin); took != 3*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

func TestLive(t *testing.T) {
	h := health.Live()
	want(t, h, 200, "ok")
	if code, body := get(h, http.MethodHead); code != 200 || body != "" {
		t.Errorf("HEAD: %d %q", code, body)
	}
	if code, _ := get(h, http.MethodPost); code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", code)
	}
}

// The headers keep others from storing a response, or from taking it for something else.
func TestHeaders(t *testing.T) {
	for method, allow := range map[string]string{http.MethodGet: "", http.MethodPost: "GET, HEAD"} {
		w := httptest.NewRecorder()
		health.Live().ServeHTTP(w, httptest.NewRequest(method, "/", nil))
		for name, value := range map[string]string{"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Allow": allow} {
			if got := w.Header().Get(name); got != value {
				t.Errorf("%s: %s is %q, want %q", method, name, got, value)
			}
		}
	}
}

// refusing refuses each claim, and cannot be pinged.
type refusing struct{ store.Store }

func (refusing) Acquire(_ context.Context, claims []store.Claim) ([]store.Outcome, error) {
	return []store.Outcome{{Err: errors.New("no such table")}}, nil
}

// A store whose record cannot be read is not ready. The reason is logged where programs log, and the result is kept for as long as the options say.
func TestReadyOfAStoreThatRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		before := slog.Default()
		defer slog.SetDefault(before)
		slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
		want(t, health.Ready(health.Options{}, health.Store(refusing{silent{memstore.New()}})), 503, "not ready: store")
		if !strings.Contains(log.String(), "no such table") {
			t.Errorf("logged: %q", log.String())
		}
		fails := true
		h := health.Ready(health.Options{MaxAge: time.Minute}, health.Check{Name: "once", Do: func(context.Context) error {
			if fails {
				return errors.New("not yet")
			}
			return nil
		}})
		want(t, h, 503, "not ready: once")
		fails = false
		time.Sleep(59 * time.Second)
		want(t, h, 503, "not ready: once")
		time.Sleep(time.Second)
		want(t, h, 200, "ok")
	})
}

// pinged can be pinged, and nothing else.
type pinged struct{ refusing }

func (pinged) Ping(context.Context) error { return nil }

// A store that can be pinged is not asked for a claim.
func TestPingIsEnough(t *testing.T) {
	want(t, health.Ready(health.Options{}, health.Store(pinged{})), 200, "ok")
}
