package sqlitestore

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/soloist-dev/soloist/store/internal/tokens"

	codes "modernc.org/sqlite/lib"
)

// A file is an open file: one connection that writes and one that only reads, so that a refused claim does not wait
// for a commit.
type file struct {
	db          *sql.DB
	write, read *conn
	clock       *clock
	system      fileSystem
	places      places
	ids         identities
	log         *os.File // the log; only locks are made on it
	bound       bool     // see bind
	metaAt      int64    // when a transaction last looked at the table meta
	opened      time.Time
	lookAt      atomic.Int64 // when, after opened, to look again at what lies beside the file
	broken      atomic.Bool  // something failed that opening again may mend
}

const lookInterval = 5 * time.Millisecond // between looks at what lies beside the file

var (
	errGone       = errors.New("the file has been deleted")
	errReplaced   = errors.New("the file has been replaced by another")
	errElsewhere  = errors.New("the file, or SQLite's -wal or -shm file beside it, is in use together with others")
	errSidecar    = errors.New("SQLite's -wal or -shm file beside it has been deleted or replaced")
	errNoDatabase = errors.New(advice[codes.SQLITE_NOTADB])
	errDamaged    = errors.New(advice[codes.SQLITE_CORRUPT])
	errBroken     = errors.New("the file has to be opened again")
)

// check returns the reason why f cannot be used, or nil.
func (f *file) check() error {
	if f == nil || f.broken.Load() {
		return errBroken
	}
	return f.here()
}

// moved is here, of all that is open.
func (f *file) moved() error {
	if f.ids[0] == nil {
		return nil // it has not come so far
	}
	f.lookAt.Store(-1)
	return f.here()
}

// here returns an error if the open file is not the one at the path any more. It checks the file itself each time, and at what lies
// beside it now and then: to look at all three after each commit would make a pair a fifth slower.
func (f *file) here() error {
	now, looks := int64(time.Since(f.opened)), 1
	if now > f.lookAt.Load() {
		looks = len(f.places)
	}
	for i, path := range f.places[:looks] {
		info, err := os.Stat(path)
		switch {
		case err == nil && os.SameFile(info, f.ids[i]):
		case i > 0:
			return errSidecar
		case errors.Is(err, os.ErrNotExist):
			return errGone
		case err != nil:
			return err
		default:
			return errReplaced
		}
	}
	if looks > 1 {
		f.lookAt.Store(now + int64(lookInterval))
	}
	return nil
}

// identify remembers which files are open, by looking at what lies there now.
func (f *file) identify(path string, before os.FileInfo) (err error) {
	if f.places, err = placesOf(path); err != nil {
		return err
	}
	if f.ids, err = f.places.identities(); err != nil {
		return fmt.Errorf("%w (is it still open elsewhere in this process?): %w", errSidecar, err)
	}
	if before != nil && !os.SameFile(before, f.ids[0]) {
		return errReplaced
	}
	return nil
}

// last returns when the last lease or linger in the file ends, and its greatest token of those that may be forgotten: one above harms its own name only.
func (f *file) last() (until, token int64, err error) {
	m, err := f.write.meta()
	if err == nil {
		err = f.write.row(sqlLast, []any{int64(tokens.Forgettable), after(f.clock.now(), most)}, &until, &token)
	}
	return until, max(token, m.floor), err
}
