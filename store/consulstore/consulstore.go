package consulstore

import (
	"context"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/casstore"
)

// A Store is a store.Store in the key-value store of Consul. It is safe for concurrent use. It is also a store.Watcher, a store.Chooser, a store.Sweeper, a
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

// New returns a store. It sends no request. It is an error, store.ErrInvalid, if cfg is not valid.
func New(cfg Config) (*Store, error) {
	cfg, err := cfg.filled()
	if err != nil {
		return nil, err
	}
	b := &backend{client: newClient(cfg)}
	s := &Store{Store: casstore.New(b, casstore.Config{Sequenced: true}), backend: b}
	s.watches = newWatches(s)
	return s, nil
}

// Close ends the requests and watches that are under way. Leases that were not released end after their TTL. Calls after Close return store.ErrClosed.
func (s *Store) Close() error {
	err := s.Store.Close()
	s.watches.close()
	return err
}

// ready returns the error of a store that is closed or a context that has ended.
func (s *Store) ready(ctx context.Context) error {
	if s.backend.closed.Err() != nil {
		return store.ErrClosed
	}
	return ctx.Err()
}
