package faults

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

var (
	errRefused = errors.New("refused")
	errCut     = errors.New("the answer was lost")
)

// A stepped is a store each call of which has two steps: it is sent, and it is answered.
type stepped struct {
	store.Store
	left  int
	fired bool
	lie   string
	spent bool // it does not work any more
}

func (s *stepped) step() bool {
	if s.left == 0 {
		return false
	}
	s.left--
	s.fired = s.fired || s.left == 0
	return s.left == 0
}

// call makes a call, and returns the error that it is told with.
func (s *stepped) call(do func()) error {
	switch {
	case s.spent:
		return errRefused
	case s.step():
		s.spent = s.lie == "does not work after it"
		return errRefused
	}
	do()
	if !s.step() {
		return nil
	}
	if s.lie == "tells what is done as not done" {
		return errCut
	}
	return store.AsUnknown(errCut)
}

func (s *stepped) Acquire(ctx context.Context, claims []store.Claim) (outs []store.Outcome, err error) {
	told := s.call(func() { outs, err = s.Store.Acquire(ctx, claims) })
	switch {
	case errors.Is(told, errRefused) && s.lie == "tells what is not done as done":
		return make([]store.Outcome, len(claims)), nil
	case told != nil:
		return nil, told
	}
	return outs, err
}

func (s *stepped) Extend(ctx context.Context, extensions []store.Extension) (errs []error, err error) {
	told := s.call(func() { errs, err = s.Store.Extend(ctx, extensions) })
	switch {
	case errors.Is(told, errRefused) && s.lie == "tells a lease as lost":
		return []error{store.ErrLost, store.ErrLost, store.ErrLost}[:len(extensions)], nil
	case told != nil:
		return nil, told
	}
	return errs, err
}

func (s *stepped) Release(ctx context.Context, releases []store.Release) (errs []error, err error) {
	told := s.call(func() { errs, err = s.Store.Release(ctx, releases) })
	switch {
	case told != nil && s.lie == "tells a release as done":
		return make([]error, len(releases)), nil
	case told != nil && s.lie == "harms another name":
		var r store.Release
		for beside := range s.Store.List(ctx, "") {
			if beside.Holder == "b" {
				r = store.Release{Name: beside.Name, Holder: "b", Token: beside.Token, Retain: store.Forever}
			}
		}
		_, _ = s.Store.Release(ctx, []store.Release{r})
	}
	if told != nil {
		return nil, told
	}
	return errs, err
}

func (s *stepped) List(ctx context.Context, prefix string) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		n := 0
		for r, err := range s.Store.List(ctx, prefix) {
			if n++; n%100 == 0 && s.step() {
				if s.lie != "ends a list early" {
					yield(store.Record{}, errCut)
				}
				return
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

func (s *stepped) Close() error { return nil }

// A recorder is a test that fails in place of the one that looks whether it does.
type recorder struct {
	testing.TB
	said []string
}

func (r *recorder) Errorf(format string, args ...any) {
	r.said = append(r.said, fmt.Sprintf(format, args...))
}
func (r *recorder) Failed() bool { return len(r.said) > 0 }
func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	panic(r)
}

// A store that tells the truth of each fault passes, and one that lies does not.
func TestLiesAreSeen(t *testing.T) {
	for lie, where := range map[string]string{
		"":                               "",
		"tells what is done as not done": "acquire",
		"tells what is not done as done": "acquire several",
		"tells a lease as lost":          "extend",
		"tells a release as done":        "release several",
		"harms another name":             "release",
		"does not work after it":         "extend several",
		"ends a list early":              "list",
	} {
		t.Run(lie, func(t *testing.T) {
			var s *stepped
			fault := Fault{Name: "fault", Arm: func(k int) { s.left, s.fired = k, false }, Off: func() bool { s.left = 0; return s.fired }}
			total := 0
			for _, op := range operations {
				if where != "" && op.name != where {
					continue
				}
				inner := memstore.New()
				r := &recorder{TB: t}
				func() {
					defer func() {
						if p := recover(); p != nil && p != r {
							panic(p)
						}
					}()
					total += sweep(r, Subject{Plain: inner, Open: func(testing.TB) store.Store {
						s = &stepped{Store: inner, lie: lie}
						return s
					}}, fault, op)
				}()
				if r.Failed() != (lie != "") {
					t.Errorf("%s: it is said: %q", op.name, r.said)
				}
			}
			if lie == "" && total < 20 {
				t.Errorf("%d steps have failed", total)
			}
		})
	}
}
