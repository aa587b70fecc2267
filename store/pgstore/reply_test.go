package pgstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// rowsOf is a statement that returns these rows, whatever it is asked with: its parameters have the types of the verb's.
func rowsOf(parameters string, rows ...string) string {
	return "SELECT r.* FROM (SELECT " + parameters + ") AS p, LATERAL (VALUES " + strings.Join(rows, ", ") + ") AS r"
}

const (
	parametersOne   = "$1::text, $2::text, $3::bigint, $4::bigint, $5::text, $6::bigint"
	parametersMany  = "$1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::text[], $6::bigint[]"
	parametersLine  = "$1::text, $2::text, $3::bigint, $4::bigint"
	parametersSlots = "$1::text[], $2::text, $3::bigint, $4::text[]"
	parametersLease = "$1::text, $2::text, $3::bigint, $4::bigint, $5::bigint, $6::bigint, $7::boolean, $8::bytea"
	parametersMore  = "$1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::boolean[], $7::bytea[]"
)

// answerRow is a row of acquire.sql: name, grant, there, holder, locked_by, released, token, mark, left, age, state.
func answerRow(name, token, rest string) string {
	return fmt.Sprintf("('%s'::text, %s::bigint, %s)", name, token, rest)
}

const newRecord = "false, 'a'::text, 'a'::text, false, 0::bigint, 0::bigint, 60000000::bigint, 0::bigint, NULL::bytea"

const noRecord = "false, ''::text, ''::text, true, 0::bigint, 0::bigint, 0::bigint, 0::bigint, NULL::bytea"

// unbelievable checks that an outcome is unknown, says what cannot be, and comes without a token.
func unbelievable(t *testing.T, what string, token int64, err error, says string) {
	t.Helper()
	if !errors.Is(err, store.ErrUnknown) || token != 0 || !strings.Contains(fmt.Sprint(err), says) {
		t.Errorf("%s: token %d, %v; want it unknown, and to say %q", what, token, err, says)
	}
}

