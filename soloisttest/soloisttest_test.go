package soloisttest_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

var background = context.Background()

func TestStoreBreaksAsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := soloisttest.NewClient(t)
		refused := errors.New("refused")
		s.Break(refused)
		if _, err := c.TryLock(background, "x"); !errors.Is(err, refused) {
			t.Errorf("broken: %v", err)
		}
		s.Heal()
		l, err := c.TryLock(background, "x")
		if err != nil {
			t.Fatal(err)
		}
		s.Stall()
		<-l.Context().Done()
		if !errors.Is(l.Err(), soloist.ErrLost) {
			t.Errorf("stalled for longer than the TTL: %v", l.Err())
		}
		s.Heal()
		s.Slow(time.Second)
		start := time.Now()
		if _, err := c.TryLock(background, "y"); err != nil || time.Since(start) < time.Second {
			t.Errorf("slow: %v after %v", err, time.Since(start))
		}
		s.Heal()
		before := s.Calls()
		s.LoseReplies(1)
		if _, err := c.TryLock(background, "z"); err != nil || s.Calls()-before != 2 {
			t.Errorf("with a lost reply: %v, %d calls", err, s.Calls()-before)
		}
	})
}

// What a store can do beyond store.Store works, and fails with the network as everything else.
func TestNothingGetsThroughABrokenNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := soloisttest.NewStore()
		defer s.Close()
		down := errors.New("down")
		calls := map[string]func(context.Context) error{
			"Acquire": func(ctx context.Context) error {
				_, err := s.Acquire(ctx, []store.Claim{{Name: "x", Holder: "a", TTL: time.Minute}})
				return err
			},
			"Extend": func(ctx context.Context) error {
				_, err := s.Extend(ctx, []store.Extension{{Name: "x", Holder: "a", Token: 1, TTL: time.Minute}})
				return err
			},
			"Release": func(ctx context.Context) error {
				_, err := s.Release(ctx, []store.Release{{Name: "y", Holder: "a", Token: 1}})
				return err
			},
			"Choose": func(ctx context.Context) error {
				_, _, err := s.Choose(ctx, []string{"y"}, store.Claim{Holder: "a", TTL: time.Minute})
				return err
			},
			"Queue": func(ctx context.Context) error {
				_, _, err := s.Queue(ctx, store.Claim{Name: "z", Holder: "a", TTL: time.Minute})
				return err
			},
			"Leave": func(ctx context.Context) error { _, err := s.Leave(ctx, "z", "a"); return err },
			"Ping":  s.Ping,
			"Sweep": func(ctx context.Context) error { _, err := s.Sweep(ctx, 1); return err },
			"Watch": func(ctx context.Context) error { _, err := s.Watch(ctx, []string{"x"}); return err },
			"List": func(ctx context.Context) error {
				for _, err := range s.List(ctx, "") {
					if err != nil {
						return err
					}
				}
				return nil
			},
			"Capabilities": func(ctx context.Context) error { _, err := s.Capabilities(ctx); return err },
		}
		for what, call := range calls {
			if err := call(t.Context()); err != nil {
				t.Errorf("%s on a store that works: %v", what, err)
			}
			s.Break(down)
			if err := call(t.Context()); !errors.Is(err, down) {
				t.Errorf("%s on a broken store: %v", what, err)
			}
			s.Heal()
			s.Stall()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, store.ErrUnknown) {
				t.Errorf("%s on a store that hangs: %v", what, err)
			}
			cancel()
			s.Heal()
			before := s.Calls()
			s.LoseReplies(1)
			err := call(t.Context())
			if counts := s.Calls() > before; counts != errors.Is(err, store.ErrUnknown) || !counts && err != nil {
				t.Errorf("%s, whose reply is lost if it is counted (%t): %v", what, counts, err)
			}
			s.Heal()
		}
		s.Break(nil)
		if err := s.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), "refused") {
			t.Errorf("Ping of a store that is broken somehow: %v", err)
		}
		s.Heal()
		wake, err := s.Watch(t.Context(), []string{"later"})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		select {
		case <-wake:
			t.Error("a watch that begins after the store was broken has ended")
		default:
		}
		if _, ok := store.As[*memstore.Store](s); !ok {
			t.Error("the store in memory is not found in it")
		}
	})
}

