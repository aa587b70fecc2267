package soloist_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

// A linedStore is a handle on a store that keeps lines, of which the requests are counted.
type linedStore struct {
	*memstore.Store
	requests *atomic.Int64
	late     time.Duration // before an answer of Queue arrives
	none     bool          // it keeps no lines
}

func newLined() *linedStore { return &linedStore{Store: memstore.New(), requests: new(atomic.Int64)} }

func (s *linedStore) share() *linedStore { return &linedStore{Store: s.Share(), requests: s.requests} }

func (s *linedStore) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	s.requests.Add(1)
	return s.Store.Acquire(ctx, claims)
}

func (s *linedStore) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	s.requests.Add(1)
	return s.Store.Release(ctx, releases)
}

func (s *linedStore) Queue(ctx context.Context, c store.Claim) (store.Grant, time.Duration, error) {
	if s.none {
		return store.Grant{}, 0, errors.ErrUnsupported
	}
	s.requests.Add(1)
	grant, after, err := s.Store.Queue(ctx, c)
	time.Sleep(s.late)
	return grant, after, err
}

func (s *linedStore) Leave(ctx context.Context, name, holder string) (bool, error) {
	s.requests.Add(1)
	return s.Store.Leave(ctx, name, holder)
}

func clientOf(t *testing.T, s store.Store) *soloist.Client {
	t.Helper()
	c, err := soloist.New(s, soloist.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// However many wait, a change of the owner is one request to wait in the queue and one to release; all are served in turn.
func TestAChangeOfTheOwnerIsTwoRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients, turns = 16, 20
		s := newLined()
		var order []int
		var all sync.WaitGroup
		for i := range clients {
			c := clientOf(t, s.share())
			all.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				for range turns {
					lease, err := c.Lock(background, "x")
					if err != nil {
						t.Error(err)
						return
					}
					order = append(order, i) // the lock is what protects it
					time.Sleep(time.Second)
					if err := lease.Release(); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		for k, i := range order {
			if i != k%clients {
				t.Fatalf("turn %d was that of client %d: %v", k, i, order)
			}
		}
		// To begin with, each asks once before it knows that others want the name.
		if got, most := s.requests.Load(), int64(2*clients*turns+clients); got > most {
			t.Errorf("%d requests for %d turns; want at most %d", got, clients*turns, most)
		}
	})
}

// What was handed over may be told late. The lease is believed in from the grant on, whenever that was told.
func TestALateHandOverIsNoLongerLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLined()
		a, slow := clientOf(t, s), s.share()
		slow.late = 5 * time.Second // before the lease is renewed
		b := clientOf(t, slow)
		first := mustLock(t, a, "x")
		released := make(chan time.Time, 1)
		go func() {
			time.Sleep(7 * time.Second)
			if err := first.Release(); err != nil {
				t.Error(err)
			}
			released <- time.Now()
		}()
		lease, err := b.Lock(background, "x")
		if err != nil {
			t.Fatal(err)
		}
		if left, most := lease.Left(), time.Until((<-released).Add(30*time.Second)); left > most-3*time.Second || left < most-5*time.Second {
			t.Errorf("surely held for %v, where the store keeps it for %v and the margin is 3 s", left, most)
		}
		if err := lease.Release(); err != nil {
			t.Error(err)
		}
	})
}

// Who gives up is passed by: the name does not stay with it for a TTL.
func TestWhoGivesUpLeavesTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLined()
		a, b, c := clientOf(t, s), clientOf(t, s.share()), clientOf(t, s.share())
		first := mustLock(t, a, "x")
		ctx, cancel := context.WithCancel(background)
		impatient, patient := make(chan error, 1), make(chan *soloist.Lease, 1)
		go func() {
			_, err := b.Lock(ctx, "x")
			impatient <- err
		}()
		synctest.Wait()
		go func() {
			lease, err := c.Lock(background, "x")
			if err != nil {
				t.Error(err)
			}
			patient <- lease
		}()
		synctest.Wait()
		cancel()
		var held *soloist.HeldError
		if err := <-impatient; !errors.As(err, &held) || held.Holder != first.Holder() || !errors.Is(err, context.Canceled) {
			t.Errorf("gave up with %v; want who holds it, and why it gave up", err)
		}
		synctest.Wait()
		begin := time.Now()
		if err := first.Release(); err != nil {
			t.Error(err)
		}
		lease := <-patient
		if took := time.Since(begin); took > 0 {
			t.Errorf("the next in line had to wait for %v", took)
		}
		if err := lease.Release(); err != nil {
			t.Error(err)
		}
	})
}

