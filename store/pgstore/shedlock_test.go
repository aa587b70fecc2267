package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/internal/shedlock"
	"github.com/soloist-dev/soloist/test/servers"

	"github.com/jackc/pgx/v5"
)

// The statements of ShedLock's PostgreSQL support with usingDbTime (PostgresSqlServerTimeStatementsSource). %s is the table.
const (
	shedLockInsert = `INSERT INTO %s(name, lock_until, locked_at, locked_by)
		VALUES(@name, timezone('utc', CURRENT_TIMESTAMP) + make_interval(secs => @most), timezone('utc', CURRENT_TIMESTAMP), @by)
		ON CONFLICT (name) DO UPDATE SET lock_until = timezone('utc', CURRENT_TIMESTAMP) + make_interval(secs => @most),
		locked_at = timezone('utc', CURRENT_TIMESTAMP), locked_by = @by
		WHERE %[1]s.name = @name AND %[1]s.lock_until <= timezone('utc', CURRENT_TIMESTAMP)`
	shedLockUpdate = `UPDATE %s SET lock_until = timezone('utc', CURRENT_TIMESTAMP) + make_interval(secs => @most),
		locked_at = timezone('utc', CURRENT_TIMESTAMP), locked_by = @by
		WHERE name = @name AND lock_until <= timezone('utc', CURRENT_TIMESTAMP)`
	shedLockExtend = `UPDATE %s SET lock_until = timezone('utc', CURRENT_TIMESTAMP) + make_interval(secs => @most)
		WHERE name = @name AND locked_by = @by AND lock_until > timezone('utc', CURRENT_TIMESTAMP)`
	shedLockUnlock = `UPDATE %s SET lock_until = CASE
		WHEN locked_at + make_interval(secs => @least) > timezone('utc', CURRENT_TIMESTAMP) THEN locked_at + make_interval(secs => @least)
		ELSE timezone('utc', CURRENT_TIMESTAMP) END WHERE name = @name AND locked_by = @by`
)

// A jvm locks as ShedLock does.
type jvm struct {
	t     testing.TB
	db    *pgx.Conn
	table string
	by    string

	columns shedlock.Columns // the zero value is what ShedLock documents
}

func (j jvm) do(sql, name string, most, least time.Duration) bool {
	j.t.Helper()
	columns := j.columns.Filled()
	tag, err := j.db.Exec(background, fmt.Sprintf(unquoted(columns, sql), j.table),
		pgx.NamedArgs{columns.Name: name, "by": j.by, "most": most.Seconds(), "least": least.Seconds()})
	if err != nil {
		j.t.Fatal(err)
	}
	return tag.RowsAffected() > 0
}

func (j jvm) lock(name string, most time.Duration) bool   { return j.do(shedLockInsert, name, most, 0) }
func (j jvm) relock(name string, most time.Duration) bool { return j.do(shedLockUpdate, name, most, 0) }
func (j jvm) unlock(name string, least time.Duration) bool {
	return j.do(shedLockUnlock, name, 0, least)
}
func (j jvm) extend(name string, most time.Duration) bool { return j.do(shedLockExtend, name, most, 0) }

// unquoted returns a statement with other columns, as ShedLock writes them.
func unquoted(columns shedlock.Columns, sql string) string {
	return strings.ReplaceAll(columns.In(sql, '"'), `"`, "")
}

// shared is a store on a table of ShedLock, with a JVM. The role that locks for Java may use that table alone.
func shared(t *testing.T) (*Store, jvm) {
	t.Helper()
	return sharedAt(t, server(t).URL)
}

// sharedAt is as shared, on another server.
func sharedAt(t *testing.T, base string) (*Store, jvm) {
	t.Helper()
	db := admin(t, base)
	schema := newSchema()
	run(t, db, "CREATE SCHEMA "+schema)
	run(t, db, "CREATE TABLE "+schema+"."+ddlOfShedLock)
	run(t, db, "INSERT INTO "+schema+".shedlock VALUES ('old', '2020-01-02 03:04:05.678901', '2020-01-02 03:04:04.5', 'host')")
	run(t, db, "DO $$ BEGIN CREATE ROLE jvm LOGIN PASSWORD 'soloist-test'; EXCEPTION WHEN duplicate_object THEN NULL; END $$")
	run(t, db, "GRANT USAGE ON SCHEMA "+schema+" TO jvm")
	run(t, db, "GRANT SELECT, INSERT, UPDATE ON "+schema+".shedlock TO jvm")
	s := open(t, base, "schema", schema, "shedlock", "true")
	if _, err := try(s, "x", "a", time.Minute); !errors.Is(err, store.ErrSchema) {
		t.Errorf("before the migration: %v", err)
	}
	did := migrate(t, s)
	if text := strings.Join(did, "\n"); !strings.Contains(text, "altered table") || !strings.Contains(text, "made trigger") {
		t.Errorf("the migration of ShedLock's table did: %s", text)
	}
	if did := migrate(t, s); len(did) > 0 {
		t.Errorf("a second migration did: %q", did)
	}
	if until := one[string](t, db, "SELECT lock_until::text FROM "+schema+".shedlock WHERE name = 'old'"); until != "2020-01-02 03:04:05.678901" {
		t.Errorf("the row that was there ends at %s", until)
	}
	return s, jvm{t: t, db: admin(t, as(base, "jvm")), table: schema + ".shedlock", by: "host"}
}

