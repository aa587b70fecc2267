package pgstore

import (
	"context"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// Choose is as in store.Chooser.
func (s *Store) Choose(ctx context.Context, names []string, claim store.Claim) (int, store.Outcome, error) {
	if err := s.alive(ctx); err != nil {
		return 0, store.Outcome{}, err
	}
	if err := store.CheckChoice(names, claim); err != nil {
		return 0, store.Outcome{Err: err}, nil
	}
	var rows []string
	var records []*string
	var numbers []int // of the names; one that is there twice counts where it is first
	known := map[string]bool{}
	for i, name := range names {
		row, record := s.row(name)
		if !known[row] {
			known[row] = true
			rows, records, numbers = append(rows, row), append(records, record), append(numbers, i)
		}
	}
	args := []any{rows, claim.Holder, micros(claim.TTL), records}
	start := time.Now()
	for try := 0; ; try++ {
		answers, err := change(ctx, s, s.sql.choose, args, scanAnswer)
		if err != nil {
			return 0, store.Outcome{}, err
		}
		a := answers[0]
		i := numbers[a.number-1]
		claim.Name = names[i]
		out := a.decide(claim)
		if out.Err != errUndecided {
			return i, out, nil
		}
		// A crowd of choosers collides once for each name at most; only then is it one name that stays locked.
		if time.Since(start) > lockPatience && try > 2*len(rows) {
			return i, store.Outcome{Err: a.record.locked(claim.Name)}, nil
		}
		s.collided(ctx, min(try, 4))
	}
}