// What a server answers of one name, and cannot be, is an unknown outcome that says so.
func TestImpossibleAnswers(t *testing.T) {
	s := fresh(t, server(t).URL)
	for what, c := range map[string]struct {
		says string
		rows []string
	}{
		"no row":             {"0 rows", []string{}},
		"two rows":           {"more than one row", []string{answerRow("name", "NULL", noRecord), answerRow("name", "NULL", noRecord)}},
		"another name":       {`"other"`, []string{answerRow("other", "7", noRecord)}},
		"token 0":            {"token 0", []string{answerRow("name", "0", noRecord)}},
		"a token below 0":    {"token -1", []string{answerRow("name", "-1", noRecord)}},
		"a token not above":  {"token 7 after 7", []string{answerRow("name", "7", "true, 'x'::text, 'x'::text, true, 7::bigint, 0::bigint, 0::bigint, 0::bigint, NULL::bytea")}},
		"a holder that NULL": {"NULL", []string{answerRow("name", "7", "true, NULL::text, 'x'::text, true, 6::bigint, 0::bigint, 0::bigint, 0::bigint, NULL::bytea")}},
		"a mark that NULL":   {"NULL", []string{answerRow("name", "NULL", "true, 'x'::text, 'x'::text, false, 6::bigint, NULL::bigint, 5::bigint, 0::bigint, NULL::bytea")}},
		"held with token 0":  {"token 0", []string{answerRow("name", "NULL", "true, 'x'::text, 'x'::text, false, 0::bigint, 0::bigint, 5::bigint, 0::bigint, NULL::bytea")}},
		"a long state":       {"65537 bytes", []string{answerRow("name", "7", "true, 'x'::text, 'x'::text, true, 6::bigint, 0::bigint, 0::bigint, 0::bigint, convert_to(repeat('x', 65537), 'UTF8')")}},
	} {
		rows := c.rows
		filter := ""
		if len(rows) == 0 {
			rows, filter = []string{answerRow("name", "7", noRecord)}, " WHERE false"
		}
		says := func(verb string) string {
			switch {
			case what == "no row" && verb == "acquire":
				return "no row"
			case what == "two rows" && verb != "acquire":
				return "2 rows"
			}
			return c.says
		}
		s.sql.acquireOne = rowsOf(parametersOne, rows...) + filter
		g, err := try(s, "name", "a", time.Minute)
		unbelievable(t, what, g.Token, err, says("acquire"))
		s.sql.choose = rowsOf(parametersSlots, rows...) + filter
		_, grant, err := s.Choose(background, []string{"name"}, claim("", "a", time.Minute))
		unbelievable(t, what+", of choose", grant.Token, err, says("choose"))
		for i, row := range rows {
			rows[i] = strings.TrimSuffix(row, ")") + ", 5::bigint)"
		}
		s.sql.queue = rowsOf(parametersLine, rows...) + filter
		grant, _, err = s.Queue(background, claim("name", "a", time.Minute))
		unbelievable(t, what+", of queue", grant.Token, err, says("queue"))
	}
	for token, record := range map[string]string{
		"7": newRecord, "NULL": "true, 'x'::text, 'x'::text, false, 6::bigint, 0::bigint, 5::bigint, 0::bigint, NULL::bytea",
	} {
		columns := strings.Split(record, ", ")
		for i, column := range columns[:len(columns)-1] { // a state may be NULL
			_, kind, typed := strings.Cut(column, "::")
			if !typed {
				kind = "boolean"
			}
			null := slices.Clone(columns)
			null[i] = "NULL::" + kind
			s.sql.acquireOne = rowsOf(parametersOne, answerRow("name", token, strings.Join(null, ", ")))
			g, err := try(s, "name", "a", time.Minute)
			unbelievable(t, fmt.Sprintf("column %d, token %s", i, token), g.Token, err, "a field is NULL")
		}
	}
	lease := store.Release{Name: "name", Holder: "a", Token: 7}
	for what, c := range map[string]struct{ says, row string }{
		"changed NULL": {"NULL", "('name'::text, NULL::boolean, true, false, 0::bigint, NULL::text)"},
		"no row":       {"no row", ""},
		"another name": {`"other"`, "('other'::text, true, true, false, 0::bigint, NULL::text)"},
		"two rows":     {"too many", "('name'::text, false, true, false, 0::bigint, NULL::text), ('name'::text, false, true, false, 0::bigint, NULL::text)"},
		"NULL":         {"NULL", "('name'::text, true, NULL::boolean, false, 0::bigint, NULL::text)"},
	} {
		row, filter := c.row, ""
		if row == "" {
			row, filter = "('name'::text, true, true, false, 0::bigint, NULL::text)", " WHERE false"
		}
		s.sql.releaseOne = rowsOf(parametersLease, row) + filter
		unbelievable(t, what+", of release", 0, tryRelease(s, lease), c.says)
		s.sql.extend = "SELECT column1, column2, column3 FROM (" + rowsOf(parametersMore, row) + filter + ") AS r"
		unbelievable(t, what+", of extend", 0, tryExtend(s, lease, time.Minute), c.says)
	}
	for what, row := range map[string]string{
		"before NULL": "('name'::text, true, true, NULL::boolean, 0::bigint, NULL::text)",
		"mark NULL":   "('name'::text, true, true, false, NULL::bigint, NULL::text)",
	} {
		s.sql.releaseOne = rowsOf(parametersLease, row)
		unbelievable(t, what, 0, tryRelease(s, lease), "NULL")
	}
	s.sql.sweepRaise = "SELECT 5::bigint WHERE $1::bigint < 0 AND $2::boolean"
	if n, err := s.Sweep(background, 10); err == nil || n != 0 {
		t.Errorf("a sweep without an answer: %d, %v", n, err)
	}
	s.sql.sweepRaise = "SELECT 5::bigint WHERE $1::bigint > 0 OR $2::boolean"
	s.sql.sweep = "SELECT (-5)::bigint WHERE $1::bigint > 0 OR $2::boolean"
	if n, err := s.Sweep(background, 10); !errors.Is(err, store.ErrUnknown) || n != 0 {
		t.Errorf("a sweep that forgot less than nothing: %d, %v", n, err)
	}
}

