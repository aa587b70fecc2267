package hazelcaststore

import (
	"context"
	"fmt"
	"time"

	"github.com/hazelcast/hazelcast-go-client"
	"github.com/hazelcast/hazelcast-go-client/cluster"
	"github.com/hazelcast/hazelcast-go-client/types"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/casstore"
)

// A Store is a store.Store on a map or a CP group of Hazelcast. It is safe for concurrent use. It is also a store.Chooser, a store.Sweeper, a
// store.Pinger, a store.Clockless, a store.Prober and a store.Examiner.
type Store struct {
	*casstore.Store

	backend    *backend    // nil with Config.CP
	references *references // nil without
}

var (
	_ store.Store    = (*Store)(nil)
	_ store.Chooser  = (*Store)(nil)
	_ store.Sweeper  = (*Store)(nil)
	_ store.Pinger   = (*Store)(nil)
	_ store.Prober   = (*Store)(nil)
	_ store.Examiner = (*Store)(nil)
)

// invocationTimeout is how long after its beginning the client repeats a request by itself: never. It would send the same message once more, with another correlation,
// while a connection that has broken may still be writing it. A request still waits for its reply as long as its context lasts.
const invocationTimeout = time.Nanosecond

// connectTimeout is how long an attempt to connect takes at most, unless the configuration says otherwise.
const connectTimeout = 5 * time.Second

// New returns a store whose client is configured by client. The store makes the client when the first request is made, and again when it has lost
// every connection; Close shuts it down. Settings of client that are about reconnecting and repeating are overruled: a client that has lost the
// cluster is replaced, it repeats no request, and the store repeats reads only. Its listeners are not called, and
// its near caches not used, for what they remember may be old.
//
// It is an error, store.ErrInvalid, if client is not valid or fails over to another cluster, whose records are others, or if cfg is not valid.
func New(client hazelcast.Config, cfg Config) (*Store, error) {
	cfg, err := cfg.filled()
	if err != nil {
		return nil, err
	}
	client = without(client)
	if client.Failover.Enabled {
		return nil, &store.InvalidError{What: "Failover", Value: "true", Rule: "turn it off: another cluster has other records, and would grant what this one has granted"}
	}
	client.Cluster.RedoOperation = false
	client.Cluster.InvocationTimeout = types.Duration(invocationTimeout)
	client.Cluster.ConnectionStrategy.ReconnectMode = cluster.ReconnectModeOff
	if client.Cluster.ConnectionStrategy.Timeout == 0 {
		client.Cluster.ConnectionStrategy.Timeout = types.Duration(connectTimeout)
	}
	if client.Cluster.ConnectionStrategy.Retry == (cluster.ConnectionRetryConfig{}) {
		client.Cluster.ConnectionStrategy.Retry = cluster.ConnectionRetryConfig{InitialBackoff: types.Duration(100 * time.Millisecond), Multiplier: 2}
	}
	if err := client.Validate(); err != nil {
		return nil, &store.InvalidError{What: "client", Value: "of Hazelcast", Rule: "its configuration is not valid: " + err.Error()}
	}
	if cfg.CP {
		if err := reachable(client.Cluster); err != nil {
			return nil, err
		}
		r := newReferences(client, cfg)
		return &Store{Store: casstore.New(r, casstore.Config{CreateFirst: true}), references: r}, nil
	}
	b := newBackend(client, cfg)
	return &Store{Store: casstore.New(b, casstore.Config{CreateFirst: true}), backend: b}, nil
}

// reachable returns an error if the members cannot be found without the client library, which does not make the connections to the CP Subsystem.
func reachable(c cluster.Config) error {
	if c.Cloud.Enabled {
		return &store.InvalidError{What: "CP", Value: "true", Rule: "give the addresses of the members, without Cloud"}
	}
	return nil
}

// enough returns an error if the cluster has too few members. With CP it reads the floor of tokens once, which is never 0 there: so the first grants of this process are
// above it from the start.
func (s *Store) enough(ctx context.Context) error {
	if s.references != nil {
		if s.references.floor.Load() {
			return nil
		}
		err := s.Store.Ping(ctx)
		s.references.floor.Store(err == nil)
		return err
	}
	if s.backend.cfg.MinMembers == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	session, err := s.backend.connector.get(ctx)
	if err != nil {
		return err
	}
	if n := session.members.count(); n < s.backend.cfg.MinMembers {
		return &FewMembersError{Members: n, MinMembers: s.backend.cfg.MinMembers}
	}
	return nil
}

// A FewMembersError reports that nothing was granted or extended because the part of the cluster that this process reaches has too few members.
type FewMembersError struct {
	Members, MinMembers int
}

func (e *FewMembersError) Error() string {
	return fmt.Sprintf("hazelcaststore: this process sees %d members of the cluster, and MinMembers is %d: the cluster may be split, and the other side may have granted the name",
		e.Members, e.MinMembers)
}

// Acquire implements store.Store. With too few members its error is a *FewMembersError.
func (s *Store) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	if err := s.enough(ctx); err != nil {
		return nil, err
	}
	return s.Store.Acquire(ctx, claims)
}

// Choose implements store.Chooser. With too few members its error is a *FewMembersError.
func (s *Store) Choose(ctx context.Context, names []string, claim store.Claim) (int, store.Grant, error) {
	if err := s.enough(ctx); err != nil {
		return 0, store.Grant{}, err
	}
	return s.Store.Choose(ctx, names, claim)
}

// Extend implements store.Store. With too few members every lease is lost, since the other side may grant its name: the error is store.ErrLost and a
// *FewMembersError.
func (s *Store) Extend(ctx context.Context, extensions []store.Extension) ([]error, error) {
	err := s.enough(ctx)
	if few, ok := err.(*FewMembersError); ok { //nolint:errorlint // of enough itself
		errs := make([]error, len(extensions))
		for i := range errs {
			errs[i] = fmt.Errorf("%w: %w", store.ErrLost, few)
		}
		return errs, nil
	}
	if err != nil {
		return nil, err
	}
	return s.Store.Extend(ctx, extensions)
}

// Ping implements store.Pinger. With too few members its error is a *FewMembersError.
func (s *Store) Ping(ctx context.Context) error {
	if s.references == nil {
		if err := s.enough(ctx); err != nil {
			return err
		}
	}
	return s.Store.Ping(ctx)
}
