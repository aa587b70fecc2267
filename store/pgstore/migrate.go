package pgstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/internal/shedlock"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Migrate is as in store.Migrator. It is one transaction, in which no other Migrate of the table is at work. With Config.ShedLock a table
// that ShedLock has used until now is altered in place; its rows stay, and ShedLock goes on using it. It needs the right to create in
// the schema, and for a table that is there its ownership.
func (s *Store) Migrate(ctx context.Context) ([]string, error) {
	if err := s.alive(ctx); err != nil {
		return nil, err
	}
	if s.prepared(ctx) {
		return nil, &store.InvalidError{What: "table", Value: s.tables.records, Rule: "is not there, and a table that is shared with ShedLock is: " + sharing}
	}
	for try := 0; ; try++ {
		m := &migration{tables: s.tables}
		err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			m.tx = tx
			return m.run(ctx)
		})
		if err == nil {
			return m.did, nil
		}
		if !concurrent(err) || pause(ctx, try) != nil {
			return nil, s.explain(s.rights(err), false)
		}
	}
}

// rights explains the refusal of a right that only a migration needs.
func (s *Store) rights(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != codeNoPrivilege {
		return err
	}
	schema := s.tables.schema
	if schema == "" {
		schema = "public (or the first of search_path)"
	}
	return also{fmt.Errorf("%s: %w: migrating needs more rights than working does: GRANT USAGE, CREATE ON SCHEMA %s to this role, CREATE on the database if the schema is not there, "+
		"and the ownership of tables that are there; or let the role that owns them run soloist migrate up, or what soloist migrate print prints", s.tables.cfg.Dialect, fault{pg}, schema), fs.ErrPermission}
}

// fault is an error of the server's that has been explained.
type fault struct{ pg *pgconn.PgError }

func (f fault) Error() string { return f.pg.Error() }

// concurrent reports whether somebody else has migrated at the same time: look again.
func concurrent(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return false
	}
	switch pg.Code {
	case codeSerialization, codeDeadlock, "42P07", "42P06", "23505": // the table, or schema, or row of a catalogue, is there already
		return true
	}
	return false
}

// A migration is one run of Migrate.
type migration struct {
	tables
	tx  pgx.Tx
	did []string
}

func (m *migration) run(ctx context.Context) error {
	if err := m.lock(ctx); err != nil {
		return err
	}
	if err := m.makeSchema(ctx); err != nil {
		return err
	}
	version, err := m.version(ctx)
	switch {
	case err != nil:
		return err
	case version > schemaVersion:
		return fmt.Errorf("%w: they are of version %d, and this program knows %d: use a newer one", store.ErrSchema, version, schemaVersion)
	}
	if err := m.makeRecords(ctx, version); err != nil {
		return err
	}
	if version < 2 && m.lined() {
		if err := m.do(ctx, "schema/line", "made table %s", m.line); err != nil {
			return err
		}
	}
	if err := m.makeFloor(ctx, version); err != nil {
		return err
	}
	switch {
	case version == 0:
		err = m.do(ctx, "schema/meta", "made table %s, schema version %d", m.meta, schemaVersion)
	case version < schemaVersion:
		err = m.do(ctx, "schema/version", "schema version %d", schemaVersion)
	}
	if err != nil {
		return err
	}
	if m.cfg.ShedLock && m.cfg.Dialect == PostgreSQL {
		return m.makeFence(ctx)
	}
	return nil
}

// lock lets one migration of a table run at a time. CockroachDB has no such locks: there the transaction is run again.
func (m *migration) lock(ctx context.Context) error {
	if m.cfg.Dialect == CockroachDB {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, migrationPatience)
	defer cancel()
	for try := 0; ; try++ {
		var got bool
		const take = "SELECT pg_try_advisory_xact_lock(hashtextextended($1::text, $2::bigint))"
		err := brief(ctx, func(ctx context.Context) error {
			return m.tx.QueryRow(ctx, take, pgx.QueryExecModeExec, m.records, int64(groupBase)).Scan(&got)
		})
		if err != nil || got {
			return err
		}
		if pause(ctx, try) != nil {
			return m.locked(ctx)
		}
	}
}

// migrationPatience bounds how long a migration waits for another one. Every role that may connect can take the lock, so it is not waited for
// without end.
const migrationPatience = time.Minute

// locked returns the error about a lock that another session has kept until ctx ended.
func (m *migration) locked(ctx context.Context) error {
	var pid int
	var role, application string
	by := "another session"
	if brief(ctx, func(ctx context.Context) error {
		return m.tx.QueryRow(ctx, bare("migrating"), pgx.QueryExecModeExec, m.records, int64(groupBase)).Scan(&pid, &role, &application)
	}) == nil {
		by = fmt.Sprintf("the session with pid %d (role %q, application %q)", pid, role, application)
	}
	return fmt.Errorf("%s: %s holds the lock of migrations of %s: if no other migration is running, end that session with pg_terminate_backend, and try again: %w",
		m.cfg.Dialect, by, m.records, context.Cause(ctx))
}

