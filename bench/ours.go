package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store"
)

// namespace is where ours keeps what it makes; the servers are the benchmark's own.
const namespace = "bench"

// oursOn is this project's client on a store.
func oursOn(open func(ctx context.Context, url string) (store.Store, error)) spec {
	return spec{name: "soloist", cases: "ABCDE", ours: true, open: func(ctx context.Context, url string, ttl time.Duration) (contender, error) {
		s, err := open(ctx, url)
		if err != nil {
			return nil, err
		}
		c, err := soloist.New(s, soloist.Config{Namespace: namespace, TTL: ttl, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		return ours{c, s}, nil
	}}
}

type ours struct {
	client *soloist.Client
	store  store.Store
}

func (o ours) Try(ctx context.Context, name string) (hold, error) {
	l, err := o.client.TryLock(ctx, name)
	if errors.Is(err, soloist.ErrHeld) {
		err = errHeld
	}
	return holdOf(l), err
}

func (o ours) Lock(ctx context.Context, name string) (hold, error) {
	l, err := o.client.Lock(ctx, name)
	return holdOf(l), err
}

func (o ours) Close() {
	_ = o.client.Close()
	_ = o.store.Close()
}

func holdOf(l *soloist.Lease) hold {
	if l == nil {
		return hold{}
	}
	return hold{unlock: l.Release}
}

// migrated is open for a store whose schema has to be made.
func migrated(ctx context.Context, s store.Store, err error) (store.Store, error) {
	if err != nil {
		return nil, err
	}
	if m, ok := store.As[store.Migrator](s); ok {
		if _, err := m.Migrate(ctx); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}
