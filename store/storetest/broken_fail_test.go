package storetest_test

import (
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/storetest"
)

var failFlaws = []flaw{
	{"request-fails", "what has no reply is told as not done", always(bend{fails: func(fate storetest.Fate, do func() error) error {
		err := do()
		if fate == storetest.Unanswered {
			return errors.New("no reply")
		}
		return err
	}})},
	{"request-fails", "what was lost is told as done", always(bend{fails: func(fate storetest.Fate, do func() error) error {
		if fate == storetest.Lost {
			return nil
		}
		return fails(fate, do)
	}})},
	{"request-fails", "a lease is lost with a request", always(bend{fails: func(fate storetest.Fate, do func() error) error {
		if fate == storetest.Lost {
			return store.ErrLost
		}
		return fails(fate, do)
	}})},
	{"request-fails", "nothing can be done after a failure", func(testing.TB) bend {
		broken := false
		return bend{fails: func(fate storetest.Fate, do func() error) error {
			if broken {
				return errors.New("the connection is broken")
			}
			broken = fate != storetest.Carried
			return fails(fate, do)
		}}
	}},
}

// fails is what becomes of a request, as it should be told.
func fails(fate storetest.Fate, do func() error) error {
	switch fate {
	case storetest.Lost:
		return errors.New("lost")
	case storetest.Unanswered:
		_ = do()
		return store.AsUnknown(errors.New("no reply"))
	default:
		return do()
	}
}

// A failing store is a bent one each of whose calls is a request.
type failing struct {
	*bent
	fate func() storetest.Fate
}

func (f *failing) request(do func() error) error {
	if f.fails != nil {
		return f.fails(f.fate(), do)
	}
	return fails(f.fate(), do)
}

func (f *failing) Acquire(ctx context.Context, claims []store.Claim) (out []store.Outcome, err error) {
	err = f.request(func() (err error) { out, err = f.bent.Acquire(ctx, claims); return err })
	if err == nil && out == nil {
		out = make([]store.Outcome, len(claims))
	}
	return out, err
}

func (f *failing) Extend(ctx context.Context, extensions []store.Extension) (errs []error, err error) {
	err = f.request(func() (err error) { errs, err = f.bent.Extend(ctx, extensions); return err })
	if err == nil && errs == nil {
		errs = make([]error, len(extensions))
	}
	return errs, err
}

func (f *failing) Release(ctx context.Context, releases []store.Release) (errs []error, err error) {
	err = f.request(func() (err error) { errs, err = f.bent.Release(ctx, releases); return err })
	if err == nil && errs == nil {
		errs = make([]error, len(releases))
	}
	return errs, err
}

func (f *failing) List(ctx context.Context, prefix string) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		if err := f.request(func() error { return nil }); err != nil {
			yield(store.Record{}, err)
			return
		}
		f.bent.List(ctx, prefix)(yield)
	}
}
