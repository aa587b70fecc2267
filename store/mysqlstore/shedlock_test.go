package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/internal/shedlock"
	"github.com/soloist-dev/soloist/test/servers"

	"github.com/go-sql-driver/mysql"
)

// A peer sends the statements of ShedLock 7.9 with usingDbTime() for MySQL and MariaDB.
// https://github.com/lukas-krecan/ShedLock, MySqlServerTimeStatementsSource.java
type peer struct {
	t     testing.TB
	db    *sql.DB
	table string
	by    string
	known map[string]bool // which rows there are: they are only updated from then on

	columns shedlock.Columns // the zero value is what ShedLock documents
}

func (p *peer) changed(statement string, args ...any) bool {
	p.t.Helper()
	r, err := p.db.ExecContext(context.Background(), strings.ReplaceAll(unquoted(p.columns.Filled(), statement), "shedlock", p.table), args...)
	if err != nil {
		p.t.Fatal(err)
	}
	n, err := r.RowsAffected()
	if err != nil {
		p.t.Fatal(err)
	}
	return n > 0
}

func (p *peer) lock(name string, atMost time.Duration) bool {
	p.t.Helper()
	µs := atMost.Microseconds()
	if !p.known[name] {
		p.known[name] = true
		if p.changed("INSERT IGNORE INTO shedlock(name, lock_until, locked_at, locked_by) "+
			"VALUES(?, TIMESTAMPADD(MICROSECOND, ?, UTC_TIMESTAMP(3)), UTC_TIMESTAMP(3), ?)", name, µs, p.by) {
			return true
		}
	}
	return p.changed("UPDATE shedlock SET lock_until = TIMESTAMPADD(MICROSECOND, ?, UTC_TIMESTAMP(3)), locked_at = UTC_TIMESTAMP(3), "+
		"locked_by = ? WHERE name = ? AND lock_until <= UTC_TIMESTAMP(3)", µs, p.by, name)
}

// locks takes a name that is free before long.
func (p *peer) locks(name string) {
	p.t.Helper()
	servers.Wait(p.t, "ShedLock to take "+name, func() bool { return p.lock(name, time.Hour) })
}

func (p *peer) extend(name string, atMost time.Duration) bool {
	p.t.Helper()
	return p.changed("UPDATE shedlock SET lock_until = TIMESTAMPADD(MICROSECOND, ?, UTC_TIMESTAMP(3)) "+
		"WHERE name = ? AND locked_by = ? AND lock_until > UTC_TIMESTAMP(3)", atMost.Microseconds(), name, p.by)
}

func (p *peer) unlock(name string, atLeast time.Duration) bool {
	p.t.Helper()
	µs := atLeast.Microseconds()
	return p.changed("UPDATE shedlock SET lock_until = IF (TIMESTAMPADD(MICROSECOND, ?, locked_at) > UTC_TIMESTAMP(3), "+
		"TIMESTAMPADD(MICROSECOND, ?, locked_at), UTC_TIMESTAMP(3)) WHERE name = ? AND locked_by = ?", µs, µs, name, p.by)
}

// unquoted returns a statement with other columns, as ShedLock writes them.
func unquoted(columns shedlock.Columns, statement string) string {
	return strings.ReplaceAll(columns.In(statement, '`'), "`", "")
}

const documentedTable = "CREATE TABLE shedlock(name VARCHAR(64) NOT NULL, lock_until TIMESTAMP(3) NOT NULL, " +
	"locked_at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3), locked_by VARCHAR(255) NOT NULL, PRIMARY KEY (name))"

// inZone opens a database whose sessions are in a time zone, as those of a JVM may be.
func inZone(t testing.TB, zone string) *sql.DB {
	return connect(t, mariadb(t).URL, func(c *mysql.Config) {
		c.InterpolateParams, c.Params = true, map[string]string{"time_zone": "'" + zone + "'"}
	})
}

func heldBy(t testing.TB, s *Store, name, holder string) store.Record {
	t.Helper()
	var held *store.HeldError
	if o := acquire(t, s, claim(name, "another"))[0]; !errors.As(o.Err, &held) || held.Record.Holder != holder {
		t.Fatalf("%q answered %v, want it held by %q", name, o.Err, holder)
	}
	return held.Record
}

