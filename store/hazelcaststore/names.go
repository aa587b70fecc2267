package hazelcaststore

import (
	"context"
	"iter"
	"slices"
	"sync"

	"github.com/soloist-dev/soloist/store/casstore"
)

// page is how many entries a list reads at once.
const page = 100

// A reader lists entries by their names, and reads them, some at a time: neither a map nor a CP group has an order of
// names.
type reader struct {
	namesOf func(ctx context.Context, prefix string) ([]string, error) // in ascending order
	read    func(ctx context.Context, names []string) ([]casstore.Item, error)

	mu    sync.Mutex
	names []string // what Walk has found, in ascending order
}

// List implements casstore.Backend.
func (r *reader) List(ctx context.Context, prefix string) iter.Seq2[casstore.Item, error] {
	return func(yield func(casstore.Item, error) bool) {
		names, err := r.namesOf(ctx, prefix)
		if err != nil {
			yield(casstore.Item{}, err)
			return
		}
		casstore.InPages(ctx, r.read, names, page)(yield)
	}
}

// Walk implements casstore.Backend. The names are those that there were when the walk began, and the cursor is the
// last one that was returned.
func (r *reader) Walk(ctx context.Context, cursor string, n int) (items []casstore.Item, next string, err error) {
	r.mu.Lock()
	names := r.names
	r.mu.Unlock()
	if cursor == "" || names == nil {
		if names, err = r.namesOf(ctx, ""); err != nil {
			return nil, "", err
		}
	}
	from, found := slices.BinarySearch(names, cursor)
	if found {
		from++
	}
	some := names[from:min(len(names), from+n)]
	if items, err = r.read(ctx, some); err != nil {
		return nil, "", err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.names = nil; from+len(some) < len(names) {
		r.names, next = names, some[n-1]
	}
	return slices.DeleteFunc(items, func(i casstore.Item) bool { return i.Version == "" && i.Err == nil }), next, nil
}
