package pgstore

import (
	"context"
	"errors"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/internal/sqlshared"
)

// Choose is as in store.Chooser.
func (s *Store) Choose(ctx context.Context, names []string, claim store.Claim) (int, store.Grant, error) {
	if err := s.alive(ctx); err != nil {
		return 0, store.Grant{}, err
	}
	if err := store.CheckChoice(names, claim); err != nil {
		return 0, store.Grant{}, err
	}
	for _, name := range names {
		if err := s.mayShare(name); err != nil {
			return 0, store.Grant{}, err
		}
	}
	var rows []string
	var records []*string
	numbers := make(map[string]int, len(names)) // by row; of one that is there twice the first counts
	for i, name := range names {
		row, record := s.row(name)
		if _, twice := numbers[row]; !twice {
			numbers[row] = i
			rows, records = append(rows, row), append(records, record)
		}
	}
	args := []any{rows, claim.Holder, sqlshared.Micros(claim.TTL), records}
	start := time.Now()
	for try := 0; ; try++ {
		answers, err := change(ctx, s, s.sql.choose, args, s.scanAnswer)
		a, err := only(s, answers, err)
		if err != nil {
			return 0, store.Grant{}, err
		}
		i, there := numbers[a.name]
		if !there {
			return 0, store.Grant{}, s.impossible("a row about %s, which was not asked for", shown(a.name))
		}
		claim.Name = names[i]
		out := a.decide(s, claim)
		switch {
		case out.Err == nil && a.token == nil: // granted before
			if err := s.confirm(ctx); err != nil {
				return 0, store.Grant{}, err
			}
			return i, out.Grant, nil
		case !errors.Is(out.Err, errUndecided):
			return i, out.Grant, out.Err
		}
		// A crowd of choosers collides once for each name at most; only then is it one name that stays locked.
		if time.Since(start) > lockPatience && try > 2*len(rows) {
			return i, store.Grant{}, locked(claim.Name)
		}
		s.collided(ctx, min(try, 4))
	}
}
