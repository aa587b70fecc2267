package move

import (
	"context"
	"errors"

	"github.com/soloist-dev/soloist/store"
)

// Watch implements store.Watcher, if both stores do: a name is free when it is free in both.
func (b *both) Watch(ctx context.Context, names []string) (<-chan struct{}, error) {
	t, ok := store.As[store.Watcher](b.truth)
	s, too := store.As[store.Watcher](b.shadow)
	if !ok || !too {
		return nil, errors.ErrUnsupported
	}
	if err := store.CheckNames(names); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	first, err := t.Watch(ctx, names)
	if err != nil {
		cancel()
		return nil, err
	}
	second, err := s.Watch(ctx, names)
	if err != nil {
		cancel()
		return nil, err
	}
	wake := make(chan struct{}, 1)
	go forward(first, second, wake, cancel)
	return wake, nil
}

// forward passes on what comes from two watches until one of them ends. Then it ends the other one, waits for that, and closes wake.
func forward(first, second <-chan struct{}, wake chan<- struct{}, cancel context.CancelFunc) {
	defer close(wake)
	for {
		ok := true
		select {
		case _, ok = <-first:
		case _, ok = <-second:
		}
		if !ok {
			break
		}
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	cancel()
	for range first {
	}
	for range second {
	}
}