// A table that ShedLock has made is taken over with its rows, and then both exclude each other, whatever the zones of their sessions.
func TestShedLock(t *testing.T) {
	for _, zone := range []string{"+00:00", "-05:00"} {
		t.Run(zone, func(t *testing.T) {
			ctx := context.Background()
			jvm, ours := inZone(t, zone), inZone(t, "+09:00")
			s, err := New(ours, Config{ShedLock: true, Table: newTable(t), ShedLockZone: zone})
			if err != nil {
				t.Fatal(err)
			}
			defer drop(t, ours, s)
			p := &peer{t: t, db: jvm, table: s.cfg.Table, by: "jvm-1", known: map[string]bool{}}
			exec(t, jvm, strings.Replace(documentedTable, "shedlock", s.cfg.Table, 1))
			if !p.lock("before", time.Hour) || !p.lock("over", time.Hour) || !p.unlock("over", 0) {
				t.Fatal("ShedLock could not lock in its own table")
			}
			for n := range 2 {
				if did, err := s.Migrate(ctx); err != nil || (len(did) == 0) != (n == 1) {
					t.Fatal(did, err)
				}
			}
			if r := heldBy(t, s, "lock/before", "jvm-1"); r.Left < time.Hour-time.Minute || r.Left > time.Hour || r.Name != "lock/before" {
				t.Errorf("the lock that was there is %+v", r)
			}
			heldBy(t, s, "job/before", "jvm-1")
			if !p.extend("before", 2*time.Hour) || heldBy(t, s, "before", "jvm-1").Left < time.Hour {
				t.Error("ShedLock could not extend its lock")
			}
			p.unlock("before", 0)
			g := take(t, s, "lock/before", "a")
			if g.ExpiredAge != 0 {
				t.Errorf("a lock of ShedLock's that is over counts as abandoned for %v", g.ExpiredAge)
			}
			if p.lock("before", time.Hour) || p.unlock("before", 0) || p.extend("before", time.Hour) {
				t.Error("ShedLock took, ended or extended what soloist holds")
			}
			heldBy(t, s, "job/before", "a")
			release(t, s, store.Release{Name: "lock/before", Holder: "a", Token: g.Token, Mark: 7, State: []byte("left"), Retain: 0})
			p.locks("before") // its clock has milliseconds, so it may see the release one later
			late := store.Release{Name: "lock/before", Holder: "a", Token: g.Token, Mark: 8}
			if errs, err := s.Release(ctx, []store.Release{late}); err != nil || !errors.Is(errs[0], store.ErrLost) {
				t.Errorf("releasing what ShedLock has: %v, %v", errs, err)
			}
			heldBy(t, s, "lock/before", "jvm-1")
			p.unlock("before", 0)
			again := take(t, s, "job/before", "b")
			if again.Token <= g.Token || again.Mark < 7 || string(again.State) != "left" {
				t.Errorf("the grant after ShedLock's is %+v", again)
			}
			// ShedLock takes over what has expired, and the one who had it is told.
			short := store.Claim{Name: "lock/over", Holder: "c", TTL: 30 * time.Millisecond}
			o := acquire(t, s, short)[0]
			if o.Err != nil {
				t.Fatal(o.Err)
			}
			p.locks("over")
			lost := store.Extension{Name: "lock/over", Holder: "c", Token: o.Grant.Token, TTL: 9 * time.Hour}
			if errs, err := s.Extend(ctx, []store.Extension{lost}); err != nil || !errors.Is(errs[0], store.ErrLost) {
				t.Errorf("extending what ShedLock has taken: %v, %v", errs, err)
			}
			if r := heldBy(t, s, "lock/over", "jvm-1"); r.Left > time.Hour {
				t.Errorf("the lock of ShedLock's was extended: %+v", r)
			}
			// A new row of ShedLock's, a watch of it, and what is listed.
			if !p.lock("theirs", time.Hour) {
				t.Fatal("ShedLock could not insert")
			}
			watch, err := s.Watch(ctx, []string{"lock/theirs"})
			if err != nil {
				t.Fatal(err)
			}
			p.unlock("theirs", 0)
			select {
			case <-watch:
			case <-time.After(servers.Patience):
				t.Error("an unlock by ShedLock woke nobody")
			}
			take(t, s, "element/j/1", "d")
			var names []string
			for r, err := range s.List(ctx, "") {
				if err != nil {
					t.Fatal(err)
				}
				names = append(names, r.Name)
			}
			if got := strings.Join(names, " "); got != "element/j/1 job/before lock/over lock/theirs" {
				t.Errorf("List yields %s", got)
			}
			// Rows that ShedLock may know are never forgotten.
			release(t, s, store.Release{Name: "job/before", Holder: "b", Token: again.Token})
			release(t, s, store.Release{Name: "plain", Holder: "b", Token: take(t, s, "plain", "b").Token})
			if n, err := s.Sweep(ctx, 100); n != 0 || err != nil {
				t.Errorf("a sweep forgot %d, %v", n, err)
			}
			p.locks("before")
			s.Close()
		})
	}
}

