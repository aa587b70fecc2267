package move_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
	"github.com/soloist-dev/soloist/store/move"
)

// A pickyStore does not hear some requests about some names, and the others of the same batch.
type pickyStore struct {
	store.Store
	claims, changes map[string]bool // names of which it does not hear claims, and extensions and releases
}

func newPicky(s store.Store) *pickyStore {
	return &pickyStore{s, map[string]bool{}, map[string]bool{}}
}

func (s *pickyStore) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	outs := make([]store.Outcome, len(claims))
	for i, c := range claims {
		if s.claims[c.Name] {
			outs[i].Err = store.AsUnknown(errors.New("not heard"))
			continue
		}
		out, err := s.Store.Acquire(ctx, []store.Claim{c})
		if err != nil {
			return nil, err
		}
		outs[i] = out[0]
	}
	return outs, nil
}

// picked sends the changes of a batch that are heard.
func picked[E any](
	ctx context.Context, s *pickyStore, batch []E, name func(E) string, send func(context.Context, []E) ([]error, error),
) ([]error, error) {
	errs := make([]error, len(batch))
	for i, e := range batch {
		if s.changes[name(e)] {
			errs[i] = store.AsUnknown(errors.New("not heard"))
			continue
		}
		one, err := send(ctx, []E{e})
		if err != nil {
			return nil, err
		}
		errs[i] = one[0]
	}
	return errs, nil
}

func (s *pickyStore) Extend(ctx context.Context, extensions []store.Extension) ([]error, error) {
	return picked(ctx, s, extensions, func(e store.Extension) string { return e.Name }, s.Store.Extend)
}

func (s *pickyStore) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	return picked(ctx, s, releases, func(r store.Release) string { return r.Name }, s.Store.Release)
}

// A batchFleet is two stores in OldDecides.
type batchFleet struct {
	truth, shadow *pickyStore
	both          store.Store
}

func newBatchFleet(t *testing.T) *batchFleet {
	t.Helper()
	f := &batchFleet{truth: newPicky(memstore.New()), shadow: newPicky(memstore.New())}
	f.both = in(t, f.truth, f.shadow, move.OldDecides)
	return f
}

// heard ends all faults.
func (f *batchFleet) heard() {
	for _, s := range []*pickyStore{f.truth, f.shadow} {
		clear(s.claims)
		clear(s.changes)
	}
}

// has describes what the two stores have of a name.
func (f *batchFleet) has(t *testing.T, name string) string {
	t.Helper()
	text := ""
	for _, s := range []*pickyStore{f.truth, f.shadow} {
		r := records(t, s.Store)[name]
		text += fmt.Sprintf(" [%s %d %q %v free %t]", r.Holder, r.Mark, r.State, r.Left, r.Free())
	}
	return text
}

// A situation is what a name is in when something is asked of it.
type situation struct {
	what    string // is the name
	prepare preparation
	want    []string // of each thing that is asked: what is told, and what when it is asked once more without a fault
}

// The faults of a name.
func truthClaims(f *batchFleet) map[string]bool   { return f.truth.claims }
func truthChanges(f *batchFleet) map[string]bool  { return f.truth.changes }
func shadowClaims(f *batchFleet) map[string]bool  { return f.shadow.claims }
func shadowChanges(f *batchFleet) map[string]bool { return f.shadow.changes }

// A preparation prepares a name for a situation, and returns the token of the lease that is changed then.
type preparation func(t *testing.T, f *batchFleet, name string) (token int64)

// with is a preparation, and then a fault.
func with(prepare preparation, fault func(f *batchFleet) map[string]bool) preparation {
	return func(t *testing.T, f *batchFleet, name string) int64 {
		t.Helper()
		token := prepare(t, f, name)
		fault(f)[name] = true
		return token
	}
}

