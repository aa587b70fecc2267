package move

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// An answering store answers each request as it is told, and notes what it was asked.
type answering struct {
	store.Store // of which nothing else is asked

	who      string
	asked    *[]request
	acquires []answer // in turns; the last one stays
	changes  answer   // of extensions and releases
}

// A request is one about the name n.
type request struct {
	to, verb           string
	token, mark, above int64
	state              []byte
}

func (r request) String() string {
	return fmt.Sprintf("%s %s %d mark %d above %d state %q", r.to, r.verb, r.token, r.mark, r.above, r.state)
}

// An answer is one to a request.
type answer struct {
	what    string
	outcome store.Outcome
	away    error // instead, of the whole batch
}

// err is what is known of the element.
func (a answer) err() error { return errors.Join(a.away, a.outcome.Err) }

func (a answer) unknown() bool { return errors.Is(a.err(), store.ErrUnknown) }

func (s *answering) Acquire(_ context.Context, claims []store.Claim) ([]store.Outcome, error) {
	if len(claims) == 0 {
		return nil, nil
	}
	c := claims[0]
	*s.asked = append(*s.asked, request{s.who, "acquire", 0, c.Mark, c.Above, nil})
	a := s.acquires[0]
	if len(s.acquires) > 1 {
		s.acquires = s.acquires[1:]
	}
	if a.away != nil {
		return nil, a.away
	}
	return []store.Outcome{a.outcome}, nil
}

func (s *answering) Extend(_ context.Context, extensions []store.Extension) ([]error, error) {
	e := extensions[0]
	*s.asked = append(*s.asked, request{s.who, "extend", e.Token, e.Mark, 0, e.State})
	return []error{s.changes.outcome.Err}, s.changes.away
}

func (s *answering) Release(_ context.Context, releases []store.Release) ([]error, error) {
	r := releases[0]
	*s.asked = append(*s.asked, request{s.who, "release", r.Token, r.Mark, 0, r.State})
	return []error{s.changes.outcome.Err}, s.changes.away
}

func granted(what string, g store.Grant) answer {
	return answer{what: what, outcome: store.Outcome{Grant: g}}
}

func refused(what string, err error) answer {
	return answer{what: what, outcome: store.Outcome{Err: err}}
}

func held(what string, r store.Record) answer {
	r.Name = "n"
	return refused(what, &store.HeldError{Record: r})
}

func done(what string, r store.Record) answer {
	r.Name = "n"
	return refused(what, &store.DoneError{Record: r})
}

var (
	ok      = answer{what: "ok"}
	unknown = refused("unknown", store.AsUnknown(errors.New("no reply")))
	failed  = refused("failed", errors.New("it cannot be read"))
	isLost  = refused("lost", store.ErrLost)
	maybe   = refused("lost or unknown", fmt.Errorf("%w: %w", store.ErrLost, store.ErrUnknown))
	away    = answer{what: "away", away: errors.New("away")}
)

// answered is two stores in the phase in which the new one is asked first, and the old one decides.
func answered(t *testing.T) (s store.Store, older, newer *answering, asked *[]request) {
	t.Helper()
	asked = &[]request{}
	older, newer = &answering{who: "old", asked: asked, changes: ok}, &answering{who: "new", asked: asked, changes: ok}
	s, err := New(older, newer, OldDecides)
	if err != nil {
		t.Fatal(err)
	}
	return s, older, newer, asked
}

var reads = request{to: "old", verb: "acquire", mark: -1}

