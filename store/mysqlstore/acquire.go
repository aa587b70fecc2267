package mysqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/internal/sqlshared"
)

var claimColumns = []column{
	{"row_name", binary, keys}, {"holder", binary, holders}, {"ttl", number, others}, {"mark", number, others}, {"record", binary, others}, {"above", number, others},
}

func (s *Store) claimRow(c store.Claim) []cell {
	return []cell{bytesCell(s.row(c.Name)), bytesCell(c.Holder), intCell(sqlshared.Micros(c.TTL)), intCell(c.Mark), s.record(c.Name), intCell(c.Above)}
}

// newCall returns the first of the numbers of a request: a row that the request changes contains it, plus its own number in the batch.
func newCall() string { return intLiteral(rand.Int64N(math.MaxInt64-math.MaxInt32) + 1) }

// A verdict is the result of a claim on a record.
type verdict int

const (
	free  verdict = iota // it looks free, and this call has not taken it
	taken                // by this call
	again                // the holder already has it
	done
	held
	corrupt // something else has written it
)

// judge applies the rules of store.Claim in their order; r is nil for a name without a row.
func judge(r *record, c store.Claim) verdict {
	switch {
	case r != nil && r.wrong != "":
		return corrupt
	case r != nil && (r.taken && !r.grants(c) || r.altered && r.LiveFor(c.Holder)):
		r.wrong = "a trigger of the table, or something else, has changed what a claim of this holder has written"
		return corrupt
	case r != nil && r.taken:
		return taken
	case r != nil && r.LiveFor(c.Holder):
		return again
	case c.Mark < 0, c.Mark != 0 && r != nil && r.Mark >= c.Mark:
		return done
	case r != nil && r.Left > 0:
		return held
	}
	return free
}

// grants reports whether a row that a claim has just written is what it wrote.
func (r *record) grants(c store.Claim) bool {
	return !r.altered && r.Holder == c.Holder && !r.Foreign() && !r.Released && r.Token > c.Above &&
		(r.Left+r.Age).Microseconds() == sqlshared.Micros(c.TTL)
}

func (v verdict) outcome(r *record, c store.Claim) store.Outcome {
	switch {
	case v == corrupt:
		return store.Outcome{Err: &CorruptError{c.Name, r.wrong}}
	case v == taken:
		g := r.Grant()
		g.ExpiredAge = r.from
		return store.Outcome{Grant: g}
	case v == again:
		return store.Outcome{Grant: r.Grant()}
	case v == done && r == nil:
		return store.Outcome{Err: &store.DoneError{Record: store.Record{Name: c.Name}}}
	case v == done:
		return store.Outcome{Err: &store.DoneError{Record: r.Whole(c.Name)}}
	case v == held:
		return store.Outcome{Err: &store.HeldError{Record: r.Lease(c.Name)}}
	}
	return store.Outcome{Err: lockedOut(r, c)}
}

// lockedOut refuses a name that looks free, but whose row somebody has kept locked, or whose tokens are used up.
func lockedOut(r *record, c store.Claim) error {
	if r != nil && r.Token == math.MaxInt64 || c.Above == math.MaxInt64 {
		return store.ErrTokens
	}
	return &store.HeldError{Record: store.Record{Name: c.Name, Left: lockedLeft}}
}

// Rows that other transactions have locked are tried again after pauses that double, and then given up: nobody waits long for a lock that is
// not released. Most such locks belong to requests like ours, and last less than a millisecond.
const (
	lockedPause  = time.Millisecond
	lockedTries  = 6                     // 63 ms in all
	releaseTries = 8                     // 255 ms; nobody loses a lease meanwhile
	lockedLeft   = 50 * time.Millisecond // a claim that is refused because of a lock is to be repeated after that
)

// Acquire is as in store.Store.
func (s *Store) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	if err := s.alive(ctx); err != nil {
		return nil, s.explain(err)
	}
	outcomes := make([]store.Outcome, len(claims))
	check := func(c store.Claim) error { return cmp.Or(c.Check(), s.mayShare(c.Name)) }
	indexes := valid(claims, check, func(i int, err error) { outcomes[i].Err = err })
	requests := s.requests(indexes, func(i int) int { return len(claims[i].Name) + len(claims[i].Holder) })
	err := each(requests, len(indexes), func(request []int) ([]int, error) { return s.acquire(ctx, claims, request, outcomes) },
		func(i int, err error) { outcomes[i] = store.Outcome{Err: err} })
	if err != nil {
		return nil, err
	}
	for i, c := range claims {
		if outcomes[i].Err == nil {
			s.turns.leased(s.row(c.Name), c.TTL)
		}
	}
	return outcomes, nil
}

