package pgstore

import (
	"cmp"
	"context"
	"errors"
	"math"
	"runtime"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/internal/sqlshared"
)

// lockPatience is how long a batch waits for rows that others have locked. Statements of ours hold a lock for as long as a commit
// takes; a transaction with a Completion in it for as long as its owner likes.
const lockPatience = 100 * time.Millisecond

// chunk bounds the elements of one statement, and chunkState the bytes of their states.
const (
	chunk      = 10_000
	chunkState = 64 << 20
)

// A verdict is the result of a claim on a record.
type verdict int

const (
	free  verdict = iota
	again         // the holder already has it
	done
	held
)

// judge is the order of the rules of store.Claim.
func (r *record) judge(c store.Claim) verdict {
	switch {
	case r.LiveFor(c.Holder):
		return again
	case c.Mark != 0 && r.Mark >= c.Mark:
		return done
	case r.there && r.Left > 0:
		return held
	}
	return free
}

// refuse returns the outcome of a claim whose name is not free.
func (r *record) refuse(c store.Claim, v verdict) store.Outcome {
	switch v {
	case again:
		if r.unsure != nil {
			return store.Outcome{Err: r.unsure}
		}
		return store.Outcome{Grant: r.Grant()}
	case done:
		return store.Outcome{Err: &store.DoneError{Record: r.Whole(c.Name)}}
	default:
		return store.Outcome{Err: &store.HeldError{Record: r.Lease(c.Name)}}
	}
}

// grant returns a claim that was granted, and changes the record into what it is from then on.
func (r *record) grant(c store.Claim, token int64) store.Outcome {
	out := store.Outcome{Grant: store.Grant{Token: token, Mark: r.Mark, State: r.State, ExpiredAge: r.abandoned()}}
	*r = record{there: true, known: true,
		Record: sqlshared.Record{Holder: c.Holder, LockedBy: c.Holder, Token: token, Mark: r.Mark, Left: c.TTL, State: r.State}}
	return out
}

// locked returns the outcome for a name that looked free, but whose row another transaction kept locked: repeat the claim.
func locked(name string) error {
	return &store.HeldError{Record: store.Record{Name: name, Left: lockPatience}}
}

// Acquire is as in store.Store.
func (s *Store) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	if err := s.alive(ctx); err != nil {
		return nil, err
	}
	outcomes := make([]store.Outcome, len(claims))
	var valid []int
	for i, c := range claims {
		if outcomes[i].Err = cmp.Or(c.Check(), s.mayShare(c.Name)); outcomes[i].Err == nil {
			valid = append(valid, i)
		}
	}
	if err := s.acquire(ctx, claims, outcomes, valid); err != nil {
		return nil, err
	}
	return outcomes, nil
}

// acquire decides the claims whose numbers are pending. Its error is that of all of them; one that comes after some have been decided
// is the outcome of the others.
func (s *Store) acquire(ctx context.Context, claims []store.Claim, outcomes []store.Outcome, pending []int) error {
	total := len(pending)
	var since time.Time // no claim has been decided
	for try := 0; len(pending) > 0; try++ {
		before := len(pending)
		seen, repeated, err := s.take(ctx, claims, pending, outcomes)
		if err != nil {
			return spread(err, len(pending) == total, pending, func(i int, err error) { outcomes[i].Err = err })
		}
		if len(repeated) > 0 {
			if err := s.confirm(ctx); err != nil {
				for _, i := range repeated {
					outcomes[i] = store.Outcome{Err: err}
					seen[claims[i].Name].unsure = err
				}
			}
		}
		pending = undecided(claims, outcomes, pending, seen)
		switch {
		case len(pending) < before:
			try, since = 0, time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) > lockPatience:
			for _, i := range pending {
				outcomes[i].Err = locked(claims[i].Name)
			}
			return nil
		}
		if len(pending) > 0 {
			s.collided(ctx, try)
		}
	}
	return nil
}

// spread makes err that of the whole call, if nothing has been decided yet, or else that of each element that is pending.
func spread(err error, whole bool, pending []int, set func(i int, err error)) error {
	if whole {
		return err
	}
	for _, i := range pending {
		set(i, err)
	}
	return nil
}

// collided lets those go first whom a statement has met.
func (s *Store) collided(ctx context.Context, try int) {
	if try == 0 {
		runtime.Gosched() // most are done within the time of a round trip
		return
	}
	_ = pause(ctx, try-1) // if ctx has ended, the next statement fails
}

// A sighting is what take saw of a row.
type sighting map[string]*record

