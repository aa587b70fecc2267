package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
)

// Of two requests of one user at the same time the second is refused, on another replica too. Another user is served.
func TestOneRequestOfAUserAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := soloisttest.NewStore()
		handler := func() http.Handler {
			mux := http.NewServeMux()
			mux.HandleFunc("POST /users/{user}/orders", oneAtATime(soloisttest.NewReplica(t, s, soloist.Config{}), order))
			return mux
		}
		here, there := handler(), handler()
		post := func(replica http.Handler, user string) int {
			w := httptest.NewRecorder()
			replica.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/users/"+user+"/orders", nil))
			return w.Code
		}
		first := make(chan int)
		go func() { first <- post(here, "ann") }()
		synctest.Wait()
		for _, one := range []struct {
			user string
			want int
		}{{"ann", http.StatusConflict}, {"bob", http.StatusOK}} {
			if got := post(there, one.user); got != one.want {
				t.Errorf("%s, while a request of ann is under way: %d, want %d", one.user, got, one.want)
			}
		}
		if got := <-first; got != http.StatusOK {
			t.Errorf("the first request: %d", got)
		}
		if got := post(there, "ann"); got != http.StatusOK {
			t.Errorf("after the first request: %d", got)
		}
		s.Break(nil)
		if got := post(here, "ann"); got != http.StatusServiceUnavailable {
			t.Errorf("without the store: %d", got)
		}
	})
}

// A request that was served is told nothing else if the lock cannot be released.
func TestServedRequestHasOneAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := soloisttest.NewStore()
		handler := oneAtATime(soloisttest.NewReplica(t, s, soloist.Config{}), func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintln(w, "ordered")
			s.Break(nil)
		})
		w := httptest.NewRecorder()
		handler(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/users/ann/orders", nil))
		if body := w.Body.String(); w.Code != http.StatusOK || body != "ordered\n" {
			t.Errorf("%d %q", w.Code, body)
		}
	})
}

// The job runs once for each scheduled time, although two replicas have it and one dies.
func TestInvoicesOfADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := soloisttest.NewStore()
		mortal := s.Share()
		var mu sync.Mutex
		runs := map[time.Time]int{}
		job := soloist.Job{Name: "invoices", Schedule: soloist.Every(time.Hour), Do: func(_ context.Context, run soloist.Run) error {
			mu.Lock()
			defer mu.Unlock()
			runs[run.ScheduledAt]++
			return invoices(t.Context(), run)
		}}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		for _, store := range []*soloisttest.Store{s, mortal} {
			go func() { ended <- soloisttest.NewReplica(t, store, soloist.Config{}).Run(ctx, job) }()
		}
		time.Sleep(12*time.Hour + time.Minute)
		mortal.Stall() // as if its machine had stopped
		time.Sleep(12 * time.Hour)
		stop()
		<-ended
		<-ended
		if len(runs) != 24 {
			t.Errorf("%d of 24 scheduled times were run", len(runs))
		}
		for at, n := range runs {
			if n != 1 {
				t.Errorf("%v was run %d times", at, n)
			}
		}
	})
}
