package storetest_test

import (
	"context"
	"iter"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
	"github.com/soloist-dev/soloist/store/storetest"
)

// late is a bend that leaves a record out of the first two lists that would have it. whole also does that in a list of its whole name.
func late(whole bool) bend {
	var mu sync.Mutex
	left := map[string]int{}
	leavesOut := func(name string) bool {
		mu.Lock()
		defer mu.Unlock()
		left[name]++
		return left[name] <= 2
	}
	return bend{lists: func(ctx context.Context, s *memstore.Store, prefix string) iter.Seq2[store.Record, error] {
		return func(yield func(store.Record, error) bool) {
			for r, err := range s.List(ctx, prefix) {
				if err == nil && (whole || r.Name != prefix) && leavesOut(r.Name) {
					continue
				}
				if !yield(r, err) {
					return
				}
			}
		}
	}}
}

// TestLateLists: a store that lists new records late keeps all laws with Harness.LateLists, and no store may list the record of a whole name late.
func TestLateLists(t *testing.T) {
	check := func(t *testing.T, law string, b bend, lateLists bool) (err error) {
		synctest.Test(t, func(t *testing.T) {
			h := harness(b)
			h.LateLists = lateLists
			err = storetest.Check(t, law, h)
		})
		return err
	}
	for _, law := range storetest.Laws() {
		t.Run(law, func(t *testing.T) {
			if err := check(t, law, late(false), true); err != nil {
				t.Error(err)
			}
		})
	}
	if err := check(t, "list-order", late(false), false); err == nil {
		t.Error("late lists have not been noticed")
	}
	if err := check(t, "list-tells", late(true), true); err == nil {
		t.Error("nobody has noticed that the list of a whole name is late")
	}
}