// take asks for the first claim of each row among those pending, in one statement, and decides those that it can. It returns what
// the records are now, by the claims' names; a claim's name may not be there if the chunk was full. Those in repeated had been granted before.
func (s *Store) take(ctx context.Context, claims []store.Claim, pending []int, outcomes []store.Outcome) (_ sighting, repeated []int, _ error) {
	var asked []int
	var names, holders []string
	var ttls, marks, aboves []int64
	var records []*string
	rows := make(map[string]int, len(pending)) // numbers in asked
	for _, i := range pending {
		c := claims[i]
		row, record := s.row(c.Name)
		if _, twice := rows[row]; twice || len(asked) == chunk {
			continue
		}
		rows[row] = len(asked)
		asked = append(asked, i)
		names, holders = append(names, row), append(holders, c.Holder)
		ttls, marks, records, aboves = append(ttls, sqlshared.Micros(c.TTL)), append(marks, c.Mark), append(records, record), append(aboves, c.Above)
	}
	sql, args := s.sql.acquire, []any{names, holders, ttls, marks, records, aboves}
	if len(asked) == 1 && s.sql.acquireOne != "" {
		sql, args = s.sql.acquireOne, []any{names[0], holders[0], ttls[0], marks[0], records[0], aboves[0]}
	}
	answers, err := change(ctx, s, sql, args, s.scanAnswer)
	if err != nil {
		return nil, nil, err
	}
	found := make([]*record, len(asked))
	for _, a := range answers { // those that were granted come last
		k, there := rows[a.name]
		if !there {
			return nil, nil, s.impossible("a row about %s, which was not asked for", shown(a.name))
		}
		if found[k] != nil && a.token == nil {
			a.wrong = s.impossible("about %s: there is more than one row", shown(a.name))
		}
		found[k] = &a.record
		outcomes[asked[k]] = a.decide(s, claims[asked[k]])
		if a.token == nil && outcomes[asked[k]].Err == nil {
			repeated = append(repeated, asked[k])
		}
	}
	for k, r := range found {
		if r == nil {
			wrong := s.impossible("there is no row about %s", shown(names[k]))
			found[k] = &record{wrong: wrong}
			outcomes[asked[k]] = store.Outcome{Err: wrong}
		}
	}
	seen := make(sighting, len(pending))
	for _, i := range pending {
		row, _ := s.row(claims[i].Name)
		if k, asked := rows[row]; asked {
			seen[claims[i].Name] = found[k]
		}
	}
	return seen, repeated, nil
}

// errUndecided is the outcome of a claim until it has been decided.
var errUndecided = errors.New("undecided")

// decide returns the claim that the row is about. The record becomes what it is after that.
func (a *answer) decide(s *Store, c store.Claim) store.Outcome {
	r := &a.record
	if a.wrong == nil && a.token != nil && !r.there && (r.Holder != c.Holder || r.Foreign() || r.Released || r.Left < c.TTL) {
		a.wrong = s.impossible("about %s: it is granted, and %s", shown(a.name), notWritten)
	}
	if a.wrong == nil && a.token != nil && *a.token <= c.Above {
		a.wrong = s.impossible("about %s: it is granted with token %d, and not above %d: %s", shown(a.name), *a.token, c.Above, notWritten)
	}
	if a.wrong != nil {
		r.wrong = a.wrong
		return store.Outcome{Err: a.wrong}
	}
	if a.token != nil {
		return r.grant(c, *a.token)
	}
	v := r.judge(c)
	r.known = v != held
	switch {
	case v != free:
		return r.refuse(c, v)
	case max(r.Token, c.Above) == math.MaxInt64:
		return store.Outcome{Err: store.ErrTokens}
	}
	return store.Outcome{Err: errUndecided}
}

// undecided returns which claims are still pending. A claim of a name that came before in the batch is decided by what the record has
// become, if that says enough.
func undecided(claims []store.Claim, outcomes []store.Outcome, pending []int, seen sighting) []int {
	var left []int
	open := map[*record]bool{} // with a claim that is pending: those after it must wait for it
	first := map[*record]bool{}
	for _, i := range pending {
		c := claims[i]
		r := seen[c.Name]
		if r == nil {
			left = append(left, i) // not asked for yet
			continue
		}
		if !first[r] {
			first[r] = true
			if errors.Is(outcomes[i].Err, errUndecided) {
				left = append(left, i)
				open[r] = true
			}
			continue
		}
		if r.wrong != nil {
			outcomes[i] = store.Outcome{Err: r.wrong}
			continue
		}
		v := r.judge(c)
		if open[r] || v == free && max(r.Token, c.Above) != math.MaxInt64 || v != held && !r.known {
			left = append(left, i)
			open[r] = true
			continue
		}
		if v == free {
			outcomes[i].Err = store.ErrTokens
			continue
		}
		outcomes[i] = r.refuse(c, v)
	}
	return left
}
