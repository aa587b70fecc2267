package sqlitestore

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// FuzzNames checks that names come out of the file as they went in, and that no two are one.
func FuzzNames(f *testing.F) {
	for _, seed := range [][2]string{{"a", "A"}, {"%", "_"}, {"'; DROP TABLE records; --", "\""}, {"é", "e\u0301"},
		{"job/1", "job/10"}, {"ß", "ss"}, {" a", "a "}, {"1", "01"}, {"\U0010ffff", "\ufffd"}, {"?1", ":name"}} {
		f.Add(seed[0], seed[1])
	}
	s, err := Open(f.TempDir() + "/leases.db")
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { s.Close() })
	f.Fuzz(func(t *testing.T, one, two string) {
		if store.CheckName(one) != nil || store.CheckName(two) != nil || one == two {
			t.Skip()
		}
		a, b := take(t, s, one, "holder "+one[:min(len(one), 200)], time.Hour), take(t, s, two, "h", time.Hour)
		for _, name := range []string{one, two} {
			found := 0
			for r, err := range s.List(context.Background(), name) {
				if err != nil || !strings.HasPrefix(r.Name, name) {
					t.Fatalf("List %q yields %q, %v", name, r.Name, err)
				}
				if r.Name == name {
					found++
				}
			}
			if found != 1 {
				t.Fatalf("List %q yields the name %d times", name, found)
			}
		}
		release(t, s, a)
		release(t, s, b)
	})
}
