package storetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/soloist-dev/soloist/store"
)

var batchLaws = []law{
	{name: "batch-empty", check: batchEmpty,
		rule: "An empty batch does nothing and returns an empty slice."},
	{name: "batch-mixed", check: batchMixed,
		rule: "Each element of a batch is decided on its own, and result i belongs to element i."},
	{name: "batch-repeats-claims", check: batchRepeatsClaims,
		rule: "Claims that repeat a name are decided in order: the first holder gets it, and gets it again."},
	{name: "batch-repeats-extensions", check: batchRepeatsExtensions,
		rule: "Extensions that repeat a lease are decided in order: the last state stays, and the greatest mark and end."},
	{name: "batch-repeats-releases", check: batchRepeatsReleases,
		rule: "Releases that repeat a lease are decided in order: the first ends it, the others repeat a release. That of an earlier lease of the holder is lost."},
	{name: "batch-invalid-alone", check: batchInvalidAlone,
		rule: "An invalid element fails alone, with an *InvalidError; the others of its batch are decided."},
	{name: "batch-many", check: batchMany,
		rule: "A batch can be thousands of names long, in each verb."},
	{name: "batch-crossing", check: batchCrossing,
		rule: "Batches that contain the same names in different orders at the same time all return. A release that met another one may have to be repeated."},
}

// claims makes a batch of claims that must return outcomes.
func (s *subject) claims(claims ...store.Claim) []store.Outcome {
	out, err := s.Acquire(s.ctx, claims)
	s.did("%sAcquire %d names: error %s", s.label, len(claims), tell(err))
	if err != nil || len(out) != len(claims) {
		s.fail(fmt.Sprintf("%d outcomes, error %s", len(out), tell(err)), "%d outcomes, error nil", len(claims))
	}
	for i, o := range out {
		s.made(claims[i].Name, o)
	}
	return out
}

func (s *subject) extensions(extensions ...store.Extension) []error {
	errs, err := s.Extend(s.ctx, extensions)
	return s.several("Extend", len(extensions), errs, err)
}

func (s *subject) releases(releases ...store.Release) []error {
	errs, err := s.Release(s.ctx, releases)
	return s.several("Release", len(releases), errs, err)
}

func (s *subject) several(verb string, n int, errs []error, err error) []error {
	s.did("%s%s %d leases: error %s", s.label, verb, n, tell(err))
	if err != nil || len(errs) != n {
		s.fail(fmt.Sprintf("%d answers, error %s", len(errs), tell(err)), "%d answers, error nil", n)
	}
	return errs
}

// answers checks the results of a batch: each must be nil or the wanted error.
func (s *subject) answers(got []error, want ...error) {
	for i := range want {
		if !errors.Is(got[i], want[i]) {
			s.fail(fmt.Sprintf("element %d: %s", i, tell(got[i])), "element %d: %s", i, tell(want[i]))
		}
	}
}

func errsOf(out []store.Outcome) []error {
	errs := make([]error, len(out))
	for i, o := range out {
		errs[i] = o.Err
	}
	return errs
}

func batchEmpty(s *subject) {
	s.take(s.name(), "a", hour)
	before := s.records("")
	s.claims()
	s.claims([]store.Claim{}...)
	s.extensions()
	s.extensions([]store.Extension{}...)
	s.releases()
	s.releases([]store.Release{}...)
	s.unchanged(before)
}

// unchanged checks that all records are unchanged, except for the time that has passed.
func (s *subject) unchanged(before []store.Record) {
	after := s.records("")
	if len(after) != len(before) {
		s.fail(fmt.Sprintf("%d records", len(after)), "%d, as before", len(before))
	}
	for i := range after {
		s.same(before[i], after[i])
	}
}

func batchMixed(s *subject) {
	free, taken, done, mine, asked := s.name(), s.name(), s.name(), s.name(), s.name()
	other := s.take(taken, "other", hour)
	s.released(s.take(done, "other", hour).leaving(9, nil))
	own := s.take(mine, "a", hour)

	out := s.claims(marked(done, "a", 9), claim(taken, "a", hour), claim(free, "a", hour), claim(mine, "a", hour),
		marked(done, "a", 10), marked(asked, "a", -1))
	s.answers(errsOf(out), store.ErrDone, store.ErrHeld, nil, nil, nil, store.ErrDone)
	if out[3].Grant.Token != own.Token || out[4].Grant.Mark != 9 {
		s.fail(fmt.Sprintf("token %d for element 3, mark %d for element 4", out[3].Grant.Token, out[4].Grant.Mark),
			"token %d, mark 9", own.Token)
	}
	s.take(asked, "b", hour) // to ask about a name that nobody has ever had takes nothing

	stale := lease{other.Grant, taken, "a"}
	got := lease{out[2].Grant, free, "a"}
	e := got.extension(2 * hour)
	e.Mark = 3
	s.answers(s.extensions(stale.extension(hour), e, stale.extension(hour), own.extension(hour)),
		store.ErrLost, nil, store.ErrLost, nil)
	s.hasMark(free, 3)
	s.answers(s.releases(own.leaving(4, nil), stale.ending(), got.leaving(5, nil), stale.ending()),
		nil, store.ErrLost, nil, store.ErrLost)
	s.hasMark(mine, 4)
	s.hasMark(free, 5)
	s.extended(other.extension(hour))
}