// each makes the requests of a batch of n elements by calling do. An error about a row is that of its element alone, which is found by asking for
// fewer and fewer. It ends with the first other error. If nothing has been decided before, that is the
// error of the whole batch; otherwise it is the error of each element that do reports as open.
func each(requests [][]int, n int, do func(request []int) (open []int, err error), tell func(i int, err error)) error {
	for k := 0; k < len(requests); k++ {
		open, err := do(requests[k])
		switch half := len(open) / 2; {
		case err == nil:
			continue
		case aboutRow(err) && half > 0:
			requests = slices.Insert(slices.Clone(requests), k+1, open[:half], open[half:])
			continue
		case aboutRow(err) && n > 1:
			tell(open[0], err)
			continue
		}
		open = slices.Concat(append([][]int{open}, requests[k+1:]...)...)
		if len(open) == n {
			return err
		}
		for _, i := range open {
			tell(i, err)
		}
		return nil
	}
	return nil
}

// acquire decides the claims of one request, those of one row after the other. It returns an error with the indexes of the claims that it is about.
func (s *Store) acquire(ctx context.Context, claims []store.Claim, request []int, outcomes []store.Outcome) (open []int, err error) {
	for len(request) > 0 {
		first := layers(request, func(i int) string { return s.row(claims[i].Name) })[0]
		known, open, err := s.decide(ctx, claims, first, outcomes)
		rest := s.follow(claims, request, first, known, outcomes)
		if err != nil {
			return append(open, rest...), err
		}
		request = rest
	}
	return nil, nil
}

// A decided is the state of a row after one of its claims was decided.
type decided struct {
	record *record // nil if there is none
	locked bool    // it looks free, but another transaction has locked it
}

// follow decides the later claims of each row by what its first claim has left, where that is enough. It returns the claims that it cannot decide.
func (s *Store) follow(claims []store.Claim, request, first []int, known map[string]decided, outcomes []store.Outcome) (rest []int) {
	waiting := map[string]bool{} // rows with a claim that is not decided; later claims of the row wait for it
	for _, i := range request {
		if len(first) > 0 && i == first[0] {
			first = first[1:]
			continue
		}
		row := s.row(claims[i].Name)
		d, there := known[row]
		if d.record != nil && d.record.taken {
			d.record = new(*d.record)
			d.record.taken = false
		}
		v := judge(d.record, claims[i])
		if !there || waiting[row] || v != held && (v != free || !d.locked) {
			waiting[row] = true
			rest = append(rest, i)
			continue
		}
		outcomes[i] = v.outcome(d.record, claims[i])
	}
	return rest
}

// decide decides claims of different rows, and returns the state of each row afterwards. An error comes with the
// indexes of the claims that it is about.
func (s *Store) decide(ctx context.Context, claims []store.Claim, request []int, outcomes []store.Outcome) (known map[string]decided, open []int, err error) {
	known = make(map[string]decided, len(request))
	for try := range lockedTries + 1 {
		if try > 0 && !pause(ctx, lockedPause<<(try-1)) {
			return known, nil, nil // what is known so far stands
		}
		records, err := s.take(ctx, claims, request, try == 0)
		if err != nil {
			for _, i := range request {
				delete(known, s.row(claims[i].Name))
			}
			return known, request, err
		}
		var locked []int
		for n, i := range request {
			v := judge(records[n], claims[i])
			outcomes[i] = v.outcome(records[n], claims[i])
			known[s.row(claims[i].Name)] = decided{records[n], v == free}
			if v == free {
				locked = append(locked, i)
			}
		}
		if request = locked; len(request) == 0 {
			return known, nil, nil
		}
	}
	s.usedUp(ctx, request, func(i int) *record { return known[s.row(claims[i].Name)].record }, outcomes)
	return known, nil, nil
}

// take grants claims of different rows where the row is free, and returns the record of each.
func (s *Store) take(ctx context.Context, claims []store.Claim, request []int, first bool) ([]*record, error) {
	rows := make([][]cell, len(request))
	for n, i := range request {
		rows[n] = s.claimRow(claims[i])
	}
	if !first || !s.inSteps() {
		return s.granted(ctx, rows)
	}
	f := wanting(rows)
	records, err := s.seen(ctx, f, len(request))
	for n, i := range request {
		if err == nil && judge(records[n], claims[i]) == free {
			return s.granted(ctx, rows)
		}
	}
	return records, err
}

const acquires = "acquire" // the key of what the statements of granted make

