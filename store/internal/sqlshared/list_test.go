package sqlshared_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/internal/sqlshared"
)

// List yields all records of a prefix in order, from as many pages as they take, and what cannot be read once, at the end.
func TestListYieldsWhatCanBeRead(t *testing.T) {
	var names []string
	for i := range 3*sqlshared.PageSize - 1 {
		names = append(names, fmt.Sprintf("a/%04d", i))
	}
	names = append(names, "a/\xfe", "a0", "b")
	slices.Sort(names)
	bad := errors.New("nobody can read that")
	pages := 0
	page := func(first, last string) ([]string, error) {
		pages++
		from, _ := slices.BinarySearch(names, first)
		to, _ := slices.BinarySearch(names, last)
		return names[from:min(to, from+sqlshared.PageSize)], nil
	}
	read := func(name string) (store.Record, error) {
		if strings.HasSuffix(name, "7") {
			return store.Record{Name: name}, bad
		}
		return store.Record{Name: name}, nil
	}
	for prefix, want := range map[string]int{"": len(names), "a/": 3 * sqlshared.PageSize, "a/00": 100, "a/0007": 1, "c": 0, "a/\xfe": 1, "\xff": 0} {
		pages = 0
		var last string
		got, failed := 0, 0
		for r, err := range sqlshared.List(prefix, "", page, read, func(err error) error { return fmt.Errorf("in the table: %w", err) }) {
			switch {
			case failed > 0:
				t.Errorf("%q: something after the error", prefix)
			case err != nil:
				failed = strings.Count(err.Error(), bad.Error())
				if !errors.Is(err, bad) || !strings.HasPrefix(err.Error(), "in the table: ") {
					t.Errorf("%q: %v", prefix, err)
				}
			case r.Name <= last || !strings.HasPrefix(r.Name, prefix):
				t.Errorf("%q: %q after %q", prefix, r.Name, last)
			default:
				got, last = got+1, r.Name
			}
		}
		if got+failed != want || pages != want/sqlshared.PageSize+1 {
			t.Errorf("%q: %d records and %d that cannot be read, in %d pages; want %d", prefix, got, failed, pages, want)
		}
	}
}

// A list after a name begins behind it, also where the name is the whole prefix; after a text before the prefix it begins with the prefix.
func TestListAfterAName(t *testing.T) {
	names := []string{"a", "a/1", "a/2", "b"}
	page := func(first, last string) ([]string, error) {
		from, _ := slices.BinarySearch(names, first)
		to, _ := slices.BinarySearch(names, last)
		return names[min(from, to):to], nil
	}
	read := func(name string) (store.Record, error) { return store.Record{Name: name}, nil }
	for _, test := range []struct{ prefix, after, want string }{
		{"a", "a", "a/1 a/2"}, {"a", "a/1", "a/2"}, {"a/", "a", "a/1 a/2"}, {"a/", "a/2", ""}, {"a", "b", ""}, {"", "a/2", "b"}, {"b", "a", "b"},
	} {
		var got []string
		for r, err := range sqlshared.List(test.prefix, test.after, page, read, func(err error) error { return err }) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, r.Name)
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%q after %q: %q, want %q", test.prefix, test.after, got, test.want)
		}
	}
}

// List ends with the error of a page, and when its caller has enough.
func TestListEnds(t *testing.T) {
	down := errors.New("no connection")
	page := func(first, _ string) ([]string, error) {
		if first > "a" {
			return nil, down
		}
		return slices.Repeat([]string{"a"}, sqlshared.PageSize), nil
	}
	read := func(name string) (store.Record, error) { return store.Record{Name: name}, nil }
	all := sqlshared.List("", "", page, read, func(err error) error { return err })
	n := 0
	for _, err := range all {
		if n++; err != nil && (!errors.Is(err, down) || n != sqlshared.PageSize+1) {
			t.Errorf("number %d: %v", n, err)
		}
	}
	if n != sqlshared.PageSize+1 {
		t.Errorf("%d results", n)
	}
	for range all {
		return
	}
}