// brief runs a statement that takes no time, and lets it end although ctx has: an end in between would close the connection, on which the
// error is still to be explained.
func brief(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return do(ctx)
}

func (m *migration) makeSchema(ctx context.Context) error {
	if m.schema == "" {
		return nil
	}
	there, err := m.exists(ctx, "SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1::text)", m.schema)
	if err != nil || there {
		return err
	}
	if _, err := m.tx.Exec(ctx, "CREATE SCHEMA "+quote(m.schema)); err != nil {
		return fmt.Errorf("making schema %s: %w", m.schema, err)
	}
	m.did = append(m.did, "made schema "+m.schema)
	return nil
}

// version is that of the schema, 0 without one.
func (m *migration) version(ctx context.Context) (int, error) {
	there, err := m.exists(ctx, "SELECT to_regclass($1::text) IS NOT NULL", m.meta)
	if err != nil || !there {
		return 0, err
	}
	var version int
	err = m.tx.QueryRow(ctx, m.load("meta"), pgx.QueryExecModeExec).Scan(&version)
	return version, err
}

func (m *migration) exists(ctx context.Context, sql string, args ...any) (there bool, err error) {
	return there, m.tx.QueryRow(ctx, sql, unprepared(args)...).Scan(&there)
}

// unprepared has the arguments of a statement that is not to be prepared: it runs once, perhaps through a pooler.
func unprepared(args []any) []any { return append([]any{pgx.QueryExecModeExec}, args...) }

// columnsOfShedLock returns what a table must have to be taken over: the types of its columns by their names, "" where several types will do.
func (t tables) columnsOfShedLock() map[string]string {
	const instant = "timestamp without time zone"
	c := t.cfg.columns()
	return map[string]string{c.Name: "", c.LockUntil: instant, c.LockedAt: instant, c.LockedBy: ""}
}

func (m *migration) makeRecords(ctx context.Context, version int) error {
	rows, err := m.tx.Query(ctx, `SELECT attname::text, format_type(atttypid, NULL) FROM pg_attribute
		WHERE attrelid = to_regclass($1::text) AND attnum > 0 AND NOT attisdropped`, pgx.QueryExecModeExec, m.records)
	if err != nil {
		return err
	}
	types := map[string]string{}
	var column, kind string
	if _, err = pgx.ForEachRow(rows, []any{&column, &kind}, func() error { types[column] = kind; return nil }); err != nil {
		return err
	}
	switch {
	case len(types) == 0:
		return m.do(ctx, "schema/table", "made table %s", m.records)
	case version > 0 && !m.cfg.ShedLock:
		return nil // ours already
	}
	if err := m.checkColumns(types); err != nil {
		return err
	}
	if version > 0 {
		return m.checkOwn(ctx)
	}
	if !m.cfg.ShedLock {
		return &store.InvalidError{What: "table", Value: m.records, Rule: "is ShedLock's: share it by soloist migrate up --shedlock, and shedlock=true in the URL of each replica " +
			"(Config.ShedLock); or name a table of soloist's own (table=NAME)"}
	}
	if err := m.checkTimes(ctx); err != nil {
		return err
	}
	return m.do(ctx, "schema/adopt", "altered table %s: wider columns, and those that soloist needs; its rows stay", m.records)
}

// checkColumns returns an error if a table with columns of these types is not one of ShedLock.
func (m *migration) checkColumns(types map[string]string) error {
	invalid := func(rule string) error {
		return &store.InvalidError{What: "table", Value: m.records, Rule: rule}
	}
	want := m.columnsOfShedLock()
	for _, column := range slices.Sorted(maps.Keys(want)) {
		switch kind := types[column]; {
		case kind == "" && m.cfg.ShedLock:
			return invalid(fmt.Sprintf("has no column %s, but %s: if ShedLock calls its columns so, name them (%s=NAME,LOCK_UNTIL,LOCKED_AT,LOCKED_BY in the URL, "+
				"Config.ShedLockColumns); else give another table name", column, strings.Join(slices.Sorted(maps.Keys(types)), ", "), shedlock.ColumnsOption))
		case kind == "" || want[column] != "" && kind != want[column]:
			return invalid(fmt.Sprintf("is there already and is none of soloist or ShedLock: the type of its column %s is %q; drop it, alter it, or give another table name",
				column, kind))
		}
	}
	return nil
}

