//go:build unix

package histories

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/internal/proof"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
	"github.com/soloist-dev/soloist/test/servers"
)

// A wrong store is the memory store with one of its laws broken.
type wrong struct {
	*memstore.Store
	granted  func(*store.Outcome, store.Claim) // changes what a claim is told
	released func(*store.Release)              // changes what is released
	extended func(*store.Extension)            // changes what is extended
	swept    func(forgotten int)               // is told of a sweep
	refused  func(*store.Outcome, store.Claim) // changes what a refused claim is told
	complete func(store.Completion) error      // is asked before a completion, and refuses it
}

// completes is what transactions of a user do. The memory store has none; but nobody else changes the record of a lease that is live.
func (s *wrong) completes(ctx context.Context, c store.Completion, _ time.Duration, commit bool) error {
	outs, err := s.Store.Acquire(ctx, []store.Claim{{Name: c.Name, Holder: "-", TTL: store.MinTTL, Mark: -1}})
	if err != nil {
		return err
	}
	if done, some := errors.AsType[*store.DoneError](outs[0].Err); some && done.Record.Mark >= c.Mark {
		return done
	}
	if s.complete != nil {
		if err := s.complete(c); err != nil {
			return err
		}
	}
	if !commit {
		return nil
	}
	errs, err := s.Store.Extend(ctx, []store.Extension{{Name: c.Name, Holder: c.Holder, Token: c.Token, TTL: store.MinTTL, Mark: c.Mark, State: c.State}})
	return errors.Join(err, errs[0])
}

func (s *wrong) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	outs, err := s.Store.Acquire(ctx, claims)
	for i := range outs {
		switch {
		case outs[i].Err == nil && s.granted != nil:
			s.granted(&outs[i], claims[i])
		case outs[i].Err != nil && claims[i].Mark >= 0 && s.refused != nil:
			s.refused(&outs[i], claims[i])
		}
	}
	return outs, err
}

func (s *wrong) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	changed := append([]store.Release(nil), releases...)
	for i := range changed {
		if s.released != nil {
			s.released(&changed[i])
		}
	}
	return s.Store.Release(ctx, changed)
}

func (s *wrong) Extend(ctx context.Context, extensions []store.Extension) ([]error, error) {
	changed := append([]store.Extension(nil), extensions...)
	for i := range changed {
		if s.extended != nil {
			s.extended(&changed[i])
		}
	}
	return s.Store.Extend(ctx, changed)
}

func (s *wrong) Sweep(ctx context.Context, limit int) (int, error) {
	n, err := s.Store.Sweep(ctx, limit)
	if s.swept != nil {
		s.swept(n)
	}
	return n, err
}

// Each wrong store is found. If one is not, what is said of the real stores means nothing.
func TestWrongStoresAreFound(t *testing.T) {
	servers.Long(t)
	for _, test := range []struct {
		name  string
		wrong func() *wrong
	}{
		{"tokens fall after a sweep", func() *wrong {
			var mu sync.Mutex
			var fall int64
			s := &wrong{Store: memstore.New()}
			s.swept = func(forgotten int) {
				mu.Lock()
				defer mu.Unlock()
				fall += int64(forgotten) * 1_000_000
			}
			s.granted = func(out *store.Outcome, _ store.Claim) {
				mu.Lock()
				defer mu.Unlock()
				out.Grant.Token -= fall
			}
			return s
		}},
		{"what is held is granted", func() *wrong {
			s := &wrong{Store: memstore.New()}
			s.refused = func(out *store.Outcome, c store.Claim) {
				var held *store.HeldError
				if errors.As(out.Err, &held) && c.Mark == 0 {
					*out = store.Outcome{Grant: store.Grant{Token: held.Record.Token + 1, Mark: held.Record.Mark}}
				}
			}
			return s
		}},
		{"a release loses the mark", func() *wrong {
			s := &wrong{Store: memstore.New()}
			s.released = func(r *store.Release) { r.Mark = 0 }
			return s
		}},
		{"a release loses the state", func() *wrong {
			s := &wrong{Store: memstore.New()}
			s.released = func(r *store.Release) { r.State = nil }
			return s
		}},
		{"an extension loses the state", func() *wrong {
			s := &wrong{Store: memstore.New()}
			s.extended = func(e *store.Extension) { e.State = nil }
			return s
		}},
		{"a release leaves no linger", func() *wrong {
			s := &wrong{Store: memstore.New()}
			s.released = func(r *store.Release) { r.Linger = 0 }
			return s
		}},
		{"an extension is shorter than it says", func() *wrong {
			s := &wrong{Store: memstore.New()}
			s.extended = func(e *store.Extension) { e.TTL = store.MinTTL }
			return s
		}},
		{"marks are not told", func() *wrong {
			s := &wrong{Store: memstore.New()}
			s.granted = func(out *store.Outcome, _ store.Claim) { out.Grant.Mark = 0 }
			return s
		}},
		{"a completion is told as done before, which it was not", func() *wrong {
			s := &wrong{Store: memstore.New()}
			s.complete = func(c store.Completion) error {
				return &store.DoneError{Record: store.Record{Name: c.Name, Mark: c.Mark}}
			}
			return s
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := test.wrong()
			r := &run{rig: &rig{stores: []store.Store{s, s, s}, complete: s.completes}, drift: 0.02, tally: tally{}}
			for len(r.verdict.Violations) == 0 {
				if err := r.round(t.Context(), perRound); err != nil {
					t.Fatalf("not found in %d rounds: %v", r.rounds, err)
				}
				if r.rounds == 50 {
					t.Fatalf("not found in %d rounds: %s", r.rounds, r.verdict)
				}
			}
			t.Logf("found in round %d: %s", r.rounds, r.verdict.Violations[0].Checker)
		})
	}
}

// A sweep of which nobody knows whether it will be carried out has not ended.
func TestSweepWithoutAnAnswer(t *testing.T) {
	for _, want := range []error{nil, errors.New("no reply")} {
		rec := newRecorder()
		s := &recorded{Store: sweptLate{memstore.New(), want}, rec: rec}
		if _, err := s.Sweep(t.Context(), 1); !errors.Is(err, want) {
			t.Fatal(err)
		}
		if ended := rec.history()[0].Until != proof.Never; ended != (want == nil) {
			t.Errorf("answered %v: ended %v", want, ended)
		}
	}
}

type sweptLate struct {
	store.Store
	answer error
}

func (s sweptLate) Sweep(context.Context, int) (int, error) { return 0, s.answer }

// The memory store keeps all laws.
func TestMemory(t *testing.T) {
	s := &wrong{Store: memstore.New()} // in nothing
	try(t, &rig{stores: []store.Store{s, s, s}, complete: s.completes, sure: true})
}
