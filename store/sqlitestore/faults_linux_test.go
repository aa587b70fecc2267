package sqlitestore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"

	"golang.org/x/sys/unix"
	"modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"
)

func mount(t *testing.T, source, dir, kind string, flags uintptr, options string) {
	t.Helper()
	if err := unix.Mount(source, dir, kind, flags, options); err != nil {
		servers.Missing(t, "mounting is not permitted: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
}

func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	mount(t, "tmpfs", dir, "tmpfs", 0, "size=1m")
	s := openAt(t, filepath.Join(dir, "leases.db"))
	mine := take(t, s, "mine", "a", time.Hour)
	ballast := filepath.Join(dir, "ballast")
	write(t, ballast, string(make([]byte, 400<<10)))
	fillUp(t, s)
	if _, err := try(s, "mine", "b", time.Hour); !errors.Is(err, store.ErrHeld) {
		t.Errorf("a refusal needs no room: %v", err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	afterFull(t, s, mine)

	// With no room at all a file cannot be made, and none is left behind half-made.
	full := t.TempDir()
	mount(t, "tmpfs", full, "tmpfs", 0, "size=8k")
	write(t, filepath.Join(full, "ballast"), string(make([]byte, 8<<10)))
	path := filepath.Join(full, "leases.db")
	_, err := Open(path)
	says(t, err, path, "full")
	if err := os.Remove(filepath.Join(full, "ballast")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("", full, "", unix.MS_REMOUNT, "size=4m"); err != nil {
		t.Fatal(err)
	}
	take(t, openAt(t, path), "name", "a", time.Hour)
}

// readOnly makes a directory read-only, for root too, and returns what undoes it.
func readOnly(t *testing.T, dir string) (undo func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		if err := os.Chmod(dir, 0o500); err != nil {
			t.Fatal(err)
		}
		undo = func() { os.Chmod(dir, 0o700) }
		t.Cleanup(undo)
		return undo
	}
	mount(t, dir, dir, "", unix.MS_BIND, "")
	if err := unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		servers.Missing(t, "mounting read-only is not permitted: %v", err)
	}
	return func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Fatal(err)
		}
	}
}

func TestReadOnlyDirectory(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "leases.db")
	undo := readOnly(t, dir)
	_, err := Open(path)
	says(t, err, path, "right to write the file and its directory")
	if !errors.Is(err, fs.ErrPermission) {
		t.Errorf("no file can be made: %v is not fs.ErrPermission", err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) > 0 {
		t.Errorf("%v was left behind", entries)
	}
	undo()
	s := openAt(t, path)
	mine := take(t, s, "mine", "a", time.Hour)
	s.Close()

	undo = readOnly(t, dir)
	_, err = Open(path)
	says(t, err, path, "right to write the file and its directory")
	if !errors.Is(err, fs.ErrPermission) {
		t.Errorf("nothing beside the file can be made: %v is not fs.ErrPermission", err)
	}
	undo()
	if _, err := try(openAt(t, path), "mine", "b", time.Hour); !errors.Is(err, store.ErrHeld) {
		t.Errorf("after it may be written again: %v (token %d)", err, mine.Token)
	}
}

// The directory becomes read-only while the file is open, and something makes it necessary to open it again.
func TestReadOnlyInMidRun(t *testing.T) {
	dir := t.TempDir()
	s := openAt(t, filepath.Join(dir, "leases.db"))
	mine := take(t, s, "mine", "a", time.Hour)
	undo := readOnly(t, dir)
	if os.Geteuid() != 0 { // who may write the files that are there needs the directory for nothing
		if err := os.Chmod(s.path, 0o400); err != nil {
			t.Fatal(err)
		}
		chmod := undo
		undo = func() { chmod(); os.Chmod(s.path, 0o600) }
	}
	s.file.spoil()
	for range 2 {
		_, err := try(s, "other", "a", time.Hour)
		says(t, err, s.path, "right to write the file and its directory")
	}
	undo()
	take(t, s, "other", "a", time.Hour)
	release(t, s, mine)
}

// Of a file that is gone, whose log stays for as long as the file may come back, a handle that is closed has nothing open any more.
func TestCloseLetsGoOfAFileThatIsGone(t *testing.T) {
	s := openAt(t, newPath(t))
	release(t, s, take(t, s, "name", "a", time.Hour))
	must(t, os.Remove(s.path))
	_, err := try(s, "name", "b", time.Hour)
	says(t, err, s.path, "deleted")
	open := func() (paths []string) {
		entries, err := os.ReadDir("/proc/self/fd")
		must(t, err)
		for _, e := range entries {
			if path, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(path, s.path) {
				paths = append(paths, path)
			}
		}
		return paths
	}
	if len(open()) == 0 {
		t.Fatal("nothing is kept open for a file that may come back, so this shows nothing")
	}
	must(t, s.Close())
	if paths := open(); len(paths) > 0 {
		t.Errorf("after Close there are open: %q", paths)
	}
}

// What the disk has not taken may be there all the same: the outcome is unknown, and the file is opened again.
func TestErrorOfTheDisk(t *testing.T) {
	db, err := connect(sqlite.NewConnector, "file:///proc/self/mem?mode=ro&immutable=1") // whose first bytes cannot be read
	must(t, err)
	defer db.Close()
	_, err = inspect(db)
	if code(err) != codes.SQLITE_IOERR {
		servers.Missing(t, "an error of the disk cannot be had: %v", err)
	}
	if err := unclear(err); !errors.Is(err, store.ErrUnknown) || harmless(err) {
		t.Errorf("committing: %v, harmless: %v", err, harmless(err))
	}
}
