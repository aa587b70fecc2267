package mysqlstore

import (
	"context"
	"database/sql"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/internal/sqlshared"
)

var (
	leaseColumns = []column{
		{"row_name", binary, keys}, {"holder", binary, holders}, {"token", number, keys},
		{"ttl", number, others}, {"mark", number, others}, {"retain", number, others}, {"state", blob, others},
	}
	keyColumns = leaseColumns[:3]
)

// A lease is an extension or a release of a batch.
type lease struct {
	name  string // of the record
	cells []cell // of leaseColumns
	size  int
}

func (s *Store) extension(e store.Extension) lease {
	return lease{e.Name, []cell{
		bytesCell(s.row(e.Name)), bytesCell(e.Holder), intCell(e.Token), intCell(sqlshared.Micros(e.TTL)), intCell(e.Mark), intCell(0),
		nullableCell(e.State, e.State != nil),
	}, len(e.Name) + len(e.Holder) + len(e.State)}
}

func (s *Store) ending(r store.Release) lease {
	retain := sqlshared.Micros(max(r.Retain, r.Linger))
	if r.Retain > longestRetain {
		retain = -1
	}
	return lease{r.Name, []cell{
		bytesCell(s.row(r.Name)), bytesCell(r.Holder), intCell(r.Token), intCell(sqlshared.Micros(r.Linger)), intCell(r.Mark), intCell(retain),
		nullableCell(r.State, r.State != nil),
	}, len(r.Name) + len(r.Holder) + len(r.State)}
}

// longestRetain is the longest duration that the servers can add to a time. A longer one counts as forever.
const longestRetain = 10 * store.MaxTTL

// A standing is the state of a lease after a request.
type standing struct {
	i                       int
	changed, live, released bool
	corrupt                 bool
	mark                    int64

	holder sql.NullString // whose lease it is, of soloist
	token  int64
	left   sql.NullInt64 // µs
}

func scanStanding(rows *sql.Rows) (st standing, err error) {
	return st, rows.Scan(&st.i, &st.changed, &st.live, &st.released, &st.mark, &st.corrupt, &st.holder, &st.token, &st.left)
}

// Extend is as in store.Store.
func (s *Store) Extend(ctx context.Context, extensions []store.Extension) ([]error, error) {
	began := time.Now()
	errs, err := changeAll(ctx, s, sqlExtend, lockedTries, extensions, store.Extension.Check, s.extension, func(i int, st standing) bool {
		return st.changed && st.lasts(extensions[i], time.Since(began))
	})
	for i, e := range extensions {
		if err == nil && errs[i] == nil {
			s.turns.leased(s.row(e.Name), e.TTL)
		}
	}
	return errs, err
}

// coarse is how coarsely the clock of a client may tick.
const coarse = 20 * time.Millisecond

// lasts reports whether a lease that has been extended is still the one that was meant, and lasts for as long as was asked. It was read at most
// asked after the request.
func (st standing) lasts(e store.Extension, asked time.Duration) bool {
	return st.holder.String == e.Holder && st.token == e.Token && !st.released && fromMicros(st.left.Int64) >= e.TTL-asked-coarse
}

// Release is as in store.Store.
func (s *Store) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	released, marks := make([]bool, len(releases)), make([]int64, len(releases)) // which leases were found released, and their records' marks
	once, first := s.withoutRepeats(releases)
	errs, err := changeAll(ctx, s, sqlRelease, releaseTries, once, store.Release.Check, s.ending, func(i int, st standing) bool {
		released[i], marks[i] = st.changed || st.released, st.mark
		return st.changed || st.released && st.mark >= once[i].Mark // by an earlier request, whose reply was lost
	})
	if err != nil {
		return nil, err
	}
	for i, r := range once {
		if errs[i] == nil {
			s.turns.released(s.row(r.Name))
			s.watches.Wake(s.row(r.Name))
		}
	}
	all := make([]error, len(releases))
	for i, r := range releases {
		switch n := first[i]; {
		case !released[n] || r.Check() != nil:
			all[i] = errs[n]
		case r.Mark > marks[n]:
			all[i] = store.ErrLost // it was released just before
		}
	}
	return all, nil
}

// withoutRepeats returns the releases without repetitions, and for each release of the batch the index of the one that it is or repeats. A
// repetition that was sent later could find that another holder has acquired the name in between.
func (s *Store) withoutRepeats(releases []store.Release) (once []store.Release, first []int) {
	type key struct {
		row, holder string
		token       int64
	}
	known := make(map[key]int, len(releases))
	for _, r := range releases {
		k := key{s.row(r.Name), r.Holder, r.Token}
		i, repeats := known[k]
		if !repeats || r.Check() != nil {
			i = len(once)
			once = append(once, r)
		}
		if r.Check() == nil && !repeats {
			known[k] = i
		}
		first = append(first, i)
	}
	return once, first
}

