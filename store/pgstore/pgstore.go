package pgstore

import (
	"context"
	"regexp"
	"sync/atomic"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/internal/shedlock"

	"github.com/jackc/pgx/v5/pgxpool"
)

// A Dialect is what the server understands.
type Dialect int

// The dialects.
const (
	PostgreSQL  Dialect = iota // 13 and later
	CockroachDB                // no notifications: waiters poll
)

func (d Dialect) String() string {
	if d == CockroachDB {
		return "CockroachDB"
	}
	return "PostgreSQL"
}

// A Listen is the way in which waiters are notified of a release.
type Listen int

// The ways of waiting.
const (
	ListenAuto Listen = iota // by LISTEN on its own connection; by polling where that cannot work
	ListenOff                // by polling, without its own connection
)

// A Config defines where a store keeps its records. The zero value is valid.
type Config struct {
	Schema   string // of the tables; "" is what the connection's search_path finds. Letters a to z, digits and _
	Table    string // "" is soloist, and shedlock with ShedLock. Others are called as this with _meta, _floor and _line behind
	ShedLock bool   // share the table of ShedLock with its JVMs; see the package's documentation
	Dialect  Dialect
	Listen   Listen

	// ShedLockColumns are the columns of a table that is shared with ShedLock, where they are not those that ShedLock documents.
	ShedLockColumns ShedLockColumns
}

// ShedLockColumns are the names of four columns, as the table has them: ShedLock writes a name without quotes, so that PostgreSQL makes its letters
// small. "" is the name that ShedLock documents. Each is 1 to 63 of A to Z, a to z, 0 to 9 and _, and is neither the name of a column of soloist's
// nor another word of its statements.
type ShedLockColumns struct {
	Name      string // of the lock; "" is name
	LockUntil string // "" is lock_until
	LockedAt  string // "" is locked_at
	LockedBy  string // "" is locked_by
}

// A Store is a handle on the records in a database. It is safe for use by many goroutines at once.
type Store struct {
	pool      *pgxpool.Pool
	own       bool // the pool is ours to close
	tables    tables
	sql       statements
	byDefault bool // Config named no table

	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	fits    atomic.Bool // the tables are of this version
	unnamed atomic.Bool // statements are not prepared: a pooler is in between
	hub     hub
}

var (
	_ store.Store    = (*Store)(nil)
	_ store.Watcher  = (*Store)(nil)
	_ store.Queuer   = (*Store)(nil)
	_ store.Chooser  = (*Store)(nil)
	_ store.Pager    = (*Store)(nil)
	_ store.Pinger   = (*Store)(nil)
	_ store.Sweeper  = (*Store)(nil)
	_ store.Prober   = (*Store)(nil)
	_ store.Migrator = (*Store)(nil)
	_ store.Examiner = (*Store)(nil)
)

// New makes a store of a pool, which stays the caller's to close. It asks the server nothing. A pool whose configuration has been given
// to Prepare is told when a commit is no longer waited for; with another the store cannot promise fencing where there are
// synchronous standbys. The error is a *store.InvalidError.
func New(pool *pgxpool.Pool, cfg Config) (*Store, error) {
	if pool == nil {
		return nil, &store.InvalidError{What: "pool", Value: "nil", Rule: "give a pool of connections, as pgxpool.New makes it"}
	}
	byDefault := cfg.Table == ""
	cfg = cfg.filled()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	t := newTables(cfg)
	s := &Store{pool: pool, tables: t, sql: t.statements(), byDefault: byDefault}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.hub.init(s)
	return s, nil
}

// identifier leaves room below PostgreSQL's 63 bytes for what we put behind it.
var identifier = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,49}$`)

// filled is c with the name of the table.
func (c Config) filled() Config {
	switch {
	case c.Table == "" && c.ShedLock:
		c.Table = shedLockTable
	case c.Table == "":
		c.Table = "soloist"
	}
	return c
}

// columns returns the names of the columns that ShedLock knows.
func (c Config) columns() shedlock.Columns { return shedlock.Columns(c.ShedLockColumns).Filled() }

// shedLockTable is the default name of ShedLock's table.
const shedLockTable = "shedlock"

func (c Config) check() error {
	const rule = "must be 1 to 50 of a to z, 0 to 9 and _, and not begin with a digit"
	switch {
	case c.Schema != "" && !identifier.MatchString(c.Schema):
		return &store.InvalidError{What: "schema", Value: shown(c.Schema), Rule: rule}
	case !identifier.MatchString(c.Table):
		return &store.InvalidError{What: "table", Value: shown(c.Table), Rule: rule}
	case c.Table == shedLockTable && !c.ShedLock:
		return &store.InvalidError{What: "table", Value: shown(c.Table), Rule: "is the name of ShedLock's table: share it by shedlock=true (Config.ShedLock), or give another name"}
	case c.columns() != shedlock.Documented && !c.ShedLock:
		return &store.InvalidError{What: "ShedLock's columns", Value: shown(c.columns().String()), Rule: "are for a table that is shared with ShedLock: add shedlock=true (Config.ShedLock)"}
	case c.Dialect != PostgreSQL && c.Dialect != CockroachDB:
		return &store.InvalidError{What: "dialect", Value: shown(int(c.Dialect)), Rule: "must be PostgreSQL or CockroachDB"}
	case c.Listen != ListenAuto && c.Listen != ListenOff:
		return &store.InvalidError{What: "listen", Value: shown(int(c.Listen)), Rule: "must be ListenAuto or ListenOff"}
	}
	return c.columns().Check(sqlFiles)
}

// Close ends the handle, its watches and the calls in progress, and frees the connections that the store has opened itself.
func (s *Store) Close() error {
	s.cancel()
	s.hub.close()
	if s.own {
		s.pool.Close()
	}
	return nil
}

// alive returns the reason why a call cannot begin, or nil.
func (s *Store) alive(ctx context.Context) error {
	if s.ctx.Err() != nil {
		return store.ErrClosed
	}
	return ctx.Err()
}

// Ping is as in store.Pinger: it reads from the tables.
func (s *Store) Ping(ctx context.Context) error {
	_, err := look(ctx, s, s.sql.meta, nil, scanInt)
	return err
}