// TestClaims: whatever the two stores answer to a claim, it is granted if both have granted it in an order that shows and their records agree, what the first has granted in
// vain is given back with the newest record, and whatever nobody knows is unknown.
func TestClaims(t *testing.T) {
	firsts := []answer{
		granted("granted 7", store.Grant{Token: 7, Mark: 3, State: []byte("s")}),
		granted("granted 7 after a crash", store.Grant{Token: 7, Mark: 3, State: []byte("s"), ExpiredAge: 1}),
		granted("granted 7 after a crash, other state", store.Grant{Token: 7, Mark: 3, State: []byte("other"), ExpiredAge: 1}),
		granted("granted 7 mark 4", store.Grant{Token: 7, Mark: 4, State: []byte("newer"), ExpiredAge: 2}),
		held("held by x 7", store.Record{Holder: "x", Token: 7, Mark: 3, Left: 3 * time.Second}),
		held("held by y 7", store.Record{Holder: "y", Token: 7, Mark: 3, Left: time.Second}),
		held("lingers", store.Record{Token: 7, Mark: 3, Left: 2 * time.Second}),
		done("done 5", store.Record{Token: 7, Mark: 5, State: []byte("done")}),
		unknown, failed, away,
	}
	seconds := []answer{
		granted("granted 9", store.Grant{Token: 9, Mark: 3, State: []byte("s"), ExpiredAge: 1}),
		granted("granted 7", store.Grant{Token: 7, Mark: 3, State: []byte("s")}),
		granted("granted 9 mark 4", store.Grant{Token: 9, Mark: 4, State: []byte("newer")}),
		granted("granted 9 mark 4, the same state", store.Grant{Token: 9, Mark: 4, State: []byte("s")}),
		held("held by x 9", store.Record{Holder: "x", Token: 9, Mark: 3, Left: 2 * time.Second}),
		held("lingers", store.Record{Token: 9, Mark: 3, Left: 2 * time.Second}),
		done("done 3", store.Record{Token: 9, Mark: 3, State: []byte("old")}),
		done("done 5", store.Record{Token: 9, Mark: 5, State: []byte("done by the old")}),
		done("done 6", store.Record{Token: 9, Mark: 6, State: []byte("more")}),
		done("done 5 by x", store.Record{Holder: "x", Token: 9, Mark: 5, State: []byte("done"), Left: 2 * time.Second}),
		done("done 3 by x 9", store.Record{Holder: "x", Token: 9, Mark: 3, State: []byte("old"), Left: 2 * time.Second}),
		done("done 3 by x 7", store.Record{Holder: "x", Token: 7, Mark: 3, State: []byte("old"), Left: 2 * time.Second}),
		done("done 3 by x, over", store.Record{Holder: "x", Token: 9, Mark: 3, State: []byte("old")}),
		done("done 3 by me", store.Record{Holder: "me", Token: 9, Mark: 3, State: []byte("old"), Left: 2 * time.Second}),
		done("done 3 by me, over", store.Record{Holder: "me", Token: 9, Mark: 3, State: []byte("old")}),
		unknown, failed, away,
	}
	for _, mark := range []int64{5, 0} {
		for _, first := range firsts {
			for _, second := range seconds {
				for _, end := range []answer{ok, isLost, unknown, away} {
					c := claimCase{t, mark, first, second, end}
					synctest.Test(t, func(t *testing.T) { c.check() })
				}
			}
		}
	}
}

// A claimCase is what the two stores answer to a claim with a mark, and how what is written after that ends.
type claimCase struct {
	t                  *testing.T
	mark               int64
	first, second, end answer
}

func (c claimCase) String() string {
	return fmt.Sprintf("mark %d, new %s, old %s, then %s", c.mark, c.first.what, c.second.what, c.end.what)
}

// what the old store is read to have.
var inOld = store.Record{Token: 9, Mark: 4, State: []byte("read")}

func (c claimCase) check() {
	s, older, newer, asked := answered(c.t)
	older.acquires, newer.acquires = []answer{c.second, done("read", inOld)}, []answer{c.first}
	older.changes, newer.changes = c.end, c.end
	claim := store.Claim{Name: "n", Holder: "me", TTL: time.Minute, Mark: c.mark}
	out := claimed(s, claim)
	wantAsked, want := c.want()
	if fmt.Sprint(*asked) != fmt.Sprint(wantAsked) {
		c.t.Errorf("%v: asked\n%v, want\n%v", c, *asked, wantAsked)
	}
	if got := outcomeOf(out); got != want {
		c.t.Errorf("%v: %s, want %s", c, got, want)
	}
	if errors.Is(out.Err, store.ErrUnknown) || c.first.away != nil {
		c.again(s, older, newer, asked, claim)
	}
}

