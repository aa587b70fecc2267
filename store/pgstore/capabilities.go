package pgstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/soloist-dev/soloist/store"

	"github.com/jackc/pgx/v5"
)

// settings are what decides what can be promised.
type settings struct {
	version           string
	standby, readOnly bool
	fsync, fullPages  bool
	commit            string // synchronous_commit
	names             string // synchronous_standby_names
	standbys, syncs   int64
	told              bool // we may see the state of the standbys
	slots             int64
	warned            bool // we see when a commit is not waited for any more
}

var sqlSettings = bare("settings")

// settings asks a connection of the pool, with the settings of a session that commits.
func (s *Store) settings(ctx context.Context) (settings, error) {
	found, err := look(ctx, s, sqlSettings, nil, func(rows pgx.Rows) (v settings, err error) {
		v.warned = noticesOf(rows.Conn().PgConn()) != nil
		return v, rows.Scan(&v.version, &v.standby, &v.readOnly, &v.fsync, &v.fullPages, &v.commit, &v.names,
			&v.standbys, &v.syncs, &v.told, &v.slots)
	})
	return read(s, found, err)
}

// Capabilities is as in store.Prober: the settings of a session that commits are read, and which standbys there are at this moment.
func (s *Store) Capabilities(ctx context.Context) (store.Capabilities, error) {
	if s.tables.cfg.Dialect == CockroachDB {
		return s.cockroach(ctx)
	}
	v, err := s.settings(ctx)
	if err != nil {
		return store.Capabilities{}, err
	}
	return store.Capabilities{
		Backend: fmt.Sprintf("PostgreSQL %s, synchronous_commit=%s, %s", v.version, v.commit, v.replication()),
		Scope:   store.ScopeFleet,
		Fencing: v.fencing(),
		Durable: v.durable(),
		Waiting: s.waiting(),
	}, nil
}

func (v settings) replication() string {
	switch {
	case v.standby:
		return "a standby"
	case v.names != "":
		return fmt.Sprintf("%d standbys, synchronous_standby_names=%s", v.standbys, v.names)
	case v.standbys > 0:
		return fmt.Sprintf("%d asynchronous standbys", v.standbys)
	}
	return "no standby"
}

// fencing returns for the tokens and the order of claims, over a crash and over a failover.
func (v settings) fencing() store.Promise {
	no := func(why string) store.Promise { return store.Promise{Answer: store.No, Why: why} }
	durable := v.durable()
	switch {
	case v.standby, v.readOnly:
		return no("the server is a standby or read-only: nothing can be claimed")
	case durable.Answer != store.Yes:
		return durable
	case v.names == "" && (v.standbys > 0 || v.slots > 0):
		return no("a standby is asynchronous: when it is promoted, grants that it has not seen are forgotten, and their tokens given again")
	case v.names == "":
		return store.Promise{Answer: store.Yes, Why: "one durable primary orders every step, and no standby is there to be promoted"}
	case v.commit == "local" || v.commit == "remote_write":
		return no("synchronous_commit=" + v.commit + " does not wait until a standby has what is committed on its disk; set it to on")
	case !v.told:
		return store.Promise{Answer: store.Unknown, Why: "this role may not see which standbys are synchronous: GRANT pg_monitor to it"}
	case !v.warned:
		return store.Promise{Answer: store.Unknown, Why: "this pool does not tell when a commit is no longer waited for: give its configuration to pgstore.Prepare"}
	}
	return store.Promise{Answer: store.Yes, Why: "commits wait for synchronous standbys; it holds as long as only one of those is promoted, " +
		"and never while the old primary still answers"}
}

func (v settings) durable() store.Promise {
	var off []string
	if !v.fsync {
		off = append(off, "fsync=off")
	}
	if !v.fullPages {
		off = append(off, "full_page_writes=off")
	}
	if v.commit == "off" {
		off = append(off, "synchronous_commit=off")
	}
	if len(off) > 0 {
		return store.Promise{Answer: store.No, Why: "a crash of the server's machine can lose what was committed: " + strings.Join(off, ", ")}
	}
	return store.Promise{Answer: store.Yes, Why: "every commit waits for the disk, as far as that honours fsync"}
}

func (s *Store) waiting() store.Promise {
	h := &s.hub
	h.mu.Lock()
	cannot := h.cannot
	h.mu.Unlock()
	polls := fmt.Sprintf("watched names are looked at every %v to %v", pollFirst, pollLast)
	switch {
	case s.tables.cfg.Dialect == CockroachDB:
		return store.Promise{Answer: store.No, Why: "CockroachDB has no notifications: " + polls}
	case s.tables.cfg.Listen == ListenOff:
		return store.Promise{Answer: store.No, Why: "notifications are turned off: " + polls}
	case cannot != nil:
		return store.Promise{Answer: store.No, Why: cannot.Error() + ": " + polls}
	}
	if !s.tables.lined() {
		return store.Promise{Answer: store.Yes, Why: "a release notifies those who LISTEN, in its own transaction"}
	}
	return store.Promise{Answer: store.Yes, Why: "a release grants the name to the first in line and notifies it, in its own transaction"}
}

// cockroach returns for CockroachDB, whose settings are other ones.
func (s *Store) cockroach(ctx context.Context) (store.Capabilities, error) {
	found, err := look(ctx, s, "SELECT version(), current_setting('transaction_isolation')", nil,
		func(rows pgx.Rows) (v [2]string, err error) { return v, rows.Scan(&v[0], &v[1]) })
	v, err := read(s, found, err)
	if err != nil {
		return store.Capabilities{}, err
	}
	version, isolation := v[0], v[1]
	c := store.Capabilities{
		Backend: version + ", " + isolation,
		Scope:   store.ScopeFleet,
		Fencing: store.Promise{Answer: store.Yes, Why: "a quorum orders serializable transactions, and an ambiguous commit is told as an unknown outcome"},
		Durable: store.Promise{Answer: store.Yes, Why: "a commit is on the disks of a quorum"},
		Waiting: s.waiting(),
	}
	if isolation != "serializable" {
		c.Fencing = store.Promise{Answer: store.No, Why: "the sessions' isolation is " + isolation + ": set default_transaction_isolation to serializable"}
	}
	if !strings.HasPrefix(version, "CockroachDB") {
		c.Fencing = store.Promise{Answer: store.Unknown, Why: "the server is not CockroachDB: " + version}
		c.Durable = c.Fencing
	}
	return c, nil
}
