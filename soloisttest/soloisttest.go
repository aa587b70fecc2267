// Package soloisttest helps to test code that uses soloist. It provides clients on a store in memory, and functions
// that cause failures: lost leases, lost replies, partitions, slow stores. It uses package time only, so it works in a
// testing/synctest bubble, where waiting for a lease to expire takes no real time.
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

// NewClient returns a client on a new store in memory. Both are closed when the test ends. To get another replica on
// the same store, use NewReplica.
func NewClient(t testing.TB) (*soloist.Client, *Store) {
	t.Helper()
	s := NewStore()
	return NewReplica(t, s, soloist.Config{}), s
}

// NewReplica returns a client on s that is closed when the test ends. Without a logger in cfg it logs nothing.
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

// LoseLease ends a lease as if it had expired and passed to another holder. It returns when the holder has noticed.
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
			t.Fatalf("soloisttest: the lease of %q was taken away, but Check returns: %v", r.Name, err)
		}
		return
	}
	t.Fatalf("soloisttest: the lease of %q (token %d) is not in this store", lease.Name(), lease.Token())
}

// A Store is a store in memory that can be made to fail. It is safe for concurrent use.
type Store struct {
	mem *memstore.Store

	mu      sync.Mutex
	broken  error
	lose    int           // replies to lose
	slow    time.Duration // before each request
	stalled chan struct{} // closed when the stall ends
	calls   int
}

// NewStore returns an empty store that works.
func NewStore() *Store { return &Store{mem: memstore.New()} }

// Share returns a store on the same records whose failures are independent of those of s, like the network of another
// replica.
func (s *Store) Share() *Store { return &Store{mem: s.mem.Share()} }

// Break makes every call fail with err, without any effect, until Heal. If err is nil, the error is that of a refused
// connection.
func (s *Store) Break(err error) {
	if err == nil {
		err = errors.New("soloisttest: connection refused")
	}
	s.set(func() { s.broken = err })
}

// LoseReplies lets the next n calls take effect and then fail with store.ErrUnknown, as if the connection broke before
// the reply.
func (s *Store) LoseReplies(n int) { s.set(func() { s.lose = n }) }

// Slow delays every call by d before it takes effect, until Heal.
func (s *Store) Slow(d time.Duration) { s.set(func() { s.slow = d }) }

// Stall blocks every call, as a network partition does, until Heal or until the call's context ends; the error is then
// store.ErrUnknown.
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

// Calls returns the number of calls of Acquire, Extend, Release and Choose so far.
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

// before applies the failures of requests.
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

// after applies the failures of replies.
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

// Acquire implements store.Store.
func (s *Store) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	return pass(ctx, s, s.mem.Acquire, claims)
}

// Extend implements store.Store.
func (s *Store) Extend(ctx context.Context, extensions []store.Extension) ([]error, error) {
	return pass(ctx, s, s.mem.Extend, extensions)
}

// Release implements store.Store.
func (s *Store) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	return pass(ctx, s, s.mem.Release, releases)
}

// Choose implements store.Chooser.
func (s *Store) Choose(ctx context.Context, names []string, claim store.Claim) (int, store.Outcome, error) {
	if err := s.before(ctx); err != nil {
		return 0, store.Outcome{}, err
	}
	i, out, err := s.mem.Choose(ctx, names, claim)
	return i, out, s.after(err)
}

// List implements store.Store.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[store.Record, error] {
	s.mu.Lock()
	broken := s.broken
	s.mu.Unlock()
	if broken != nil {
		return func(yield func(store.Record, error) bool) { yield(store.Record{}, broken) }
	}
	return s.mem.List(ctx, prefix)
}

// Watch implements store.Watcher. Break and Stall do not end watches.
func (s *Store) Watch(ctx context.Context, names []string) (<-chan struct{}, error) {
	return s.mem.Watch(ctx, names)
}

// Queue implements store.Queuer. The failures of requests and replies apply to it. Break and Stall do not end a call
// that is waiting in the queue.
func (s *Store) Queue(ctx context.Context, claim store.Claim) (store.Outcome, time.Duration, error) {
	if err := s.before(ctx); err != nil {
		return store.Outcome{}, 0, err
	}
	out, after, err := s.mem.Queue(ctx, claim)
	return out, after, s.after(err)
}

// Leave implements store.Queuer.
func (s *Store) Leave(ctx context.Context, name, holder string) (bool, error) {
	if err := s.before(ctx); err != nil {
		return false, err
	}
	left, err := s.mem.Leave(ctx, name, holder)
	return left, s.after(err)
}

// Ping implements store.Pinger.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.before(ctx); err != nil {
		return err
	}
	return s.mem.Ping(ctx)
}

// Sweep implements store.Sweeper.
func (s *Store) Sweep(ctx context.Context, limit int) (int, error) { return s.mem.Sweep(ctx, limit) }

// Capabilities implements store.Prober.
func (s *Store) Capabilities(ctx context.Context) (store.Capabilities, error) {
	return s.mem.Capabilities(ctx)
}

// Close implements store.Store.
func (s *Store) Close() error { return s.mem.Close() }
