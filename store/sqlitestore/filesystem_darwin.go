package sqlitestore

import (
	"fmt"

	"golang.org/x/sys/unix"
)

func fileSystemOf(path string) (fileSystem, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return fileSystem{}, fmt.Errorf("asking what file system %s is on: %w", path, err)
	}
	return fileSystem{name: unix.ByteSliceToString(st.Fstypename[:]), remote: st.Flags&unix.MNT_LOCAL == 0}, nil
}