// checkOwn refuses a table that soloist uses alone: its records have other names, and their marks would be forgotten.
func (m *migration) checkOwn(ctx context.Context) error {
	if m.cfg.Dialect == CockroachDB { // where no trigger is made
		return nil
	}
	var version int
	var shared, own bool
	err := m.tx.QueryRow(ctx, m.load("fit"), unprepared([]any{m.records, m.cfg.Table + "_fence"})...).Scan(&version, &shared, &own)
	if err != nil || !own {
		return err
	}
	return &store.InvalidError{What: "table", Value: m.records, Rule: "is soloist's own, and not shared with ShedLock: " + unsharing}
}

// checkTimes returns an error if the rows of ShedLock's table show that its times are given in the wrong order. Their types are the same.
func (m *migration) checkTimes(ctx context.Context) error {
	var backward bool
	if err := m.tx.QueryRow(ctx, m.load("backward"), pgx.QueryExecModeExec).Scan(&backward); err != nil || !backward {
		return err
	}
	c := m.cfg.columns()
	return &store.InvalidError{What: "table", Value: m.records, Rule: fmt.Sprintf("has locks that end before they begin, by the columns %s and %s: the columns of ShedLock are the lock's name, "+
		"lock_until, locked_at and locked_by, in this order (%s in the URL, Config.ShedLockColumns)", c.LockUntil, c.LockedAt, shedlock.ColumnsOption)}
}

// makeFloor makes the table of floors. Until version 3 the floor was in another one, which had no secret.
func (m *migration) makeFloor(ctx context.Context, version int) error {
	if version >= 3 {
		return nil
	}
	if err := m.do(ctx, "schema/floor", "made table %s", m.floor); err != nil || version == 0 {
		return err
	}
	if err := m.do(ctx, "schema/floor_from_meta", "moved the floor of the tokens from %s", m.meta); err != nil {
		return err
	}
	return m.do(ctx, "schema/secret", "drew a secret for %s, with which notifications are sealed", m.meta)
}

// makeFence makes the trigger that gives tokens to locks that ShedLock takes, unless it is there as it should be.
func (m *migration) makeFence(ctx context.Context) error {
	// The function runs with its own search_path, so it needs to know where the table is.
	var schema, now string
	if err := m.tx.QueryRow(ctx, `SELECT n.nspname::text FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
		WHERE c.oid = to_regclass($1::text)`, pgx.QueryExecModeExec, m.meta).Scan(&schema); err != nil {
		return err
	}
	text := m.in(strings.ReplaceAll(schema, `"`, `""`)).load("schema/fence")
	err := m.tx.QueryRow(ctx, `SELECT p.prosrc FROM pg_trigger AS t JOIN pg_proc AS p ON p.oid = t.tgfoid
		WHERE t.tgrelid = to_regclass($1::text) AND t.tgname = $2::text AND t.tgenabled <> 'D'`, pgx.QueryExecModeExec, m.records, m.cfg.Table+"_fence").Scan(&now)
	if err == nil && strings.Contains(text, now) {
		return nil
	}
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	return m.script(ctx, text, "made trigger %s, which gives fencing tokens to locks that ShedLock takes", m.cfg.Table+"_fence")
}

// do runs a file of statements and notes what that did.
func (m *migration) do(ctx context.Context, file, did string, args ...any) error {
	return m.script(ctx, m.load(file), did, args...)
}

func (m *migration) script(ctx context.Context, text, did string, args ...any) error {
	if _, err := m.tx.Exec(ctx, text, pgx.QueryExecModeSimpleProtocol); err != nil {
		return err
	}
	m.did = append(m.did, fmt.Sprintf(did, args...))
	return nil
}

// Schema is as in store.Migrator.
func (s *Store) Schema() string {
	var b strings.Builder
	if s.tables.schema != "" {
		fmt.Fprintf(&b, "CREATE SCHEMA IF NOT EXISTS %s;\n\n", quote(s.tables.schema))
	}
	files := []string{"schema/table", "schema/floor", "schema/meta"}
	if s.tables.cfg.ShedLock {
		files = slices.Insert(files, 1, "schema/adopt")
	}
	if s.tables.lined() {
		files = append(files, "schema/line")
	}
	t := s.tables
	if t.cfg.ShedLock && t.cfg.Dialect == PostgreSQL {
		files = append(files, "schema/fence")
		if t.schema == "" {
			b.WriteString("-- The function below finds its table in the schema public.\n")
			t = t.in("public")
		}
	}
	for _, file := range files {
		text := t.fill(commented(file))
		if file == "schema/table" && t.cfg.ShedLock { // it may be there
			text = strings.Replace(text, "CREATE TABLE ", "CREATE TABLE IF NOT EXISTS ", 1)
		}
		b.WriteString(text + "\n\n")
	}
	return strings.TrimSpace(b.String()) + "\n"
}
