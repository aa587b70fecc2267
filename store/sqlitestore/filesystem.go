package sqlitestore

import (
	"fmt"
	"strings"
)

// A fileSystem is what a path lies on, as far as that matters to a file that several processes lock.
type fileSystem struct {
	name   string
	remote bool   // it is shared between hosts, whose locks and memory do not meet: never
	memory bool   // it is gone after a reboot
	doubt  string // why locks may not do what they should; "" if there is no doubt
}

// check refuses a file system on which two holders could both have a lock.
func (f fileSystem) check(dir string) error {
	if !f.remote {
		return nil
	}
	return fmt.Errorf("%s is on %s, a file system shared between hosts, where SQLite's locks do not hold: "+
		"put the file on a local disk, or use a store with a server for several hosts", dir, f.name)
}

// remoteFuse are FUSE file systems whose data other hosts can change.
var remoteFuse = []string{
	"sshfs", "glusterfs", "s3fs", "goofys", "s3ql", "gcsfuse", "rclone", "blobfuse", "blobfuse2", "davfs", "davfs2",
	"curlftpfs", "ceph", "cephfs", "ceph-fuse", "juicefs", "moosefs", "mfs", "lizardfs", "saunafs", "seaweedfs", "beegfs",
	"orangefs", "hdfs", "smbnetfs", "cernvm-fs", "cvmfs", "mountpoint-s3", "geesefs", "nfs", "afp", "alluxio-fuse",
}

// fuse judges a FUSE file system by its type in the mount table, like "fuse.sshfs".
func fuse(kind string) fileSystem {
	f := fileSystem{name: kind}
	server := strings.TrimPrefix(kind, "fuse.")
	for _, remote := range remoteFuse {
		if strings.EqualFold(server, remote) {
			f.remote = true
		}
	}
	f.doubt = "whether locks on " + kind + " reach everybody is up to its server"
	return f
}
