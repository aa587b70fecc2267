package elected_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/elected"
	"github.com/soloist-dev/soloist/soloisttest"
	"github.com/soloist-dev/soloist/store"
)

// run lets a replica take part in the election, until resign is called.
func run(t *testing.T, c *soloist.Client) (e *elected.Elector, resign func()) {
	t.Helper()
	e = elected.New(c, "api")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	synctest.Wait()
	return e, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func get(h http.Handler) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	return w
}

// Only the leader answers, and the next one when it has resigned.
func TestOnlyTheLeaderAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, s := soloisttest.NewClient(t)
		b := soloisttest.NewReplica(t, s, soloist.Config{})
		one, resignOne := run(t, a)
		other, resignOther := run(t, b)
		defer resignOther()
		token := make(chan int64, 1)
		answer := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { token <- soloist.LeaseFrom(r.Context()).Token() })
		if w := get(one.Handler(answer)); w.Code != http.StatusOK || <-token != one.Lease().Token() {
			t.Errorf("the leader responded with %d", w.Code)
		}
		if w := get(other.Handler(answer)); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" || other.Lease() != nil {
			t.Errorf("the other one responded with %d", w.Code)
		}
		resignOne()
		synctest.Wait()
		time.Sleep(time.Minute)
		if w := get(one.Handler(answer)); w.Code != http.StatusServiceUnavailable || !errors.Is(one.Check(), elected.ErrNotLeader) || one.Lease() != nil {
			t.Errorf("after it resigned, it responded with %d, and its lease is %v", w.Code, one.Lease())
		}
		if w := get(other.Handler(answer)); w.Code != http.StatusOK || other.Check() != nil {
			t.Errorf("the next leader responded with %d", w.Code)
		}
	})
}

// The context of a request ends with the leadership, and a leader that is cut off from the store answers no more.
func TestRequestsEndWithTheLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := soloisttest.NewClient(t)
		e, resign := run(t, c)
		var cause error
		var own context.Context
		w := get(e.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			s.Stall()
			own = r.Context()
			<-own.Done()
			cause = context.Cause(own)
		})))
		if w.Code != http.StatusOK || !errors.Is(cause, soloist.ErrLost) {
			t.Errorf("the request ended with %d and %v, want ErrLost", w.Code, cause)
		}
		if w := get(e.Handler(http.NotFoundHandler())); w.Code != http.StatusServiceUnavailable {
			t.Errorf("cut off, it responded with %d", w.Code)
		}
		s.Heal()
		resign()
	})
}

// What a request carries is found in the context of the handler, and that ends with the handler.
func TestContextOfARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := soloisttest.NewClient(t)
		e, resign := run(t, c)
		defer resign()
		type key struct{}
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		var own context.Context
		h := e.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { own = r.Context() }))
		serve := func(ctx context.Context) {
			h.ServeHTTP(httptest.NewRecorder(), r.WithContext(context.WithValue(ctx, key{}, "of the request")))
			if own.Value(key{}) != "of the request" || soloist.LeaseFrom(own) != e.Lease() {
				t.Errorf("its context has %v and %v", own.Value(key{}), soloist.LeaseFrom(own))
			}
		}
		serve(r.Context())
		if err := c.Do(r.Context(), "another", func(ctx context.Context, _ *soloist.Lease) error { // as of a server whose requests have the context of a lease
			serve(ctx)
			return nil
		}); err != nil {
			t.Error(err)
		}
		if own.Err() == nil {
			t.Error("its context goes on when the request has been answered")
		}
	})
}

// A request that has been answered leaves nothing behind at the lease, which may last for months.
func TestAnAnsweredRequestIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := soloisttest.NewClient(t)
		e, resign := run(t, c)
		defer resign()
		type key struct{}
		request := func() weak.Pointer[[64]byte] {
			body := new([64]byte)
			_, stop, err := e.Leading(context.WithValue(t.Context(), key{}, body))
			if err != nil {
				t.Fatal(err)
			}
			stop()
			return weak.Make(body)
		}
		left := request()
		for range 10 { // the first may find it on the stack
			if runtime.GC(); left.Value() == nil {
				return
			}
		}
		t.Error("what the request carried is still there")
	})
}

// An election that cannot be held is an error.
func TestElectionWithAWrongName(t *testing.T) {
	c, _ := soloisttest.NewClient(t)
	var invalid *store.InvalidError
	if err := elected.New(c, "").Run(t.Context()); !errors.As(err, &invalid) {
		t.Errorf("%v, want an InvalidError", err)
	}
}
