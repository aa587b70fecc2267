package mysqlstore

import (
	"database/sql"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
)

const (
	shortWaysSeed   = 1 // of the rows and requests of TestShortWaysAreTheGeneralOnes
	shortWaysRounds = 600
)

// A dice makes rows and requests by chance, of values around which the statements decide.
type dice struct{ *rand.Rand }

func pick[V any](d dice, usual V, others ...V) V {
	if len(others) > 0 && d.IntN(6) == 0 {
		return others[d.IntN(len(others))]
	}
	return usual
}

// row makes the values of a row, which may be what no store writes. Times are hours before and after now, so that none passes during a round.
func (d dice) row(holder string, token int64) map[string]string {
	hours := func(n int) string { return fmt.Sprintf("UTC_TIMESTAMP(6) + INTERVAL %d HOUR", n) }
	values := map[string]string{
		"holder": bytesLiteral(holder), "locked_by": "CONVERT(" + bytesLiteral(holder) + " USING utf8mb4)", "token": intLiteral(token),
		"released": pick(d, "0", "1"), "mark": pick(d, "0", "5", "9223372036854775807"), "state": pick(d, "NULL", "''", "'state'"),
		"lock_until": pick(d, hours(-1), hours(3), hours(3)), "locked_at": pick(d, hours(-5), hours(5)), "taken_from": pick(d, "NULL", hours(-9)),
		"retain_until": pick(d, "NULL", hours(7), "'9999-12-31 23:59:59.999999'"), "call_id": pick(d, "0", "77"),
	}
	if d.IntN(6) == 0 {
		c := corruptions[d.IntN(len(corruptions))]
		column, value, _ := strings.Cut(c.set, " = ")
		values[column] = value
	}
	return values
}

// tokenOf writes a token. One that a clock has made since an instant is in hours since then.
func tokenOf(token, since int64) string {
	if after := token - since; after >= 0 && after < (100*time.Hour).Microseconds() {
		return (time.Duration(after) * time.Microsecond).Round(time.Hour).String()
	}
	return intLiteral(token)
}

// markOf writes a mark. One of ShedLock's is a time in milliseconds, and is in hours since an instant.
func markOf(mark, since int64) string {
	if after := mark - since/1000; mark > since/2000 && after < (100*time.Hour).Milliseconds() {
		return (time.Duration(after) * time.Millisecond).Round(time.Hour).String()
	}
	return intLiteral(mark)
}