func heldBy(t testing.TB, s store.Store, name, holder string) store.Record {
	t.Helper()
	_, err := try(s, name, holder, time.Minute)
	var h *store.HeldError
	if !errors.As(err, &h) {
		t.Fatalf("%q for %s: %v; want it held", name, holder, err)
	}
	return h.Record
}

func TestShedLockAndWeExcludeEachOther(t *testing.T) {
	s, java := shared(t)
	if !java.lock("report", time.Hour) {
		t.Fatal("Java gets no lock")
	}
	for _, name := range []string{"lock/report", "job/report", "report"} {
		r := heldBy(t, s, name, "a")
		if r.Holder != "host" || r.Name != name || r.Left < 59*time.Minute || r.Left > time.Hour || r.Token == 0 {
			t.Errorf("%+v", r)
		}
	}
	first := heldBy(t, s, "lock/report", "a").Token
	if !java.extend("report", 2*time.Hour) || heldBy(t, s, "lock/report", "a").Token != first {
		t.Error("Java's extension changes the token")
	}
	if !java.unlock("report", 0) || isHeld(s, "lock/report") {
		t.Error("Java's unlock does not free the name")
	}
	lease := take(t, s, "lock/report", "a", time.Hour)
	if lease.Token <= first {
		t.Errorf("token %d after Java's %d", lease.Token, first)
	}
	if java.lock("report", time.Hour) || java.relock("report", time.Hour) || java.unlock("report", 0) || java.extend("report", time.Hour) {
		t.Error("Java gets, or frees, what is ours")
	}
	if r := heldBy(t, s, "job/report", "b"); r.Holder != "a" || r.Token != lease.Token {
		t.Errorf("the job's refusal: %+v", r)
	}
	lease.Linger = time.Hour
	release(t, s, lease)
	if java.relock("report", time.Hour) {
		t.Error("Java gets what lingers")
	}
	if r := heldBy(t, s, "lock/report", "c"); r.Holder != "" {
		t.Errorf("while it lingers: %+v", r)
	}
}

func isHeld(s store.Store, name string) bool {
	out, err := s.Acquire(background, []store.Claim{{Name: name, Holder: "look", TTL: time.Minute, Mark: -1}})
	var done *store.DoneError
	return err != nil || !errors.As(out[0].Err, &done) || !done.Record.Free() || done.Record.Holder != ""
}

// Java takes over a lease of ours that has expired. What we do with it after that is lost and changes nothing, even without the
// trigger.
func TestShedLockTakesOver(t *testing.T) {
	for _, trigger := range []bool{true, false} {
		s, java := shared(t)
		if !trigger {
			run(t, s.pool, "DROP TRIGGER shedlock_fence ON "+java.table)
		}
		lease := take(t, s, "lock/report", "a", 30*time.Millisecond)
		eventually(t, "Java takes over", func() bool { return java.relock("report", time.Hour) })
		if err := tryExtend(s, lease, time.Hour); !errors.Is(err, store.ErrLost) {
			t.Errorf("extending after the takeover: %v", err)
		}
		if err := tryRelease(s, lease); !errors.Is(err, store.ErrLost) {
			t.Errorf("releasing after the takeover: %v", err)
		}
		r := heldBy(t, s, "lock/report", "a")
		if r.Holder != "host" || trigger && r.Token <= lease.Token {
			t.Errorf("trigger %t: %+v after token %d", trigger, r, lease.Token)
		}
		java.unlock("report", 0)
		g, err := try(s, "job/report", "b", time.Hour)
		if err != nil || g.ExpiredAge != 0 || g.Token <= r.Token {
			t.Errorf("after Java: %+v, %v", g, err)
		}
	}
}