// A network that breaks ends what waits on it: watches, and places in a queue.
func TestBrokenNetworkEndsWaiting(t *testing.T) {
	for what, fail := range map[string]func(*soloisttest.Store){
		"Break": func(s *soloisttest.Store) { s.Break(nil) },
		"Stall": (*soloisttest.Store).Stall,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := soloisttest.NewStore()
			defer s.Close()
			healthy := s.Share()
			defer healthy.Close()
			if outs, err := s.Acquire(t.Context(), []store.Claim{{Name: "x", Holder: "a", TTL: time.Hour}}); err != nil || outs[0].Err != nil {
				t.Fatal(err, outs)
			}
			lost, err := s.Watch(t.Context(), []string{"x"})
			if err != nil {
				t.Fatal(err)
			}
			kept, err := healthy.Watch(t.Context(), []string{"x"})
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() {
				_, _, err := s.Queue(t.Context(), store.Claim{Name: "x", Holder: "b", TTL: time.Hour})
				ended <- err
			}()
			synctest.Wait()
			fail(s)
			synctest.Wait()
			select {
			case err := <-ended:
				if !errors.Is(err, store.ErrUnknown) {
					t.Errorf("%s: the call in the queue returned %v", what, err)
				}
			default:
				t.Errorf("%s: the call waits in the queue", what)
			}
			select {
			case _, open := <-lost:
				if open {
					t.Errorf("%s: a wake-up came through", what)
				}
			default:
				t.Errorf("%s: the watch goes on", what)
			}
			select {
			case <-kept:
				t.Errorf("%s: the network of another replica has failed, too", what)
			default:
			}
			s.Heal()
			if again, err := s.Watch(t.Context(), []string{"x"}); err != nil || again == nil {
				t.Errorf("%s: watching again: %v", what, err)
			}
		})
	}
}

// A client of a test has the defaults of production.
func TestReplicaHasTheDefaultsOfProduction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, _ := soloisttest.NewClient(t)
		ctx, stop := context.WithCancel(t.Context())
		job := soloist.Job{Name: "x", Schedule: soloist.Every(time.Hour), Do: func(ctx context.Context, _ soloist.Run) error {
			stop()
			<-ctx.Done()
			return nil
		}}
		begin := time.Now()
		err := client.Run(ctx, job)
		if took := time.Since(begin) % time.Hour; took < 20*time.Second || took > 21*time.Second || err != nil {
			t.Errorf("Run returned %v after it, with %v; want the default Drain of 20s", took, err)
		}
	})
}

func TestReplicasShareAStore(t *testing.T) {
	c, s := soloisttest.NewClient(t)
	other := soloisttest.NewReplica(t, s.Share(), soloist.Config{Replica: "other"})
	l, err := c.TryLock(background, "x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.TryLock(background, "x"); !errors.Is(err, soloist.ErrHeld) {
		t.Errorf("got: %v", err)
	}
	soloisttest.LoseLease(t, s, l)
	if !errors.Is(l.Err(), soloist.ErrLost) {
		t.Errorf("after LoseLease: %v", l.Err())
	}
}

// A test may end while the store hangs: no request of a client outlives it, which a testing/synctest bubble would report as a deadlock.
func TestTestMayEndWhileTheStoreHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, s := soloisttest.NewClient(t)
		ctx, stop := context.WithCancel(t.Context())
		go client.Run(ctx, soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), Do: func(context.Context, soloist.Run) error { return nil }})
		synctest.Wait()
		s.Stall()
		time.Sleep(time.Hour)
		stop()
	})
}

// A fatal is a test that is ended by what it is told.
type fatal struct {
	testing.TB
	told string
}

func (f *fatal) Helper() {}

func (f *fatal) Fatalf(format string, args ...any) {
	f.told = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// LoseLease takes the right lease of several, and ends a test that asks for one that is not in the store.
func TestWhichLeaseIsLost(t *testing.T) {
	c, s := soloisttest.NewClient(t)
	_, elsewhere := soloisttest.NewClient(t)
	var leases []*soloist.Lease
	for _, name := range []string{"a", "b", "c"} {
		l, err := c.TryLock(background, name)
		if err != nil {
			t.Fatal(err)
		}
		leases = append(leases, l)
	}
	soloisttest.LoseLease(t, s, leases[1])
	for i, l := range leases {
		if lost := errors.Is(l.Check(background), soloist.ErrLost); lost != (i == 1) {
			t.Errorf("%s is lost: %t", l.Name(), lost)
		}
	}
	var held *soloist.HeldError
	if _, err := c.TryLock(background, "b"); !errors.As(err, &held) || held.Holder != "soloisttest" {
		t.Errorf("the lost one has %v", err)
	}
	ended := make(chan string)
	go func() {
		f := &fatal{TB: t}
		defer func() { ended <- f.told }()
		soloisttest.LoseLease(f, elsewhere, leases[0])
	}()
	if told := <-ended; !strings.Contains(told, `"a"`) || !strings.Contains(told, "not in this store") {
		t.Errorf("a lease of another store: %q", told)
	}
}
