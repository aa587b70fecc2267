package load

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync/atomic"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// A Counter counts the requests to a store.
type Counter struct {
	Requests atomic.Int64 // calls of the store; a batch is one call
	Acquires atomic.Int64 // calls of Acquire that do not only read
	Names    atomic.Int64 // names in them

	claimed func([]store.Claim) // called before each Acquire; may be nil
}

func (c *Counter) add(names int) {
	c.Requests.Add(1)
	c.Names.Add(int64(names))
}

// Count returns s wrapped so that c counts its requests.
func Count(s store.Store, c *Counter) store.Store { return &counted{Store: s, c: c} }

type counted struct {
	store.Store
	c *Counter
}

// Unwrap returns the wrapped store, for store.As. Calls of interfaces that are not implemented below go to it directly.
func (s *counted) Unwrap() store.Store { return s.Store }

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

// ListAfter implements store.Pager.
func (s *counted) ListAfter(ctx context.Context, prefix, after string) iter.Seq2[store.Record, error] {
	s.c.add(1)
	return store.ListAfter(ctx, s.Store, prefix, after)
}

// Watch implements store.Watcher.
func (s *counted) Watch(ctx context.Context, names []string) (<-chan struct{}, error) {
	w, ok := store.As[store.Watcher](s.Store)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	s.c.add(len(names))
	return w.Watch(ctx, names)
}

// Choose implements store.Chooser.
func (s *counted) Choose(ctx context.Context, names []string, claim store.Claim) (int, store.Grant, error) {
	c, ok := store.As[store.Chooser](s.Store)
	if !ok {
		return 0, store.Grant{}, errors.ErrUnsupported
	}
	s.c.add(len(names))
	return c.Choose(ctx, names, claim)
}

// Queue implements store.Queuer. A call counts as one request, however long it waits.
func (s *counted) Queue(ctx context.Context, claim store.Claim) (store.Grant, time.Duration, error) {
	q, ok := store.As[store.Queuer](s.Store)
	if !ok {
		return store.Grant{}, 0, errors.ErrUnsupported
	}
	s.c.add(1)
	return q.Queue(ctx, claim)
}

// Leave implements store.Queuer.
func (s *counted) Leave(ctx context.Context, name, holder string) (bool, error) {
	q, ok := store.As[store.Queuer](s.Store)
	if !ok {
		return false, errors.ErrUnsupported
	}
	s.c.add(1)
	return q.Leave(ctx, name, holder)
}