func claimed(s store.Store, c store.Claim) store.Outcome {
	outs, err := s.Acquire(context.Background(), []store.Claim{c})
	if err != nil {
		return store.Outcome{Err: err}
	}
	return outs[0]
}

// outcomeOf describes what is promised of an outcome: not how an error is worded.
func outcomeOf(out store.Outcome) string {
	var held *store.HeldError
	var done *store.DoneError
	switch {
	case out.Err == nil:
		return fmt.Sprintf("granted %d mark %d state %q after a crash %t", out.Grant.Token, out.Grant.Mark, out.Grant.State, out.Grant.ExpiredAge > 0)
	case errors.As(out.Err, &held):
		text := fmt.Sprintf("held by %q token %d left %v", held.Record.Holder, held.Record.Token, held.Record.Left)
		if held.Record.State != nil { // it is nobody's business
			text += fmt.Sprintf(" with the state %q", held.Record.State)
		}
		return text
	case errors.As(out.Err, &done):
		return fmt.Sprintf("done %d state %q", done.Record.Mark, done.Record.State)
	case errors.Is(out.Err, store.ErrUnknown):
		return "unknown"
	case errors.Is(out.Err, store.ErrLost):
		return "lost"
	}
	return "failed"
}

// want returns which requests follow and what the caller is told.
func (c claimCase) want() (asked []request, outcome string) {
	asked = []request{{to: "new", verb: "acquire", mark: c.mark}}
	isDone := errors.Is(c.first.err(), store.ErrDone)
	if c.first.err() != nil && !errors.Is(c.first.err(), store.ErrHeld) && !isDone {
		return asked, outcomeOf(store.Outcome{Err: c.first.err()}) // nothing is asked of the store that decides
	}
	if c.first.err() != nil {
		return append(asked, reads), c.refusal()
	}
	one, two := c.first.outcome.Grant, c.second.outcome.Grant
	asked = append(asked, request{to: "old", verb: "acquire", mark: c.mark, above: one.Token})
	switch err := c.second.err(); {
	case c.second.unknown(), err == nil && two.Token <= one.Token:
		return asked, "unknown"
	case err != nil:
		read, release := c.giveBack()
		asked = append(append(asked, read...), release)
		if c.end.err() != nil && !errors.Is(c.end.err(), store.ErrLost) {
			return asked, "unknown"
		}
		if held := (*store.HeldError)(nil); errors.As(err, &held) { // of a lease that the two stores do not agree about
			return asked, fmt.Sprintf("held by %q token 0 left %v", "", held.Record.Left)
		}
		return asked, outcomeOf(store.Outcome{Err: err})
	case one.Mark == two.Mark && bytes.Equal(one.State, two.State):
		return asked, outcomeOf(c.second.outcome)
	}
	behind, newest := request{to: "new", verb: "extend", token: one.Token, mark: two.Mark, state: two.State}, two
	if one.Mark > two.Mark {
		behind, newest = request{to: "old", verb: "extend", token: two.Token, mark: one.Mark, state: one.State}, one
		newest.Token = two.Token
	}
	if asked = append(asked, behind); c.end.err() != nil {
		return asked, "unknown"
	}
	return asked, outcomeOf(store.Outcome{Grant: newest})
}

