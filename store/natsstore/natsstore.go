package natsstore

import (
	"context"
	"sync"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/casstore"
)

// A Store is a store.Store in a key-value bucket of NATS. It is safe for concurrent use. It is also a store.Watcher, a store.Chooser, a store.Sweeper,
// a store.Pinger, a store.Clockless, a store.Prober, a store.Examiner and a store.Migrator.
type Store struct {
	*casstore.Store

	backend *backend
	watches watches
	closing sync.Once
	closed  chan struct{} // closed by Close
	begin   sync.Mutex    // held to begin work, so that none begins once Close waits for it
	work    sync.WaitGroup
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
	_ store.Migrator  = (*Store)(nil)
)

// New returns a store that uses js, which the caller must close after the store. js may have a domain. It sends no request. The bucket must have been made by
// [Store.Migrate]; the first request checks its settings. It is an error, store.ErrInvalid, if cfg is not valid.
func New(js jetstream.JetStream, cfg Config) (*Store, error) {
	cfg, err := cfg.filled()
	if err != nil {
		return nil, err
	}
	return open(&given{js: js}, cfg), nil
}

func open(l links, cfg Config) *Store {
	b := &backend{links: l, cfg: cfg, subjects: subjects{cfg.Bucket}}
	return &Store{Store: casstore.New(b, casstore.Config{Sequenced: true}), backend: b, watches: watches{leave: drawnFirst}, closed: make(chan struct{})}
}

// Close implements store.Store.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.begin.Lock()
		defer s.begin.Unlock()
		close(s.closed)
	})
	err := s.Store.Close()
	s.work.Wait()
	return err
}

// ready returns the error of a store that is closed or a context that has ended.
func (s *Store) ready(ctx context.Context) error {
	select {
	case <-s.closed:
		return store.ErrClosed
	default:
		return ctx.Err()
	}
}
