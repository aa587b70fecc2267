package mysqlstore

import (
	"fmt"
	"testing"
)

// All watched names are looked at, of however many requests that is, and each with its own row.
func TestSightsOfManyNames(t *testing.T) {
	s := open(t, connect(t, mariadb(t).URL, nil), Config{})
	names := make([]string, 2*maxBatch+1)
	for i := range names {
		names[i] = fmt.Sprintf("n%05d", i)
	}
	want := map[string]sight{}
	for _, i := range []int{0, maxBatch - 1, maxBatch, 2*maxBatch - 1, 2 * maxBatch} {
		want[names[i]] = sight{token: take(t, s, names[i], "a").Token}
	}
	seen, err := s.sights(t.Context(), names)
	if err != nil || len(seen) != len(names) {
		t.Fatalf("%d names of %d were looked at: %v", len(seen), len(names), err)
	}
	for name, got := range seen {
		if got != want[name] {
			t.Errorf("%s is seen as %+v, want %+v", name, got, want[name])
		}
	}
}