// kind describes an error about a name.
func kind(name string, err error) string {
	var held *store.HeldError
	var done *store.DoneError
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, store.ErrUnknown):
		return "unknown"
	case errors.Is(err, store.ErrInvalid):
		return "invalid"
	case errors.Is(err, store.ErrLost):
		return "lost"
	case errors.As(err, &held) && held.Record.Name == name:
		return fmt.Sprintf("held by %q", held.Record.Holder)
	case errors.As(err, &done) && done.Record.Name == name:
		return fmt.Sprint("done ", done.Record.Mark)
	}
	return err.Error()
}

// An asking asks something of names, for the first time or once more, and returns what it is told of each.
type asking func(t *testing.T, f *batchFleet, names []string, tokens map[string]int64, again bool) []string

// inEachOrder asks something of all situations, one by one and in one batch of each order: each is told what it is to
// be told, and the stores have the same after it.
func inEachOrder(t *testing.T, all []situation, which int, ask asking) {
	t.Helper()
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].what
	}
	run := func(names []string, size int) (told, left map[string]string) {
		told, left = map[string]string{}, map[string]string{}
		synctest.Test(t, func(t *testing.T) {
			f, tokens := newBatchFleet(t), map[string]int64{}
			for _, s := range all {
				tokens[s.what] = s.prepare(t, f, s.what)
			}
			time.Sleep(2 * time.Second) // brief leases end
			for _, then := range []string{"", ", then "} {
				for batch := range slices.Chunk(names, size) {
					for i, one := range ask(t, f, batch, tokens, then != "") {
						told[batch[i]] += then + one
					}
				}
				for _, name := range names {
					left[name] += f.has(t, name)
				}
				f.heard()
			}
		})
		return told, left
	}
	toldAlone, leftAlone := run(names, 1)
	for _, s := range all {
		if toldAlone[s.what] != s.want[which] {
			t.Errorf("%s, alone: %q, want %q; left%s", s.what, toldAlone[s.what], s.want[which], leftAlone[s.what])
		}
	}
	for first := range names {
		told, left := run(slices.Concat(names[first:], names[:first]), len(names))
		for _, name := range names {
			if told[name] != toldAlone[name] || left[name] != leftAlone[name] {
				t.Errorf("%s, in a batch from %q on: %s, left%s", name, names[first], told[name], left[name])
				t.Errorf("want %s, left%s", toldAlone[name], leftAlone[name])
			}
		}
	}
}

// grantFor grants a name in one of the stores for a time, with a token above another one.
func grantFor(t *testing.T, s store.Store, name, holder string, ttl time.Duration, above int64) int64 {
	t.Helper()
	out, err := s.Acquire(background, []store.Claim{{Name: name, Holder: holder, TTL: ttl, Above: above}})
	if err = errors.Join(err, out[0].Err); err != nil {
		t.Fatal(err)
	}
	return out[0].Grant.Token
}

