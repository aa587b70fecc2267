package redisstore

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/redis/go-redis/v9"

	"github.com/soloist-dev/soloist/store"
)

// Config configures how a store keeps its records. The zero value is useful.
type Config struct {
	// Prefix begins all keys and channels: 1 to 64 printable bytes without braces. The default is "soloist". Replicas that are to
	// exclude each other need the same one.
	Prefix string

	// Share is the key under which other libraries lock a name by SET NX PX, with one * in the place of the name: "*" for redsync, redislock and others
	// whose key is the name. That of ShedLock, and which names are shared, is in docs/stores/redis.md. The default shares nothing. Not for a cluster.
	Share string

	// Redisson shares locks with Redisson's RLock and RFencedLock of the same name: of the name "report", with the lock "report". Not
	// together with Share, and not for a cluster. See docs/stores/redis.md.
	Redisson bool

	// Wait is how many replicas of the server must have received a grant or an extension before it counts (the command WAIT); 0 asks for none. One
	// that too few have received within WaitTimeout is an unknown outcome. It makes losing a grant in a failover less likely,
	// not impossible: see docs/stores/redis.md. Not for a cluster.
	Wait int

	// WaitTimeout bounds WAIT. 0 means 1 s.
	WaitTimeout time.Duration
}

// A Store keeps its records in Redis. It is safe for use by many goroutines at once.
type Store struct {
	client  redis.UniversalClient
	cfg     Config
	own     bool // the client is ours to close
	single  bool // the client sends a request at most once
	secure  bool // TLS
	parts   []bucket
	scripts scripts
	tags    string        // how the tags of this store's requests begin
	asked   atomic.Uint64 // requests

	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	watches watches
	lines   lines
	close   func() error // once

	mu     sync.Mutex // held to begin a call, so that none begins once Close waits for them
	closed bool
	calls  sync.WaitGroup
}

var (
	_ store.Store    = (*Store)(nil)
	_ store.Watcher  = (*Store)(nil)
	_ store.Queuer   = (*Store)(nil)
	_ store.Chooser  = (*Store)(nil)
	_ store.Pager    = (*Store)(nil)
	_ store.Pinger   = (*Store)(nil)
	_ store.Sweeper  = (*Store)(nil)
	_ store.Prober   = (*Store)(nil)
	_ store.Examiner = (*Store)(nil)
)

// New makes a store on a client, which the caller must close after the store. It sends nothing to the server. The client must be a *redis.Client or a
// *redis.ClusterClient itself: the settings of one that wraps it cannot be seen.
//
// A request ends with the deadline of its context, or with the client's ReadTimeout if that is sooner. So the client must have ContextTimeoutEnabled,
// and neither ReadTimeout nor WriteTimeout may be -2, which go-redis reads as "set no deadlines". MaxRetries must be -1: a client that repeats requests by
// itself reports the error of the last attempt only. go-redis does not look at the cancellation of a
// context while a request is under way: a cancelled call returns with the reply, or at the deadline. soloist's client gives every request a
// deadline (Config.RequestTimeout).
func New(client redis.UniversalClient, cfg Config) (*Store, error) {
	if client == nil {
		return nil, &store.InvalidError{What: "client", Value: "nil", Rule: "give one, such as redis.NewClient makes"}
	}
	cfg = cfg.defaulted()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	s := &Store{client: client, cfg: cfg}
	n := 1
	switch c := client.(type) {
	case *redis.Client:
		o := c.Options()
		if err := checkRequests(o.ContextTimeoutEnabled, o.ReadTimeout, o.WriteTimeout, o.MaxRetries); err != nil {
			return nil, err
		}
		s.single, s.secure = true, o.TLSConfig != nil
	case *redis.ClusterClient:
		if cfg.shared() != "" || cfg.Wait > 0 {
			return nil, &store.InvalidError{What: "client", Value: "a redis.ClusterClient",
				Rule: "with Share, Redisson or Wait it must be one server's: the keys of both sides would have to be in one slot, and WAIT goes to one node"}
		}
		o := c.Options()
		if err := checkRequests(o.ContextTimeoutEnabled, o.ReadTimeout, o.WriteTimeout, o.MaxRetries); err != nil {
			return nil, err
		}
		n = buckets
		s.single, s.secure = o.MaxRedirects <= 0, o.TLSConfig != nil // it follows redirections by repeating
	case *redis.Ring:
		return nil, &store.InvalidError{What: "client", Value: "a redis.Ring",
			Rule: "its shards do not know of each other, so a shard that comes back would grant what another has: give a Client or a ClusterClient"}
	default:
		return nil, &store.InvalidError{What: "client", Value: fmt.Sprintf("a %T", client),
			Rule: "its settings cannot be seen, so its requests may have no end or be repeated: give the Client or ClusterClient itself, and watch it by AddHook"}
	}
	if s.parts, s.scripts = newBuckets(cfg.Prefix, n), aloneScripts; s.sharing() {
		s.scripts = sharingScripts
	}
	s.tags = rand.Text()[:12] + "-"
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.watches.store, s.watches.every = s, markEvery
	s.lines.init(s)
	s.close = sync.OnceValue(s.end)
	return s, nil
}

