package verify

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/soloist-dev/soloist/cmd/soloist/internal/fleet"
	"github.com/soloist-dev/soloist/internal/proof"
	"github.com/soloist-dev/soloist/test/servers"
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

// Of two writes at once the one that has to wait is dated when it is decided, and not when it came: the notes are in the order of the writes.
func TestWriteThatWaitsIsDatedWhenItIsDecided(t *testing.T) {
	var mu sync.Mutex
	var told []event
	first, goOn := make(chan struct{}), make(chan struct{})
	g, err := serve(func(e event) {
		mu.Lock()
		told = append(told, e)
		mu.Unlock()
		if e.Token == 5 {
			close(first)
			<-goOn
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer g.close()
	r := &resource{g.url, &http.Client{}}
	var writes sync.WaitGroup
	writes.Go(func() { r.write(t.Context(), "x", 5) })
	<-first
	writes.Go(func() { r.write(t.Context(), "x", 6) })
	servers.Wait(t, "the second write waits for the first", func() bool {
		stacks := make([]byte, 1<<20)
		all := string(stacks[:runtime.Stack(stacks, true)])
		return slices.ContainsFunc(strings.Split(all, "\n\n"), func(one string) bool {
			return strings.Contains(one, "Mutex).Lock") && strings.Contains(one, "guarded).ServeHTTP")
		})
	})
	decided := fleet.Now()
	close(goOn)
	writes.Wait()
	if len(told) != 2 || told[1].Token != 6 || told[1].At < decided {
		t.Errorf("told %+v, want the second write at %v or later", told, decided)
	}
}
