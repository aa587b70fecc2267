package load

import (
	"context"
	"iter"
	"slices"
	"sync/atomic"

	"github.com/soloist-dev/soloist/store"
)

// A Counter counts what goes to a store.
type Counter struct {
	Requests atomic.Int64 // calls of the store: a batch is one
	Acquires atomic.Int64 // those of Acquire that claim something, and do not only read
	Names    atomic.Int64 // names in them

	claimed func([]store.Claim) // is told of each Acquire before it is made; may be nil
}

func (c *Counter) add(names int) {
	c.Requests.Add(1)
	c.Names.Add(int64(names))
}

// Count answers s, counted by c. What s can do beyond the verbs it still can, as far as a client asks for it.
func Count(s store.Store, c *Counter) store.Store {
	base := &counted{Store: s, c: c}
	w, waits := s.(store.Waiter)
	ch, chooses := s.(store.Chooser)
	switch {
	case waits && chooses:
		return struct {
			*counted
			watching
			choosing
		}{base, watching{w, c}, choosing{ch, c}}
	case waits:
		return struct {
			*counted
			watching
		}{base, watching{w, c}}
	case chooses:
		return struct {
			*counted
			choosing
		}{base, choosing{ch, c}}
	}
	return base
}

type counted struct {
	store.Store
	c *Counter
}

func (s *counted) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	s.c.add(len(claims))
	if slices.ContainsFunc(claims, func(c store.Claim) bool { return c.Mark >= 0 }) {
		s.c.Acquires.Add(1)
	}
	if s.c.claimed != nil {
		s.c.claimed(claims)
	}
	return s.Store.Acquire(ctx, claims)
}

func (s *counted) Extend(ctx context.Context, extensions []store.Extension) ([]error, error) {
	s.c.add(len(extensions))
	return s.Store.Extend(ctx, extensions)
}

func (s *counted) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	s.c.add(len(releases))
	return s.Store.Release(ctx, releases)
}

func (s *counted) List(ctx context.Context, prefix string) iter.Seq2[store.Record, error] {
	s.c.add(1)
	return s.Store.List(ctx, prefix)
}

type watching struct {
	store store.Waiter
	c     *Counter
}

func (w watching) Watch(ctx context.Context, names []string) (<-chan struct{}, error) {
	w.c.add(len(names))
	return w.store.Watch(ctx, names)
}

type choosing struct {
	store store.Chooser
	c     *Counter
}

func (ch choosing) Choose(ctx context.Context, names []string, claim store.Claim) (int, store.Outcome, error) {
	ch.c.add(len(names))
	return ch.store.Choose(ctx, names, claim)
}
