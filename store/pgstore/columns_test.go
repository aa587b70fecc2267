package pgstore

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/internal/shedlock"
)

// otherColumns are those of the example in ShedLock's documentation.
var otherColumns = shedlock.Columns{Name: "n", LockUntil: "lck_untl", LockedAt: "lckd_at", LockedBy: "lckd_by"}

func TestStoreOnATableOfShedLockWithOtherColumns(t *testing.T) {
	base := ownServer(t).URL
	conform(t, func(t testing.TB) *Store { return onTableWithOtherColumns(t, base) })
}

// onTableWithOtherColumns makes a table as ShedLock's users do, and takes it over.
func onTableWithOtherColumns(t testing.TB, base string) *Store {
	s := open(t, base, "schema", newSchema(), "shedlock", "true", "shedlock_columns", otherColumns.String())
	db := admin(t, base)
	run(t, db, "CREATE SCHEMA "+s.tables.schema)
	run(t, db, "CREATE TABLE "+s.tables.schema+"."+unquoted(otherColumns, ddlOfShedLock))
	migrate(t, s)
	return s
}

// Both sides exclude each other in a table whose columns have other names, with tokens, marks and lists as in any other.
func TestShedLockCallsItsColumnsOtherwise(t *testing.T) {
	base := server(t).URL
	s := onTableWithOtherColumns(t, base)
	java := jvm{t: t, db: admin(t, base), table: s.tables.schema + ".shedlock", by: "host", columns: otherColumns}
	before := time.Now().UnixMilli()
	if !java.lock("report", time.Hour) {
		t.Fatal("Java gets no lock")
	}
	first := heldBy(t, s, "lock/report", "a")
	if first.Holder != "host" || first.Token == 0 || first.Left < 59*time.Minute || first.Left > time.Hour {
		t.Errorf("what Java holds: %+v", first)
	}
	if !java.extend("report", 2*time.Hour) || !java.unlock("report", 0) || isHeld(s, "lock/report") {
		t.Error("Java's unlock does not free the name")
	}
	mark := before - time.Hour.Milliseconds()
	out, err := s.Acquire(background, []store.Claim{{Name: "job/report", Holder: "a", TTL: time.Minute, Mark: mark}})
	if err != nil || !errors.Is(out[0].Err, store.ErrDone) {
		t.Errorf("a scheduled time before Java's run: %v, %v; want it done", out, err)
	}
	lease := take(t, s, "lock/report", "a", time.Hour)
	if lease.Token <= first.Token {
		t.Errorf("token %d after Java's %d", lease.Token, first.Token)
	}
	if java.lock("report", time.Hour) || java.relock("report", time.Hour) || java.unlock("report", 0) || java.extend("report", time.Hour) {
		t.Error("Java gets, or frees, what is ours")
	}
	release(t, s, lease)
	if !java.relock("report", time.Hour) {
		t.Error("Java does not get what was released")
	}
	for _, subject := range []string{"schema", "clock of ShedLock"} {
		found(t, s, subject, store.LevelOK, "")
	}
	without := open(t, base, "schema", s.tables.schema, "shedlock", "true")
	if _, err := try(without, "lock/other", "a", time.Minute); !errors.Is(err, store.ErrSchema) {
		t.Errorf("a store without the names of the columns: %v", err)
	}
	_, err = without.Migrate(background)
	says(t, err, "shedlock_columns=")
	found(t, without, "schema", store.LevelError, "has the columns", "shedlock_columns=")
}

// What migrate print prints makes such a table, takes over one that is there, and leaves a migration nothing to do.
func TestPrintedSchemaHasOtherColumns(t *testing.T) {
	base := server(t).URL
	for _, there := range []bool{false, true} {
		s := open(t, base, "schema", newSchema(), "shedlock", "true", "shedlock_columns", otherColumns.String())
		if there {
			db := admin(t, base)
			run(t, db, "CREATE SCHEMA "+s.tables.schema)
			run(t, db, "CREATE TABLE "+s.tables.schema+"."+unquoted(otherColumns, ddlOfShedLock))
		}
		script(t, s, s.Schema())
		if did := migrate(t, s); len(did) > 0 {
			t.Errorf("after the schema a migration did %q", did)
		}
		take(t, s, "name", "a", time.Minute)
	}
}

