package sqlitestore

import (
	"errors"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// additions are what somebody can have added to a file that is in use, and what is said of it.
var additions = []struct{ what, add, drop, says string }{
	{"updates are ignored", "CREATE TRIGGER mine BEFORE UPDATE ON records BEGIN SELECT RAISE(IGNORE); END", "DROP TRIGGER mine", "the trigger 'mine'"},
	{"insertions are ignored", "CREATE TRIGGER mine BEFORE INSERT ON records BEGIN SELECT RAISE(IGNORE); END", "DROP TRIGGER mine", "the trigger 'mine'"},
	{"what is updated ends", "CREATE TRIGGER mine AFTER UPDATE ON records BEGIN UPDATE records SET until = 0 WHERE name = NEW.name; END", "DROP TRIGGER mine", "the trigger 'mine'"},
	{"what is inserted is deleted", "CREATE TRIGGER mine AFTER INSERT ON Records BEGIN DELETE FROM records WHERE name = NEW.name; END", "DROP TRIGGER mine", "the trigger 'mine'"},
	{"updates are refused", "CREATE TRIGGER mine BEFORE UPDATE ON records BEGIN SELECT RAISE(ABORT, 'no'); END", "DROP TRIGGER mine", "the trigger 'mine'"},
	{"the floor is kept down", "CREATE TRIGGER mine BEFORE UPDATE ON meta BEGIN SELECT RAISE(IGNORE); END", "DROP TRIGGER mine", "the trigger 'mine'"},
}

// What somebody adds to the tables makes no grant that is none: while it is there nothing is granted, extended or released, and the error names it.
// Without it the file is as it was.
func TestTriggersOfOthers(t *testing.T) {
	for _, a := range additions {
		t.Run(a.what, func(t *testing.T) {
			s := openAt(t, newPath(t))
			release(t, s, take(t, s, "free", "z", time.Hour))
			mine := take(t, s, "mine", "a", time.Hour)
			must(t, s.Ping(background))
			exec(t, raw(t, s.path), a.add)
			for name, do := range map[string]func() error{
				"a claim of a name that has a record": func() error { _, err := try(s, "free", "b", time.Hour); return err },
				"a claim of a new name":               func() error { _, err := try(s, "new", "b", time.Hour); return err },
				"a choice": func() error {
					_, _, err := s.Choose(background, []string{"free", "other"}, store.Claim{Holder: "b", TTL: time.Hour})
					return err
				},
				"an extension": func() error {
					errs, err := s.Extend(background, []store.Extension{{Name: "mine", Holder: "a", Token: mine.Token, TTL: 2 * time.Hour}})
					return errors.Join(append(errs, err)...)
				},
				"a release": func() error { return tryRelease(s, mine) },
			} {
				err := do()
				says(t, err, s.path, a.says, "drop it")
				if errors.Is(err, store.ErrUnknown) || errors.Is(err, store.ErrLost) || errors.Is(err, store.ErrHeld) {
					t.Errorf("%s: %v: nothing was done, and nothing is lost", name, err)
				}
			}
			_, err := Open(s.path)
			says(t, err, s.path, a.says)
			if !errors.Is(err, store.ErrUnusable) {
				t.Errorf("%v is not store.ErrUnusable", err)
			}
			exec(t, raw(t, s.path), a.drop)
			if _, err := try(s, "mine", "b", time.Hour); !errors.Is(err, store.ErrHeld) {
				t.Errorf("without the trigger the lease is %v", err)
			}
			release(t, s, mine)
			for _, name := range []string{"mine", "free", "new"} {
				take(t, s, name, "c", time.Hour)
			}
		})
	}
}

// A key that somebody adds lets only one of several names be held, and tables that lack something let none: each error says what is wrong.
func TestTablesThatSomebodyHasChanged(t *testing.T) {
	for change, text := range map[string]string{
		"CREATE UNIQUE INDEX one ON records (holder)":          "the unique index 'one'",
		"ALTER TABLE records RENAME COLUMN mark TO marke":      "not as soloist has made them",
		"ALTER TABLE records DROP COLUMN retain":               "not as soloist has made them",
		"ALTER TABLE records RENAME TO recordz":                "no such table: records",
		"DROP TABLE records":                                   "not as soloist has made them",
		"DROP TABLE meta":                                      "no such table: meta",
		"ALTER TABLE meta RENAME COLUMN floor TO ceiling":      "not as soloist has made them",
		"CREATE TABLE theirs (x); DROP TABLE theirs":           "",
		"CREATE INDEX theirs ON records (holder)":              "",
		"CREATE VIEW theirs AS SELECT name FROM records":       "",
		"ALTER TABLE records ADD COLUMN note TEXT":             "",
		"CREATE TABLE notes (x); INSERT INTO notes VALUES (1)": "",
	} {
		t.Run(change, func(t *testing.T) {
			s := openAt(t, newPath(t))
			release(t, s, take(t, s, "free", "z", time.Hour))
			s.Close()
			db := raw(t, s.path)
			exec(t, db, change)
			db.Close()
			if text == "" {
				take(t, openAt(t, s.path), "free", "a", time.Hour)
				return
			}
			untouched(t, s.path, text)
		})
	}
}

// What something else has written into one record does not keep the others from being used after a reboot, whatever numbers it is.
func TestRebootWithCorruptRecords(t *testing.T) {
	for _, set := range []string{
		"until = 9223372036854775807", "until = -9223372036854775808", "until = 9223372036854775807, since = -9223372036854775808",
		"since = 9223372036854775807", "since = -9223372036854775808", "retain = -9223372036854775808", "retain = 9223372036854775806",
		"token = -9223372036854775808, mark = -1",
	} {
		for _, uptime := range []time.Duration{time.Second, 5000 * time.Hour} {
			path := newPath(t)
			h := &fakeHost{boot: "one", uptime: 1000 * time.Hour, wall: 1e6 * time.Hour}
			s := openWith(t, path, h.clocks())
			good, bad := take(t, s, "good", "a", time.Hour), take(t, s, "bad", "a", time.Hour)
			exec(t, raw(t, path), "UPDATE records SET "+set+" WHERE name = 'bad'")
			var before *CorruptError
			_, err := try(s, "bad", "b", time.Hour)
			wrong := errors.As(err, &before)
			s.Close()
			h.boot, h.uptime = "two", uptime
			h.wall += time.Minute
			s, err = newStore(path)
			must(t, err)
			s.clocks = h.clocks()
			if err := s.start(); err != nil {
				t.Errorf("%s, up for %v: %v", set, uptime, err)
				continue
			}
			if r := recordOf(t, s, "good"); r.Left != 59*time.Minute || r.Token != good.Token {
				t.Errorf("%s: the other record is %+v", set, r)
			}
			if g, err := try(s, "bad", "b", time.Hour); wrong != errors.As(err, new(*CorruptError)) || err == nil && g.Token <= bad.Token {
				t.Errorf("%s: it was corrupt: %v; after the reboot %+v, %v", set, wrong, g, err)
			}
			take(t, s, "new", "b", time.Hour)
			s.Close()
		}
	}
}
