//go:build unix

package failover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"
)

// A fleet is processes that take the same names in batches. It sees who has them.
type fleet struct {
	t      Test
	names  []string
	inside []atomic.Bool
	tokens []atomic.Int64 // the greatest that was granted
	done   atomic.Int64   // grants that were released
	said   atomic.Value   // string: the last error of a request, which a check that waits in vain reports
}

func newFleet(t Test, names int) *fleet {
	f := &fleet{t: t, inside: make([]atomic.Bool, names), tokens: make([]atomic.Int64, names)}
	for i := range names {
		f.names = append(f.names, fmt.Sprint("name-", i))
	}
	return f
}

// run has one process a server take and give until the function that it returns is called, or the test ends.
func (f *fleet) run(c Cluster) (end func()) {
	ctx, cancel := context.WithCancel(background)
	var over atomic.Bool
	var wait sync.WaitGroup
	for p := range c.Servers {
		s := c.Open(p)
		wait.Go(func() {
			for round := 0; !over.Load() && ctx.Err() == nil; round++ {
				f.give(ctx, s, f.take(ctx, s, fmt.Sprint(p, "/", round)))
			}
		})
	}
	f.t.Cleanup(func() {
		cancel()
		wait.Wait()
		if said := f.said.Load(); !over.Load() && said != nil {
			f.t.Logf("the last error of a request: %v", said)
		}
	})
	return func() { over.Store(true); wait.Wait() }
}

// more waits for grants.
func (f *fleet) more(when string) {
	f.t.Helper()
	from, began := f.done.Load(), time.Now()
	servers.Wait(f.t, "grants "+when, func() bool { return f.done.Load() >= from+3*int64(len(f.names)) })
	f.t.Logf("%d grants in %v %s", f.done.Load()-from, time.Since(began).Round(time.Millisecond), when)
}

// take claims all names in one batch, and repeats what is not known until it is. It returns what was granted.
func (f *fleet) take(ctx context.Context, on store.Store, holder string) (granted []store.Release) {
	var claims []store.Claim
	for _, name := range f.names {
		claims = append(claims, store.Claim{Name: name, Holder: holder, TTL: time.Hour})
	}
	for attempt := 1; len(claims) > 0 && ctx.Err() == nil; attempt++ {
		var outcomes []store.Outcome
		f.note(within(ctx, attempt, func(ctx context.Context) (err error) { outcomes, err = on.Acquire(ctx, claims); return err }))
		claims = left(claims, outcomes, func(c store.Claim, o store.Outcome) (known bool) {
			if o.Err == nil {
				f.enter(c.Name, o.Grant.Token)
				granted = append(granted, store.Release{Name: c.Name, Holder: holder, Token: o.Grant.Token, Retain: store.Forever})
			}
			f.note(o.Err)
			return o.Err == nil || errors.Is(o.Err, store.ErrHeld)
		})
	}
	return granted
}

// give releases all that was granted in one batch, and repeats what is not known until it is.
func (f *fleet) give(ctx context.Context, on store.Store, granted []store.Release) {
	for _, r := range granted {
		f.inside[slices.Index(f.names, r.Name)].Store(false)
	}
	for attempt := 1; len(granted) > 0 && ctx.Err() == nil; attempt++ {
		var errs []error
		f.note(within(ctx, attempt, func(ctx context.Context) (err error) { errs, err = on.Release(ctx, granted); return err }))
		granted = left(granted, errs, func(r store.Release, err error) (known bool) {
			switch {
			case err == nil, attempt > 1 && errors.Is(err, store.ErrLost): // another holder has it already, after the release that was not known
				f.done.Add(1)
			case errors.Is(err, store.ErrLost):
				f.t.Errorf("%s was lost", r.Name)
			default:
				f.note(err)
				return false
			}
			return true
		})
	}
}

func (f *fleet) note(err error) {
	if err != nil {
		f.said.Store(err.Error())
	}
}

// left returns the requests of a batch whose results are not known. Without results, none is.
func left[R, A any](requests []R, results []A, known func(R, A) bool) (unknown []R) {
	if len(results) == 0 {
		return requests
	}
	for i, r := range requests {
		if !known(r, results[i]) {
			unknown = append(unknown, r)
		}
	}
	return unknown
}

// enter notes a grant, which must be the only one of its name, and have the greatest token.
func (f *fleet) enter(name string, token int64) {
	i := slices.Index(f.names, name)
	if !f.inside[i].CompareAndSwap(false, true) {
		f.t.Errorf("%s has two holders", name)
	}
	if before := f.tokens[i].Swap(token); token <= before {
		f.t.Errorf("%s was granted with token %d after %d", name, token, before)
	}
}
