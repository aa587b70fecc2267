package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"time"

	"github.com/soloist-dev/soloist/store"
)

var fillLaws = []law{
	{name: "fill-makes", needs: []need{fills}, check: fillMakes,
		rule: "Fill makes the record of a name that has none: free, with the mark and the state, as a release leaves it, and the next grant has them and a greater token."},
	{name: "fill-leaves", needs: []need{fills}, check: fillLeaves,
		rule: "Fill leaves what has a record as it is, be it held, lingering, released or abandoned, and reports that it made none."},
	{name: "fill-retains", needs: []need{fills, sweeps}, check: fillRetains,
		rule: "A record that Fill has made is kept for its Retain, and may be forgotten after that."},
	{name: "fill-tokens", needs: []need{fills, raises, sweeps}, check: fillTokens,
		rule: "The token of a record that Fill has made is greater than those of forgotten grants of its name."},
	{name: "fill-batch", needs: []need{fills}, check: fillBatch,
		rule: "Each filling of a batch is decided on its own, in the order of the batch."},
	{name: "fill-checks", needs: []need{fills}, check: fillChecks,
		rule: "Fill refuses a batch with an invalid name, mark, state or Retain with an *InvalidError, and makes no record of it."},
	{name: "fill-crowd", needs: []need{fills}, check: fillCrowd,
		rule: "Among claims and fillings of one new name one is first: a filling that made the record, or a claim that was granted without its mark."},
}

// fill fills names, and returns which were made.
func (s *subject) fill(fillings ...store.Filling) []bool {
	made, err := as[store.Filler](s).Fill(s.ctx, fillings)
	for i, f := range fillings {
		said := tell(err)
		if err == nil && i < len(made) {
			said = fmt.Sprint(made[i])
		}
		s.did("%sFill %.80q, mark %d, state %s, retain %s: %s", s.label, f.Name, f.Mark, tellState(f.State), tellRetain(f.Retain), said)
	}
	if err != nil || len(made) != len(fillings) {
		s.fail(fmt.Sprintf("%d answers, error %s", len(made), tell(err)), "%d answers, error nil", len(fillings))
	}
	return made
}

// filled fills a name that must have no record. It tries again, for a store may leave out what others are working on.
func (s *subject) filled(f store.Filling) {
	s.until(fmt.Sprintf("a record of %.80q is made", f.Name), func() bool { return s.fill(f)[0] })
}

// unfilled tries to fill names that must have records, and checks that these stay as they are.
func (s *subject) unfilled(names ...string) {
	for _, name := range names {
		before := s.record(name)
		if s.fill(store.Filling{Name: name, Mark: before.Mark + 1, State: []byte("filled"), Retain: store.Forever})[0] {
			s.fail("true", "false: %.80q has a record", name)
		}
		after := s.record(name)
		s.same(before, after)
		if after.Left > before.Left+minute || after.Left < before.Left-minute {
			s.fail(fmt.Sprintf("left %v", after.Left), "about as before: %v", before.Left)
		}
	}
}

func fillMakes(s *subject) {
	full, bare := s.name(), s.name()
	s.filled(store.Filling{Name: full, Mark: 5, State: []byte("state"), Retain: store.Forever})
	s.filled(store.Filling{Name: bare, Retain: store.Forever})
	for name, want := range map[string]store.Record{full: {Mark: 5, State: []byte("state")}, bare: {}} {
		r := s.record(name)
		if r.Holder != "" || r.Token <= 0 || r.Mark != want.Mark || string(r.State) != string(want.State) || !r.Free() {
			s.fail(sketch(r), "a free record without a holder, with a token, mark %d and state %q", want.Mark, want.State)
		}
		s.done(store.Claim{Name: name, Holder: "a", TTL: hour, Mark: -1})
		l := s.take(name, "a", hour)
		s.grown(lease{Grant: store.Grant{Token: r.Token}}, l)
		if l.Mark != want.Mark || string(l.State) != string(want.State) || l.ExpiredAge != 0 {
			s.fail(answer(store.Outcome{Grant: l.Grant}), "mark %d, state %q, and no lease that expired", want.Mark, want.State)
		}
		s.held(claim(name, "b", hour))
		s.released(l.ending())
	}
	s.done(marked(full, "b", 5))
}

func fillLeaves(s *subject) {
	held, lingering, released, bare, dead := s.name(), s.name(), s.name(), s.name(), s.name()
	l := s.take(held, "a", hour)
	r := s.take(lingering, "a", hour).leaving(3, []byte("left"))
	r.Linger = hour
	s.released(r)
	s.released(s.take(released, "a", hour).leaving(3, []byte("left")))
	s.released(s.take(bare, "a", hour).ending())
	s.abandoned(dead, "a")
	s.unfilled(held, lingering, released, bare, dead)
	s.held(claim(held, "b", hour))
	s.held(claim(lingering, "b", hour))
	s.released(l.ending())
	if l := s.take(dead, "b", hour); l.ExpiredAge <= 0 {
		s.fail(answer(store.Outcome{Grant: l.Grant}), "a grant that says that the lease before expired")
	}
}

