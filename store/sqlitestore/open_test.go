package sqlitestore

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// untouched checks that Open refuses path and leaves it, and what is beside it, as it was.
func untouched(t *testing.T, path string, texts ...string) {
	t.Helper()
	was, names := contents(t, path)
	s, err := Open(path)
	if s != nil {
		t.Error("a store comes with the error")
	}
	says(t, err, append(texts, path)...)
	if !errors.Is(err, store.ErrUnusable) {
		t.Errorf("it is not store.ErrUnusable: %v", err)
	}
	is, after := contents(t, path)
	if !bytes.Equal(was, is) || names != after {
		t.Errorf("the file was changed by being refused: %d bytes before, %d after; beside it %s before, %s after",
			len(was), len(is), names, after)
	}
}

func contents(t *testing.T, path string) (data []byte, beside string) {
	t.Helper()
	data, _ = os.ReadFile(path) // none, if it is not there
	entries, _ := os.ReadDir(filepath.Dir(path))
	for _, e := range entries {
		beside += e.Name() + " "
	}
	return data, beside
}

func TestForeignFiles(t *testing.T) {
	t.Run("another program's", func(t *testing.T) {
		for _, mode := range []string{"DELETE", "WAL"} {
			path := newPath(t)
			db := raw(t, path)
			exec(t, db, "PRAGMA journal_mode = "+mode)
			exec(t, db, "PRAGMA application_id = 77")
			exec(t, db, "CREATE TABLE records (name TEXT)")
			db.Close()
			untouched(t, path, "not soloist's", "0x4d")
		}
	})
	t.Run("nobody's", func(t *testing.T) {
		path := newPath(t)
		db := raw(t, path)
		exec(t, db, "CREATE TABLE mine (x)")
		db.Close()
		untouched(t, path, "not soloist's")
	})
	t.Run("newer", func(t *testing.T) {
		path := newPath(t)
		openAt(t, path).Close()
		db := raw(t, path)
		exec(t, db, "PRAGMA user_version = 2")
		db.Close()
		untouched(t, path, "newer soloist", "user_version is 2")
	})
	t.Run("older", func(t *testing.T) {
		path := newPath(t)
		openAt(t, path).Close()
		db := raw(t, path)
		exec(t, db, "PRAGMA user_version = 0")
		db.Close()
		untouched(t, path, "user_version is 0")
	})
	t.Run("no database", func(t *testing.T) {
		for _, text := range []string{"x", strings.Repeat("no database\n", 1000), strings.Repeat("\x00", 4096)} {
			path := newPath(t)
			write(t, path, text)
			untouched(t, path, "no SQLite database")
		}
	})
	t.Run("cut off", func(t *testing.T) {
		path := newPath(t)
		s := openAt(t, path)
		for _, name := range strings.Split("abcdefghij", "") {
			take(t, s, name, strings.Repeat("h", 255), time.Hour)
		}
		s.Close()
		if err := os.Truncate(path, 4096+512); err != nil {
			t.Fatal(err)
		}
		_, err := Open(path)
		says(t, err, path, "damaged")
	})
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestPathsThatAreNone(t *testing.T) {
	dir := t.TempDir()
	untouched(t, filepath.Join(dir, "no", "such.db"), "its directory is not there", filepath.Join(dir, "no"))
	untouched(t, dir, "directory")
	link := filepath.Join(dir, "link")
	if err := os.Symlink(filepath.Join(dir, "no", "target"), link); err != nil {
		t.Fatal(err)
	}
	untouched(t, link, "symbolic link to nothing")
	device := filepath.Join(dir, "device")
	if err := os.Symlink(os.DevNull, device); err != nil {
		t.Fatal(err)
	}
	untouched(t, device, "not a regular file")
	for _, path := range []string{"", ":memory:", "file:x?mode=memory", "a\x00b"} {
		_, err := Open(path)
		says(t, err, "path")
	}
	if entries, _ := os.ReadDir("."); len(entries) == 0 {
		t.Fatal("this directory is empty")
	} else {
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), ":memory:") || strings.HasPrefix(e.Name(), "file:") {
				t.Errorf("%s was made", e.Name())
			}
		}
	}
}

func TestPathsWithSpecialCharacters(t *testing.T) {
	for _, name := range []string{"a?mode=memory", "a#b", "a%41b", "100%", "with space", "é ü", ":memory:", "a&b=c", "+", "a;b", "'\"", "\xff\xfe", "?"} {
		path := filepath.Join(t.TempDir(), name)
		s := openAt(t, path)
		take(t, s, "name", "holder", time.Hour)
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%q: the file is elsewhere: %v", name, err)
		}
		_, beside := contents(t, path)
		if want := name + " " + name + "-shm " + name + "-wal "; beside != want {
			t.Errorf("%q: there is %q; want %q", name, beside, want)
		}
		if _, err := try(openAt(t, path), "name", "other", time.Hour); !errors.Is(err, store.ErrHeld) {
			t.Errorf("%q: another handle gets %v", name, err)
		}
	}
}

func TestSymbolicLinksAreFollowed(t *testing.T) {
	target, link := newPath(t), newPath(t)
	openAt(t, target).Close()
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	take(t, openAt(t, link), "name", "holder", time.Hour)
	if _, err := try(openAt(t, target), "name", "other", time.Hour); !errors.Is(err, store.ErrHeld) {
		t.Errorf("by its own path the file's name is: %v", err)
	}
}

func TestEmptyFileIsFilled(t *testing.T) {
	path := newPath(t)
	write(t, path, "")
	take(t, openAt(t, path), "name", "holder", time.Hour)
}

func TestFileSystems(t *testing.T) {
	s, err := newStore(newPath(t))
	if err != nil {
		t.Fatal(err)
	}
	s.fileSystem = func(string) (fileSystem, error) { return fileSystem{name: "NFS", remote: true}, nil }
	says(t, s.start(), s.path, "NFS", "local disk")
	if _, err := os.Stat(s.path); err == nil {
		t.Error("the file was made all the same")
	}

	s, err = newStore(newPath(t))
	if err != nil {
		t.Fatal(err)
	}
	s.fileSystem = func(string) (fileSystem, error) { return fuse("fuse.unheardof"), nil }
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if c, err := s.Capabilities(context.Background()); err != nil || c.Fencing.Answer != store.Unknown {
		t.Errorf("on an unknown file system: %+v, %v", c, err)
	}
	for kind, remote := range map[string]bool{"fuse.sshfs": true, "fuse.glusterfs": true, "fuse.s3fs": true, "virtiofs": false, "fuseblk": false} {
		if f := fuse(kind); f.remote != remote || f.doubt == "" {
			t.Errorf("%s is %+v", kind, f)
		}
	}
}

func TestCapabilities(t *testing.T) {
	s := openAt(t, newPath(t))
	c, err := store.CapabilitiesOf(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(c.Backend, "SQLite 3.") || !strings.Contains(c.Backend, "WAL, synchronous=FULL, clock ") ||
		c.Scope != store.ScopeHost || c.Fencing.Answer != store.Yes || c.Durable.Answer != store.Yes && !s.file.system.memory || c.Waiting.Answer != store.Yes {
		t.Errorf("%+v", c)
	}
	exec(t, raw(t, s.path), "SELECT 1")
	if _, err := s.file.write.sql.ExecContext(background, "PRAGMA synchronous = NORMAL"); err != nil {
		t.Fatal(err)
	}
	if c, err = s.Capabilities(context.Background()); err != nil || c.Fencing.Answer != store.No || c.Durable.Answer != store.No {
		t.Errorf("with synchronous=NORMAL: %+v, %v", c, err)
	}
}