// refusal is what the caller is told when the first store refuses. What the other one has was read.
func (c claimCase) refusal() string {
	var held *store.HeldError
	var theirs, mine *store.DoneError
	if !errors.As(c.second.err(), &mine) {
		if c.second.err() == nil {
			return "unknown" // the caller has it there
		}
		return outcomeOf(store.Outcome{Err: c.second.err()})
	}
	newest := mine.Record
	if errors.As(c.first.err(), &theirs) && theirs.Record.Mark > newest.Mark {
		newest.Mark, newest.State = theirs.Record.Mark, theirs.Record.State
	}
	live := mine.Record.Left > 0
	switch refused := errors.As(c.first.err(), &held); {
	case c.mark > 0 && newest.Mark >= c.mark:
		return fmt.Sprintf("done %d state %q", newest.Mark, newest.State)
	case !refused, live && newest.Holder == "me":
		return "unknown"
	case live && newest.Holder == held.Record.Holder && newest.Token > held.Record.Token: // a lease as a replica of this phase has it
		return fmt.Sprintf("held by %q token %d left %v", newest.Holder, newest.Token, newest.Left)
	}
	return fmt.Sprintf("held by %q token 0 left %v", "", max(newest.Left, held.Record.Left))
}

// giveBack is how what the first store has granted in vain is given back. If a holder had died there, what that had written to the other store alone comes with it; that is
// read, unless the refusal tells it.
func (c claimCase) giveBack() (read []request, release request) {
	has, known := store.Record{}, false
	if done := (*store.DoneError)(nil); errors.As(c.second.err(), &done) {
		has, known = done.Record, true
	}
	g := c.first.outcome.Grant
	crashed := g.ExpiredAge > 0
	if crashed && !known {
		read, has = []request{reads}, inOld
	}
	release = request{to: "new", verb: "release", token: g.Token}
	if has.Mark > g.Mark || crashed && has.Mark == g.Mark {
		release.mark, release.state = has.Mark, has.State
	}
	return read, release
}

// again repeats a claim of which nobody knows what became of it: once to no avail, and then it is refused. The first store does not say a second time that a holder had
// died: what is remembered of the claim decides what the half is given back with.
func (c claimCase) again(s store.Store, older, newer *answering, asked *[]request, claim store.Claim) {
	once := store.Grant{Token: 7, Mark: 3, State: []byte("s")}
	unheard := c.first.away != nil || c.first.err() != nil && !errors.Is(c.first.err(), store.ErrHeld) && !errors.Is(c.first.err(), store.ErrDone)
	crashed := c.first.err() == nil && c.first.outcome.Grant.ExpiredAge > 0
	for _, read := range []store.Record{
		{Token: 9, Mark: 3, State: []byte("read")},
		{Token: 9, Mark: 3, State: []byte("s")},
		{Token: 9, Mark: 4, State: []byte("read")},
		{Token: 9, Mark: 2, State: []byte("read")},
		{},
	} {
		older.acquires, newer.acquires = []answer{unknown}, []answer{granted("granted 7", once)}
		if got := outcomeOf(claimed(s, claim)); got != "unknown" {
			c.t.Errorf("%v, again: %s, want unknown", c, got)
		}
		*asked = nil
		refusal := held("held by x", store.Record{Holder: "x", Token: 9, Mark: 3, Left: 2 * time.Second})
		older.acquires = []answer{refusal, done("read", read), unknown}
		older.changes, newer.changes = ok, unknown // so it is remembered
		got := outcomeOf(claimed(s, claim))
		want := []request{{to: "new", verb: "acquire", mark: c.mark}, {to: "old", verb: "acquire", mark: c.mark, above: 7}}
		if unheard || crashed {
			want = append(want, reads)
		}
		release := request{to: "new", verb: "release", token: 7}
		if (unheard || crashed) && read.Mark > once.Mark || crashed && read.Mark == once.Mark {
			release.mark, release.state = read.Mark, read.State
		}
		if open := unheard && read.Mark == once.Mark && string(read.State) != string(once.State); !open { // nobody knows which state is the newer one
			want = append(want, release)
		}
		if got != "unknown" || fmt.Sprint(*asked) != fmt.Sprint(want) {
			c.t.Errorf("%v, again, reads %+v: %s; asked\n%v, want\n%v", c, read, got, *asked, want)
		}
	}
	older.acquires, newer.changes = []answer{held("held by x", store.Record{Holder: "x", Token: 9, Mark: 3, Left: 2 * time.Second}), done("read", store.Record{Token: 9, Mark: 3, State: []byte("s")})}, ok
	if got, want := outcomeOf(claimed(s, claim)), `held by "" token 0 left 2s`; got != want {
		c.t.Errorf("%v, once more: %s, want %s", c, got, want)
	}
}

