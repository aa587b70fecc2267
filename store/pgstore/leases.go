package pgstore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/internal/sqlshared"

	"github.com/jackc/pgx/v5"
)

// Extend is as in store.Store. A lease whose row a transaction of somebody else's has locked, such as one with a Completion in it, does
// not hold up the others; its own outcome is then unknown.
func (s *Store) Extend(ctx context.Context, extensions []store.Extension) ([]error, error) {
	return leases(ctx, s, extensions, verb[store.Extension]{
		name: func(e store.Extension) string { return e.Name }, check: store.Extension.Check,
		state: func(e store.Extension) []byte { return e.State }, sql: s.extensionSQL, scan: scanExtended,
	})
}

func (s *Store) extensionSQL(batch []store.Extension) (string, []any) {
	var c columns
	ttls := make([]int64, len(batch))
	for i, e := range batch {
		c.add(s, e.Name, e.Holder, e.Token, e.Mark, e.State)
		ttls[i] = sqlshared.Micros(e.TTL)
	}
	return s.sql.extend, []any{c.names, c.holders, c.tokens, ttls, c.marks, c.replace, c.states}
}

// Release is as in store.Store, with Extend's way with rows that are locked.
func (s *Store) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	errs, err := leases(ctx, s, releases, verb[store.Release]{
		name: func(r store.Release) string { return r.Name }, check: store.Release.Check,
		state: func(r store.Release) []byte { return r.State }, scan: scanReleased,
		sql:    func(batch []store.Release) (string, []any) { return s.releaseSQL(batch, false) },
		silent: func(batch []store.Release) (string, []any) { return s.releaseSQL(batch, true) },
		repeat: repeated,
	})
	for i := range errs {
		if errs[i] == nil {
			row, _ := s.row(releases[i].Name)
			s.hub.released(row)
		}
	}
	return errs, err
}

func (s *Store) releaseSQL(batch []store.Release, silent bool) (string, []any) {
	var c columns
	lingers, retains := make([]int64, len(batch)), make([]*int64, len(batch))
	for i, r := range batch {
		c.add(s, r.Name, r.Holder, r.Token, r.Mark, r.State)
		lingers[i] = sqlshared.Micros(r.Linger)
		if r.Retain != store.Forever {
			retains[i] = new(sqlshared.Micros(r.Retain))
		}
	}
	sql := s.sql.release
	switch {
	case silent:
		sql = s.sql.releaseSilently
	case len(batch) == 1 && s.sql.releaseOne != "":
		return s.sql.releaseOne, []any{c.names[0], c.holders[0], c.tokens[0], lingers[0], retains[0], c.marks[0], c.replace[0], c.states[0]}
	}
	return sql, []any{c.names, c.holders, c.tokens, lingers, retains, c.marks, c.replace, c.states}
}

// columns are the parameters that extend.sql and release.sql have in common, an array each.
type columns struct {
	names, holders []string
	tokens, marks  []int64
	replace        []bool
	states         [][]byte
}

func (c *columns) add(s *Store, name, holder string, token, mark int64, state []byte) {
	row, _ := s.row(name)
	c.names, c.holders = append(c.names, row), append(c.holders, holder)
	c.tokens, c.marks = append(c.tokens, token), append(c.marks, mark)
	c.replace, c.states = append(c.replace, state != nil), append(c.states, state)
}

// A verb is what Extend and Release differ in.
type verb[L any] struct {
	name  func(L) string
	check func(L) error
	state func(L) []byte
	sql   func([]L) (statement string, args []any)
	scan  func(pgx.Rows) (left, error)

	// silent is as sql, and notifies nobody. It is nil if sql does not either.
	silent func([]L) (statement string, args []any)

	// repeat decides a lease by the result of an earlier one of the batch for the same row; ok reports whether it can. It may be nil.
	repeat func(first L, answer left, l L) (outcome error, ok bool)
}

