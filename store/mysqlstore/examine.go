package mysqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// maxSkew is how far the clocks of server and client may be apart before it is worth a word.
const maxSkew = time.Second

// shortIdle is a wait_timeout, in seconds, that a pool does not live well with.
const shortIdle = 30

// roundTrips are measured; the middle one counts.
const roundTrips = 5

// Examine is as in store.Examiner.
func (s *Store) Examine(ctx context.Context) ([]store.Finding, error) {
	p, err := s.probe(ctx)
	if err != nil {
		return nil, err
	}
	x := &examination{s: s, p: p}
	x.version()
	x.role()
	x.schema(ctx)
	x.privileges(ctx)
	x.clock(ctx)
	x.durability()
	x.replication()
	x.sessions()
	x.surroundings(ctx)
	x.add("requests", p.server.carrier.String(), levelIf(p.server.carrier != steps, store.LevelWarning),
		"add multiStatements=true to the DSN: a grant then takes one round trip and not ten")
	x.add("waiting", fmt.Sprintf("polling, every %v to %v while somebody waits", watchLeast, watchMost), store.LevelOK, "")
	return x.findings, nil
}

// An examination collects findings.
type examination struct {
	s        *Store
	p        *probe
	findings []store.Finding
}

func levelIf(good bool, otherwise store.Level) store.Level {
	if good {
		return store.LevelOK
	}
	return otherwise
}

// add adds a finding; what is well needs no fix.
func (x *examination) add(subject, found string, level store.Level, fix string) {
	if level == store.LevelOK {
		fix = ""
	}
	x.findings = append(x.findings, store.Finding{Subject: subject, Found: found, Level: level, Fix: fix})
}

// The first versions with JSON_TABLE and SKIP LOCKED.
var oldest = map[bool][2]int{true: {10, 6}, false: {8, 0}}

func (x *examination) version() {
	var major, minor int
	_, err := fmt.Sscanf(x.p.server.version, "%d.%d", &major, &minor)
	need := oldest[x.p.server.mariadb]
	good := err == nil && slices.Compare([]int{major, minor}, need[:]) >= 0
	kind := MySQL
	if x.p.server.mariadb {
		kind = MariaDB
	}
	x.add("server", kind.String()+" "+x.p.server.version, levelIf(good, store.LevelError), fmt.Sprintf("use %s %d.%d or later", kind, need[0], need[1]))
}

func (x *examination) role() {
	switch {
	case x.p.readOnly():
		x.add("role", "read-only", store.LevelError, "connect to the primary: nothing can be taken here")
	case x.p.standby:
		x.add("role", "replica that takes writes", store.LevelError, "connect to the primary: what is written here reaches nobody else")
	default:
		x.add("role", "primary", store.LevelOK, "")
	}
}

func (x *examination) schema(ctx context.Context) {
	const fix = "run soloist migrate up"
	type version struct{ number, floor int64 }
	found, err := look(ctx, x.s, x.s.text(sqlVersion, nil), func(rows *sql.Rows) (v version, err error) {
		return v, rows.Scan(&v.number, &v.floor)
	})
	switch {
	case err != nil:
		x.add("schema", err.Error(), store.LevelError, fix)
		return
	case len(found) == 0:
		x.add("schema", "of no version", store.LevelError, fix)
		return
	}
	text := fmt.Sprintf("version %d in the table %s", found[0].number, x.s.cfg.Table)
	switch number := found[0].number; {
	case number < schemaVersion:
		x.add("schema", text, store.LevelError, fix)
	case number > schemaVersion:
		x.add("schema", text, store.LevelWarning, fmt.Sprintf("use a newer soloist: this one knows version %d", schemaVersion))
	default:
		x.add("schema", text, store.LevelOK, "")
	}
	if table := x.p.wrongEngine(); table != "" {
		x.add("storage engine", x.p.engines[table]+" keeps "+table, store.LevelError,
			"ALTER TABLE "+x.s.table(table)+" ENGINE = InnoDB: no other keeps transactions")
	} else {
		x.add("storage engine", "InnoDB", store.LevelOK, "")
	}
}

// privileges tries each right on each table, in a way that changes nothing.
func (x *examination) privileges(ctx context.Context) {
	for _, table := range []struct {
		name, column string
		rights       []string
	}{
		{x.s.cfg.Table, "mark", []string{"SELECT", "INSERT", "UPDATE", "DELETE"}},
		{x.s.cfg.Table + "_meta", "floor", []string{"SELECT", "UPDATE"}},
	} {
		name := x.s.table(table.name)
		probes := map[string]string{
			"SELECT": "SELECT " + table.column + " FROM " + name + " WHERE 1 = 0",
			"INSERT": "INSERT INTO " + name + " (" + x.s.cfg.columns().In("name, lock_until, locked_at, locked_by", '`') + ") SELECT '', " + sqlNow + ", " + sqlNow +
				", '' FROM DUAL WHERE 1 = 0",
			"UPDATE": "UPDATE " + name + " SET " + table.column + " = 0 WHERE 1 = 0",
			"DELETE": "DELETE FROM " + name + " WHERE 1 = 0",
		}
		var missing []string
		var other error
		for _, right := range table.rights {
			// not as a change, which looks first whether the tables fit and needs some of these rights for that
			_, err := run(ctx, x.s, nil, false, func(sv *server) []string { return sv.transaction([]string{probes[right]}) }, scanName)
			switch code(err) {
			case errTablePriv, errColumnPriv, errNoDatabasePriv:
				missing = append(missing, right)
			default:
				if err != nil {
					other = err
				}
			}
		}
		subject := "rights on " + table.name
		switch {
		case len(missing) > 0:
			rights := strings.Join(missing, ", ")
			x.add(subject, "without "+rights, store.LevelError, fmt.Sprintf("GRANT %s ON %s TO this user", rights, name))
		case other != nil:
			x.add(subject, other.Error(), store.LevelUnknown, "see to the schema first")
		default:
			x.add(subject, strings.Join(table.rights, ", "), store.LevelOK, "")
		}
	}
}

