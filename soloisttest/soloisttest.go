// Package soloisttest helps to test code that uses soloist: a client on a store in memory, and ways to make happen in a test
// what happens at night. All of it keeps time with package time, so it works in a testing/synctest bubble, where waiting for a
// lease to end costs nothing.
package soloisttest

import (
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

// NewClient makes a client on a store of its own in memory; both end with the test. Clients on the same store are other
// replicas: NewReplica makes them.
func NewClient(t testing.TB) (*soloist.Client, *Store) {
	t.Helper()
	s := NewStore()
	return NewReplica(t, s, soloist.Config{}), s
}

// NewReplica makes a client on s that ends with the test. Without a logger in cfg it logs nothing.
func NewReplica(t testing.TB, s store.Store, cfg soloist.Config) *soloist.Client {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	if cfg.Drain == 0 {
		cfg.Drain = -1
	}
	c, err := soloist.New(s, cfg)
	if err != nil {
		t.Fatalf("soloisttest: making a client: %v", err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// LoseLease takes a lease away from its holder, as if it had expired and gone to another, and returns when the holder knows.
func LoseLease(t testing.TB, s *Store, lease *soloist.Lease) {
	t.Helper()
	ctx := context.Background()
	for r, err := range s.mem.List(ctx, "") {
		if err != nil {
			t.Fatalf("soloisttest: listing: %v", err)
		}
		if r.Holder != lease.Holder() || r.Token != lease.Token() {
			continue
		}
		_, err := s.mem.Release(ctx, []store.Release{{Name: r.Name, Holder: r.Holder, Token: r.Token, Retain: store.Forever}})
		if err == nil {
			_, err = s.mem.Acquire(ctx, []store.Claim{{Name: r.Name, Holder: "soloisttest", TTL: time.Minute}})
		}
		if err != nil {
			t.Fatalf("soloisttest: taking %q away: %v", r.Name, err)
		}
		if err := lease.Check(ctx); !errors.Is(err, soloist.ErrLost) {
			t.Fatalf("soloisttest: the lease of %q was taken away, but checking it answers: %v", r.Name, err)
		}
		return
	}
	t.Fatalf("soloisttest: the lease of %q (token %d) is not in this store", lease.Name(), lease.Token())
}

// A Store is a store in memory that can be broken. It is safe for use by many goroutines at once.
type Store struct {
	mem *memstore.Store

	mu      sync.Mutex
	broken  error
	lose    int           // replies to lose
	slow    time.Duration // before each request
	stalled chan struct{} // closed when the stall ends
	calls   int
}

// NewStore makes an empty store that works.
func NewStore() *Store { return &Store{mem: memstore.New()} }

// Share answers a store on the same records that can be broken apart from s, as the network of another replica.
func (s *Store) Share() *Store { return &Store{mem: s.mem.Share()} }

// Break makes every call fail with err before it does anything, until Heal. An err of nil means a refused connection.
func (s *Store) Break(err error) {
	if err == nil {
		err = errors.New("soloisttest: connection refused")
	}
	s.set(func() { s.broken = err })
}

// LoseReplies lets the next n calls take effect and then fail with store.ErrUnknown, as when the connection breaks between.
func (s *Store) LoseReplies(n int) { s.set(func() { s.lose = n }) }

// Slow delays every call by d, before it takes effect.
func (s *Store) Slow(d time.Duration) { s.set(func() { s.slow = d }) }

// Stall holds every call, as a partition does, until Heal or until its context ends, which is store.ErrUnknown.
func (s *Store) Stall() {
	s.set(func() {
		if s.stalled == nil {
			s.stalled = make(chan struct{})
		}
	})
}

// Heal undoes Break, LoseReplies, Slow and Stall.
func (s *Store) Heal() {
	s.set(func() {
		s.broken, s.lose, s.slow = nil, 0, 0
		if s.stalled != nil {
			close(s.stalled)
			s.stalled = nil
		}
	})
}

// Calls says how many calls of the three verbs and of Choose have been made.
func (s *Store) Calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

func (s *Store) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// before makes happen what happens to a request on its way.
func (s *Store) before(ctx context.Context) error {
	s.mu.Lock()
	s.calls++
	broken, slow, stalled := s.broken, s.slow, s.stalled
	s.mu.Unlock()
	if broken != nil {
		return broken
	}
	if stalled != nil {
		select {
		case <-stalled:
		case <-ctx.Done():
			return store.AsUnknown(ctx.Err())
		}
	}
	if slow > 0 {
		timer := time.NewTimer(slow)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return store.AsUnknown(ctx.Err())
		}
	}
	return nil
}

// after makes happen what happens to a reply.
func (s *Store) after(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lose > 0 {
		s.lose--
		return store.AsUnknown(errors.New("soloisttest: the reply was lost"))
	}
	return err
}

func pass[Q, A any](ctx context.Context, s *Store, do func(context.Context, []Q) ([]A, error), asked []Q) ([]A, error) {
	if err := s.before(ctx); err != nil {
		return nil, err
	}
	answers, err := do(ctx, asked)
	if err = s.after(err); err != nil {
		return nil, err
	}
	return answers, nil
}

// Acquire is as in store.Store.
func (s *Store) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	return pass(ctx, s, s.mem.Acquire, claims)
}

// Extend is as in store.Store.
func (s *Store) Extend(ctx context.Context, extensions []store.Extension) ([]error, error) {
	return pass(ctx, s, s.mem.Extend, extensions)
}

// Release is as in store.Store.
func (s *Store) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	return pass(ctx, s, s.mem.Release, releases)
}

// Choose is as in store.Chooser.
func (s *Store) Choose(ctx context.Context, names []string, claim store.Claim) (int, store.Outcome, error) {
	if err := s.before(ctx); err != nil {
		return 0, store.Outcome{}, err
	}
	i, out, err := s.mem.Choose(ctx, names, claim)
	return i, out, s.after(err)
}

// List is as in store.Store.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[store.Record, error] {
	s.mu.Lock()
	broken := s.broken
	s.mu.Unlock()
	if broken != nil {
		return func(yield func(store.Record, error) bool) { yield(store.Record{}, broken) }
	}
	return s.mem.List(ctx, prefix)
}

// Watch is as in store.Watcher. Watches outlive Break and Stall.
func (s *Store) Watch(ctx context.Context, names []string) (<-chan struct{}, error) {
	return s.mem.Watch(ctx, names)
}

// Queue is as in store.Queuer: what happens to requests and replies happens to it. A call that stands in line outlives Break and Stall.
func (s *Store) Queue(ctx context.Context, claim store.Claim) (store.Outcome, time.Duration, error) {
	if err := s.before(ctx); err != nil {
		return store.Outcome{}, 0, err
	}
	out, after, err := s.mem.Queue(ctx, claim)
	return out, after, s.after(err)
}

// Leave is as in store.Queuer.
func (s *Store) Leave(ctx context.Context, name, holder string) (bool, error) {
	if err := s.before(ctx); err != nil {
		return false, err
	}
	left, err := s.mem.Leave(ctx, name, holder)
	return left, s.after(err)
}

// Ping is as in store.Pinger.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.before(ctx); err != nil {
		return err
	}
	return s.mem.Ping(ctx)
}

// Sweep is as in store.Sweeper.
func (s *Store) Sweep(ctx context.Context, limit int) (int, error) { return s.mem.Sweep(ctx, limit) }

// Capabilities is as in store.Prober.
func (s *Store) Capabilities(ctx context.Context) (store.Capabilities, error) {
	return s.mem.Capabilities(ctx)
}

// Close is as in store.Store.
func (s *Store) Close() error { return s.mem.Close() }