// granted grants the claims of rows where the row is free, and returns the record of each.
func (s *Store) granted(ctx context.Context, rows [][]cell) ([]*record, error) {
	all, err := changeRows(ctx, s, acquires, claimColumns, rows, func(of func([]column) fill) []string {
		return s.acquiring(of(claimColumns).wanting(len(rows)))
	}, scanFound)
	return inOrder(all, len(rows), err)
}

// wanting writes claims into statements.
func wanting(rows [][]cell) fill {
	f := batch(claimColumns, rows, 0)
	f["call"] = newCall()
	return f.wanting(len(rows))
}

// wanting adds what the statements of n claims need.
func (f fill) wanting(n int) fill {
	if n == 1 {
		f["from_wanted"], f["is_wanted"] = sqlFromOne, "r.name = "+sqlWantedOne
		f["from_absent"], f["is_absent"] = "DUAL", sqlAbsentOne
		return f
	}
	f["from_wanted"], f["is_wanted"] = sqlFromWanted, "TRUE"
	f["from_absent"], f["is_absent"] = sqlAbsent+" AS c", "TRUE"
	f["wanted"], f["unless"], f["order"], f["limit"] = sqlWanted, "", "c.row_name", "{all}"
	return f
}

// acquiring returns the statements of a request that acquires.
func (s *Store) acquiring(f fill) []string {
	return []string{s.text(sqlAcquireTake, f), s.text(sqlAcquireMake, f), s.text(sqlAcquireLook, f)}
}

// choosing reduces many claims to one: the first whose name looks free, unless the holder already has one of the names.
func choosing(rows [][]cell) fill {
	f := wanting(rows)
	if len(rows) > 1 {
		f["from_absent"], f["unless"], f["order"], f["limit"] = sqlAbsentChoice+" AS c", sqlUnless, "c.i", "1"
	}
	return f
}

// changed grants the wanted claims and returns the n records in the order of the batch; seen only reads the records.
func (s *Store) changed(ctx context.Context, f fill, n int) ([]*record, error) {
	all, err := change(ctx, s, s.acquiring(f), scanFound)
	return inOrder(all, n, err)
}

func (s *Store) seen(ctx context.Context, f fill, n int) ([]*record, error) {
	all, err := look(ctx, s, s.text(sqlAcquireLook, f), scanFound)
	return inOrder(all, n, err)
}

// inSteps reports whether each statement is a round trip. Then reading first saves round trips.
func (s *Store) inSteps() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.server != nil && s.server.carrier == steps
}

// A found is a record of a batch.
type found struct {
	i int64
	*record
}

func scanFound(rows *sql.Rows) (found, error) {
	f := found{record: &record{}}
	var from sql.NullInt64
	var taken int
	err := f.scan(rows, []any{&f.i, &taken}, &from, &f.State)
	f.taken, f.altered = taken&1 != 0, taken&2 != 0
	if from.Valid {
		f.from = max(1, fromMicros(from.Int64))
	}
	return f, err
}

// inOrder returns the n records in the order of the batch. The error is that of a reply about something else.
func inOrder(all []found, n int, err error) ([]*record, error) {
	records := make([]*record, n)
	for _, f := range all {
		if f.i < 0 || f.i >= int64(n) {
			return nil, store.AsUnknown(errAltered)
		}
		records[f.i] = f.record
	}
	return records, err
}

// usedUp finds out whether names without a row were refused because of the floor, and not because somebody has locked
// them.
func (s *Store) usedUp(ctx context.Context, request []int, known func(i int) *record, outcomes []store.Outcome) {
	absent := slices.DeleteFunc(slices.Clone(request), func(i int) bool { return known(i) != nil })
	if len(absent) == 0 {
		return
	}
	if err := s.floorless(ctx); err != nil {
		for _, i := range absent {
			outcomes[i].Err = err
		}
	}
}

// floorless returns why no name without a row can be taken: the tokens are used up, or somebody has emptied the table
// with the floor. It returns nil if neither is so, or if it cannot be found out.
func (s *Store) floorless(ctx context.Context) error {
	floors, err := look(ctx, s, s.text(sqlVersion, nil), func(rows *sql.Rows) (floor int64, err error) {
		var version int
		return floor, rows.Scan(&version, &floor)
	})
	switch {
	case err != nil:
		return nil
	case len(floors) == 0:
		return fmt.Errorf("mysqlstore: %w: %s_meta is empty: run soloist migrate up", store.ErrSchema, s.cfg.Table)
	case floors[0] == math.MaxInt64:
		return store.ErrTokens
	}
	return nil
}
