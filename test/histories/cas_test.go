//go:build unix

package histories

import (
	"context"
	"errors"
	"iter"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/casstore"
)

// items is a backend of casstore in memory. Requests and replies take a while. Some writes are lost, carried out late
// or twice, or get no reply.
type items struct {
	mu   sync.Mutex
	kept map[string]casstore.Record
	late sync.WaitGroup // writes that no caller waits for
}

var errNoReply = errors.New("no reply")

// oneIn reports true once in n times.
func oneIn(n int) bool { return rand.IntN(n) == 0 }

// travel takes as long as a request or a reply is on its way: mostly less than a lease, now and then longer than a
// short one.
func travel() {
	longest := 500 * time.Microsecond
	if oneIn(30) {
		longest = 20 * time.Millisecond
	}
	time.Sleep(rand.N(longest))
}

// Read implements casstore.Backend.
func (b *items) Read(_ context.Context, names []string) (found []casstore.Item, _ error) {
	travel()
	defer travel()
	if oneIn(100) {
		return nil, errNoReply
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range names {
		found = append(found, b.item(name))
	}
	return found, nil
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

// Write implements casstore.Backend.
func (b *items) Write(_ context.Context, changes []casstore.Change) (results []casstore.Result, err error) {
	travel()
	defer travel()
	switch rand.IntN(40) {
	case 0: // it is lost
	case 1:
		b.write(changes, 1)
	case 2:
		b.late.Go(func() {
			travel()
			b.write(changes, 1)
		})
	case 3:
		return b.write(changes, 2), nil
	default:
		return b.write(changes, 1), nil
	}
	return nil, store.AsUnknown(errNoReply)
}

// write carries out changes some times in one step, and returns the results of the last time. A conflict brings the
// current item, which may be what the first time has written; if the changes are carried out once, only half of the
// conflicts do.
func (b *items) write(changes []casstore.Change, times int) (results []casstore.Result) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for range times {
		results = nil
		for _, c := range changes {
			results = append(results, b.change(c, times > 1 || oneIn(2)))
		}
	}
	return results
}

// change carries out a change. b.mu is held.
func (b *items) change(c casstore.Change, tells bool) casstore.Result {
	now := b.item(c.Name)
	switch r := now.Record; {
	case c.Free && (now.Version == "" || r.Released && r.TTL == 0 && r.Token >= c.Record.Token-1 && r.Token < math.MaxInt64 && (c.Below == 0 || r.Mark < c.Below)):
		taken := *c.Record
		taken.Mark, taken.State, taken.Unsure = r.Mark, r.State, r.Unsure || now.Version == ""
		if now.Version != "" {
			taken.Token = r.Token + 1
		}
		b.kept[c.Name] = taken
		now = b.item(c.Name)
		return casstore.Result{Version: now.Version, Current: &now}
	case c.Free:
		return casstore.Result{Err: casstore.ErrConflict, Current: &now}
	case now.Version != c.Version && tells:
		return casstore.Result{Err: casstore.ErrConflict, Current: &now}
	case now.Version != c.Version:
		return casstore.Result{Err: casstore.ErrConflict}
	case c.Record == nil:
		delete(b.kept, c.Name)
		return casstore.Result{}
	}
	b.kept[c.Name] = *c.Record
	return casstore.Result{Version: c.Record.Version()}
}

// List implements casstore.Backend.
func (b *items) List(_ context.Context, prefix string) iter.Seq2[casstore.Item, error] {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := maps.Clone(b.kept)
	return func(yield func(casstore.Item, error) bool) {
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

// Close implements casstore.Backend. It waits for late writes.
func (b *items) Close() error {
	b.late.Wait()
	return nil
}

// A store on a backend with compare-and-set has no clock. Each handle is a process that sees leases for itself.
func TestCompareAndSet(t *testing.T) {
	t.Parallel()
	backend := &items{kept: map[string]casstore.Record{}}
	open := func() (*casstore.Store, error) {
		return casstore.New(backend, casstore.Config{CreateFirst: oneIn(2), TakeFree: oneIn(2)}), nil
	}
	try(t, &rig{noClock: true, stores: handles(t, open)})
}
