package pgstore

import (
	"os"
	"syscall"
	"testing"
)

// giveTo gives a file to whom another belongs.
func giveTo(t *testing.T, path string, like os.FileInfo) {
	t.Helper()
	if of, ok := like.Sys().(*syscall.Stat_t); ok && os.Getuid() == 0 {
		if err := os.Chown(path, int(of.Uid), int(of.Gid)); err != nil {
			t.Fatal(err)
		}
	}
}
