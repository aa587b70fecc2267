package redisstore

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/soloist-dev/soloist/store"
)

// Config says how a store keeps its records. The zero value is useful.
type Config struct {
	// Prefix begins all keys and channels: 1 to 64 printable bytes without braces. The default is "soloist". Replicas that are to
	// exclude each other need the same one.
	Prefix string

	// ShedLock, when not "", is the environment of ShedLock's Redis providers ("default" if they name none) with which locks and jobs are
	// shared: of the name "report", with ShedLock's lock "report". Not for a cluster. See docs/redis.md.
	ShedLock string

	// Wait is how many replicas of the server must have received a grant before it counts (the command WAIT); 0 asks for none. A grant
	// that too few have received within WaitTimeout is an unknown outcome. It makes losing a grant in a failover less likely,
	// not impossible: see docs/redis.md. Not for a cluster.
	Wait int

	// WaitTimeout bounds WAIT. 0 means 1 s.
	WaitTimeout time.Duration
}

// A Store keeps its records in Redis. It is safe for use by many goroutines at once.
type Store struct {
	client redis.UniversalClient
	cfg    Config
	own    bool // the client is ours to close
	hasty  bool // the client heeds the deadlines of contexts
	single bool // a request is sent at most once
	parts  []bucket

	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	calls   sync.WaitGroup // that go on after their context
	watches watches
}

var (
	_ store.Store    = (*Store)(nil)
	_ store.Waiter   = (*Store)(nil)
	_ store.Chooser  = (*Store)(nil)
	_ store.Pinger   = (*Store)(nil)
	_ store.Sweeper  = (*Store)(nil)
	_ store.Prober   = (*Store)(nil)
	_ store.Examiner = (*Store)(nil)
)

// New makes a store on a client, which stays the caller's to close, after the store. It asks nothing of the server.
func New(client redis.UniversalClient, cfg Config) (*Store, error) {
	if client == nil {
		return nil, &store.InvalidError{What: "client", Value: "nil", Rule: "give one, such as redis.NewClient makes"}
	}
	if cfg.Prefix == "" {
		cfg.Prefix = "soloist"
	}
	if cfg.WaitTimeout == 0 {
		cfg.WaitTimeout = time.Second
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	s := &Store{client: client, cfg: cfg}
	n := 1
	switch c := client.(type) {
	case *redis.Client:
		s.hasty, s.single = c.Options().ContextTimeoutEnabled, c.Options().MaxRetries <= 0
	case *redis.ClusterClient:
		if cfg.ShedLock != "" || cfg.Wait > 0 {
			return nil, &store.InvalidError{What: "client", Value: "a redis.ClusterClient",
				Rule: "with ShedLock or Wait it must be one server's: the keys of both would have to be in one slot, and WAIT goes to one node"}
		}
		n = buckets
		s.hasty, s.single = c.Options().ContextTimeoutEnabled, c.Options().MaxRetries <= 0 && c.Options().MaxRedirects <= 0
	case *redis.Ring:
		return nil, &store.InvalidError{What: "client", Value: "a redis.Ring",
			Rule: "its shards do not know of each other, so a shard that comes back would grant what another has: give a Client or a ClusterClient"}
	}
	s.parts = newBuckets(cfg.Prefix, n)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.watches.store = s
	return s, nil
}

func (c Config) check() error {
	bad := func(what, value, rule string) error { return &store.InvalidError{What: what, Value: value, Rule: rule} }
	if len(c.Prefix) > 64 || strings.ContainsFunc(c.Prefix, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '{' || r == '}' }) {
		return bad("prefix", fmt.Sprintf("%q", c.Prefix), "must be 1 to 64 printable ASCII characters without spaces and braces")
	}
	if strings.ContainsFunc(c.ShedLock, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return bad("shedlock", fmt.Sprintf("%q", c.ShedLock), "must be the environment of ShedLock's provider, such as default, without spaces")
	}
	if c.Wait < 0 || c.Wait > 100 {
		return bad("wait", fmt.Sprint(c.Wait), "must be 0 to 100 replicas")
	}
	if c.WaitTimeout < time.Millisecond || c.WaitTimeout > time.Minute {
		return bad("wait timeout", c.WaitTimeout.String(), "must be between 1ms and 1m")
	}
	return nil
}

// Close ends the watches and waits for the calls under way. The client is closed only if the store has made it.
func (s *Store) Close() error {
	s.cancel()
	s.watches.close()
	s.calls.Wait()
	if s.own {
		if err := s.client.Close(); err != nil && s.ctx.Err() == nil {
			return fmt.Errorf("redisstore: closing the client: %w", err)
		}
	}
	return nil
}

// alive says why a call cannot begin.
func (s *Store) alive(ctx context.Context) error {
	if s.ctx.Err() != nil {
		return store.ErrClosed
	}
	return ctx.Err()
}

// Ping is as in store.Pinger.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.alive(ctx); err != nil {
		return err
	}
	return s.explain(s.client.Ping(ctx).Err())
}

// bounded is run, but comes back when ctx ends. A client that was not told to heed contexts goes on until its own timeouts.
func (s *Store) bounded(ctx context.Context, calls []call) []answered {
	if s.hasty || ctx.Done() == nil {
		return s.run(ctx, calls)
	}
	done := make(chan []answered, 1)
	s.calls.Go(func() { done <- s.run(ctx, calls) })
	select {
	case answers := <-done:
		return answers
	case <-ctx.Done():
		answers := make([]answered, len(calls))
		for i := range answers {
			answers[i].err = ctx.Err()
		}
		return answers
	}
}