// TestOverdueIsPassedOn: a claim that is refused because of what is overdue in one store is told for how long both have to be watched; not if the other store has another
// holder, who may be alive.
func TestOverdueIsPassedOn(t *testing.T) {
	late := func(holder string, overdue time.Duration) answer {
		r := store.Record{Name: "n", Holder: holder, Token: 7, Mark: 3, Left: 3 * time.Second}
		return refused("held", &store.HeldError{Record: r, Overdue: overdue})
	}
	has := func(holder string, left time.Duration) answer {
		return done("read", store.Record{Holder: holder, Token: 9, Mark: 3, Left: left})
	}
	half := granted("granted", store.Grant{Token: 7, Mark: 3})
	for _, test := range []struct {
		what          string
		first, second answer
		want          time.Duration
	}{
		{"in both stores", late("x", 3*time.Second), has("x", 2*time.Second), 3 * time.Second},
		{"in both stores, in the one that decides for longer", late("x", 3*time.Second), has("x", 4*time.Second), 4 * time.Second},
		{"in none", late("x", 0), has("x", 4*time.Second), 0},
		{"in the first alone", late("x", 3*time.Second), has("", 0), 3 * time.Second},
		{"in none, and free in the one that decides", late("x", 0), has("", 0), 0},
		{"a linger in both", late("", 3*time.Second), has("", 4*time.Second), 4 * time.Second},
		{"beside another holder", late("x", 3*time.Second), has("y", 2*time.Second), 0},
		{"in the one that decides alone", half, late("x", 2*time.Second), 2 * time.Second},
		{"not in the one that decides", half, late("x", 0), 0},
	} {
		s, older, newer, _ := answered(t)
		newer.acquires, older.acquires = []answer{test.first}, []answer{test.second}
		out := claimed(s, store.Claim{Name: "n", Holder: "me", TTL: time.Minute})
		if held, is := errors.AsType[*store.HeldError](out.Err); !is || held.Overdue != test.want {
			t.Errorf("overdue %s: %+v, %v; want %v", test.what, held, out.Err, test.want)
		}
	}
}

// TestChanges: whatever the two stores answer to an extension or a release, it is told as the store that decides has answered, unless only one store has what it
// writes, or may have: that is unknown, and the next change of the lease brings the other store what it lacks.
func TestChanges(t *testing.T) {
	over := done("over", store.Record{Token: 7, Mark: 3, State: []byte("s")})
	has := granted("has 7", store.Grant{Token: 7, Mark: 3, State: []byte("s")})
	lookups := [][]answer{
		{has},
		{over, granted("granted 8", store.Grant{Token: 8, Mark: 3, State: []byte("s")})},
		{over, granted("granted 8 after a crash", store.Grant{Token: 8, Mark: 3, State: []byte("s"), ExpiredAge: 1})},
		{over, held("held by x", store.Record{Holder: "x", Token: 8, Left: time.Second})},
		{over, held("lingers", store.Record{Token: 7, Left: time.Second})},
		{over, unknown},
		{held("held by x", store.Record{Holder: "x", Token: 8, Left: time.Second})},
		{held("held", store.Record{Left: time.Second})}, {unknown}, {away},
	}
	record := store.Record{Holder: "me", Token: 9, Mark: 4, State: []byte("read"), Left: time.Second}
	reads := []answer{
		done("read", record), unknown,
		granted("has it", store.Grant{Token: 10, Mark: record.Mark, State: record.State}), // for another claim than the change is of
	}
	for _, ends := range []bool{false, true} {
		for _, writes := range []writing{{}, {mark: 4}, {state: []byte("t")}, {4, []byte("t")}} {
			for _, lookup := range lookups {
				for _, decides := range []answer{ok, isLost, unknown, maybe, failed, away} {
					for _, end := range []answer{ok, isLost, away} {
						for _, read := range reads {
							c := changeCase{t, ends, writes, lookup, decides, end, read}
							synctest.Test(t, func(t *testing.T) { c.check(has) })
						}
					}
				}
			}
		}
	}
}

