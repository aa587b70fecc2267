package sqlitestore

import (
	"errors"
	"fmt"
	"os"
)

// SQLite finds the log of a file by its path alone. So the log of a file that has been moved away would be applied to another that is put
// in its place, and damage it; and a file that is opened by two paths has two logs, of which neither knows the other. Here each process says on the log with which
// file it uses it, and on the file with which index of a log (see pledge); nobody uses any of them otherwise.

// claimLog says on the log at the path that it is that of file, nil for one that is to be made. It returns nil if there is no log.
func (s *Store) claimLog(file os.FileInfo) (*os.File, error) {
	if file != nil {
		if !s.left.clear() {
			return nil, errOldLog
		}
		s.left.forget()
		s.left = nil
	} // or else SQLite deletes it: an empty file has no log
	at, err := placesOf(s.path)
	if err != nil {
		return nil, err
	}
	log := openLog(at[1])
	if log == nil {
		return nil, nil // SQLite will say why, if it needs it
	}
	fds := []uintptr{log.Fd()}
	if file == nil {
		err = unpledged(fds, nobody)
	} else {
		err = pledge(fds, file)
	}
	if errors.Is(err, errElsewhere) {
		log.Close()
		return nil, errOldLog
	}
	return log, nil // what is not known is said by bind
}

// openLog opens a log for the sake of its locks; nil if it cannot be opened. SQLite has none on it, so it does no harm that closing a file
// drops those of the process.
func openLog(path string) *os.File {
	for _, mode := range []int{os.O_RDWR, os.O_RDONLY} {
		if log, err := os.OpenFile(path, mode, 0); err == nil {
			return log
		}
	}
	return nil
}

var errOldLog = fmt.Errorf("%w: the -wal beside it is that of a file which lay here before, and which another process still has open: "+
	"stop that process, or put the old file back", errElsewhere)

// bind makes sure that nobody uses what is open together with something else.
func (f *file) bind() error {
	if f.log == nil {
		if f.log = openLog(f.places[1]); f.log == nil {
			return errSidecar
		}
	}
	if info, err := f.log.Stat(); err != nil || !os.SameFile(info, f.ids[1]) {
		return fmt.Errorf("%w: %w", errElsewhere, errSidecar) // it has been made anew meanwhile
	}
	err := pledge([]uintptr{f.log.Fd()}, f.ids[0])
	if errors.Is(err, errElsewhere) {
		return errOldLog
	}
	if err == nil {
		err = bind(f.ids[0], f.ids[2])
		f.bound = err == nil
	}
	switch {
	case errors.Is(err, errElsewhere):
		other := usedAs(f.ids[0], f.real())
		if other == "" {
			other = "a path that cannot be seen from here"
		}
		return fmt.Errorf("%w: it is open as %s, and here as %s with another -wal or -shm: use it by one path, and move or delete none of the "+
			"three while it is in use",
			errElsewhere, other, f.real())
	case err != nil && f.system.doubt == "":
		f.system.doubt = fmt.Sprintf("whether the file is in use by another path: %v", err)
	}
	return nil
}

// real is the path of the file without symbolic links.
func (f *file) real() string { return f.places[1][:len(f.places[1])-len("-wal")] }

// close closes the file, and returns what is left at its path that belongs to nobody else; nil is nothing.
func (f *file) close() *remains {
	why := f.moved()
	for _, c := range []*conn{f.write, f.read} {
		if c != nil {
			c.close()
		}
	}
	f.db.Close()
	if f.bound {
		unbind(f.ids[0])
	}
	r := &remains{f.log, f.places, f.ids}
	if f.log != nil && (errors.Is(why, errGone) || errors.Is(why, errReplaced)) {
		unpledge([]uintptr{f.log.Fd()})
		if !r.clear() {
			return r
		}
	}
	r.forget()
	return nil
}

// remains are the log and the index of a file that is no more at its path.
type remains struct {
	log    *os.File
	places places
	ids    identities
}

// clear deletes them if there is another file at the path now. SQLite does not, when the file that it closes has been moved. It reports false
// if they are still there, because somebody uses them, or because the file may come back.
func (r *remains) clear() bool {
	if r == nil || r.log == nil || !r.at(1) || r.at(0) {
		return true
	}
	if _, err := os.Stat(r.places[0]); err != nil || !alone(r.log.Fd()) {
		return false
	}
	for _, i := range []int{1, 2} {
		if r.at(i) {
			_ = os.Remove(r.places[i])
		}
	}
	return !r.at(1)
}

// at reports whether the file, its log or its index is at its path.
func (r *remains) at(i int) bool {
	info, err := os.Stat(r.places[i])
	return err == nil && os.SameFile(info, r.ids[i])
}

// forget lets others have the log.
func (r *remains) forget() {
	if r != nil && r.log != nil {
		r.log.Close()
	}
}
