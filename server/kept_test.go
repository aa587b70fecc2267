package server

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
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