// A writing is what an extension or a release writes.
type writing struct {
	mark  int64
	state []byte
}

func (w writing) any() bool { return w.mark != 0 || w.state != nil }

// A changeCase is what the two stores answer to an extension or a release.
type changeCase struct {
	t       *testing.T
	ends    bool // it is a release
	writes  writing
	lookup  []answer // of the new store, when the lease is claimed there once more
	decides answer   // of the old one
	end     answer   // of the new one, to what is written to it then
	read    answer   // of the old one, if it is read
}

func (c changeCase) String() string {
	return fmt.Sprintf("release %t writes %d %q, new %s, old %s, then %s, old reads %s",
		c.ends, c.writes.mark, c.writes.state, c.lookup[len(c.lookup)-1].what, c.decides.what, c.end.what, c.read.what)
}

func (c changeCase) send(s store.Store) error {
	var errs []error
	var err error
	mark, state := c.writes.mark, c.writes.state
	if c.ends {
		errs, err = s.Release(context.Background(), []store.Release{{Name: "n", Holder: "me", Token: 9, Linger: time.Second, Mark: mark, State: state}})
	} else {
		errs, err = s.Extend(context.Background(), []store.Extension{{Name: "n", Holder: "me", Token: 9, TTL: time.Minute, Mark: mark, State: state}})
	}
	if err == nil {
		err = errs[0]
	}
	return err
}

func (c changeCase) check(has answer) {
	s, older, newer, asked := answered(c.t)
	older.acquires, newer.acquires = []answer{c.read}, c.lookup
	older.changes, newer.changes = c.decides, c.end
	err := c.send(s)
	first := slices.Clone(*asked)

	last := c.lookup[len(c.lookup)-1]
	mine := last.err() == nil // the holder has the lease in the new store
	lingers := false
	if held := (*store.HeldError)(nil); errors.As(last.err(), &held) {
		lingers = held.Record.Holder == "" && held.Record.Token != 0 // it was this release, repeated
	}
	confirmed := c.decides.err() == nil
	of := func(to string) (some []request) {
		for _, r := range first {
			if r.to == to && r.verb != "acquire" {
				some = append(some, r)
			}
		}
		return some
	}
	if first[0].String() != (request{to: "new", verb: "acquire", mark: -1}).String() {
		c.t.Errorf("%v: asks %v first", c, first[0])
	}
	if n := len(of("old")); n != 1 {
		c.t.Errorf("%v: the store that decides is asked %d times", c, n)
	}
	once := c.ends && len(c.lookup) > 1 // the release may be a repeated one, so what the store that decides has is written to the other
	half := mine && c.decides.what == isLost.what
	// Nobody has released the other store before, so that what the one that decides has comes with its release.
	reads := half && (len(c.lookup) == 1 || last.outcome.Grant.ExpiredAge > 0)
	unread, whole := c.read.unknown(), c.read.err() == nil
	writes := 0
	if confirmed && mine && !(once && unread) || half && !(reads && (unread || whole)) {
		writes = 1
	}
	switch written := of("new"); {
	case len(written) != writes:
		c.t.Errorf("%v: asked %v; want %d changes of the other store", c, first, writes)
	case confirmed && writes == 1 && (c.writes.mark != 0 && written[0].mark != 4 || written[0].token != last.outcome.Grant.Token):
		c.t.Errorf("%v: what was confirmed is not written to the other store, but %v", c, written)
	case !confirmed && slices.ContainsFunc(written, func(r request) bool { return r.verb == "extend" || string(r.state) == "t" }):
		c.t.Errorf("%v: what was not confirmed is written: %v", c, written)
	}
	got, want := "ok", ""
	if err != nil {
		got = outcomeOf(store.Outcome{Err: err})
	}
	switch {
	case confirmed && mine && c.end.err() != nil && (c.writes.any() || once), confirmed && !mine && c.writes.any() && !(c.ends && lingers), confirmed && mine && once && unread:
		want = "unknown" // only one store has it, or may have it
	case half && c.ends && c.writes.any() && (writes == 1 && c.end.err() != nil || reads && unread), c.decides.what == isLost.what && c.ends && c.writes.any() && last.unknown():
		want = "unknown" // an earlier request may have written it to the store that decides alone
	case confirmed:
		want = "ok"
	default:
		want = outcomeOf(store.Outcome{Err: c.decides.err()})
	}
	if got != want {
		c.t.Errorf("%v: %s, want %s; asked %v", c, got, want, first)
	}
	older.acquires = []answer{done("read", store.Record{Holder: "y", Token: 10, Mark: 4, State: []byte("read"), Left: time.Second})}
	if c.ends {
		c.repeats(s, older, newer, got)
	} else {
		c.again(s, older, newer, asked, has, errors.Is(err, store.ErrUnknown) || c.decides.away != nil)
	}
}

