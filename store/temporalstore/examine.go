package temporalstore

import (
	"context"
	"fmt"
	"strings"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc/codes"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/casstore"
)

// An installation is what Temporal says of itself and of the namespace.
type installation struct {
	version  string
	database string // below Temporal, "" if Temporal does not say
	clusters int    // that have the namespace
	state    enums.NamespaceState
	denied   error // why it does not say
}

// inspect asks Temporal. What it may not say is left out.
func (b *backend) inspect(ctx context.Context) (found installation, err error) {
	namespace, err := b.service.DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: b.cfg.Namespace})
	if err = known(err); err != nil {
		if err = wrap("asking for the namespace", err); code(err) != codes.PermissionDenied && code(err) != codes.Unimplemented {
			return found, err
		}
		found.denied = err
	}
	found.clusters = max(1, len(namespace.GetReplicationConfig().GetClusters()))
	found.state = namespace.GetNamespaceInfo().GetState()
	cluster, err := b.service.GetClusterInfo(ctx, &workflowservice.GetClusterInfoRequest{})
	if err = known(err); err != nil && code(err) != codes.PermissionDenied && code(err) != codes.Unimplemented {
		return found, wrap("asking for the cluster", err)
	}
	found.version, found.database = cluster.GetServerVersion(), cluster.GetPersistenceStore()
	return found, nil
}

// durable reports whether the database below Temporal is one that Temporal is operated on.
func (i installation) durable() bool {
	for _, prefix := range []string{"cassandra", "mysql", "postgres"} {
		if strings.HasPrefix(i.database, prefix) {
			return true
		}
	}
	return false
}

// Capabilities implements store.Prober. Fencing is as good as the database below Temporal: what that loses takes its tokens with it.
func (s *Store) Capabilities(ctx context.Context) (store.Capabilities, error) {
	if err := casstore.Ready(ctx, s.Store); err != nil {
		return store.Capabilities{}, err
	}
	found, err := s.backend.inspect(ctx)
	if err != nil {
		return store.Capabilities{}, err
	}
	c := store.Capabilities{
		Backend: strings.TrimSpace("Temporal "+found.version) + ", namespace " + s.backend.cfg.Namespace,
		Scope:   store.ScopeFleet,
		Waiting: store.Promise{Answer: store.No, Why: "waiters ask again"},
	}
	same := func(answer store.Answer, why string) {
		c.Fencing, c.Durable = store.Promise{Answer: answer, Why: why}, store.Promise{Answer: answer, Why: why}
	}
	switch {
	case found.denied != nil:
		same(store.Unknown, found.denied.Error())
	case found.clusters > 1:
		same(store.No, fmt.Sprintf("the namespace is replicated to %d clusters, a moment later: a failover loses the last writes", found.clusters))
	case found.durable():
		c.Fencing = store.Promise{Answer: store.Yes, Why: "all writes of a name are in one history, and the first that replaces a record takes effect"}
		c.Durable = store.Promise{Answer: store.Yes, Why: "Temporal confirms a write when its database, " + found.database + ", has done so"}
	case found.database == "":
		same(store.Unknown, "Temporal does not say what database it is on")
	default:
		same(store.Unknown, "Temporal is on "+found.database+", which is for development")
	}
	return c, nil
}

// Examine implements store.Examiner.
func (s *Store) Examine(ctx context.Context) ([]store.Finding, error) {
	if err := casstore.Ready(ctx, s.Store); err != nil {
		return nil, err
	}
	found, err := s.backend.inspect(ctx)
	if err != nil {
		return nil, err
	}
	if found.denied != nil {
		return []store.Finding{{Subject: "namespace", Found: found.denied.Error(), Level: store.LevelUnknown, Fix: "let the client describe the namespace"}}, nil
	}
	namespace := store.Finding{Subject: "namespace", Found: s.backend.cfg.Namespace + ", registered", Level: store.LevelOK}
	if found.state != enums.NAMESPACE_STATE_REGISTERED {
		namespace.Found, namespace.Level, namespace.Fix = s.backend.cfg.Namespace+", "+found.state.String(), store.LevelError, "use a namespace that is registered"
	}
	replication := store.Finding{Subject: "replication", Found: "one cluster", Level: store.LevelOK}
	if found.clusters > 1 {
		replication = store.Finding{Subject: "replication", Found: fmt.Sprintf("%d clusters", found.clusters), Level: store.LevelWarning,
			Fix: "use a namespace in one cluster: a failover loses the last writes, and with them leases and tokens"}
	}
	database := store.Finding{Subject: "database", Found: found.database, Level: store.LevelOK}
	if !found.durable() {
		database.Level, database.Fix = store.LevelUnknown, "make sure that Temporal is on Cassandra, MySQL or PostgreSQL"
		if found.database == "" {
			database.Found = "Temporal does not say"
		}
	}
	return []store.Finding{namespace, replication, database}, nil
}
