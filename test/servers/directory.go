//go:build unix

package servers

import (
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// directories is how the names of all that Directory makes begin.
const directories = "soloist-tests-"

// Directory makes a directory for a server's data, in $SOLOIST_TEST_DIR or in memory where that can be, and removes it when the test ends.
// What test programs have left that were killed is removed too.
func Directory(t Test) string {
	t.Helper()
	parent := os.Getenv("SOLOIST_TEST_DIR")
	if info, err := os.Stat("/dev/shm"); parent == "" && err == nil && info.IsDir() {
		parent = "/dev/shm"
	}
	if parent == "" {
		parent = os.TempDir()
	}
	clean.Do(func() { removeOrphans(parent) })
	dir, held, err := makeLocked(parent)
	if err != nil {
		t.Fatalf("making a directory for a server: %v", err)
	}
	t.Cleanup(func() {
		_ = os.RemoveAll(dir)
		_ = held.Close()
	})
	return dir
}

// makeLocked makes a directory that is locked for as long as this program lives, or until held is closed. The lock of parent is for those
// who would remove it in between.
func makeLocked(parent string) (dir string, held *os.File, err error) {
	among, err := locked(parent, syscall.LOCK_SH)
	if err != nil {
		return "", nil, err
	}
	defer among.Close()
	if dir, err = os.MkdirTemp(parent, directories); err != nil {
		return "", nil, err
	}
	held, err = locked(dir, syscall.LOCK_EX)
	return dir, held, err
}

// locked opens a directory and locks it.
func locked(dir string, how int) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), how); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

var clean sync.Once

// removeOrphans removes the directories whose programs have died.
func removeOrphans(parent string) {
	among, err := locked(parent, syscall.LOCK_EX|syscall.LOCK_NB)
	if err != nil {
		return // others are using it, or it is not ours to look into
	}
	defer among.Close()
	all, _ := filepath.Glob(filepath.Join(parent, directories+"*"))
	for _, dir := range all {
		held, err := locked(dir, syscall.LOCK_EX|syscall.LOCK_NB)
		if err != nil {
			continue
		}
		removeSegment(filepath.Join(dir, "data"))
		unmount(dir)
		_ = os.RemoveAll(dir) // what is somebody else's stays
		_ = held.Close()
	}
}
