package sqlitestore

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"

	"golang.org/x/sys/unix"
)

func TestMountType(t *testing.T) {
	const table = `22 28 0:21 / /proc rw,nosuid - proc proc rw
28 1 254:0 / / rw,relatime shared:1 - ext4 /dev/root rw
91 28 0:45 / /mnt/a\040b rw,nosuid shared:7 master:3 - fuse.sshfs user@host: rw,user_id=0
`
	for dev, want := range map[[2]uint32]string{{254, 0}: "ext4", {0, 45}: "fuse.sshfs", {0, 4}: ""} {
		if got := mountType(table, dev[0], dev[1]); got != want {
			t.Errorf("%v is %q; want %q", dev, got, want)
		}
	}
	// The table of this very host says of a real mount what it is.
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	var st unix.Stat_t
	if err == nil {
		err = unix.Stat("/proc", &st)
	}
	if err != nil {
		servers.Missing(t, "the mount table cannot be read: %v", err)
	}
	if got := mountType(string(mounts), unix.Major(uint64(st.Dev)), unix.Minor(uint64(st.Dev))); got != "proc" {
		t.Errorf("/proc is %q", got)
	}
}

func TestFileSystemOf(t *testing.T) {
	f, err := fileSystemOf(t.TempDir())
	if err != nil || f.remote {
		t.Errorf("the temporary directory is on %+v, %v", f, err)
	}
	_, err = fileSystemOf("/no/such/path")
	says(t, err, "/no/such/path")
}

// A file in memory keeps what it was told until the next reboot.
func TestFileInMemory(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "soloist")
	if err != nil {
		servers.Missing(t, "there is no tmpfs: %v", err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if f, err := fileSystemOf(dir); err != nil || !f.memory {
		servers.Missing(t, "/dev/shm is no tmpfs: %+v, %v", f, err)
	}
	c, err := openAt(t, filepath.Join(dir, "leases.db")).Capabilities(context.Background())
	if err != nil || c.Durable.Answer != store.No || !strings.Contains(c.Durable.Why, "reboot") {
		t.Errorf("durable: %v, %v", c.Durable, err)
	}
}
