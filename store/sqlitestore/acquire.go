package sqlitestore

import (
	"context"
	"math"

	"github.com/soloist-dev/soloist/store"
)

// A verdict is the result of a claim on a record.
type verdict int

const (
	free  verdict = iota
	again         // the holder already has it
	done
	held
)

// judge is the order of the rules of store.Claim; r is nil for a name without a record.
func judge(r *record, c store.Claim, now int64) verdict {
	switch {
	case r != nil && r.liveFor(c.Holder, now):
		return again
	case c.Mark < 0, c.Mark != 0 && r != nil && r.mark >= c.Mark:
		return done
	case r != nil && now < r.until:
		return held
	}
	return free
}

// outcome returns the outcome of a claim that writes nothing.
func (v verdict) outcome(r *record, c store.Claim, now int64) store.Outcome {
	switch {
	case v == again:
		return store.Outcome{Grant: r.grant()}
	case v == held:
		return store.Outcome{Err: r.held(now)}
	case r == nil:
		return store.Outcome{Err: &store.DoneError{Record: store.Record{Name: c.Name}}}
	}
	return store.Outcome{Err: &store.DoneError{Record: r.whole(now)}}
}

// Acquire is as in store.Store.
func (s *Store) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	if err := s.alive(ctx); err != nil {
		return nil, s.at(err)
	}
	outcomes := make([]store.Outcome, len(claims))
	n := 0
	var found *record
	err := s.take(ctx, step{
		look: func(f *file, c *conn) (err error) {
			n, found, err = answer(f.clock, c, claims, outcomes)
			return err
		},
		more: func() bool { return n < len(claims) },
		quick: func() quickChange {
			if n < len(claims)-1 {
				return nil
			}
			return retake(found, claims[n], &outcomes[n])
		},
		write: func(t *tx) error { return t.acquire(claims[n:], outcomes[n:]) },
	})
	if err != nil {
		return nil, err
	}
	return outcomes, nil
}

// answer returns claims up to the first that looks free, by reading alone. It says how many that were, and the record
// of the free one.
func answer(clock *clock, c *conn, claims []store.Claim, outcomes []store.Outcome) (int, *record, error) {
	for i, claim := range claims {
		if outcomes[i].Err = claim.Check(); outcomes[i].Err != nil {
			continue
		}
		now := clock.now()
		reads := claim.Mark < 0 // and is told the state, whoever has the name
		r, err := c.record(claim.Name, reads, now)
		if corrupt(err, &outcomes[i].Err) {
			continue
		}
		if err != nil {
			return i, nil, err
		}
		v := judge(r, claim, now)
		if !reads && v != held && r != nil && r.stateBytes > 0 {
			if r, err = c.record(claim.Name, true, now); err != nil {
				return i, nil, err
			}
			v = judge(r, claim, now)
		}
		if v == free {
			return i, r, nil
		}
		outcomes[i] = v.outcome(r, claim, now)
	}
	return len(claims), nil, nil
}

// retake grants the name of a record that has been read and was free, if it has not changed since. A free record does
// not change but by a grant or by being forgotten.
func retake(r *record, c store.Claim, out *store.Outcome) quickChange {
	if r == nil || max(r.token, c.Above) == math.MaxInt64 {
		return nil
	}
	return func(now, wall int64) (int64, string, []any) {
		out.Grant, _ = r.next(now, wall, c.Above)
		until := after(now, c.TTL)
		return until, sqlRetake, []any{r.name, c.Holder, out.Grant.Token, now, until, r.token, r.released, r.until}
	}
}

func (t *tx) acquire(claims []store.Claim, outcomes []store.Outcome) error {
	for i, c := range claims {
		if outcomes[i].Err = c.Check(); outcomes[i].Err != nil {
			continue
		}
		r, err := t.record(c.Name, true, t.now)
		if corrupt(err, &outcomes[i].Err) {
			continue
		}
		if err != nil {
			return err
		}
		if v := judge(r, c, t.now); v != free {
			outcomes[i] = v.outcome(r, c, t.now)
			continue
		}
		if outcomes[i], err = t.take(r, c); err != nil {
			return err
		}
	}
	return nil
}

// take grants a free name; r is its record, nil if it has none.
func (t *tx) take(r *record, c store.Claim) (store.Outcome, error) {
	var floor int64
	if err := t.row(sqlFloor, nil, &floor); err != nil {
		return store.Outcome{}, err
	}
	if r == nil {
		r = &record{released: true}
	}
	g, err := r.next(t.now, t.wall, max(c.Above, floor))
	if err != nil {
		return store.Outcome{Err: err}, nil
	}
	until := after(t.now, c.TTL)
	if _, err := t.exec(sqlTake, c.Name, c.Holder, g.Token, t.now, until); err != nil {
		return store.Outcome{}, err
	}
	t.changed, t.given = true, max(t.given, until)
	return store.Outcome{Grant: g}, nil
}
