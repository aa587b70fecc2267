package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"
)

const (
	applicationID = 0x501015 // in the file's header: the file is ours
	schemaVersion = 1        // in the file's header: what is in sql/schema.sql
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
	metaAt      int64       // when a transaction last looked at the table meta
	broken      atomic.Bool // something failed that opening again may mend
}

var (
	errGone       = errors.New("the file has been deleted")
	errReplaced   = errors.New("the file has been replaced by another")
	errSidecar    = errors.New("SQLite's -wal or -shm file beside it has been deleted or replaced")
	errNoDatabase = errors.New(advice[codes.SQLITE_NOTADB])
	errDamaged    = errors.New(advice[codes.SQLITE_CORRUPT])
	errBroken     = errors.New("the file has to be opened again")
)

// check says why f cannot be used.
func (f *file) check() error {
	if f == nil || f.broken.Load() {
		return errBroken
	}
	if err := f.here(); err != nil {
		return err
	}
	for i := 1; i < len(f.places); i++ {
		if info, err := os.Stat(f.places[i]); err != nil || !os.SameFile(info, f.ids[i]) {
			return errSidecar
		}
	}
	return nil
}

// here says why f is no more what lies at the path.
func (f *file) here() error {
	info, err := os.Stat(f.places[0])
	switch {
	case errors.Is(err, os.ErrNotExist):
		return errGone
	case err != nil:
		return err
	case !os.SameFile(info, f.ids[0]):
		return errReplaced
	}
	return nil
}

func (f *file) close() {
	for _, c := range []*conn{f.write, f.read} {
		if c != nil {
			c.close()
		}
	}
	f.db.Close()
}

// openFile opens what lies at the path, or makes it, and leaves nothing half-made if it fails.
func (s *Store) openFile(ctx context.Context) (*file, error) {
	system, err := s.place()
	if err != nil {
		return nil, err
	}
	before, err := look(s.path)
	if err == nil && before == nil {
		if err = s.make(ctx); err == nil {
			before, err = look(s.path)
		}
	}
	if err != nil {
		return nil, err
	}
	if before == nil {
		return nil, errGone
	}
	if err := s.checkHeader(before); err != nil {
		return nil, err
	}
	f := &file{system: system}
	if err := s.open(ctx, f, "rw"); err != nil {
		return nil, err
	}
	if err := f.identify(s.path, before); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

// place looks at where the file is or will be.
func (s *Store) place() (fileSystem, error) {
	info, err := look(s.path)
	if err != nil {
		return fileSystem{}, err
	}
	at := s.path
	if info == nil {
		at = filepath.Dir(s.path)
	}
	system, err := s.fileSystem(at)
	if err == nil {
		err = system.check(at)
	}
	return system, err
}

// open opens f: its connections, the tables if the file is empty, and the settings. The mode is SQLite's.
func (s *Store) open(ctx context.Context, f *file, mode string) (err error) {
	if f.db, err = connect(dsn(s.path, "mode="+mode)); err != nil {
		return err
	}
	if err = s.setUp(ctx, f); err != nil {
		f.close()
	}
	return err
}

// make makes the file and closes it: of a file that was there before it was opened it can be told which one is open.
func (s *Store) make(ctx context.Context) error {
	f := &file{}
	err := s.open(ctx, f, "rwc")
	if err == nil {
		f.close()
	}
	return err
}

// connect answers a pool; database/sql is not to open more connections than a file needs.
func connect(dsn string) (*sql.DB, error) {
	connector, err := sqlite.NewConnector(dsn)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(2)
	return db, nil
}

// checkHeader refuses the file of another program without writing to it: SQLite would make a log beside it.
func (s *Store) checkHeader(info os.FileInfo) error {
	switch size := info.Size(); {
	case size == 0:
		return nil
	case size < 512: // SQLite would take a file of one byte for an empty one
		return errNoDatabase
	}
	db, err := connect(dsn(s.path, "mode=ro&immutable=1"))
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = inspect(db)
	if code(err) == codes.SQLITE_CORRUPT {
		return nil // or just being written by another process: only a proper look, with locks, can tell
	}
	return err
}

// inspect says whether there is nothing in the database yet. Its error may be that it is not ours.
func inspect(db interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
}) (empty bool, err error) {
	var id, version, objects int
	for query, dest := range map[string]*int{
		"PRAGMA application_id": &id, "PRAGMA user_version": &version, "SELECT count(*) FROM sqlite_schema": &objects,
	} {
		if err := db.QueryRowContext(background, query).Scan(dest); err != nil {
			return false, err
		}
	}
	if objects == 0 && id == 0 && version == 0 {
		return true, nil
	}
	return false, checkVersion(id, version)
}

func checkVersion(id, version int) error {
	switch {
	case id != applicationID:
		return fmt.Errorf("it is an SQLite database, but not soloist's: its application_id is %#x, not %#x; "+
			"give the path of another file, or of none", uint32(id), applicationID)
	case version > schemaVersion:
		return fmt.Errorf("it was made by a newer soloist: its user_version is %d, and this version knows %d; update this one",
			version, schemaVersion)
	case version < schemaVersion:
		return fmt.Errorf("its user_version is %d, which no soloist has made; restore it from a backup, or move it away", version)
	}
	return nil
}

