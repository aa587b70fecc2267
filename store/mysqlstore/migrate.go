package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/internal/shedlock"
)

// schemaVersion is that of the tables that this package makes and needs.
const schemaVersion = 1

// migrateWait is how long one who migrates waits for another.
const migrateWait = 5 * time.Minute

// Schema is as in store.Migrator.
func (s *Store) Schema() string {
	var b strings.Builder
	for _, statement := range s.schema() {
		b.WriteString(statement + ";\n")
	}
	if s.cfg.ShedLock {
		zone := or(s.cfg.ShedLockZone, "+00:00")
		b.WriteString("-- Where ShedLock's table is there already, the first statement above does nothing. Run these instead of it and before the others, in the time zone\n" +
			"-- of the sessions with which ShedLock has written, and while no lock is held:\n")
		for _, statement := range []string{"SET time_zone = '" + zone + "'", s.text(sqlSchemaText, nil), s.text(sqlSchemaShared, nil)} {
			b.WriteString("-- " + strings.ReplaceAll(statement, "\n", "\n-- ") + ";\n")
		}
	}
	return b.String()
}

// schema returns the statements for an empty database.
func (s *Store) schema() []string {
	statements := []string{s.text(sqlSchemaRecords, nil)}
	if s.cfg.ShedLock {
		statements = append(statements, s.text(sqlSchemaIndex, nil))
	}
	return append(statements, s.text(sqlSchemaMeta, nil), s.begin())
}

func (s *Store) begin() string {
	return s.text(sqlSchemaBegin, fill{"version": intLiteral(schemaVersion)})
}

// Migrate is as in store.Migrator. It needs the rights CREATE, and for a table of ShedLock's ALTER and INDEX, besides those of the
// other calls. The servers cannot undo these statements, so each is made only if what it makes is not there: one that was cut
// off is gone on with.
func (s *Store) Migrate(ctx context.Context) ([]string, error) {
	if err := s.alive(ctx); err != nil {
		return nil, s.explain(err)
	}
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return nil, s.explain(err)
	}
	defer conn.Close()
	defer abandon(conn) // what was set for the session, and the lock, end with it
	m := &migration{s: s, conn: conn}
	if err := m.all(ctx); err != nil {
		return m.did, s.rights(s.explain(fmt.Errorf("making the tables: %w", err)))
	}
	return m.did, nil
}

// rights explains the refusal of a right that only a migration needs.
func (s *Store) rights(err error) error {
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	const grants = "GRANT CREATE, SELECT, INSERT, UPDATE ON the database"
	if s.cfg.ShedLock {
		return fmt.Errorf("%w; migrating needs more rights than working does: %s, and ALTER, INDEX on ShedLock's table", err, grants)
	}
	return fmt.Errorf("%w; migrating needs more rights than working does: %s", err, grants)
}

// A migration brings the tables up to date on its own connection.
type migration struct {
	s    *Store
	conn *sql.Conn
	did  []string
}

func (m *migration) all(ctx context.Context) error {
	if err := m.lock(ctx); err != nil {
		return err
	}
	engines, err := pairs(ctx, m.conn, m.s.aboutTables(sqlTables))
	if err != nil {
		return err
	}
	table, meta := m.s.cfg.Table, m.s.cfg.Table+"_meta"
	switch _, there := engines[strings.ToLower(table)]; {
	case m.s.prepared(ctx, m.conn):
		return &store.InvalidError{What: "table", Value: table, Rule: "is not there, and a table that is shared with ShedLock is: " + sharing}
	case !there:
		err = m.do(ctx, "made the table "+table, m.s.text(sqlSchemaRecords, nil))
	case m.s.cfg.ShedLock:
		_, used := engines[strings.ToLower(meta)]
		err = m.takeOver(ctx, used)
	default:
		err = m.own(ctx)
	}
	if err == nil && m.s.cfg.ShedLock {
		err = m.index(ctx)
	}
	if err != nil {
		return err
	}
	if _, there := engines[strings.ToLower(meta)]; !there {
		if err := m.do(ctx, "made the table "+meta, m.s.text(sqlSchemaMeta, nil)); err != nil {
			return err
		}
	}
	return m.version(ctx)
}

