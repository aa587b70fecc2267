package verify

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/soloist-dev/soloist/cmd/soloist/internal/fleet"
	"github.com/soloist-dev/soloist/internal/proof"
)

// The guarded resource accepts tokens that grow, refuses the others as stale, and reports each write when it was decided, but
// not one whose replica has gone before that.
func TestGuardedResourceTellsOfEachWrite(t *testing.T) {
	var mu sync.Mutex
	var told []event
	g, err := serve(func(e event) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, e)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer g.close()
	before := fleet.Now()
	r := &resource{g.url, &http.Client{}}
	for _, w := range []struct {
		name  string
		token int64
		want  proof.Result
	}{
		{"@n/lock/a b&c", 5, proof.Okay}, {"@n/lock/a b&c", 5, proof.Okay}, {"@n/lock/a b&c", 4, proof.Stale},
		{"@n/lock/y", 4, proof.Okay}, {"@n/lock/a b&c", 6, proof.Okay},
	} {
		told = nil
		r.write(t.Context(), w.name, w.token)
		mu.Lock()
		if len(told) != 1 || told[0].At < before || told[0].At > fleet.Now() {
			t.Fatalf("told %+v", told)
		}
		if e, want := told[0].Event, (proof.Event{Kind: proof.Write, Name: w.name, Token: w.token, Result: w.want, At: told[0].At}); e != want {
			t.Errorf("told %+v, want %+v", e, want)
		}
		before = told[0].At
		mu.Unlock()
	}
	told = nil
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.guard.Do(t.Context(), "x", 1, func(context.Context) error { // so that the next has to wait
		g.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(gone, http.MethodPost, g.url+"?name=x&token=9", nil))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(told) > 0 {
		t.Errorf("told of a write that was not decided: %+v", told)
	}
}
