package load

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/soloist-dev/soloist"
)

// Pair is case A: one caller acquires and releases one free lock.
func Pair(ctx context.Context, cfg Config) ([]Result, error) {
	return cfg.pairs(ctx, "A", "one caller", 1)
}

// Many is case B: goroutines of one client acquire and release locks, each its own.
func Many(ctx context.Context, cfg Config) ([]Result, error) {
	n := cfg.Size.Goroutines
	return cfg.pairs(ctx, "B", fmt.Sprintf("%d goroutines, a name each", n), n)
}

func (cfg Config) pairs(ctx context.Context, letter, what string, n int) ([]Result, error) {
	return cfg.measured(ctx, letter, what, "pair", n, func(r *replica) func(context.Context, int) error {
		called := names("pair", n)
		return func(ctx context.Context, w int) error {
			l, err := r.TryLock(ctx, called[w])
			if err == nil {
				err = l.Release()
			}
			if err != nil {
				called[w] += "+" // the name may be held for a TTL; another one will do
			}
			return err
		}
	})
}

// Refused is case D: attempts to acquire a lock that another client holds, by one goroutine and by many.
func Refused(ctx context.Context, cfg Config) ([]Result, error) {
	holder, err := cfg.replica(ctx, soloist.Options{TTL: time.Minute})
	if err != nil {
		return nil, err
	}
	defer func() { _ = holder.close() }() // its lease ends with its TTL otherwise
	if _, err := holder.TryLock(ctx, "held"); err != nil {
		return nil, err
	}
	var all []Result
	cfg.For /= 2
	for i, n := range []int{1, cfg.Size.Goroutines} {
		what := "one caller"
		if n > 1 {
			what = fmt.Sprintf("%d goroutines", n)
		}
		results, err := cfg.part(i, 2).measured(ctx, "D", what, "try", n, func(r *replica) func(context.Context, int) error {
			return func(ctx context.Context, _ int) error {
				if _, err := r.TryLock(ctx, "held"); !errors.Is(err, soloist.ErrHeld) {
					return fmt.Errorf("a held lock answered: %w", orGranted(err))
				}
				return nil
			}
		})
		if err != nil {
			return nil, err
		}
		all = append(all, results...)
	}
	return all, nil
}

var errGranted = errors.New("it was granted")

func orGranted(err error) error {
	if err == nil {
		return errGranted
	}
	return err
}

// measured repeats the operation that make returns, on a new client.
func (cfg Config) measured(ctx context.Context, letter, what, unit string, workers int, with func(*replica) func(context.Context, int) error) ([]Result, error) {
	var result Result
	err := cfg.on(ctx, soloist.Options{}, func(r *replica) error {
		loop := cfg.loop(workers, what)
		var before int64
		loop.Begin = func() error { before = r.counter.Requests.Load(); return nil }
		s, err := loop.Run(ctx, with(r))
		if err == nil {
			result = s.Result(letter, what, unit, r.counter.Requests.Load()-before)
		}
		return err
	})
	return []Result{result}, err
}

func names(kind string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint(kind, "-", i)
	}
	return names
}
