package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// everyCall makes each kind of call and returns their errors.
func everyCall(s *Store, r store.Release) map[string]error {
	ctx := context.Background()
	errs := map[string]error{}
	_, errs["Acquire"] = s.Acquire(ctx, claim("new", "a", time.Minute))
	_, errs["Extend"] = s.Extend(ctx, []store.Extension{{Name: r.Name, Holder: r.Holder, Token: r.Token, TTL: time.Minute}})
	_, errs["Release"] = s.Release(ctx, []store.Release{r})
	_, _, errs["Choose"] = s.Choose(ctx, []string{"new"}, store.Claim{Holder: "a", TTL: time.Minute})
	_, errs["Watch"] = s.Watch(ctx, []string{r.Name})
	_, errs["Sweep"] = s.Sweep(ctx, 1)
	_, errs["Capabilities"] = s.Capabilities(ctx)
	errs["Ping"] = s.Ping(ctx)
	for _, err := range s.List(ctx, "") {
		errs["List"] = err
	}
	return errs
}

func deleteAll(t testing.TB, path string) {
	t.Helper()
	for _, p := range []string{path, path + "-wal", path + "-shm"} {
		if err := os.Remove(p); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDeletedFile(t *testing.T) {
	path := newPath(t)
	h := &fakeHost{boot: "one", uptime: time.Hour, wall: 1e6 * time.Hour}
	s, other := openWith(t, path, h.clocks()), openWith(t, path, h.clocks())
	mine := take(t, s, "mine", "a", 10*time.Minute)
	take(t, other, "others", "b", 20*time.Minute)
	wake, err := s.Watch(context.Background(), []string{"mine"})
	if err != nil {
		t.Fatal(err)
	}
	deleteAll(t, path)
	for range wake { // until the subscription is said to be lost
	}
	for range 2 {
		for call, err := range everyCall(s, mine) {
			if err == nil {
				t.Errorf("%s answers no error", call)
				continue
			}
			says(t, err, path, "deleted")
			if errors.Is(err, store.ErrUnknown) {
				t.Errorf("%s: %v: but nothing was done", call, err)
			}
		}
	}
	h.pass(19 * time.Minute)
	_, err = try(s, "others", "a", time.Minute)
	says(t, err, "deleted", "in 1m0s")
	if _, err := os.Stat(path); err == nil {
		t.Fatal("a new file was made while a lease of the old one may live")
	}
	h.pass(time.Minute)
	again := take(t, s, "mine", "c", time.Minute)
	if again.Token <= mine.Token {
		t.Errorf("token %d follows %d", again.Token, mine.Token)
	}
	if _, err := try(other, "mine", "d", time.Minute); err == nil {
		t.Error("the other handle has not noticed the new file")
	}
	if _, err := try(other, "mine", "d", time.Minute); !errors.Is(err, store.ErrHeld) {
		t.Errorf("the other handle sees %v in the new file", err)
	}
}

// A record that cannot be as it is harms its own name only, also when the file is deleted: the others wait for their leases.
func TestDeletedFileWithASpoiledRecord(t *testing.T) {
	path := newPath(t)
	h := &fakeHost{boot: "one", uptime: time.Hour, wall: 1e6 * time.Hour}
	s := openWith(t, path, h.clocks())
	take(t, s, "spoiled", "a", time.Minute)
	take(t, s, "mine", "a", 10*time.Minute)
	db := raw(t, path)
	exec(t, db, "UPDATE records SET until = 9000000000000000000 WHERE name = 'spoiled'")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	deleteAll(t, path)
	_, err := try(s, "others", "a", time.Minute)
	says(t, err, "deleted", "in 10m0s")
	h.pass(10 * time.Minute)
	take(t, s, "others", "a", time.Minute)
}

// The wall clock may have gone back since the deleted file's tokens were given.
func TestTokensGrowOverDeletion(t *testing.T) {
	path := newPath(t)
	h := &fakeHost{boot: "one", uptime: time.Hour, wall: 1e6 * time.Hour}
	s := openWith(t, path, h.clocks())
	before := take(t, s, "name", "a", time.Minute)
	deleteAll(t, path)
	h.uptime, h.wall = h.uptime+time.Hour, h.wall-time.Hour
	_, err := try(s, "name", "b", time.Minute)
	says(t, err, "deleted")
	if after := take(t, s, "name", "b", time.Minute); after.Token <= before.Token {
		t.Errorf("token %d follows %d", after.Token, before.Token)
	}
}

// What a sweep had forgotten counts, too.
func TestTokensGrowOverDeletionAfterASweep(t *testing.T) {
	path := newPath(t)
	h := &fakeHost{boot: "one", uptime: time.Hour, wall: 1e6 * time.Hour}
	s := openWith(t, path, h.clocks())
	token := swept(t, s, "name", func() { h.pass(time.Second) })
	deleteAll(t, path)
	h.uptime, h.wall = h.uptime+time.Hour, h.wall-time.Hour
	_, err := try(s, "name", "b", time.Minute)
	says(t, err, "deleted")
	if after := take(t, s, "name", "b", time.Minute); after.Token <= token {
		t.Errorf("token %d follows %d", after.Token, token)
	}
}

// What ends last and what is greatest in a deleted file count, be it released, another's, or not the first.
func TestDeletedFileIsRememberedAsAWhole(t *testing.T) {
	path := newPath(t)
	h := &fakeHost{boot: "one", uptime: time.Hour, wall: 1e6 * time.Hour}
	s, other := openWith(t, path, h.clocks()), openWith(t, path, h.clocks())
	take(t, other, "first", "b", time.Minute)
	h.pass(time.Second)
	lingers := take(t, other, "lingers", "b", time.Minute)
	lingers.Linger = time.Hour
	release(t, other, lingers)
	deleteAll(t, path)
	h.uptime, h.wall = h.uptime+59*time.Minute, h.wall-time.Hour
	_, err := try(s, "lingers", "a", time.Minute)
	says(t, err, "deleted", "in 1m0s")
	h.uptime += time.Minute
	if after := take(t, s, "lingers", "a", time.Minute); after.Token <= lingers.Token {
		t.Errorf("token %d follows %d, which was that of another name than the first, and released", after.Token, lingers.Token)
	}
}

func TestReplacedFile(t *testing.T) {
	path, another := newPath(t), newPath(t)
	h := &fakeHost{boot: "one", uptime: time.Hour, wall: 1e6 * time.Hour}
	s := openWith(t, path, h.clocks())
	mine := take(t, s, "mine", "a", 10*time.Minute)
	o := openWith(t, another, h.clocks())
	take(t, o, "theirs", "b", time.Hour)
	o.Close()
	deleteAll(t, path)
	if err := os.Rename(another, path); err != nil {
		t.Fatal(err)
	}
	h.pass(9 * time.Minute)
	for call, err := range everyCall(s, mine) {
		says(t, err, path, "replaced", "put the old one back", "in 1m0s")
		if errors.Is(err, store.ErrUnknown) {
			t.Errorf("%s: %v: but nothing was done", call, err)
		}
	}
	h.pass(time.Minute)
	if _, err := try(s, "theirs", "a", time.Hour); !errors.Is(err, store.ErrHeld) {
		t.Errorf("what the new file holds is %v", err)
	}
	if err := tryRelease(s, mine); !errors.Is(err, store.ErrLost) {
		t.Errorf("a lease of the old file is %v", err)
	}
	if again := take(t, s, "mine", "c", time.Minute); again.Token <= mine.Token {
		t.Errorf("token %d follows %d", again.Token, mine.Token)
	}
}

// Another file is not used before the last lease in the old one has ended, also if the file was not to be used for a while before the other came.
func TestAnotherFileComesLater(t *testing.T) {
	for why, away := range map[string]func(t *testing.T, s *Store) (back func()){
		"it was deleted": func(t *testing.T, s *Store) func() {
			deleteAll(t, s.path)
			return func() {}
		},
		"it could not be opened again": func(t *testing.T, s *Store) func() {
			s.file.spoil()
			must(t, s.Ping(background)) // it has been opened again before, and what it has given is not forgotten
			s.file.spoil()
			s.fileSystem = func(string) (fileSystem, error) { return fileSystem{}, errors.New("the path cannot be seen") }
			return func() { s.fileSystem = fileSystemOf }
		},
	} {
		t.Run(why, func(t *testing.T) {
			path, another := newPath(t), newPath(t)
			h := &fakeHost{boot: "one", uptime: time.Hour, wall: 1e6 * time.Hour}
			openWith(t, another, h.clocks()).Close()
			s := openWith(t, path, h.clocks())
			mine := take(t, s, "mine", "a", 10*time.Minute)
			back := away(t, s)
			if err := s.Ping(background); err == nil {
				t.Fatal("the file is there")
			}
			must(t, os.Rename(another, path))
			back()
			h.pass(9 * time.Minute)
			for range 2 {
				_, err := try(s, "mine", "b", time.Minute)
				says(t, err, path, "replaced", "in 1m0s")
			}
			h.pass(time.Minute)
			if again := take(t, s, "mine", "b", time.Minute); again.Token <= mine.Token {
				t.Errorf("token %d follows %d", again.Token, mine.Token)
			}
		})
	}
}

// An older copy of the file has been put in its place, and the wall clock gone back since: the tokens of names that are in the copy grow, too.
func TestTokensGrowOverAnOlderCopy(t *testing.T) {
	path := newPath(t)
	h := &fakeHost{boot: "one", uptime: time.Hour, wall: 1e6 * time.Hour}
	s := openWith(t, path, h.clocks())
	release(t, s, take(t, s, "released", "a", time.Minute))
	expired := take(t, s, "expired", "a", time.Minute)
	release(t, s, take(t, s, "spoiled", "a", time.Minute))
	h.pass(time.Hour)
	copied, db := filepath.Join(t.TempDir(), "copy.db"), raw(t, path)
	exec(t, db, "UPDATE records SET token = -5 WHERE name = 'spoiled'")
	exec(t, db, "VACUUM INTO '"+copied+"'")
	must(t, db.Close())
	last := take(t, s, "released", "b", time.Minute)
	h.uptime, h.wall = h.uptime+time.Hour, h.wall-time.Hour
	must(t, os.Rename(copied, path))
	for _, name := range []string{"released", "expired", "new"} {
		if again := take(t, s, name, "c", time.Minute); again.Token <= max(last.Token, expired.Token) {
			t.Errorf("token %d of %q follows %d", again.Token, name, last.Token)
		}
	}
	if _, err := try(s, "spoiled", "c", time.Minute); !errors.As(err, new(*CorruptError)) {
		t.Errorf("a record that something else has written is %v", err)
	}
}

// A lease that is live in an older copy is left to its holder, and the token of the next one is above those of the file that the copy
// has replaced.
func TestTokensGrowOverALeaseInAnOlderCopy(t *testing.T) {
	path := newPath(t)
	h := &fakeHost{boot: "one", uptime: time.Hour, wall: 1e6 * time.Hour}
	s := openWith(t, path, h.clocks())
	lease := take(t, s, "name", "a", time.Hour)
	copied, db := filepath.Join(t.TempDir(), "copy.db"), raw(t, path)
	exec(t, db, "VACUUM INTO '"+copied+"'")
	must(t, db.Close())
	release(t, s, lease)
	h.pass(time.Minute)
	last := take(t, s, "name", "b", time.Minute)
	h.uptime, h.wall = h.uptime+time.Minute, h.wall-100*time.Hour
	must(t, os.Rename(copied, path))
	_, err := try(s, "name", "c", time.Minute)
	var held *store.HeldError
	if !errors.As(err, &held) || held.Record.Holder != "a" || held.Record.Token != lease.Token {
		t.Fatalf("in the copy the name is %v", err)
	}
	errs, err := s.Extend(background, []store.Extension{{Name: "name", Holder: "a", Token: lease.Token, TTL: time.Hour}})
	must(t, append(errs, err)...)
	for _, over := range []func(){func() { h.pass(time.Hour) }, func() { release(t, s, lease) }} {
		over()
		next := take(t, s, "name", "c", time.Minute)
		if next.Token <= last.Token {
			t.Errorf("token %d follows %d", next.Token, last.Token)
		}
		lease = next
	}
}

// A name of a deleted file that has used up its tokens leaves the others theirs.
func TestLastTokenOfADeletedFileHarmsItsNameOnly(t *testing.T) {
	s := openAt(t, newPath(t))
	release(t, s, take(t, s, "spoiled", "a", time.Hour))
	exec(t, raw(t, s.path), "UPDATE records SET token = 9223372036854775807")
	deleteAll(t, s.path)
	_, err := try(s, "other", "a", time.Hour)
	says(t, err, "deleted")
	take(t, s, "other", "a", time.Hour)
}

// A grant that nobody else will ever see must not be confirmed.
func TestReplacedDuringCommit(t *testing.T) {
	for _, quick := range []bool{false, true} {
		s := openAt(t, newPath(t))
		release(t, s, take(t, s, "name", "a", time.Hour))
		f := s.file
		s.writing.take(background)
		deleteAll(t, s.path)
		var err error
		if quick {
			var out store.Outcome
			r, _ := f.write.record("name", true, f.clock.now())
			_, err = s.quick(background, f, retake(r, claim("name", "b", time.Hour)[0], &out))
		} else {
			outcomes := make([]store.Outcome, 1)
			err = s.write(background, f, func(tx *tx) error { return tx.acquire(claim("name", "b", time.Hour), outcomes) })
		}
		s.writing.give()
		says(t, err, s.path, "deleted")
		if !errors.Is(err, store.ErrUnknown) {
			t.Errorf("%v is not ErrUnknown", err)
		}
	}
}

func TestDeletedLogAndIndex(t *testing.T) {
	for _, victims := range [][]string{{"-wal"}, {"-shm"}, {"-wal", "-shm"}} {
		t.Run(strings.Join(victims, " and "), func(t *testing.T) {
			s := openAt(t, newPath(t))
			mine := take(t, s, "mine", "a", time.Hour)
			handles := []*Store{s, openAt(t, s.path)}
			for _, v := range victims {
				if err := os.Remove(s.path + v); err != nil {
					t.Fatal(err)
				}
			}
			for _, h := range handles {
				h.file.lookAt.Store(-1)
			}
			// Of several handles in one process all must let go of the deleted file before one can have another.
			eventually(t, "both handles work again", func() bool {
				working := 0
				for _, h := range handles {
					_, err := try(h, "mine", "b", time.Hour)
					switch {
					case err == nil:
						t.Fatal("the lease has been given to a second holder")
					case errors.Is(err, store.ErrHeld):
						working++
					default:
						says(t, err, s.path, "-wal or -shm")
					}
				}
				return working == len(handles)
			})
			release(t, handles[1], mine)
			if err := errors.Join(s.Close(), handles[1].Close()); err != nil {
				t.Error(err)
			}
			sound(t, s.path)
		})
	}
}

// What lies beside the file is looked at in time however often the file itself is: the commits of a process that is never idle would go into a log that is gone.
func TestDeletedLogOfABusyProcess(t *testing.T) {
	s := openAt(t, newPath(t))
	if err := os.Remove(s.path + "-wal"); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		f := &file{places: s.file.places, ids: s.file.ids, opened: time.Now()}
		f.lookAt.Store(int64(lookInterval)) // somebody has just looked
		for range 3 {
			if err := f.here(); err != nil {
				t.Error(err)
			}
			time.Sleep(lookInterval / 3)
		}
		time.Sleep(lookInterval / 3)
		if err := f.here(); !errors.Is(err, errSidecar) {
			t.Errorf("after the look was due the log that is gone is %v", err)
		}
	})
}