// A store that keeps no lines, as it is configured, is asked once; then those who wait are woken by releases.
func TestNoLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLined()
		s.none = true
		a, b := clientOf(t, s), clientOf(t, s)
		first := mustLock(t, a, "x")
		go func() {
			time.Sleep(time.Second)
			if err := first.Release(); err != nil {
				t.Error(err)
			}
		}()
		begin := time.Now()
		lease, err := b.Lock(background, "x")
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took != time.Second {
			t.Errorf("waited for %v", took)
		}
		if err := lease.Release(); err != nil {
			t.Error(err)
		}
	})
}

// A leavingStore lets a test decide what happens when somebody leaves a line.
type leavingStore struct {
	*linedStore
	leave func(context.Context) error
}

func (s leavingStore) Leave(ctx context.Context, name, holder string) (bool, error) {
	if err := s.leave(ctx); err != nil {
		return false, err
	}
	return s.linedStore.Leave(ctx, name, holder)
}

// Close does not wait for a store that is away to hear that somebody has left a line.
func TestCloseDoesNotWaitForALine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLined()
		first := mustLock(t, clientOf(t, s), "x")
		away := func(context.Context) error { return store.AsUnknown(errors.New("away")) }
		b, err := soloist.New(leavingStore{s.share(), away}, soloist.Config{TTL: 12 * time.Hour, Drain: -1})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		if _, err := b.Lock(ctx, "x"); !errors.Is(err, soloist.ErrHeld) {
			t.Errorf("got: %v", err)
		}
		time.Sleep(time.Minute)
		begin := time.Now()
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took > 10*time.Second {
			t.Errorf("Close took %v", took)
		}
		if err := first.Release(); err != nil {
			t.Error(err)
		}
	})
}

// What is handed over to somebody who is leaving the line is given back, also when its client is being closed.
func TestWhatIsHandedOverWhileLeavingIsGivenBack(t *testing.T) {
	for what, end := range map[string]func(*soloist.Client, context.CancelFunc){
		"the waiter gives up": func(_ *soloist.Client, cancel context.CancelFunc) { cancel() },
		"the client is closed": func(c *soloist.Client, _ context.CancelFunc) {
			_ = c.Close()
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newLined()
				first := mustLock(t, clientOf(t, s), "x")
				b := clientOf(t, leavingStore{s.share(), func(context.Context) error { return first.Release() }})
				ctx, cancel := context.WithCancel(background)
				defer cancel()
				ended := make(chan error, 1)
				go func() {
					_, err := b.Lock(ctx, "x")
					ended <- err
				}()
				synctest.Wait()
				end(b, cancel)
				if err := <-ended; err == nil {
					t.Error("granted")
				}
				synctest.Wait()
				if err := mustLock(t, clientOf(t, s.share()), "x").Release(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Who waits asks again, a while after its own TTL at the latest, however long the lease in the way lasts: so the line knows that it still waits.
func TestWhoWaitsAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLined()
		a, b := clientOf(t, s), clientOf(t, s.share())
		first, err := a.With(soloist.Options{TTL: 12 * time.Hour}).TryLock(background, "x")
		if err != nil {
			t.Fatal(err)
		}
		begin := s.requests.Load()
		ctx, cancel := context.WithTimeout(background, 10*time.Minute)
		defer cancel()
		if _, err := b.Lock(ctx, "x"); !errors.Is(err, soloist.ErrHeld) {
			t.Fatal(err)
		}
		if asked := s.requests.Load() - begin; asked < 15 {
			t.Errorf("asked %d times in 10 minutes; want every 35 s", asked)
		}
		if err := first.Release(); err != nil {
			t.Error(err)
		}
	})
}

// A doubtfulQueue loses the answers to some requests of those who wait.
type doubtfulQueue struct {
	*linedStore
	lost *atomic.Bool
}

func (s doubtfulQueue) Queue(ctx context.Context, c store.Claim) (store.Grant, time.Duration, error) {
	if s.lost.Swap(false) {
		return store.Grant{}, 0, store.AsUnknown(errors.New("the connection broke"))
	}
	return s.linedStore.Queue(ctx, c)
}

// Who waits for long bears a connection that breaks now and then: what was mended counts no more.
func TestWaitOutlastsSeveralTroubles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLined()
		first := mustLock(t, clientOf(t, s), "x")
		lost := new(atomic.Bool)
		b := clientOf(t, doubtfulQueue{s.share(), lost})
		got := make(chan error, 1)
		go func() {
			l, err := b.Lock(background, "x")
			if err == nil {
				err = l.Release()
			}
			got <- err
		}()
		for range 3 {
			lost.Store(true)
			time.Sleep(2 * time.Minute)
			if lost.Load() || len(got) > 0 {
				t.Fatal("nothing was lost, or the wait is over")
			}
		}
		if err := first.Release(); err != nil {
			t.Error(err)
		}
		if err := <-got; err != nil {
			t.Errorf("the wait ended: %v", err)
		}
	})
}

