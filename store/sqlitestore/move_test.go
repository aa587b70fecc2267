package sqlitestore

import (
	"path/filepath"
	"testing"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/move"
	"github.com/soloist-dev/soloist/store/storetest"
)

// TestStoreInAMove: two files pass the suite in the middle phases of a move between them.
func TestStoreInAMove(t *testing.T) {
	for _, phase := range []move.Phase{move.OldDecides, move.NewDecides} {
		t.Run(phase.String(), func(t *testing.T) {
			dirs := map[store.Store]string{}
			open := func(t testing.TB, dir string) store.Store {
				s, err := move.New(openAt(t, filepath.Join(dir, "old.db")), openAt(t, filepath.Join(dir, "new.db")), phase)
				if err != nil {
					t.Fatal(err)
				}
				dirs[s] = dir
				return s
			}
			storetest.Run(t, storetest.Harness{
				LateIsUnknown: true,
				Open:          func(t testing.TB) store.Store { return open(t, t.TempDir()) },
				Reopen:        func(t testing.TB, s store.Store) store.Store { return open(t, dirs[s]) },
			})
		})
	}
}
