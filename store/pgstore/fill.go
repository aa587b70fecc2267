package pgstore

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/internal/sqlshared"

	"github.com/jackc/pgx/v5"
)

// Fill is as in store.Filler. A table shared with ShedLock, and CockroachDB, are not supported.
func (s *Store) Fill(ctx context.Context, fillings []store.Filling) ([]bool, error) {
	if err := s.alive(ctx); err != nil {
		return nil, err
	}
	if s.sql.fill == "" {
		return nil, errors.ErrUnsupported
	}
	pending := make([]int, len(fillings))
	for i, f := range fillings {
		if err := f.Check(); err != nil {
			return nil, err
		}
		pending[i] = i
	}
	until, err := s.deadline(ctx)
	if err != nil {
		return nil, err
	}
	made := make([]bool, len(fillings))
	for len(pending) > 0 {
		asked, rest := s.next(len(pending), func(k int) (string, int) {
			f := fillings[pending[k]]
			return f.Name, len(f.State)
		})
		numbers := make(map[string]int, len(asked))
		names, marks := make([]string, len(asked)), make([]int64, len(asked))
		states, retains := make([][]byte, len(asked)), make([]*int64, len(asked))
		for k, at := range asked {
			f := fillings[pending[at]]
			numbers[f.Name] = pending[at]
			names[k], marks[k], states[k] = f.Name, f.Mark, f.State
			if f.Retain != store.Forever {
				retains[k] = new(sqlshared.Micros(f.Retain))
			}
		}
		rows, err := change(ctx, s, s.sql.fill, []any{names, marks, states, retains, until}, scanText)
		if err != nil {
			return nil, err
		}
		for _, name := range rows {
			i, there := numbers[name]
			if !there || made[i] {
				return nil, s.impossible("a row about %s, which was not asked for", shown(name))
			}
			made[i] = true
		}
		left := make([]int, len(rest))
		for k, at := range rest {
			left[k] = pending[at]
		}
		pending = left
	}
	return made, nil
}

// deadline returns the deadline of ctx by the server's clock, or a little before, in µs since 1970.
func (s *Store) deadline(ctx context.Context) (int64, error) {
	at, ok := ctx.Deadline()
	if !ok {
		return math.MaxInt64, nil
	}
	now, err := look(ctx, s, "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint", nil, scanInt)
	n, err := only(s, now, err)
	return n + time.Until(at).Microseconds(), err
}

func scanText(rows pgx.Rows) (text string, err error) { return text, rows.Scan(&text) }
