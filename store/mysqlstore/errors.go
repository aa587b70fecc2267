package mysqlstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/soloist-dev/soloist/store"

	"github.com/go-sql-driver/mysql"
)

// ErrSnapshot refuses a completion in a transaction at REPEATABLE READ that has read something before the lease was taken: its reads do not
// show what the holder before has committed.
var ErrSnapshot = errors.New("the transaction reads as of before the lease was taken: begin it after that, or at READ COMMITTED")

// errAltered is the error of a reply that names a row by a number that was not sent.
var errAltered = errors.New("mysqlstore: the reply is about a row that was not asked for: see to triggers of the table, which soloist doctor lists")

// errChanged is the error of an extension after which its lease does not last as long as it should.
var errChanged = fmt.Errorf("%w: a trigger of the table, or something else, has changed what the extension has written", store.ErrLost)

// errLocked is the error for a row that another transaction kept locked.
var errLocked = errors.New("a transaction that has not ended yet has locked the row")

// The numbers of the servers' errors, as far as they mean something to us. From 1900 on they are MariaDB's, from 3000 on MySQL's.
const (
	errTooManyConnections  = 1040
	errNoDatabasePriv      = 1044
	errPassword            = 1045
	errNoDatabase          = 1046
	errUnknownDatabase     = 1049
	errShutdown            = 1053
	errUnknownColumn       = 1054
	errSyntax              = 1064
	errUnknownTable        = 1109
	errUnknown             = 1105
	errTablePriv           = 1142
	errColumnPriv          = 1143
	errNoTable             = 1146
	errPacket              = 1153
	errDuringCommit        = 1180
	errLockTimeout         = 1205
	errDeadlock            = 1213
	errNeedSuper           = 1227
	errOption              = 1290
	errUnknownStatement    = 1243
	errUnsupportedPrepared = 1295
	errClockSet            = 1242 // by sqlClock alone
	errInterrupted         = 1317
	errTriggerTable        = 1442
	errTooManyPrepared     = 1461
	errRecordChanged       = 1020
	errDiskFull            = 1021
	errTableFull           = 1114
	errBinlogFormat        = 1665
	errBadPlugin           = 1698
	errReadOnly            = 1792
	errReadOnlyServer      = 1836
	errKilled              = 1927
	errStatementTimeMaria  = 1969
	errStatementTimeMySQL  = 3024
	errLockNowait          = 3572
	errGroupRollback       = 3101
	errCheckMySQL          = 3819
	errCheckMaria          = 4025
)

// advice returns how to correct an error, for the operator of the process.
var advice = map[uint16]string{
	errTooManyConnections: "raise max_connections, or lower the connections of the pools (SetMaxOpenConns)",
	errNoDatabasePriv:     "give this user its rights: GRANT SELECT, INSERT, UPDATE, DELETE on the store's tables",
	errPassword:           "see to the user and the password, and to the host that the user may come from",
	errBadPlugin:          "see to the user, and to the way in which it has to prove who it is",
	errTablePriv:          "give this user its rights: GRANT SELECT, INSERT, UPDATE, DELETE on the store's tables",
	errColumnPriv:         "give this user its rights: GRANT SELECT, INSERT, UPDATE, DELETE on the store's tables",
	errNeedSuper:          "this user lacks a right that the statement needs",
	errNoDatabase:         "name the database in the URL or the DSN, or in Config.Schema",
	errUnknownDatabase:    "make the database, or name another",
	errSyntax:             "the server must be MySQL 8.0 or MariaDB 10.6, or later",
	errPacket:             "raise max_allowed_packet to 1M at least",
	errOption:             "the server is a replica, or read-only: connect to the primary",
	errReadOnly:           "the server is a replica, or read-only: connect to the primary",
	errReadOnlyServer:     "the server is a replica, or read-only: connect to the primary",
	errLockTimeout:        "another transaction has kept a row or a table locked: see to transactions that stay open",
	errBinlogFormat:       "set binlog_format to ROW or MIXED",
	errClockSet:           "the clock of the session has been set, so that leases would not end when they should: leave SET timestamp, and timestamp in the DSN, alone",
	errDiskFull:           "the server's disk is full: free some space",
	errTableFull:          "the server's disk is full: free some space",
	errStatementTimeMaria: "it took longer than max_statement_time allows",
	errStatementTimeMySQL: "it took longer than max_execution_time allows",
}

// code is the number of an error of the server, or 0.
func code(err error) uint16 {
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		return e.Number
	}
	return 0
}

func conflict(err error) bool {
	switch code(err) {
	case errDeadlock, errGroupRollback, errLockNowait:
		return true
	}
	return false
}

// aboutRow reports whether a row is refused for what would stand in it: by a trigger or a check that somebody has added to the table. Other rows may
// be fine.
func aboutRow(err error) bool {
	var e *mysql.MySQLError
	if !errors.As(err, &e) {
		return false
	}
	switch e.Number {
	case errTriggerTable, errCheckMySQL, errCheckMaria:
		return true
	}
	return string(e.SQLState[:]) == signaled
}

// signaled is the SQLSTATE of an error that a trigger raises.
const signaled = "45000"

// refused reports whether what was asked for has surely not been committed: the server has said so, and not while it committed. The numbers from 2000 to
// 2999 are those of a client: a proxy reports with them that it has lost its own connection to the server. Some proxies report errUnknown then.
func refused(err error) bool {
	n := code(err)
	if n >= 2000 && n < 3000 {
		return false
	}
	switch n {
	case 0, errUnknown, errShutdown, errInterrupted, errKilled, errDuringCommit, errStatementTimeMaria, errStatementTimeMySQL:
		return false
	}
	return true
}

// also is an error that is a second one, too, for errors.Is.
type also struct {
	error
	is error
}

func (a also) Is(target error) bool { return errors.Is(a.is, target) }

func (a also) Unwrap() error { return a.error }

// explain adds advice for people to an error of the driver. The result contains no password: the messages of servers and driver name user,
// host, database and table.
func (s *Store) explain(err error) error {
	if err == nil || errors.Is(err, store.ErrClosed) {
		return err
	}
	switch n := code(err); n {
	case 0:
		if s.ctx.Err() != nil {
			return also{fmt.Errorf("%w: %w", store.ErrClosed, err), store.ErrClosed}
		}
		if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
			err = connecting(err)
		}
	case errNoTable, errUnknownColumn, errUnknownTable:
		err = also{fmt.Errorf("%w: run soloist migrate up, or Migrate, with this table's name: %w", store.ErrSchema, err), store.ErrSchema}
	default:
		if text := advice[n]; text != "" {
			err = fmt.Errorf("%w: %s", err, text)
		}
		switch n {
		case errNoDatabasePriv, errPassword, errBadPlugin, errTablePriv, errColumnPriv, errNeedSuper:
			err = also{err, fs.ErrPermission}
		case errNoDatabase, errUnknownDatabase:
			err = also{err, store.ErrUnusable}
		}
	}
	return fmt.Errorf("mysqlstore: %w", err)
}
