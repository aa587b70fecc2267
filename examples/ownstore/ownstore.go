// Package ownstore is an example of a store that wraps another one: it counts the calls. See docs/contribute/writing-a-store.md for what a store on a
// backend has to do.
package ownstore

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// A Counted store passes every call on to another store and counts it. It can do what the other store can do. It is safe for use by many
// goroutines at once.
type Counted struct {
	store.Store // for Close
	trips       atomic.Int64
}

// New returns a store that counts the calls of s. Close closes s.
func New(s store.Store) *Counted { return &Counted{Store: s} }

// Unwrap returns the other store. With it [store.As] finds what the other store can do beyond store.Store: here it can be probed and
// swept, and neither is counted. Without it clients would find nothing, and poll for a lock that the other store hands over.
func (c *Counted) Unwrap() store.Store { return c.Store }

// Trips returns how many calls have been made.
func (c *Counted) Trips() int64 { return c.trips.Load() }

// Acquire is as in store.Store.
func (c *Counted) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	c.trips.Add(1)
	return c.Store.Acquire(ctx, claims)
}

// Extend is as in store.Store.
func (c *Counted) Extend(ctx context.Context, extensions []store.Extension) ([]error, error) {
	c.trips.Add(1)
	return c.Store.Extend(ctx, extensions)
}

// Release is as in store.Store.
func (c *Counted) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	c.trips.Add(1)
	return c.Store.Release(ctx, releases)
}

// List is as in store.Store.
func (c *Counted) List(ctx context.Context, prefix string) iter.Seq2[store.Record, error] {
	c.trips.Add(1)
	return c.Store.List(ctx, prefix)
}

// The calls of these optional interfaces are counted too, so Counted has their methods. Each looks for what the other store can do, and
// returns errors.ErrUnsupported if it cannot. The client then does without.

// ListAfter is as in store.Pager.
func (c *Counted) ListAfter(ctx context.Context, prefix, after string) iter.Seq2[store.Record, error] {
	c.trips.Add(1)
	return store.ListAfter(ctx, c.Store, prefix, after)
}

// Watch is as in store.Watcher.
func (c *Counted) Watch(ctx context.Context, names []string) (<-chan struct{}, error) {
	w, ok := store.As[store.Watcher](c.Store)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	c.trips.Add(1)
	return w.Watch(ctx, names)
}

// Queue is as in store.Queuer.
func (c *Counted) Queue(ctx context.Context, claim store.Claim) (store.Grant, time.Duration, error) {
	q, ok := store.As[store.Queuer](c.Store)
	if !ok {
		return store.Grant{}, 0, errors.ErrUnsupported
	}
	c.trips.Add(1)
	return q.Queue(ctx, claim)
}

// Leave is as in store.Queuer.
func (c *Counted) Leave(ctx context.Context, name, holder string) (bool, error) {
	q, ok := store.As[store.Queuer](c.Store)
	if !ok {
		return false, errors.ErrUnsupported
	}
	c.trips.Add(1)
	return q.Leave(ctx, name, holder)
}

// Choose is as in store.Chooser.
func (c *Counted) Choose(ctx context.Context, names []string, claim store.Claim) (int, store.Grant, error) {
	ch, ok := store.As[store.Chooser](c.Store)
	if !ok {
		return 0, store.Grant{}, errors.ErrUnsupported
	}
	c.trips.Add(1)
	return ch.Choose(ctx, names, claim)
}
