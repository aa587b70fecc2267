package zkstore

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/casstore"
)

// A Store is a store.Store in ZooKeeper. It is safe for concurrent use. It is also a store.Watcher, a store.Chooser, a store.Sweeper, a
// store.Pinger, a store.Clockless, a store.Prober and a store.Examiner.
type Store struct {
	*casstore.Store

	backend *backend
	watches *watches
}

var (
	_ store.Store     = (*Store)(nil)
	_ store.Watcher   = (*Store)(nil)
	_ store.Chooser   = (*Store)(nil)
	_ store.Sweeper   = (*Store)(nil)
	_ store.Pinger    = (*Store)(nil)
	_ store.Clockless = (*Store)(nil)
	_ store.Prober    = (*Store)(nil)
	_ store.Examiner  = (*Store)(nil)
)

// New returns a store on a connection that the caller has made and closes, after the store. It sends no request. It is an error, store.ErrInvalid,
// if conn is nil or cfg is not valid.
//
// When the client of v1.0.4 connects again, it can miss a change of a node that is watched (github.com/go-zookeeper/zk/pull/35). No lease is affected, but a
// waiter may learn of a release as late as without the watch. Go's race detector may report that, also of a first connection. A store of OpenURL is not
// affected: it makes a new client instead.
func New(conn *zk.Conn, cfg Config) (*Store, error) {
	if conn == nil {
		return nil, &store.InvalidError{What: "connection", Value: "nil", Rule: "give a *zk.Conn"}
	}
	return open(given{conn}, cfg)
}

func open(c conns, cfg Config) (*Store, error) {
	cfg, err := cfg.filled()
	if err != nil {
		return nil, err
	}
	b := &backend{conns: c, tree: tree{cfg.Path}, acl: cfg.ACL, lastVersion: lastVersion}
	s := &Store{Store: casstore.New(b, casstore.Config{CreateFirst: true}), backend: b}
	s.watches = newWatches(s)
	return s, nil
}

// Close ends the watches, and closes the connection if the store has opened it. On a connection that the store was given, Close waits for the
// replies to requests that are under way, or for the loss of the connection. Leases that were not released end after their TTL. Calls after
// Close return store.ErrClosed.
func (s *Store) Close() error {
	s.watches.close()
	return s.Store.Close()
}

// ready returns the error of a store that is closed or a context that has ended.
func (s *Store) ready(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.backend.mu.Lock()
	defer s.backend.mu.Unlock()
	if s.backend.closed {
		return store.ErrClosed
	}
	return nil
}