// lock keeps others from migrating at the same time. It ends with the connection, which the server closes when the one who migrates stands still.
func (m *migration) lock(ctx context.Context) error {
	for _, setting := range []string{sqlRollback, "SET autocommit = 1", "SET wait_timeout = " + idle} {
		if _, err := m.conn.ExecContext(ctx, setting); err != nil {
			return err
		}
	}
	var got sql.NullInt64
	name := bytesLiteral(m.s.migrateLock())
	wait := intLiteral(int64(migrateWait / time.Second))
	err := m.conn.QueryRowContext(ctx, "SELECT GET_LOCK(CONVERT("+name+" USING utf8mb4), "+wait+")").Scan(&got)
	if err == nil && got.Int64 != 1 {
		err = fmt.Errorf("another migration has not ended within %v", migrateWait)
	}
	return err
}

// migrateLock is the name of the lock. MySQL takes none of more than 64 characters: the longest names of tables may share one.
func (s *Store) migrateLock() string {
	name := "soloist migrate " + s.cfg.Table
	return name[:min(len(name), 64)]
}

func (m *migration) do(ctx context.Context, what, statement string) error {
	if _, err := m.conn.ExecContext(ctx, statement); err != nil {
		return err
	}
	m.did = append(m.did, what)
	return nil
}

// aboutTables puts the names of the tables into a statement on information_schema.
func (s *Store) aboutTables(statement string) string {
	text := func(name string) string { return "CONVERT(" + bytesLiteral(name) + " USING utf8mb4)" }
	schema := "DATABASE()"
	if s.cfg.Schema != "" {
		schema = text(s.cfg.Schema)
	}
	return s.text(statement, fill{"schema": schema, "table": text(s.cfg.Table), "table_meta": text(s.cfg.Table + "_meta")})
}

// own refuses a table that is there and not soloist's own.
func (m *migration) own(ctx context.Context) error {
	columns, err := pairs(ctx, m.conn, m.s.aboutTables(sqlColumns))
	if err != nil || columns["call_id"] != "" {
		return err
	}
	invalid := &store.InvalidError{What: "table", Value: m.s.cfg.Table, Rule: "is there already, and not soloist's: give another name (table=NAME)"}
	if columns["lock_until"] != "" && columns["locked_by"] != "" {
		invalid.Rule = "is ShedLock's: share it by soloist migrate up --shedlock, and shedlock=true in the URL of each replica (Config.ShedLock); " +
			"or name a table of soloist's own (table=NAME)"
	}
	return invalid
}

// takeOver makes of a table of ShedLock's one that both can use, and keeps its rows. used reports that the second table is there.
func (m *migration) takeOver(ctx context.Context, used bool) error {
	columns, err := pairs(ctx, m.conn, m.s.aboutTables(sqlColumns))
	if err != nil {
		return err
	}
	theirs := m.s.cfg.columns()
	for _, name := range theirs.All() {
		if _, there := columns[strings.ToLower(name)]; !there {
			return fmt.Errorf("the table %s has no column %s, but %s: if ShedLock calls its columns so, name them (%s=NAME,LOCK_UNTIL,LOCKED_AT,LOCKED_BY in the URL, "+
				"Config.ShedLockColumns); else name another table", m.s.cfg.Table, name, strings.Join(slices.Sorted(maps.Keys(columns)), ", "), shedlock.ColumnsOption)
		}
	}
	if _, there := columns["call_id"]; there {
		return m.checkOwn(ctx, used)
	}
	if err := m.checkOrder(ctx, columns); err != nil {
		return err
	}
	// A TIMESTAMP is read in the zone of the session, and ShedLock has written UTC in its own.
	zone := "@@global.time_zone"
	if m.s.cfg.ShedLockZone != "" {
		zone = "'" + m.s.cfg.ShedLockZone + "'"
	}
	if _, err := m.conn.ExecContext(ctx, "SET time_zone = "+zone); err != nil {
		return err
	}
	if err := m.do(ctx, "widened names in "+m.s.cfg.Table, m.s.text(sqlSchemaText, nil)); err != nil {
		return err
	}
	return m.do(ctx, fmt.Sprintf("gave %s the columns of soloist, and times of 6 digits in place of %s", m.s.cfg.Table, columns[strings.ToLower(theirs.LockUntil)]),
		m.s.text(sqlSchemaShared, nil))
}

