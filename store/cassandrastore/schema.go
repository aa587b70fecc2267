package cassandrastore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/casstore"
)

// columns are the columns of the table, with their types.
var columns = map[string]string{
	"name": "text", "holder": "text", "fencing_token": "bigint", "mark": "bigint", "state": "blob", "ttl_ns": "bigint", "released": "boolean",
	"unsure": "boolean", "version": "text", "granted_at": "timestamp", "forget_at": "timestamp",
}

// Migrate implements store.Migrator: it makes the table, and waits until all nodes know it. The keyspace must exist: how many
// copies it has, and where, is the decision of the one that runs the cluster. A table that is not soloist's is left alone.
func (s *Store) Migrate(ctx context.Context) ([]string, error) {
	if err := casstore.Ready(ctx, s.Store); err != nil {
		return nil, err
	}
	b := s.backend
	session, err := b.sessions.get(ctx)
	if err != nil {
		return nil, wrap("connecting", err)
	}
	found, err := look(ctx, b.cfg, session)
	switch {
	case err != nil:
		return nil, err
	case found.replication == nil || found.columns != nil:
		return nil, found.problem(b.cfg)
	}
	if err := query(session, b.cfg.quorum(), b.cql.table).ExecContext(ctx); err != nil {
		return nil, wrap("making the table", err)
	}
	if err := session.AwaitSchemaAgreement(ctx); err != nil {
		return nil, wrap("waiting until all nodes know the table", err)
	}
	return []string{fmt.Sprintf("table %s made", b.cfg.table())}, nil
}

// Schema implements store.Migrator: a statement for cqlsh.
func (s *Store) Schema() string {
	return strings.ReplaceAll(tableCQL, "{table}", s.backend.cfg.table())
}

// problem returns what keeps the table from being used, nil if nothing does.
func (s sight) problem(cfg Config) error {
	switch {
	case s.replication == nil:
		return fmt.Errorf(`cassandrastore: the keyspace %q is not there: make it with "CREATE KEYSPACE %s WITH replication = `+
			`{'class': 'NetworkTopologyStrategy', 'DATACENTER': 3}": %w`, cfg.Keyspace, cfg.Keyspace, store.ErrSchema)
	case s.columns == nil:
		return fmt.Errorf("cassandrastore: the table %s is not there: run `soloist migrate up`: %w", cfg.table(), store.ErrSchema)
	}
	for _, name := range slices.Sorted(maps.Keys(columns)) {
		if kind := s.columns[name]; kind != columns[name] {
			if kind == "" {
				kind = "missing"
			}
			return fmt.Errorf("cassandrastore: the table %s is not soloist's: its column %s is %s, not %s: choose another table: %w",
				cfg.table(), name, kind, columns[name], store.ErrSchema)
		}
	}
	if len(s.key) != 1 || s.key[0] != "name" {
		return fmt.Errorf("cassandrastore: the table %s is not soloist's: its key is (%s), not (name): choose another table: %w",
			cfg.table(), strings.Join(s.key, ", "), store.ErrSchema)
	}
	return nil
}

// A sight is what the server reports about itself, the keyspace and the table.
type sight struct {
	version, datacenter string
	replication         map[string]string // nil without a keyspace
	durableWrites       bool
	columns             map[string]string // their types; nil without a table
	key                 []string
	expiry, grace       int // default_time_to_live and gc_grace_seconds
}

// look asks the server. Every user may read these tables.
func look(ctx context.Context, cfg Config, session *gocql.Session) (sight, error) {
	var found sight
	one := func(into []any, cql string, values ...any) error {
		rows := query(session, gocql.LocalOne, cql, values...).IterContext(ctx)
		rows.Scan(into...)
		return rows.Close()
	}
	err := one([]any{&found.version, &found.datacenter}, `SELECT release_version, data_center FROM system.local WHERE key = 'local'`)
	if err == nil {
		err = one([]any{&found.replication, &found.durableWrites},
			`SELECT replication, durable_writes FROM system_schema.keyspaces WHERE keyspace_name = ?`, cfg.Keyspace)
	}
	if err == nil {
		err = one([]any{&found.expiry, &found.grace},
			`SELECT default_time_to_live, gc_grace_seconds FROM system_schema.tables WHERE keyspace_name = ? AND table_name = ?`, cfg.Keyspace, cfg.Table)
	}
	if err == nil {
		err = found.lookAtColumns(ctx, cfg, session)
	}
	if err != nil {
		return sight{}, wrap("looking at the keyspace and the table", err)
	}
	return found, nil
}

func (s *sight) lookAtColumns(ctx context.Context, cfg Config, session *gocql.Session) error {
	rows := query(session, gocql.LocalOne,
		`SELECT column_name, type, kind FROM system_schema.columns WHERE keyspace_name = ? AND table_name = ?`, cfg.Keyspace, cfg.Table).IterContext(ctx)
	for name, kind, role := "", "", ""; rows.Scan(&name, &kind, &role); {
		if s.columns == nil {
			s.columns = map[string]string{}
		}
		if s.columns[name] = kind; role == "partition_key" || role == "clustering" {
			s.key = append(s.key, name)
		}
	}
	return rows.Close()
}
