package natsstore

import (
	"context"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
)

// watchLatest is how long subscribing takes at most if the context has no deadline.
const watchLatest = 30 * time.Second

// Watch implements store.Watcher. The leader of the stream reports what it has stored. A new leader may not have reported what the one before it has stored, so its election
// sends a value, too.
func (s *Store) Watch(ctx context.Context, names []string) (<-chan struct{}, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	l, err := s.backend.link(ctx)
	if err != nil {
		return nil, err
	}
	life := l.life()
	wake := make(chan struct{}, 1)
	subscriptions, err := s.subscribe(ctx, l, names, wake)
	if err != nil {
		unsubscribe(subscriptions)
		return nil, wrap("watching", err)
	}
	out := make(chan struct{})
	s.work.Go(func() {
		defer close(out)
		defer unsubscribe(subscriptions)
		s.forward(ctx, life, wake, out)
	})
	return out, nil
}

// forward passes values on until ctx, the connection or the store ends.
func (s *Store) forward(ctx, life context.Context, wake <-chan struct{}, out chan<- struct{}) {
	var to chan<- struct{} // nil while there is nothing to pass on
	for {
		select {
		case <-wake:
			to = out
		case to <- struct{}{}:
			to = nil
		case <-ctx.Done():
			return
		case <-life.Done():
			return
		case <-s.closed:
			return
		}
	}
}

// subscribe returns when the server has subscribed to the releases of names.
func (s *Store) subscribe(ctx context.Context, l *link, names []string, wake chan<- struct{}) (all []*nats.Subscription, err error) {
	b := s.backend
	notify := func() {
		select {
		case wake <- struct{}{}:
		default: // there is one that was not received
		}
	}
	subjects := []string{b.elected()}
	for _, name := range names {
		subjects = append(subjects, b.stored(keyOf(name)))
	}
	slices.Sort(subjects)
	before := l.nc.LastError()
	subjects = slices.Compact(subjects)
	for _, subject := range subjects {
		of, err := l.nc.Subscribe(subject, func(m *nats.Msg) {
			if m.Subject == b.elected() || m.Header.Get(headerReleased) != "" {
				notify()
			}
		})
		if err != nil {
			return all, err
		}
		all = append(all, of)
	}
	ctx, cancel := context.WithTimeout(ctx, watchLatest)
	defer cancel()
	if err := l.nc.FlushWithContext(ctx); err != nil {
		return all, err
	}
	for _, subject := range subjects {
		if err := l.denied(subject, before); err != nil {
			return all, err
		}
	}
	return all, nil
}

func unsubscribe(all []*nats.Subscription) {
	for _, one := range all {
		_ = one.Unsubscribe() // it fails if the connection is closed
	}
}
