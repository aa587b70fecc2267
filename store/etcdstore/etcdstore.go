package etcdstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"sync"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/soloist-dev/soloist/store"
)

// A Store is a store.Store in etcd. It is safe for use by many goroutines at once. It is also a store.Queuer, a store.Watcher, a store.Chooser, a
// store.Sweeper, a store.Pinger, a store.Prober, a store.Examiner and a store.Clockless.
type Store struct {
	clients clients
	keys    keys
	sights  sights
	watches watches // of Watch
	turns   watches // of Queue
	inbox   inbox
	vanish  standing // the watch of the ends of sessions
	height  height
	alive   aliveStream
	size    atomic.Int64 // how many names are in one transaction
	checked atomic.Int64 // how many names were looked at by extensions of many, which take turns

	ctx    context.Context // of what runs in the background
	cancel context.CancelFunc
	work   sync.WaitGroup
	poked  chan struct{} // the next end may be earlier
	hurry  chan struct{} // the next session to be kept alive may be earlier

	sweeping chan struct{} // has room for the call of Sweep that sweeps
	cursor   string        // of that call

	mu       sync.Mutex
	closed   bool
	gates    map[int64]chan struct{}
	classes  map[int64]*session  // that names are attached to
	sessions map[string]*session // by their names
	held     map[string]*holding
	ends     ends
	lingers  []*linger
	renewing bool // keepAlive runs
	lapsing  bool // lapse runs
}

var (
	_ store.Store     = (*Store)(nil)
	_ store.Queuer    = (*Store)(nil)
	_ store.Watcher   = (*Store)(nil)
	_ store.Chooser   = (*Store)(nil)
	_ store.Pager     = (*Store)(nil)
	_ store.Sweeper   = (*Store)(nil)
	_ store.Pinger    = (*Store)(nil)
	_ store.Prober    = (*Store)(nil)
	_ store.Examiner  = (*Store)(nil)
	_ store.Clockless = (*Store)(nil)
)

// New returns a store on a client that the caller has made and closes, after the store. It sends no request. It is an error, store.ErrInvalid, if
// client is nil or the prefix cannot be one. Give client a DialKeepAliveTime and a DialKeepAliveTimeout, of seconds: otherwise it does not leave a
// member that is silent, to which its requests go in turn until their contexts end.
func New(client *clientv3.Client, cfg Config) (*Store, error) {
	if client == nil {
		return nil, &store.InvalidError{What: "client", Value: "nil", Rule: "give a *clientv3.Client"}
	}
	return open(given{client}, cfg)
}

func open(c clients, cfg Config) (*Store, error) {
	cfg, err := cfg.filled()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Store{
		clients: c, keys: keys{cfg.Prefix}, ctx: ctx, cancel: cancel, poked: make(chan struct{}, 1), hurry: make(chan struct{}, 1), sweeping: make(chan struct{}, 1), gates: map[int64]chan struct{}{},
		classes: map[int64]*session{}, sessions: map[string]*session{}, held: map[string]*holding{},
	}
	s.turns.idle, s.inbox.id = idleTurns, rand.Text()
	s.inbox.watch.opening, s.vanish.opening = make(chan struct{}, 1), make(chan struct{}, 1)
	s.alive = aliveStream{ctx: ctx, turn: make(chan struct{}, 1)}
	s.size.Store(mostNames)
	return s, nil
}

// Close ends what runs in the background, and closes the client if the store has opened it. Leases that were not released end by themselves, when
// etcd's leases do. Calls after Close return store.ErrClosed.
func (s *Store) Close() error {
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	s.mu.Unlock()
	if closed {
		return nil
	}
	s.cancel()
	s.watches.close()
	s.turns.close()
	s.work.Wait()
	return s.clients.close()
}

// ready returns the error of a store that is closed, of a context that has ended, or of a revision that has fallen.
func (s *Store) ready(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return store.ErrClosed
	}
	return cmp.Or(ctx.Err(), s.wrap("checking the revision", s.height.check()))
}

// background runs a function in a goroutine unless it runs already, or the store is closed. Store.mu is held.
func (s *Store) background(running *bool, run func()) {
	if *running || s.closed {
		return
	}
	*running = true
	s.work.Go(run)
}

// Clockless implements store.Clockless: a lease may end later than after its TTL, if its process has died or was cut off.
func (s *Store) Clockless() {}

// Ping reads a key. The reply is that of a majority.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	client, err := s.clients.get(ctx)
	if err != nil {
		return err
	}
	_, err = s.height.get(ctx, client, s.keys.names(), clientv3.WithKeysOnly())
	return s.wrap("reading", err)
}

// The greatest number of names in one transaction: etcd takes 128 operations in one, unless --max-txn-ops is set, and as many in a
// transaction inside it.
const mostNames = 100

// chunk returns how many names, or operations, are in one transaction.
func (s *Store) chunk() int { return int(s.size.Load()) }

// shrink halves the number of operations in one transaction, after the server has refused n. It returns an error if there are too few already.
func (s *Store) shrink(n int) error {
	if n <= 4 {
		return s.wrap("writing", errTooFewOps)
	}
	half := int64(n / 2)
	for old := s.size.Load(); old > half && !s.size.CompareAndSwap(old, half); old = s.size.Load() {
	}
	return nil
}