// Who gives up leaves the line although the first request for that fails, or hangs: the next of the line gets the name.
func TestLeavingIsRepeated(t *testing.T) {
	for what, fail := range map[string]func(context.Context) error{
		"fails": func(context.Context) error { return store.AsUnknown(errors.New("away")) },
		"hangs": func(ctx context.Context) error { <-ctx.Done(); return store.AsUnknown(ctx.Err()) },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newLined()
				first := mustLock(t, clientOf(t, s), "x")
				failures := 0
				b := clientOf(t, leavingStore{s.share(), func(ctx context.Context) error {
					if failures++; failures == 1 {
						return fail(ctx)
					}
					return nil
				}})
				ctx, cancel := context.WithTimeout(background, time.Second)
				defer cancel()
				if _, err := b.Lock(ctx, "x"); !errors.Is(err, soloist.ErrHeld) {
					t.Errorf("got: %v", err)
				}
				time.Sleep(10 * time.Second)
				if err := first.Release(); err != nil {
					t.Error(err)
				}
				if err := mustLock(t, clientOf(t, s.share()), "x").Release(); err != nil {
					t.Error(err)
				}
				if failures != 2 {
					t.Errorf("it was left %d times, want twice", failures)
				}
			})
		})
	}
}

// askedFor counts the requests for names, and those among them to wait in the queue.
type askedFor struct {
	*linedStore
	asked, queued *atomic.Int64
}

func (s askedFor) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	s.asked.Add(1)
	return s.linedStore.Acquire(ctx, claims)
}

func (s askedFor) Queue(ctx context.Context, c store.Claim) (store.Grant, time.Duration, error) {
	s.asked.Add(1)
	s.queued.Add(1)
	return s.linedStore.Queue(ctx, c)
}

// A name that nobody else has any more is asked for without the queue again.
func TestNameThatWasBusyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := askedFor{newLined(), new(atomic.Int64), new(atomic.Int64)}
		first, b := mustLock(t, clientOf(t, s.share()), "x"), clientOf(t, s)
		time.AfterFunc(time.Second, func() { _ = first.Release() })
		for i, want := range []bool{true, true, false} { // the second time it learns that it has the name to itself
			before := s.queued.Load()
			l, err := b.Lock(background, "x")
			must(t, err)
			must(t, l.Release())
			if queued := s.queued.Load() > before; queued != want {
				t.Errorf("call %d waits in the queue: %t, want %t", i+1, queued, want)
			}
		}
	})
}

