package pgstore

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/soloist-dev/soloist/store"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Times that the server's limits must leave. A commit waits for a disk, which takes seconds when it is busy; a claim of a new name waits
// for somebody else's commit of the same; the transaction of a Completion is as long as its work.
const (
	leastStatement   = 10 * time.Second
	leastLock        = 5 * time.Second
	leastTransaction = 10 * time.Second
)

// identities is how many connections are made to see whether they lead to one server.
const identities = 6

// risks looks at what endangers a store that otherwise works.
func (e *examination) risks(ctx context.Context) {
	e.encryption(ctx)
	e.identity(ctx)
	if e.tables.cfg.Dialect == PostgreSQL {
		e.timeouts(ctx)
	}
}

// recordRisks looks at what endangers the tables, which are there.
func (e *examination) recordRisks(ctx context.Context) {
	e.ahead(ctx)
	if e.tables.cfg.Dialect == PostgreSQL {
		e.foreign(ctx)
	}
}

// encryption looks whether others on the way can read what is said.
func (e *examination) encryption(ctx context.Context) {
	conn, err := e.pool.Acquire(ctx)
	if err != nil {
		e.add(store.LevelUnknown, "encryption", "", "%v", e.explain(err, false))
		return
	}
	defer conn.Release()
	c := conn.Conn().PgConn().Conn()
	if _, encrypted := c.(*tls.Conn); encrypted {
		e.ok("encryption", "TLS")
	} else if local(c.RemoteAddr()) {
		e.ok("encryption", "none, and the server is on this machine")
	} else {
		e.add(store.LevelWarning, "encryption", "turn ssl on at the server, and put sslmode=verify-full into the URL",
			"no TLS to %s: anybody on the network path can read the password or its proof, and read and change records", c.RemoteAddr())
	}
}

// local reports whether nothing leaves this machine on its way to addr.
func local(addr net.Addr) bool {
	switch addr := addr.(type) {
	case *net.UnixAddr:
		return true
	case *net.TCPAddr:
		return addr.IP.IsLoopback()
	}
	return false
}

// identity looks whether several connections lead to one server.
func (e *examination) identity(ctx context.Context) {
	if e.tables.cfg.Dialect == CockroachDB {
		return // its nodes are many, and one
	}
	found := map[string]bool{}
	for n := range identities {
		if n == identities/2 {
			e.knock(ctx)
		}
		id, err := e.identify(ctx)
		if err != nil {
			e.add(store.LevelUnknown, "one server", "", "%v", e.explain(err, false))
			return
		}
		found[id] = true
	}
	if len(found) > 1 {
		e.add(store.LevelError, "one server", "let the address, or target_session_attrs=read-write, lead to one primary: each of several servers grants the same names",
			"%d connections to one address have led to %d servers", identities, len(found))
		return
	}
	e.ok("one server", "%d connections have led to the same", identities)
}

// knock connects and says nothing. Where sslmode=prefer finds no TLS each connection is the second of two, and an address that leads to two
// servers in turns would seem to lead to one.
func (e *examination) knock(ctx context.Context) {
	cfg := e.pool.Config().ConnConfig
	network, addr := pgconn.NetworkAddress(cfg.Host, cfg.Port)
	if c, err := cfg.DialFunc(ctx, network, addr); err == nil {
		_ = c.Close()
	}
}

