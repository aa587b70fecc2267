package move_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
	"github.com/soloist-dev/soloist/store/move"
)

// A faulty store fails once: the request whose number is come.
type faulty struct {
	store.Store

	requests *atomic.Int64 // of both stores
	fails    int64         // the number of that which fails
	how      string
	first    func(n int64) // if not nil, no request fails, and this comes before each
}

var errFault = errors.New("the request failed")

// failing sends a request unless it is the one that fails: that is not sent, or its answer is lost, or that about the first name is.
func failing[Q, A any](ctx context.Context, s *faulty, asked []Q, send func(context.Context, []Q) ([]A, error), spoil func(A) A) ([]A, error) {
	if len(asked) == 0 {
		return send(ctx, asked)
	}
	n := s.requests.Add(1)
	if s.first != nil {
		s.first(n)
		return send(ctx, asked)
	}
	if n != s.fails {
		return send(ctx, asked)
	}
	if s.how == "not sent" {
		return nil, errFault
	}
	answers, err := send(ctx, asked)
	if s.how == "not answered" {
		return nil, store.AsUnknown(errFault)
	}
	answers[0] = spoil(answers[0])
	return answers, err
}

func (s *faulty) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	return failing(ctx, s, claims, s.Store.Acquire, func(store.Outcome) store.Outcome { return store.Outcome{Err: store.AsUnknown(errFault)} })
}

func (s *faulty) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	return failing(ctx, s, releases, s.Store.Release, func(error) error { return store.AsUnknown(errFault) })
}

func (s *faulty) List(ctx context.Context, prefix string) iter.Seq2[store.Record, error] {
	n := s.requests.Add(1)
	if s.first != nil {
		s.first(n)
		return func(yield func(store.Record, error) bool) {
			s.Store.List(ctx, prefix)(yield)
			s.first(s.requests.Add(1)) // the end of the list is late
		}
	}
	if n == s.fails {
		return func(yield func(store.Record, error) bool) { yield(store.Record{}, errFault) }
	}
	return s.Store.List(ctx, prefix)
}

// A faultyFiller is a faulty store that can make records.
type faultyFiller struct{ *faulty }

func (s faultyFiller) Fill(ctx context.Context, fillings []store.Filling) ([]bool, error) {
	return failing(ctx, s.faulty, fillings, s.Store.(store.Filler).Fill, func(made bool) bool { return made })
}

// differing returns two stores that differ in each way in which they can: in who has a record, in marks, states, tokens and holders.
func differing(t *testing.T) (before, after *memstore.Store) {
	t.Helper()
	before, after = memstore.New(), memstore.New()
	put := func(s *memstore.Store, name string, above, mark int64, state string, ends bool) {
		out, err := s.Acquire(background, []store.Claim{{Name: name, Holder: "h", TTL: time.Second, Above: above}})
		if err = errors.Join(err, out[0].Err); err != nil {
			t.Fatal(err)
		}
		if !ends {
			return
		}
		r := store.Release{Name: name, Holder: "h", Token: out[0].Grant.Token, Mark: mark, Retain: store.Forever}
		if state != "" {
			r.State = []byte(state)
		}
		leave(t, s, r)
	}
	const far = 1 << 55
	put(before, "in the old alone", far, 3, "s", true)
	put(before, "in the old alone, plain", 0, 0, "", true)
	put(after, "in the new alone", far, 3, "s", true)
	put(before, "another state", far, 3, "s", true)
	put(after, "another state", 0, 3, "t", true)
	put(before, "behind in the new", far, 4, "s", true)
	put(after, "behind in the new", 0, 3, "t", true)
	put(before, "behind in the old", 0, 3, "s", true)
	put(after, "behind in the old", far, 4, "t", true)
	put(before, "tokens", 0, 3, "s", true)
	put(after, "tokens", far, 3, "s", true)
	put(before, "abandoned", far, 0, "", false)
	return before, after
}

// TestCopyInWhichARequestFails: whichever request of a copy fails, and however, the copy says so and counts each name once; a later one brings the stores to agree, and neither a mark nor a state is lost.
func TestCopyInWhichARequestFails(t *testing.T) {
	for _, fills := range []bool{false, true} {
		for _, phase := range []move.Phase{move.OldDecides, move.NewDecides} {
			for _, next := range []move.Phase{0, move.OldDecides + move.NewDecides - phase} {
				for _, how := range []string{"not sent", "not answered", "not answered about one name"} {
					t.Run(fmt.Sprintf("%v next %v %s fills %t", phase, next, how, fills), func(t *testing.T) {
						for _, abandoned := range []bool{true, false} {
							for at, more := int64(1), true; more; at++ {
								synctest.Test(t, func(t *testing.T) { more = copyFails(t, phase, next, how, at, fills, abandoned) })
							}
						}
					})
				}
			}
		}
	}
}

// copyFails reports whether the copy made so many requests.
func copyFails(t *testing.T, phase, next move.Phase, how string, at int64, fills, abandoned bool) bool {
	t.Helper()
	before, after := differing(t)
	time.Sleep(2 * time.Second)
	var requests atomic.Int64
	stores := func(s *memstore.Store) store.Store {
		f := &faulty{Store: s, requests: &requests, fails: at, how: how}
		if fills {
			return faultyFiller{f}
		}
		return f
	}
	marks, states := map[string]int64{}, map[string]string{}
	for _, s := range []*memstore.Store{before, after} {
		for name, r := range records(t, s) {
			if mark, known := marks[name]; !known || r.Mark > mark || r.Mark == mark && (s == before) == (phase == move.OldDecides) {
				marks[name], states[name] = r.Mark, string(r.State)
			}
		}
	}
	o := move.Options{Next: next, Abandoned: abandoned}
	calls := 0
	o.Progress = func(move.Report) { calls++ }
	report, err := move.Copy(background, stores(before), stores(after), phase, o)
	came := requests.Load() >= at
	if err != nil && !errors.Is(err, errFault) {
		t.Errorf("request %d failed: the copy says %v", at, err)
	}
	if err == nil && report.Names != report.Same+report.Copied+report.Taken+report.Abandoned {
		t.Errorf("request %d failed: the numbers do not add up: %+v", at, report)
	}
	if came && err == nil && report.Taken == 0 && how == "not sent" {
		t.Errorf("request %d was not sent, and the copy says nothing of it: %+v", at, report)
	}
	if calls == 0 && err == nil && report.Copied > 0 {
		t.Error("nobody was told of the progress")
	}
	time.Sleep(time.Minute) // what was left taken ends
	o.Progress, o.Abandoned = nil, true
	report, err = move.Copy(background, before, after, phase, o)
	if err != nil || !report.Complete() || report.Names != len(marks) {
		t.Errorf("request %d failed, and the copy after that: %+v, %v", at, report, err)
	}
	olds, news := records(t, before), records(t, after)
	truths, shadows := olds, news
	if phase == move.NewDecides {
		truths, shadows = news, olds
	}
	for name, mark := range marks {
		truth, shadow := truths[name], shadows[name]
		for _, r := range []store.Record{truth, shadow} {
			plain := mark == 0 && next != 0 // needs no copy
			if (r.Mark != mark || string(r.State) != states[name] || !r.Free()) && !plain {
				t.Errorf("request %d failed: %q has mark %d, state %q, holder %q, want %d, %q", at, name, r.Mark, r.State, r.Holder, mark, states[name])
			}
		}
		if next == 0 && truth.Token <= shadow.Token {
			t.Errorf("request %d failed: %q has the token %d, and %d in the other store", at, name, truth.Token, shadow.Token)
		}
	}
	return came
}
