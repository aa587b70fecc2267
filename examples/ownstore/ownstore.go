// Package ownstore is an example of a store of one's own. It is made of another store and counts the round trips to it; see
// docs/writing-a-store.md for what a store on a backend has to do.
package ownstore

import (
	"context"
	"iter"
	"sync/atomic"

	"github.com/soloist-dev/soloist/store"
)

// A Counted store passes everything on and counts the calls.
type Counted struct {
	of    store.Store
	trips atomic.Int64
}

var _ store.Store = (*Counted)(nil)

// New makes a store of s that counts. Close closes s.
func New(s store.Store) *Counted { return &Counted{of: s} }

// Trips answers how many calls have been made.
func (c *Counted) Trips() int64 { return c.trips.Load() }

// Acquire is as in store.Store.
func (c *Counted) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	c.trips.Add(1)
	return c.of.Acquire(ctx, claims)
}

// Extend is as in store.Store.
func (c *Counted) Extend(ctx context.Context, extensions []store.Extension) ([]error, error) {
	c.trips.Add(1)
	return c.of.Extend(ctx, extensions)
}

// Release is as in store.Store.
func (c *Counted) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	c.trips.Add(1)
	return c.of.Release(ctx, releases)
}

// List is as in store.Store.
func (c *Counted) List(ctx context.Context, prefix string) iter.Seq2[store.Record, error] {
	c.trips.Add(1)
	return c.of.List(ctx, prefix)
}

// Close is as in store.Store.
func (c *Counted) Close() error { return c.of.Close() }