// Who waits behind another caller of its client asks the store nothing while that one has the name, however often it is renewed, and says who has it when it gives up.
func TestWhoWaitsBehindItsOwnClientAsksNothing(t *testing.T) {
	lock := func(c *soloist.Client) (*soloist.Lease, error) { return c.Lock(background, "x") }
	permit := func(c *soloist.Client) (*soloist.Lease, error) { return c.Semaphore("x", 1).Acquire(background) }
	for what, test := range map[string]struct {
		none bool // the store keeps no lines
		take func(*soloist.Client) (*soloist.Lease, error)
	}{"in the store's queue": {false, lock}, "by watching": {true, lock}, "for the only permit": {false, permit}} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := askedFor{newLined(), new(atomic.Int64), new(atomic.Int64)}
				s.none = test.none
				first, err := test.take(clientOf(t, s.share()))
				must(t, err)
				b := clientOf(t, s)
				got := make(chan *soloist.Lease)
				for range 2 {
					go func() {
						l, err := test.take(b)
						if err != nil {
							t.Error(err)
						}
						got <- l
					}()
					synctest.Wait()
				}
				must(t, first.Release())
				l := <-got
				gaveUp := make(chan error, 1)
				before := s.asked.Load()
				time.Sleep(5 * time.Minute)
				check(t, "requests for the name while the client has it", s.asked.Load()-before, 0)
				must(t, l.Release())
				l = <-got
				go func() {
					_, err := test.take(b.With(soloist.Options{Wait: 2 * time.Second}))
					gaveUp <- err
				}()
				if held, ok := errors.AsType[*soloist.HeldError](<-gaveUp); !ok || held.Holder != l.Holder() || held.Token != l.Token() {
					t.Errorf("gave up with %+v", held)
				}
				must(t, l.Release())
			})
		})
	}
}

// A waiter whose turn it is in its client, and who waits for the lease of the one before it, gives up with its own wait and names that lease.
func TestWhoGivesUpBehindItsOwnClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := askedFor{newLined(), new(atomic.Int64), new(atomic.Int64)}
		first, b := mustLock(t, clientOf(t, s.share()), "x"), clientOf(t, s)
		got, gaveUp := make(chan *soloist.Lease, 1), make(chan error, 1)
		go func() {
			l, _ := b.Lock(background, "x")
			got <- l
		}()
		synctest.Wait()
		go func() {
			_, err := b.With(soloist.Options{Wait: 10 * time.Second}).Lock(background, "x")
			gaveUp <- err
		}()
		synctest.Wait()
		must(t, first.Release())
		l := <-got
		before := s.asked.Load()
		err := <-gaveUp
		if held, ok := errors.AsType[*soloist.HeldError](err); !ok || held.Holder != l.Holder() || held.Token != l.Token() || held.Left == 0 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("gave up with %v", err)
		}
		check(t, "requests for the name while the client has it", s.asked.Load()-before, 0)
		must(t, l.Release())
	})
}

// A scriptedQueue lets a test decide what becomes of requests to wait in the queue. It counts the requests to leave it.
type scriptedQueue struct {
	*linedStore
	queue  func(ctx context.Context, next *linedStore, c store.Claim) (store.Grant, time.Duration, error)
	leaves *atomic.Int64
}

func (s scriptedQueue) Queue(ctx context.Context, c store.Claim) (store.Grant, time.Duration, error) {
	return s.queue(ctx, s.linedStore, c)
}

func (s scriptedQueue) Leave(ctx context.Context, name, holder string) (bool, error) {
	s.leaves.Add(1)
	return s.linedStore.Leave(ctx, name, holder)
}

// busy returns a client on a store with such a queue, of which another client has the lock x, and of which the waiters know that.
func busy(t *testing.T, cfg soloist.Config, queue func(ctx context.Context, next *linedStore, c store.Claim) (store.Grant, time.Duration, error)) (first *soloist.Lease, b *soloist.Client, s scriptedQueue) {
	t.Helper()
	lined := newLined()
	first = mustLock(t, clientOf(t, lined), "x")
	s = scriptedQueue{lined.share(), queue, new(atomic.Int64)}
	return first, soloisttest.NewReplica(t, s, cfg), s
}

