package mysqlstore

import (
	"context"
	"database/sql"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/internal/shedlock"
	"github.com/soloist-dev/soloist/store/internal/sqlshared"
)

// A Dialect is what the server understands.
type Dialect int

// The dialects.
const (
	Detect  Dialect = iota // by what the server calls itself
	MySQL                  // 8.0 and later
	MariaDB                // 10.6 and later
)

func (d Dialect) String() string {
	return [...]string{"MySQL or MariaDB", "MySQL", "MariaDB"}[d]
}

// A Config defines where a store keeps its records. The zero value is valid.
type Config struct {
	Schema   string // the database of the tables; "" is that of the connection. As Table
	Table    string // "" is soloist, and shedlock with ShedLock. Letters, digits and _. A second one is called as this with _meta behind
	ShedLock bool   // share the table of ShedLock with its JVMs; see the package's documentation
	Dialect  Dialect

	// ShedLockZone is the time zone of the sessions with which ShedLock has written to a table that Migrate takes over: "+01:00", or a name
	// that the server knows. "" is the server's own. It matters only when the table has TIMESTAMP columns, which are read in the
	// zone of the one that reads them.
	ShedLockZone string

	// ShedLockColumns are the columns of a table that is shared with ShedLock, where they are not those that ShedLock documents.
	ShedLockColumns ShedLockColumns
}

// ShedLockColumns are the names of four columns; "" is the name that ShedLock documents. Each is 1 to 63 of A to Z, a to z, 0 to 9 and _, and is
// neither the name of a column of soloist's nor another word of its statements.
type ShedLockColumns struct {
	Name      string // of the lock; "" is name
	LockUntil string // "" is lock_until
	LockedAt  string // "" is locked_at
	LockedBy  string // "" is locked_by
}

// A Store is a handle on the records in a database. It is safe for use by many goroutines at once.
type Store struct {
	db  *sql.DB
	own bool // db is ours to close
	cfg Config

	byDefault bool // Config named no table

	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	mu      sync.Mutex
	server  *server // nil until it has been asked
	fits    bool    // the tables are fit to be written to
	watches *sqlshared.Watches[sight]
	turns   turns

	routines   sync.Map    // *routine by what it does
	unprepared atomic.Bool // the server does not prepare routines
}

var (
	_ store.Store    = (*Store)(nil)
	_ store.Watcher  = (*Store)(nil)
	_ store.Chooser  = (*Store)(nil)
	_ store.Pager    = (*Store)(nil)
	_ store.Pinger   = (*Store)(nil)
	_ store.Sweeper  = (*Store)(nil)
	_ store.Prober   = (*Store)(nil)
	_ store.Migrator = (*Store)(nil)
	_ store.Examiner = (*Store)(nil)

	_ store.Completer[*sql.Tx] = (*Store)(nil)
)

// New makes a store of a database that has been opened with the driver github.com/go-sql-driver/mysql, and stays the caller's to close. It
// asks the server nothing. The error is a *store.InvalidError.
func New(db *sql.DB, cfg Config) (*Store, error) {
	if db == nil {
		return nil, &store.InvalidError{What: "database", Value: "nil", Rule: "give an open *sql.DB"}
	}
	byDefault := cfg.Table == ""
	switch {
	case byDefault && cfg.ShedLock:
		cfg.Table = shedLockTable
	case byDefault:
		cfg.Table = "soloist"
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	s := &Store{db: db, cfg: cfg, byDefault: byDefault}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.watches, s.turns.of = newWatches(s.ctx), map[string]*turn{}
	return s, nil
}

// shedLockTable is the default name of ShedLock's table.
const shedLockTable = "shedlock"

var (
	// The servers allow names of 64 characters; _meta must fit behind.
	identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,54}$`)
	timeZone   = regexp.MustCompile(`^([+-][0-9]{1,2}:[0-9]{2}|[A-Za-z0-9_/+-]{1,64})$`)
)

func (c Config) check() error {
	const rule = "must be 1 to 55 of A to Z, a to z, 0 to 9 and _, and not begin with a digit"
	switch {
	case c.Schema != "" && !identifier.MatchString(c.Schema):
		return &store.InvalidError{What: "schema", Value: shown(c.Schema), Rule: rule}
	case !identifier.MatchString(c.Table):
		return &store.InvalidError{What: "table", Value: shown(c.Table), Rule: rule}
	case strings.EqualFold(c.Table, shedLockTable) && !c.ShedLock:
		return &store.InvalidError{What: "table", Value: shown(c.Table), Rule: "is the name of ShedLock's table: share it by shedlock=true (Config.ShedLock), or give another name"}
	case c.columns() != shedlock.Documented && !c.ShedLock:
		return &store.InvalidError{What: "ShedLock's columns", Value: shown(c.columns().String()), Rule: "are for a table that is shared with ShedLock: add shedlock=true (Config.ShedLock)"}
	case c.Dialect < Detect || c.Dialect > MariaDB:
		return &store.InvalidError{What: "dialect", Value: strconv.Itoa(int(c.Dialect)), Rule: "must be Detect, MySQL or MariaDB"}
	case c.ShedLockZone != "" && !timeZone.MatchString(c.ShedLockZone):
		return &store.InvalidError{What: "ShedLock's time zone", Value: shown(c.ShedLockZone), Rule: `must be like "+01:00" or "Europe/Berlin"`}
	}
	return c.columns().Check(sqlFiles)
}

// columns returns the names of the columns that ShedLock knows.
func (c Config) columns() shedlock.Columns { return shedlock.Columns(c.ShedLockColumns).Filled() }

func shown(s string) string {
	if len(s) > 60 {
		s = s[:60] + "…"
	}
	return strconv.Quote(s)
}

// Close ends the handle and its watches, and closes the connections that the store has opened itself.
func (s *Store) Close() error {
	s.cancel()
	s.watches.Close()
	s.turns.close()
	if s.own {
		return s.db.Close()
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

// text puts f and the names of the tables into a statement.
func (s *Store) text(statement string, f fill) string {
	all := fill{
		"records": s.table(s.cfg.Table), "meta": s.table(s.cfg.Table + "_meta"),
		"live": sqlLive, "sound": sqlSound, "sound_p": strings.ReplaceAll(sqlSound, "r.", "p."), "forgettable": sqlForgettable, "unshared": "", "theirs": "",
		"r.token": "r.token", "r.mark": "r.mark", "p.mark": "p.mark",
	}
	if s.cfg.ShedLock {
		all["unshared"], all["r.token"], all["r.mark"] = sqlUnshared, sqlTokenShared, sqlMarkShared
		all["p.mark"] = strings.ReplaceAll(sqlMarkShared, "r.", "p.")
	}
	for key, text := range f {
		all[key] = text
	}
	return all.into(statement, s.cfg.columns())
}

func (s *Store) table(name string) string {
	if s.cfg.Schema != "" {
		return "`" + s.cfg.Schema + "`.`" + name + "`"
	}
	return "`" + name + "`"
}

// Ping is as in store.Pinger: it reads from the tables.
func (s *Store) Ping(ctx context.Context) error {
	_, err := look(ctx, s, s.text(sqlVersion, nil), func(rows *sql.Rows) (n int, err error) {
		var floor int64
		return n, rows.Scan(&n, &floor)
	})
	return err
}
