package storetest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/soloist-dev/soloist/store"
)

var chooseLaws = []law{
	{name: "choose-first-free", needs: []need{chooses}, check: chooseFirstFree,
		rule: "Choose takes the first free name, in the order given, and returns its index."},
	{name: "choose-again", needs: []need{chooses}, check: chooseAgain,
		rule: "A holder that already has one of the names gets that grant again, even when an earlier name is free. One that it has released, and that lingers, it has not, nor one whose lease has ended."},
	{name: "choose-all-taken", needs: []need{chooses}, check: chooseAllTaken,
		rule: "When all names are taken, Choose returns the *HeldError of the one that would be free first, with its index."},
	{name: "choose-grants", needs: []need{chooses}, check: chooseGrants,
		rule: "A chosen name is granted as Acquire would: with a greater token, mark and state, for the TTL, and reports a lease that expired."},
	{name: "choose-checks", needs: []need{chooses}, check: chooseChecks,
		rule: "Choose refuses a mark, no names, an invalid name, holder or TTL with an *InvalidError, and takes nothing."},
	{name: "choose-crowd", needs: []need{chooses}, check: chooseCrowd,
		rule: "Among many that choose at once, no name has two holders and no free name is left while somebody is refused."},
}

// choose asks for one of several names.
func (s *subject) choose(names []string, holder string, ttl time.Duration) (int, store.Outcome) {
	i, grant, err := as[store.Chooser](s).Choose(s.ctx, names, store.Claim{Name: "ignored", Holder: holder, TTL: ttl})
	o := store.Outcome{Grant: grant, Err: err}
	s.did("%sChoose %.200q for %q, TTL %v: %d, %s", s.label, names, holder, ttl, i, answer(o))
	if err != nil && !errors.Is(err, store.ErrHeld) || i < 0 || i >= len(names) {
		s.fail(fmt.Sprintf("index %d, error %s", i, tell(err)), "an index of one of the names")
	}
	return i, o
}

// chosen chooses and checks which name it was.
func (s *subject) chosen(names []string, holder string, want int) lease {
	i, o := s.choose(names, holder, hour)
	if i != want || o.Err != nil {
		s.fail(fmt.Sprintf("index %d, %s", i, answer(o)), "a grant of %q, index %d", names[want], want)
	}
	return lease{o.Grant, names[i], holder}
}

func chooseFirstFree(s *subject) {
	names := []string{"slot 9", "slot 1", "slot 5"}
	first := s.chosen(names, "a", 0)
	if first.Mark != 0 || first.State != nil || first.ExpiredAge != 0 {
		s.fail(answer(store.Outcome{Grant: first.Grant}), "a grant of a name that nobody has had")
	}
	s.held(claim(names[0], "z", hour))
	second := s.chosen(names, "b", 1)
	s.chosen(names, "c", 2)
	s.released(second.ending())
	s.released(first.ending())
	s.chosen(names, "d", 0)
	s.take(names[1], "e", hour)
	if _, there := s.look("ignored"); there {
		s.fail("a record of the claim's Name", "none: Choose ignores it")
	}

	// A name that nobody has had is as free as one that was released.
	for _, kinds := range []string{"new used", "used new", "held new used", "held used new", "new held used", "used held new"} {
		want := -1
		var names []string
		for i, kind := range strings.Fields(kinds) {
			name := s.name()
			names = append(names, name)
			if kind != "held" && want < 0 {
				want = i
			}
			if kind == "new" {
				continue
			}
			if l := s.take(name, "before", hour); kind == "used" {
				s.released(l.ending())
			}
		}
		s.chosen(names, "a", want)
	}
}

func chooseAgain(s *subject) {
	names := []string{"slot 1", "slot 2", "slot 3"}
	a := s.chosen(names, "a", 0)
	b := s.chosen(names, "b", 1)
	s.released(a.ending())
	for range 2 {
		if again := s.chosen(names, "b", 1); again.Token != b.Token {
			s.fail(fmt.Sprintf("token %d", again.Token), "%d, the same grant", b.Token)
		}
	}
	if i, o := s.choose(names, "b", 9*hour); i != 1 || o.Err != nil {
		s.fail(fmt.Sprintf("index %d, %s", i, answer(o)), "index 1 again")
	}
	if left := s.record(names[1]).Left; left > hour+minute {
		s.fail(fmt.Sprintf("left %v", left), "about %v: asking again does not prolong", hour)
	}
	if _, o := s.choose(names[:1], "b", hour); o.Err != nil {
		s.fail(answer(o), "a grant: the name is free")
	}
	r := b.ending()
	r.Linger = hour
	s.released(r)
	s.chosen(names[1:], "b", 1)
	over := s.abandoned(s.name(), "b")
	s.chosen([]string{s.name(), over.name}, "b", 0)
}

