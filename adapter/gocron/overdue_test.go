package gocronadapter_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store/casstore"
)

// Items are a backend without a clock, as far as a lock needs one.
type items struct {
	casstore.Backend
	mu   sync.Mutex
	kept map[string]casstore.Item
}

func (b *items) Read(_ context.Context, names []string) ([]casstore.Item, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := make([]casstore.Item, len(names))
	for i, name := range names {
		found[i] = b.kept[name]
	}
	return found, nil
}

func (b *items) Write(_ context.Context, changes []casstore.Change) ([]casstore.Result, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	results := make([]casstore.Result, len(changes))
	for i, c := range changes {
		if b.kept[c.Name].Version != c.Version {
			results[i].Err = casstore.ErrConflict
			continue
		}
		results[i].Version = c.Record.Version()
		b.kept[c.Name] = casstore.Item{Version: c.Record.Version(), Record: *c.Record}
	}
	return results, nil
}

func (b *items) Walk(context.Context, string, int) ([]casstore.Item, string, error) {
	return nil, "", nil
}

func (b *items) Close() error { return nil }

// On a store without a clock a job is run each day, also if each day has another process, which does not know since when the lock lingers from the day before.
func TestLockerOfNewProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const hold = 20 * time.Second
		b := &items{kept: map[string]casstore.Item{}}
		for day := range 5 {
			c, err := soloist.New(casstore.New(b, casstore.Config{}), soloist.Config{})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Hour)
			due := time.Now()
			lock, err := locker(t, c, hold).Lock(t.Context(), "report")
			if err != nil || time.Since(due) > hold {
				t.Fatalf("on day %d, after %v: %v", day, time.Since(due), err)
			}
			if err := lock.Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(19 * time.Hour)
		}
	})
}
