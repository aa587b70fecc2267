package transaction

import (
	"context"
	"errors"
	"testing"

	"github.com/soloist-dev/soloist/fence"
)

// register is a guard of one resource. Its transactions are the tokens that they have shown.
type register struct {
	seen     int64
	rollback func() // what others do once a transaction is rolled back
}

func (r *register) guard() Guard[*int64] {
	return Guard[*int64]{
		Begin: func(ctx context.Context) (*int64, error) { return new(int64), ctx.Err() },
		Check: func(ctx context.Context, tx *int64, resource string, token int64) error {
			if token < r.seen {
				return &fence.StaleError{Resource: resource, Token: token, Seen: r.seen}
			}
			*tx = token
			return ctx.Err()
		},
		Commit: func(ctx context.Context, tx *int64) error {
			if ctx.Err() == nil {
				r.seen = *tx
			}
			return ctx.Err()
		},
		Rollback: func(ctx context.Context, _ *int64) error {
			if r.rollback != nil {
				r.rollback()
			}
			return ctx.Err()
		},
	}
}

// A write whose context ends in its midst is not committed, and its token counts as seen all the same.
func TestTokenOfAWriteWhoseContextEnds(t *testing.T) {
	for name, write := range map[string]func(context.Context) error{
		"the write fails":           func(ctx context.Context) error { return ctx.Err() },
		"it cannot be committed":    func(context.Context) error { return nil },
		"the write fails otherwise": func(context.Context) error { return errors.New("broken") },
	} {
		t.Run(name, func(t *testing.T) {
			r := &register{}
			ctx, cancel := context.WithCancel(t.Context())
			err := r.guard().DoTx(ctx, "x", 5, func(*int64) error {
				cancel()
				return write(ctx)
			})
			if err == nil || r.seen != 5 {
				t.Errorf("got %v, and token %d was seen; want an error and 5", err, r.seen)
			}
		})
	}
}

// A write that fails has its own error alone, also if a greater token was shown before its own could be claimed.
func TestGreaterTokenAfterAWriteThatFails(t *testing.T) {
	r := &register{}
	r.rollback = func() { r.seen = 7 }
	broken := errors.New("broken")
	if err := r.guard().DoTx(t.Context(), "x", 5, func(*int64) error { return broken }); !errors.Is(err, broken) || errors.Is(err, fence.ErrStale) {
		t.Errorf("got %v, want the error of the write", err)
	}
	if r.seen != 7 {
		t.Errorf("token %d was seen, want 7", r.seen)
	}
}