// ofTimes and ofTexts match the types that the columns of ShedLock may have.
var (
	ofTimes = regexp.MustCompile(`^(timestamp|datetime)`)
	ofTexts = regexp.MustCompile(`char|binary|text`)
)

// checkOrder returns an error if the types of the columns, the keys or the rows of the table show that a column is not what its name is given for: nothing
// has been altered yet.
func (m *migration) checkOrder(ctx context.Context, types map[string]string) error {
	invalid := func(format string, args ...any) error {
		return &store.InvalidError{What: "table", Value: m.s.cfg.Table, Rule: fmt.Sprintf(format, args...) + ": the columns of ShedLock are the lock's name, lock_until, locked_at and locked_by, in this order (" +
			shedlock.ColumnsOption + " in the URL, Config.ShedLockColumns)"}
	}
	theirs := m.s.cfg.columns()
	for name, want := range map[string]*regexp.Regexp{theirs.Name: ofTexts, theirs.LockUntil: ofTimes, theirs.LockedAt: ofTimes, theirs.LockedBy: ofTexts} {
		if kind := types[strings.ToLower(name)]; !want.MatchString(kind) {
			return invalid("is none of ShedLock: the type of its column %s is %s", name, kind)
		}
	}
	keys, err := pairs(ctx, m.conn, m.s.aboutTables(sqlKeys))
	if err != nil {
		return err
	}
	if keys[strings.ToLower(theirs.Name)] == "" {
		return invalid("is none of ShedLock: its column %s alone is no primary key", theirs.Name)
	}
	var backward bool
	if err := m.conn.QueryRowContext(ctx, m.s.text(sqlBackward, nil)).Scan(&backward); err != nil {
		return err
	}
	if backward {
		return invalid("has locks that end before they begin, by the columns %s and %s", theirs.LockUntil, theirs.LockedAt)
	}
	return nil
}

// checkOwn refuses a table that soloist uses alone: its records have other names, and their marks would be forgotten.
func (m *migration) checkOwn(ctx context.Context, used bool) error {
	there, err := m.indexed(ctx)
	if err != nil || there || !used {
		return err
	}
	var named bool
	if err := m.conn.QueryRowContext(ctx, m.s.text(sqlNamed, nil)).Scan(&named); err != nil || named {
		return err
	}
	return &store.InvalidError{What: "table", Value: m.s.cfg.Table, Rule: "is soloist's own, and not shared with ShedLock: " + unsharing}
}

// indexed reports whether the table has the index that one has which is shared with ShedLock.
func (m *migration) indexed(ctx context.Context) (bool, error) {
	indexes, err := pairs(ctx, m.conn, m.s.aboutTables(sqlIndexes))
	_, there := indexes["soloist_record"]
	return there, err
}

func (m *migration) index(ctx context.Context) error {
	if there, err := m.indexed(ctx); err != nil || there {
		return err
	}
	return m.do(ctx, "made an index of the records in "+m.s.cfg.Table, m.s.text(sqlSchemaIndex, nil))
}

// version writes the version of the tables into them.
func (m *migration) version(ctx context.Context) error {
	var version int
	var floor int64
	err := m.conn.QueryRowContext(ctx, m.s.text(sqlVersion, nil)).Scan(&version, &floor)
	switch {
	case err == nil && version >= schemaVersion:
		return nil
	case err != nil && !errors.Is(err, sql.ErrNoRows):
		return err
	}
	return m.do(ctx, fmt.Sprintf("the tables are of version %d", schemaVersion), m.s.begin())
}
