package storetest_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

// altered is a store whose Queue answers something else than memstore's.
func altered(with func(grant *store.Grant, after *time.Duration, err *error)) bend {
	return bend{queue: func(ctx context.Context, s *memstore.Store, c store.Claim) (store.Grant, time.Duration, error) {
		grant, after, err := s.Queue(ctx, c)
		with(&grant, &after, &err)
		return grant, after, err
	}}
}

// polling is a Queue that keeps no line.
func polling(ctx context.Context, s *memstore.Store, c store.Claim) (store.Grant, time.Duration, error) {
	for {
		outs, err := s.Acquire(context.Background(), []store.Claim{c})
		if err != nil || !errors.Is(outs[0].Err, store.ErrHeld) || ctx.Err() != nil {
			if err == nil {
				return outs[0].Grant, 0, outs[0].Err
			}
			return store.Grant{}, 0, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Millisecond):
		}
	}
}

var queueFlaws = []flaw{
	{"queue-free", "a grant seems to have begun later than it did", always(altered(func(_ *store.Grant, after *time.Duration, _ *error) { *after += time.Millisecond }))},
	{"queue-free", "a grant that is asked for again seems to begin now", always(altered(func(_ *store.Grant, after *time.Duration, _ *error) { *after = max(0, *after) }))},
	{"queue-hands-over", "those who wait are woken, and ask", always(bend{queue: polling})},
	{"queue-after", "the time since the request is told twice as long", always(altered(func(_ *store.Grant, after *time.Duration, _ *error) { *after *= 2 }))},
	{"queue-after", "the time is counted from the first request", func(testing.TB) bend {
		first := map[string]time.Time{}
		return bend{queue: func(ctx context.Context, s *memstore.Store, c store.Claim) (store.Grant, time.Duration, error) {
			now := time.Now()
			if first[c.Holder].IsZero() {
				first[c.Holder] = now
			}
			since := now.Sub(first[c.Holder])
			grant, after, err := s.Queue(ctx, c)
			return grant, after + since, err
		}}
	}},
	{"queue-after", "the lease lives for longer than its claim says", always(bend{queue: func(ctx context.Context, s *memstore.Store, c store.Claim) (store.Grant, time.Duration, error) {
		c.TTL += time.Minute
		return s.Queue(ctx, c)
	}})},
	{"queue-order", "who asks again goes to the end", always(bend{queue: func(ctx context.Context, s *memstore.Store, c store.Claim) (store.Grant, time.Duration, error) {
		if _, err := s.Leave(context.Background(), c.Name, c.Holder); err != nil {
			return store.Grant{}, 0, err
		}
		return s.Queue(ctx, c)
	}})},
	{"queue-state", "what is handed over comes without its state", always(altered(func(grant *store.Grant, _ *time.Duration, _ *error) { grant.State = nil }))},
	{"queue-state", "a state is read only beside a mark", always(altered(func(grant *store.Grant, _ *time.Duration, _ *error) {
		if grant.Mark == 0 {
			grant.State = nil
		}
	}))},
	{"queue-state", "a mark is read only beside a state", always(altered(func(grant *store.Grant, _ *time.Duration, _ *error) {
		if len(grant.State) == 0 {
			grant.Mark = 0
		}
	}))},
	{"queue-leave", "nobody leaves", always(bend{leave: func(*memstore.Store, string, string) (bool, error) { return true, nil }})},
	{"queue-leave", "who leaves is never told that there was a place", always(bend{leave: func(s *memstore.Store, name, holder string) (bool, error) {
		_, err := s.Leave(context.Background(), name, holder)
		return false, err
	}})},
	{"queue-expiry", "the end of a lease is unknown", always(altered(func(_ *store.Grant, _ *time.Duration, err *error) {
		if errors.Is(*err, store.ErrHeld) {
			*err = store.AsUnknown(errors.New("the end of the lease"))
		}
	}))},
	{"queue-expiry", "who is granted the name by asking keeps the place", always(bend{leave: func(s *memstore.Store, name, holder string) (bool, error) {
		left, err := s.Leave(context.Background(), name, holder)
		return left || list(s, name)[0].Holder == holder, err
	}})},
	{"queue-shorter", "those in line are not told of a lease that ends sooner", always(bend{queue: func(ctx context.Context, s *memstore.Store, c store.Claim) (store.Grant, time.Duration, error) {
		for {
			grant, after, err := s.Queue(ctx, c)
			var held *store.HeldError
			if !errors.As(err, &held) || held.Record.Left < time.Minute || ctx.Err() != nil {
				return grant, after, err
			}
			select {
			case <-ctx.Done():
			case <-time.After(held.Record.Left):
			}
		}
	}})},
	{"queue-linger", "a name that is to linger is handed over", always(bend{release: func(s *memstore.Store, r store.Release) error {
		r.Linger = 0
		errs, err := s.Release(context.Background(), []store.Release{r})
		return errors.Join(append(errs, err)...)
	}})},
	{"queue-forgotten", "who is granted a name without a record keeps the place", func(testing.TB) bend {
		var kept sync.Map
		return bend{
			queue: func(ctx context.Context, s *memstore.Store, c store.Claim) (store.Grant, time.Duration, error) {
				if len(list(s, c.Name)) == 0 {
					kept.Store(c.Name, c.Holder)
				}
				return s.Queue(ctx, c)
			},
			leave: func(s *memstore.Store, name, holder string) (bool, error) {
				left, err := s.Leave(context.Background(), name, holder)
				return left || kept.CompareAndDelete(name, holder), err
			},
		}
	}},
	{"queue-other-handle", "each handle has its own lines", func(testing.TB) bend {
		alone := memstore.New()
		return bend{queue: func(ctx context.Context, _ *memstore.Store, c store.Claim) (store.Grant, time.Duration, error) {
			return alone.Queue(ctx, c)
		}}
	}},
	{"queue-checks", "a mark is overlooked", always(bend{queue: func(ctx context.Context, s *memstore.Store, c store.Claim) (store.Grant, time.Duration, error) {
		c.Mark = 0
		return s.Queue(ctx, c)
	}})},
	{"queue-checks", "nobody is in the queue of what cannot be a name", always(bend{leave: func(s *memstore.Store, name, holder string) (bool, error) {
		if store.CheckName(name) != nil {
			return false, nil
		}
		return s.Leave(context.Background(), name, holder)
	}})},
	{"close-ends-queues", "Queue does not know of Close", always(bend{queue: func(ctx context.Context, s *memstore.Store, c store.Claim) (store.Grant, time.Duration, error) {
		return s.Share().Queue(ctx, c)
	}})},
}
