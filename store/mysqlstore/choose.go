package mysqlstore

import (
	"context"
	"errors"
	"math"

	"github.com/soloist-dev/soloist/store"
)

// Choose is as in store.Chooser.
func (s *Store) Choose(ctx context.Context, names []string, claim store.Claim) (int, store.Grant, error) {
	if err := s.alive(ctx); err != nil {
		return 0, store.Grant{}, s.explain(err)
	}
	if err := store.CheckChoice(names, claim); err != nil {
		return 0, store.Grant{}, err
	}
	for _, name := range names {
		if err := s.mayShare(name); err != nil {
			return 0, store.Grant{}, err
		}
	}
	var i int
	var v verdict
	var r *record
	var records []*record
	passed := make([]bool, len(names)) // once each; then what still looks free is tried again after pauses
	for pauses := 0; ; {
		var err error
		if records, err = s.takeOne(ctx, names, claim, passed); err != nil {
			return 0, store.Grant{}, err
		}
		i, v = best(records, claim)
		if r = records[i]; v != free {
			break
		}
		more := pass(records, claim, passed)
		if more && pauses == 0 {
			continue
		}
		if pauses == lockedTries || !pause(ctx, lockedPause<<pauses) {
			break
		}
		if pauses++; !more {
			clear(passed)
		}
	}
	if v == free && r == nil {
		switch err := s.floorless(ctx); {
		case errors.Is(err, store.ErrTokens):
			i, v = best(spent(records), claim)
			r = records[i]
		case err != nil:
			return i, store.Grant{}, err
		}
	}
	claim.Name = names[i]
	out := v.outcome(r, claim)
	return i, out.Grant, out.Err
}

// spent gives names without a row what they are where the floor is the greatest token: free, and without tokens.
func spent(records []*record) []*record {
	for i, r := range records {
		if r == nil {
			records[i] = &record{}
			records[i].Token = math.MaxInt64
		}
	}
	return records
}

// pass passes by the first name that looks free and could not be taken. It reports whether another one that looks free is left.
func pass(records []*record, claim store.Claim, passed []bool) (more bool) {
	found := false
	for i, r := range records {
		if passed[i] || rank(judge(r, claim), r) != ranks[free] {
			continue
		}
		if found {
			return true
		}
		found, passed[i] = true, true
	}
	return false
}

// takeOne takes the first name that is free and not passed by, unless the holder has one, and returns the records of all.
func (s *Store) takeOne(ctx context.Context, names []string, claim store.Claim, passed []bool) ([]*record, error) {
	rows := make([][]cell, len(names))
	for n, name := range names {
		c := claim
		c.Name = name
		if passed[n] {
			c.Mark = -1 // it is only read
		}
		rows[n] = s.claimRow(c)
	}
	f := choosing(rows)
	if s.inSteps() {
		records, err := s.seen(ctx, f, len(names))
		if err != nil {
			return nil, err
		}
		if _, v := best(records, claim); v != free {
			return records, nil
		}
	}
	return s.changed(ctx, f, len(names))
}

// best returns the name that this call has taken, else the one that the holder has, else one that looks free but could not be taken, else
// the one that would be free first.
func best(records []*record, claim store.Claim) (int, verdict) {
	order := 0
	verdicts := make([]verdict, len(records))
	for i, r := range records {
		verdicts[i] = judge(r, claim)
		if better(verdicts[i], r, verdicts[order], records[order]) {
			order = i
		}
	}
	return order, verdicts[order]
}

var ranks = map[verdict]int{taken: 0, again: 1, free: 2, held: 3, corrupt: 4}

// rank orders what may be chosen. A free name without tokens is of no more use than a corrupt one.
func rank(v verdict, r *record) int {
	if v == free && r != nil && r.Token == math.MaxInt64 {
		v = corrupt
	}
	return ranks[v]
}

func better(v verdict, r *record, than verdict, other *record) bool {
	if a, b := rank(v, r), rank(than, other); a != b {
		return a < b
	}
	return v == held && r.Left < other.Left
}
