package sqlitestore

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/faults"
	"github.com/soloist-dev/soloist/test/servers"

	"modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"
)

// stepFaults are the ways in which a step of SQLite's fails. The errors are its own where what they say matters.
func stepFaults(t testing.TB, d *faults.Driver) []faults.Fault {
	db, other := raw(t, newPath(t)), (*sqlite.Error)(nil)
	refusal := func(code int, query string) error {
		t.Helper()
		_, err := db.Exec(query)
		if !errors.As(err, &other) || code != other.Code()&0xff {
			t.Fatalf("%s answers %v", query, err)
		}
		return err
	}
	exec(t, db, "PRAGMA max_page_count = 8")
	full := refusal(codes.SQLITE_FULL, "CREATE TABLE wide AS SELECT zeroblob(1000000)")
	exec(t, db, "CREATE TABLE one (n)")
	var file string
	if err := db.QueryRow("SELECT file FROM pragma_database_list").Scan(&file); err != nil {
		t.Fatal(err)
	}
	second := raw(t, file)
	exec(t, second, "PRAGMA busy_timeout = 0")
	exec(t, db, "BEGIN IMMEDIATE")
	_, busyError := second.Exec("BEGIN IMMEDIATE")
	if !busy(busyError) {
		t.Fatal(busyError)
	}
	failed := errors.New("the disk has failed")
	return []faults.Fault{
		d.Fault(faults.Way{Name: "refused", Err: failed}),
		d.Fault(faults.Way{Name: "done all the same", Err: failed, Late: true}),
		d.Fault(faults.Way{Name: "busy", Err: busyError, Sends: true}),
		d.Fault(faults.Way{Name: "full", Err: full, Sends: true}),
		d.Fault(faults.Way{Name: "empty rows", Nulls: true}),
	}
}

// behind has the connections of a handle go through a driver whose steps fail.
func behind(d *faults.Driver, s *Store) {
	s.connector = func(dsn string) (driver.Connector, error) {
		c, err := sqlite.NewConnector(dsn)
		return d.Of(c), err
	}
}

// Whichever step of an operation fails, what is told of it is true, and the store works.
func TestEachStepFails(t *testing.T) {
	path, d := filepath.Join(servers.Directory(t), "leases.db"), &faults.Driver{}
	faults.Run(t, faults.Subject{
		Warm: true, Plain: openAt(t, path), Faults: stepFaults(t, d),
		Open: func(t testing.TB) store.Store {
			s, err := newStore(path)
			if err != nil {
				t.Fatal(err)
			}
			behind(d, s)
			must(t, s.start())
			return s
		},
	})
	sound(t, path)
}

// Whichever step of opening a file fails, be it made, of another boot or opened again, what was in it is kept, and it can be opened.
func TestEachStepOfOpeningFails(t *testing.T) {
	d := &faults.Driver{}
	for _, fault := range stepFaults(t, d) {
		if fault.Name == "busy" || fault.Name == "full" {
			continue // what comes of these is in the steps of operations
		}
		for _, way := range []string{"made", "of another boot", "again"} {
			t.Run(fault.Name+"/"+way, func(t *testing.T) {
				dir := servers.Directory(t)
				for k := 1; ; k++ {
					h := &fakeHost{boot: "one", uptime: time.Hour, wall: 1e6 * time.Hour}
					path := filepath.Join(dir, fmt.Sprint(k))
					var mine store.Release
					if way != "made" {
						before, err := tryOpenWith(t, path, h.clocks())
						must(t, err)
						mine = take(t, before, "mine", "a", 10*time.Minute)
						must(t, before.Close())
					}
					if way == "of another boot" {
						h.boot, h.uptime, h.wall = "two", time.Minute, h.wall+time.Minute
					}
					s, err := newStore(path)
					must(t, err)
					s.clocks = h.clocks()
					behind(d, s)
					open := s.start
					if way == "again" {
						must(t, s.start())
						s.file.spoil()
						open = func() error { return s.Ping(background) }
					}
					fault.Arm(k)
					err = open()
					fired := fault.Off()
					if err != nil && way != "again" {
						if again := s.Ping(background); !errors.Is(again, store.ErrClosed) {
							t.Errorf("step %d: a handle that was not opened answers %v", k, again)
						}
					}
					if err == nil && way != "made" {
						if r := recordOf(t, s, "mine"); r.Free() || r.Left > 10*time.Minute {
							t.Errorf("step %d: it is told as opened, and the lease in the file is %+v", k, r)
						}
					}
					after := s
					if way != "again" {
						must(t, s.Close())
						if after, err = tryOpenWith(t, path, h.clocks()); err != nil {
							t.Fatalf("step %d: opened again: %v", k, err)
						}
					}
					if way == "made" {
						take(t, after, "mine", "a", time.Minute)
					} else if r := recordOf(t, after, "mine"); r.Holder != "a" || r.Token != mine.Token || r.Free() || r.Left > 10*time.Minute {
						t.Errorf("step %d: the lease in the file is %+v", k, r)
					}
					must(t, after.Close())
					if !fired {
						if k == 1 && fault.Name != "empty rows" {
							t.Error("no step has failed: the test is blind")
						}
						return
					}
				}
			})
		}
	}
}

// A deleted file that is busy when it is asked for what all processes hold is asked again: no new one is made while the lease of another process may live.
func TestDeletedFileIsBusy(t *testing.T) {
	d := &faults.Driver{}
	for _, fault := range stepFaults(t, d) {
		for k := 1; fault.Name == "busy"; k++ {
			path := newPath(t)
			s, err := newStore(path)
			must(t, err)
			behind(d, s)
			must(t, s.start())
			theirs := take(t, openAt(t, path), "theirs", "a", time.Hour)
			deleteAll(t, path)
			fault.Arm(k)
			for range 3 {
				if g, err := try(s, "theirs", "b", time.Hour); err == nil {
					t.Fatalf("step %d is busy: granted with the token %d beside %d", k, g.Token, theirs.Token)
				}
			}
			must(t, s.Close())
			if !fault.Off() {
				if k == 1 {
					t.Fatal("no step was busy")
				}
				return
			}
		}
	}
}