// The token of a lock that ShedLock takes is greater than all before, also where the server's clock has been put back since.
func TestTokensOfShedLocksLocks(t *testing.T) {
	s, java := shared(t)
	ahead := time.Now().Add(time.Hour).UnixMicro()
	outs, err := s.Acquire(background, []store.Claim{{Name: "lock/report", Holder: "a", TTL: time.Minute, Above: ahead}})
	if err == nil {
		err = outs[0].Err
	}
	if err != nil {
		t.Fatal(err)
	}
	token := outs[0].Grant.Token
	release(t, s, store.Release{Name: "lock/report", Holder: "a", Token: token, Retain: store.Forever})
	if !java.relock("report", time.Hour) {
		t.Fatal("Java gets no lock")
	}
	if r := heldBy(t, s, "lock/report", "b"); r.Holder != "host" || r.Token <= token {
		t.Errorf("after the token %d: %+v", token, r)
	}
	// The same JVM locks it again, as it does for each run.
	before := heldBy(t, s, "lock/report", "b").Token
	if !java.unlock("report", 0) || !java.relock("report", time.Hour) {
		t.Fatal("Java gets no lock")
	}
	if r := heldBy(t, s, "lock/report", "b"); r.Token <= before {
		t.Errorf("after the token %d of the same JVM: %+v", before, r)
	}
	floor := ahead + time.Hour.Microseconds() // what has been forgotten has had tokens up to that
	run(t, s.pool, "INSERT INTO "+s.tables.floor+" (floor) VALUES ($1)", floor)
	if !java.lock("new", time.Hour) {
		t.Fatal("Java gets no lock")
	}
	if r := heldBy(t, s, "lock/new", "b"); r.Holder != "host" || r.Token <= floor {
		t.Errorf("above the floor %d: %+v", floor, r)
	}
}

// The scheduled times up to the instant at which ShedLock has taken a lock have been run by it.
func TestWhatShedLockHasRunIsDone(t *testing.T) {
	s, java := shared(t)
	for _, ours := range []bool{false, true} { // whether soloist has had the name before
		name := fmt.Sprintf("report-%v", ours)
		if ours {
			release(t, s, take(t, s, "job/"+name, "before", time.Minute))
		}
		claim := func(scheduled time.Time) error {
			t.Helper()
			out, err := s.Acquire(background, []store.Claim{{Name: "job/" + name, Holder: "a", TTL: time.Minute, Mark: scheduled.UnixMilli()}})
			if err != nil {
				t.Fatal(err)
			}
			return out[0].Err
		}
		scheduled, next := time.Now(), time.Now().Add(time.Hour)
		if !java.lock(name, time.Hour) {
			t.Fatal("Java gets no lock")
		}
		for _, at := range []time.Time{scheduled, scheduled.Add(shedlock.Early - time.Millisecond)} { // a JVM's clock may be ahead
			if err := claim(at); !errors.Is(err, store.ErrDone) {
				t.Errorf("ours %v: claiming what Java runs: %v", ours, err)
			}
		}
		if err := claim(next); !errors.Is(err, store.ErrHeld) {
			t.Errorf("ours %v: claiming what is due later: %v", ours, err)
		}
		java.extend(name, 2*time.Hour)
		java.unlock(name, 0)
		if err := claim(scheduled); !errors.Is(err, store.ErrDone) {
			t.Errorf("ours %v: claiming what Java has run: %v", ours, err)
		}
		if err := claim(next); err != nil {
			t.Errorf("ours %v: claiming what is due later: %v", ours, err)
		}
	}
}

func TestShedLockLocksAtLeast(t *testing.T) {
	s, java := shared(t)
	java.lock("report", time.Hour)
	java.unlock("report", 30*time.Minute)
	if r := heldBy(t, s, "lock/report", "a"); r.Holder != "host" || r.Left > 30*time.Minute || r.Left < 29*time.Minute {
		t.Errorf("%+v", r)
	}
	java.lock("quick", time.Hour)
	java.unlock("quick", 50*time.Millisecond)
	eventually(t, "the name is free after the least time", func() bool { _, err := try(s, "lock/quick", "a", time.Minute); return err == nil })
}

// Java's unlock wakes our waiters, also those who poll, and also where soloist has had the name before.
func TestShedLocksUnlockWakes(t *testing.T) {
	s, java := shared(t)
	polls := open(t, server(t).URL, "schema", s.tables.schema, "shedlock", "true", "listen", "off")
	for _, s := range []*Store{s, polls} {
		for _, ours := range []bool{false, true} {
			name := fmt.Sprintf("report-%v-%v", s == polls, ours)
			if ours {
				release(t, s, take(t, s, "lock/"+name, "before", time.Minute))
			}
			java.lock(name, time.Hour)
			w, err := s.Watch(background, []string{"lock/" + name})
			if err != nil {
				t.Fatal(err)
			}
			drain(w)
			java.unlock(name, 0)
			select {
			case <-w:
			case <-time.After(servers.Patience):
				t.Errorf("%s: nobody was woken", name)
			}
		}
	}
}

