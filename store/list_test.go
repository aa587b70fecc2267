package store_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/soloist-dev/soloist/store"
)

// A shelf lists its names, and pages too if it has pages.
type shelf struct {
	store.Store
	names []string
}

func (s shelf) List(_ context.Context, prefix string) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		for _, name := range s.names {
			if strings.HasPrefix(name, prefix) && !yield(store.Record{Name: name}, nil) {
				return
			}
		}
	}
}

// A pagedShelf answers pages with an error or, if that is nil, with the names behind the given one.
type pagedShelf struct {
	shelf
	err error
}

func (s pagedShelf) ListAfter(_ context.Context, prefix, after string) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		if s.err != nil {
			yield(store.Record{}, s.err)
			return
		}
		for r, err := range s.List(context.Background(), prefix) {
			if r.Name > after && !yield(r, err) {
				return
			}
		}
	}
}

// A broken store cannot be listed.
type broken struct {
	store.Store
	err error
}

func (s broken) List(context.Context, string) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) { yield(store.Record{}, s.err) }
}

// What comes after a name is without that name, whether the store has pages, has none, or wraps one that has none.
func TestListAfter(t *testing.T) {
	all := shelf{names: []string{"a/1", "a/2", "a/3", "b/1"}}
	for what, s := range map[string]store.Store{
		"a list": all, "pages": pagedShelf{shelf: all}, "no pages behind a wrapper": pagedShelf{all, errors.ErrUnsupported},
	} {
		for after, want := range map[string][]string{"": {"a/1", "a/2", "a/3"}, "a/1": {"a/2", "a/3"}, "a/15": {"a/2", "a/3"}, "a/3": nil} {
			var got []string
			for r, err := range store.ListAfter(t.Context(), s, "a/", after) {
				if err != nil {
					t.Fatalf("%s, after %q: %v", what, after, err)
				}
				got = append(got, r.Name)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s, after %q: %q; want %q", what, after, got, want)
			}
		}
		for range store.ListAfter(t.Context(), s, "a/", "a/1") {
			break
		}
	}
	failed := errors.New("failed")
	var errs []error
	for _, err := range store.ListAfter(t.Context(), broken{err: failed}, "a/", "a/1") {
		errs = append(errs, err)
	}
	if len(errs) != 1 || !errors.Is(errs[0], failed) {
		t.Errorf("got %v; want the error of the list", errs)
	}
	for _, err := range store.ListAfter(t.Context(), pagedShelf{all, failed}, "a/", "a/1") {
		if !errors.Is(err, failed) {
			t.Errorf("got %v; want the error of the store", err)
		}
	}
}