// TestChangesOfABatch: of a batch of leases in different situations each is told, and left, as if it was alone.
func TestChangesOfABatch(t *testing.T) {
	holds := func(t *testing.T, f *batchFleet, name string) int64 { return take(t, f.both, name, "h").Token }
	passed := func(t *testing.T, f *batchFleet, name string) int64 { // on, in the store that decides alone
		token := holds(t, f, name)
		r := store.Release{Name: name, Holder: "h", Token: token, State: []byte("passed"), Retain: store.Forever}
		leave(t, f.truth, r)
		take(t, f.truth, name, "next")
		return token
	}
	brief := func(t *testing.T, f *batchFleet, name string) int64 { // the lease ends in the other store
		return grantFor(t, f.truth, name, "h", time.Minute, grantFor(t, f.shadow, name, "h", time.Second, 0))
	}
	behind := func(t *testing.T, f *batchFleet, name string) int64 { // the store that decides alone has a state
		token := holds(t, f, name)
		f.shadow.changes[name] = true
		e := store.Extension{Name: name, Holder: "h", Token: token, TTL: time.Minute, State: []byte("behind")}
		errs, err := f.both.Extend(background, []store.Extension{e})
		if err != nil || !errors.Is(errs[0], store.ErrUnknown) {
			t.Fatal(errs, err)
		}
		delete(f.shadow.changes, name)
		return token
	}
	always := func(told string) []string { return []string{told, told, told, told} }
	writes := func(told string) []string { // if it has a state
		return []string{"ok, then ok", told, "ok, then ok", told}
	}
	half := []string{"lost, then lost", "lost, then lost", "lost, then lost", "unknown, then unknown"}
	all := []situation{
		{"behind", behind, always("ok, then ok")},
		{"held", holds, always("ok, then ok")},
		{"held with another token", func(t *testing.T, f *batchFleet, name string) int64 {
			return holds(t, f, name) + 1
		}, always("lost, then lost")},
		{"not valid", func(t *testing.T, f *batchFleet, name string) int64 {
			holds(t, f, name)
			return -1
		}, always("invalid, then invalid")},
		{"never held", func(*testing.T, *batchFleet, string) int64 { return 7 }, always("lost, then lost")},
		{"passed on", passed, always("lost, then lost")},
		{"passed on, not released", with(passed, shadowChanges), half},
		{"lost in the other store", brief, always("ok, then ok")},
		{"taken in the other store", func(t *testing.T, f *batchFleet, name string) int64 {
			token := brief(t, f, name)
			time.AfterFunc(1500*time.Millisecond, func() { take(t, f.shadow, name, "half") })
			return token
		}, writes("unknown, then ok")},
		{"not heard by the one that decides", with(holds, truthChanges), always("unknown, then ok")},
		{"not written to the other store", with(holds, shadowChanges), writes("unknown, then ok")},
		{"not looked up in the other store", with(holds, shadowClaims), writes("unknown, then ok")},
		{"behind, and not read", with(behind, truthClaims), always("unknown, then ok")},
		{"behind, and not written", with(behind, shadowChanges), always("unknown, then ok")},
		{"passed on, and not read", with(passed, truthClaims), half},
		{"released", func(t *testing.T, f *batchFleet, name string) int64 {
			token := holds(t, f, name)
			r := store.Release{Name: name, Holder: "h", Token: token, State: []byte("left"), Retain: store.Forever}
			leave(t, f.both, r)
			return token
		}, []string{"lost, then lost", "lost, then lost", "ok, then ok", "ok, then ok"}},
	}
	for which, state := range [][]byte{nil, []byte("written"), nil, []byte("written")} {
		ask := func(t *testing.T, f *batchFleet, names []string, tokens map[string]int64, again bool) (told []string) {
			t.Helper()
			var extensions []store.Extension
			var releases []store.Release
			for _, name := range names {
				e := store.Extension{Name: name, Holder: "h", Token: tokens[name], TTL: time.Minute, State: state}
				if again || name == "held" { // what was written, and perhaps to one store, comes along
					e.State = nil
				}
				r := store.Release{Name: name, Holder: "h", Token: e.Token, State: e.State, Retain: store.Forever}
				extensions, releases = append(extensions, e), append(releases, r)
			}
			change := func() ([]error, error) { return f.both.Extend(background, extensions) }
			if which >= 2 {
				change = func() ([]error, error) { return f.both.Release(background, releases) }
			}
			errs, err := change()
			if err != nil {
				t.Fatal(err)
			}
			for i, err := range errs {
				told = append(told, kind(names[i], err))
			}
			return told
		}
		inEachOrder(t, all, which, ask)
	}
}