// changeAll makes the change of each live lease. The error of a lease is nil if settled returns true for its standing.
func changeAll[L any](ctx context.Context, s *Store, statement string, tries int, leases []L, check func(L) error,
	of func(L) lease, settled func(i int, st standing) bool) ([]error, error) {
	if err := s.alive(ctx); err != nil {
		return nil, s.explain(err)
	}
	errs := make([]error, len(leases))
	indexes := valid(leases, check, func(i int, err error) { errs[i] = err })
	all := make([]lease, len(leases))
	for _, i := range indexes {
		all[i] = of(leases[i])
	}
	requests := s.requests(indexes, func(i int) int { return all[i].size })
	err := each(requests, len(indexes), func(request []int) ([]int, error) {
		return s.settle(ctx, statement, tries, all, request, errs, settled)
	}, func(i int, err error) { errs[i] = err })
	if err != nil {
		return nil, err
	}
	return errs, nil
}

// settle makes the changes of one request. Changes of rows that others have locked are tried again alone; in the end their outcome is unknown,
// so that the caller repeats them. An error comes with the indexes of the changes that it is about.
func (s *Store) settle(ctx context.Context, statement string, tries int, all []lease, request []int, errs []error,
	settled func(int, standing) bool) (open []int, err error) {
	for try := range tries + 1 {
		if try > 0 && !pause(ctx, lockedPause<<(try-1)) {
			return nil, nil // what is known so far stands
		}
		standings, err := s.put(ctx, statement, all, request)
		if err != nil {
			return request, err
		}
		for _, i := range request {
			errs[i] = store.ErrLost
		}
		var locked, over []int
		for _, st := range standings {
			i := st.i
			switch {
			case st.corrupt:
				errs[i] = &CorruptError{all[i].name, "a lease in it is not believed"}
			case settled(i, st):
				errs[i] = nil
			case st.changed:
				errs[i] = errChanged
			case st.live:
				locked = append(locked, i)
			case !st.released:
				over = append(over, i)
			}
		}
		locked = append(locked, s.lockedThough(ctx, all, over)...)
		for _, i := range locked {
			errs[i] = s.explain(store.AsUnknown(errLocked))
		}
		if request = locked; len(request) == 0 {
			return nil, nil
		}
	}
	return nil, nil
}

// lockedThough returns which of the leases that look as if they had ended another transaction has locked: it may be about to extend or release them.
func (s *Store) lockedThough(ctx context.Context, all []lease, over []int) []int {
	if len(over) == 0 {
		return nil
	}
	keys, maybe := make([][]cell, len(over)), make(map[int]bool, len(over)) // those that may be locked, by their place in over
	for n, i := range over {
		keys[n], maybe[n] = all[i].cells[:len(keyColumns)], true
	}
	ended, err := change(ctx, s, []string{s.text(sqlLeaseEnded, batch(keyColumns, keys, 0))}, func(rows *sql.Rows) (n int, err error) {
		return n, rows.Scan(&n)
	})
	if err != nil {
		return over
	}
	for _, n := range ended {
		delete(maybe, n)
	}
	var locked []int
	for n, i := range over {
		if maybe[n] {
			locked = append(locked, i)
		}
	}
	return locked
}

// putting returns the statements of a request that extends or releases: the change by lease, and what it has made by key.
func (s *Store) putting(statement string, lease, key fill) []string {
	theirs, theirsLook := "", ""
	if s.cfg.ShedLock && statement == sqlRelease {
		theirs, theirsLook = sqlTheirs, sqlTheirsLook
	}
	lease["theirs"] = theirs
	change := s.text(statement, lease)
	key["theirs"] = theirsLook
	return []string{change, s.text(sqlLeaseLook, key)}
}

// put makes the changes. It returns the standings of the leases that are still the last ones of their names, with their indexes.
func (s *Store) put(ctx context.Context, statement string, all []lease, request []int) ([]standing, error) {
	parts := layers(request, func(i int) string { return all[i].cells[0].text })
	if len(parts) == 1 {
		rows := make([][]cell, len(request))
		for n, i := range request {
			rows[n] = all[i].cells
		}
		standings, err := changeRows(ctx, s, statement, leaseColumns, rows, func(of func([]column) fill) []string {
			return s.putting(statement, of(leaseColumns), of(keyColumns))
		}, scanStanding)
		return inPlaces(standings, request, err)
	}
	var statements []string
	var order []int
	for _, layer := range parts {
		rows, keys := make([][]cell, len(layer)), make([][]cell, len(layer))
		for n, i := range layer {
			rows[n] = all[i].cells
			keys[n] = rows[n][:len(keyColumns)]
		}
		lease, key := batch(leaseColumns, rows, len(order)), batch(keyColumns, keys, len(order))
		lease["call"] = newCall()
		key["call"] = lease["call"]
		statements = append(statements, s.putting(statement, lease, key)...)
		order = append(order, layer...)
	}
	standings, err := change(ctx, s, statements, scanStanding)
	return inPlaces(standings, order, err)
}

// inPlaces numbers standings by the places of a request. The error is that of a reply about something else.
func inPlaces(standings []standing, places []int, err error) ([]standing, error) {
	for n, st := range standings {
		if st.i < 0 || st.i >= len(places) {
			return nil, store.AsUnknown(errAltered)
		}
		standings[n].i = places[st.i]
	}
	return standings, err
}