// A lock that Java shortens wakes our waiters, and again when it ends even sooner: by Java's unlock, or by force.
func TestShedLocksLockThatEndsSoonerWakesEachTime(t *testing.T) {
	s, java := shared(t)
	wakesEachTime(t, s, java, func(at int64) {
		if now := walOf(t, s.pool); at <= 0 || at > now { // an instant would be past it, and goes back with a clock
			t.Errorf("the place of a sooner end in the WAL is %d, want one from 1 to %d", at, now)
		}
	})
}

// Java's unlock and a release by force succeed, and wake, where the server refuses to tell how far its WAL has been written, as Amazon Aurora does with wal_level=replica.
func TestShedLocksUnlockWithoutAPlaceInTheWAL(t *testing.T) {
	s, java := shared(t)
	db, schema := admin(t, server(t).URL), newSchema()
	run(t, db, "CREATE SCHEMA "+schema)
	run(t, db, "CREATE FUNCTION "+schema+".pg_current_wal_insert_lsn() RETURNS pg_lsn LANGUAGE plpgsql AS "+
		"$$ BEGIN RAISE 'WAL control functions cannot be executed' USING ERRCODE = 'object_not_in_prerequisite_state'; END $$")
	run(t, db, "ALTER FUNCTION "+s.tables.quoted(s.tables.cfg.Table+"_fence")+"() SET search_path = "+schema+", pg_catalog, pg_temp")
	wakesEachTime(t, s, java, func(int64) {})
}

// wakesEachTime ends locks of Java sooner, step by step, and checks that each step wakes who waits. It gives sooner what the first step was told to be at.
func wakesEachTime(t *testing.T, s *Store, java jvm, sooner func(at int64)) {
	t.Helper()
	later, err := s.Watch(background, []string{"lock/later"})
	if err != nil {
		t.Fatal(err)
	}
	for _, forced := range []bool{false, true} {
		name := fmt.Sprintf("report-%v", forced)
		java.lock(name, time.Hour)
		w, err := s.Watch(background, []string{"lock/" + name})
		if err != nil {
			t.Fatal(err)
		}
		drain(w)
		drain(later)
		woken := func(by string) {
			t.Helper()
			release(t, s, take(t, s, "lock/later", "a", time.Minute))
			<-later // notifications come in the order of the commits
			select {
			case <-w:
			default:
				t.Errorf("%s: nobody was woken by %s", name, by)
			}
		}
		java.extend(name, 30*time.Minute)
		woken("a sooner end")
		s.hub.mu.Lock()
		last := slices.MaxFunc(slices.Collect(maps.Values(s.hub.over)), func(a, b ending) int { return cmp.Compare(a.at, b.at) })
		s.hub.mu.Unlock()
		sooner(last.at)
		java.unlock(name, 20*time.Minute)
		woken("an unlock that leaves the least time")
		if forced {
			r := heldBy(t, s, "lock/"+name, "a")
			release(t, s, store.Release{Name: "lock/" + name, Holder: r.Holder, Token: r.Token})
		} else {
			java.unlock(name, 0)
		}
		woken("its end")
	}
}

// drain takes what a watch has received until now.
func drain(w <-chan struct{}) {
	for {
		select {
		case <-w:
		case <-time.After(50 * time.Millisecond):
			return
		}
	}
}

func TestListOfASharedTable(t *testing.T) {
	s, java := shared(t)
	java.lock("z", time.Hour)
	take(t, s, "job/b", "a", time.Hour)
	take(t, s, "lock/a", "a", time.Hour)
	take(t, s, "element/x/1", "a", time.Hour)
	take(t, s, "@ns/lock/q", "a", time.Hour)
	list := func(prefix string) (names []string) {
		for r, err := range s.List(background, prefix) {
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, r.Name)
		}
		return names
	}
	for prefix, want := range map[string]string{
		"": "[@ns/lock/q element/x/1 job/b lock/a lock/old lock/z]", "lock/": "[lock/a lock/old lock/z]", "job/": "[job/b]", "x": "[]",
	} {
		if got := fmt.Sprint(list(prefix)); got != want {
			t.Errorf("List %q: %s, want %s", prefix, got, want)
		}
	}
}

