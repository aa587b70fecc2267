package pgstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/soloist-dev/soloist/store"

	"github.com/jackc/pgx/v5/pgconn"
)

// errNotReplicated is always unknown: the commit is on the primary, and may be lost with it.
var errNotReplicated = store.AsUnknown(errors.New("the server stopped waiting for its synchronous standby, so a failover may lose what it has committed"))

// errLocked is the error for a row that another transaction kept locked.
var errLocked = errors.New("a transaction that has not ended yet has locked the row")

// The codes of errors that PostgreSQL documents in its appendix A, as far as they mean something to us.
const (
	classConnection = "08"

	codeReadOnly        = "25006"
	codeSerialization   = "40001"
	codeDeadlock        = "40P01"
	codeAmbiguous       = "40003"
	codeUnsupported     = "0A000" // a plan that is stale, or a table that is not logged on a standby
	codeNoStatement     = "26000"
	codeStatementExists = "42P05"
	codeNoTable         = "42P01"
	codeNoColumn        = "42703"
	codeNoSchema        = "3F000"
	codeNoFunction      = "42883"
	codeNoPrivilege     = "42501"
	codeBadPassword     = "28P01"
	codeBadLogin        = "28000"
	codeNoDatabase      = "3D000"
	codeTooMany         = "53300"
	codeDiskFull        = "53100"
	codeCanceled        = "57014"
	codeLockTimeout     = "55P03"
	codeStarting        = "57P03"
	codeUntranslatable  = "22P05"
	codeLimit           = "54000"
)

// advice returns how to correct an error, for the operator of the process.
var advice = map[string]string{
	codeReadOnly: "the server is a standby, or read-only: connect to the primary, with target_session_attrs=read-write in the URL " +
		"to find it among several hosts",
	codeNoPrivilege:    "give this role the right: GRANT SELECT, INSERT, UPDATE, DELETE on the store's tables, and USAGE on their schema",
	codeBadPassword:    "see to the user and the password",
	codeBadLogin:       "the server does not let this user in from here: see to the user and to pg_hba.conf",
	codeNoDatabase:     "make the database, or name another",
	codeTooMany:        "the server has no connection left: raise max_connections, or lower pool_max_conns",
	codeDiskFull:       "the server's disk is full: free some space",
	codeCanceled:       "it took longer than statement_timeout allows, or somebody cancelled it",
	codeLockTimeout:    "it waited for a lock for longer than lock_timeout allows",
	codeStarting:       "the server is starting, stopping or recovering: try again",
	codeUntranslatable: "the database is not in UTF-8: make one with ENCODING 'UTF8'",
}

// kinds are the errors that others are too, for errors.Is: no attempt after them goes better until somebody has changed something.
var kinds = map[string]error{
	codeNoPrivilege: fs.ErrPermission, codeBadPassword: fs.ErrPermission, codeBadLogin: fs.ErrPermission,
	codeNoDatabase: store.ErrUnusable, codeUntranslatable: store.ErrUnusable,
}

// also is an error that is a second one, too, for errors.Is.
type also struct {
	error
	is error
}

func (a also) Is(target error) bool { return errors.Is(a.is, target) }

func (a also) Unwrap() error { return a.error }

// explain adds advice for people to an error of the driver. The result contains no password: the driver's messages name user, database and
// host.
func (s *Store) explain(err error, unknown bool) error {
	var pg *pgconn.PgError
	switch {
	case s.ctx.Err() != nil:
		err = store.ErrClosed
	case errors.Is(err, store.ErrUnknown), errors.Is(err, store.ErrSchema):
	case errors.As(err, &pg) && s.schemaError(pg):
		return fmt.Errorf("%w: run soloist migrate up, or Migrate, with this table's name: %s: %w", store.ErrSchema, s.tables.cfg.Dialect, err)
	case errors.As(err, &pg) && onStandby(pg):
		err = fmt.Errorf("%s: %w: %s", s.tables.cfg.Dialect, err, advice[codeReadOnly])
	case errors.As(err, &pg) && advice[pg.Code] != "":
		err = fmt.Errorf("%s: %w: %s", s.tables.cfg.Dialect, err, advice[pg.Code])
		if kind := kinds[pg.Code]; kind != nil {
			err = also{err, kind}
		}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("asking %s: %w", s.tables.cfg.Dialect, err)
	default:
		err = fmt.Errorf("%s: %w", s.tables.cfg.Dialect, err)
	}
	if unknown {
		return store.AsUnknown(err)
	}
	return err
}

// schemaError reports whether the tables, or columns of them, are not there.
func (s *Store) schemaError(pg *pgconn.PgError) bool {
	switch pg.Code {
	case codeNoTable, codeNoColumn, codeNoSchema:
		return true
	}
	return false
}

// onStandby reports whether the server accepts no writes. Its error differs for a table that is not logged.
func onStandby(pg *pgconn.PgError) bool {
	return pg.Code == codeReadOnly || pg.Code == codeUnsupported && pg.Routine == "get_relation_info"
}

// notificationsFull reports whether a transaction was rolled back because the server's queue of notifications is full: a session listens, and is in a transaction that does not end.
func notificationsFull(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == codeLimit && pg.Routine == "PreCommit_Notify"
}

// stalePlan reports whether a table was altered since the statement was prepared on this connection, which prepares it anew.
func stalePlan(pg *pgconn.PgError) bool {
	return pg.Code == codeUnsupported && (pg.Routine == "RevalidateCachedQuery" || strings.Contains(pg.Message, "cached plan"))
}

// shown is a value of the caller's, in an error.
func shown(v any) string {
	text := fmt.Sprintf("%v", v)
	if len(text) > 60 {
		text = strings.ToValidUTF8(text[:60], "") + "…"
	}
	return fmt.Sprintf("%q", text)
}
