package load

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// cleanBatch is how many names are given back in one request.
const cleanBatch = 500

// Clean makes the store forget what is under a namespace, and answers how many records stay: those that the backend will forget by itself.
// It waits for leases that somebody still has.
func Clean(ctx context.Context, s store.Store, namespace string) (int, error) {
	for {
		var names []string
		for r, err := range s.List(ctx, namespace+"/") {
			if err != nil {
				return 0, fmt.Errorf("listing what is to be removed: %w", err)
			}
			names = append(names, r.Name)
		}
		if len(names) == 0 {
			return 0, nil
		}
		left, wait, err := forget(ctx, s, names)
		if err != nil {
			return len(names), fmt.Errorf("removing what was made: %w", err)
		}
		sweeper, ok := s.(store.Sweeper)
		for n := 1; ok && n > 0; {
			if n, err = sweeper.Sweep(ctx, 1000); err != nil {
				return len(names), fmt.Errorf("removing what was made: %w", err)
			}
		}
		if left == 0 && !ok {
			return len(names), nil
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return len(names), ctx.Err()
		}
	}
}

// forget gives all names back with nothing to remember. It answers how many somebody has, and how long the first of those.
func forget(ctx context.Context, s store.Store, names []string) (left int, wait time.Duration, err error) {
	holder := "load#" + rand.Text()
	for ; len(names) > 0; names = names[min(cleanBatch, len(names)):] {
		var claims []store.Claim
		for _, name := range names[:min(cleanBatch, len(names))] {
			claims = append(claims, store.Claim{Name: name, Holder: holder, TTL: time.Minute})
		}
		outs, err := s.Acquire(ctx, claims)
		if err != nil {
			return 0, 0, err
		}
		var releases []store.Release
		for i, out := range outs {
			var held *store.HeldError
			switch {
			case out.Err == nil:
				releases = append(releases, store.Release{Name: claims[i].Name, Holder: holder, Token: out.Grant.Token, State: []byte{}})
			case errors.As(out.Err, &held):
				left++
				if d := held.Record.Left + 10*time.Millisecond; wait == 0 || d < wait {
					wait = d
				}
			default:
				return 0, 0, out.Err
			}
		}
		if _, err := s.Release(ctx, releases); err != nil {
			return 0, 0, err
		}
	}
	return left, wait, nil
}
