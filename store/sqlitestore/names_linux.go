package sqlitestore

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// mountedAlone returns what is mounted at path if that is a file by itself, and not the directory that it is in.
func mountedAlone(path string) (source string, is bool) {
	var st unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_BASIC_STATS, &st) != nil || st.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0 {
		return "", false
	}
	source = "another path"
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return source, true
	}
	for line := range strings.Lines(string(mounts)) { // ID PARENT MAJOR:MINOR ROOT POINT …
		if f := strings.Fields(line); len(f) > 4 && f[4] == path {
			source = fmt.Sprintf("%s of the device %s", f[3], f[2])
		}
	}
	return source, true
}
