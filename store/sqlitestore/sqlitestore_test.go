package sqlitestore

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/storetest"
)

func TestStore(t *testing.T) { storetest.Run(t, harness()) }

func TestStoreInBatches(t *testing.T) {
	h := harness()
	h.Batches = true
	storetest.Run(t, h)
}

func harness() storetest.Harness {
	return storetest.Harness{
		TimedTokens: true,
		Open:        func(t testing.TB) store.Store { return openAt(t, filepath.Join(t.TempDir(), "leases.db")) },
		Reopen: func(t testing.TB, s store.Store) store.Store {
			return openAt(t, s.(*Store).path)
		},
		Writes: func(t testing.TB, s store.Store) int64 { return written(t, s.(*Store).path) },
		Corrupt: func(t testing.TB, s store.Store, name string, way int) string {
			if way == len(corruptions) {
				return ""
			}
			if _, err := raw(t, s.(*Store).path).Exec("UPDATE records SET "+corruptions[way].set+" WHERE name = ?", name); err != nil {
				t.Fatal(err)
			}
			return corruptions[way].set
		},
	}
}

func openAt(t testing.TB, path string) *Store {
	t.Helper()
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// written is how far the log has been written, and when anything in it or the file last was.
func written(t testing.TB, path string) (n int64) {
	t.Helper()
	for _, p := range []string{path, path + "-wal"} {
		info, err := os.Stat(p)
		if err != nil {
			t.Fatal(err)
		}
		n += info.Size() + info.ModTime().UnixNano()
	}
	return n
}
