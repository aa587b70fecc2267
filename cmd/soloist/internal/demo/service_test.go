package demo

import (
	"errors"
	"net/http"
	"slices"
	"testing"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/fence"
	"github.com/soloist-dev/soloist/soloisttest"
)

// A holder that comes back after its successor has written is refused, and so is one whose successor has only claimed.
func TestServiceRefusesStaleHolders(t *testing.T) {
	var notes history
	s, err := serve(notes.add)
	if err != nil {
		t.Fatal(err)
	}
	client, backend := soloisttest.NewClient(t)
	take := func() *soloist.Lease {
		lease, err := client.TryLock(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		return lease
	}
	transport := &http.Transport{}
	g := &guarded{url: s.url, replica: "a", transport: transport}
	first := take()
	path := ledgerPath(noon)
	err = g.once(first, path, func() {
		if err := first.Release(); err != nil {
			t.Error(err)
		}
		second := take()
		if err := g.once(second, path, func() {}); err != nil {
			t.Error(err)
		}
		if err := g.once(second, path, func() {}); err != nil { // looks first, so it does not write again
			t.Error(err)
		}
	})
	if !errors.Is(err, fence.ErrStale) {
		t.Errorf("the stale write: %v", err)
	}
	if err := g.once(first, path, func() { t.Error("it works without having claimed") }); !errors.Is(err, fence.ErrStale) {
		t.Errorf("the stale claim: %v", err)
	}
	transport.CloseIdleConnections()
	if err := errors.Join(s.close(), backend.Close()); err != nil {
		t.Error(err)
	}
	var got []int
	for _, e := range notes.all() {
		got = append(got, e.Status)
	}
	want := []int{204, 204, 201, 204, 412, 412} // claims by both, the write, the second claim, what was refused
	if !slices.Equal(got, want) {
		t.Errorf("the service noted %v instead of %v", got, want)
	}
}
