package sqlitestore

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/storetest"
)

func TestStore(t *testing.T) { storetest.Run(t, harness()) }

func TestStoreInBatches(t *testing.T) {
	h := harness()
	h.Batches = true
	storetest.Run(t, h)
}

// A claim that is not valid takes nothing, in a batch either, and also of a name that is known and free, which is
// granted in one statement.
func TestInvalidClaimOfAKnownName(t *testing.T) {
	h := &fakeHost{boot: "one", uptime: time.Hour, wall: 1e6 * time.Hour}
	s := openWith(t, newPath(t), h.clocks())
	for _, name := range []string{"free", "other"} {
		release(t, s, take(t, s, name, "a", time.Minute))
	}
	before := recordOf(t, s, "free")
	valid := store.Claim{Name: "other", Holder: "b", TTL: time.Minute}
	for what, c := range map[string]store.Claim{
		"too short": {Name: "free", Holder: "b", TTL: store.MinTTL - 1},
		"too long":  {Name: "free", Holder: "b", TTL: store.MaxTTL + 1},
		"no holder": {Name: "free", TTL: time.Minute},
		"below 0":   {Name: "free", Holder: "b", TTL: time.Minute, Above: -1},
	} {
		for _, claims := range [][]store.Claim{{c}, {valid, c}, {c, valid}} {
			outs, err := s.Acquire(t.Context(), claims)
			must(t, err)
			for i, out := range outs {
				refused := errors.As(out.Err, new(*store.InvalidError)) && out.Grant.Token == 0
				if granted := out.Err == nil && out.Grant.Token > 0; refused != (claims[i].Name == "free") || granted == refused {
					t.Errorf("%s, claim %d of %d: %+v", what, i, len(claims), out)
				}
			}
			if r := recordOf(t, s, "free"); r.Token != before.Token || r.Holder != "" || !r.Free() {
				t.Errorf("%s: the record is %+v, and was %+v", what, r, before)
			}
		}
	}
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
