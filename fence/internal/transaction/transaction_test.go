package transaction

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
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

// TestSteps: each outcome takes these steps and no others, and an error says which resource it is about.
func TestSteps(t *testing.T) {
	broken := errors.New("broken")
	stale := &fence.StaleError{Resource: "x", Token: 5, Seen: 7}
	write := func(err error) func(Guard[string]) error {
		return func(g Guard[string]) error {
			return g.DoTx(t.Context(), "x", 5, func(tx string) error {
				if tx != "transaction" {
					t.Errorf("the write has the transaction %q", tx)
				}
				return err
			})
		}
	}
	claim := func(g Guard[string]) error { return g.Claim(t.Context(), "x", 5) }
	const claimed = " begin check commit"
	for _, test := range []struct {
		name  string
		do    func(Guard[string]) error
		fails map[int]error // by number of the step
		steps string
		is    []error
		says  string
	}{
		{"a write", write(nil), nil, "begin check commit", nil, ""},
		{"a write that fails", write(broken), nil, "begin check rollback" + claimed, []error{broken}, "broken"},
		{"a write that fails, and so does its claim", write(broken), map[int]error{4: context.DeadlineExceeded}, "begin check rollback begin", []error{broken, context.DeadlineExceeded}, `"x"`},
		{"a write that fails, and whose token is stale by then", write(broken), map[int]error{5: stale}, "begin check rollback begin check rollback", []error{broken}, "broken"},
		{"a write that cannot be committed", write(nil), map[int]error{3: broken}, "begin check commit rollback" + claimed, []error{broken}, `committing what was written to "x"`},
		{"a write that cannot begin", write(nil), map[int]error{1: broken}, "begin", []error{broken}, `beginning to write to "x"`},
		{"a stale write", write(nil), map[int]error{2: stale}, "begin check rollback", []error{fence.ErrStale}, `"x"`},
		{"a claim", claim, nil, "begin check commit", nil, ""},
		{"a claim that cannot begin", claim, map[int]error{1: broken}, "begin", []error{broken}, `"x"`},
		{"a stale claim", claim, map[int]error{2: stale}, "begin check rollback", []error{fence.ErrStale}, `"x"`},
		{"a claim that cannot be committed", claim, map[int]error{3: broken}, "begin check commit rollback", []error{broken}, `"x"`},
		{"a write that panics", func(g Guard[string]) (err error) {
			defer func() { err, _ = recover().(error) }()
			return g.DoTx(t.Context(), "x", 5, func(string) error { panic(broken) })
		}, nil, "begin check rollback" + claimed, []error{broken}, ""},
		{"a write that ends its goroutine", func(g Guard[string]) error {
			var work sync.WaitGroup
			work.Go(func() { _ = g.DoTx(t.Context(), "x", 5, func(string) error { runtime.Goexit(); return nil }) })
			work.Wait()
			return nil
		}, nil, "begin check rollback" + claimed, nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var steps []string
			step := func(name string) error {
				steps = append(steps, name)
				return test.fails[len(steps)]
			}
			err := test.do(Guard[string]{
				Begin:    func(context.Context) (string, error) { return "transaction", step("begin") },
				Check:    func(context.Context, string, string, int64) error { return step("check") },
				Commit:   func(context.Context, string) error { return step("commit") },
				Rollback: func(context.Context, string) error { return step("rollback") },
			})
			if got := strings.Join(steps, " "); got != test.steps {
				t.Errorf("took the steps %q, want %q", got, test.steps)
			}
			if (err != nil) != (test.is != nil) {
				t.Errorf("got %v", err)
			}
			for _, is := range test.is {
				if !errors.Is(err, is) {
					t.Errorf("got %v, want %v", err, is)
				}
			}
			if err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want that it says %s", err, test.says)
			}
			if err != nil && errors.Is(test.fails[5], fence.ErrStale) && errors.Is(err, fence.ErrStale) {
				t.Errorf("got %v, want nothing of a token that has been passed", err)
			}
		})
	}
}

// TestTable: the name of a table is one that needs no quotes, in a schema or without.
func TestTable(t *testing.T) {
	for configured, want := range map[string]string{"": "fences", "f": "f", "app.f_1": "app.f_1", strings.Repeat("a", 63): strings.Repeat("a", 63)} {
		if got, err := Table(configured); got != want || err != nil {
			t.Errorf("%q: got %q, %v", configured, got, err)
		}
	}
	for _, bad := range []string{"F", "a.b.c", ".a", "a.", "1a", "a b", `"a"`, "a;", strings.Repeat("a", 64)} {
		if got, err := Table(bad); got != "" || err == nil || !strings.Contains(err.Error(), "schema.name") {
			t.Errorf("%q: got %q, %v, want an error that says what would be right", bad, got, err)
		}
	}
}
