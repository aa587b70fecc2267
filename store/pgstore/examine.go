package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/internal/shedlock"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// An examination collects findings.
type examination struct {
	*Store
	found []store.Finding
}

func (e *examination) add(level store.Level, subject, fix, found string, args ...any) {
	if len(args) > 0 {
		found = fmt.Sprintf(found, args...)
	}
	e.found = append(e.found, store.Finding{Subject: subject, Found: found, Level: level, Fix: fix})
}

func (e *examination) ok(subject, found string, args ...any) {
	e.add(store.LevelOK, subject, "", found, args...)
}

// Examine is as in store.Examiner.
func (s *Store) Examine(ctx context.Context) ([]store.Finding, error) {
	e := &examination{Store: s}
	if err := e.session(ctx); err != nil {
		return nil, err
	}
	e.risks(ctx)
	if e.schema(ctx) {
		e.recordRisks(ctx)
	}
	e.privileges(ctx)
	if s.tables.cfg.Dialect == PostgreSQL {
		e.replication(ctx)
	}
	e.wait(ctx)
	return e.found, nil
}

// A session is a row of session.sql.
type session struct {
	clock                  int64
	pid                    uint32
	zone, isolation, bytes string
	user                   string
	direct                 bool // the server has the process that it said it had
}

var sqlSession, sqlPrivileges = bare("session"), bare("privileges")

// session looks at the clock, the distance and the session's settings. Its error is that of a server that cannot be asked.
func (e *examination) session(ctx context.Context) error {
	var trips []time.Duration
	var v session
	var skew time.Duration
	for range 6 { // the first connects and is not counted
		begun := time.Now()
		found, err := look(ctx, e.Store, sqlSession, nil, func(rows pgx.Rows) (v session, err error) {
			err = rows.Scan(&v.clock, &v.pid, &v.zone, &v.isolation, &v.bytes, &v.user)
			v.direct = rows.Conn().PgConn().PID() == v.pid
			return v, err
		})
		if v, err = read(e.Store, found, err); err != nil {
			return err
		}
		trip := time.Since(begun)
		skew = time.UnixMicro(v.clock).Sub(begun.Add(trip / 2)).Abs()
		trips = append(trips, trip)
	}
	slices.Sort(trips[1:])
	e.ok("round trip", "%v, the median of %d", trips[1:][len(trips[1:])/2].Round(10*time.Microsecond), len(trips)-1)
	if skew > time.Second {
		e.add(store.LevelWarning, "clock", "leases go by the server's clock alone, so this machine's does no harm; see below whether the server's was set back. Let both keep time by NTP",
			"it differs from this machine's by %v", skew.Round(10*time.Millisecond))
	} else {
		e.ok("clock", "it agrees with this machine's to %v; leases go by the server's clock alone", skew.Round(time.Millisecond))
	}
	if v.bytes != "UTF8" {
		e.add(store.LevelError, "encoding", "names are UTF-8: make a database with ENCODING 'UTF8' TEMPLATE template0", "%s", v.bytes)
	} else {
		e.ok("encoding", "UTF8")
	}
	e.ok("session", "time zone %s, isolation %s: neither matters to leases", v.zone, v.isolation)
	if !v.direct {
		e.add(store.LevelWarning, "pooler", "waiters poll, and statements are not prepared: connect to the server itself if you can",
			"there is a pooler between this process and the server")
	} else {
		e.ok("pooler", "none between this process and the server")
	}
	return nil
}

// schema looks whether the tables are there and of this version.
func (e *examination) schema(ctx context.Context) (good bool) {
	versions, err := look(ctx, e.Store, e.sql.meta, nil, scanInt)
	const fix = "run soloist migrate up"
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &pg) && pg.Code == codeNoPrivilege:
		e.add(store.LevelUnknown, "schema", "", "this role may not read %s", e.tables.meta)
	case e.otherColumns(ctx) != "":
		e.add(store.LevelError, "schema", "give the columns as ShedLock's configuration has them, in the URL of each replica ("+shedlock.ColumnsOption+"=NAME,LOCK_UNTIL,LOCKED_AT,LOCKED_BY, Config.ShedLockColumns), and run soloist migrate up", "%s", e.otherColumns(ctx))
	case errors.Is(err, store.ErrSchema):
		e.add(store.LevelError, "schema", fix, "%s and %s are missing", e.tables.records, e.tables.meta)
	case err != nil:
		e.add(store.LevelUnknown, "schema", "", "%v", err)
	case len(versions) == 0:
		e.add(store.LevelError, "schema", fix+" after dropping the empty table "+e.tables.meta, "%s is empty", e.tables.meta)
	case versions[0] < schemaVersion:
		e.add(store.LevelError, "schema", fix, "version %d; this program needs %d", versions[0], schemaVersion)
	case versions[0] > schemaVersion:
		e.add(store.LevelError, "schema", "use a newer program", "version %d; this program knows %d", versions[0], schemaVersion)
	default:
		good = true
		e.ok("schema", "%s, version %d", e.tables.records, versions[0])
	}
	if err == nil && e.tables.cfg.ShedLock && e.tables.cfg.Dialect == PostgreSQL {
		e.fence(ctx)
	}
	return good
}

