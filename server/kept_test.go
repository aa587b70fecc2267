package server

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
	"github.com/soloist-dev/soloist/store"
)

// A page of what was read before goes on behind its name, whatever names other kinds have, and also if the name is gone.
func TestPagesOfWhatWasRead(t *testing.T) {
	s := start(t, soloisttest.NewStore(), Config{})
	read := newSnapshot()
	read.leases = &listed[soloist.LeaseInfo]{at: time.Now()}
	add := func(kind soloist.Kind, names ...string) {
		for _, name := range names {
			read.leases.items = append(read.leases.items, soloist.LeaseInfo{Kind: kind, Name: name, Holder: "a#b", Token: 1, Left: time.Minute})
		}
	}
	add(soloist.KindLock, "alpha", "middle", "zulu")
	add(soloist.KindLeader, "beta", "middle", "yankee")
	s.server.watch.mu.Lock()
	s.server.watch.last = read // it is not read anew
	s.server.watch.mu.Unlock()
	s.store.Break(nil) // so that pages show what was read
	for path, want := range map[string]string{
		"/locks?after=alpha": "middle zulu", "/locks?after=middle": "zulu", "/locks?after=n": "zulu", "/locks?after=middle&q=u": "zulu", "/locks?after=zulu": "",
		"/leaders?after=alpha": "beta middle yankee", "/leaders?after=middle": "yankee", "/leaders?after=zulu": "",
	} {
		body := string(s.page("GET", path, nil).body)
		var got []string
		for _, name := range []string{"alpha", "beta", "middle", "yankee", "zulu"} {
			if strings.Contains(body, ">"+name+"<") {
				got = append(got, name)
			}
		}
		if shown := strings.Join(got, " "); shown != want {
			t.Errorf("%s shows %q instead of %q", path, shown, want)
		}
	}
}

// A cutStore tells a part of each list, and then an error.
type cutStore struct{ *soloisttest.Store }

func (s cutStore) List(ctx context.Context, prefix string) iter.Seq2[store.Record, error] {
	return s.ListAfter(ctx, prefix, "")
}

func (s cutStore) ListAfter(ctx context.Context, prefix, after string) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		for r, err := range s.Store.ListAfter(ctx, prefix, after) {
			if err == nil && !yield(r, nil) {
				return
			}
			break
		}
		yield(store.Record{}, errors.New("the connection was reset"))
	}
}

// A page of which the store has told a part shows what was read before instead, and nothing twice.
func TestAPageOfWhichAPartWasRead(t *testing.T) {
	whole := soloisttest.NewStore()
	for _, name := range []string{"alpha", "middle"} {
		if _, err := soloisttest.NewReplica(t, whole.Share(), soloist.Config{}).TryLock(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	s, err := New(soloisttest.NewReplica(t, cutStore{whole.Share()}, soloist.Config{}), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Drain()
	read := newSnapshot()
	read.leases = &listed[soloist.LeaseInfo]{at: time.Now()}
	for _, name := range []string{"alpha", "middle"} {
		read.leases.items = append(read.leases.items, soloist.LeaseInfo{Kind: soloist.KindLock, Name: name, Holder: "a#b", Token: 1, Left: time.Minute})
	}
	s.watch.mu.Lock()
	s.watch.last = read // it is not read anew
	s.watch.mu.Unlock()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "http://localhost/locks", nil))
	for _, name := range []string{"alpha", "middle"} {
		if n := strings.Count(w.Body.String(), ">"+name+"<"); n != 1 {
			t.Errorf("%d: %s is there %d times", w.Code, name, n)
		}
	}
}

// A client that connects while the store is read for the first time is not dropped for changes that it could not be sent yet.
func TestEventsDuringTheFirstRead(t *testing.T) {
	inSlowBubble(t, func(t *testing.T, s *Server, c *soloist.Client) {
		ctx, stop := context.WithTimeout(t.Context(), 15*time.Second)
		defer stop()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for i := 0; ctx.Err() == nil; i++ {
				if _, err := c.Semaphore(fmt.Sprint("semaphore ", i), 1).TryAcquire(t.Context()); err != nil {
					t.Error(err)
				}
				time.Sleep(pollAtLeast)
			}
		}()
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "http://localhost/v1/events", nil))
		<-ended
		if text := w.Body.String(); strings.Contains(text, `"slow"`) || !strings.Contains(text, "event: taken") {
			t.Errorf("%d: %.1000s", w.Code, text)
		}
	})
}