// What cannot be about one name leaves the others of its batch alone, also claims of the same name that come later in it.
func TestImpossibleAnswersHarmTheirNameAlone(t *testing.T) {
	s := fresh(t, server(t).URL)
	s.sql.acquire = rowsOf(parametersMany, answerRow("good", "NULL", noRecord), answerRow("bad", "NULL", noRecord), answerRow("good", "8", newRecord),
		answerRow("bad", "0", noRecord))
	out, err := s.Acquire(background, []store.Claim{claim("good", "a", time.Minute), claim("bad", "a", time.Minute), claim("missing", "a", time.Minute),
		claim("bad", "b", time.Minute), claim("good", "b", time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	if out[0].Err != nil || out[0].Grant.Token != 8 || !errors.Is(out[4].Err, store.ErrHeld) {
		t.Errorf("the good ones: %+v, %+v", out[0], out[4])
	}
	for i, says := range map[int]string{1: `"bad"`, 2: `no row about "missing"`, 3: `"bad"`} {
		unbelievable(t, fmt.Sprint("claim ", i), out[i].Grant.Token, out[i].Err, says)
	}
}

// A record that cannot be read is left out of a list, and the error at its end names it, if it is one of those that were asked for.
func TestListLeavesOutWhatCannotBeRead(t *testing.T) {
	for mode, open := range dialects {
		s := open(t, server(t).URL)
		run(t, s.pool, "INSERT INTO "+s.tables.records+" (name, lock_until, locked_at, locked_by, token, record) "+
			"SELECT 'many/' || n, 'epoch', 'epoch', '', 5, 'many/' || n FROM generate_series(1001, 1200) AS n")
		run(t, s.pool, "UPDATE "+s.tables.records+" SET token = -5 WHERE name IN ('many/1001', 'many/1150')")
		for prefix, want := range map[string]struct{ good, bad int }{"": {198, 2}, "many/11": {99, 1}, "many/12": {1, 0}, "many/1001": {0, 1}} {
			var names []string
			var last error
			for r, err := range s.List(background, prefix) {
				if last != nil {
					t.Errorf("%s: after the error comes %q", mode, r.Name)
				}
				if last = err; err == nil {
					names = append(names, r.Name)
				}
			}
			if len(names) != want.good || !slices.IsSorted(names) || strings.Count(fmt.Sprint(last), "token is -5") != want.bad || errors.Is(last, store.ErrUnknown) {
				t.Errorf("%s: of %q are listed %d, and then comes %v; want %d, and an error about %d", mode, prefix, len(names), last, want.good, want.bad)
			}
		}
	}
}

// Records that somebody has put into the table, and triggers that change what is written, harm those names alone.
func TestDoctoredRecords(t *testing.T) {
	s := fresh(t, server(t).URL)
	for _, sql := range []string{
		"ALTER TABLE %s ALTER mark DROP NOT NULL, ALTER holder DROP NOT NULL",
		"INSERT INTO %s (name, lock_until, locked_at, locked_by, holder, token) VALUES ('forever', 'infinity', '-infinity', 'x', 'x', 5), ('ancient', '-infinity', 'infinity', 'x', 'x', 5)",
		"INSERT INTO %s (name, lock_until, locked_at, locked_by, holder, token, mark) VALUES ('nothing', 'epoch', 'epoch', 'x', NULL, 5, NULL)",
		"CREATE FUNCTION " + s.tables.schema + ".doctor() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.token := -3; RETURN NEW; END $$",
		"CREATE TRIGGER doctor BEFORE INSERT OR UPDATE ON %s FOR EACH ROW WHEN (NEW.name = 'doctored') EXECUTE FUNCTION " + s.tables.schema + ".doctor()",
	} {
		if strings.Contains(sql, "%s") {
			sql = fmt.Sprintf(sql, s.tables.records)
		}
		run(t, s.pool, sql)
	}
	var claims []store.Claim
	for _, name := range []string{"good", "forever", "ancient", "nothing", "doctored"} {
		claims = append(claims, claim(name, "a", time.Minute))
	}
	for _, batch := range [][]store.Claim{claims, claims[:1], claims[1:2], claims[3:4], claims[4:]} {
		out, err := s.Acquire(background, batch)
		if err != nil {
			t.Fatal(err)
		}
		for i, o := range out {
			var held *store.HeldError
			switch name := batch[i].Name; name {
			case "forever":
				if !errors.As(o.Err, &held) || held.Record.Left < 200*365*24*time.Hour {
					t.Errorf("%s: %+v", name, o)
				}
			case "nothing": // a mark that is NULL may be read as none
				if o.Err != nil {
					unbelievable(t, name, o.Grant.Token, o.Err, name)
				}
			case "doctored":
				unbelievable(t, name, o.Grant.Token, o.Err, name)
			default:
				if o.Err != nil || o.Grant.Token <= 0 {
					t.Errorf("%s: %+v", name, o)
				}
			}
		}
	}
	if span(math.MaxInt64) < 200*365*24*time.Hour || span(math.MinInt64) > -200*365*24*time.Hour || span(5) != 5*µs {
		t.Error("durations")
	}
	ctx, cancel := context.WithTimeout(background, 100*time.Millisecond)
	defer cancel()
	if grant, _, err := s.Queue(ctx, claim("forever", "b", time.Minute)); err == nil {
		t.Errorf("%+v", grant)
	}
}

// TestRepliesWithoutRows: a reply that must have a row and has none is an error of what asked for it.
func TestRepliesWithoutRows(t *testing.T) {
	s := fresh(t, server(t).URL)
	empty := func(statement *string) {
		before := *statement
		t.Cleanup(func() { *statement = before })
		*statement = "SELECT r.* FROM (" + before + ") AS r WHERE false"
	}
	empty(&sqlSettings)
	if c, err := s.Capabilities(background); err == nil || !strings.Contains(err.Error(), "0 rows where one is due") {
		t.Errorf("Capabilities: %+v, %v", c, err)
	}
	for _, statement := range []*string{&sqlTrigger, &sqlSession} {
		empty(statement)
		found, err := s.Examine(background)
		said := fmt.Sprint(err)
		for _, f := range found {
			said += "\n" + fmt.Sprint(f)
		}
		if !strings.Contains(said, "0 rows where one is due") {
			t.Errorf("Examine says %s", said)
		}
	}
}