var sqlTrigger = `SELECT count(*) FROM pg_trigger WHERE tgrelid = to_regclass($1::text) AND tgname = $2::text AND tgenabled <> 'D'`

// fence looks for the trigger.
func (e *examination) fence(ctx context.Context) {
	found, err := look(ctx, e.Store, sqlTrigger, []any{e.tables.records, e.tables.cfg.Table + "_fence"}, scanInt)
	there, err := read(e.Store, found, err)
	switch {
	case err != nil:
		e.add(store.LevelUnknown, "trigger", "", "%v", err)
	case there == 0:
		e.add(store.LevelWarning, "trigger", "run soloist migrate up", "it is missing: locks that ShedLock takes have no fencing token, and their end wakes nobody")
	default:
		e.ok("trigger", "locks that ShedLock takes get fencing tokens")
		e.jvms(ctx)
	}
}

// A right is a row of privileges.sql.
type right struct {
	table, name string
	has         bool
	role        string
}

// needed are the rights that a role needs, by table.
func (t tables) needed() (names, rights []string) {
	all := []string{"SELECT", "INSERT", "UPDATE", "DELETE"}
	names, rights = slices.Repeat([]string{t.records}, len(all)), all
	names, rights = append(names, slices.Repeat([]string{t.floor}, len(all))...), append(rights, all...)
	names, rights = append(names, t.meta), append(rights, "SELECT")
	if t.lined() {
		names, rights = append(names, slices.Repeat([]string{t.line}, len(all))...), append(rights, all...)
	}
	return names, rights
}

// privileges looks what the role may do with the tables.
func (e *examination) privileges(ctx context.Context) {
	names, rights := e.tables.needed()
	found, err := look(ctx, e.Store, sqlPrivileges, []any{names, rights}, func(rows pgx.Rows) (r right, err error) {
		return r, rows.Scan(&r.table, &r.name, &r.has, &r.role)
	})
	if err != nil {
		e.add(store.LevelUnknown, "privileges", "", "%v", err)
		return
	}
	if len(found) == 0 {
		return // there is no table, which has been said
	}
	role := found[0].role
	var grants, lacks []string
	for _, r := range found {
		if !r.has {
			lacks = append(lacks, r.name+" on "+r.table)
			grants = append(grants, fmt.Sprintf("GRANT %s ON %s TO %s;", r.name, r.table, pgx.Identifier{role}.Sanitize()))
		}
	}
	if len(lacks) > 0 {
		e.add(store.LevelError, "privileges", strings.Join(grants, " "), "role %s lacks %s", role, strings.Join(lacks, ", "))
		return
	}
	e.ok("privileges", "role %s has those that it needs", role)
}

// replication looks at the server, its durability and its standbys.
func (e *examination) replication(ctx context.Context) {
	v, err := e.settings(ctx)
	if err != nil {
		e.add(store.LevelUnknown, "server", "", "%v", err)
		return
	}
	if v.standby || v.readOnly {
		e.add(store.LevelError, "server", advice[codeReadOnly], "PostgreSQL %s, a standby or read-only", v.version)
	} else {
		e.ok("server", "PostgreSQL %s, a primary", v.version)
	}
	found := fmt.Sprintf("fsync %s, full_page_writes %s, synchronous_commit %s", onOff(v.fsync), onOff(v.fullPages), v.commit)
	if d := v.durable(); d.Answer != store.Yes {
		e.add(store.LevelError, "durability", d.Why+": turn it on", "%s", found)
	} else {
		e.ok("durability", "%s", found)
	}
	switch f := v.fencing(); {
	case v.standby || v.readOnly || v.durable().Answer != store.Yes: // has been said
	case f.Answer == store.Yes:
		e.ok("replication", "%s: %s", v.replication(), f.Why)
	case f.Answer == store.No:
		e.add(store.LevelWarning, "replication", "name standbys in synchronous_standby_names, or never promote one without stopping all clients first: "+f.Why,
			"%s", v.replication())
	default:
		e.add(store.LevelUnknown, "replication", f.Why, "%s", v.replication())
	}
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// wait looks how waiters are woken, by beginning to wait.
func (e *examination) wait(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if _, err := e.Watch(ctx, []string{"soloist/examine"}); err != nil {
		e.add(store.LevelUnknown, "waiting", "", "%v", err)
		return
	}
	w := e.waiting()
	if w.Answer == store.Yes {
		e.ok("waiting", "%s", w.Why)
		return
	}
	e.add(store.LevelWarning, "waiting", "it works; a hand-over takes longer, and waiters cost statements", "%s", w.Why)
}
