package sqlitestore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"

	"github.com/soloist-dev/soloist/store"

	"modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"
)

// also is an error that is a second one, too, for errors.Is.
type also struct {
	error
	is error
}

func (a also) Is(target error) bool { return errors.Is(a.is, target) }

func (a also) Unwrap() error { return a.error }

// refused makes err a store.ErrUnusable if trying again would not help.
func refused(err error) error {
	switch code(err) {
	case 0, codes.SQLITE_ERROR, codes.SQLITE_CORRUPT, codes.SQLITE_NOTADB:
		if !errors.Is(err, fs.ErrPermission) && !errors.Is(err, errBusy) {
			return also{err, store.ErrUnusable}
		}
	}
	return err
}

var (
	errBusy   = errors.New("other processes have kept the file locked")
	errClosed = errors.New("the file is not open")
)

// code is the primary result code of SQLite in err, or 0.
func code(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}

// busy reports whether err is a file lock of another process: nothing has happened, and soon it may.
func busy(err error) bool {
	switch code(err) {
	case codes.SQLITE_BUSY, codes.SQLITE_LOCKED, codes.SQLITE_PROTOCOL:
		return true
	}
	return false
}

// disconnected reports whether database/sql has given the connection up.
func disconnected(err error) bool {
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone)
}

// harmless reports whether the connections are as good after err as before.
func harmless(err error) bool {
	return err == nil || busy(err) || code(err) == codes.SQLITE_FULL || code(err) == codes.SQLITE_INTERRUPT ||
		errors.Is(err, errBusy) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, store.ErrClosed) || errors.Is(err, store.ErrTokens)
}

// advice returns what is wrong and how to correct it, for the operator of the process.
var advice = map[int]string{
	codes.SQLITE_FULL: "the disk is full: free some space",
	codes.SQLITE_READONLY: "it cannot be written: give this process the right to write the file and its directory, " +
		"where SQLite keeps -wal and -shm beside it, and see that the file system is not read-only",
	codes.SQLITE_CANTOPEN: "it cannot be opened: give this process the right to write the file and its directory, " +
		"where SQLite keeps -wal and -shm beside it, and see that the file system is not read-only",
	codes.SQLITE_PERM:    "it cannot be opened: give this process the right to write the file and its directory",
	codes.SQLITE_CORRUPT: "the file is damaged: restore it from a backup, or stop every process that uses it and move it away",
	codes.SQLITE_NOTADB:  "the file is no SQLite database: give the path of another, or move it away",
	codes.SQLITE_IOERR:   "reading or writing the file failed: see to the disk",
	codes.SQLITE_NOMEM:   "there is not enough memory",
}

// at adds to err the path of the file, and what the error means.
func (s *Store) at(err error) error {
	if err == nil || errors.Is(err, store.ErrClosed) {
		return err
	}
	if disconnected(err) {
		err = errClosed
	}
	if text := advice[code(err)]; text != "" {
		err = fmt.Errorf("%s: %w", text, err)
	}
	switch code(err) {
	case codes.SQLITE_READONLY, codes.SQLITE_CANTOPEN, codes.SQLITE_PERM:
		err = also{err, fs.ErrPermission}
	}
	return fmt.Errorf("sqlitestore: %s: %w", s.path, err)
}