// What is in a deleted log is not brought into the file when another program writes into a new log already: the pages
// of the two would mix.
func TestDeletedLogIsNotRescuedBesideOneInUse(t *testing.T) {
	s := openAt(t, newPath(t))
	take(t, s, "mine", "a", time.Hour)
	must(t, os.Remove(s.path+"-wal"), os.Remove(s.path+"-shm"))
	write(t, s.path+"-wal", "what another program has committed")
	long := time.Now().Add(-time.Hour)
	must(t, os.Chtimes(s.path, long, long))
	changed := func() bool {
		t.Helper()
		must(t, s.file.rescue())
		info, err := os.Stat(s.path)
		must(t, err)
		return info.ModTime().After(long.Add(time.Minute))
	}
	if changed() {
		t.Error("the file is written beside another log")
	}
	must(t, os.Remove(s.path+"-wal"))
	if !changed() {
		t.Error("the log that nobody else has is not brought into the file")
	}
}

// A file that is opened again has another count of commits, which may say the same number as the one before. What was released meanwhile is seen all the same.
func TestWatchGoesOnInAFileThatIsOpenedAgain(t *testing.T) {
	s := openAt(t, newPath(t))
	other := openAt(t, s.path)
	mine := take(t, other, "mine", "a", time.Hour)
	s.file.broken.Store(true) // it counts as one that has just been opened does
	var last change
	must(t, s.view(background, func(f *file, c *conn) (err error) {
		last, err = f.change(c)
		return err
	}))
	look := s.changesAfter(last)
	release(t, other, mine)
	s.file.broken.Store(true)
	must(t, s.Ping(background))
	seen, err := look(background, func() []string { return []string{"mine"} })
	if err != nil || !seen["mine"].released {
		t.Errorf("looking again shows %v, %v, want that the name was released", seen, err)
	}
}

