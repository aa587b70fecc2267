package hazelcaststore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/hazelcaststore"
)

// TestRequests: what each verb costs is what the documentation says.
func TestRequests(t *testing.T) {
	p := newProxy(t, shared(t).Addr)
	cfg := hazelcaststore.Config{Map: fresh()}
	s, other, third := open(t, p.config(), cfg), open(t, p.config(), cfg), open(t, p.config(), cfg)
	var token int64
	claim := func(s *hazelcaststore.Store, name, holder string, want error) func() {
		return func() {
			grant, err := acquireFor(background, s, name, holder)
			if !errors.Is(err, want) {
				t.Fatalf("got %v, want %v", err, want)
			}
			if err == nil {
				token = grant.Token
			}
		}
	}
	done := func(do func(context.Context, *hazelcaststore.Store, string, int64) error, s *hazelcaststore.Store, name string) func() {
		return func() {
			if err := do(background, s, name, token); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, s := range []*hazelcaststore.Store{s, other, third} { // the first entry that a process replaces is read
		name := fmt.Sprint("looked at ", i)
		claim(s, name, "x", nil)()
		done(extend, s, name)()
	}
	for _, step := range []struct {
		verb          string
		do            func()
		writes, reads int64
	}{
		{"acquire a new name", claim(s, "a", "x", nil), 1, 1}, // the floor is read
		{"be refused a name that this process has not seen", claim(other, "a", "y", store.ErrHeld), 1, 0},
		{"be refused a name that it has seen", claim(other, "a", "y", store.ErrHeld), 0, 1},
		{"extend", done(extend, s, "a"), 1, 0},
		{"release", done(release, s, "a"), 1, 0},
		{"acquire the name that this process released last", claim(s, "a", "x", nil), 1, 0},
		{"release it again", done(release, s, "a"), 1, 0},
		{"acquire a free name that this process has not seen", claim(third, "a", "y", nil), 2, 0},
	} {
		writes, reads := p.writes.Load(), p.reads.Load()
		step.do()
		if writes, reads = p.writes.Load()-writes, p.reads.Load()-reads; writes != step.writes || reads != step.reads {
			t.Errorf("to %s took %d writes and %d reads; want %d and %d", step.verb, writes, reads, step.writes, step.reads)
		}
	}
}