// Who waits while the store is away asks now and then, gives up after two times the RequestTimeout, and leaves the line: the store may have it there.
func TestWaitWhileTheStoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		_, b, s := busy(t, soloist.Config{}, func(context.Context, *linedStore, store.Claim) (store.Grant, time.Duration, error) {
			asked++
			if asked > 1000 {
				time.Sleep(time.Second)
			}
			return store.Grant{}, 0, store.AsUnknown(errors.New("the connection broke"))
		})
		begin := time.Now()
		if _, err := b.Lock(background, "x"); !errors.Is(err, soloist.ErrUnknown) {
			t.Errorf("got: %v", err)
		}
		if took := time.Since(begin); took < 10*time.Second || took > 11*time.Second {
			t.Errorf("it gave up after %v", took)
		}
		if asked > 40 {
			t.Errorf("it asked %d times", asked)
		}
		time.Sleep(time.Second)
		check(t, "requests to leave the line", s.leaves.Load(), 1)
	})
}

// A request to wait in the queue lasts until a while after the TTL of the lease that it is for, however short that is.
func TestEachRequestToWaitIsBounded(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, 30 * time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			var bound time.Duration
			_, b, _ := busy(t, soloist.Config{TTL: ttl, RequestTimeout: 5 * time.Second}, func(ctx context.Context, _ *linedStore, _ store.Claim) (store.Grant, time.Duration, error) {
				end, _ := ctx.Deadline()
				bound = time.Until(end)
				return store.Grant{}, 0, errors.New("away for good")
			})
			if _, err := b.Lock(background, "x"); err == nil {
				t.Error("granted")
			}
			check(t, "the bound of a request", bound, ttl+5*time.Second)
		})
	}
}

// What the store hands over when the client has closed is given back, and the waiter is told why it has nothing.
func TestHandOverToAClosedClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed := make(chan struct{})
		first, b, s := busy(t, soloist.Config{}, func(_ context.Context, next *linedStore, c store.Claim) (store.Grant, time.Duration, error) {
			<-closed
			return next.Queue(background, c)
		})
		got := make(chan error, 1)
		go func() {
			l, err := b.Lock(background, "x")
			if l != nil {
				t.Error("granted")
			}
			got <- err
		}()
		synctest.Wait()
		must(t, b.Close())
		must(t, first.Release())
		close(closed)
		if err := <-got; !errors.Is(err, soloist.ErrClosed) {
			t.Errorf("got: %v", err)
		}
		mustLock(t, clientOf(t, s.share()), "x")
	})
}

// A grant that is older than the request that reports it is believed in from before it was made: clocks may have drifted in that time.
func TestAnOldHandOverIsNoLongerLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		first, b, _ := busy(t, soloist.Config{TTL: 30 * time.Second, Margin: 3 * time.Second, RequestTimeout: 20 * time.Second}, func(ctx context.Context, next *linedStore, c store.Claim) (store.Grant, time.Duration, error) {
			grant, after, err := next.Queue(ctx, c)
			if asked++; asked == 1 {
				time.Sleep(6 * time.Second) // it is renewed when it is 10 s old
				return store.Grant{}, 0, store.AsUnknown(errors.New("the reply was lost"))
			}
			return grant, after, err
		})
		var released time.Time
		time.AfterFunc(5*time.Second, func() {
			released = time.Now()
			_ = first.Release()
		})
		l, err := b.Lock(background, "x")
		must(t, err)
		age := time.Since(released)
		if want := 27*time.Second - age - age/10; age < 6*time.Second || asked != 2 || (l.Left()-want).Abs() > time.Millisecond {
			t.Errorf("surely held for %v, %v after the grant, by request %d; want %v: the TTL less the margin, and a tenth of its age", l.Left(), age, asked, want)
		}
	})
}

