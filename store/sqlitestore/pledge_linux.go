package sqlitestore

import (
	"encoding/binary"
	"errors"
	"hash/fnv"
	"os"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Pledges are locks far behind the end of a file, of the kind that belongs to an open file description and not to a process: so they come
// and go with a descriptor, and SQLite's own locks, which are another kind, are not touched by them.
const (
	pledges    = 1 << 62
	pledgeBits = 61
)

// spot is which byte of the pledges stands for a file.
func spot(of os.FileInfo) int64 {
	h := fnv.New64a()
	n := number(of)
	h.Write(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, n[0]), n[1]))
	return pledges + int64(h.Sum64()>>(64-pledgeBits)) //nolint:gosec // 61 bits
}

// pledge says on descriptors of one file, to the one that has it open, that it is used together with the file with. It is errElsewhere if
// somebody has said so of another file; the descriptors must be closed then.
func pledge(fds []uintptr, with os.FileInfo) error {
	at := spot(with)
	if err := unpledged(fds, at); err != nil {
		return err
	}
	for _, fd := range fds {
		err := lockBytes(fd, unix.F_RDLCK, at, 1)
		if errors.Is(err, unix.EAGAIN) {
			return errElsewhere // somebody makes sure of being alone
		}
		if err != nil {
			return err
		}
	}
	return unpledged(fds, at) // of two who come at the same time one at least sees the other
}

// A binding is an index with which this process uses a file: SQLite has one for all of its handles.
type binding struct {
	index   os.FileInfo
	handles int
}

// bindings are those of the files that this process has open, by device and number. SQLite keeps descriptors for another handle after one has
// been closed, so what is said on them must be taken back with the last.
var bindings = struct {
	sync.Mutex
	of map[[2]uint64]*binding
}{of: map[[2]uint64]*binding{}}

// bind says on a file, for one handle, that this process uses it with this index. It is errElsewhere if somebody uses it with another.
func bind(file, index os.FileInfo) error {
	bindings.Lock()
	defer bindings.Unlock()
	fds, err := descriptors(file)
	if err != nil {
		return err
	}
	b := bindings.of[number(file)]
	switch {
	case b == nil:
		b = &binding{index: index}
		unpledge(fds)
	case !os.SameFile(b.index, index):
		return errElsewhere
	}
	if err := pledge(fds, index); err != nil {
		if b.handles == 0 {
			unpledge(fds)
		}
		return err
	}
	b.handles++
	bindings.of[number(file)] = b
	return nil
}

// unbind takes back what bind has said, when the handle has been closed.
func unbind(file os.FileInfo) {
	bindings.Lock()
	defer bindings.Unlock()
	b := bindings.of[number(file)]
	if b.handles--; b.handles > 0 {
		return
	}
	delete(bindings.of, number(file))
	if fds, err := descriptors(file); err == nil {
		unpledge(fds)
	}
}

func number(of os.FileInfo) [2]uint64 {
	st := of.Sys().(*syscall.Stat_t)
	return [2]uint64{uint64(st.Dev), st.Ino} //nolint:unconvert // its type differs between architectures
}

// nobody as the byte of unpledged leaves none out.
const nobody = pledges - 1

// unpledged looks for pledges of others at any byte but one.
func unpledged(fds []uintptr, but int64) error {
	const end = pledges + 1<<pledgeBits
	for _, fd := range fds {
		for _, r := range [][2]int64{{pledges, but}, {but + 1, end}} {
			if r[0] >= r[1] {
				continue
			}
			l := unix.Flock_t{Type: unix.F_WRLCK, Start: r[0], Len: r[1] - r[0]}
			if err := unix.FcntlFlock(fd, unix.F_OFD_GETLK, &l); err != nil {
				return os.NewSyscallError("fcntl", err)
			}
			if l.Type != unix.F_UNLCK {
				return errElsewhere
			}
		}
	}
	return nil
}

// alone reports whether nobody else has a pledge on the file, and keeps others from making one as long as the descriptor is open.
func alone(fd uintptr) bool { return lockBytes(fd, unix.F_WRLCK, pledges, 1<<pledgeBits) == nil }

// unpledge takes back what has been said on descriptors.
func unpledge(fds []uintptr) {
	for _, fd := range fds {
		_ = lockBytes(fd, unix.F_UNLCK, pledges, 1<<pledgeBits)
	}
}

func lockBytes(fd uintptr, kind int16, at, n int64) error {
	return os.NewSyscallError("fcntl", unix.FcntlFlock(fd, unix.F_OFD_SETLK, &unix.Flock_t{Type: kind, Start: at, Len: n}))
}

// descriptors returns those of a file that this process has open. A file that SQLite has open may not be opened beside it (see look), and
// SQLite does not tell its descriptors.
func descriptors(of os.FileInfo) ([]uintptr, error) {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil, err
	}
	want := of.Sys().(*syscall.Stat_t)
	var fds []uintptr
	for _, e := range entries {
		var st unix.Stat_t
		fd, err := strconv.Atoi(e.Name())
		if err != nil || unix.Fstat(fd, &st) != nil {
			continue
		}
		if st.Dev == want.Dev && st.Ino == want.Ino {
			fds = append(fds, uintptr(fd)) //nolint:gosec // the kernel's numbers are not negative
		}
	}
	return fds, nil
}

// usedAs returns the path by which a process that may be seen has a file open, if path or process is another than ours; or "".
func usedAs(file os.FileInfo, ours string) string {
	processes, _ := os.ReadDir("/proc")
	for _, p := range processes {
		if _, err := strconv.Atoi(p.Name()); err != nil {
			continue
		}
		dir := "/proc/" + p.Name() + "/fd/"
		open, _ := os.ReadDir(dir)
		for _, e := range open {
			info, err := os.Stat(dir + e.Name())
			if err != nil || !os.SameFile(info, file) {
				continue
			}
			if path, err := os.Readlink(dir + e.Name()); err == nil && (path != ours || p.Name() != strconv.Itoa(os.Getpid())) {
				return path + " by process " + p.Name()
			}
		}
	}
	return ""
}
