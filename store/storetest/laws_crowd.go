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
		rule: "Of a hundred that ask for a free name at the same time exactly one gets it, each time that it is free, with a greater token each time."},
	{name: "handles-share", needs: []need{reopening}, check: handlesShare,
		rule: "Handles on the same data see the same leases, and a lease can be extended and released by another handle."},
	{name: "handles-look-again", needs: []need{reopening}, check: handlesLookAgain,
		rule: "A claim is decided by what the name has when it arrives, not by what its handle remembers: the lease, the linger, the token, the mark and the state that another handle has left since."},
}

const (
	crowd = 64  // goroutines
	race  = 100 // goroutines, each of which asks for the same name
)

// clients returns up to n handles on the same data, or s alone if it cannot be opened again.
func (s *subject) clients(n int) []*subject {
	handles := []*subject{s}
	for s.h.Reopen != nil && len(handles) < n {
		handles = append(handles, s.reopen())
	}
	return handles
}

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
	subjects := s.clients(2)
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
		grant, err := s.asked(ctx, claim(name, holder, hour))
		if errors.Is(err, store.ErrHeld) {
			breathe()
			continue
		}
		if err != nil {
			return err
		}
		if err := f(grant.Token); err != nil {
			return err
		}
		return s.left(ctx, lease{grant, name, holder})
	}
}

// breathe waits a little before the next request.
func breathe() { time.Sleep(time.Millisecond + rand.N(2*time.Millisecond)) }

// asked makes a claim, again while its outcome is unknown: it may have been granted then, and a claim by who holds the name is granted again. It is safe in any goroutine.
func (s *subject) asked(ctx context.Context, c store.Claim) (store.Grant, error) {
	for {
		if err := ctx.Err(); err != nil { // checked here too: a store that ignores contexts must not be called forever
			return store.Grant{}, err
		}
		out, err := s.Acquire(ctx, []store.Claim{c})
		if err == nil {
			err = out[0].Err
		}
		if err == nil {
			return out[0].Grant, nil
		}
		if !errors.Is(err, store.ErrUnknown) {
			return store.Grant{}, err
		}
		breathe()
	}
}

// left releases leases in one batch, those again whose outcome is unknown. Such a lease may be lost: to its own release. It is safe in any goroutine.
func (s *subject) left(ctx context.Context, leases ...lease) error {
	for unknown := false; ; unknown = true {
		if err := ctx.Err(); err != nil {
			return err
		}
		releases := make([]store.Release, len(leases))
		for i, l := range leases {
			releases[i] = l.ending()
		}
		errs, err := s.Release(ctx, releases)
		if err != nil && !errors.Is(err, store.ErrUnknown) {
			return err
		}
		if err == nil {
			var again []lease
			for i, err := range errs {
				switch {
				case errors.Is(err, store.ErrUnknown):
					again = append(again, leases[i])
				case err != nil && !(unknown && errors.Is(err, store.ErrLost)):
					return err
				}
			}
			if leases = again; len(leases) == 0 {
				return nil
			}
		}
		breathe()
	}
}

func crowdOneWinner(s *subject) {
	const names, turns = 2, 2
	handles := s.clients(4)
	for range names {
		name, last := s.name(), lease{}
		for turn := range turns {
			winners := make(chan lease, race)
			s.did("turn %d: %d goroutines on %d handles asked for %q", turn, race, len(handles), name)
			s.together(race, func(ctx context.Context, i int) error {
				holder := fmt.Sprintf("holder %d of turn %d", i, turn)
				grant, err := handles[i%len(handles)].asked(ctx, claim(name, holder, hour))
				if errors.Is(err, store.ErrHeld) {
					return nil
				}
				if err == nil {
					winners <- lease{grant, name, holder}
				}
				return err
			})
			if n := len(winners); n != 1 {
				s.fail(fmt.Sprintf("%d holders", n), "1")
			}
			won := <-winners
			if turn > 0 {
				s.grown(last, won)
			}
			if err := s.left(s.ctx, won); err != nil {
				s.fail(err, "the release of %q by %q", name, won.holder)
			}
			last = won
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

func handlesLookAgain(s *subject) {
	other := s.reopen()
	known := func() string { // returns a name that s remembers as free, and other has seen
		name := s.name()
		s.released(s.take(name, "a", hour).leaving(3, nil))
		other.released(other.take(name, "b", hour).leaving(3, nil))
		s.released(s.take(name, "a", hour).leaving(3, nil))
		return name
	}
	name := known()
	l := other.take(name, "b", hour)
	if r := s.held(claim(name, "c", hour)); r.Holder != "b" || r.Token != l.Token {
		s.fail("a refusal with "+sketch(r), "holder %q, token %d", "b", l.Token)
	}

	name = known()
	r := other.take(name, "b", hour).ending()
	r.Linger = hour
	other.released(r)
	if r := s.held(claim(name, "c", hour)); r.Holder != "" {
		s.fail("a refusal with "+sketch(r), "holder %q, while it lingers", "")
	}

	name = known()
	last := other.take(name, "b", hour)
	other.released(last.leaving(7, []byte("state")))
	if r := s.done(marked(name, "c", 7)); r.Mark != 7 || r.Token != last.Token {
		s.fail("done with "+sketch(r), "mark 7, token %d", last.Token)
	}

	for i, c := range []store.Claim{claim(known(), "c", hour), marked(known(), "c", 8)} {
		state := fmt.Sprint("state ", i)
		for range 3 {
			last = other.take(c.Name, "b", hour)
			other.released(last.leaving(7, []byte(state)))
		}
		g := s.granted(c)
		s.grown(last, g)
		if g.Mark != 7 || string(g.State) != state {
			s.fail(fmt.Sprintf("a grant with mark %d and state %q", g.Mark, g.State), "mark 7 and %q, which the release before has left", state)
		}
	}
}
