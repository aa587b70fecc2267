package mysqlstore

import (
	"embed"
	"strconv"
	"strings"

	"github.com/soloist-dev/soloist/store/internal/shedlock"
	"github.com/soloist-dev/soloist/store/internal/sqlshared"
	"github.com/soloist-dev/soloist/store/internal/tokens"
)

//go:embed sql/*.sql
var sqlFiles embed.FS

// A statement is the text of a file with {names} where something is to be put. The comment of each file says what, and what comes
// back.
var (
	sqlWanted        = load("wanted")
	sqlWantedOne     = load("wanted_one")
	sqlAbsent        = load("absent")
	sqlAbsentChoice  = load("absent_choice")
	sqlAbsentOne     = load("absent_one")
	sqlFrom          = load("from")
	sqlFromWanted    = load("from_wanted")
	sqlFromOne       = load("from_one")
	sqlUnless        = load("unless")
	sqlLive          = load("live")
	sqlSound         = load("sound")
	sqlForgettable   = load("forgettable")
	sqlUnshared      = load("unshared")
	sqlTheirs        = load("theirs")
	sqlTheirsLook    = load("theirs_look")
	sqlTokenShared   = load("token_shared")
	sqlMarkShared    = load("mark_shared")
	sqlAcquireTake   = load("acquire_take")
	sqlAcquireMake   = load("acquire_make")
	sqlAcquireLook   = load("acquire_look")
	sqlAcquireTaken  = load("acquire_taken")
	sqlAcquireUsual  = load("acquire_usual")
	sqlExtend        = load("extend")
	sqlRelease       = load("release")
	sqlReleaseUsual  = load("release_usual")
	sqlLeaseChanged  = load("lease_changed")
	sqlLeaseLook     = load("lease_look")
	sqlLeaseEnded    = load("lease_ended")
	sqlList          = load("list")
	sqlListShared    = load("list_shared")
	sqlSights        = load("sights")
	sqlSweepFind     = load("sweep_find")
	sqlSweepFloor    = load("sweep_floor")
	sqlSweepLock     = load("sweep_lock")
	sqlSweepForget   = load("sweep_forget")
	sqlSweepRaise    = load("sweep_raise")
	sqlComplete      = load("complete")
	sqlCompleteLook  = load("complete_look")
	sqlVersion       = load("version")
	sqlSchemaMeta    = load("schema_meta")
	sqlSchemaBegin   = load("schema_begin")
	sqlSchemaRecords = load("schema_records")
	sqlSchemaIndex   = load("schema_index")
	sqlSchemaText    = load("schema_text")
	sqlSchemaShared  = load("schema_shared")
	sqlColumns       = load("columns")
	sqlTables        = load("tables")
	sqlFit           = load("fit")
	sqlTriggers      = load("triggers")
	sqlFuture        = load("future")
	sqlShedLockAhead = load("shedlock_ahead")
	sqlIndexes       = load("indexes")
	sqlKeys          = load("keys")
	sqlBackward      = load("backward")
	sqlNamed         = load("named")
)

// load returns a statement without its comments.
func load(name string) string { return sqlshared.Statement(sqlFiles, name) }

// A fill contains what is put into a statement. All of it was written by literal.go, or is part of this package.
type fill map[string]string

// The server's clock in UTC, which neither the time zone nor the SQL mode of a session changes. It stands still within a statement.
const sqlNow = "UTC_TIMESTAMP(6)"

// constants stand in every fill.
var constants = fill{
	"micros": "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {now})",
	"now":    sqlNow,
	"early":  strconv.FormatInt(shedlock.Early.Milliseconds(), 10),
	"max":    "9223372036854775807",
	"forget": strconv.FormatInt(tokens.Forgettable, 10),
	"all":    "18446744073709551615",
}

// into puts f into a statement, and into what has been put in, with the names of the columns that ShedLock knows. A name that is not there is a
// mistake in this package, which the server will refuse.
func (f fill) into(statement string, columns shedlock.Columns) string {
	var b strings.Builder
	f.write(&b, statement, columns)
	return b.String()
}

func (f fill) write(b *strings.Builder, text string, columns shedlock.Columns) {
	for {
		before, rest, found := strings.Cut(text, "{")
		b.WriteString(columns.In(before, '`'))
		if !found {
			return
		}
		name, after, _ := strings.Cut(rest, "}")
		text = after
		value, known := f[name]
		switch {
		case !known && constants[name] == "":
			b.WriteString("{" + name + "}")
		case !known:
			f.write(b, constants[name], columns)
		case name == "batch": // it has its own braces, and is long
			b.WriteString(value)
		default:
			f.write(b, value, columns)
		}
	}
}