// What SQLite still has open it keeps beside the file.
func TestCloseLeavesNothingOpen(t *testing.T) {
	s := openAt(t, newPath(t))
	release(t, s, take(t, s, "name", "a", time.Hour))
	for range s.List(context.Background(), "") {
	}
	s.Close()
	if _, beside := contents(t, s.path); beside != "leases.db " {
		t.Errorf("after Close there is %s", beside)
	}
}

func TestCorruptFile(t *testing.T) {
	path := newPath(t)
	s := openAt(t, path)
	for i := range 100 {
		take(t, s, fmt.Sprint("name-", i), strings.Repeat("h", 200), time.Hour)
	}
	exec(t, raw(t, path), "PRAGMA wal_checkpoint(TRUNCATE)")
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	bad := append([]byte(nil), good...)
	for i := range bad {
		bad[i] ^= 0x5a
	}
	overwrite(t, path, bad)
	s.file.spoil() // what is in SQLite's memory is still good
	for range 2 {
		_, err = try(s, "name-1", "b", time.Hour)
		says(t, err, path, "no SQLite database")
	}
	overwrite(t, path, good)
	if _, err = try(s, "name-1", "b", time.Hour); !errors.Is(err, store.ErrHeld) {
		t.Errorf("after the file was restored: %v", err)
	}

	// Damage to the records alone is met by reading them.
	copy(bad, good[:2*4096])
	overwrite(t, path, bad)
	s.file.spoil()
	_, err = try(s, "name-1", "b", time.Hour)
	says(t, err, path, "damaged")
	overwrite(t, path, good)
	if _, err = try(s, "name-1", "b", time.Hour); !errors.Is(err, store.ErrHeld) {
		t.Errorf("after the file was restored again: %v", err)
	}
	sound(t, path)
}

