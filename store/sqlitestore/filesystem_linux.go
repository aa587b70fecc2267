package sqlitestore

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

const fuseMagic = 0x65735546

// remoteMagic are the file systems that hosts share, by the magic number that statfs answers.
var remoteMagic = map[uint32]string{
	0x00006969: "NFS", 0x0000517B: "SMB", 0xFF534D42: "CIFS", 0xFE534D42: "SMB2", 0x01021997: "9P",
	0x00C36400: "Ceph", 0x5346414F: "AFS", 0x6B414653: "AFS", 0x73757245: "Coda", 0x0BD00BD0: "Lustre",
	0x47504653: "GPFS", 0x7461636F: "OCFS2", 0x01161970: "GFS2", 0x19830326: "BeeGFS", 0x0000564C: "NCP",
	0xAAD7AAEA: "PanFS", 0x20030528: "OrangeFS", 0xBACBACBC: "VMware shared folders", 0x786F4256: "VirtualBox shared folders",
	0x61636673: "ACFS", 0xBEEFDEAD: "SNFS", 0x013111A8: "IBRIX",
}

// memoryMagic are the file systems that are kept in memory.
var memoryMagic = map[uint32]string{0x01021994: "tmpfs", 0x858458F6: "ramfs"}

func fileSystemOf(path string) (fileSystem, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return fileSystem{}, fmt.Errorf("asking what file system %s is on: %w", path, err)
	}
	magic := uint32(st.Type)
	if name := remoteMagic[magic]; name != "" {
		return fileSystem{name: name, remote: true}, nil
	}
	if name := memoryMagic[magic]; name != "" {
		return fileSystem{name: name, memory: true}, nil
	}
	if magic != fuseMagic {
		return fileSystem{}, nil
	}
	return fuseAt(path), nil
}

// fuseAt looks up the type of the FUSE file system that path is on.
func fuseAt(path string) fileSystem {
	var st unix.Stat_t
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err == nil {
		err = unix.Stat(path, &st)
	}
	if err == nil {
		dev := uint64(st.Dev) //nolint:unconvert // its type differs between architectures
		if kind := mountType(string(mounts), unix.Major(dev), unix.Minor(dev)); kind != "" {
			return fuse(kind)
		}
	}
	return fuse("FUSE of an unknown type")
}

// mountType finds the type of the device in /proc/self/mountinfo:
// ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [TAG…] - TYPE SOURCE OPTIONS
func mountType(mountinfo string, major, minor uint32) string {
	dev := fmt.Sprintf("%d:%d", major, minor)
	for line := range strings.Lines(mountinfo) {
		before, after, _ := strings.Cut(line, " - ")
		fields, kind := strings.Fields(before), strings.Fields(after)
		if len(fields) > 2 && fields[2] == dev && len(kind) > 0 {
			return kind[0]
		}
	}
	return ""
}
