package storetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// A need returns why a law cannot be checked, or "".
type need func(Harness, store.Store) string

func reopening(h Harness, _ store.Store) string {
	if h.Reopen == nil {
		return "the harness has no Reopen"
	}
	return ""
}

func timed(h Harness, _ store.Store) string {
	if !h.TimedTokens {
		return "the harness does not say that tokens are at least the time"
	}
	return ""
}

// The needs of laws about what not every store can do.
var (
	sweeps = supports(func(ctx context.Context, s store.Sweeper) error {
		_, err := s.Sweep(ctx, 1)
		return err
	})
	watches = supports(func(ctx context.Context, w store.Watcher) error {
		_, err := w.Watch(ctx, []string{"is it a watcher"})
		return err
	})
	chooses = supports(func(ctx context.Context, c store.Chooser) error {
		_, _, err := c.Choose(ctx, []string{"is it a chooser"}, store.Claim{}) // an invalid claim, which acquires nothing
		return err
	})
	queues = supports(func(ctx context.Context, q store.Queuer) error {
		_, _, err := q.Queue(ctx, claim("is it a queuer", "probe", time.Second))
		return err
	})
	fills = supports(func(ctx context.Context, f store.Filler) error {
		_, err := f.Fill(ctx, nil)
		return err
	})
	raises = supports(func(ctx context.Context, s store.Store) error {
		c := claim("does it raise tokens", "probe", time.Second)
		c.Above = ahead
		out, err := s.Acquire(ctx, []store.Claim{c})
		if err == nil && len(out) == 1 {
			err = out[0].Err
		}
		return err
	})
	pages = supports(func(ctx context.Context, p store.Pager) error {
		for _, err := range p.ListAfter(ctx, "", "\xff") {
			return err
		}
		return nil
	})
	pings  = supports(func(ctx context.Context, p store.Pinger) error { return p.Ping(ctx) })
	probes = supports(func(ctx context.Context, p store.Prober) error {
		_, err := p.Capabilities(ctx)
		return err
	})
)

// supports is the need of an optional interface whose calls do not return errors.ErrUnsupported. try makes one of them.
func supports[T any](try func(context.Context, T) error) need {
	return func(_ Harness, s store.Store) string {
		t, ok := store.As[T](s)
		if !ok {
			return fmt.Sprintf("the store is no %v", reflect.TypeFor[T]())
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := try(ctx, t); errors.Is(err, errors.ErrUnsupported) {
			return fmt.Sprintf("%v: %v", reflect.TypeFor[T](), err)
		}
		return ""
	}
}

// as returns an optional interface of the store, which must have it.
func as[T any](s *subject) T {
	t, _ := store.As[T](s.Store)
	return t
}
