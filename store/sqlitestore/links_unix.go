//go:build unix

package sqlitestore

import (
	"os"
	"syscall"
)

// links returns how many names a file has, and its number.
func links(info os.FileInfo) (n, inode uint64) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Nlink), st.Ino //nolint:unconvert // its type differs between systems
	}
	return 1, 0
}