func fillRetains(s *subject) {
	now, later, forever := s.name(), s.name(), s.name()
	s.filled(store.Filling{Name: forever, Mark: 5, State: []byte("state"), Retain: store.Forever})
	s.filled(store.Filling{Name: later, Mark: 5, State: []byte("state"), Retain: hour})
	s.filled(store.Filling{Name: now, Mark: 5, State: []byte("state")})
	one, two := s.record(forever), s.record(later)
	s.forgotten(now)
	s.kept(one)
	s.kept(two)
	if l := s.granted(marked(now, "b", 1)); l.Mark != 0 || len(l.State) > 0 {
		s.fail(answer(store.Outcome{Grant: l.Grant}), "a grant that knows of nothing before it")
	}
}

func fillTokens(s *subject) {
	name := s.name()
	last := s.granted(above(name, "a", ahead))
	s.sweepAway(last)
	s.filled(store.Filling{Name: name, Retain: store.Forever})
	made := lease{Grant: store.Grant{Token: s.record(name).Token}}
	s.grown(last, made)
	s.grown(made, s.take(name, "b", hour))
}

func fillBatch(s *subject) {
	used := s.name()
	l := s.take(used, "a", hour)
	fillings := make([]store.Filling, 40)
	for i := range fillings {
		fillings[i] = store.Filling{Name: fmt.Sprintf("filled %d", (i*7)%40), Mark: int64(i + 1), State: fmt.Append(nil, "state ", i), Retain: store.Forever}
	}
	fillings[20].Name = used
	again := fillings[3]
	again.Mark, again.State = 99, []byte("the second of a name")
	fillings = append(fillings, again)
	if made := s.fill(); len(made) != 0 {
		s.fail(fmt.Sprintf("%d answers", len(made)), "none")
	}
	for i, made := range s.fill(fillings...) {
		if want := i != 20 && i != 40; made != want {
			s.fail(fmt.Sprintf("%t for number %d", made, i), "%t", want)
		}
	}
	for i, f := range fillings[:40] {
		if r := s.record(f.Name); i != 20 && (r.Mark != f.Mark || string(r.State) != string(f.State)) {
			s.fail(sketch(r), "mark %d, state %q", f.Mark, f.State)
		}
	}
	if r := s.record(used); r.Mark != 0 || r.Token != l.Token || r.Free() {
		s.fail(sketch(r), "it as it was")
	}
}

func fillChecks(s *subject) {
	good := store.Filling{Name: "good", Retain: store.Forever}
	for _, change := range []func(*store.Filling){
		func(f *store.Filling) { f.Name = "" },
		func(f *store.Filling) { f.Name = strings.Repeat("x", store.MaxName+1) },
		func(f *store.Filling) { f.Name = "a\x00b" },
		func(f *store.Filling) { f.Name = "a\xff" },
		func(f *store.Filling) { f.Mark = -1 },
		func(f *store.Filling) { f.State = make([]byte, store.MaxState+1) },
		func(f *store.Filling) { f.Retain = -time.Nanosecond },
	} {
		bad := good
		bad.Name = "bad"
		change(&bad)
		made, err := as[store.Filler](s).Fill(s.ctx, []store.Filling{good, bad})
		s.did("%sFill of a good one and %.80q, mark %d, a state of %d bytes, retain %v: %s", s.label, bad.Name, bad.Mark, len(bad.State), bad.Retain, tell(err))
		s.invalid(err, "the second filling")
		if made != nil || len(s.records("")) != 0 {
			s.fail(fmt.Sprintf("answers %v and %d records", made, len(s.records(""))), "neither")
		}
	}
	s.filled(store.Filling{Name: "good", Mark: math.MaxInt64, State: make([]byte, store.MaxState), Retain: store.Forever})
}

// fillCrowd has callers that fill new names while others claim them.
func fillCrowd(s *subject) {
	const names, callers = 20, 16
	const mark = 7
	subjects := s.clients(4)
	for k := range names {
		name := fmt.Sprintf("new %d", k)
		var made, unmarked atomic.Int64
		s.together(callers, func(ctx context.Context, i int) error {
			mine := subjects[i%len(subjects)]
			breathe() // so that sometimes the one and sometimes the other comes first
			if i%2 == 0 {
				answers, err := as[store.Filler](mine).Fill(ctx, []store.Filling{{Name: name, Mark: mark, Retain: store.Forever}})
				if err == nil && answers[0] {
					made.Add(1)
				}
				return err
			}
			holder := fmt.Sprint("caller ", i)
			grant, err := mine.asked(ctx, claim(name, holder, hour))
			for errors.Is(err, store.ErrHeld) {
				breathe()
				grant, err = mine.asked(ctx, claim(name, holder, hour))
			}
			if err != nil {
				return err
			}
			if grant.Mark == 0 {
				unmarked.Add(1)
			}
			return mine.left(ctx, lease{grant, name, holder})
		})
		r := s.record(name)
		n, m := made.Load(), unmarked.Load()
		if n > 1 || (r.Mark == mark) != (n == 1) || n == 1 && m > 0 {
			s.fail(fmt.Sprintf("%d fillings that made the record, %d grants without its mark, and mark %d at last", n, m, r.Mark),
				"one filling, and all grants and the record with its mark, or none and no mark")
		}
	}
}