// A table is not taken over under names that it has not, and the error has those that it has.
func TestMigrateNeedsTheColumns(t *testing.T) {
	base := server(t).URL
	db := admin(t, base)
	schema := newSchema()
	run(t, db, "CREATE SCHEMA "+schema)
	run(t, db, "CREATE TABLE "+schema+"."+unquoted(otherColumns, ddlOfShedLock))
	for _, options := range [][]string{nil, {"shedlock_columns", "n,lck_untl,lckd_at,lockedBy"}} {
		_, err := open(t, base, append([]string{"schema", schema, "shedlock", "true"}, options...)...).Migrate(background)
		var invalid *store.InvalidError
		if !errors.As(err, &invalid) {
			t.Errorf("%q: %v", options, err)
			continue
		}
		says(t, err, "lck_untl, lckd_at, lckd_by, n", "shedlock_columns=")
	}
	if did := migrate(t, open(t, base, "schema", schema, "shedlock", "true", "shedlock_columns", otherColumns.String())); !strings.Contains(strings.Join(did, "\n"), "altered table") {
		t.Errorf("the migration did %q", did)
	}
}

// Two times that are given in the wrong order have the right types. The rows show it: with it, neither side would exclude the other.
func TestMigrateNeedsTheOrderOfTheTimes(t *testing.T) {
	base := server(t).URL
	db := admin(t, base)
	schema := newSchema()
	run(t, db, "CREATE SCHEMA "+schema)
	run(t, db, "CREATE TABLE "+schema+"."+unquoted(otherColumns, ddlOfShedLock))
	java := jvm{t: t, db: db, table: schema + ".shedlock", by: "host", columns: otherColumns}
	if !java.lock("report", time.Hour) || !java.lock("other", time.Hour) || !java.unlock("other", 0) {
		t.Fatal("Java gets no lock")
	}
	_, err := open(t, base, "schema", schema, "shedlock", "true", "shedlock_columns", "n,lckd_at,lck_untl,lckd_by").Migrate(background)
	if !errors.As(err, new(*store.InvalidError)) {
		t.Errorf("%v", err)
	}
	says(t, err, "end before they begin", "shedlock_columns")
	migrate(t, open(t, base, "schema", schema, "shedlock", "true", "shedlock_columns", otherColumns.String()))
}

// No name of a column is SQL, nor means something else in the statements.
func TestColumnsAreChecked(t *testing.T) {
	good := fresh(t, server(t).URL)
	for _, columns := range []ShedLockColumns{
		{Name: `x" text); DROP TABLE soloist; --`}, {LockUntil: "a b"}, {LockedAt: "ü"}, {LockedBy: "1st"}, {Name: strings.Repeat("x", 64)},
		{Name: "token"}, {Name: "HOLDER"}, {LockedBy: "was_holder"}, {Name: "lock_until"}, {Name: "a", LockedBy: "A"}, {Name: "locked_by", LockedBy: "name"},
	} {
		_, err := New(good.pool, Config{ShedLock: true, ShedLockColumns: columns})
		var invalid *store.InvalidError
		if !errors.As(err, &invalid) {
			t.Errorf("%+v: %v", columns, err)
		}
	}
	for _, columns := range []ShedLockColumns{{}, {Name: "id", LockUntil: "lockUntil", LockedAt: "lockedAt", LockedBy: "owner"}, {LockedBy: "s"}} {
		if _, err := New(good.pool, Config{ShedLock: true, ShedLockColumns: columns}); err != nil {
			t.Errorf("%+v: %v", columns, err)
		}
	}
	_, err := New(good.pool, Config{ShedLockColumns: ShedLockColumns{Name: "id"}})
	says(t, err, "add shedlock=true")
	for _, value := range []string{"", "id", "a,b,c", "a,b,c,d,e", "a,,c,d", "a;b,c,d,e"} {
		if _, err := OpenURL(background, with("postgres://u@h/d", "shedlock", "true", "shedlock_columns", value)); !errors.As(err, new(*store.InvalidError)) {
			t.Errorf("%q: %v", value, err)
		}
	}
}