// leases decides a batch, row by row. Leases of the same row are decided one after the other.
func leases[L any](ctx context.Context, s *Store, all []L, v verb[L]) ([]error, error) {
	if err := s.alive(ctx); err != nil {
		return nil, err
	}
	errs := make([]error, len(all))
	var pending []int
	for i, l := range all {
		if errs[i] = v.check(l); errs[i] == nil {
			pending = append(pending, i)
		}
	}
	total := len(pending)
	var since time.Time // nothing has been decided
	for try := 0; len(pending) > 0; try++ {
		asked, rest := s.next(len(pending), func(k int) (string, int) {
			l := all[pending[k]]
			return v.name(l), len(v.state(l))
		})
		batch := make([]L, len(asked))
		numbers := make(map[string]int, len(asked)) // by row
		for k, at := range asked {
			batch[k] = all[pending[at]]
			row, _ := s.row(v.name(batch[k]))
			numbers[row] = pending[at]
		}
		sql, args := v.sql(batch)
		answers, err := change(ctx, s, sql, args, v.scan)
		if v.silent != nil && notificationsFull(err) { // those who wait for the names find out by themselves, later
			sql, args = v.silent(batch)
			answers, err = change(ctx, s, sql, args, v.scan)
		}
		if err != nil {
			if err := spread(err, len(pending) == total, pending, func(i int, err error) { errs[i] = err }); err != nil {
				return nil, err
			}
			return errs, nil
		}
		found, err := s.lefts(answers, numbers)
		if err != nil {
			if err := spread(err, len(pending) == total, pending, func(i int, err error) { errs[i] = err }); err != nil {
				return nil, err
			}
			return errs, nil
		}
		var locked []int
		confirmed := sync.OnceValue(func() error { return s.confirm(ctx) })
		for _, at := range asked {
			i := pending[at]
			row, _ := s.row(v.name(all[i]))
			switch a := found[row]; {
			case a.wrong != nil:
				errs[i] = a.wrong
			case a.changed:
			case a.before:
				errs[i] = confirmed()
			case a.live:
				locked = append(locked, i)
			default:
				errs[i] = store.ErrLost
			}
		}
		left := locked
		for _, at := range rest {
			i := pending[at]
			row, _ := s.row(v.name(all[i]))
			if a := found[row]; a.wrong != nil {
				errs[i] = a.wrong
				continue
			} else if v.repeat != nil {
				if outcome, ok := v.repeat(all[numbers[row]], a, all[i]); ok {
					if outcome == nil && !a.changed {
						outcome = confirmed()
					}
					errs[i] = outcome
					continue
				}
			}
			left = append(left, i)
		}
		switch {
		case len(left) < len(pending):
			try, since = 0, time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) > lockPatience:
			for _, i := range left {
				errs[i] = store.AsUnknown(fmt.Errorf("%q: %w", v.name(all[i]), errLocked))
			}
			return errs, nil
		}
		if pending = left; len(locked) > 0 {
			s.collided(ctx, try)
		}
	}
	return errs, nil
}

// next returns which of n leases go into the next statement: the first of each row, as many as fit. The rest comes after.
func (s *Store) next(n int, of func(k int) (name string, state int)) (asked, rest []int) {
	rows := make(map[string]bool, n)
	size := 0
	for k := range n {
		name, state := of(k)
		row, _ := s.row(name)
		if rows[row] || len(asked) == chunk || len(asked) > 0 && size+state > chunkState {
			rows[row] = true // those of this row that come after wait too
			rest = append(rest, k)
			continue
		}
		rows[row] = true
		size += state
		asked = append(asked, k)
	}
	return asked, rest
}

// A left is what a statement has left of a lease.
type left struct {
	row                   string
	changed, live, before bool
	mark                  int64
	null                  bool  // one of the fields was
	wrong                 error // what cannot be about it
}

func scanExtended(rows pgx.Rows) (l left, err error) {
	var changed, live *bool
	err = rows.Scan(&l.row, &changed, &live)
	if l.null = changed == nil || live == nil; !l.null {
		l.changed, l.live = *changed, *live
	}
	return l, err
}

func scanReleased(rows pgx.Rows) (l left, err error) {
	var changed, live, before *bool
	var mark *int64
	err = rows.Scan(&l.row, &changed, &live, &before, &mark, nil)
	if l.null = changed == nil || live == nil || before == nil || mark == nil; !l.null {
		l.changed, l.live, l.before, l.mark = *changed, *live, *before, *mark
	}
	return l, err
}

// lefts returns what is left of each of the rows that were asked about.
func (s *Store) lefts(answers []left, asked map[string]int) (map[string]left, error) {
	found := make(map[string]left, len(asked))
	for _, a := range answers { // those that were changed come last
		before, twice := found[a.row]
		switch _, there := asked[a.row]; {
		case !there:
			return nil, s.impossible("a row about %s, which was not asked for", shown(a.row))
		case a.null:
			a.wrong = s.impossible("about %s: a field is NULL", shown(a.row))
		case twice && (!a.changed || before.changed):
			a.wrong = s.impossible("about %s: there are too many rows", shown(a.row))
		case a.changed && !a.live:
			a.wrong = s.impossible("about %s: %s", shown(a.row), notWritten)
		case twice:
			a.wrong = before.wrong
		}
		found[a.row] = a
	}
	for row := range asked {
		if _, there := found[row]; !there {
			found[row] = left{wrong: s.impossible("there is no row about %s", shown(row))}
		}
	}
	return found, nil
}

// repeated returns a release that follows another of the same row in a batch. If the first has ended the lease, or had before, it is
// as if this one came at the same moment: what somebody has done with the name since then is after both.
func repeated(first store.Release, answer left, r store.Release) (error, bool) {
	switch {
	case !answer.changed && !answer.before:
		return nil, false
	case r.Holder != first.Holder || r.Token != first.Token || r.Mark > answer.mark:
		return store.ErrLost, true
	}
	return nil, true
}
