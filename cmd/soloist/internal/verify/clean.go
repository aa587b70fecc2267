package verify

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/soloist-dev/soloist/internal/records"
	"github.com/soloist-dev/soloist/store"
)

// sweepAgain is how long to wait before the store is asked again to forget: one may leave alone what was granted a moment ago.
const sweepAgain = 1200 * time.Millisecond

// clean makes the store forget what a verification has left in it, and answers how many records stay.
func clean(ctx context.Context, s store.Store, namespace string) (int, error) {
	failed := func(left int, err error) (int, error) {
		return left, fmt.Errorf("removing what the verification has left: %w", err)
	}
	released := map[string]bool{}
	for {
		names, err := namesIn(ctx, s, namespace)
		if err != nil || len(names) == 0 {
			return len(names), err
		}
		todo := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return released[name] })
		wait, err := forget(ctx, s, todo, released)
		if err != nil {
			return failed(len(names), err)
		}
		sweeper, ok := store.As[store.Sweeper](s)
		if !ok && wait == 0 { // the backend forgets by itself
			return len(names), nil
		}
		for n := 1; ok && n > 0; {
			if n, err = sweeper.Sweep(ctx, 1000); err != nil {
				return failed(len(names), err)
			}
		}
		if left, err := namesIn(ctx, s, namespace); err != nil || len(left) == 0 {
			return len(left), err
		}
		if !sleep(ctx, max(wait, sweepAgain)) {
			return failed(len(names), ctx.Err())
		}
	}
}

func namesIn(ctx context.Context, s store.Store, namespace string) ([]string, error) {
	var names []string
	for r, err := range s.List(ctx, records.In(namespace)) {
		if err != nil {
			return nil, fmt.Errorf("listing what the verification has left: %w", err)
		}
		names = append(names, r.Name)
	}
	return names, nil
}

// forget releases all names with nothing to remember, and notes which it has. It answers how long the first of those is still taken that somebody has: a
// replica that was killed, or a request that came late.
func forget(ctx context.Context, s store.Store, names []string, released map[string]bool) (time.Duration, error) {
	const batch = 500
	var wait time.Duration
	holder := "verify#" + rand.Text()
	for ; len(names) > 0; names = names[min(batch, len(names)):] {
		var claims []store.Claim
		for _, name := range names[:min(batch, len(names))] {
			claims = append(claims, store.Claim{Name: name, Holder: holder, TTL: time.Minute})
		}
		outs, err := s.Acquire(ctx, claims)
		if err != nil {
			return 0, err
		}
		var releases []store.Release
		for i, out := range outs {
			var held *store.HeldError
			switch {
			case out.Err == nil:
				releases = append(releases, store.Release{Name: claims[i].Name, Holder: holder, Token: out.Grant.Token, State: []byte{}})
			case errors.As(out.Err, &held):
				if left := held.Record.Left + 10*time.Millisecond; wait == 0 || left < wait {
					wait = left
				}
			default:
				return 0, out.Err
			}
		}
		errs, err := s.Release(ctx, releases)
		if err != nil {
			return 0, err
		}
		for i, err := range errs {
			released[releases[i].Name] = err == nil
		}
	}
	return wait, nil
}
