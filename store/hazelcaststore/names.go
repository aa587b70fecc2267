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
	// namesOf returns names in ascending order, and an error for what is no name. The last error is that of the request.
	namesOf func(ctx context.Context, prefix string) (names []string, foreign, err error)
	read    func(ctx context.Context, names []string) ([]casstore.Item, error)

	mu    sync.Mutex
	names []string // what Walk has found, in ascending order
}

// List implements casstore.Backend.
func (r *reader) List(ctx context.Context, prefix string) iter.Seq2[casstore.Item, error] {
	return func(yield func(casstore.Item, error) bool) {
		names, foreign, err := r.namesOf(ctx, prefix)
		if err != nil {
			yield(casstore.Item{}, err)
			return
		}
		for item, err := range casstore.InPages(ctx, r.read, names, page) {
			if !yield(item, err) || err != nil {
				return
			}
		}
		if foreign != nil {
			yield(casstore.Item{Err: foreign}, nil)
		}
	}
}

// Walk implements casstore.Backend. The names are those that there were when the walk began, and the cursor is the
// last one that was returned.
func (r *reader) Walk(ctx context.Context, cursor string, n int) (items []casstore.Item, next string, err error) {
	r.mu.Lock()
	names := r.names
	r.mu.Unlock()
	var foreign error
	if cursor == "" || names == nil {
		if names, foreign, err = r.namesOf(ctx, ""); err != nil {
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
	items = slices.DeleteFunc(items, func(i casstore.Item) bool { return i.Version == "" && i.Err == nil })
	if foreign != nil {
		items = append(items, casstore.Item{Err: foreign})
	}
	return items, next, nil
}