// Who gives up while nobody knows whether it is in the line leaves it, and says that nobody knows. A store that is closed is asked once.
func TestWhoGivesUpInDoubtLeavesTheLine(t *testing.T) {
	for what, closes := range map[string]bool{"the store is open": false, "the store is closed": true} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(background)
				first, b, s := busy(t, soloist.Config{}, func(ctx context.Context, next *linedStore, c store.Claim) (store.Grant, time.Duration, error) {
					soon, end := context.WithTimeout(ctx, time.Second)
					defer end()
					_, _, _ = next.Queue(soon, c)
					if closes {
						_ = next.Close()
					}
					time.AfterFunc(time.Millisecond, cancel)
					return store.Grant{}, 0, store.AsUnknown(errors.New("the connection broke"))
				})
				if _, err := b.Lock(ctx, "x"); !errors.Is(err, soloist.ErrUnknown) || !errors.Is(err, context.Canceled) {
					t.Errorf("got: %v", err)
				}
				time.Sleep(10 * time.Second)
				check(t, "requests to leave the line", s.leaves.Load(), 1)
				if !closes {
					must(t, first.Release())
					mustLock(t, clientOf(t, s.share()), "x")
				}
			})
		})
	}
}

// A name that is handed over too late is an answer all the same: the store had been away before it, and is not given up when it is away again after it. Who asks
// anew does so as another holder, since what was handed over is given back.
func TestWaitOutlastsAHandOverThatIsTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var holders []string
		first, b, _ := busy(t, soloist.Config{}, func(ctx context.Context, next *linedStore, c store.Claim) (grant store.Grant, after time.Duration, err error) {
			holders = append(holders, c.Holder)
			switch len(holders) {
			case 1, 3:
				return grant, 0, store.AsUnknown(errors.New("the connection broke"))
			case 2:
				grant, after, err = next.Queue(ctx, c)
				time.Sleep(31 * time.Second)
				return grant, after, err
			}
			return next.Queue(ctx, c)
		})
		time.AfterFunc(5*time.Second, func() { _ = first.Release() })
		l, err := b.Lock(background, "x")
		must(t, err)
		if len(holders) != 4 || holders[0] != holders[1] || holders[1] == holders[2] || holders[2] != holders[3] || l.Holder() != holders[3] {
			t.Errorf("%s has it after requests of %q", l.Holder(), holders)
		}
		must(t, l.Release())
	})
}

// A slowLine grants the name of its first claim some time after the caller has gone.
type slowLine struct {
	*linedStore
	first *atomic.Bool
}

func (s slowLine) Queue(ctx context.Context, c store.Claim) (store.Grant, time.Duration, error) {
	if !s.first.CompareAndSwap(true, false) {
		return s.linedStore.Queue(ctx, c)
	}
	<-ctx.Done()
	time.AfterFunc(20*time.Millisecond, func() {
		if outs, err := s.Store.Acquire(background, []store.Claim{c}); err != nil || outs[0].Err != nil {
			panic("it is not free")
		}
	})
	return store.Grant{}, 0, store.AsUnknown(ctx.Err())
}

// What is granted in the line to a caller that goes while that is being committed is given back: there is no place to leave, and the look at the record
// may come before the commit.
func TestCallerInTheLineGoesDuringACommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := slowLine{newLined(), new(atomic.Bool)}
		holder, a, b := clientOf(t, s), clientOf(t, s), clientOf(t, s)
		held := mustLock(t, holder, "x")
		ctx, cancel := context.WithCancel(background)
		gone := make(chan error, 1)
		s.first.Store(true)
		go func() {
			_, err := a.Lock(ctx, "x")
			gone <- err
		}()
		synctest.Wait()
		if err := held.Release(); err != nil {
			t.Fatal(err)
		}
		if s.first.Load() {
			t.Fatal("it does not wait in the line")
		}
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want that the caller has gone", err)
		}
		time.Sleep(time.Second)
		l, err := b.TryLock(background, "x")
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Release(); err != nil {
			t.Error(err)
		}
	})
}
