package mysqlstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/soloist-dev/soloist/store"
)

// Capabilities is as in store.Prober: it looks at the server's settings and at the tables.
func (s *Store) Capabilities(ctx context.Context) (store.Capabilities, error) {
	p, err := s.probe(ctx)
	if err != nil {
		return store.Capabilities{}, err
	}
	waiting := store.Promise{Answer: store.No, Why: fmt.Sprintf(
		"the server cannot report a release: of the processes that wait for a name one looks at it every %v to %v, and the others take turns",
		watchLeast, watchMost)}
	return store.Capabilities{
		Backend: p.backend(), Scope: store.ScopeFleet, Fencing: p.fencing(), Durable: p.durable(), Waiting: waiting,
	}, nil
}

// A probe is what was found at a server. A setting that is not there, or may not be seen, is "".
type probe struct {
	server   *server
	settings map[string]string // by the variable's name in lower case
	engines  map[string]string // of the tables, by name in lower case
	replicas int               // that are connected; -1 when that may not be seen
	standby  bool              // the server replicates from another
	hidden   error             // why the replication of the server could not be read
}

func (p *probe) backend() string {
	kind := "MySQL"
	if p.server.mariadb {
		kind = "MariaDB"
	}
	text := fmt.Sprintf("%s %s, innodb_flush_log_at_trx_commit=%s", kind, p.server.version, p.settings["innodb_flush_log_at_trx_commit"])
	if p.on("log_bin") {
		text += ", sync_binlog=" + p.settings["sync_binlog"]
	}
	return text
}

// on reports whether a setting is so; the servers spell it in two ways.
func (p *probe) on(setting string) bool {
	switch strings.ToLower(p.settings[setting]) {
	case "on", "1", "true", "yes":
		return true
	}
	return false
}

// cluster names the way in which several servers take writes, or returns "".
func (p *probe) cluster() string {
	switch {
	case p.on("wsrep_on"):
		return "Galera"
	case p.settings["group_replication_group_name"] != "":
		return "Group Replication"
	}
	return ""
}

func (p *probe) semisync() bool {
	for _, setting := range []string{"rpl_semi_sync_master_enabled", "rpl_semi_sync_source_enabled"} {
		if p.on(setting) {
			return true
		}
	}
	return false
}

// wrongEngine names a table that is not kept by InnoDB, or returns "".
func (p *probe) wrongEngine() string {
	for table, engine := range p.engines {
		if !strings.EqualFold(engine, "InnoDB") {
			return table
		}
	}
	return ""
}

func (p *probe) fencing() store.Promise {
	no := func(why string) store.Promise { return store.Promise{Answer: store.No, Why: why} }
	durable := p.durable()
	switch {
	case p.readOnly() || p.standby:
		return no("the server is a replica, or read-only: its primary decides")
	case p.wrongEngine() != "":
		return no("the table " + p.wrongEngine() + " is not kept by InnoDB, so nothing is atomic: run soloist migrate up")
	case p.cluster() != "":
		return no(p.cluster() + " decides between servers when a transaction commits; this has not been tested, so it is best effort")
	case p.replicas > 0 && p.semisync():
		return no("a failover can lose grants: semisynchronous replication goes on without its replicas after a while")
	case p.replicas > 0:
		return no("a failover to a replica can lose grants that were answered, and then their tokens are given again")
	case durable.Answer != store.Yes:
		return store.Promise{Answer: durable.Answer, Why: "after a crash tokens could be given again: " + durable.Why}
	case p.replicas < 0:
		return store.Promise{Answer: store.Unknown, Why: fmt.Sprintf("whether the server has replicas may not be seen (%v): "+
			"grant this user REPLICATION MASTER ADMIN on MariaDB, or REPLICATION SLAVE on MySQL", p.hidden)}
	}
	return store.Promise{Answer: store.Yes,
		Why: "one primary without replicas, where InnoDB's row locks order every step, and tokens grow even over sweeps"}
}

func (p *probe) durable() store.Promise {
	flush, double := p.settings["innodb_flush_log_at_trx_commit"], p.settings["innodb_doublewrite"]
	switch {
	case flush == "":
		return store.Promise{Answer: store.Unknown, Why: "the server does not say whether commits are synced"}
	case flush != "1" && flush != "3": // 3 is MariaDB's: two syncs
		return store.Promise{Answer: store.No, Why: "innodb_flush_log_at_trx_commit is " + flush + ", not 1: commits are not synced to the disk"}
	case p.on("log_bin") && p.settings["sync_binlog"] != "1":
		return store.Promise{Answer: store.No, Why: "sync_binlog is " + p.settings["sync_binlog"] +
			", not 1: after a crash the binary log lacks commits, and replicas and recovery by it do too"}
	case double != "" && !p.on("innodb_doublewrite") && !strings.EqualFold(double, "detect_and_recover"): // detect_only mends nothing
		return store.Promise{Answer: store.No, Why: "innodb_doublewrite is " + double + ": a crash can tear pages"}
	}
	return store.Promise{Answer: store.Yes, Why: "every commit is synced to the disk, as far as that honours fsync"}
}

func (p *probe) readOnly() bool {
	for _, setting := range []string{"read_only", "super_read_only", "innodb_read_only"} {
		if p.on(setting) {
			return true
		}
	}
	// MariaDB 12 knows more than on and off.
	switch strings.ToLower(p.settings["read_only"]) {
	case "no_lock", "no_lock_no_admin":
		return true
	}
	return false
}