// overwrite puts data into the file that is there.
func overwrite(t *testing.T, path string, data []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteAt(data, 0)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A file that may not grow is a full disk that can be had anywhere.
func TestFileMayNotGrow(t *testing.T) {
	s := openAt(t, newPath(t))
	mine := take(t, s, "mine", "a", time.Hour)
	if _, err := s.file.write.sql.ExecContext(background, "PRAGMA max_page_count = 8"); err != nil {
		t.Fatal(err)
	}
	fillUp(t, s)
	if _, err := s.file.write.sql.ExecContext(background, "PRAGMA max_page_count = 1000000"); err != nil {
		t.Fatal(err)
	}
	afterFull(t, s, mine)
}

// fillUp leaves states until there is no more room, and checks that what did not fit is not half there.
func fillUp(t *testing.T, s *Store) {
	t.Helper()
	state := make([]byte, store.MaxState)
	for i := range 1000 {
		name := fmt.Sprint("fill-", i)
		g, err := try(s, name, "a", time.Hour)
		if err == nil {
			err = tryRelease(s, store.Release{Name: name, Holder: "a", Token: g.Token, State: state, Retain: store.Forever})
		}
		if err == nil {
			continue
		}
		says(t, err, s.path, "the disk is full")
		if errors.Is(err, store.ErrUnknown) {
			t.Errorf("%v: but what does not fit has not happened", err)
		}
		if g.Token == 0 {
			for r := range s.List(context.Background(), name) {
				t.Errorf("%+v is there, but it was not granted", r)
			}
		} else if r := recordOf(t, s, name); r.Token != g.Token || r.Holder != "a" || len(r.State) > 0 {
			t.Errorf("record %+v of a release that failed", r)
		}
		return
	}
	t.Fatal("the disk is not full after 64 MiB")
}

func afterFull(t *testing.T, s *Store, mine store.Release) {
	t.Helper()
	release(t, s, mine)
	take(t, s, "mine", "b", time.Hour)
	sound(t, s.path)
}

// Many callers meet a file that has to be opened again; it is opened once, and nothing stays open.
func TestReopenedByMany(t *testing.T) {
	s := openAt(t, newPath(t))
	take(t, s, "mine", "a", time.Hour)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if _, err := try(s, "mine", "b", time.Hour); !errors.Is(err, store.ErrHeld) {
					t.Errorf("the lease is %v", err)
				}
				if err := s.Ping(context.Background()); err != nil {
					t.Error(err)
				}
				s.reading.take(background)
				s.file.spoil()
				s.reading.give()
			}
		})
	}
	wg.Wait()
	s.Close()
	if _, beside := contents(t, s.path); beside != "leases.db " {
		t.Errorf("after Close there is %s", beside)
	}
}