// clock compares the clocks, and measures round trips by the way.
func (x *examination) clock(ctx context.Context) {
	var trips []time.Duration
	var skew time.Duration
	for range roundTrips {
		start := time.Now()
		micros, err := look(ctx, x.s, x.s.text("SELECT {micros}", nil), func(rows *sql.Rows) (n int64, err error) {
			return n, rows.Scan(&n)
		})
		if err != nil || len(micros) != 1 {
			x.add("clock", fmt.Sprintf("could not be read: %v", err), store.LevelUnknown, "ask again")
			return
		}
		trip := time.Since(start)
		if len(trips) == 0 || trip < slices.Min(trips) {
			skew = time.UnixMicro(micros[0]).Sub(start.Add(trip / 2))
		}
		trips = append(trips, trip)
	}
	slices.Sort(trips)
	x.add("round trip", trips[roundTrips/2].Round(10*time.Microsecond).String(), store.LevelOK, "")
	x.skew(skew)
}

// skew judges how far the server's clock is ahead of this machine's, or behind it.
func (x *examination) skew(skew time.Duration) {
	x.add("clock", fmt.Sprintf("the server's is %v from this machine's", skew.Round(time.Millisecond)),
		levelIf(skew.Abs() <= maxSkew, store.LevelWarning),
		"keep both by NTP; leases go by the server's alone and are not in danger, but schedules go by this machine's")
}

func (x *examination) durability() {
	d := x.p.durable()
	level := map[store.Answer]store.Level{store.Yes: store.LevelOK, store.No: store.LevelWarning, store.Unknown: store.LevelUnknown}[d.Answer]
	x.add("durability", d.Why, level, "set innodb_flush_log_at_trx_commit = 1, innodb_doublewrite = ON and, with a binary log, sync_binlog = 1")
	if format := x.p.settings["binlog_format"]; x.p.on("log_bin") && format != "" {
		x.add("binary log", format, levelIf(!strings.EqualFold(format, "STATEMENT"), store.LevelError),
			"set binlog_format to ROW or MIXED: InnoDB refuses READ COMMITTED with STATEMENT")
	}
}

func (x *examination) replication() {
	p := x.p
	const fix = "a failover can lose grants, so there is no fencing over it: have resources keep the highest token themselves"
	switch {
	case p.cluster() != "":
		x.add("replication", p.cluster(), store.LevelWarning, "have all replicas use one server; "+fix)
	case p.replicas < 0:
		x.add("replication", fmt.Sprintf("may not be seen: %v", p.hidden), store.LevelUnknown,
			"GRANT REPLICATION MASTER ADMIN (MariaDB) or REPLICATION SLAVE (MySQL) ON *.* TO this user, to see it")
	case p.replicas == 0:
		x.add("replication", "no replica is connected", store.LevelOK, "")
	case p.semisync():
		x.add("replication", fmt.Sprintf("%d semisynchronous, which goes on without replicas after a while", p.replicas), store.LevelWarning, fix)
	default:
		x.add("replication", fmt.Sprintf("%d asynchronous", p.replicas), store.LevelWarning, fix)
	}
}

func (x *examination) sessions() {
	v := x.p.settings
	x.add("isolation level", or(v["transaction_isolation"], v["tx_isolation"])+"; requests run at READ COMMITTED", store.LevelOK, "")
	x.add("session time zone", v["time_zone"]+"; times are kept in UTC", store.LevelOK, "")
	packet, _ := strconv.ParseInt(v["max_allowed_packet"], 10, 64)
	x.add("max_allowed_packet", v["max_allowed_packet"], levelIf(packet == 0 || packet >= 1<<20, store.LevelWarning),
		"set it to 1M at least: a large state is refused otherwise")
	x.add("lock timeout", v["innodb_lock_wait_timeout"]+" s", levelIf(v["innodb_lock_wait_timeout"] != "0", store.LevelWarning),
		"set innodb_lock_wait_timeout to a second at least: new names that two ask for at once are refused otherwise")
	idle, _ := strconv.Atoi(v["wait_timeout"])
	x.add("idle timeout", v["wait_timeout"]+" s", levelIf(idle == 0 || idle >= shortIdle, store.LevelWarning), fmt.Sprintf(
		"set wait_timeout to %d at least: connections are closed between one renewal and the next, and made again each time", shortIdle))
	limit := or(v["max_statement_time"], v["max_execution_time"])
	seconds, _ := strconv.ParseFloat(limit, 64)
	x.add("statement timeout", or(limit, "none"), levelIf(seconds == 0 || !x.p.server.mariadb || seconds >= 1, store.LevelWarning),
		"set max_statement_time to 0, or to a second at least: requests that it cuts off are of unknown outcome")
}