func (s *Store) setUp(ctx context.Context, f *file) (err error) {
	if f.write, err = s.newConn(ctx, f.db); err != nil {
		return err
	}
	if err := s.create(ctx, f.write); err != nil {
		return err
	}
	if err := s.retry(ctx, f.write.setWAL); err != nil {
		return err
	}
	if err := s.settle(ctx, f); err != nil {
		return err
	}
	if f.read, err = s.newConn(ctx, f.db); err != nil {
		return err
	}
	return s.retry(ctx, func() error {
		_, err := f.read.meta()
		return err
	})
}

// settings are those of a connection, with the value that they read back as.
var settings = [][2]string{
	{"busy_timeout", "0"},             // the waiting is done in retry
	{"synchronous", "2"},              // FULL: a commit is on the disk when it returns
	{"trusted_schema", "0"},           // nothing in the file is run
	{"cell_size_check", "1"},          // damage is noticed sooner
	{"temp_store", "2"},               // no other file is needed
	{"journal_size_limit", "4194304"}, // bytes of log kept after a burst
}

func (s *Store) newConn(ctx context.Context, db *sql.DB) (c *conn, err error) {
	err = s.retry(ctx, func() error {
		c, err = newConn(db)
		return err
	})
	return c, err
}

func newConn(db *sql.DB) (*conn, error) {
	sc, err := db.Conn(background)
	if err != nil {
		return nil, err
	}
	c := &conn{sql: sc, stmts: map[string]*sql.Stmt{}}
	for _, set := range settings {
		if err := c.set(set[0], set[1]); err != nil {
			sc.Close()
			return nil, err
		}
	}
	return c, nil
}

// set changes a setting and reads it back.
func (c *conn) set(name, value string) error {
	if _, err := c.sql.ExecContext(background, "PRAGMA "+name+" = "+value); err != nil {
		return err
	}
	got, err := c.pragma(name)
	if err == nil && got != value {
		err = fmt.Errorf("SQLite keeps its setting %s at %s when told %s", name, got, value)
	}
	return err
}

// pragma reads a setting.
func (c *conn) pragma(name string) (value string, err error) {
	err = c.sql.QueryRowContext(background, "PRAGMA "+name).Scan(&value)
	return value, err
}

func (c *conn) setWAL() error {
	mode, err := c.pragma("journal_mode = WAL")
	if err == nil && !strings.EqualFold(mode, "wal") {
		err = fmt.Errorf("SQLite keeps its journal mode at %s when told WAL: the file system lacks shared memory; put the file on another", mode)
	}
	return err
}

// create makes the tables of an empty file. Of two processes that do so at once the second finds them made. It is done
// before WAL is set, so that the file's own header says at any time whose it is.
func (s *Store) create(ctx context.Context, c *conn) error {
	empty, err := s.empty(ctx, c)
	if err != nil || !empty {
		return err
	}
	if err := s.retry(ctx, func() error { _, err := c.exec(sqlBegin); return err }); err != nil {
		return err
	}
	if empty, err = s.empty(ctx, c); err == nil && empty {
		err = s.fill(c)
	}
	if err == nil {
		err = s.retry(ctx, func() error { _, err := c.exec(sqlCommit); return err }) // readers may be in the way
	}
	if err != nil {
		c.exec(sqlRollback)
	}
	return err
}

// empty says that the file has nothing in it yet; the error, that it is not ours.
func (s *Store) empty(ctx context.Context, c *conn) (empty bool, err error) {
	err = s.retry(ctx, func() error {
		empty, err = inspect(c.sql)
		return err
	})
	return empty, err
}

func (s *Store) fill(c *conn) error {
	clock := s.clocks.best()
	script := fmt.Sprintf("%s;\nPRAGMA application_id = %d;\nPRAGMA user_version = %d", sqlSchema, applicationID, schemaVersion)
	if _, err := c.sql.ExecContext(background, script); err != nil {
		return err
	}
	_, err := c.exec(sqlMetaInsert, clock.kind, clock.boot, clock.offset(), s.floor.Load())
	return err
}

// settle takes the clock that the file is kept by, and rebases the file's times if they are of another boot.
func (s *Store) settle(ctx context.Context, f *file) error {
	var m meta
	err := s.retry(ctx, func() (err error) {
		m, err = f.write.meta()
		return err
	})
	if err != nil {
		return err
	}
	if f.clock, err = s.clocks.kept(m.clock); err != nil || f.clock.boot == m.boot {
		return err
	}
	if err := s.retry(ctx, func() error { _, err := f.write.exec(sqlBegin); return err }); err != nil {
		return err
	}
	if err = f.rebase(); err == nil {
		_, err = f.write.exec(sqlCommit)
	}
	if err != nil {
		f.write.exec(sqlRollback)
		return fmt.Errorf("after the reboot: %w", err)
	}
	return nil
}

// rebase moves the times in the file from the clock of an earlier boot to this one's. What both have in common is the
// wall clock alone.
func (f *file) rebase() error {
	m, err := f.write.meta()
	if err != nil || m.boot == f.clock.boot {
		return err
	}
	offset := f.clock.offset()
	if _, err := f.write.exec(sqlRebaseRecords, m.wall-offset, f.clock.now()); err != nil {
		return err
	}
	_, err = f.write.exec(sqlRebaseMeta, f.clock.boot, offset)
	return err
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

// last answers when the last lease or linger in the file ends, and its greatest token.
func (f *file) last() (until, token int64, err error) {
	m, err := f.write.meta()
	if err == nil {
		err = f.write.row(sqlLast, nil, &until, &token)
	}
	return until, max(token, m.floor), err
}