// ShedLock remembers which rows are there, and only updates those: they are never deleted.
func TestRowsOfShedLockStay(t *testing.T) {
	s, java := shared(t)
	java.lock("java", time.Hour)
	java.unlock("java", 0)
	for _, name := range []string{"lock/a", "job/b", "element/1", "element/2", "java", "old"} {
		r := take(t, s, name, "x", time.Hour)
		r.Retain = 0
		release(t, s, r)
	}
	// A row that we have made, and Java has found.
	r := take(t, s, "found", "x", time.Hour)
	r.Retain = 0
	release(t, s, r)
	if !java.lock("found", time.Millisecond) {
		t.Fatal("Java does not get the row")
	}
	eventually(t, "what is ours alone is forgotten", func() bool {
		if _, err := s.Sweep(background, 100); err != nil {
			t.Fatal(err)
		}
		rows, _ := s.pool.Query(background, "SELECT name FROM "+s.tables.records+" ORDER BY name")
		names, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		return slices.Equal(names, []string{"a", "b", "found", "java", "old"})
	})
}

func TestTablesOfOthersAreLeftAlone(t *testing.T) {
	db := admin(t, server(t).URL)
	for name, ddl := range map[string]string{
		"other":    "soloist (id integer)",
		"zoned":    "soloist (name text, lock_until timestamptz, locked_at timestamptz, locked_by text)",
		"halfway2": "soloist (name text, lock_until timestamp, locked_by text)",
	} {
		schema := newSchema()
		run(t, db, "CREATE SCHEMA "+schema)
		run(t, db, "CREATE TABLE "+schema+"."+ddl)
		s := open(t, server(t).URL, "schema", schema)
		_, err := s.Migrate(background)
		var invalid *store.InvalidError
		if !errors.As(err, &invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A JVM that died keeps its lock for lockAtMostFor. By the holder and the token that a list shows it can be released by force.
func TestWhatShedLockHoldsIsReleasedByForce(t *testing.T) {
	s, java := shared(t)
	for _, ours := range []bool{false, true} { // whether soloist has had the name before
		name := fmt.Sprintf("lock/report-%v", ours)
		if ours {
			release(t, s, take(t, s, name, "before", time.Minute))
		}
		if !java.lock(strings.TrimPrefix(name, "lock/"), time.Hour) {
			t.Fatal("Java gets no lock")
		}
		r := heldBy(t, s, name, "a")
		for _, wrong := range []store.Release{{Name: name, Holder: r.Holder, Token: r.Token + 1}, {Name: name, Holder: "another", Token: r.Token}} {
			if errs, err := s.Release(background, []store.Release{wrong}); err != nil || !errors.Is(errs[0], store.ErrLost) {
				t.Errorf("%+v: %v, %v", wrong, errs, err)
			}
		}
		if listed := recordOf(t, s, name); listed.Holder != r.Holder || listed.Token != r.Token || r.Token == 0 {
			t.Errorf("listed as %+v; the refusal has %+v", listed, r)
		}
		tx := begin(t, s, pgx.TxOptions{})
		run(t, tx, "SELECT 1 FROM "+s.tables.records+" WHERE name = $1 FOR UPDATE", strings.TrimPrefix(name, "lock/"))
		if err := tryRelease(s, store.Release{Name: name, Holder: r.Holder, Token: r.Token}); !errors.Is(err, store.ErrUnknown) {
			t.Errorf("while another transaction has locked the row: %v", err)
		}
		tx.Rollback(background)
		forced := store.Release{Name: name, Holder: r.Holder, Token: r.Token}
		release(t, s, forced)
		release(t, s, forced) // its reply may have been lost
		if errs, err := s.Release(background, []store.Release{forced, {Name: "lock/none", Holder: "a", Token: 1}}); err != nil || errs[0] != nil || !errors.Is(errs[1], store.ErrLost) {
			t.Errorf("repeated in a batch: %v, %v", errs, err)
		}
		for _, wrong := range []store.Release{{Name: name, Holder: r.Holder, Token: r.Token + 1}, {Name: name, Holder: r.Holder, Token: r.Token, Mark: 1 << 62}} {
			if err := tryRelease(s, wrong); !errors.Is(err, store.ErrLost) {
				t.Errorf("%+v, of a lock that has ended: %v", wrong, err)
			}
		}
		if !java.lock(strings.TrimPrefix(name, "lock/"), time.Hour) {
			t.Error("what is released by force is not free for Java")
		}
		if err := tryRelease(s, forced); !errors.Is(err, store.ErrLost) {
			t.Errorf("repeated when Java has locked again: %v", err)
		}
		java.unlock(strings.TrimPrefix(name, "lock/"), 0)
		if lease := take(t, s, name, "a", time.Minute); lease.Token <= r.Token {
			t.Errorf("token %d after Java's %d", lease.Token, r.Token)
		}
		if java.unlock(strings.TrimPrefix(name, "lock/"), 0) {
			t.Error("the dead JVM's unlock frees our lease")
		}
	}
}

// Operators park a job by a lock_until that is far away.
func TestParkedForEver(t *testing.T) {
	s, java := shared(t)
	for _, until := range []string{"infinity", "9999-12-31", "3000-01-01", "-infinity"} {
		run(t, admin(t, server(t).URL), "INSERT INTO "+java.table+" VALUES ('parked', '"+until+"', '2020-01-01', 'operator') ON CONFLICT (name) DO UPDATE SET lock_until = '"+until+"'")
		listed := false
		for r, err := range s.List(background, "lock/parked") {
			if err != nil {
				t.Errorf("%s: %v", until, err)
			}
			listed = listed || r.Name == "lock/parked" && (r.Left > 200*365*24*time.Hour) == (until != "-infinity")
		}
		if !listed {
			t.Errorf("%s: not listed as it is", until)
		}
		_, err := try(s, "lock/parked", "a", time.Minute)
		if free := until == "-infinity"; free != (err == nil) || !free && !errors.Is(err, store.ErrHeld) {
			t.Errorf("%s: %v", until, err)
		}
		run(t, admin(t, server(t).URL), "DELETE FROM "+java.table)
	}
}

// A table that ShedLock uses is shared on purpose: without the same names of records nothing would exclude anything.
func TestShedLocksTableIsSharedOnPurpose(t *testing.T) {
	base := server(t).URL
	db := admin(t, base)
	schema := newSchema()
	run(t, db, "CREATE SCHEMA "+schema)
	run(t, db, "CREATE TABLE "+schema+".locks"+strings.TrimPrefix(ddlOfShedLock, "shedlock"))
	refuse := func(what string, err error, says string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v; want %q", what, err, says)
		}
	}
	_, err := OpenURL(background, with(base, "schema", schema, "table", "shedlock"))
	refuse("ShedLock's name", err, "share it by shedlock=true")
	alone := open(t, base, "schema", schema, "table", "locks")
	_, err = alone.Migrate(background)
	refuse("migrating", err, "is ShedLock's: share it by soloist migrate up --shedlock")
	if n := one[int](t, db, "SELECT count(*)::int FROM information_schema.columns WHERE table_schema = '"+schema+"'"); n != 4 {
		t.Errorf("%d columns, the table had 4", n)
	}
	migrate(t, open(t, base, "schema", schema, "table", "locks", "shedlock", "true"))
	_, err = try(open(t, base, "schema", schema, "table", "locks"), "lock/x", "a", time.Minute)
	refuse("using", err, "is shared with ShedLock: put shedlock=true")
	_, err = open(t, base, "schema", schema, "table", "locks").Sweep(background, 10) // ShedLock would never lock again what is forgotten
	refuse("sweeping", err, "is shared with ShedLock: put shedlock=true")

	// Nor does anything exclude anything in a table that soloist has used alone until then.
	migrate(t, open(t, base, "schema", schema, "table", "own"))
	take(t, open(t, base, "schema", schema, "table", "own"), "lock/x", "a", time.Minute)
	_, err = try(open(t, base, "schema", schema, "table", "own", "shedlock", "true"), "lock/x", "b", time.Minute)
	refuse("sharing soloist's own", err, "is soloist's own, and not shared with ShedLock: take shedlock=true out")
	_, err = open(t, base, "schema", schema, "table", "own", "shedlock", "true").Migrate(background)
	refuse("migrating soloist's own", err, "is soloist's own, and not shared with ShedLock: take shedlock=true out")
	for what, begin := range map[string]func(s *Store){
		"empty": func(*Store) {}, "swept": func(s *Store) {
			release(t, s, store.Release{Name: "x", Holder: "a", Token: take(t, s, "x", "a", time.Minute).Token})
			if n, err := s.Sweep(background, 1); n != 1 || err != nil {
				t.Fatalf("%d forgotten, %v", n, err)
			}
		}, "filled": func(s *Store) {
			if made, err := s.Fill(background, []store.Filling{{Name: "x", Mark: 1, Retain: store.Forever}}); err != nil || !made[0] {
				t.Fatalf("%v, %v", made, err)
			}
		},
	} {
		own := open(t, base, "schema", schema, "table", "own_"+what)
		migrate(t, own)
		begin(own)
		other := open(t, base, "schema", schema, "table", "own_"+what, "shedlock", "true")
		_, err = try(other, "lock/x", "b", time.Minute)
		refuse("sharing what is "+what, err, "is soloist's own, and not shared with ShedLock: take shedlock=true out")
		_, err = other.Migrate(background)
		refuse("migrating what is "+what, err, "is soloist's own, and not shared with ShedLock: take shedlock=true out")
	}

	// One that is shared is known by its rows if somebody has dropped its trigger.
	for _, lock := range []func(s *Store){
		func(*Store) {
			run(t, db, "INSERT INTO "+schema+".locks (name, lock_until, locked_at, locked_by) VALUES ('java', '2020-01-01', '2020-01-01', 'host')")
		},
		func(s *Store) { take(t, s, "lock/x", "a", time.Minute) },
	} {
		run(t, db, "DELETE FROM "+schema+".locks")
		lock(open(t, base, "schema", schema, "table", "locks", "shedlock", "true"))
		run(t, db, "DROP TRIGGER locks_fence ON "+schema+".locks")
		_, err = try(open(t, base, "schema", schema, "table", "locks", "shedlock", "true"), "lock/z", "a", time.Minute)
		if err != nil {
			t.Errorf("without the trigger: %v", err)
		}
		migrate(t, open(t, base, "schema", schema, "table", "locks", "shedlock", "true"))
	}
	take(t, open(t, base, "schema", schema, "table", "locks", "shedlock", "true"), "lock/y", "a", time.Minute)

	// Where no table is named, the one that was shared before is not forgotten.
	migrate(t, open(t, base, "schema", schema, "shedlock", "true"))
	plain := open(t, base, "schema", schema)
	_, err = try(plain, "lock/x", "a", time.Minute)
	refuse("using the default", err, "there is a table that is shared with ShedLock: put shedlock=true")
	_, err = plain.Migrate(background)
	refuse("migrating the default", err, "a table that is shared with ShedLock is: put shedlock=true")
	migrate(t, open(t, base, "schema", schema, "table", "soloist"))
	take(t, open(t, base, "schema", schema), "lock/x", "a", time.Minute)
}

// A migration replaces a trigger of another version, and one that was turned off.
func TestMigrateRenewsTheTrigger(t *testing.T) {
	s, java := shared(t)
	fence := s.tables.quoted(s.tables.cfg.Table + "_fence")
	for i, sql := range []string{
		"CREATE OR REPLACE FUNCTION " + fence + "() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$",
		"ALTER TABLE " + s.tables.records + " DISABLE TRIGGER " + quote(s.tables.cfg.Table+"_fence"),
	} {
		run(t, admin(t, server(t).URL), sql)
		if did := migrate(t, s); len(did) != 1 || !strings.Contains(did[0], "made trigger") {
			t.Errorf("%s: %q", sql, did)
		}
		name := fmt.Sprint("report", i)
		java.lock(name, time.Hour)
		if r := recordOf(t, s, "lock/"+name); r.Token == 0 {
			t.Errorf("%s: %+v", sql, r)
		}
	}
}

// What is printed can be run where ShedLock's table is, and where it is not.
func TestPrintedSchemaTakesOverShedLocksTable(t *testing.T) {
	base := server(t).URL
	db := admin(t, base)
	for _, there := range []bool{true, false} {
		schema := newSchema()
		run(t, db, "CREATE SCHEMA "+schema)
		if there {
			run(t, db, "CREATE TABLE "+schema+"."+strings.Replace(ddlOfShedLock, "locked_by VARCHAR(255)", "locked_by VARCHAR(64)", 1))
		}
		s := open(t, base, "schema", schema, "shedlock", "true")
		if _, err := db.Exec(background, s.Schema(), pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
		if did := migrate(t, s); len(did) > 0 {
			t.Errorf("there is more to do: %q", did)
		}
		take(t, s, "lock/x", strings.Repeat("h", 255), time.Minute)
	}
}

// ShedLock with the clock of the JVM excludes nobody for sure: doctor sees by the times in its locks whose they are.
func TestExamineSeesTheClockOfShedLock(t *testing.T) {
	s, java := shared(t)
	const subject = "clock of ShedLock"
	run(t, s.pool, "DELETE FROM "+java.table) // a row that was there before
	found(t, s, subject, store.LevelOK, "no lock yet", "usingDbTime()")
	java.lock("report", time.Hour)
	take(t, s, "lock/ours", "a", time.Hour)
	found(t, s, subject, store.LevelOK, "the 1 locks")

	// By the statements of ShedLock without usingDbTime(), whose times have milliseconds.
	byClock := func(name string, now time.Time) {
		run(t, s.pool, fmt.Sprintf("INSERT INTO %s (name, lock_until, locked_at, locked_by) VALUES ('%s', '%s', '%s', 'jvm')", java.table, name,
			now.Add(time.Hour).Format("2006-01-02 15:04:05.000"), now.Format("2006-01-02 15:04:05.000")))
	}
	now := one[time.Time](t, admin(t, server(t).URL), "SELECT now()").UTC()
	byClock("right", now)
	byClock("right, too", now)
	found(t, s, subject, store.LevelWarning, "2 of 3", "without microseconds", "usingDbTime()")
	byClock("New York", now.Add(-5*time.Hour))
	found(t, s, subject, store.LevelError, "1 of 4", "up to 5h0m", "usingDbTime()")
	run(t, s.pool, "DELETE FROM "+java.table+" WHERE name = 'New York'")
	byClock("Berlin", now.Add(time.Hour))
	found(t, s, subject, store.LevelError, "1 of 4", "zone")
}

// A table whose columns have other names is named for what it is.
func TestExamineSeesOtherColumns(t *testing.T) {
	base := server(t).URL
	db := admin(t, base)
	schema := newSchema()
	run(t, db, "CREATE SCHEMA "+schema)
	run(t, db, "CREATE TABLE "+schema+".shedlock (lock_name text PRIMARY KEY, until timestamp, locked_at timestamp, locked_by text)")
	found(t, open(t, base, "schema", schema, "shedlock", "true"), "schema", store.LevelError, "has the columns lock_name, locked_at, locked_by, until, and not lock_until, name",
		"shedlock_columns=")
}

// A lock or job never has the row of a record that soloist keeps for itself. The state of a job called actions was
// overwritten by the list of actions, so that its history was gone and a manual run was made again; and while a program
// had a lock called controls nobody could pause a job.
func TestSharedNamesAreNotThoseOfOurOwnRecords(t *testing.T) {
	s, _ := shared(t)
	for own, names := range map[string][]string{
		"actions": {"job/actions", "lock/actions"}, "controls": {"lock/controls"}, "element/j/1": {"lock/element/j/1"},
	} {
		for _, name := range names {
			if _, err := try(s, name, "a", time.Hour); !errors.As(err, new(*store.InvalidError)) {
				t.Errorf("%q: %v; want an InvalidError", name, err)
			}
			_, _, err := s.Choose(background, []string{"lock/x", name}, claim("", "a", time.Hour))
			if !errors.As(err, new(*store.InvalidError)) {
				t.Errorf("a choice with %q: %v; want an InvalidError", name, err)
			}
		}
		take(t, s, own, "b", time.Hour)
	}
	take(t, fresh(t, server(t).URL), "lock/actions", "a", time.Hour)
}

// A lock that a JVM has while the table is taken over can be released by force, as any other; and so can one that it
// has taken while the trigger was away.
func TestLockThatIsHeldDuringTheMigrationIsReleasedByForce(t *testing.T) {
	db, schema := admin(t, server(t).URL), newSchema()
	run(t, db, "CREATE SCHEMA "+schema)
	run(t, db, "CREATE TABLE "+schema+"."+ddlOfShedLock)
	java := jvm{t: t, db: db, table: schema + ".shedlock", by: "host"}
	s := open(t, server(t).URL, "schema", schema, "shedlock", "true")
	for _, names := range [][]string{{"report", "forever"}, {"later"}} {
		for _, name := range names {
			if !java.lock(name, time.Hour) {
				t.Fatal("Java gets no lock")
			}
		}
		run(t, db, "UPDATE "+java.table+" SET lock_until = 'infinity', locked_at = '-infinity' WHERE name = 'forever'")
		migrate(t, s)
		for _, name := range names {
			r := heldBy(t, s, "lock/"+name, "a")
			release(t, s, store.Release{Name: "lock/" + name, Holder: r.Holder, Token: r.Token})
			if lease := take(t, s, "lock/"+name, "a", time.Minute); lease.Token <= r.Token {
				t.Errorf("%s: token %d after Java's %d", name, lease.Token, r.Token)
			}
		}
		run(t, db, "DROP TRIGGER shedlock_fence ON "+java.table)
	}
}

// Where somebody has emptied the table of floors, a JVM's lock of a new name is refused, and does not keep the server
// busy without end.
func TestShedLocksNewLockWithoutAFloor(t *testing.T) {
	s, java := shared(t)
	run(t, s.pool, "DELETE FROM "+s.tables.floor)
	ctx, cancel := context.WithTimeout(background, time.Minute)
	defer cancel()
	_, err := java.db.Exec(ctx, fmt.Sprintf(shedLockInsert, java.table),
		pgx.NamedArgs{"name": "new", "by": "host", "most": 60.0})
	if ctx.Err() != nil {
		t.Fatal("the statement of the JVM does not end")
	}
	says(t, err, "new cannot be locked", "shedlock_floor is empty", "doctor")
	if !java.relock("old", time.Hour) {
		t.Error("a lock that has a row is refused")
	}
}
