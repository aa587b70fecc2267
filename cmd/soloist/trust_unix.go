//go:build unix

package main

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// othersRead reports whether users other than the owner and the group can read a file.
func othersRead(info fs.FileInfo) bool {
	return info.Mode().IsRegular() && info.Mode().Perm()&0o004 != 0
}

// untrusted reports why the content of a file or a directory may be somebody else's than this user's or root's: "" if it
// may not. It looks at no more than owner and mode, as sshd and cron do, and not at pipes and devices.
func untrusted(info fs.FileInfo) string {
	const othersWrite = 0o022
	if !info.Mode().IsRegular() && !info.IsDir() {
		return ""
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return ""
	case stat.Uid != 0 && int(stat.Uid) != os.Geteuid():
		return fmt.Sprintf("it belongs to the user with ID %d, who is neither root nor the one that runs soloist (%d)", stat.Uid, os.Geteuid())
	case info.Mode().Perm()&othersWrite != 0:
		return fmt.Sprintf("its mode %04o lets others write to it", info.Mode().Perm())
	}
	return ""
}
