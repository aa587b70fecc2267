package sqlitestore

import (
	"embed"

	"github.com/soloist-dev/soloist/store/internal/sqlshared"
)

//go:embed sql/*.sql
var sqlFiles embed.FS

// The statements. The first comment of each file describes its parameters and its result.
var (
	sqlSchema        = load("schema")
	sqlInspect       = load("inspect")
	sqlForeign       = load("foreign")
	sqlSettings      = load("settings")
	sqlMeta          = load("meta")
	sqlFloor         = load("floor")
	sqlMetaInsert    = load("meta_insert")
	sqlMetaWall      = load("meta_wall")
	sqlMetaFloor     = load("meta_floor")
	sqlRebaseMeta    = load("rebase_meta")
	sqlRebaseRecords = load("rebase_records")
	sqlRecord        = load("record")
	sqlTake          = load("take")
	sqlRetake        = load("retake")
	sqlExtend        = load("extend")
	sqlRelease       = load("release")
	sqlList          = load("list")
	sqlForgettable   = load("forgettable")
	sqlForget        = load("forget")
	sqlLast          = load("last")
	sqlVersion       = load("version")
)

const (
	sqlBegin    = "BEGIN IMMEDIATE" // takes the file's write lock at once, so that what is read stays true until the commit
	sqlCommit   = "COMMIT"
	sqlRollback = "ROLLBACK"
)

// load returns a statement without its comments: the driver keeps a statement prepared only if nothing follows it.
func load(name string) string { return sqlshared.Statement(sqlFiles, name) }