func batchRepeatsClaims(s *subject) {
	one, two := s.name(), s.name()
	out := s.claims(claim(one, "a", hour), claim(one, "b", hour), claim(two, "b", hour), claim(one, "a", 2*hour),
		claim(two, "a", hour), marked(one, "b", -1))
	s.answers(errsOf(out), nil, store.ErrHeld, nil, nil, store.ErrHeld, store.ErrDone)
	if out[0].Grant.Token != out[3].Grant.Token {
		s.fail(fmt.Sprintf("token %d and then %d", out[0].Grant.Token, out[3].Grant.Token), "the same grant for the same holder")
	}
	var held *store.HeldError
	if errors.As(out[1].Err, &held); held.Record.Name != one || held.Record.Holder != "a" || held.Record.Token != out[0].Grant.Token {
		s.fail("a refusal with "+sketch(held.Record), "holder %q, token %d", "a", out[0].Grant.Token)
	}
	if r := s.record(one); r.Holder != "a" || r.Token != out[0].Grant.Token || r.Left > hour+minute {
		s.fail("a record with "+sketch(r), "the first grant")
	}
}

func batchRepeatsExtensions(s *subject) {
	l := s.take(s.name(), "a", hour)
	with := func(ttl time.Duration, mark int64, state []byte) store.Extension {
		e := l.extension(ttl)
		e.Mark, e.State = mark, state
		return e
	}
	wrong := lease{l.Grant, l.name, "b"}.extension(9 * hour)
	wrong.Mark, wrong.State = 99, []byte("wrong")
	s.answers(s.extensions(with(2*hour, 3, []byte("first")), wrong, with(3*hour, 9, []byte("second")), with(hour, 4, nil)),
		nil, store.ErrLost, nil, nil)
	r := s.record(l.name)
	if r.Mark != 9 || string(r.State) != "second" || r.Left < 3*hour-minute || r.Left > 3*hour+minute {
		s.fail("a record with "+sketch(r), "mark 9, state %q, about %v left", "second", 3*hour)
	}
}

func batchRepeatsReleases(s *subject) {
	before := s.take(s.name(), "a", hour)
	s.released(before.ending())
	l := s.take(before.name, "a", hour)
	wrong := lease{l.Grant, l.name, "b"}.leaving(99, []byte("wrong"))
	s.answers(s.releases(wrong, l.leaving(5, []byte("first")), before.ending(), l.leaving(2, []byte("second")), l.leaving(6, []byte("third")), wrong),
		store.ErrLost, nil, store.ErrLost, nil, store.ErrLost, store.ErrLost)
	if r := s.record(l.name); r.Mark != 5 || string(r.State) != "first" || !r.Free() {
		s.fail("a record with "+sketch(r), "a free one, mark 5, state %q", "first")
	}
	s.answers(s.releases(l.leaving(6, nil), l.leaving(4, nil), l.leaving(7, nil), l.leaving(5, nil)), store.ErrLost, nil, store.ErrLost, nil)
}

func batchInvalidAlone(s *subject) {
	one, two := s.name(), s.name()
	out := s.claims(claim("", "a", hour), claim(one, "a", hour), claim("\x00", "a", hour), claim(two, "a", hour), claim(one, "b", 0))
	s.invalid(out[0].Err, "an empty name")
	s.invalid(out[2].Err, "a name with a control character")
	s.invalid(out[4].Err, "a TTL of 0")
	s.answers([]error{out[1].Err, out[3].Err}, nil, nil)
	a, b := lease{out[1].Grant, one, "a"}, lease{out[3].Grant, two, "a"}

	bad := a.extension(hour)
	bad.Mark = -1
	errs := s.extensions(a.extension(3*hour), bad, b.extension(3*hour))
	s.invalid(errs[1], "a negative mark")
	s.answers([]error{errs[0], errs[2]}, nil, nil)
	for _, name := range []string{one, two} {
		if r := s.record(name); r.Left < 2*hour {
			s.fail(fmt.Sprintf("%v left after an extension beside an invalid one", r.Left), "%v", 3*hour)
		}
	}

	worse := a.ending()
	worse.Linger = -1
	errs = s.releases(worse, a.ending(), b.ending())
	s.invalid(errs[0], "a negative linger")
	s.answers(errs[1:], nil, nil)
	records := s.records("")
	if len(records) != 2 {
		s.fail(fmt.Sprintf("%d records", len(records)), "2")
	}
	for _, r := range records {
		if !r.Free() {
			s.fail("a record with "+sketch(r)+" after its release beside an invalid one", "a free one")
		}
	}
}

// invalid checks that an element was refused for its fields.
func (s *subject) invalid(err error, what string) {
	var invalid *store.InvalidError
	if !errors.As(err, &invalid) {
		s.fail(tell(err), "an *InvalidError for %s", what)
	}
	if invalid.What == "" || invalid.Rule == "" {
		s.fail(fmt.Sprintf("%#v", invalid), "an *InvalidError that says what is wrong and what would be right")
	}
}

