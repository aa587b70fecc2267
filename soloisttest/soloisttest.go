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

// NewReplica returns a client on s that is closed when the test ends; if s is a *Store, it is healed before. The client
// behaves as in production, but without a logger in cfg it logs nothing. So Run gives its jobs 20 seconds to end unless
// cfg has another Drain: outside of a testing/synctest bubble a test may want -1.
func NewReplica(t testing.TB, s store.Store, cfg soloist.Config) *soloist.Client {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	c, err := soloist.New(s, cfg)
	if err != nil {
		t.Fatalf("soloisttest: making a client: %v", err)
	}
	t.Cleanup(func() {
		if failing, ok := store.As[*Store](s); ok { // a request that hangs would outlive the test
			failing.Heal()
		}
		_ = c.Close()
	})
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

	link context.Context // ends when watches and calls that wait in a queue lose their connection
	cut  context.CancelFunc
}

// NewStore returns an empty store that works.
func NewStore() *Store { return newStore(memstore.New()) }

func newStore(mem *memstore.Store) *Store {
	s := &Store{mem: mem}
	s.connect()
	return s
}

// connect makes the connection on which watches and calls in queues wait from now on.
func (s *Store) connect() { s.link, s.cut = context.WithCancel(context.Background()) }

// Share returns a store on the same records whose failures are independent of those of s, like the network of another
// replica.
func (s *Store) Share() *Store { return newStore(s.mem.Share()) }

// Unwrap returns the store in memory, for store.As.
func (s *Store) Unwrap() store.Store { return s.mem }

// Break makes every call fail with err, without any effect, until Heal. Calls that wait in a queue fail, and watches end.
// If err is nil, the error is that of a refused connection.
func (s *Store) Break(err error) {
	if err == nil {
		err = errors.New("soloisttest: connection refused")
	}
	s.set(func() {
		s.broken = err
		s.cut()
		s.connect()
	})
}

// LoseReplies lets the next n calls that Calls counts take effect and then fail with store.ErrUnknown, as if the connection broke before
// the reply.
func (s *Store) LoseReplies(n int) { s.set(func() { s.lose = n }) }

// Slow delays every call by d before it takes effect, until Heal.
func (s *Store) Slow(d time.Duration) { s.set(func() { s.slow = d }) }

// Stall blocks every call, as a network partition does, until Heal or until the call's context ends; the error is then
// store.ErrUnknown. Calls that wait in a queue fail, and watches end.
func (s *Store) Stall() {
	s.set(func() {
		s.cut()
		s.connect()
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

// Calls returns the number of calls of Acquire, Extend, Release, Choose, Queue, Leave and Ping so far.
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

// counted applies the failures of requests to a call that Calls counts.
func (s *Store) counted(ctx context.Context) error {
	s.set(func() { s.calls++ })
	return s.before(ctx)
}

// before applies the failures of requests.
func (s *Store) before(ctx context.Context) error {
	s.mu.Lock()
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
	if err := s.counted(ctx); err != nil {
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
func (s *Store) Choose(ctx context.Context, names []string, claim store.Claim) (int, store.Grant, error) {
	if err := s.counted(ctx); err != nil {
		return 0, store.Grant{}, err
	}
	i, grant, err := s.mem.Choose(ctx, names, claim)
	return i, grant, s.after(err)
}

// linked returns a context that ends with ctx, and when the connection is cut.
func (s *Store) linked(ctx context.Context) (linked context.Context, cut context.Context, stop func()) {
	s.mu.Lock()
	link := s.link
	s.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	forget := context.AfterFunc(link, cancel)
	return ctx, link, func() {
		forget()
		cancel()
	}
}

// List implements store.Store.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[store.Record, error] {
	return s.ListAfter(ctx, prefix, "")
}

// ListAfter implements store.Pager.
func (s *Store) ListAfter(ctx context.Context, prefix, after string) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		if err := s.before(ctx); err != nil {
			yield(store.Record{}, err)
			return
		}
		store.ListAfter(ctx, s.mem, prefix, after)(yield)
	}
}

// Watch implements store.Watcher. Break and Stall end watches, as a lost connection does.
func (s *Store) Watch(ctx context.Context, names []string) (<-chan struct{}, error) {
	if err := s.before(ctx); err != nil {
		return nil, err
	}
	linked, _, stop := s.linked(ctx)
	wake, err := s.mem.Watch(linked, names)
	if err != nil {
		stop()
		return nil, err
	}
	context.AfterFunc(linked, stop)
	return wake, nil
}

// Queue implements store.Queuer. Break and Stall end a call that waits in the queue with store.ErrUnknown: its holder
// keeps its place, and may be granted the name.
func (s *Store) Queue(ctx context.Context, claim store.Claim) (store.Grant, time.Duration, error) {
	if err := s.counted(ctx); err != nil {
		return store.Grant{}, 0, err
	}
	linked, cut, stop := s.linked(ctx)
	defer stop()
	grant, after, err := s.mem.Queue(linked, claim)
	if (err == nil || errors.Is(err, store.ErrHeld)) && cut.Err() != nil {
		return store.Grant{}, 0, store.AsUnknown(errors.New("soloisttest: the connection was lost"))
	}
	return grant, after, s.after(err)
}

// Leave implements store.Queuer.
func (s *Store) Leave(ctx context.Context, name, holder string) (bool, error) {
	if err := s.counted(ctx); err != nil {
		return false, err
	}
	left, err := s.mem.Leave(ctx, name, holder)
	return left, s.after(err)
}

// Ping implements store.Pinger.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.counted(ctx); err != nil {
		return err
	}
	return s.after(s.mem.Ping(ctx))
}

// Sweep implements store.Sweeper.
func (s *Store) Sweep(ctx context.Context, limit int) (int, error) {
	if err := s.before(ctx); err != nil {
		return 0, err
	}
	return s.mem.Sweep(ctx, limit)
}

// Capabilities implements store.Prober.
func (s *Store) Capabilities(ctx context.Context) (store.Capabilities, error) {
	if err := s.before(ctx); err != nil {
		return store.Capabilities{}, err
	}
	return s.mem.Capabilities(ctx)
}

// Close implements store.Store.
func (s *Store) Close() error { return s.mem.Close() }
