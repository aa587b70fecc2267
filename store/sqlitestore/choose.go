package sqlitestore

import (
	"context"
	"math"

	"github.com/soloist-dev/soloist/store"
)

// Choose is as in store.Chooser.
func (s *Store) Choose(ctx context.Context, names []string, claim store.Claim) (int, store.Grant, error) {
	if err := s.alive(ctx); err != nil {
		return 0, store.Grant{}, s.at(err)
	}
	if err := store.CheckChoice(names, claim); err != nil {
		return 0, store.Grant{}, err
	}
	var chosen choice
	var out store.Outcome
	err := s.take(ctx, step{
		look: func(f *file, c *conn) (err error) {
			if chosen, err = c.choose(names, claim, f.clock); err == nil && chosen.verdict != free {
				out = chosen.outcome(claim)
			}
			return err
		},
		more:  func() bool { return chosen.verdict == free },
		quick: func() quickChange { return retake(chosen.record, claim, &out) },
		write: func(t *tx) (err error) {
			chosen, out, err = t.choose(names, claim)
			return err
		},
	})
	if err != nil {
		return 0, store.Grant{}, err
	}
	return chosen.i, out.Grant, out.Err
}

// A choice is the name that decides a claim on several names, and how.
type choice struct {
	i       int
	record  *record
	verdict verdict
	now     int64
	corrupt error // of one of the others, or that it has no tokens left
}

func (c choice) outcome(claim store.Claim) store.Outcome {
	if c.record == nil {
		return store.Outcome{Err: c.corrupt} // all are
	}
	claim.Name = c.record.name
	return c.verdict.outcome(c.record, claim, c.now)
}

// choose finds the name that claim.Holder has, else the first free one, else the one that would be free first.
func (c *conn) choose(names []string, claim store.Claim, clock *clock) (choice, error) {
	best := choice{verdict: held}
	for i, name := range names {
		claim.Name = name
		now := clock.now()
		r, err := c.record(name, true, now)
		if corrupt(err, &best.corrupt) {
			continue
		}
		if err != nil {
			return best, err
		}
		switch v := judge(r, claim, now); {
		case v == again:
			return choice{i, r, v, now, nil}, nil
		case v == free && r != nil && r.token == math.MaxInt64:
			if best.corrupt == nil {
				best.corrupt = store.ErrTokens
			}
		case best.verdict == free:
		case v == free, best.record == nil, r.until < best.record.until:
			best = choice{i, r, v, now, best.corrupt}
		}
	}
	return best, nil
}

func (t *tx) choose(names []string, claim store.Claim) (choice, store.Outcome, error) {
	at := &clock{now: func() int64 { return t.now }}
	chosen, err := t.conn.choose(names, claim, at)
	if err != nil {
		return chosen, store.Outcome{}, err
	}
	if chosen.verdict != free {
		return chosen, chosen.outcome(claim), nil
	}
	claim.Name = names[chosen.i]
	out, err := t.take(chosen.record, claim)
	return chosen, out, err
}
