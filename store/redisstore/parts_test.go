package redisstore_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// The permits of a semaphore are in one part of a cluster: choosing one is one request.
func TestChoosingInAClusterIsOneTrip(t *testing.T) {
	cluster := sharedCluster(t)
	if cluster.Nodes == nil {
		t.Skip("the cluster is somebody else's")
	}
	s := open(t, fresh(t, cluster.URL))
	permits := make([]string, 200)
	for i := range permits {
		permits[i] = fmt.Sprintf("semaphore/of many/%d", i)
	}
	choose := func(holder string) int {
		i, _, err := s.Choose(t.Context(), permits, store.Claim{Holder: holder, TTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	choose("warm")
	total := func() (n int) {
		for _, node := range cluster.Nodes {
			n += requests(t, plainClient(t, node.URL))
		}
		return n
	}
	before := total()
	if i := choose("h"); i != 1 {
		t.Errorf("permit %d was chosen, want the first that is free", i)
	}
	if n := total() - before; n != 1 {
		t.Errorf("choosing a permit: %d requests, want 1", n)
	}
}

// TestChoosingPassesByAPartOfNoUse: a name that has no tokens left, alone in its part of a cluster, does not keep those of other parts from being chosen.
func TestChoosingPassesByAPartOfNoUse(t *testing.T) {
	s := open(t, fresh(t, sharedCluster(t).URL))
	const spent, most = "spent", 1<<53 - 1
	outs, err := s.Acquire(t.Context(), []store.Claim{{Name: spent, Holder: "a", TTL: time.Minute, Above: most - 1}})
	if err != nil || outs[0].Err != nil {
		t.Fatal(outs, err)
	}
	errs, err := s.Release(t.Context(), []store.Release{{Name: spent, Holder: "a", Token: outs[0].Grant.Token}})
	if err != nil || errs[0] != nil {
		t.Fatal(errs, err)
	}
	for n := range 20 { // in all parts
		names := []string{spent, fmt.Sprintf("free %d", n)}
		choose := func(names []string, holder string) (int, error) {
			i, _, err := s.Choose(t.Context(), names, store.Claim{Holder: holder, TTL: time.Minute})
			return i, err
		}
		if i, err := choose(names, "b"); i != 1 || err != nil {
			t.Errorf("of %q: %d, %v; want the second", names, i, err)
		}
		if i, err := choose(names, "c"); i != 1 || !errors.Is(err, store.ErrHeld) {
			t.Errorf("of %q, of which the second is held: %d, %v", names, i, err)
		}
		if i, err := choose(names[:1], "d"); i != 0 || !errors.Is(err, store.ErrTokens) {
			t.Errorf("of %q: %d, %v", names[:1], i, err)
		}
	}
}
