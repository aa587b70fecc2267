//go:build unix

package histories

import (
	"context"
	"errors"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/casstore"
)

// items is a backend of casstore in memory. Its requests take a while, and some writes are lost, carried out twice, or not answered.
type items struct {
	mu   sync.Mutex
	kept map[string]casstore.Record
	late sync.WaitGroup
}

var errNotAnswered = errors.New("not answered")

// way is the time that a request or its reply is on its way.
func way() { time.Sleep(time.Duration(rand.IntN(500)) * time.Microsecond) }

func (b *items) Read(_ context.Context, names []string) (found []casstore.Item, _ error) {
	way()
	defer way()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range names {
		found = append(found, b.item(name))
	}
	return found, nil
}

func (b *items) item(name string) casstore.Item {
	r := b.kept[name]
	r.State = slices.Clone(r.State)
	return casstore.Item{Name: name, Version: r.Write, Record: r}
}

func (b *items) Write(_ context.Context, changes []casstore.Change) ([]casstore.Result, error) {
	way()
	defer way()
	switch rand.IntN(40) {
	case 0:
		return nil, store.AsUnknown(errNotAnswered)
	case 1:
		b.carryOut(changes)
		return nil, store.AsUnknown(errNotAnswered)
	case 2:
		b.late.Go(func() {
			time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond) // a request that is late, not a condition to wait for
			b.carryOut(changes)
		})
		return nil, store.AsUnknown(errNotAnswered)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if rand.IntN(40) == 0 {
		b.write(changes)
	}
	return b.write(changes), nil
}

func (b *items) carryOut(changes []casstore.Change) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.write(changes)
}

// write carries out changes. b.mu is held.
func (b *items) write(changes []casstore.Change) (results []casstore.Result) {
	for _, c := range changes {
		now := b.item(c.Name)
		switch {
		case now.Version != c.Version:
			results = append(results, casstore.Result{Err: casstore.ErrConflict, Current: &now})
		case c.Record == nil:
			delete(b.kept, c.Name)
			results = append(results, casstore.Result{})
		default:
			b.kept[c.Name] = *c.Record
			results = append(results, casstore.Result{Version: c.Record.Write})
		}
	}
	return results
}

func (b *items) List(_ context.Context, prefix string) iter.Seq2[casstore.Item, error] {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := maps.Clone(b.kept)
	return func(yield func(casstore.Item, error) bool) {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if strings.HasPrefix(name, prefix) && !yield(casstore.Item{Name: name, Version: all[name].Write, Record: all[name]}, nil) {
				return
			}
		}
	}
}

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

func (b *items) Close() error {
	b.late.Wait()
	return nil
}

// A store on a backend with compare-and-set has no clock. Each handle is a process that sees leases for itself.
func TestCompareAndSet(t *testing.T) {
	t.Parallel()
	backend := &items{kept: map[string]casstore.Record{}}
	try(t, &rig{noClock: true, stores: handles(t, func() (*casstore.Store, error) { return casstore.New(backend, casstore.Config{}), nil })})
}