func (e *examination) identify(ctx context.Context) (id string, err error) {
	conn, err := e.dial(ctx)
	if err != nil {
		return "", err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	return id, conn.QueryRow(ctx, bare("identity")).Scan(&id)
}

// A limit is a row of timeouts.sql.
type limit struct {
	name, written string
	ms            int64
}

// timeouts looks whether the server ends what we need.
func (e *examination) timeouts(ctx context.Context) {
	limits, err := look(ctx, e.Store, bare("timeouts"), nil, func(rows pgx.Rows) (l limit, err error) {
		return l, rows.Scan(&l.name, &l.ms, &l.written)
	})
	if err != nil {
		e.add(store.LevelUnknown, "timeouts", "", "%v", err)
		return
	}
	least := map[string]time.Duration{"statement_timeout": leastStatement, "transaction_timeout": leastStatement, "lock_timeout": leastLock,
		"idle_in_transaction_session_timeout": leastTransaction}
	var long, short, mends []string
	for _, l := range limits {
		text := l.name + " " + l.written
		if need := least[l.name]; time.Duration(l.ms)*time.Millisecond < need {
			short = append(short, text)
			mends = append(mends, fmt.Sprintf("set %s to 0, or to %v at least", l.name, need))
			continue
		}
		long = append(long, text)
	}
	switch {
	case len(short) > 0:
		e.add(store.LevelError, "timeouts", strings.Join(mends, "; ")+", for this role (ALTER ROLE … SET) or in the URL",
			"%s: what takes longer, such as a commit on a busy disk, is refused", strings.Join(short, ", "))
	case len(long) > 0:
		e.ok("timeouts", "%s: what takes longer is refused", strings.Join(long, ", "))
	default:
		e.ok("timeouts", "none of the server's: calls end with their contexts")
	}
}

// An alien is a row of foreign.sql.
type alien struct {
	kind, name, table string
	before            bool
}

// foreign looks for what changes our statements.
func (e *examination) foreign(ctx context.Context) {
	tables := []string{e.tables.records, e.tables.meta, e.tables.floor}
	if e.tables.lined() {
		tables = append(tables, e.tables.line)
	}
	found, err := look(ctx, e.Store, bare("foreign"), []any{tables, e.tables.cfg.Table + "_fence"}, func(rows pgx.Rows) (c alien, err error) {
		return c, rows.Scan(&c.kind, &c.name, &c.table, &c.before)
	})
	if err != nil {
		e.add(store.LevelUnknown, "triggers", "", "%v", err)
		return
	}
	level := store.LevelOK
	var all []string
	for _, c := range found {
		all = append(all, fmt.Sprintf("%s %s on %s", c.kind, shown(c.name), c.table))
		if c.before {
			level = store.LevelError
		} else if level == store.LevelOK {
			level = store.LevelWarning
		}
	}
	switch level {
	case store.LevelError:
		e.add(level, "triggers", "drop what comes before our statements or in their place: it can undo grants and releases", "%s", strings.Join(all, ", "))
	case store.LevelWarning:
		e.add(level, "triggers", "see that it changes none of these tables, and is quick: each claim and release waits for it", "%s", strings.Join(all, ", "))
	default:
		e.ok("triggers", "none but ours on the tables, and no rules")
	}
	e.replicationRole(ctx)
}

// replicationRole looks whether triggers are turned off, ours too.
func (e *examination) replicationRole(ctx context.Context) {
	roles, err := look(ctx, e.Store, "SELECT current_setting('session_replication_role')", nil, func(rows pgx.Rows) (role string, err error) { return role, rows.Scan(&role) })
	if err != nil {
		e.add(store.LevelUnknown, "replication role", "", "%v", err)
		return
	}
	for _, role := range roles {
		if role == "replica" {
			e.add(store.LevelError, "replication role", "set session_replication_role to origin: the trigger that gives tokens to ShedLock's locks does not run for such sessions",
				"session_replication_role is replica")
		}
	}
}

// ahead looks for grants in the future.
func (e *examination) ahead(ctx context.Context) {
	type sight struct{ ahead, floors int64 }
	found, err := look(ctx, e.Store, e.tables.load("ahead"), nil, func(rows pgx.Rows) (s sight, err error) { return s, rows.Scan(&s.ahead, &s.floors) })
	seen, err := read(e.Store, found, err)
	if err != nil {
		e.add(store.LevelUnknown, "clock set back", "", "%v", err)
		return
	}
	if by := span(seen.ahead); by > time.Second {
		e.add(store.LevelError, "clock set back", "leases and lingers that were granted before last longer by that much: let the server keep time by NTP, and release what is stuck by force",
			"the server's clock is %v behind its latest grant", by.Round(time.Millisecond))
	} else {
		e.ok("clock set back", "no grant is ahead of the server's clock")
	}
	if seen.floors == 0 {
		e.add(store.LevelError, "floor", "INSERT INTO "+e.tables.floor+" VALUES ((extract(epoch FROM clock_timestamp()) * 1000000)::bigint); no name without a record can be taken",
			"%s is empty", e.tables.floor)
	}
}
