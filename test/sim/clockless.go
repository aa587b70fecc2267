package sim

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/casstore"
)

// An engine is the store that a network leads to.
type engine interface {
	store.Store
	store.Chooser
	store.Sweeper
}

// DrawClockless makes the plan of a seed on a store without a clock. Each life of a replica has its own handle, so it observes for itself for how long
// a lease has not changed, and what it has seen is gone when it ends. Such a store keeps no lines, reports no releases and takes no part in transactions.
func DrawClockless(seed uint64) Plan {
	p := Draw(seed)
	p.Clockless, p.Waiter, p.Lines, p.Commits = true, false, false, 0
	p.Tail += p.observed()
	if p.Work == Elements || p.Work == Mixed { // the elements are tried one after the other, and each may be seen for the first time then
		p.Tail += time.Duration(p.Names) * p.TTL * 9 / 8
	}
	return p
}

// observed is how long the longest lease lives, by any clock, on a store without one: a replica may see it for the first time when it is over. Holders extend theirs to
// two and a half TTLs.
func (p *Plan) observed() time.Duration {
	if !p.Clockless {
		return 0
	}
	return p.TTL * 11 / 4
}

// A timeless network leads to a store without a clock.
type timeless struct{ *network }

// Clockless implements store.Clockless.
func (timeless) Clockless() {}

// asStore returns the network as the client has it.
func (n *network) asStore() store.Store {
	if n.own.Load() != nil {
		return timeless{n}
	}
	return n
}

// items is a backend in memory that can compare and set, and nothing else.
type items struct {
	mu   sync.Mutex
	kept map[string]casstore.Record
}

// open returns a handle that has seen nothing. Every other one makes new items without a look, as a backend allows it or not.
func (b *items) open(n int) *casstore.Store {
	return casstore.New(b, casstore.Config{CreateFirst: n%2 == 0})
}

// forget loses everything.
func (b *items) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.kept)
}

// item returns an item. b.mu is held.
func (b *items) item(name string) casstore.Item {
	r, there := b.kept[name]
	if !there {
		return casstore.Item{Name: name}
	}
	r.State = slices.Clone(r.State)
	return casstore.Item{Name: name, Version: r.Version(), Record: r}
}

// Read implements casstore.Backend.
func (b *items) Read(_ context.Context, names []string) ([]casstore.Item, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := make([]casstore.Item, len(names))
	for i, name := range names {
		found[i] = b.item(name)
	}
	return found, nil
}

// Write implements casstore.Backend.
func (b *items) Write(_ context.Context, changes []casstore.Change) ([]casstore.Result, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	results := make([]casstore.Result, len(changes))
	for i, c := range changes {
		switch now := b.item(c.Name); {
		case now.Version != c.Version:
			results[i] = casstore.Result{Err: casstore.ErrConflict, Current: &now}
		case c.Record == nil:
			delete(b.kept, c.Name)
		default:
			b.kept[c.Name] = *c.Record
			results[i].Version = c.Record.Version()
		}
	}
	return results, nil
}

// List implements casstore.Backend.
func (b *items) List(_ context.Context, prefix string) iter.Seq2[casstore.Item, error] {
	return func(yield func(casstore.Item, error) bool) {
		b.mu.Lock()
		all := maps.Clone(b.kept)
		b.mu.Unlock()
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if strings.HasPrefix(name, prefix) && !yield(casstore.Item{Name: name, Version: all[name].Version(), Record: all[name]}, nil) {
				return
			}
		}
	}
}

// Walk implements casstore.Backend.
func (b *items) Walk(ctx context.Context, cursor string, n int) (found []casstore.Item, next string, err error) {
	for item, err := range b.List(ctx, "") {
		switch {
		case err != nil:
			return nil, "", err
		case item.Name <= cursor:
		case len(found) == n:
			return found, found[n-1].Name, nil
		default:
			found = append(found, item)
		}
	}
	return found, "", nil
}

// Close implements casstore.Backend.
func (b *items) Close() error { return nil }