// spoil makes it necessary to open the file again.
func (f *file) spoil() {
	if f != nil {
		f.broken.Store(true)
	}
}

// What an error leaves of a change in one statement: the statement is its own transaction, so it may have been committed, unless there was no room for it.
func TestChangeInOneStatementFails(t *testing.T) {
	for name, row := range map[string]struct {
		query           string
		unknown, broken bool
	}{
		"it failed":  {"INSERT INTO nowhere VALUES (1)", true, true},
		"no room":    {"CREATE TABLE wide AS SELECT zeroblob(1000000)", false, false},
		"it is done": {"CREATE TABLE narrow AS SELECT 1", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := openAt(t, newPath(t))
			take(t, s, "mine", "a", time.Hour)
			if _, err := s.file.write.sql.ExecContext(background, "PRAGMA max_page_count = 16"); err != nil {
				t.Fatal(err)
			}
			f, again := s.file, false
			err := s.take(background, step{
				look:  func(*file, *conn) error { return nil },
				more:  func() bool { return true },
				quick: func() quickChange { return func(int64, int64) (int64, string, []any) { return 1, row.query, nil } },
				write: func(*tx) error { again = true; return nil },
			})
			if again && name != "it is done" { // what changes no row is decided again
				t.Error("a change that may have happened is made again")
			}
			if (err == nil) != (name == "it is done") || errors.Is(err, store.ErrUnknown) != row.unknown || f.broken.Load() != row.broken {
				t.Errorf("the error is %v, opened again %v; want unknown %v, opened again %v", err, f.broken.Load(), row.unknown, row.broken)
			}
		})
	}
}
