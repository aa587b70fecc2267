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

// answeringLeave is a store whose Leave says something else than memstore's. r is the record of the name.
func answeringLeave(f func(r store.Record, holder string, left bool) bool) func(testing.TB) bend {
	return always(bend{leave: func(s *memstore.Store, name, holder string) (bool, error) {
		left, err := s.Leave(context.Background(), name, holder)
		return f(look(s, name), holder, left), err
	}})
}

// byQueueOnly is a store in which a name that Queue was called for is granted by Queue only.
func byQueueOnly(testing.TB) bend {
	var queued sync.Map
	return bend{
		queue: func(ctx context.Context, s *memstore.Store, c store.Claim) (store.Grant, time.Duration, error) {
			queued.Store(c.Name, true)
			return s.Queue(ctx, c)
		},
		acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
			r := look(s, c.Name)
			if _, ok := queued.Load(c.Name); ok && r.Free() {
				return store.Outcome{Err: &store.HeldError{Record: r}}
			}
			return acquire(s, c)
		},
	}
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
	{"queue-free", "a new name has a mark", always(altered(func(grant *store.Grant, _ *time.Duration, _ *error) { grant.Mark = 1 }))},
	{"queue-free", "a new name has a state", always(altered(func(grant *store.Grant, _ *time.Duration, _ *error) { grant.State = []byte("x") }))},
	{"queue-free", "a new name has expired", always(altered(func(grant *store.Grant, _ *time.Duration, _ *error) { grant.ExpiredAge = 1 }))},
	{"queue-free", "what was granted can be claimed", answeredByForce(func(_ store.Record, c store.Claim) bool { return c.Holder == "b" })},
	{"queue-free", "who asks again gets another token", always(altered(func(grant *store.Grant, after *time.Duration, _ *error) {
		if *after < 0 {
			grant.Token++
		}
	}))},
	{"queue-free", "a grant that is asked for again seems to have begun half as long ago", always(altered(func(_ *store.Grant, after *time.Duration, _ *error) {
		*after /= 2
	}))},
	{"queue-free", "a grant that is asked for again seems to have begun long ago", always(altered(func(_ *store.Grant, after *time.Duration, _ *error) {
		*after *= 10_000
	}))},
	{"queue-free", "what Queue has granted cannot be released", always(bend{release: func(s *memstore.Store, r store.Release) error {
		if r.Holder == "a" {
			return store.ErrLost
		}
		return release(s, r)
	}})},
	{"queue-free", "a name that was granted by Queue can never be claimed", byQueueOnly},
	{"queue-hands-over", "those who wait are woken, and ask", always(bend{queue: polling})},
	{"queue-hands-over", "a refusal after the release is about the holder before", refusing(func(r *store.Record) { r.Holder = "a" })},
	{"queue-hands-over", "the token begins again", forgiving(always(altered(func(grant *store.Grant, _ *time.Duration, _ *error) { grant.Token = 1 })))},
	{"queue-hands-over", "a lease that was handed over is extended by the holder before", always(bend{extend: func(s *memstore.Store, e store.Extension) error {
		if look(s, e.Name).Token > e.Token {
			return nil
		}
		return extend(s, e)
	}})},
	{"queue-hands-over", "a lease that was handed over is not extended", always(bend{extend: func(s *memstore.Store, e store.Extension) error {
		if e.Holder != "a" {
			return store.ErrLost
		}
		return extend(s, e)
	}})},
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
	{"queue-after", "the lease is listed as one that ends later than its TTL says", showing(func(r *store.Record) { r.Left += time.Second })},
	{"queue-after", "the lease is listed as one that ends earlier than its TTL says", showing(func(r *store.Record) { r.Left -= time.Second })},
	{"queue-after", "the lease is listed as one that began before the request", showing(func(r *store.Record) { r.Age += time.Second })},
	{"queue-after", "the lease is listed as one that began a little earlier, and ends when it does", showing(func(r *store.Record) { r.Age += 100 * time.Millisecond })},
	{"queue-after", "the lease is listed as one that ends a moment later than its TTL says", showing(func(r *store.Record) { r.Left += 30 * time.Millisecond })},
	{"queue-order", "who asks again goes to the end", always(bend{queue: func(ctx context.Context, s *memstore.Store, c store.Claim) (store.Grant, time.Duration, error) {
		if _, err := s.Leave(context.Background(), c.Name, c.Holder); err != nil {
			return store.Grant{}, 0, err
		}
		return s.Queue(ctx, c)
	}})},
	{"queue-order", "a name that had a queue can never be claimed", byQueueOnly},
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
	{"queue-state", "the token begins again", always(altered(func(grant *store.Grant, _ *time.Duration, _ *error) { grant.Token = 1 }))},
	{"queue-state", "a release counts as an expiry", always(altered(func(grant *store.Grant, _ *time.Duration, _ *error) { grant.ExpiredAge = 1 }))},
	{"queue-leave", "nobody leaves", always(bend{leave: func(*memstore.Store, string, string) (bool, error) { return true, nil }})},
	{"queue-leave", "who leaves is never told that there was a place", always(bend{leave: func(s *memstore.Store, name, holder string) (bool, error) {
		_, err := s.Leave(context.Background(), name, holder)
		return false, err
	}})},
	{"queue-leave", "everybody is in the queue of a name that is free", answeringLeave(func(r store.Record, _ string, left bool) bool { return left || r.Name == "" })},
	{"queue-leave", "everybody is in the queue of a name that is held", answeringLeave(func(r store.Record, holder string, left bool) bool { return left || holder == "z" })},
	{"queue-leave", "who has the name is in its queue", answeringLeave(func(r store.Record, holder string, left bool) bool { return left || r.Holder == holder })},
	{"queue-leave", "who has left is in the queue still", func(testing.TB) bend {
		gone := map[string]bool{}
		return answeringLeave(func(_ store.Record, holder string, left bool) bool {
			gone[holder] = gone[holder] || left
			return gone[holder]
		})(nil)
	}},
	{"queue-leave", "who leaves is told so, and stays", func(testing.TB) bend {
		gone := map[string]bool{}
		return bend{leave: func(s *memstore.Store, name, holder string) (bool, error) {
			r := look(s, name)
			left := (holder == "a" || holder == "c") && r.Name != "" && !gone[holder]
			gone[holder] = gone[holder] || left
			return left, nil
		}}
	}},
	{"queue-expiry", "a name that is granted by asking can be claimed", answeredByForce(func(met store.Record, c store.Claim) bool { return c.Holder == "b" && met.Holder == "a" })},
	{"queue-expiry", "a lease that is granted by asking is not released", always(bend{release: func(s *memstore.Store, r store.Release) error {
		if r.Holder == "a" {
			return store.ErrLost
		}
		return release(s, r)
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
			left := look(s, c.Name).Left
			grant, after, err := s.Queue(ctx, c)
			if !errors.Is(err, store.ErrHeld) || left < time.Minute || ctx.Err() != nil {
				return grant, after, err
			}
			select {
			case <-ctx.Done():
			case <-time.After(left):
			}
		}
	}})},
	{"queue-shorter", "that the lease before was short is another error", always(bend{queue: func(ctx context.Context, s *memstore.Store, c store.Claim) (store.Grant, time.Duration, error) {
		grant, after, err := s.Queue(ctx, c)
		if err != nil && look(s, c.Name).Holder == "dead" {
			err = errors.New("too short")
		}
		return grant, after, err
	}})},
	{"queue-linger", "a name that is to linger is handed over", always(bend{release: func(s *memstore.Store, r store.Release) error {
		r.Linger = 0
		errs, err := s.Release(context.Background(), []store.Release{r})
		return errors.Join(append(errs, err)...)
	}})},
	{"queue-linger", "those in line wait for the end of the linger", always(bend{queue: func(ctx context.Context, s *memstore.Store, c store.Claim) (store.Grant, time.Duration, error) {
		for {
			grant, after, err := s.Queue(ctx, c)
			r := look(s, c.Name)
			if !errors.Is(err, store.ErrHeld) || r.Holder != "" || ctx.Err() != nil {
				return grant, after, err
			}
			select {
			case <-ctx.Done():
			case <-time.After(r.Left):
			}
		}
	}})},
	{"queue-linger", "that a name lingers is another error", always(bend{queue: func(ctx context.Context, s *memstore.Store, c store.Claim) (store.Grant, time.Duration, error) {
		grant, after, err := s.Queue(ctx, c)
		if err != nil && look(s, c.Name).Holder == "" {
			err = errors.New("it lingers")
		}
		return grant, after, err
	}})},
	{"queue-linger", "a name that lingers is listed with its last holder", showing(func(r *store.Record) { r.Holder = "a" })},
	{"queue-linger", "a name that lingers is listed as free", showing(func(r *store.Record) { r.Left = 0 })},
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
	{"queue-checks", "a TTL of 0 has another error", always(bend{queue: func(ctx context.Context, s *memstore.Store, c store.Claim) (store.Grant, time.Duration, error) {
		if c.TTL == 0 {
			return store.Grant{}, 0, errNone
		}
		return s.Queue(ctx, c)
	}})},
	{"queue-checks", "a name that cannot be one has another error", always(bend{queue: func(ctx context.Context, s *memstore.Store, c store.Claim) (store.Grant, time.Duration, error) {
		if c.Name != "" && store.CheckName(c.Name) != nil {
			return store.Grant{}, 0, errNone
		}
		return s.Queue(ctx, c)
	}})},
	{"queue-checks", "a holder that cannot be one has another error", always(bend{queue: func(ctx context.Context, s *memstore.Store, c store.Claim) (store.Grant, time.Duration, error) {
		if c.Holder != "" && store.CheckName(c.Holder) != nil {
			return store.Grant{}, 0, errNone
		}
		return s.Queue(ctx, c)
	}})},
	{"queue-checks", "a TTL of 0 is the shortest", always(bend{queue: func(ctx context.Context, s *memstore.Store, c store.Claim) (store.Grant, time.Duration, error) {
		c.TTL = max(c.TTL, store.MinTTL)
		return s.Queue(ctx, c)
	}})},
	{"queue-checks", "an empty name is refused as held", always(bend{queue: func(ctx context.Context, s *memstore.Store, c store.Claim) (store.Grant, time.Duration, error) {
		if c.Name == "" {
			return store.Grant{}, 0, store.ErrHeld
		}
		return s.Queue(ctx, c)
	}})},
	{"queue-checks", "any holder is good", always(bend{queue: func(ctx context.Context, s *memstore.Store, c store.Claim) (store.Grant, time.Duration, error) {
		if store.CheckName(c.Name) == nil && c.Mark == 0 && c.TTL > 0 {
			return store.Grant{}, 0, nil
		}
		return s.Queue(ctx, c)
	}})},
	{"queue-checks", "a claim that is refused for its mark takes another name", always(bend{queue: func(ctx context.Context, s *memstore.Store, c store.Claim) (store.Grant, time.Duration, error) {
		grant, after, err := s.Queue(ctx, c)
		if c.Mark != 0 {
			c.Mark, c.Name = 0, c.Name+"x"
			acquire(s, c)
		}
		return grant, after, err
	}})},
	{"queue-checks", "nobody is in the queue of what cannot be a name", always(bend{leave: func(s *memstore.Store, name, holder string) (bool, error) {
		if store.CheckName(name) != nil {
			return false, nil
		}
		return s.Leave(context.Background(), name, holder)
	}})},
	{"close-ends-queues", "a call that Close ends is told as granted", always(bend{queue: func(ctx context.Context, s *memstore.Store, c store.Claim) (store.Grant, time.Duration, error) {
		grant, after, err := s.Queue(ctx, c)
		if err != nil && s.Ping(context.Background()) != nil {
			return store.Grant{Token: 1}, 0, nil
		}
		return grant, after, err
	}})},
	{"close-ends-queues", "Queue does not know of Close", always(bend{queue: func(ctx context.Context, s *memstore.Store, c store.Claim) (store.Grant, time.Duration, error) {
		return s.Share().Queue(ctx, c)
	}})},
}
