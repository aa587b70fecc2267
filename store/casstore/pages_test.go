package casstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/soloist-dev/soloist/store/casstore"
)

// TestInPages: the items that are there come in the order of the names, and nothing is read after an error or the last
// one that is wanted.
func TestInPages(t *testing.T) {
	odd, away := errors.New("it is no record"), errors.New("the backend is away")
	there := map[string]casstore.Item{"a": {Name: "a", Version: "1"}, "c": {Name: "c", Err: odd}, "e": {Name: "e", Version: "1"}}
	for _, c := range []struct {
		failing string // the name whose page cannot be read
		most    int    // how many are wanted
		want    []string
		pages   int
	}{
		{"", 9, []string{"a <nil>", "c <nil>", "e <nil>"}, 3},
		{"", 2, []string{"a <nil>", "c <nil>"}, 2},
		{"d", 9, []string{"a <nil>", " the backend is away"}, 2},
	} {
		pages := 0
		read := func(_ context.Context, names []string) (items []casstore.Item, err error) {
			if pages++; slices.Contains(names, c.failing) {
				return nil, away
			}
			for _, name := range names {
				items = append(items, there[name])
			}
			return items, nil
		}
		var got []string
		for item, err := range casstore.InPages(t.Context(), read, []string{"a", "b", "c", "d", "e"}, 2) {
			if got = append(got, fmt.Sprintf("%s %v", item.Name, err)); len(got) == c.most {
				break
			}
		}
		if !slices.Equal(got, c.want) || pages != c.pages {
			t.Errorf("%+v: %q in %d pages", c, got, pages)
		}
	}
}
