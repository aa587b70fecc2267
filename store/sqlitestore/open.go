package sqlitestore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// openFile opens the file at the path, or creates it. If it fails, it leaves no incomplete file. If other processes use the file by another
// path, or with another log, openFile waits some time for them to notice that it was moved or replaced.
func (s *Store) openFile(ctx context.Context) (f *file, err error) {
	elsewhere := func(err error) bool { return errors.Is(err, errElsewhere) }
	err = s.insist(ctx, elsewhere, func() error {
		f, err = s.openNow(ctx)
		return err
	})
	return f, err
}

func (s *Store) openNow(ctx context.Context) (*file, error) {
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
	log, err := s.claimLog(before)
	if err != nil {
		return nil, err
	}
	f := &file{system: system, opened: time.Now(), log: log}
	if err := s.open(ctx, f, "rw"); err != nil {
		return nil, err
	}
	if err := s.identify(ctx, f, before); err != nil {
		f.close().forget()
		return nil, err
	}
	return f, nil
}

// identify remembers which files are open, and makes sure that nobody uses one of them with others.
func (s *Store) identify(ctx context.Context, f *file, before os.FileInfo) error {
	if err := f.identify(s.path, before); err != nil {
		return err
	}
	if err := s.retry(ctx, func() error { return s.keepFloor(f) }); err != nil {
		return err
	}
	return f.bind()
}

// keepFloor brings what is known of a file that lay here before to one that has been put in its place, be that an older copy of it: no name gets a
// token there that is not above those of the old one.
func (s *Store) keepFloor(f *file) error {
	floor := s.floor.Load()
	m, err := f.write.meta()
	if err == nil && m.floor < floor {
		_, err = f.write.exec(sqlMetaFloor, floor)
	}
	return err
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
	} else if err := oneName(s.path, info); err != nil {
		return fileSystem{}, err
	}
	system, err := s.fileSystem(at)
	if err == nil {
		err = system.check(at)
	}
	return system, err
}

// open opens f: its connections, the tables if the file is empty, and the settings. The mode is SQLite's.
func (s *Store) open(ctx context.Context, f *file, mode string) (err error) {
	if f.db, err = connect(s.connector, dsn(s.path, "mode="+mode)); err != nil {
		return err
	}
	if err = s.setUp(ctx, f); err != nil {
		f.close().forget()
	}
	return err
}

// make makes the file and closes it: of a file that was there before it was opened it can be told which one is open.
func (s *Store) make(ctx context.Context) error {
	log, err := s.claimLog(nil)
	if err != nil {
		return err
	}
	f := &file{log: log}
	err = s.open(ctx, f, "rwc")
	if err == nil {
		f.close().forget()
	}
	return err
}

// connect returns a pool; database/sql is not to open more connections than a file needs.
func connect(connectorOf func(dsn string) (driver.Connector, error), dsn string) (*sql.DB, error) {
	connector, err := connectorOf(dsn)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(2)
	return db, nil
}

// setUp makes the connections, the tables if the file is empty, and the settings.
func (s *Store) setUp(ctx context.Context, f *file) (err error) {
	if f.write, err = s.newConn(ctx, f.db); err != nil {
		return err
	}
	if err := s.create(ctx, f.write); err != nil {
		return err
	}
	if err := s.retry(ctx, f.write.fit); err != nil {
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
