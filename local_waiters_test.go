package soloist_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
)

// Of those who wait in one client, each is told by the one before it: a hand-over costs the release and one claim.
func TestWaitersOfOneClientAskOnceEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const waiters = 5
		s := soloisttest.NewStore()
		c := soloisttest.NewReplica(t, s, soloist.Config{})
		held := make(chan struct{}, waiters)
		for range waiters {
			go func() {
				l, err := c.Lock(background, "x")
				if err != nil {
					t.Error(err)
				}
				time.Sleep(time.Second)
				if err := l.Release(); err != nil {
					t.Error(err)
				}
				held <- struct{}{}
			}()
		}
		for range waiters {
			<-held
		}
		// A caller that comes while nobody waits asks before and after it has subscribed to releases.
		if got := s.Calls(); got > 2*waiters+2 {
			t.Errorf("%d requests for %d holds; want two for each, and two to begin with", got, waiters)
		}
	})
}

// While another replica holds the name, the first of those who wait in a client asks for all of them.
func TestOneWaiterOfAClientAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const waiters = 5
		s := soloisttest.NewStore()
		held := mustLock(t, soloisttest.NewReplica(t, s.Share(), soloist.Config{}), "x")
		c := soloisttest.NewReplica(t, s, soloist.Config{})
		got := make(chan *soloist.Lease, waiters)
		for range waiters {
			go func() {
				l, err := c.Lock(background, "x")
				if err != nil {
					t.Error(err)
				}
				got <- l
			}()
			time.Sleep(10 * time.Millisecond) // requests of one instant are one
		}
		if asked := s.Calls(); asked > 3 {
			t.Errorf("%d requests while %d wait; want those of the first of them", asked, waiters)
		}
		if err := held.Release(); err != nil {
			t.Fatal(err)
		}
		for range waiters {
			if err := (<-got).Release(); err != nil {
				t.Error(err)
			}
		}
	})
}

// A waiter that stands behind its own lease client asks as soon as that is lost, and gives up with its context.
func TestAWaiterBehindALeaseNoticesItsLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := soloisttest.NewStore()
		c := soloisttest.NewReplica(t, s, soloist.Config{TTL: time.Hour})
		first := mustLock(t, c, "x")
		second, third := make(chan *soloist.Lease, 1), make(chan *soloist.Lease, 1)
		wait := func(to chan<- *soloist.Lease) {
			l, err := c.Lock(background, "x")
			if err != nil {
				t.Error(err)
			}
			to <- l
		}
		go wait(second)
		synctest.Wait()
		go wait(third)
		synctest.Wait()
		impatient := make(chan error, 1)
		go func() {
			_, err := c.With(soloist.Options{TTL: time.Hour, Wait: time.Second}).Lock(background, "x")
			impatient <- err
		}()
		synctest.Wait()
		if err := first.Release(); err != nil {
			t.Fatal(err)
		}
		lease := <-second
		if err := <-impatient; !errors.Is(err, soloist.ErrHeld) {
			t.Errorf("a wait that was too long: %v", err)
		}
		select {
		case <-third:
			t.Fatal("two leases of one lock")
		default:
		}
		begin := time.Now()
		soloisttest.LoseLease(t, s, lease)
		if err := lease.Check(background); !errors.Is(err, soloist.ErrLost) {
			t.Fatalf("a lost lease: %v", err)
		}
		(<-third).Release()
		if waited := time.Since(begin); waited > 2*time.Minute {
			t.Errorf("the next waited for %v", waited)
		}
	})
}