// TestClaimsOfABatch: of a batch of claims of names in different situations each is told, and leaves the name, as if
// it was alone.
func TestClaimsOfABatch(t *testing.T) {
	differ := func(truth, shadow int64) preparation { // the marks
		return func(t *testing.T, f *batchFleet, name string) int64 {
			put(t, f.truth, name, 0, truth, fmt.Sprint("page ", truth))
			put(t, f.shadow, name, 0, shadow, fmt.Sprint("page ", shadow))
			return 0
		}
	}
	heldBehind := func(t *testing.T, f *batchFleet, name string) int64 {
		put(t, f.shadow, name, 0, 2, "older")
		put(t, f.truth, name, 0, 2, "newer")
		return take(t, f.truth, name, "behind").Token
	}
	crashed := func(t *testing.T, f *batchFleet, name string) int64 {
		grantFor(t, f.shadow, name, "died", time.Second, 0)
		put(t, f.truth, name, 0, 0, "newer")
		return take(t, f.truth, name, "behind").Token
	}
	free := func(*testing.T, *batchFleet, string) int64 { return 0 }
	both := func(f *batchFleet) store.Store { return f.both }
	truth := func(f *batchFleet) store.Store { return f.truth }
	shadow := func(f *batchFleet) store.Store { return f.shadow }
	by := func(holder string, in func(*batchFleet) store.Store) preparation {
		return func(t *testing.T, f *batchFleet, name string) int64 { return take(t, in(f), name, holder).Token }
	}
	twice := func(told string) []string { return []string{told, told} } // without a mark, and with one
	all := []situation{
		{"behind in the other store", differ(3, 2), twice(`3 "page 3", then 3 "page 3"`)},
		{"behind in the other store, not written", with(differ(3, 2), shadowChanges), twice(`unknown, then 3 "page 3"`)},
		{"ahead in the other store", differ(2, 3), twice(`3 "page 3", then 3 "page 3"`)},
		{"ahead in the other store, not written", with(differ(2, 3), truthChanges), twice(`unknown, then 3 "page 3"`)},
		{"done", differ(5, 4), []string{`5 "page 5", then 5 "page 5"`, `done 5, then done 5`}},
		{"done in the other store", differ(4, 6), []string{`6 "page 6", then 6 "page 6"`, `done 6, then done 6`}},
		{"free", free, twice(`0 "", then 0 ""`)},
		{"held", by("other", both), twice(`held by "other", then held by "other"`)},
		{"held in the phase behind", heldBehind, twice(`held by "", then held by ""`)},
		{"held in the phase behind, not given back", with(heldBehind, shadowChanges), twice(`unknown, then held by ""`)},
		{"held in the phase behind after a crash", crashed, twice(`held by "", then held by ""`)},
		{"held in the other store alone", by("half", shadow), twice(`held by "", then held by ""`)},
		{"its own", by("h", both), twice(`0 "", then 0 ""`)},
		{"its own in the store that decides", by("h", truth), twice(`unknown, then unknown`)},
		{"not heard by the one that decides", with(free, truthClaims), twice(`unknown, then 0 ""`)},
		{"not heard by the one that decides, a crash", with(crashed, truthClaims), twice(`unknown, then held by ""`)},
		{"not heard by the other store", with(free, shadowClaims), twice(`unknown, then 0 ""`)},
		{"not heard by the other store, held", with(heldBehind, shadowClaims), twice(`unknown, then unknown`)},
		{"not valid", free, twice(`invalid, then invalid`)},
	}
	for which, mark := range []int64{0, 5} {
		ask := func(t *testing.T, f *batchFleet, names []string, _ map[string]int64, _ bool) (told []string) {
			t.Helper()
			var claims []store.Claim
			for _, name := range names {
				c := store.Claim{Name: name, Holder: "h", TTL: time.Minute, Mark: mark}
				if name == "not valid" {
					c.TTL = -1
				}
				claims = append(claims, c)
			}
			outs, err := f.both.Acquire(background, claims)
			if err != nil {
				t.Fatal(err)
			}
			for i, out := range outs {
				one := kind(names[i], out.Err)
				if out.Err == nil {
					one = fmt.Sprintf("%d %q", out.Grant.Mark, out.Grant.State)
				}
				told = append(told, one)
			}
			return told
		}
		inEachOrder(t, all, which, ask)
	}
}
