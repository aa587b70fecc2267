package move_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
	"github.com/soloist-dev/soloist/store/move"
	"github.com/soloist-dev/soloist/store/storetest"
)

// TestLaws keeps each law in each phase, and with handles in neighboring phases.
func TestLaws(t *testing.T) {
	for _, phases := range [][2]move.Phase{
		{move.OldOnly, move.OldOnly},
		{move.OldDecides, move.OldDecides},
		{move.NewDecides, move.NewDecides},
		{move.NewOnly, move.NewOnly},
	} {
		for _, law := range storetest.Laws() {
			t.Run(phases[0].String()+"/"+law, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					switch err := storetest.Check(t, law, harness(phases[0], phases[1])); {
					case errors.Is(err, errors.ErrUnsupported):
						t.Skip(err)
					case err != nil:
						t.Error(err)
					}
				})
			})
		}
	}
}

// harness opens stores in one phase, and their second handles in another one.
func harness(phase, other move.Phase) storetest.Harness {
	backends := map[store.Store][2]*memstore.Store{}
	open := func(t testing.TB, oldStore, newStore *memstore.Store, phase move.Phase) store.Store {
		s, err := move.New(oldStore, newStore, phase)
		if err != nil {
			t.Fatal(err)
		}
		backends[s] = [2]*memstore.Store{oldStore, newStore}
		return s
	}
	return storetest.Harness{
		Open: func(t testing.TB) store.Store { return open(t, memstore.New(), memstore.New(), phase) },
		Reopen: func(t testing.TB, s store.Store) store.Store {
			of := backends[s]
			return open(t, of[0].Share(), of[1].Share(), other)
		},
	}
}