// sharedTable is a store on a table of ShedLock's, with a JVM.
func sharedTable(t *testing.T, columns shedlock.Columns) (*Store, *peer) {
	t.Helper()
	db := inZone(t, "+00:00")
	s, err := New(db, Config{ShedLock: true, Table: newTable(t), ShedLockColumns: ShedLockColumns(columns)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { drop(t, db, s) })
	exec(t, db, strings.Replace(unquoted(columns.Filled(), documentedTable), "shedlock", s.cfg.Table, 1))
	if _, err := s.Migrate(context.Background()); err != nil {
		t.Fatal(err)
	}
	return s, &peer{t: t, db: db, table: s.cfg.Table, by: "jvm-1", known: map[string]bool{}, columns: columns}
}

// The scheduled times up to the instant at which ShedLock has taken a lock have been run by it.
func TestWhatShedLockHasRunIsDone(t *testing.T) {
	s, java := sharedTable(t, shedlock.Documented)
	for name, ours := range map[string]bool{"new": false, "known": true} { // whether soloist has had the name before
		if ours {
			g := take(t, s, "job/"+name, "before")
			release(t, s, store.Release{Name: "job/" + name, Holder: "before", Token: g.Token, Retain: store.Forever})
		}
		attempt := func(scheduled time.Time) store.Outcome {
			t.Helper()
			return acquire(t, s, store.Claim{Name: "job/" + name, Holder: "a", TTL: time.Minute, Mark: scheduled.UnixMilli()})[0]
		}
		scheduled, next := time.Now(), time.Now().Add(time.Hour)
		java.locks(name)
		for _, at := range []time.Time{scheduled, scheduled.Add(shedlock.Early - time.Millisecond)} { // a JVM's clock may be ahead
			if o := attempt(at); !errors.Is(o.Err, store.ErrDone) {
				t.Errorf("%s: claiming what Java runs: %v", name, o.Err)
			}
		}
		if o := attempt(next); !errors.Is(o.Err, store.ErrHeld) {
			t.Errorf("%s: claiming what is due later: %v", name, o.Err)
		}
		java.extend(name, 2*time.Hour)
		java.unlock(name, 0)
		if o := attempt(scheduled); !errors.Is(o.Err, store.ErrDone) {
			t.Errorf("%s: claiming what Java has run: %v", name, o.Err)
		}
		if o := attempt(next); o.Err != nil || o.Grant.Mark < scheduled.UnixMilli() {
			t.Errorf("%s: claiming what is due later: %+v", name, o)
		}
		if o := attempt(scheduled); o.Err != nil { // it has it, and the mark is kept beside
			t.Errorf("%s: claiming again: %v", name, o.Err)
		}
		n := 0
		for r, err := range s.List(t.Context(), "job/"+name) {
			n++
			if err != nil || r.Mark < scheduled.UnixMilli() {
				t.Errorf("%s: the mark is lost: %+v, %v", name, r, err)
			}
		}
		if n != 1 {
			t.Errorf("%d records, want 1", n)
		}
	}
	// A JVM whose clock is ahead has not run what is due by then.
	java.changed("INSERT INTO shedlock(name, lock_until, locked_at, locked_by) VALUES('ahead', UTC_TIMESTAMP(3), UTC_TIMESTAMP(3) + INTERVAL 2 HOUR, 'jvm')")
	if o := acquire(t, s, store.Claim{Name: "job/ahead", Holder: "a", TTL: time.Minute, Mark: time.Now().Add(time.Hour).UnixMilli()})[0]; o.Err != nil {
		t.Errorf("claiming what is due in an hour: %v", o.Err)
	}
}

// A JVM that died keeps its lock for lockAtMostFor. By the holder and the token that a list shows it can be released by force.
func TestWhatShedLockHoldsIsReleasedByForce(t *testing.T) {
	s, java := sharedTable(t, shedlock.Documented)
	for name, ours := range map[string]bool{"new": false, "known": true} { // whether soloist has had the name before
		record, last, long := "lock/"+name, int64(0), time.Hour
		if ours {
			take(t, s, record, "before")
			last, long = ahead(t, s.db, s, record), 30*365*24*time.Hour
			release(t, s, store.Release{Name: record, Holder: "before", Token: last})
		}
		servers.Wait(t, "ShedLock to take "+name, func() bool { return java.lock(name, long) })
		r := heldBy(t, s, record, "jvm-1")
		if r.Token <= last {
			t.Errorf("%s: Java's lock has the token %d after %d", name, r.Token, last)
		}
		n := 0
		for shown, err := range s.List(t.Context(), record) {
			n++
			if err != nil || shown.Token != r.Token || shown.Token == 0 || shown.Holder != "jvm-1" {
				t.Errorf("%s: listed as %+v, %v; the refusal has token %d", name, shown, err, r.Token)
			}
		}
		if n != 1 {
			t.Errorf("%d records, want 1", n)
		}
		for _, wrong := range []store.Release{{Name: record, Holder: r.Holder, Token: r.Token + 1}, {Name: record, Holder: "another", Token: r.Token}} {
			if errs, err := s.Release(t.Context(), []store.Release{wrong}); err != nil || !errors.Is(errs[0], store.ErrLost) {
				t.Errorf("%s: %+v: %v, %v", name, wrong, errs, err)
			}
		}
		tx := begin(t, s.db, nil)
		exec(t, tx, "SELECT name FROM "+s.table(s.cfg.Table)+" WHERE name = "+bytesLiteral(name)+" FOR UPDATE")
		if errs, err := s.Release(t.Context(), []store.Release{{Name: record, Holder: r.Holder, Token: r.Token}}); err != nil || !errors.Is(errs[0], store.ErrUnknown) {
			t.Errorf("%s: while another transaction has locked the row: %v, %v", name, errs, err)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		release(t, s, store.Release{Name: record, Holder: r.Holder, Token: r.Token})
		release(t, s, store.Release{Name: record, Holder: r.Holder, Token: r.Token, Linger: time.Hour}) // a repeat, which changes nothing
		if g := take(t, s, record, "a"); g.Token <= r.Token {
			t.Errorf("%s: token %d after Java's %d", name, g.Token, r.Token)
		}
		if java.unlock(name, 0) {
			t.Errorf("%s: the dead JVM's unlock frees our lease", name)
		}
	}
}

// A lease that has ended, and whose lock ShedLock has taken since, is none of ours: nothing is completed under it, and
// its holder may have another name.
func TestLeaseThatShedLockHasTakenOver(t *testing.T) {
	s, java := sharedTable(t, shedlock.Documented)
	lease := acquire(t, s, store.Claim{Name: "lock/report", Holder: "a", TTL: time.Millisecond})[0]
	if lease.Err != nil {
		t.Fatal(lease.Err)
	}
	java.locks("report")
	tx := begin(t, s.db, nil)
	for _, c := range []store.Completion{{}, {Mark: 1}, {State: []byte("done")}} {
		c.Name, c.Holder, c.Token = "lock/report", "a", lease.Grant.Token
		if err := s.Complete(t.Context(), tx, c); !errors.Is(err, store.ErrLost) {
			t.Errorf("completing %+v: %v, want ErrLost", c, err)
		}
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a name that has no row, and one that has
		i, g, err := s.Choose(t.Context(), []string{"lock/report", "lock/other"}, claim("", "a"))
		if i != 1 || err != nil {
			t.Fatalf("chosen was %d, %+v, %v; want the name that ShedLock does not have", i, g, err)
		}
		release(t, s, store.Release{Name: "lock/other", Holder: "a", Token: g.Token, Retain: time.Hour})
	}
	r := heldBy(t, s, "lock/report", "jvm-1")
	if !java.unlock("report", 0) {
		t.Error("ShedLock does not unlock what it has taken over")
	}
	if g := take(t, s, "lock/report", "a"); g.Token <= r.Token || len(g.State) > 0 || g.ExpiredAge != 0 {
		t.Errorf("after ShedLock's lock with the token %d: %+v", r.Token, g)
	}
}

// Records and the rows of which only ShedLock knows are listed in one order, by prefix, from a name on and over pages,
// each once.
func TestListOfRowsOfShedLock(t *testing.T) {
	s, java := sharedTable(t, shedlock.Documented)
	java.changed("INSERT INTO shedlock(name, lock_until, locked_at, locked_by) " +
		"SELECT CONCAT('n', LPAD(seq, 4, '0')), '2020-01-01', '2020-01-01', 'jvm-1' FROM seq_1_to_300")
	all := []string{"element/n/1", "job/n0300", "lock/m", "plain"}
	for i := 1; i < 300; i++ {
		all = append(all, fmt.Sprintf("lock/n%04d", i))
	}
	slices.Sort(all)
	for _, name := range []string{"element/n/1", "job/n0300", "lock/m", "lock/n0002", "lock/n0130", "plain"} {
		take(t, s, name, "a")
	}
	for _, c := range [][2]string{
		{"", ""}, {"lock/", ""}, {"lock/n01", ""}, {"lock/n0150", ""}, {"lo", ""}, {"lock0", ""}, {"job/", ""},
		{"element/", ""}, {"m", ""}, {"n", ""}, {"", "lock/n0129"}, {"lock/n", "lock/n0200"}, {"", "job/n0300"},
		{"", "lock/"}, {"", "lock/n"}, {"", "locks"}, {"p", "lock/n0001"},
	} {
		var want, got []string
		for _, name := range all {
			if strings.HasPrefix(name, c[0]) && name > c[1] {
				want = append(want, name)
			}
		}
		for r, err := range s.ListAfter(t.Context(), c[0], c[1]) {
			if err != nil || len(got) > len(all) {
				t.Fatalf("%d are listed, and more: %v", len(got), err)
			}
			got = append(got, r.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("with %q, after %q: %d are listed, want %d: %q", c[0], c[1], len(got), len(want), got)
		}
	}
}

// ShedLock with the clock of the JVM excludes nobody for sure: doctor sees locks that were taken in the future.
func TestExamineSeesTheClockOfShedLock(t *testing.T) {
	s, java := sharedTable(t, shedlock.Documented)
	const subject = "clock of ShedLock"
	java.locks("report")
	take(t, s, "lock/ours", "a")
	if f := examined(t, s, subject); f.Level != store.LevelOK || !strings.Contains(f.Found, "none of the 1 locks") {
		t.Errorf("with usingDbTime(): %+v", f)
	}
	java.changed("INSERT INTO shedlock(name, lock_until, locked_at, locked_by) VALUES('berlin', UTC_TIMESTAMP(3) + INTERVAL 2 HOUR, UTC_TIMESTAMP(3) + INTERVAL 1 HOUR, 'jvm')")
	if f := examined(t, s, subject); f.Level != store.LevelError || !strings.Contains(f.Found, "1 of 2") || !strings.Contains(f.Fix, "usingDbTime()") {
		t.Errorf("a JVM in Berlin: %+v", f)
	}
}

// A table that is none of ShedLock's is not touched.
func TestShedLockRefusesOtherTables(t *testing.T) {
	db := connect(t, mariadb(t).URL, nil)
	s, err := New(db, Config{ShedLock: true, Table: newTable(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer drop(t, db, s)
	exec(t, db, "CREATE TABLE "+s.cfg.Table+" (name VARCHAR(64) PRIMARY KEY, n INT)")
	if did, err := s.Migrate(context.Background()); err == nil || !strings.Contains(err.Error(), "lock_until") || len(did) > 0 {
		t.Errorf("migrating did %q, %v", did, err)
	}
}

// A table that ShedLock uses is shared on purpose: without the same names of records nothing would exclude anything.
func TestShedLocksTableIsSharedOnPurpose(t *testing.T) {
	ctx := context.Background()
	db := connect(t, mariadb(t).URL, func(*mysql.Config) {})
	schema := newTable(t)
	exec(t, db, "CREATE DATABASE "+schema)
	defer exec(t, db, "DROP DATABASE "+schema)
	exec(t, db, strings.Replace(documentedTable, "shedlock", schema+".locks", 1))
	made := func(table string, shared bool) *Store {
		t.Helper()
		s, err := New(db, Config{Schema: schema, Table: table, ShedLock: shared})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	refuse := func(what string, err error, says string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v; want %q", what, err, says)
		}
	}
	migrate := func(s *Store) {
		t.Helper()
		if _, err := s.Migrate(ctx); err != nil {
			t.Fatal(err)
		}
	}
	taking := func(s *Store) error {
		_, err := s.Acquire(ctx, []store.Claim{claim("lock/x", "a")})
		return err
	}
	_, err := New(db, Config{Schema: schema, Table: "ShedLock"})
	refuse("ShedLock's name", err, "share it by shedlock=true")
	_, err = made("locks", false).Migrate(ctx)
	refuse("migrating", err, "is ShedLock's: share it by soloist migrate up --shedlock")
	migrate(made("locks", true))
	refuse("using", taking(made("locks", false)), "is shared with ShedLock: put shedlock=true")
	(&peer{t: t, db: db, table: schema + ".locks", by: "jvm", known: map[string]bool{}}).lock("over", time.Microsecond)
	_, err = made("locks", false).Sweep(ctx, 10)
	refuse("sweeping", err, "is shared with ShedLock: put shedlock=true") // ShedLock would never lock again what is forgotten

	// Nor does anything exclude anything in a table that soloist has used alone until then.
	migrate(made("own", false))
	if err := taking(made("own", false)); err != nil {
		t.Error(err)
	}
	refuse("sharing soloist's own", taking(made("own", true)), "is not shared with ShedLock: run soloist migrate up --shedlock")
	_, err = made("own", true).Migrate(ctx)
	refuse("migrating soloist's own", err, "is soloist's own, and not shared with ShedLock: take shedlock=true out")
	exec(t, db, "DROP INDEX soloist_record ON "+schema+".locks")
	refuse("sharing without the index", taking(made("locks", true)), "run soloist migrate up --shedlock")
	migrate(made("locks", true))
	if err := taking(made("locks", true)); err != nil {
		t.Error(err)
	}

	// Where no table is named, the one that was shared before is not forgotten.
	migrate(made("", true))
	refuse("using the default", taking(made("", false)), "there is a table that is shared with ShedLock: put shedlock=true")
	_, err = made("", false).Migrate(ctx)
	refuse("migrating the default", err, "a table that is shared with ShedLock is: put shedlock=true")
	migrate(made("soloist", false))
	if err := taking(made("", false)); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"-- ALTER TABLE `" + schema + "`.`shedlock`", "-- SET time_zone"} {
		if !strings.Contains(made("", true).Schema(), want) {
			t.Errorf("migrate print lacks %q", want)
		}
	}
}

// A lock or job never has the row of a record that soloist keeps for itself, which would overwrite it.
func TestSharedNamesAreNotThoseOfOurOwnRecords(t *testing.T) {
	s, _ := sharedTable(t, shedlock.Documented)
	for own, names := range map[string][]string{
		"actions": {"job/actions", "lock/actions"}, "controls": {"lock/controls"}, "element/j/1": {"lock/element/j/1"},
	} {
		for _, name := range names {
			if o := acquire(t, s, claim(name, "a"))[0]; !errors.As(o.Err, new(*store.InvalidError)) {
				t.Errorf("%q: %v; want an InvalidError", name, o.Err)
			}
			_, _, err := s.Choose(t.Context(), []string{"lock/x", name}, claim("", "a"))
			if !errors.As(err, new(*store.InvalidError)) {
				t.Errorf("a choice with %q: %v; want an InvalidError", name, err)
			}
		}
		take(t, s, own, "b")
	}
	take(t, open(t, s.db, Config{}), "lock/actions", "a")
}
