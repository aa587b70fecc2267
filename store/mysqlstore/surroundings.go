package mysqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// surroundings looks at what lies between this machine and the tables, and at what else writes to them.
func (x *examination) surroundings(ctx context.Context) {
	x.encryption(ctx)
	x.servers(ctx)
	x.triggers(ctx)
	x.future(ctx)
	if x.s.cfg.ShedLock {
		x.jvms(ctx)
	}
}

// jvms adds a finding if ShedLock takes locks by a clock or in a time zone that is ahead of the server's. What is behind looks like an older lock.
func (x *examination) jvms(ctx context.Context) {
	type clock struct{ locks, off, ahead int64 }
	const subject, fix = "clock of ShedLock", "build each JVM's JdbcTemplateLockProvider with usingDbTime(): with times of its own clock and zone, ShedLock and soloist do not exclude each other"
	found, err := look(ctx, x.s, x.s.text(sqlShedLockAhead, nil), func(rows *sql.Rows) (c clock, err error) { return c, rows.Scan(&c.locks, &c.off, &c.ahead) })
	switch {
	case err != nil || len(found) != 1:
		x.add(subject, fmt.Sprintf("could not be looked at: %v", err), store.LevelUnknown, "see to the schema first")
	case found[0].off > 0:
		x.add(subject, fmt.Sprintf("%d of %d locks that ShedLock has taken last have times up to %v ahead of the server's clock: those of a JVM, or of a session in another time zone",
			found[0].off, found[0].locks, fromMicros(found[0].ahead).Round(time.Second)), store.LevelError, fix)
	default:
		x.add(subject, fmt.Sprintf("none of the %d locks that ShedLock has taken last is ahead of the server's; one behind it could not be seen, so each JVM needs usingDbTime()", found[0].locks),
			store.LevelOK, "")
	}
}

// encryption adds a finding if traffic can be read on the network.
func (x *examination) encryption(ctx context.Context) {
	conn, err := x.s.db.Conn(ctx)
	if err != nil {
		x.add("encryption", err.Error(), store.LevelUnknown, "ask again")
		return
	}
	defer conn.Close()
	var host string
	status, err := pairs(ctx, conn, "SHOW SESSION STATUS LIKE 'Ssl_cipher'")
	if err == nil {
		err = conn.QueryRowContext(ctx, "SELECT SUBSTRING_INDEX(USER(), '@', -1)").Scan(&host)
	}
	if err != nil {
		x.add("encryption", err.Error(), store.LevelUnknown, "ask again")
		return
	}
	found, good := encrypted(status["ssl_cipher"], host)
	x.add("encryption", found, levelIf(good, store.LevelWarning),
		"add tls=true to the URL or the DSN: the password's proof and all else can be read and changed on the way")
}

// encrypted judges a connection from a host as the server sees it.
func encrypted(cipher, host string) (found string, good bool) {
	address, err := netip.ParseAddr(host)
	switch {
	case cipher != "":
		return "TLS with " + cipher, true
	case host == "localhost" || err == nil && address.IsLoopback():
		return "none, within this machine", true
	}
	return "none: the server sees this connection come from " + host, false
}

// samples is how many connections are compared.
const samples = 6

// servers looks whether the connections of one address lead to one server.
func (x *examination) servers(ctx context.Context) {
	seen := map[string]time.Time{} // when each was started
	n := samples
	if most := x.s.db.Stats().MaxOpenConnections; most > 0 {
		n = min(n, most)
	}
	asked := 0
	for range n {
		within, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		conn, err := x.s.db.Conn(within)
		if err != nil {
			break // others use the rest
		}
		defer conn.Close() // not before all are open, or they would be the same
		name, started, err := identity(within, conn)
		if err != nil {
			break
		}
		asked++
		meet(seen, name, started)
	}
	switch {
	case asked < 2:
		x.add("servers", fmt.Sprintf("%d connection could be made at a time", asked), store.LevelUnknown, "allow two connections, to see whether they lead to one server")
	case len(seen) > 1:
		x.add("servers", "several behind one address: "+strings.Join(slices.Sorted(maps.Keys(seen)), "; "), store.LevelError,
			"connect to the primary alone: each of them would grant the same names")
	default:
		x.add("servers", fmt.Sprintf("one, by %d connections", asked), store.LevelOK, "")
	}
}

// meet adds a server to those that were seen, unless it is one of them. Those of one name that were not started at the same time are two.
func meet(seen map[string]time.Time, name string, started time.Time) {
	if at, known := seen[name]; known && started.Sub(at).Abs() > 10*time.Second {
		name += fmt.Sprintf(", started %v apart", started.Sub(at).Abs().Round(time.Second))
	}
	if _, known := seen[name]; !known {
		seen[name] = started
	}
}

// identity returns what distinguishes a server from others, and when it was started.
func identity(ctx context.Context, conn *sql.Conn) (name string, started time.Time, err error) {
	variables, err := pairs(ctx, conn, "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('server_uuid', 'server_uid', 'server_id', 'hostname', 'port', 'datadir')")
	if err != nil {
		return "", time.Time{}, err
	}
	status, err := pairs(ctx, conn, "SHOW GLOBAL STATUS LIKE 'Uptime'")
	if err != nil {
		return "", time.Time{}, err
	}
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(variables)) {
		parts = append(parts, key+" "+variables[key])
	}
	seconds, err := strconv.ParseInt(status["uptime"], 10, 64)
	return strings.Join(parts, ", "), time.Now().Add(-time.Duration(seconds) * time.Second), err
}

// triggers looks for what changes the rows when they are written.
func (x *examination) triggers(ctx context.Context) {
	type trigger struct{ name, when string }
	found, err := look(ctx, x.s, x.s.aboutTables(sqlTriggers), func(rows *sql.Rows) (t trigger, err error) {
		return t, rows.Scan(&t.name, &t.when)
	})
	switch {
	case err != nil:
		x.add("triggers", err.Error(), store.LevelUnknown, "ask again")
	case len(found) == 0:
		x.add("triggers", "none that may be seen", store.LevelOK, "")
	}
	for _, t := range found {
		x.add("triggers", t.name+", "+t.when, store.LevelError, "DROP TRIGGER "+t.name+": what it changes or refuses can grant a name twice")
	}
}

// future looks for grants that were made after now, which is what a clock that was set back leaves.
func (x *examination) future(ctx context.Context) {
	found, err := look(ctx, x.s, x.s.text(sqlFuture, nil), func(rows *sql.Rows) (ahead sql.NullInt64, err error) {
		return ahead, rows.Scan(&ahead)
	})
	if err != nil || len(found) != 1 {
		x.add("clock and records", fmt.Sprintf("could not be compared: %v", err), store.LevelUnknown, "see to the schema first")
		return
	}
	ahead := fromMicros(found[0].Int64)
	if ahead <= maxSkew {
		x.add("clock and records", "no grant lies ahead of the server's clock", store.LevelOK, "")
		return
	}
	x.add("clock and records", fmt.Sprintf("a grant lies %v ahead: the server's clock has been set back", ahead.Round(time.Second)), store.LevelError,
		fmt.Sprintf("set the server's clock right: leases that were granted before last %v longer than they should", ahead.Round(time.Second)))
}
