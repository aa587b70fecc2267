package load

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/soloist-dev/soloist/internal/records"
	"github.com/soloist-dev/soloist/store"
)

// cleanBatch is how many names are released in one request.
const cleanBatch = 500

// Some stores forget a record only some time after its last grant. So Clean sweeps again after cleanPause, until this
// many sweeps in a row have found nothing.
const (
	cleanPause = 100 * time.Millisecond
	cleanVain  = 100
)

// A request may fail, or have an unknown outcome, once in a while: Clean begins again after cleanPause, so many times in a row.
const cleanFailures = 30

// Clean makes the store forget the records of a namespace, and returns how many remain: those that the backend will
// forget later by itself. It waits for leases that are still held.
func Clean(ctx context.Context, s store.Store, namespace string) (left int, err error) {
	for range cleanFailures {
		if left, err = clean(ctx, s, namespace); err == nil || !sleep(ctx, cleanPause) {
			break
		}
	}
	return left, err
}

func clean(ctx context.Context, s store.Store, namespace string) (int, error) {
	given := map[string]bool{} // released, with nothing to remember; a new grant would make the record young again
	sweeper, sweeps := store.As[store.Sweeper](s)
	for {
		var names []string
		all := 0
		for r, err := range s.List(ctx, records.In(namespace)) {
			if err != nil {
				return 0, fmt.Errorf("listing what is to be removed: %w", err)
			}
			all++
			if !given[r.Name] {
				names = append(names, r.Name)
			}
		}
		if all == 0 || len(names) == 0 && !sweeps {
			return all, nil
		}
		wait, err := forget(ctx, s, names, given)
		if err == nil && sweeps && wait == 0 {
			return sweepAway(ctx, s, sweeper, namespace)
		}
		if err != nil {
			return all, fmt.Errorf("removing what was made: %w", err)
		}
		if !sleep(ctx, wait) {
			return all, context.Cause(ctx)
		}
	}
}

// sweepAway sweeps until no record of a namespace is left, or nothing more is forgotten.
func sweepAway(ctx context.Context, s store.Store, sweeper store.Sweeper, namespace string) (left int, err error) {
	for vain := 0; ; vain++ {
		n, err := sweeper.Sweep(ctx, 1000)
		if err != nil && !errors.Is(err, errors.ErrUnsupported) { // ErrUnsupported: the backend forgets by itself
			return left, fmt.Errorf("removing what was made: %w", err)
		}
		if n > 0 {
			vain = -1
			continue
		}
		left = 0
		for _, err := range s.List(ctx, records.In(namespace)) {
			if err != nil {
				return left, fmt.Errorf("listing what is to be removed: %w", err)
			}
			left++
		}
		if left == 0 || vain == cleanVain {
			return left, nil
		}
		if !sleep(ctx, cleanPause) {
			return left, context.Cause(ctx)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// forget releases names with nothing to remember, and adds them to given. It returns the time until the first name that
// is still held is free, or 0 if none is held.
func forget(ctx context.Context, s store.Store, names []string, given map[string]bool) (wait time.Duration, err error) {
	holder := "load#" + rand.Text()
	for ; len(names) > 0; names = names[min(cleanBatch, len(names)):] {
		var claims []store.Claim
		for _, name := range names[:min(cleanBatch, len(names))] {
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
				if d := held.Record.Left + 10*time.Millisecond; wait == 0 || d < wait {
					wait = d
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
			if given[releases[i].Name] = err == nil; err != nil {
				wait = max(wait, 10*time.Millisecond) // look again
			}
		}
	}
	return wait, nil
}
