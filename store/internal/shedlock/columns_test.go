package shedlock_test

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/internal/shedlock"
)

var others = shedlock.Columns{Name: "n", LockUntil: "until", LockedAt: "locked_by", LockedBy: "locked_at"}

// Only the words of the code are replaced, all of them at once.
func TestColumnsInAStatement(t *testing.T) {
	for text, want := range map[string]string{
		"SELECT s.name, lock_until FROM t":      `SELECT s."n", "until" FROM t`,
		"SET locked_at = 1, locked_by = 2":      `SET "locked_by" = 1, "locked_at" = 2`,
		"was_locked_by names name2 _name":       "was_locked_by names name2 _name",
		"'name' || \"name\" || `name` || x'6e'": "'name' || \"name\" || `name` || x'6e'",
		"name -- the name's\nname":              "\"n\" -- the name's\n\"n\"",
		"-- name":                               "-- name",
		"(name,lock_until)":                     `("n","until")`,
		"1-name":                                `1-"n"`,
		"'name":                                 "'name",
		"":                                      "",
		"ALTER TABLE t\n  ALTER COLUMN name TYPE": "ALTER TABLE t\n  ALTER COLUMN \"n\" TYPE",
	} {
		if got := others.In(text, '"'); got != want {
			t.Errorf("In(%q) = %q; want %q", text, got, want)
		}
		if got := shedlock.Documented.In(text, '"'); got != text {
			t.Errorf("with the documented columns In(%q) = %q", text, got)
		}
	}
}

// A name that is a word of the statements would make two things one.
func TestColumnsThatAreOtherWords(t *testing.T) {
	files := fstest.MapFS{"sql/a.sql": {Data: []byte("-- id\nSELECT t.name, t.Token FROM t WHERE x = 'owner'\n")}}
	for name, valid := range map[string]bool{
		"id": true, "owner": true, "t": true, "x": true, "key": true, "token": false, "TOKEN": false, "select": false, "lock_until": false, "a-b": false, "é": false,
		strings.Repeat("n", 63): true, strings.Repeat("n", 64): false,
	} {
		err := shedlock.Columns{Name: name}.Filled().Check(files)
		if valid != (err == nil) || !valid && !errors.As(err, new(*store.InvalidError)) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// Two columns have two names, which differ by more than capital letters.
func TestColumnsOfOneName(t *testing.T) {
	for _, c := range []shedlock.Columns{{Name: "id", LockedBy: "id"}, {Name: "ID", LockedBy: "id"}, {Name: "id", LockedBy: "ID"}} {
		if err := c.Filled().Check(fstest.MapFS{}); !errors.As(err, new(*store.InvalidError)) || !strings.Contains(err.Error(), "four names") {
			t.Errorf("%v: %v", c, err)
		}
	}
}

// ShedLock can write its documented names in capital letters (withDbUpperCase). They are the same columns, and need no other names.
func TestColumnsInCapitalLetters(t *testing.T) {
	files := fstest.MapFS{"sql/a.sql": {Data: []byte("SELECT name, lock_until, locked_at, locked_by FROM t")}}
	c, err := shedlock.ParseColumns("NAME,LOCK_UNTIL,LOCKED_AT,LOCKED_BY")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(files); err == nil || !strings.Contains(err.Error(), "small letters, as name") {
		t.Errorf("%v", err)
	}
}

func TestParseColumns(t *testing.T) {
	if c, err := shedlock.ParseColumns("n,until,locked_by,locked_at"); err != nil || c != others || c.String() != "n,until,locked_by,locked_at" {
		t.Errorf("%v, %v", c, err)
	}
	for _, value := range []string{"", "a", "a,b,c", "a,b,c,", "a,b,c,d,e", ",,,"} {
		if c, err := shedlock.ParseColumns(value); !errors.As(err, new(*store.InvalidError)) {
			t.Errorf("ParseColumns(%q) = %v, %v", value, c, err)
		}
	}
}
