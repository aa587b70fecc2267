//go:build unix

package servers

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// cached returns a directory that is filled once on a machine, for all test programs. Its name begins with kind, and is another one for another text,
// which says what it is filled with. If fill returns an error, the test is skipped, or fails; see Missing.
func cached(t Test, kind, text string, fill func(dir string) error) string {
	t.Helper()
	dir := cacheOf(kind, text)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatalf("making a directory for %s: %v", kind, err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		t.Fatalf("making a lock for %s: %v", kind, err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil { // packages are tested side by side
		t.Fatalf("locking the directory for %s: %v", kind, err)
	}
	if complete(dir) {
		return dir
	}
	if err := fill(dir); err != nil {
		Missing(t, "%v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "complete"), nil, 0o644); err != nil {
		t.Fatalf("noting that the directory for %s is complete: %v", kind, err)
	}
	return dir
}

// cacheOf returns the directory of a kind and a text, which may not be there.
func cacheOf(kind, text string) string {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	return filepath.Join(cache, "soloist-test", fmt.Sprintf("%s-%.16x", kind, sha256.Sum256([]byte(text))))
}

// complete reports whether a directory has been filled.
func complete(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "complete"))
	return err == nil
}
