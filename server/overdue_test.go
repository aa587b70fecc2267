package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
	"github.com/soloist-dev/soloist/store"
)

// A lateStore is one without a clock that takes each lease in the way for overdue.
type lateStore struct{ *soloisttest.Store }

func (s lateStore) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	outs, err := s.Store.Acquire(ctx, claims)
	for _, out := range outs {
		if held := (*store.HeldError)(nil); errors.As(out.Err, &held) {
			held.Overdue = held.Record.Left
		}
	}
	return outs, err
}

// A request that does not say how long it waits does not wait, also if the client of the service does by itself.
func TestWaitOfTheClientIsNotThatOfRequests(t *testing.T) {
	for _, row := range []struct {
		path, held, body string
		want             int
		took             time.Duration
	}{
		{path: "/v1/locks/x/acquire", want: 409},
		{path: "/v1/locks/x/acquire", body: `{"wait": 2}`, want: 409, took: 2 * time.Second},
		{path: "/v1/elements/j/1/claim", want: 409},
		{path: "/v1/elements/j/claim", held: `{"ids": ["1"]}`, body: `{"ids": ["1", "2"]}`, want: 200},
	} {
		t.Run(row.path, func(t *testing.T) {
			for _, wait := range []time.Duration{-1, time.Second, time.Minute} {
				synctest.Test(t, func(t *testing.T) {
					s, err := New(soloisttest.NewReplica(t, soloisttest.NewStore(), soloist.Config{}).With(soloist.Options{Wait: wait}), Config{})
					if err != nil {
						t.Fatal(err)
					}
					defer s.Drain()
					for _, r := range []struct {
						body string
						want int
						took time.Duration
					}{{row.held, 200, 0}, {row.body, row.want, row.took}} {
						begun := time.Now()
						req := httptest.NewRequestWithContext(t.Context(), "POST", "http://localhost"+row.path, strings.NewReader(cmp.Or(r.body, "{}")))
						req.Header.Set("Content-Type", "application/json")
						w := httptest.NewRecorder()
						s.ServeHTTP(w, req)
						if took := time.Since(begun); w.Code != r.want || took != r.took {
							t.Errorf("of a client with Wait %v: %d after %v, want %d after %v: %s", wait, w.Code, took, r.want, r.took, w.Body)
						}
					}
				})
			}
		})
	}
}

// A request for one name waits for what is overdue, as long as a request may wait, until the service is drained. One for many elements does not: nobody renews those that it has got.
func TestOverdueNamesOfRequests(t *testing.T) {
	for _, row := range []struct {
		path, held, body string
		drained          bool
		want             int
		took             time.Duration
	}{
		{path: "/v1/locks/x/acquire", held: `{"ttl": 600}`, want: 200, took: 600 * time.Second},
		{path: "/v1/locks/x/acquire", held: `{"ttl": 601}`, want: 409},
		{path: "/v1/locks/x/acquire", held: `{"ttl": 60}`, drained: true, want: 409, took: 10 * time.Second},
		{path: "/v1/elements/j/1/claim", held: `{"ttl": 60}`, want: 200, took: time.Minute},
		{path: "/v1/elements/j/1/claim", held: `{"ttl": 60}`, drained: true, want: 409, took: 10 * time.Second},
		{path: "/v1/locks/x/acquire", want: 200}, // nobody has it, and the service is drained before
		{path: "/v1/elements/j/1/claim", want: 200},
		{path: "/v1/elements/j/claim", held: `{"ids": ["1"], "ttl": 60}`, body: `{"ids": ["1", "2"]}`, want: 200},
	} {
		t.Run(row.path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := New(soloisttest.NewReplica(t, lateStore{soloisttest.NewStore()}, soloist.Config{}), Config{})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Drain()
				send := func(body string) *httptest.ResponseRecorder {
					r := httptest.NewRequestWithContext(t.Context(), "POST", "http://localhost"+row.path, strings.NewReader(body))
					r.Header.Set("Content-Type", "application/json")
					w := httptest.NewRecorder()
					s.ServeHTTP(w, r)
					return w
				}
				if row.drained {
					time.AfterFunc(10*time.Second, s.Drain)
				}
				if row.held == "" {
					s.Drain()
				} else if w := send(row.held); w.Code != 200 {
					t.Fatal(w.Code, w.Body)
				}
				if row.body == "" {
					row.body = "{}"
				}
				begun := time.Now()
				w := send(row.body)
				if took := time.Since(begun); w.Code != row.want || took != row.took {
					t.Errorf("%d after %v, want %d after %v: %s", w.Code, took, row.want, row.took, w.Body)
				}
				var all BatchResponse
				if row.body != "{}" && (json.Unmarshal(w.Body.Bytes(), &all) != nil || all.Elements[0].Claim != nil || all.Elements[1].Claim == nil) {
					t.Errorf("got %s", w.Body)
				}
			})
		})
	}
}

// A request that does not wait, and whose outcome is unknown while the server is being drained, is not made once more: what it may have been granted is given back, and would be
// the lease that the caller is told it has.
func TestUnknownOutcomeDuringADrain(t *testing.T) {
	answered := 0
	for heals := 8 * time.Second; heals < 12*time.Second; heals += 100 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			st := soloisttest.NewStore()
			s, err := New(soloisttest.NewReplica(t, st, soloist.Config{}), Config{})
			if err != nil {
				t.Fatal(err)
			}
			other := soloisttest.NewReplica(t, st.Share(), soloist.Config{})
			st.LoseReplies(math.MaxInt)
			time.AfterFunc(heals, st.Heal)
			s.Drain()
			r := httptest.NewRequestWithContext(t.Context(), "POST", "http://localhost/v1/locks/x/acquire", strings.NewReader(`{"ttl": 30}`))
			r.Header.Set("Content-Type", "application/json")
			w, sent := httptest.NewRecorder(), time.Now()
			s.ServeHTTP(w, r)
			if w.Code != 200 {
				return
			}
			answered++
			var lease LeaseResponse
			if err := json.Unmarshal(w.Body.Bytes(), &lease); err != nil {
				t.Fatal(err)
			}
			for end := sent.Add(time.Duration(lease.ExpiresIn * float64(time.Second))); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
				if _, err := other.TryLock(t.Context(), "x"); !errors.Is(err, soloist.ErrHeld) {
					t.Fatalf("healed after %v: another asks for it %v before the end that the caller was told: %v", heals, time.Until(end), err)
				}
			}
		})
	}
	if answered == 0 {
		t.Error("no request was granted")
	}
}