// batchMany gives every name its own mark and state, and lets another holder have some of them, so that a result at the
// wrong index is noticed.
func batchMany(s *subject) {
	const apart = 7 // each seventh name is held by another
	names := scattered(s.h.Names)
	taken := map[int]bool{}
	var first, claims []store.Claim
	for i, name := range names {
		claims = append(claims, claim(name, "a", hour))
		if taken[i] = i%apart == 3; taken[i] {
			first = append(first, claim(name, "other", hour))
		}
	}
	for _, o := range s.claims(first...) {
		s.answers([]error{o.Err}, nil)
	}
	leases := make([]lease, len(names))
	for i, o := range s.claims(claims...) {
		s.answers([]error{o.Err}, refusedIf(taken[i], store.ErrHeld))
		if leases[i] = (lease{o.Grant, names[i], "a"}); !taken[i] && o.Grant.Token <= 0 {
			s.fail(fmt.Sprintf("element %d: token %d", i, o.Grant.Token), "one greater than 0")
		}
	}
	s.manyExtended(leases, taken)
	s.manyReleased(leases, taken)
}

// scattered returns n names, not in their byte order.
func scattered(n int) []string {
	names := make([]string, n)
	for i := range n {
		names[i] = fmt.Sprintf("many/%08x", uint32(i)*2654435761)
	}
	return names
}

func refusedIf(refused bool, err error) error {
	if refused {
		return err
	}
	return nil
}

func (s *subject) manyExtended(leases []lease, taken map[int]bool) {
	extensions := make([]store.Extension, len(leases))
	want := map[string]int64{}
	for i, l := range leases {
		l.Token = max(l.Token, 1) // a token of 0, for one not granted, would be invalid
		extensions[i] = l.extension(2 * hour)
		extensions[i].Mark = int64(i + 1)
		if !taken[i] {
			want[l.name] = int64(i + 1)
		}
	}
	for i, err := range s.extensions(extensions...) {
		s.answers([]error{err}, refusedIf(taken[i], store.ErrLost))
	}
	records := s.records("many/")
	if len(records) != len(leases) {
		s.fail(fmt.Sprintf("%d records", len(records)), "%d", len(leases))
	}
	for _, r := range records {
		if r.Mark != want[r.Name] {
			s.fail(fmt.Sprintf("mark %d of %q", r.Mark, r.Name), "%d", want[r.Name])
		}
	}
}

func (s *subject) manyReleased(leases []lease, taken map[int]bool) {
	releases := make([]store.Release, len(leases))
	next := make([]store.Claim, len(leases))
	for i, l := range leases {
		l.Token = max(l.Token, 1)
		releases[i] = l.leaving(0, fmt.Appendf(nil, "state of %s", l.name))
		next[i] = claim(l.name, "b", hour)
	}
	for i, err := range s.releases(releases...) {
		s.answers([]error{err}, refusedIf(taken[i], store.ErrLost))
	}
	for i, o := range s.claims(next...) {
		s.answers([]error{o.Err}, refusedIf(taken[i], store.ErrHeld))
		if taken[i] {
			continue
		}
		state := "state of " + leases[i].name
		if string(o.Grant.State) != state || o.Grant.Token <= leases[i].Token || o.Grant.Mark != int64(i+1) {
			s.fail(fmt.Sprintf("element %d: %s", i, answer(o)), "state %q, mark %d, a token greater than %d", state, i+1, leases[i].Token)
		}
	}
}

func batchCrossing(s *subject) {
	const callers, rounds, n = 8, 5, 60
	names := scattered(n)
	s.did("%d goroutines took and released batches of the same %d names in different orders", callers, n)
	s.together(callers, func(ctx context.Context, i int) error {
		for round := range rounds {
			holder := fmt.Sprintf("caller %d round %d", i, round)
			claims := make([]store.Claim, n)
			for k := range claims {
				at := (k*(2*i+1) + round) % n // a different order for each caller; if 2i+1 and n share a factor, names repeat
				if i%2 == 1 {
					at = n - 1 - at
				}
				claims[k] = claim(names[at], holder, hour)
			}
			if err := s.takeAndRelease(ctx, claims); err != nil {
				return fmt.Errorf("%s: %w", holder, err)
			}
		}
		return nil
	})
}

// takeAndRelease releases what it was granted. It is safe in any goroutine.
func (s *subject) takeAndRelease(ctx context.Context, claims []store.Claim) error {
	out, err := s.Acquire(ctx, claims)
	if err != nil {
		return fmt.Errorf("Acquire: %w", err)
	}
	var granted []lease
	for i, o := range out {
		switch {
		case o.Err == nil:
			granted = append(granted, lease{o.Grant, claims[i].Name, claims[i].Holder})
		case !errors.Is(o.Err, store.ErrHeld):
			return o.Err
		}
	}
	return s.left(ctx, granted...)
}