func chooseAllTaken(s *subject) {
	names := []string{"slot 1", "slot 2", "slot 3", "slot 4"}
	s.take(names[0], "a", 3*hour)
	s.take(names[1], "b", 2*hour)
	c := s.take(names[2], "c", 4*hour)
	s.take(names[3], "d", 5*hour)
	s.refusesChoice(names, 1, "b", 2*hour)
	r := c.ending()
	r.Linger = hour
	s.released(r)
	s.refusesChoice(names, 2, "", hour)
}

func (s *subject) refusesChoice(names []string, index int, holder string, left time.Duration) {
	i, o := s.choose(names, "other", hour)
	var held *store.HeldError
	if i != index || !errors.As(o.Err, &held) {
		s.fail(fmt.Sprintf("index %d, %s", i, answer(o)), "index %d, a *HeldError", index)
	}
	r := held.Record
	if r.Name != names[index] || r.Holder != holder || r.Left < left-minute || r.Left > left+minute {
		s.fail(fmt.Sprintf("a refusal about %q with %s", r.Name, sketch(r)), "about %q, held by %q for about %v", names[index], holder, left)
	}
}

func chooseGrants(s *subject) {
	names := []string{"slot 1", "slot 2"}
	a := s.take(names[0], "a", hour)
	s.released(a.leaving(7, []byte("state")))
	b := s.chosen(names, "b", 0)
	s.grown(a, b)
	if b.Mark != 7 || string(b.State) != "state" {
		s.fail(answer(store.Outcome{Grant: b.Grant}), "mark 7, state %q", "state")
	}
	if r := s.record(names[0]); r.Holder != "b" || r.Token != b.Token || r.Left < hour-minute || r.Left > hour+minute {
		s.fail("a record with "+sketch(r), "holder %q, token %d, about %v left", "b", b.Token, hour)
	}
	s.extended(b.extension(hour))
	start := time.Now()
	s.abandoned(names[1], "dead")
	s.abandonedSince(start, s.chosen(names, "c", 1))
	s.released(b.ending())
}

func chooseChecks(s *subject) {
	for _, bent := range []struct {
		what  string
		names []string
		claim store.Claim
	}{
		{"no names", nil, claim("x", "a", hour)},
		{"a mark", []string{"slot 1"}, marked("x", "a", 1)},
		{"an empty name", []string{"slot 1", ""}, claim("x", "a", hour)},
		{"an empty holder", []string{"slot 1"}, claim("x", "", hour)},
		{"a TTL of 0", []string{"slot 1"}, claim("x", "a", 0)},
	} {
		_, _, err := as[store.Chooser](s).Choose(s.ctx, bent.names, bent.claim)
		s.did("Choose with %s: error %s", bent.what, tell(err))
		s.invalid(err, bent.what)
	}
	s.unchanged(nil)
}

func chooseCrowd(s *subject) {
	const goroutines, n = 32, 5
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("slot %d", i)
	}
	var holders [n]atomic.Int64
	var granted atomic.Int64
	s.did("%d goroutines chose of %d names", goroutines, n)
	s.together(goroutines, func(ctx context.Context, i int) error {
		index, _, err := as[store.Chooser](s).Choose(ctx, names, claim("x", fmt.Sprintf("holder %d", i), hour))
		switch {
		case errors.Is(err, store.ErrHeld):
			return nil
		case err != nil:
			return err
		}
		before := holders[index].Load()
		runtime.Gosched()
		time.Sleep(time.Millisecond)
		holders[index].Store(before + 1)
		granted.Add(1)
		return nil
	})
	if granted.Load() != n {
		s.fail(fmt.Sprintf("%d grants", granted.Load()), "%d, one of each name", n)
	}
	for i := range holders {
		if holders[i].Load() != 1 {
			s.fail(fmt.Sprintf("%q granted %d times", names[i], holders[i].Load()), "once")
		}
	}
}
