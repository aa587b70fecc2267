package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/soloist-dev/soloist/store"
)

var crowdLaws = []law{
	{name: "crowd-excludes", check: crowdExcludes,
		rule: "Of many holders at once one at a time is inside: what each reads, changes and writes under its lease is never lost."},
	{name: "crowd-one-winner", check: crowdOneWinner,
		rule: "Of many holders that ask for a free name at the same time exactly one gets it."},
	{name: "handles-share", needs: []need{reopening}, check: handlesShare,
		rule: "Handles on the same data see the same leases, and a lease can be extended and released by another handle."},
}

const crowd = 64 // goroutines

// A tally is changed by the holder of its name, in steps that would lose changes if two holders did it concurrently.
// The loads and stores are atomic only because of the memory model, since a lease in a store does not synchronize
// memory.
type tally struct{ count, token atomic.Int64 }

func (t *tally) change(token int64) error {
	if last := t.token.Load(); token <= last {
		return fmt.Errorf("token %d inside after token %d", token, last)
	}
	n := t.count.Load()
	runtime.Gosched()
	time.Sleep(time.Duration(rand.IntN(300)) * time.Microsecond)
	t.token.Store(token)
	t.count.Store(n + 1)
	return nil
}

func crowdExcludes(s *subject) {
	const names, turns = 8, 3
	subjects := []*subject{s}
	if s.h.Reopen != nil {
		subjects = append(subjects, s.reopen())
	}
	var tallies [names]tally
	s.did("%d goroutines changed %d tallies, each under the lease of its name", crowd, names)
	s.together(crowd, func(ctx context.Context, i int) error {
		mine := subjects[i%len(subjects)]
		for turn := range turns {
			k := (i + turn) % names
			holder := fmt.Sprintf("goroutine %d turn %d", i, turn)
			if err := mine.inside(ctx, fmt.Sprintf("tally %d", k), holder, tallies[k].change); err != nil {
				return fmt.Errorf("%s: %w", holder, err)
			}
		}
		return nil
	})
	for k := range tallies {
		if got := tallies[k].count.Load(); got != crowd*turns/names {
			s.fail(fmt.Sprintf("tally %d at %d", k, got), "%d, as often as it was changed", crowd*turns/names)
		}
	}
}

// inside waits for a name, calls f while holding it, and releases it. It is safe in any goroutine.
func (s *subject) inside(ctx context.Context, name, holder string, f func(token int64) error) error {
	for {
		if err := ctx.Err(); err != nil { // checked here too: a store that ignores contexts must not be called forever
			return err
		}
		out, err := s.Acquire(ctx, []store.Claim{claim(name, holder, hour)})
		if err != nil {
			return err
		}
		if errors.Is(out[0].Err, store.ErrHeld) {
			time.Sleep(time.Millisecond + time.Duration(rand.IntN(2000))*time.Microsecond)
			continue
		}
		if out[0].Err != nil {
			return out[0].Err
		}
		if err := f(out[0].Grant.Token); err != nil {
			return err
		}
		errs, err := s.Release(ctx, []store.Release{lease{out[0].Grant, name, holder}.ending()})
		return errors.Join(append(errs, err)...)
	}
}

func crowdOneWinner(s *subject) {
	for range 5 {
		name := s.name()
		var winners atomic.Int64
		s.did("%d goroutines asked for %q", crowd, name)
		s.together(crowd, func(ctx context.Context, i int) error {
			out, err := s.Acquire(ctx, []store.Claim{claim(name, fmt.Sprintf("holder %d", i), hour)})
			switch {
			case err != nil:
				return err
			case out[0].Err == nil:
				winners.Add(1)
				return nil
			case errors.Is(out[0].Err, store.ErrHeld):
				return nil
			}
			return out[0].Err
		})
		if n := winners.Load(); n != 1 {
			s.fail(fmt.Sprintf("%d holders", n), "1")
		}
	}
}

func handlesShare(s *subject) {
	other := s.reopen()
	name := s.name()
	l := s.take(name, "a", hour)
	if r := other.held(claim(name, "b", hour)); r.Holder != "a" || r.Token != l.Token {
		s.fail("a refusal with "+sketch(r), "holder %q, token %d", "a", l.Token)
	}
	if again := other.take(name, "a", hour); again.Token != l.Token {
		s.fail(fmt.Sprintf("token %d on the other handle", again.Token), "%d, the same grant", l.Token)
	}
	other.extended(l.extension(hour))
	other.released(l.leaving(5, []byte("state")))
	s.done(marked(name, "b", 5))
	b := s.take(name, "b", hour)
	s.grown(l, b)
	other.lost(other.release(l.ending()))
	s.extended(b.extension(hour))
	s.released(b.ending())
	other.take(name, "c", hour)
}