// left returns what stands in a store's rows, without the numbers of calls. Times are in hours from now.
func left(t *testing.T, s *Store, since int64) string {
	t.Helper()
	hours := func(column string) string {
		return "ROUND(TIMESTAMPDIFF(MINUTE, UTC_TIMESTAMP(6), " + column + ") / 60)"
	}
	rows, err := s.db.Query("SELECT HEX(name), HEX(holder), HEX(locked_by), released, token, mark, HEX(LEFT(state, 10)), " + hours("lock_until") + ", " +
		hours("locked_at") + ", " + hours("taken_from") + ", IF(retain_until > '9000-01-01', 'forever', " + hours("retain_until") + ") FROM " +
		s.table(s.cfg.Table) + " ORDER BY name")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var b strings.Builder
	for rows.Next() {
		var cells [11]sql.NullString
		var targets []any
		for i := range cells {
			targets = append(targets, &cells[i])
		}
		if err := rows.Scan(targets...); err != nil {
			t.Fatal(err)
		}
		var token, mark int64
		if _, err := fmt.Sscan(cells[4].String+" "+cells[5].String, &token, &mark); err != nil {
			t.Fatal(err)
		}
		cells[4].String, cells[5].String = tokenOf(token, since), markOf(mark, since)
		for _, c := range cells {
			fmt.Fprintf(&b, "%s, ", map[bool]string{true: c.String, false: "NULL"}[c.Valid])
		}
		b.WriteString("\n")
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// said writes an outcome, with times in hours.
func said(o store.Outcome, since int64) string {
	hours := func(d time.Duration) time.Duration { return d.Round(time.Hour) }
	record := func(r store.Record) string {
		return fmt.Sprintf("%q %q token %s mark %s state %q left %v age %v", r.Name, r.Holder, tokenOf(r.Token, since), markOf(r.Mark, since), r.State, hours(r.Left), hours(r.Age))
	}
	var held *store.HeldError
	var done *store.DoneError
	switch {
	case errors.As(o.Err, &held):
		return "held: " + record(held.Record)
	case errors.As(o.Err, &done):
		return "done: " + record(done.Record)
	case o.Err != nil:
		return o.Err.Error()
	}
	g := o.Grant
	return fmt.Sprintf("granted: token %s mark %s state %q expired %v", tokenOf(g.Token, since), markOf(g.Mark, since), g.State, hours(g.ExpiredAge))
}

// The short ways of the routines answer and write what the statements do without them, whatever the rows and the requests are, for one name and for
// many.
func TestShortWaysAreTheGeneralOnes(t *testing.T) {
	db := connect(t, mariadb(t).URL, nil)
	for _, shared := range []bool{false, true} {
		t.Run(map[bool]string{false: "ours", true: "ShedLock's"}[shared], func(t *testing.T) {
			short, general := open(t, db, Config{ShedLock: shared}), open(t, db, Config{ShedLock: shared})
			general.unprepared.Store(true)
			d := dice{rand.New(rand.NewPCG(shortWaysSeed, 7))} //nolint:gosec // it is to be repeated
			holders := []string{"a", "b", "c\x00\xff{", strings.Repeat("h", 255)}
			names := []string{"ns/n", "ns/o}", "ns/p"}
			for round := range shortWaysRounds {
				var since int64
				if err := db.QueryRow("SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))").Scan(&since); err != nil {
					t.Fatal(err)
				}
				rows, last := map[string]map[string]string{}, map[string]store.Release{}
				for _, name := range names {
					l := store.Release{Holder: pick(d, holders[0], holders...), Token: pick(d, since-1000, 1, since+2*time.Hour.Microseconds(), math.MaxInt64-1, math.MaxInt64)}
					if last[name] = l; d.IntN(5) > 0 {
						rows[name] = d.row(l.Holder, l.Token)
					}
				}
				for _, s := range []*Store{short, general} {
					exec(t, db, "DELETE FROM "+s.table(s.cfg.Table))
					for name, values := range rows {
						columns, literals := "name", bytesLiteral(s.row(name))
						for column, value := range values {
							columns, literals = columns+", "+column, literals+", "+value
						}
						exec(t, db, "SET STATEMENT sql_mode = '' FOR INSERT INTO "+s.table(s.cfg.Table)+" ("+columns+") VALUES ("+literals+")")
					}
				}
				var claims []store.Claim
				var extensions []store.Extension
				var releases []store.Release
				for range pick(d, 1, 2, 3, 4, 5) {
					name := names[d.IntN(len(names))]
					l := last[name]
					holder, token := pick(d, l.Holder, holders...), max(1, pick(d, l.Token, l.Token-1, 7))
					mark, state := pick[int64](d, 0, 5, 7), pick(d, nil, []byte{}, []byte("more"))
					claims = append(claims, store.Claim{Name: name, Holder: pick(d, "b", l.Holder), TTL: pick(d, time.Hour, 40*time.Hour), Mark: pick[int64](d, 0, 5, 7, -1),
						Above: pick(d, 0, since+time.Hour.Microseconds()*3, math.MaxInt64)})
					extensions = append(extensions, store.Extension{Name: name, Holder: holder, Token: token, TTL: pick(d, time.Hour, 40*time.Hour), Mark: mark, State: state})
					releases = append(releases, store.Release{Name: name, Holder: holder, Token: token, Mark: mark, State: state,
						Linger: pick(d, 0, 6*time.Hour), Retain: pick(d, 0, 9*time.Hour, store.Forever)})
				}
				verb := d.IntN(3)
				ask := func(s *Store) string {
					var b strings.Builder
					var outcomes []store.Outcome
					var errs []error
					var err error
					switch verb {
					case 0:
						outcomes, err = s.Acquire(t.Context(), claims)
					case 1:
						errs, err = s.Extend(t.Context(), extensions)
					default:
						errs, err = s.Release(t.Context(), releases)
					}
					fmt.Fprintln(&b, "answers", err)
					for _, o := range outcomes {
						fmt.Fprintln(&b, said(o, since))
					}
					for _, err := range errs {
						fmt.Fprintln(&b, err)
					}
					return b.String() + "and leaves\n" + left(t, s, since)
				}
				if one, other := ask(short), ask(general); one != other {
					t.Fatalf("seed %d, round %d: the rows %v, asked with %+v\n\nthe short way %s\n\nthe general way %s", shortWaysSeed, round, rows,
						[]any{claims, extensions, releases}[verb], one, other)
				}
			}
		})
	}
}

// What is usual goes the short way: one UPDATE for a name, and one INSERT for many; a refusal writes nothing.
func TestUsualRequestsAreShort(t *testing.T) {
	db := connect(t, mariadb(t).URL, nil)
	s := open(t, db, Config{})
	db.SetMaxOpenConns(1) // so there is one session
	commands := func(what, want string, do func()) {
		t.Helper()
		read := func() (counts [3]int) {
			for i, name := range []string{"Com_update", "Com_insert_select", "Com_select"} {
				if err := db.QueryRow("SHOW SESSION STATUS LIKE '"+name+"'").Scan(new(string), &counts[i]); err != nil {
					t.Fatal(err)
				}
			}
			return counts
		}
		before := read()
		do()
		after := read()
		if got := fmt.Sprintf("%d updates, %d inserts, %d selects", after[0]-before[0], after[1]-before[1], after[2]-before[2]); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	names := []string{"ns/1", "ns/2", "ns/3"}
	var tokens []int64
	some := func(n int, holder string) []store.Outcome {
		var claims []store.Claim
		for _, name := range names[:n] {
			claims = append(claims, claim(name, holder))
		}
		outcomes := acquire(t, s, claims...)
		tokens = tokens[:0]
		for _, o := range outcomes {
			tokens = append(tokens, o.Grant.Token)
		}
		return outcomes
	}
	end := func(n int) {
		var releases []store.Release
		for i, name := range names[:n] {
			releases = append(releases, store.Release{Name: name, Holder: "a", Token: tokens[i]})
		}
		errs, err := s.Release(t.Context(), releases)
		if err = errors.Join(append(errs, err)...); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the first time the names are new
		some(3, "a")
		end(3)
	}
	some(1, "a")
	end(1)
	var kept []int64
	commands("one name is taken", "1 updates, 0 inserts, 2 selects", func() { some(1, "a") })
	kept = append(kept, tokens...)
	commands("one name is refused", "0 updates, 0 inserts, 2 selects", func() {
		if o := some(1, "b"); !errors.Is(o[0].Err, store.ErrHeld) {
			t.Error(o[0].Err)
		}
	})
	tokens = kept
	commands("one name is released", "1 updates, 0 inserts, 1 selects", func() { end(1) })
	commands("three names are taken", "0 updates, 1 inserts, 0 selects", func() { some(3, "a") })
	commands("three names are released", "0 updates, 1 inserts, 0 selects", func() { end(3) })
}
