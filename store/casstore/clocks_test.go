package casstore_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/casstore"
)

// A skewed backend is one to a client whose wall clock is ahead: what that writes of its clock is later for others, and what others have written earlier.
type skewed struct {
	*memory
	ahead time.Duration
}

// shifted returns a record with other instants of a wall clock.
func shifted(r casstore.Record, by time.Duration) casstore.Record {
	for _, at := range []*time.Time{&r.Granted, &r.Forget} {
		if !at.IsZero() {
			*at = at.Add(by)
		}
	}
	return r
}

func (s skewed) read(item casstore.Item) casstore.Item {
	item.Record = shifted(item.Record, -s.ahead)
	return item
}

func (s skewed) Read(ctx context.Context, names []string) ([]casstore.Item, error) {
	items, err := s.memory.Read(ctx, names)
	for i := range items {
		items[i] = s.read(items[i])
	}
	return items, err
}

func (s skewed) Write(ctx context.Context, changes []casstore.Change) ([]casstore.Result, error) {
	written := make([]casstore.Change, len(changes))
	for i, c := range changes {
		if written[i] = c; c.Record != nil {
			r := shifted(*c.Record, s.ahead)
			written[i].Record = &r
		}
	}
	results, err := s.memory.Write(ctx, written)
	for i := range results {
		if results[i].Current != nil {
			current := s.read(*results[i].Current)
			results[i].Current = &current
		}
	}
	return results, err
}

func (s skewed) List(ctx context.Context, prefix string) iter.Seq2[casstore.Item, error] {
	return func(yield func(casstore.Item, error) bool) {
		for item, err := range s.memory.List(ctx, prefix) {
			if !yield(s.read(item), err) {
				return
			}
		}
	}
}

func (s skewed) Walk(ctx context.Context, cursor string, n int) ([]casstore.Item, string, error) {
	items, next, err := s.memory.Walk(ctx, cursor, n)
	for i := range items {
		items[i] = s.read(items[i])
	}
	return items, next, err
}

// Clients whose wall clocks are an hour apart exclude one another for as long as a lease lives, and no longer; tokens grow, also when a record has been forgotten too
// early or late. Their clocks decide what a grant reports of the past, and when a record is forgotten.
func TestClocksAnHourApart(t *testing.T) {
	const ttl, hour = time.Minute, time.Hour
	for holds := range 3 {
		for takes := range 3 {
			for _, tells := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					m := newMemory(tells)
					var clients []*casstore.Store
					for _, ahead := range []time.Duration{-hour, 0, hour} {
						clients = append(clients, casstore.New(skewed{m, ahead}, m.config()))
					}
					ask := func(c *casstore.Store, holder string) store.Outcome {
						t.Helper()
						out, err := c.Acquire(t.Context(), []store.Claim{{Name: "x", Holder: holder, TTL: ttl}})
						if err != nil {
							t.Fatal(err)
						}
						return out[0]
					}
					first := ask(clients[holds], "holder")
					if first.Err != nil {
						t.Fatal(first.Err)
					}
					for range 3 { // the holder lives
						var held *store.HeldError
						if out := ask(clients[takes], "other"); takes != holds && (!errors.As(out.Err, &held) || held.Record.Left > ttl || held.Record.Left <= 0) {
							t.Fatalf("while it is held: %+v", out)
						}
						time.Sleep(ttl / 2)
						e := store.Extension{Name: "x", Holder: "holder", Token: first.Grant.Token, TTL: ttl}
						if errs, err := clients[holds].Extend(t.Context(), []store.Extension{e}); err != nil || errs[0] != nil {
							t.Fatal(errs, err)
						}
					}
					if out := ask(clients[takes], "other"); !errors.Is(out.Err, store.ErrHeld) { // it sees the last extension, from which it counts
						t.Fatalf("just extended: %+v", out)
					}
					time.Sleep(ttl - 1)
					if out := ask(clients[takes], "other"); !errors.Is(out.Err, store.ErrHeld) {
						t.Fatalf("before the end of the TTL: %+v", out)
					}
					time.Sleep(time.Nanosecond)
					second := ask(clients[takes], "other")
					if second.Err != nil || second.Grant.Token <= first.Grant.Token {
						t.Fatalf("at the end of the TTL: %+v", second)
					}
					r := store.Release{Name: "x", Holder: "other", Token: second.Grant.Token, Retain: 90 * time.Minute}
					if errs, err := clients[takes].Release(t.Context(), []store.Release{r}); err != nil || errs[0] != nil {
						t.Fatal(errs, err)
					}
					time.Sleep(time.Minute)
					forgotten, err := clients[holds].Sweep(t.Context(), 10)
					if ahead := holds - takes; err != nil || (forgotten == 1) != (ahead == 2) {
						t.Fatalf("forgotten %d after a minute of 90 by a clock that is %d h ahead: %v", forgotten, ahead, err)
					}
					time.Sleep(4 * hour)
					if _, err := clients[holds].Sweep(t.Context(), 10); err != nil {
						t.Fatal(err)
					}
					if third := ask(clients[holds], "third"); third.Err != nil || third.Grant.Token <= second.Grant.Token {
						t.Fatalf("after it was forgotten: %+v", third)
					}
				})
			}
		}
	}
}