// repeats releases once more, when the store that decides says that the lease is lost: an earlier request may have released it, unless that was told to be lost, or
// somebody else has had the other store since it was told to be released.
func (c changeCase) repeats(s store.Store, older, newer *answering, before string) {
	older.changes, newer.changes = isLost, ok
	seen := int64(20) // the token of the last grant of the other store, if it was not seen before
	for _, a := range c.lookup {
		var done *store.DoneError
		if errors.As(a.outcome.Err, &done) {
			seen = done.Record.Token
		}
		if a.err() == nil {
			seen = a.outcome.Grant.Token
		}
	}
	want := "unknown"
	if before == "lost" {
		want = "lost"
	}
	could := older.acquires
	for n := range int64(3) {
		if n == 2 { // somebody else has had it
			if seen += 5; before == "ok" {
				want = "lost"
			}
		}
		newer.acquires = []answer{
			done("over", store.Record{Token: seen, Mark: 4, State: []byte("read")}),
			granted("granted once more", store.Grant{Token: seen + 1, Mark: 4, State: []byte("read")}),
		}
		seen++
		if older.acquires = could; n == 1 { // what shows it cannot be read
			older.acquires = []answer{unknown}
		}
		if got := outcomeOf(store.Outcome{Err: c.send(s)}); got != want {
			c.t.Errorf("%v, released again: %s, want %s", c, got, want)
		}
	}
	newer.acquires = []answer{unknown}
	if before == "ok" || c.writes.any() {
		want = "unknown" // nobody knows who has had it
	}
	if got := outcomeOf(store.Outcome{Err: c.send(s)}); got != want {
		c.t.Errorf("%v, released again without the other store: %s, want %s", c, got, want)
	}
}

// again extends once more when all is well: what the other store may lack is read and brought to it.
func (c changeCase) again(s store.Store, older, newer *answering, asked *[]request, has answer, lacks bool) {
	*asked = nil
	newer.acquires, older.changes, newer.changes = []answer{has}, ok, ok
	err := c.send(s)
	last := (*asked)[len(*asked)-1]
	read := slices.ContainsFunc(*asked, func(r request) bool { return r.String() == reads.String() })
	if err != nil || read != (lacks && c.writes.any()) || read && string(last.state) != "read" || last.to != "new" {
		c.t.Errorf("%v, again: %v, asked %v; the other store lacks something: %t", c, err, *asked, lacks && c.writes.any())
	}
}
