package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
)

// settings are the variables that matter. Most are on one kind of server only.
var settings = []string{
	"innodb_flush_log_at_trx_commit", "innodb_doublewrite", "innodb_lock_wait_timeout", "log_bin", "sync_binlog", "binlog_format",
	"read_only", "super_read_only", "innodb_read_only", "wsrep_on", "group_replication_group_name", "rpl_semi_sync_master_enabled",
	"rpl_semi_sync_source_enabled", "tx_isolation", "transaction_isolation", "time_zone", "autocommit", "sql_mode", "max_allowed_packet",
	"max_statement_time", "max_execution_time", "wait_timeout",
}

// probe looks at the server. What may not be seen is left out.
func (s *Store) probe(ctx context.Context) (*probe, error) {
	if err := s.alive(ctx); err != nil {
		return nil, s.explain(err)
	}
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return nil, s.explain(err)
	}
	defer conn.Close()
	p := &probe{}
	if p.server, err = s.serverAt(ctx, conn); err != nil {
		abandon(conn)
		return nil, s.explain(err)
	}
	names := make([]string, len(settings))
	for i, name := range settings {
		names[i] = "'" + name + "'"
	}
	in := " WHERE Variable_name IN (" + strings.Join(names, ", ") + ")"
	if p.settings, err = pairs(ctx, conn, "SHOW VARIABLES"+in); err != nil {
		return nil, s.explain(err)
	}
	if p.engines, err = pairs(ctx, conn, s.aboutTables(sqlTables)); err != nil {
		return nil, s.explain(err)
	}
	p.replication(ctx, conn)
	return p, nil
}

// replication looks for a server above this one, and for servers below.
func (p *probe) replication(ctx context.Context, conn *sql.Conn) {
	// Without ALL, MariaDB lists no connection that has a name.
	above, errAbove := count(ctx, conn, "SHOW ALL REPLICAS STATUS", "SHOW REPLICA STATUS", "SHOW SLAVE STATUS")
	p.standby = above > 0
	below, errBelow := count(ctx, conn, "SHOW REPLICA HOSTS", "SHOW REPLICAS", "SHOW SLAVE HOSTS")
	p.replicas = below
	// A replica that the list does not name still has a thread, which those see that may see all processes.
	if threads, err := count(ctx, conn, "SELECT 1 FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'"); err == nil {
		p.replicas = max(below, threads)
	}
	if p.hidden = errors.Join(errAbove, errBelow); p.hidden != nil && p.replicas == 0 {
		p.replicas = -1
	}
	if !p.on("log_bin") { // nobody can replicate from it
		p.replicas, p.hidden = 0, errAbove
	}
}

// count returns how many rows the first of the statements has that this server knows.
func count(ctx context.Context, conn *sql.Conn, statements ...string) (n int, err error) {
	rows, err := conn.QueryContext(ctx, statements[0])
	if code(err) == errSyntax && len(statements) > 1 {
		return count(ctx, conn, statements[1:]...)
	}
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		n++
	}
	return n, rows.Err()
}

// pairs returns the rows of a statement: the first column, in lower case, to the second.
func pairs(ctx context.Context, conn *sql.Conn, statement string) (map[string]string, error) {
	rows, err := conn.QueryContext(ctx, statement)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	found := map[string]string{}
	for rows.Next() {
		var key string
		var value sql.NullString
		if err := rows.Scan(&key, &value); err != nil {
			return nil, fmt.Errorf("reading the answer to %.40q: %w", statement, err)
		}
		found[strings.ToLower(key)] = value.String
	}
	return found, rows.Err()
}