// checkRequests refuses a client whose requests do not end with their contexts' deadlines, or which repeats them by itself.
func checkRequests(enabled bool, read, write time.Duration, retries int) error {
	switch {
	case !enabled:
		return &store.InvalidError{What: "client", Value: "a client without ContextTimeoutEnabled",
			Rule: "set ContextTimeoutEnabled in its options: otherwise a request to a server that hangs outlives the deadline of its context"}
	case read < 0 || write < 0:
		return &store.InvalidError{What: "client", Value: "a client with a ReadTimeout or WriteTimeout of -2",
			Rule: "give a time, or -1 for no bound but the context's: with -2 its connections get no deadlines at all"}
	case retries > 0:
		return &store.InvalidError{What: "client", Value: fmt.Sprintf("a client with MaxRetries %d", retries),
			Rule: "set MaxRetries to -1 in its options: soloist repeats requests itself, and knows then which of them had no effect"}
	}
	return nil
}

func (c Config) defaulted() Config {
	if c.Prefix == "" {
		c.Prefix = "soloist"
	}
	if c.WaitTimeout == 0 {
		c.WaitTimeout = time.Second
	}
	return c
}

// mostShare is how many bytes Config.Share has at most.
const mostShare = 255

func (c Config) check() error {
	bad := func(what, value, rule string) error { return &store.InvalidError{What: what, Value: value, Rule: rule} }
	if len(c.Prefix) > 64 || strings.ContainsFunc(c.Prefix, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '{' || r == '}' }) {
		return bad("prefix", fmt.Sprintf("%q", c.Prefix), "must be 1 to 64 printable ASCII characters without spaces and braces")
	}
	if c.Share != "" && c.Redisson {
		return bad("redisson", "true", "must not be together with share: a name would have two keys")
	}
	if c.Share != "" && (strings.Count(c.Share, "*") != 1 || len(c.Share) > mostShare || strings.ContainsFunc(c.Share, unicode.IsSpace)) {
		return bad("share", fmt.Sprintf("%q", c.Share), "must be the key of the other library with one * in the place of the lock's name, such as locks:*, "+
			"without spaces and of at most 255 bytes")
	}
	if c.Wait < 0 || c.Wait > 100 {
		return bad("wait", fmt.Sprint(c.Wait), "must be 0 to 100 replicas")
	}
	if c.WaitTimeout < time.Millisecond || c.WaitTimeout > time.Minute {
		return bad("wait timeout", c.WaitTimeout.String(), "must be between 1ms and 1m")
	}
	return nil
}

// Close ends the watches and waits for the calls under way. The client is closed only if the store has made it: calls under way then end
// at once.
func (s *Store) Close() error { return s.close() }

func (s *Store) end() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.watches.close()
	var err error
	if s.own {
		err = s.client.Close()
	}
	s.calls.Wait()
	if err != nil {
		return fmt.Errorf("redisstore: closing the client: %w", err)
	}
	return nil
}

// enter begins a call that Close waits for; s.calls.Done ends it. It returns false once the store is closed.
func (s *Store) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.calls.Add(1)
	}
	return !s.closed
}

// alive returns the reason why a call cannot begin, or nil.
func (s *Store) alive(ctx context.Context) error {
	if s.ctx.Err() != nil {
		return store.ErrClosed
	}
	return ctx.Err()
}

// Ping is as in store.Pinger.
func (s *Store) Ping(ctx context.Context) error {
	_, err := ask(ctx, s, func(ctx context.Context) (string, error) { return s.client.Ping(ctx).Result() })
	return err
}

// ask makes a call that changes nothing.
func ask[A any](ctx context.Context, s *Store, call func(context.Context) (A, error)) (reply A, err error) {
	if err := s.alive(ctx); err != nil {
		return reply, err
	}
	if !s.enter() {
		return reply, store.ErrClosed
	}
	defer s.calls.Done()
	err = unharmed(func() (err error) { reply, err = call(ctx); return err })
	err, _ = s.classify(err)
	return reply, overdue(ctx, err)
}
