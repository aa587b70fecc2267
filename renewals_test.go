package soloist

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// The tests of this file ask the renewer directly, without a store and without its goroutine.

// parked is a renewer with leases of 12 s whose renewals have not been confirmed, each of them due so long from now.
func parked(dueIn ...time.Duration) (*renewer, []*Lease) {
	c := &core{clock: clock{host: func() (time.Duration, time.Duration) { return 0, 0 }}}
	r := newRenewer(c)
	now := c.clock.latest()
	for i, d := range dueIn {
		l := &Lease{opts: Options{TTL: 12 * time.Second, Margin: time.Second}, unconfirmed: true, index: i, renewAt: now.Add(d), deadline: now.Add(10 * time.Second)}
		r.leases = append(r.leases, l)
	}
	return r, r.leases
}

// A lease that is due soon leaves with one that is due now, unless a renewal of it is under way.
func TestWhoLeavesWithARenewalThatIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, leases := parked(0, time.Second/2, time.Second/2, 2*time.Second)
		now, due, soon, under, later := r.core.clock.latest(), leases[0], leases[1], leases[2], leases[3]
		under.flying = 1
		flights, wait := r.board()
		if len(flights) != 1 {
			t.Fatalf("%d flights", len(flights))
		}
		for l, leaves := range map[*Lease]bool{due: true, soon: true, under: false, later: false} {
			in := false
			for _, o := range flights[0].leases {
				in = in || o == l
			}
			if in != leaves {
				t.Errorf("due at %v: leaves %t, want %t", l.renewAt.Sub(now), in, leaves)
			}
		}
		if wait != time.Second/2 {
			t.Errorf("it looks again after %v, and not when the lease whose renewal is under way is due", wait)
		}
	})
}

// A confirmation puts the next renewal off, and never forward: a later request may be under way, and would be sent once more.
func TestAConfirmationDoesNotBringTheNextRenewalForward(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, leases := parked(3 * time.Second)
		now, l := r.core.clock.latest(), leases[0]
		for _, row := range []struct{ sent, next time.Duration }{{-2 * time.Second, 3 * time.Second}, {0, 4 * time.Second}, {-time.Second, 4 * time.Second}} {
			r.confirm(l, now.Add(row.sent), l.opts.TTL)
			if next := l.renewAt.Sub(now); next != row.next {
				t.Errorf("confirmed by a request of %v: renewed again after %v, want %v", row.sent, next, row.next)
			}
		}
		if got := l.deadline.Sub(now); got != 11*time.Second {
			t.Errorf("the deadline is in %v", got)
		}
		r.loss.Stop()
	})
}

// What was not confirmed is tried again soon, unless a later renewal of it is under way; what has been given back is not.
func TestWhatIsNotConfirmedIsTriedAgain(t *testing.T) {
	for name, row := range map[string]struct {
		flying, index int
		next          time.Duration
	}{
		"nothing is under way":   {0, 0, time.Second},
		"a later one is":         {1, 0, 4 * time.Second},
		"it has been given back": {0, -1, 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, leases := parked(4 * time.Second)
				now, l := r.core.clock.latest(), leases[0]
				l.flying, l.index = row.flying, row.index
				r.again(l)
				if next := l.renewAt.Sub(now); next != row.next {
					t.Errorf("it is renewed after %v, want %v", next, row.next)
				}
				if r.loss != nil {
					r.loss.Stop()
				}
			})
		})
	}
}

// What delayed the renewal of a lease may delay it again: it does not leave with those that were confirmed.
func TestWhatWasNotConfirmedLeavesByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, leases := parked(0, 0, 0)
		leases[0].unconfirmed, leases[2].unconfirmed = false, false
		flights, _ := r.board()
		if len(flights) != 2 {
			t.Fatalf("%d flights, want one of what was confirmed and one of what was not", len(flights))
		}
		for _, f := range flights {
			if want := map[bool]int{false: 2, true: 1}[f.lane.again]; len(f.leases) != want {
				t.Errorf("%d leases in lane %+v, want %d", len(f.leases), f.lane, want)
			}
		}
	})
}

// A renewal is given up when its answer would be of no use to the shortest of its leases.
func TestARenewalEndsWithItsUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, leases := parked(0, 0)
		r.core.cfg.RequestTimeout = time.Hour
		leases[1].opts.TTL = 20 * time.Second
		for _, l := range leases {
			l.flying = 1
		}
		var timeout time.Duration
		r.core.extends.do = func(ctx context.Context, asked []store.Extension) ([]error, error) {
			if end, bounded := ctx.Deadline(); bounded {
				timeout = time.Until(end)
			}
			return make([]error, len(asked)), nil
		}
		r.flights[lane{}] = 1
		r.fly(flight{lane{}, leases})
		if timeout != 11*time.Second {
			t.Errorf("the request may take %v, want the TTL of 12 s less the margin of 1 s", timeout)
		}
		r.loss.Stop()
	})
}

// A client that has nothing any more does not look for what is lost.
func TestTimerOfAnIdleClientRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, leases := parked(5 * time.Second)
		r.mu.Lock()
		r.watch(leases[0])
		r.remove(leases[0], errReleased)
		r.mu.Unlock()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.lossAt.IsZero() || r.loss.Stop() {
			t.Errorf("its timer is set, for a loss in %v", r.lossAt.Sub(r.core.clock.latest()))
		}
	})
}
