package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/internal/shedlock"
	"github.com/soloist-dev/soloist/store/storetest"
)

// otherColumns are those of the example in ShedLock's documentation.
var otherColumns = shedlock.Columns{Name: "n", LockUntil: "lck_untl", LockedAt: "lckd_at", LockedBy: "lckd_by"}

func TestStoreOnATableOfShedLockWithOtherColumns(t *testing.T) {
	storetest.Run(t, harness(t, mariadb(t).URL, nil, Config{ShedLock: true, ShedLockColumns: ShedLockColumns(otherColumns)}))
}

// Both sides exclude each other in a table whose columns have other names, with tokens and marks as in any other.
func TestShedLockCallsItsColumnsOtherwise(t *testing.T) {
	ctx := context.Background()
	s, java := sharedTable(t, otherColumns)
	before := time.Now().UnixMilli()
	java.locks("report")
	first := heldBy(t, s, "lock/report", "jvm-1")
	if first.Token == 0 || first.Left < 59*time.Minute || first.Left > time.Hour {
		t.Errorf("what Java holds: %+v", first)
	}
	mark := before - time.Hour.Milliseconds()
	job := store.Claim{Name: "job/report", Holder: "a", TTL: time.Minute, Mark: mark}
	if !java.extend("report", 2*time.Hour) || !java.unlock("report", 0) {
		t.Error("Java does not extend and unlock what it holds")
	}
	if out := acquire(t, s, job)[0]; !errors.Is(out.Err, store.ErrDone) {
		t.Errorf("a scheduled time before Java's run: %v; want it done", out.Err)
	}
	lease := take(t, s, "lock/report", "a")
	if lease.Token <= first.Token {
		t.Errorf("token %d after Java's %d", lease.Token, first.Token)
	}
	if java.lock("report", time.Hour) || java.unlock("report", 0) || java.extend("report", time.Hour) {
		t.Error("Java gets, or frees, what is ours")
	}
	release(t, s, store.Release{Name: "lock/report", Holder: "a", Token: lease.Token})
	java.locks("report")
	r := heldBy(t, s, "lock/report", "jvm-1")
	release(t, s, store.Release{Name: "lock/report", Holder: "jvm-1", Token: r.Token}) // by force
	java.locks("report")
	findings, err := s.Examine(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, finding := range findings {
		if finding.Level == store.LevelUnknown {
			t.Errorf("%+v", finding)
		}
	}
	without, err := New(s.db, Config{ShedLock: true, Table: s.cfg.Table})
	if err != nil {
		t.Fatal(err)
	}
	if outs, err := without.Acquire(ctx, []store.Claim{claim("lock/other", "a")}); err == nil && outs[0].Err == nil {
		t.Error("a store takes a name without the names of the columns")
	}
	if did, err := without.Migrate(ctx); err == nil || !strings.Contains(err.Error(), "shedlock_columns=") || len(did) > 0 {
		t.Errorf("a migration without the names of the columns did %q, %v", did, err)
	}
}

// Columns that are given in another order than ShedLock's are refused before the table is altered: two sides that take each other's times, or names, for
// something else exclude nobody.
func TestMigrateNeedsTheOrderOfTheColumns(t *testing.T) {
	db := inZone(t, "+00:00")
	table := newTable(t)
	at := func(columns ShedLockColumns) *Store {
		s, err := New(db, Config{ShedLock: true, Table: table, ShedLockColumns: columns})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	right := at(ShedLockColumns(otherColumns))
	defer drop(t, db, right)
	exec(t, db, strings.Replace(unquoted(otherColumns, documentedTable), "shedlock", table, 1))
	made := func() (definition string) {
		t.Helper()
		var name string
		if err := db.QueryRowContext(context.Background(), "SHOW CREATE TABLE "+table).Scan(&name, &definition); err != nil {
			t.Fatal(err)
		}
		return definition
	}
	before := made()
	java := &peer{t: t, db: db, table: table, by: "jvm-1", known: map[string]bool{}, columns: otherColumns}
	refused := func(n, until, since, by, says string) {
		t.Helper()
		did, err := at(ShedLockColumns{n, until, since, by}).Migrate(context.Background())
		if !errors.As(err, new(*store.InvalidError)) || !strings.Contains(err.Error(), says) || len(did) > 0 {
			t.Errorf("%s, %s, %s, %s: the migration did %q, %v", n, until, since, by, did, err)
		}
		if after := made(); after != before {
			t.Fatalf("%s, %s, %s, %s: the table is\n%s\nand was\n%s", n, until, since, by, after, before)
		}
	}
	for _, rows := range []bool{false, true} {
		if rows {
			java.locks("report")
			java.locks("other")
			java.unlock("other", 0)
		}
		refused("n", "lckd_by", "lckd_at", "lck_untl", "the type of its column lck")
		refused("lck_untl", "lckd_at", "n", "lckd_by", "the type of its column")
		refused("lckd_by", "lck_untl", "lckd_at", "n", "lckd_by alone is no primary key")
	}
	refused("n", "lckd_at", "lck_untl", "lckd_by", "end before they begin")
	if did, err := right.Migrate(context.Background()); err != nil || len(did) == 0 {
		t.Errorf("the migration did %q, %v", did, err)
	}
}

// What migrate print prints makes such a table.
func TestPrintedSchemaHasOtherColumns(t *testing.T) {
	db := connect(t, mariadb(t).URL, nil)
	s, err := New(db, Config{ShedLock: true, Table: newTable(t), ShedLockColumns: ShedLockColumns(otherColumns)})
	if err != nil {
		t.Fatal(err)
	}
	defer drop(t, db, s)
	exec(t, db, s.schema()...)
	if did, err := s.Migrate(context.Background()); err != nil || len(did) > 0 {
		t.Errorf("after the schema a migration did %q, %v", did, err)
	}
	take(t, s, "name", "a")
	if text := s.Schema(); !strings.Contains(text, "MODIFY `lck_untl`") || strings.Contains(text, "lock_until") {
		t.Error(text)
	}
}

// No name of a column is SQL, nor means something else in the statements.
func TestColumnsAreChecked(t *testing.T) {
	db := new(sql.DB)
	for _, columns := range []ShedLockColumns{
		{Name: "x`); DROP TABLE soloist; --"}, {LockUntil: "a b"}, {LockedAt: "ü"}, {LockedBy: "1st"}, {Name: strings.Repeat("x", 64)},
		{Name: "token"}, {Name: "HOLDER"}, {LockedBy: "call_id"}, {Name: "lock_until"}, {Name: "a", LockedBy: "A"}, {Name: "locked_by", LockedBy: "name"},
	} {
		if _, err := New(db, Config{ShedLock: true, ShedLockColumns: columns}); !errors.As(err, new(*store.InvalidError)) {
			t.Errorf("%+v: %v", columns, err)
		}
	}
	for _, columns := range []ShedLockColumns{{}, {Name: "id", LockUntil: "lockUntil", LockedAt: "lockedAt", LockedBy: "owner"}, {LockedBy: "s"}} {
		if _, err := New(db, Config{ShedLock: true, ShedLockColumns: columns}); err != nil {
			t.Errorf("%+v: %v", columns, err)
		}
	}
	if _, err := New(db, Config{ShedLockColumns: ShedLockColumns{Name: "id"}}); err == nil || !strings.Contains(err.Error(), "add shedlock=true") {
		t.Errorf("columns of a table that is not shared: %v", err)
	}
	_, cfg, err := parseURL("mysql://u@h/d?shedlock=true&shedlock_columns=n,lck_untl,lckd_at,lckd_by")
	if err != nil || cfg.columns() != otherColumns {
		t.Errorf("columns in the URL: %+v, %v", cfg, err)
	}
	for _, value := range []string{"", "id", "a,b,c", "a,b,c,d,e", "a,,c,d"} {
		if _, err := OpenURL(context.Background(), "mysql://u@h/d?shedlock=true&shedlock_columns="+value); !errors.As(err, new(*store.InvalidError)) {
			t.Errorf("%q: %v", value, err)
		}
	}
}
