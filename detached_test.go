package soloist_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

func lockOf(holder string) soloist.Detached {
	return soloist.Detached{Kind: soloist.KindLock, Name: "x", Holder: holder}
}

// mustAcquire acquires a detached lease.
func mustAcquire(t *testing.T, c *soloist.Client, d soloist.Detached, repeated bool) (soloist.Detached, time.Duration) {
	t.Helper()
	got, until, err := c.Detached().Acquire(t.Context(), d, repeated)
	if err != nil {
		t.Fatal(err)
	}
	return got, time.Until(until)
}

func wantIs(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

// How long a detached lease is held counts from the request, and only who knows its token is shown it.
func TestDetachedLeaseOnASlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := soloisttest.NewStore()
		c := soloisttest.NewReplica(t, s, soloist.Config{})
		s.Slow(2 * time.Second)
		l, left := mustAcquire(t, c, lockOf("a#1"), false)
		if left > 25*time.Second {
			t.Errorf("%v left after a request of 2s; want at most 25s", left)
		}
		again, left := mustAcquire(t, c, lockOf("a#1"), true) // it has been held for 2 s when it is asked for again, and is read after 2 s more
		if l.Plain = again.Plain; again != l || left > 21*time.Second {
			t.Errorf("%+v with %v left after requests of 2s; want %+v with at most 21s", again, left, l)
		}
		if until, err := c.Detached().Extend(t.Context(), l); err != nil || time.Until(until) > 25*time.Second {
			t.Errorf("%v left after an extension that took 2s, %v; want at most 25s", time.Until(until), err)
		}
		l.Token++
		_, err := c.Detached().Look(t.Context(), l)
		wantIs(t, "looking with another token", err, soloist.ErrLost)
	})
}

// How long a detached lease is held counts from the first of the requests whose outcome was unknown: that one may have been granted.
func TestDetachedLeaseAfterLostReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := soloisttest.NewStore()
		c := soloisttest.NewReplica(t, s, soloist.Config{TTL: 30 * time.Second})
		s.Slow(2 * time.Second)
		s.LoseReplies(2)
		begun := time.Now()
		_, left := mustAcquire(t, c, lockOf("a#1"), false)
		if took := time.Since(begun); took < 6*time.Second || left > 30*time.Second-took {
			t.Errorf("%v left of 30s after requests of %v", left, took)
		}
	})
}

// A forgetful store grants, and loses its reply to, the first claim of a lock that was not looked at before; then it fails claims and extensions as it is told to.
type forgetful struct {
	*soloisttest.Store
	claims  atomic.Int32
	refuses func() error // claims after the first; nil if it does not
	extends error        // why no lease is extended; nil if they are
}

func (s *forgetful) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	if claims[0].Mark < 0 {
		return s.Store.Acquire(ctx, claims)
	}
	if s.claims.Add(1) > 1 && s.refuses != nil {
		if err := s.refuses(); err != nil {
			return nil, err
		}
	}
	outs, err := s.Store.Acquire(ctx, claims)
	if s.claims.Load() == 1 {
		return nil, errNoReply
	}
	return outs, err
}

func (s *forgetful) Extend(ctx context.Context, extensions []store.Extension) ([]error, error) {
	if s.extends != nil {
		return nil, s.extends
	}
	return s.Store.Extend(ctx, extensions)
}

// A lease that the first of several requests was granted, whose reply was lost, counts from that one, although the store has refused others since; if little is left of it,
// it is extended.
func TestDetachedLeaseAfterALostReplyAndRefusals(t *testing.T) {
	for away, extended := range map[time.Duration]bool{8 * time.Second: false, 20 * time.Second: true} {
		t.Run(fmt.Sprint("for ", away), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				s := &forgetful{Store: soloisttest.NewStore(), refuses: func() error {
					if time.Since(begin) < away {
						return errors.New("away")
					}
					return nil
				}}
				s.Store.Slow(time.Second)
				c := soloisttest.NewReplica(t, s, soloist.Config{}).With(soloist.Options{Wait: time.Minute})
				l, left := mustAcquire(t, c, lockOf("a#1"), false)
				s.Store.Slow(0)
				if most := 27*time.Second - time.Since(begin); !extended && left > most || extended && left != 26*time.Second {
					t.Errorf("%v left, at most %v of the first grant; extended: %t", left, most, extended)
				}
				time.Sleep(left)
				_, err := c.Detached().Look(t.Context(), l)
				wantIs(t, "looking when it is certainly held", err, nil)
			})
		})
	}
}

// A belated store keeps the first claim of a#1 back, whose sender gets no reply, and tells nobody of a release.
type belated struct {
	*soloisttest.Store
	first atomic.Pointer[store.Claim]
}

func (s *belated) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	if c := claims[0]; c.Holder == "a#1" && s.first.CompareAndSwap(nil, &c) {
		return nil, errNoReply
	}
	return s.Store.Acquire(ctx, claims)
}

func (*belated) Watch(context.Context, []string) (<-chan struct{}, error) {
	return make(chan struct{}), nil
}

// A lease that the first request of a wait was granted late, after others were refused, is not counted from the last one, which got the same grant.
func TestDetachedLeaseThatWasGrantedDuringTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &belated{Store: soloisttest.NewStore()}
		other := mustLock(t, soloisttest.NewReplica(t, s.Store.Share(), soloist.Config{}), "x")
		c := soloisttest.NewReplica(t, s, soloist.Config{}).With(soloist.Options{Wait: time.Minute})
		var token atomic.Int64
		late := time.AfterFunc(5*time.Second, func() {
			wantIs(t, "releasing", other.Release(), nil)
			outs, err := s.Store.Acquire(context.Background(), []store.Claim{*s.first.Load()})
			if err != nil || outs[0].Err != nil {
				t.Errorf("the first request: %v, %v", outs, err)
				return
			}
			token.Store(outs[0].Grant.Token)
		})
		defer late.Stop()
		l, left := mustAcquire(t, c, lockOf("a#1"), false)
		if want := token.Load(); l.Token != want || left <= 0 {
			t.Fatalf("%+v with %v left; want token %d", l, left, want)
		}
		time.Sleep(left)
		_, err := c.Detached().Look(t.Context(), l)
		wantIs(t, "looking when it is certainly held", err, nil)
	})
}

// After a claim whose reply was lost, nobody says that nothing was granted: the outcome is unknown, although the store refuses the claims that follow. What was granted is
// released as soon as it can be, and not when its TTL is over.
func TestDetachedClaimMayHaveBeenGranted(t *testing.T) {
	for what, s := range map[string]*forgetful{
		"refused then":                   {refuses: func() error { return errors.New("away") }},
		"refused for good":               {refuses: func() error { return fs.ErrPermission }},
		"granted then, and not extended": {extends: errNoReply},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s.Store = soloisttest.NewStore()
				c := soloisttest.NewReplica(t, s, soloist.Config{TTL: time.Minute})
				if begin := time.Now(); s.extends != nil { // it is to be extended, because little may be left of it
					c = c.With(soloist.Options{Wait: time.Minute})
					s.refuses = func() error {
						if time.Since(begin) < 30*time.Second {
							return errors.New("away")
						}
						return nil
					}
				}
				_, until, err := c.Detached().Acquire(t.Context(), lockOf("a#1"), false)
				if !errors.Is(err, soloist.ErrUnknown) || !until.IsZero() {
					t.Errorf("%v, held until %v; want an unknown outcome", err, until)
				}
				time.Sleep(10 * time.Second)
				mustLock(t, soloisttest.NewReplica(t, s.Store.Share(), soloist.Config{}), "x")
			})
		})
	}
}

// A flapping store loses the first claim, refuses others for 40 s, and carries out without a reply those that follow.
type flapping struct {
	*soloisttest.Store
	begin   time.Time
	granted atomic.Bool // it has carried one out
}

func (s *flapping) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	at := time.Since(s.begin)
	switch {
	case claims[0].Mark < 0:
		return s.Store.Acquire(ctx, claims)
	case at == 0:
		return nil, errNoReply
	case at < 40*time.Second:
		return nil, errors.New("away")
	}
	if outs, err := s.Store.Acquire(ctx, claims); err != nil {
		return nil, err
	} else if outs[0].Err == nil {
		s.granted.Store(true)
	}
	return nil, errNoReply
}

// What a claim was granted at the end of a long wait is released soon after that, although the first request of which nothing is known was made more than a TTL ago.
func TestDetachedClaimMayHaveBeenGrantedAtLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &flapping{Store: soloisttest.NewStore(), begin: time.Now()}
		other := soloisttest.NewReplica(t, s.Store.Share(), soloist.Config{})
		c := soloisttest.NewReplica(t, s, soloist.Config{}).With(soloist.Options{Wait: 42 * time.Second})
		_, _, err := c.Detached().Acquire(t.Context(), lockOf("a#1"), false)
		wantIs(t, "acquiring", err, soloist.ErrUnknown)
		if !s.granted.Load() {
			t.Error("nothing was granted")
		}
		time.Sleep(5 * time.Second)
		mustLock(t, other, "x")
	})
}

// A refusal that lasts is the end of a wait.
func TestDetachedWaitEndsWithARefusalThatLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clientOf(t, unusable{memstore.New(), fmt.Errorf("the server refuses: %w", fs.ErrPermission)}).With(soloist.Options{Wait: time.Minute})
		begin := time.Now()
		_, _, err := c.Detached().Acquire(t.Context(), lockOf("a#1"), false)
		wantIs(t, "acquiring", err, fs.ErrPermission)
		if took := time.Since(begin); took > 0 {
			t.Errorf("it waited for %v", took)
		}
	})
}

// A caller that waits goes on when a store is back that refused requests, did not reply to them, or lost its replies, and holds the lease for most of its TTL then,
// whether it may repeat its call or not.
func TestDetachedWaitOutlastsTheStore(t *testing.T) {
	for what, fails := range map[string]func(*soloisttest.Store){
		"refuses":        func(s *soloisttest.Store) { s.Break(nil) },
		"does not reply": (*soloisttest.Store).Stall,
		"loses replies":  func(s *soloisttest.Store) { s.LoseReplies(1000) },
	} {
		for _, repeated := range []bool{false, true} {
			t.Run(fmt.Sprint(what, ", repeated ", repeated), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					const away = 40 * time.Second
					s := soloisttest.NewStore()
					c := soloisttest.NewReplica(t, s, soloist.Config{TTL: 30 * time.Second})
					fails(s)
					begun := time.Now()
					time.AfterFunc(away, s.Heal)
					l, until, err := c.With(soloist.Options{Wait: time.Minute}).Detached().Acquire(t.Context(), lockOf("a#1"), repeated)
					if took := time.Since(begun); err != nil || took < away || took > away+10*time.Second {
						t.Fatalf("%v after %v", err, took)
					}
					if left := time.Until(until); left < 15*time.Second {
						t.Errorf("%v left of 30s", left)
					}
					for range 5 { // the time in which the client cleans up
						time.Sleep(5 * time.Second)
						if _, err := c.Detached().Extend(t.Context(), l); err != nil {
							t.Fatalf("the lease was taken away: %v", err)
						}
					}

					fails(s)
					begun = time.Now()
					_, _, err = c.With(soloist.Options{Wait: 20 * time.Second}).Detached().Acquire(t.Context(), soloist.Detached{Kind: soloist.KindLock, Name: "y", Holder: "a#2"}, repeated)
					if took := time.Since(begun); err == nil || took < 19*time.Second || took > 30*time.Second {
						t.Errorf("%v after %v, want an error when the wait is over", err, took)
					}
					if unknown := what != "refuses"; errors.Is(err, soloist.ErrUnknown) != unknown {
						t.Errorf("the outcome is %v, want unknown: %t", err, unknown)
					}
					s.Heal()
				})
			})
		}
	}
}

// What is granted to a caller that has gone, and that does not ask again, is released.
func TestDetachedLeaseOfACallerThatHasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := soloisttest.NewStore()
		c := soloisttest.NewReplica(t, s, soloist.Config{})
		s.Slow(2 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _, err := c.Detached().Acquire(ctx, lockOf("a#1"), false)
		wantIs(t, "acquiring", err, context.DeadlineExceeded)
		s.Slow(0)
		l, err := c.TryLock(t.Context(), "x")
		wantIs(t, "another", err, nil)
		s.Slow(2 * time.Second)
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _, err = c.Detached().Acquire(ctx, lockOf("a#2"), false)
		if held := (*soloist.HeldError)(nil); !errors.As(err, &held) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("what was refused: %v", err)
		}
		s.Slow(0)
		wantIs(t, "releasing", l.Release(), nil)
	})
}

// What is granted to a caller that has gone, and that may ask again, is there for it.
func TestDetachedLeaseWaitsForItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := soloisttest.NewStore()
		c := soloisttest.NewReplica(t, s, soloist.Config{})
		s.Slow(2 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		first, _, _ := c.Detached().Acquire(ctx, lockOf("a#1"), true)
		s.Slow(0)
		_, err := c.TryLock(t.Context(), "x")
		wantIs(t, "another", err, soloist.ErrHeld)
		if again, _ := mustAcquire(t, c, lockOf("a#1"), true); again.Token != first.Token {
			t.Errorf("token %d, and again %d", first.Token, again.Token)
		}
	})
}

// A lease that has ended before its caller could be told what is left of it is held for no time, or lost.
func TestDetachedLeaseThatHasEndedMeanwhile(t *testing.T) {
	for _, repeated := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := &troubled{Store: soloisttest.NewStore()}
			s.set(func(c store.Claim, out store.Outcome) {
				if out.Err == nil {
					time.Sleep(4 * time.Second)
				}
			}, nil)
			c := soloisttest.NewReplica(t, s, soloist.Config{TTL: 3 * time.Second, RequestTimeout: 10 * time.Second})
			if _, until, err := c.Detached().Acquire(t.Context(), lockOf("a#1"), repeated); until.After(time.Now()) || repeated && !errors.Is(err, soloist.ErrLost) {
				t.Errorf("%v left, %v, repeated %t", time.Until(until), err, repeated)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s := soloisttest.NewStore()
		c := soloisttest.NewReplica(t, s, soloist.Config{TTL: 3 * time.Second, RequestTimeout: 10 * time.Second})
		mustAcquire(t, c, lockOf("a#1"), true)
		s.Slow(2800 * time.Millisecond)
		if _, until, err := c.Detached().Acquire(t.Context(), lockOf("a#1"), true); err == nil && time.Until(until) < 0 {
			t.Errorf("read late: %v left, %v", time.Until(until), err)
		}
		s.Slow(0)
		l, _ := mustAcquire(t, c, lockOf("b#1"), true)
		time.Sleep(2900 * time.Millisecond)
		if info, err := c.Detached().Look(t.Context(), l); err != nil || info.Left != 0 {
			t.Errorf("within the margin: %+v, %v", info, err)
		}
		s.Slow(2950 * time.Millisecond)
		if until, err := c.Detached().Extend(t.Context(), l); until.After(time.Now()) {
			t.Errorf("extended too late: %v left, %v", time.Until(until), err)
		}
	})
}

// What a claim may have been granted whose outcome stays unknown is released as soon as the store can be reached again, long before it would end.
func TestDetachedLeaseThatMayHaveBeenGrantedIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := soloisttest.NewStore()
		c := soloisttest.NewReplica(t, s, soloist.Config{TTL: time.Hour})
		other := soloisttest.NewReplica(t, s.Share(), soloist.Config{})
		s.LoseReplies(1000)
		_, _, err := c.Detached().Acquire(t.Context(), lockOf("a#1"), false)
		wantIs(t, "acquiring", err, soloist.ErrUnknown)
		s.Heal()
		time.Sleep(10 * time.Minute)
		l, err := other.TryLock(t.Context(), "x")
		wantIs(t, "another", err, nil)
		if err == nil {
			wantIs(t, "releasing", l.Release(), nil)
		}
	})
}

// A detached lease is renewed and released by way of any client, and expires by itself.
func TestDetachedLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := soloisttest.NewStore()
		one := soloisttest.NewReplica(t, s, soloist.Config{})
		two := soloisttest.NewReplica(t, s.Share(), soloist.Config{})
		l, left := mustAcquire(t, one, lockOf("a#1"), false)
		if left != 27*time.Second || l.Token == 0 {
			t.Errorf("token %d, %v left; want 27s: the TTL without the margin", l.Token, left)
		}
		_, err := one.TryLock(t.Context(), "x")
		wantIs(t, "another", err, soloist.ErrHeld)
		time.Sleep(20 * time.Second)
		if until, err := two.Detached().Extend(t.Context(), l); err != nil || time.Until(until) != 27*time.Second {
			t.Errorf("extended by %v: %v", time.Until(until), err)
		}
		time.Sleep(20 * time.Second)
		if info, err := one.Detached().Look(t.Context(), l); err != nil || info.Left != 7*time.Second || info.Replica() != "a" {
			t.Errorf("%+v, %v", info, err)
		}
		stranger := l
		stranger.Holder = "a#2"
		_, err = two.Detached().Extend(t.Context(), stranger)
		wantIs(t, "extending what another holds", err, soloist.ErrLost)
		wantIs(t, "releasing what another holds", two.Detached().Release(t.Context(), stranger), soloist.ErrLost)
		wantIs(t, "releasing", two.Detached().Release(t.Context(), l), nil)
		wantIs(t, "releasing again", two.Detached().Release(t.Context(), l), nil)
		_, err = two.Detached().Extend(t.Context(), l)
		wantIs(t, "extending what was released", err, soloist.ErrLost)
		again, _ := mustAcquire(t, two, lockOf("b#1"), false)
		if again.Token <= l.Token {
			t.Errorf("token %d after %d", again.Token, l.Token)
		}
		wantIs(t, "releasing after another has it", one.Detached().Release(t.Context(), l), soloist.ErrLost)
		time.Sleep(31 * time.Second)
		_, err = one.Detached().Look(t.Context(), again)
		wantIs(t, "looking after it has expired", err, soloist.ErrLost)
	})
}

func TestDetachedAtLeast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := soloisttest.NewReplica(t, soloisttest.NewStore(), soloist.Config{}).With(soloist.Options{AtLeast: time.Minute})
		l, _ := mustAcquire(t, c, lockOf("a#1"), false)
		time.Sleep(10 * time.Second)
		wantIs(t, "releasing", c.Detached().Release(t.Context(), l), nil)
		_, err := c.TryLock(t.Context(), "x")
		var held *soloist.HeldError
		if !errors.As(err, &held) || held.Holder != "" || held.Left != 50*time.Second {
			t.Errorf("%+v, want it to linger for another 50s", err)
		}
	})
}

// A call whose reply was lost is repeated: it gets the same lease, and what is left of it. What the first call leaves behind does not take
// the lease away from the second.
func TestDetachedRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := soloisttest.NewStore()
		c := soloisttest.NewReplica(t, s, soloist.Config{})
		first, _ := mustAcquire(t, c, lockOf("a#1"), true)
		time.Sleep(10 * time.Second)
		again, left := mustAcquire(t, c, lockOf("a#1"), true)
		if again != first || left != 17*time.Second {
			t.Errorf("%+v with %v left after %+v", again, left, first)
		}
		wantIs(t, "releasing", c.Detached().Release(t.Context(), first), nil)

		s.Stall() // requests arrive, and no reply comes back
		_, _, err := c.Detached().Acquire(t.Context(), lockOf("a#2"), true)
		wantIs(t, "while no reply comes", err, soloist.ErrUnknown)
		s.Heal()
		third, _ := mustAcquire(t, c, lockOf("a#2"), true)
		for range 5 { // the time in which the client cleans up
			time.Sleep(5 * time.Second)
			if _, err := c.Detached().Extend(t.Context(), third); err != nil {
				t.Fatalf("the lease was taken away: %v", err)
			}
		}
	})
}

// overtaken is a store in which a lease ends, and the same holder acquires the name again, before the first read of the record.
type overtaken struct {
	*soloisttest.Store
	t    *testing.T
	last *store.Outcome // the last grant that was made
	by   *store.Claim
}

func (s overtaken) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	if claims[0].Mark == -1 && s.by.Holder != "" {
		again, c := *s.by, *s.last
		s.by.Holder = ""
		errs, err := s.Store.Release(ctx, []store.Release{{Name: again.Name, Holder: again.Holder, Token: c.Grant.Token}})
		if err != nil || errs[0] != nil {
			s.t.Error(errs, err)
		}
		if outs, err := s.Store.Acquire(ctx, []store.Claim{again}); err != nil || outs[0].Err != nil {
			s.t.Error(outs, err)
		}
	}
	outs, err := s.Store.Acquire(ctx, claims)
	if claims[0].Mark == 0 && err == nil && outs[0].Err == nil {
		*s.last, *s.by = outs[0], claims[0]
	}
	return outs, err
}

// A grant whose lease has ended is not held, although its holder has the name again: with another token.
func TestDetachedGrantIsNotTheNextOfItsHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := overtaken{soloisttest.NewStore(), t, &store.Outcome{}, &store.Claim{}}
		c := soloisttest.NewReplica(t, s, soloist.Config{})
		l, until, err := c.Detached().Acquire(t.Context(), lockOf("a#1"), true)
		if !errors.Is(err, soloist.ErrLost) || !until.IsZero() {
			t.Errorf("%+v, held until %v: %v; want ErrLost", l, until, err)
		}
	})
}

// A release with the token of a lease that has ended does not end a later one of the same holder: not if the record is read before, and not if it is not.
func TestDetachedReleaseIsOfItsToken(t *testing.T) {
	for _, opts := range []soloist.Options{{}, {AtLeast: time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			c := soloisttest.NewReplica(t, soloisttest.NewStore(), soloist.Config{}).With(opts)
			old, _ := mustAcquire(t, c, lockOf("a#1"), false)
			time.Sleep(time.Minute)
			l, _ := mustAcquire(t, c, lockOf("a#1"), false)
			for _, plain := range []bool{true, false} {
				old.Plain = plain
				wantIs(t, "releasing what has ended", c.Detached().Release(t.Context(), old), soloist.ErrLost)
				_, err := c.Detached().Look(t.Context(), l)
				wantIs(t, "looking at the lease", err, nil)
			}
		})
	}
}

// A clockless store counts what is left of a lease from when its process has first seen the record. This one has just seen each.
type clockless struct{ *soloisttest.Store }

func (clockless) Clockless() {}

func (s clockless) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	outs, err := s.Store.Acquire(ctx, claims)
	for _, out := range outs {
		if done, ok := errors.AsType[*store.DoneError](out.Err); ok && done.Record.Left > 0 {
			done.Record.Left = 30 * time.Second
		}
	}
	return outs, err
}

// A call that is repeated in another process holds the lease for as long as it is told there, also in a store without a clock.
func TestDetachedRetryWithoutAClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := soloisttest.NewStore()
		first, _ := mustAcquire(t, soloisttest.NewReplica(t, clockless{s}, soloist.Config{}), lockOf("a#1"), true)
		time.Sleep(20 * time.Second)
		c := soloisttest.NewReplica(t, clockless{s.Share()}, soloist.Config{})
		again, left := mustAcquire(t, c, lockOf("a#1"), true)
		if again != first || left <= 0 {
			t.Fatalf("%+v with %v left after %+v", again, left, first)
		}
		time.Sleep(left)
		_, err := c.Detached().Extend(t.Context(), again)
		wantIs(t, "extending it when it is certainly held", err, nil)
	})
}

// One who looks at a lease in a store without a clock is not told that it is certainly held: another process may have seen it earlier.
func TestDetachedLookWithoutAClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := soloisttest.NewStore()
		l, _ := mustAcquire(t, soloisttest.NewReplica(t, clockless{s}, soloist.Config{}), lockOf("a#1"), true)
		time.Sleep(20 * time.Second)
		c := soloisttest.NewReplica(t, clockless{s.Share()}, soloist.Config{})
		if info, err := c.Detached().Look(t.Context(), l); err != nil || info.Left != 0 || info.Token != l.Token {
			t.Errorf("%+v, %v; want it held, for nobody knows how long", info, err)
		}
		_, err := c.Detached().Extend(t.Context(), l)
		wantIs(t, "extending it", err, nil)
	})
}

// clocklessInTrouble is a troubled store without a clock.
type clocklessInTrouble struct{ *troubled }

func (clocklessInTrouble) Clockless() {}

// Of what was granted nobody says that nothing was done, also if the store has gone before it is known what is left of the lease.
func TestDetachedLeaseOfAStoreThatGoes(t *testing.T) {
	for what, of := range map[string]func(*troubled) store.Store{
		"with a clock": func(s *troubled) store.Store { return s }, "without a clock": func(s *troubled) store.Store { return clocklessInTrouble{s} },
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &troubled{Store: soloisttest.NewStore()}
			s.set(func(_ store.Claim, out store.Outcome) {
				if out.Err == nil {
					s.Break(errors.New("connection refused"))
				}
			}, nil)
			_, _, err := soloisttest.NewReplica(t, of(s), soloist.Config{}).Detached().Acquire(t.Context(), lockOf("a#1"), true)
			wantIs(t, what, err, soloist.ErrUnknown)
			s.Heal()
		})
	}
}

// A call that is repeated gets its lease at once, although others wait for the end of that lease.
func TestDetachedRetryPassesThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := soloisttest.NewReplica(t, soloisttest.NewStore(), soloist.Config{}).With(soloist.Options{Wait: time.Minute})
		first, _ := mustAcquire(t, c, lockOf("a#1"), true)
		other := make(chan soloist.Detached, 1)
		go func() {
			got, _, _ := c.Detached().Acquire(t.Context(), lockOf("b#1"), true)
			other <- got
		}()
		synctest.Wait()
		begin := time.Now()
		again, _ := mustAcquire(t, c, lockOf("a#1"), true)
		if took := time.Since(begin); again != first || took != 0 {
			t.Errorf("%+v after %v; want %+v at once", again, took, first)
		}
		wantIs(t, "releasing", c.Detached().Release(t.Context(), again), nil)
		if got := <-other; got.Token <= first.Token {
			t.Errorf("the other got %+v", got)
		}
	})
}

// failing is a store that fails some claims.
type failing struct {
	*soloisttest.Store
	fails func(store.Claim) bool
}

func (f failing) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	if slices.ContainsFunc(claims, f.fails) {
		return nil, errors.New("refused")
	}
	return f.Store.Acquire(ctx, claims)
}

// What was done before the store failed is not reported as not done.
func TestWhatIsDoneInPartIsUnknown(t *testing.T) {
	c := soloisttest.NewReplica(t, failing{soloisttest.NewStore(), func(c store.Claim) bool { return c.Mark < 0 }}, soloist.Config{})
	_, _, err := c.Detached().Acquire(t.Context(), lockOf("a#1"), true)
	wantIs(t, "a grant of which the rest cannot be read", err, soloist.ErrUnknown)

	c = soloisttest.NewReplica(t, failing{soloisttest.NewStore(), func(c store.Claim) bool {
		return strings.HasSuffix(c.Name, "actions") && c.Mark >= 0
	}}, soloist.Config{})
	l, _ := mustAcquire(t, c, lockOf("a#1"), false)
	err = c.Admin().Release(t.Context(), soloist.LeaseInfo{Kind: soloist.KindLock, Name: "x", Token: l.Token}, "stuck")
	wantIs(t, "a release that could not be noted", err, soloist.ErrUnknown)
}

// A call that may not be repeated leaves nothing behind.
func TestDetachedWithoutRetryIsCleanedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := soloisttest.NewStore()
		c := soloisttest.NewReplica(t, s, soloist.Config{TTL: time.Hour})
		s.Stall()
		_, _, err := c.Detached().Acquire(t.Context(), lockOf("a#1"), false)
		wantIs(t, "while no reply comes", err, soloist.ErrUnknown)
		s.Heal()
		time.Sleep(20 * time.Minute)
		mustAcquire(t, c, lockOf("a#2"), false)
	})
}

func TestDetachedWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := soloisttest.NewStore()
		c := soloisttest.NewReplica(t, s, soloist.Config{}).With(soloist.Options{Wait: time.Minute})
		l, _ := mustAcquire(t, c, lockOf("a#1"), false)
		time.AfterFunc(10*time.Second, func() { _ = c.Detached().Release(context.Background(), l) })
		begin := time.Now()
		l, _ = mustAcquire(t, c, lockOf("b#1"), false)
		if took := time.Since(begin); took < 10*time.Second || took > 11*time.Second {
			t.Errorf("it waited for %v", took)
		}
		begin = time.Now()
		l, _ = mustAcquire(t, c, lockOf("c#1"), false) // after the lease has expired
		if took := time.Since(begin); took < 30*time.Second || took > 31*time.Second {
			t.Errorf("it waited for %v", took)
		}
		keep := time.NewTicker(10 * time.Second)
		defer keep.Stop()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for range 8 {
				<-keep.C
				_, _ = c.Detached().Extend(context.Background(), l)
			}
		}()
		begin = time.Now()
		_, _, err := c.Detached().Acquire(t.Context(), lockOf("d#1"), false)
		wantIs(t, "after the wait", err, soloist.ErrHeld)
		if took := time.Since(begin); took != time.Minute {
			t.Errorf("it waited for %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _, err = c.Detached().Acquire(ctx, lockOf("e#1"), false)
		wantIs(t, "after the context", err, soloist.ErrHeld)
		<-ended
	})
}

func TestDetachedPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := soloisttest.NewReplica(t, soloisttest.NewStore(), soloist.Config{})
		permit := func(holder string) soloist.Detached {
			return soloist.Detached{Kind: soloist.KindPermit, Name: "s", Limit: 2, Holder: holder}
		}
		a, _ := mustAcquire(t, c, permit("a#1"), false)
		b, _ := mustAcquire(t, c, permit("b#1"), true)
		if again, _ := mustAcquire(t, c, permit("b#1"), true); again != b || a.Permit == b.Permit {
			t.Errorf("%+v, %+v, and again %+v", a, b, again)
		}
		_, _, err := c.Detached().Acquire(t.Context(), permit("c#1"), false)
		wantIs(t, "the third", err, soloist.ErrHeld)
		n := 0
		for info, err := range c.Admin().Semaphores(t.Context()) {
			n++
			if err != nil || info.Limit != 2 || len(info.Permits) != 2 || info.Permits[0].Replica() == info.Permits[1].Replica() {
				t.Errorf("%+v, %v", info, err)
			}
		}
		if n != 1 {
			t.Errorf("%d records, want 1", n)
		}
		_, err = c.Detached().Extend(t.Context(), a)
		wantIs(t, "extending", err, nil)
		wantIs(t, "releasing", c.Detached().Release(t.Context(), a), nil)
		mustAcquire(t, c, permit("c#1"), false)
		a.Permit = 2
		_, err = c.Detached().Extend(t.Context(), a)
		var invalid *soloist.InvalidError
		if !errors.As(err, &invalid) {
			t.Errorf("a permit that does not exist: %v", err)
		}
	})
}

// Failures and crashes of detached elements count as those of others.
func TestDetachedElements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := soloisttest.NewReplica(t, soloisttest.NewStore(), soloist.Config{})
		elements := c.Elements("invoices", soloist.ElementsOptions{Retry: soloist.Retry{Attempts: 3, Backoff: time.Second}})
		claim := func(id, holder string) soloist.DetachedElement {
			t.Helper()
			el, err := elements.ClaimDetached(t.Context(), id, holder, true)
			if err != nil {
				t.Fatal(err)
			}
			return el
		}
		el := claim("1", "a#1")
		if again := claim("1", "a#1"); again != el || el.Attempt != 1 {
			t.Errorf("%+v, and again %+v", el, again)
		}
		_, err := elements.ClaimDetached(t.Context(), "1", "b#1", true)
		if held := (*soloist.HeldError)(nil); !errors.As(err, &held) || held.Kind != soloist.KindElement || held.Name != "1" || held.Holder != "a#1" {
			t.Errorf("another: %v", err)
		}
		wantIs(t, "done", elements.DoneDetached(t.Context(), el.Detached), nil)
		wantIs(t, "done again", elements.DoneDetached(t.Context(), el.Detached), nil)
		_, err = elements.ClaimDetached(t.Context(), "1", "c#1", true)
		wantIs(t, "after it is done", err, soloist.ErrDone)
		begin := time.Now()
		_, err = c.With(soloist.Options{Wait: time.Minute}).Elements("invoices", soloist.ElementsOptions{}).ClaimDetached(t.Context(), "1", "c#1", true)
		if wantIs(t, "waiting when it is done", err, soloist.ErrDone); time.Since(begin) > 0 {
			t.Errorf("it waited for %v", time.Since(begin))
		}

		el = claim("2", "a#1")
		wantIs(t, "failed", elements.FailDetached(t.Context(), el.Detached, errors.New("no paper")), nil)
		wantIs(t, "failed again", elements.FailDetached(t.Context(), el.Detached, errors.New("no paper")), nil)
		_, err = elements.ClaimDetached(t.Context(), "2", "a#2", true)
		wantIs(t, "within the back-off", err, soloist.ErrHeld)
		time.Sleep(time.Second)
		if el = claim("2", "a#3"); el.Attempt != 2 {
			t.Errorf("attempt %d after a failure", el.Attempt)
		}
		time.Sleep(31 * time.Second) // its holder is dead
		if el = claim("2", "a#4"); el.Attempt != 3 {
			t.Errorf("attempt %d after a failure and a crash", el.Attempt)
		}
		time.Sleep(31 * time.Second)
		_, err = elements.ClaimDetached(t.Context(), "2", "a#5", true)
		if failed := (*soloist.FailedError)(nil); !errors.As(err, &failed) || failed.ID != "2" || failed.Attempts != 3 || !strings.Contains(failed.Reason, "died") {
			t.Errorf("after three attempts: %v", err)
		}
		time.Sleep(31 * time.Second) // until then another call of that holder may have it
		_, err = elements.ClaimDetached(t.Context(), "2", "a#6", true)
		wantIs(t, "after that it has failed", err, soloist.ErrFailed)
		wantIs(t, "done by one that lost it", elements.DoneDetached(t.Context(), el.Detached), soloist.ErrLost)
		wantIs(t, "failed by one that lost it", elements.FailDetached(t.Context(), el.Detached, errors.New("late")), soloist.ErrLost)

		el = claim("3", "a#1")
		wantIs(t, "released", c.Detached().Release(t.Context(), el.Detached), nil)
		if el = claim("3", "a#2"); el.Attempt != 1 {
			t.Errorf("attempt %d after a release", el.Attempt)
		}
		var got []string
		for info, err := range c.Admin().Elements(t.Context(), "invoices") {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, info.ID+" "+info.Status)
		}
		if !slices.Equal(got, []string{"1 processed", "2 failed", "3 claimed"}) {
			t.Errorf("%q", got)
		}
	})
}

// What is not valid is an *InvalidError of every call, and what is just valid is none.
func TestDetachedInput(t *testing.T) {
	c := soloisttest.NewReplica(t, soloisttest.NewStore(), soloist.Config{})
	leases := c.Detached()
	calls := map[string]func(soloist.Detached) error{
		"Acquire": func(d soloist.Detached) error { _, _, err := leases.Acquire(t.Context(), d, false); return err },
		"Extend":  func(d soloist.Detached) error { _, err := leases.Extend(t.Context(), d); return err },
		"Look":    func(d soloist.Detached) error { _, err := leases.Look(t.Context(), d); return err },
		"Release": func(d soloist.Detached) error { return leases.Release(t.Context(), d) },
	}
	const token = 7
	for _, test := range []struct {
		d    soloist.Detached
		what string // is not valid
	}{
		{soloist.Detached{}, "kind"},
		{soloist.Detached{Kind: soloist.KindLock, Name: "x"}, "holder"},
		{soloist.Detached{Kind: soloist.KindLock, Holder: "a"}, "name"},
		{soloist.Detached{Kind: soloist.KindJob, Name: "x", Holder: "a"}, "kind"},
		{soloist.Detached{Kind: soloist.KindElement, Name: "x", Holder: "a"}, "name"},
		{soloist.Detached{Kind: soloist.KindElement, Job: "j", Holder: "a"}, "name"},
		{soloist.Detached{Kind: soloist.KindPermit, Name: "x", Holder: "a"}, "limit"},
		{soloist.Detached{Kind: soloist.KindPermit, Name: "x", Limit: 1001, Holder: "a"}, "limit"},
		{soloist.Detached{Kind: soloist.KindPermit, Name: "x", Limit: 3}, "holder"},
		{soloist.Detached{Kind: soloist.KindLock, Name: "x", Holder: "a\n"}, "holder"},
		{soloist.Detached{Kind: soloist.KindLock, Name: "x", Holder: strings.Repeat("a", 201)}, "holder"},
		{soloist.Detached{Kind: soloist.KindPermit, Name: "x", Limit: 3, Holder: strings.Repeat("a", 201)}, "holder"},
	} {
		test.d.Token = token
		for call, do := range calls {
			err := do(test.d)
			var invalid *soloist.InvalidError
			if !errors.As(err, &invalid) || invalid.What != test.what || invalid.Rule == "" || len(invalid.Value) > 100 {
				t.Errorf("%s %+v: %v; want an InvalidError about the %s", call, test.d, err, test.what)
			}
		}
	}
	for _, permit := range []int{-1, 3} {
		d := soloist.Detached{Kind: soloist.KindPermit, Name: "x", Limit: 3, Permit: permit, Holder: "a", Token: token}
		for _, call := range []string{"Extend", "Look", "Release"} {
			err := calls[call](d)
			var invalid *soloist.InvalidError
			if !errors.As(err, &invalid) || invalid.What != "permit" || !strings.Contains(invalid.Rule, "from 0 to 2") {
				t.Errorf("%s %+v: %v; want an InvalidError about the permit", call, d, err)
			}
		}
	}
	err := calls["Acquire"](soloist.Detached{Kind: soloist.KindElement, Name: "x", Job: "j", Holder: "a"})
	var invalid *soloist.InvalidError
	if !errors.As(err, &invalid) || !strings.Contains(invalid.Rule, "ClaimDetached") {
		t.Errorf("acquiring an element: %v", err)
	}
	for _, plain := range []bool{true, false} {
		d := soloist.Detached{Kind: soloist.KindLock, Name: "x", Holder: "a", Plain: plain}
		begin := time.Now()
		if err := leases.Release(t.Context(), d); !errors.As(err, &invalid) || invalid.What != "token" || errors.Is(err, soloist.ErrUnknown) {
			t.Errorf("releasing without a token, after %v: %v", time.Since(begin), err)
		}
	}
	if l, _ := mustAcquire(t, c, lockOf(strings.Repeat("a", 200)), false); l.Permit != 0 {
		t.Errorf("%+v", l)
	}
	elements := c.Elements("j", soloist.ElementsOptions{})
	for what, claim := range map[string]func() error{
		"holder": func() error { _, err := elements.ClaimDetached(t.Context(), "1", "a\n", false); return err },
		"name":   func() error { _, err := elements.ClaimDetached(t.Context(), "", "a", false); return err },
		"Retain": func() error {
			_, err := c.Elements("j", soloist.ElementsOptions{Retain: -1}).ClaimDetached(t.Context(), "1", "a", false)
			return err
		},
	} {
		if err := claim(); !errors.As(err, &invalid) || invalid.What != what {
			t.Errorf("claiming: %v; want an InvalidError about the %s", err, what)
		}
	}
	for what, d := range map[string]soloist.Detached{
		"a lock": {Kind: soloist.KindLock, Job: "j", Name: "1", Holder: "a", Token: token}, "another job's": {Kind: soloist.KindElement, Job: "k", Name: "1", Holder: "a", Token: token},
	} {
		for _, err := range []error{elements.DoneDetached(t.Context(), d), elements.FailDetached(t.Context(), d, errors.New("no"))} {
			if !errors.As(err, &invalid) {
				t.Errorf("ending %s: %v", what, err)
			}
		}
	}
}

// detachedCalls are the calls with a detached lock and a detached element that the caller has, and to get another.
func detachedCalls(t *testing.T, c *soloist.Client, l, el soloist.Detached) map[string]func() error {
	leases, elements := c.Detached(), c.Elements(el.Job, soloist.ElementsOptions{})
	another := l
	another.Name, another.Holder = "another", "another"
	read := l
	read.Plain = false
	return map[string]func() error{
		"Acquire":         func() error { _, _, err := leases.Acquire(t.Context(), another, false); return err },
		"ClaimDetached":   func() error { _, err := elements.ClaimDetached(t.Context(), "another", "another", false); return err },
		"Extend":          func() error { _, err := leases.Extend(t.Context(), l); return err },
		"Look":            func() error { _, err := leases.Look(t.Context(), l); return err },
		"Release":         func() error { return leases.Release(t.Context(), l) },
		"Release by read": func() error { return leases.Release(t.Context(), read) },
		"DoneDetached":    func() error { return elements.DoneDetached(t.Context(), el) },
		"FailDetached":    func() error { return elements.FailDetached(t.Context(), el, errors.New("no")) },
	}
}

// While the client is closed, or its store is away, no call says that it has done something; the leases are as they were.
func TestDetachedCallsThatCannotBeDone(t *testing.T) {
	away := errors.New("away")
	for what, test := range map[string]struct {
		hinders func(*soloist.Client, *soloisttest.Store)
		want    error
	}{
		"closed": {func(c *soloist.Client, _ *soloisttest.Store) { _ = c.Close() }, soloist.ErrClosed},
		"away":   {func(_ *soloist.Client, s *soloisttest.Store) { s.Break(away) }, away},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := soloisttest.NewStore()
				c, other := soloisttest.NewReplica(t, s, soloist.Config{TTL: time.Hour}), soloisttest.NewReplica(t, s.Share(), soloist.Config{})
				l, _ := mustAcquire(t, c, lockOf("a#1"), false)
				el, err := c.Elements("j", soloist.ElementsOptions{}).ClaimDetached(t.Context(), "1", "a#1", false)
				must(t, err)
				test.hinders(c, s)
				for call, do := range detachedCalls(t, c, l, el.Detached) {
					wantIs(t, call, do(), test.want)
				}
				s.Heal()
				for call, do := range detachedCalls(t, other, l, el.Detached) {
					if call == "Look" || call == "DoneDetached" {
						wantIs(t, call+" by way of another client", do(), nil)
					}
				}
			})
		})
	}
}

// The log of actions shows who made a change through a service.
func TestActionsByOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := soloisttest.NewReplica(t, soloisttest.NewStore(), soloist.Config{})
		l, _ := mustAcquire(t, c, lockOf("a#1"), false)
		seen := soloist.LeaseInfo{Kind: soloist.KindLock, Name: "x", Token: l.Token}
		if err := c.Admin().By("alice").Release(t.Context(), seen, "stuck"); err != nil {
			t.Fatal(err)
		}
		n := 0
		for action, err := range c.Admin().Actions(t.Context()) {
			n++
			if err != nil || action.By != "alice" || action.Verb != soloist.ActionRelease || action.Token != l.Token {
				t.Errorf("%+v, %v", action, err)
			}
		}
		if n != 1 {
			t.Errorf("%d records, want 1", n)
		}
	})
}

// A detached lease of a name without mark and state is one request to acquire and one to release. A state is not forgotten: the release reads that there is one.
func TestDetachedReleaseReadsWhatItMustKeep(t *testing.T) {
	s := soloisttest.NewStore()
	c := soloisttest.NewReplica(t, s, soloist.Config{})
	d := soloist.Detached{Kind: soloist.KindLock, Name: "close-month", Holder: "a#1"}
	release := func(want int, opts soloist.Options) {
		t.Helper()
		leases := c.With(opts).Detached()
		got, _, err := leases.Acquire(t.Context(), d, false)
		if err != nil {
			t.Fatal(err)
		}
		before := s.Calls()
		if err := leases.Release(t.Context(), got); err != nil {
			t.Fatal(err)
		}
		if calls := s.Calls() - before; calls != want {
			t.Errorf("%d requests to release, want %d", calls, want)
		}
	}
	release(1, soloist.Options{})
	release(2, soloist.Options{AtLeast: time.Nanosecond}) // it depends on how old the lease is

	l, err := c.TryLock(t.Context(), "close-month")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.SetState(t.Context(), []byte("page 7")), l.Release()); err != nil {
		t.Fatal(err)
	}
	release(2, soloist.Options{})
	if _, err := s.Sweep(t.Context(), 1000); err != nil {
		t.Fatal(err)
	}
	if l, err = c.TryLock(t.Context(), "close-month"); err != nil || string(l.State()) != "page 7" {
		t.Errorf("%q, %v", l.State(), err)
	}
}

// An element that has failed for good fails no more times because somebody died who looked at it; and one of another job cannot be recorded.
func TestDetachedElementThatHasFailedForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := soloisttest.NewStore()
		c := soloisttest.NewReplica(t, s, soloist.Config{})
		elements := c.Elements("invoices", soloist.ElementsOptions{Retry: soloist.Retry{Attempts: 1}})
		el, err := elements.ClaimDetached(t.Context(), "1", "a#1", false)
		if err != nil {
			t.Fatal(err)
		}
		var invalid *soloist.InvalidError
		if err := c.Elements("letters", soloist.ElementsOptions{}).DoneDetached(t.Context(), el.Detached); !errors.As(err, &invalid) {
			t.Errorf("recording an element of another job: %v", err)
		}
		wantIs(t, "failed", elements.FailDetached(t.Context(), el.Detached, errors.New("no paper")), nil)
		outs, err := s.Acquire(t.Context(), []store.Claim{{Name: "element/invoices/1", Holder: "b#1", TTL: time.Second, Mark: 1}})
		if err != nil || outs[0].Err != nil || outs[0].Grant.State == nil {
			t.Fatal(outs, err)
		}
		time.Sleep(2 * time.Second)
		_, err = elements.ClaimDetached(t.Context(), "1", "c#1", false)
		var failed *soloist.FailedError
		if !errors.As(err, &failed) || failed.Attempts != 1 {
			t.Errorf("after one attempt: %v", err)
		}
	})
}

// A looked store notes that a permit was asked for.
type looked struct {
	deaf
	looks chan struct{}
}

func (s looked) Choose(ctx context.Context, names []string, claim store.Claim) (int, store.Grant, error) {
	select {
	case s.looks <- struct{}{}:
	default:
	}
	return s.deaf.Choose(ctx, names, claim)
}

// Who waits in the same process for a permit is woken by the release of any, also where the store tells nobody.
func TestDetachedPermitIsHandedOn(t *testing.T) {
	for released := range 2 {
		synctest.Test(t, func(t *testing.T) {
			s := looked{deaf{soloisttest.NewStore()}, make(chan struct{}, 1)}
			c := soloisttest.NewReplica(t, s, soloist.Config{}).With(soloist.Options{Wait: time.Minute})
			var held [2]soloist.Detached
			for _, holder := range []string{"a#1", "b#1"} {
				d, _ := mustAcquire(t, c, soloist.Detached{Kind: soloist.KindPermit, Name: "s", Limit: 2, Holder: holder}, false)
				held[d.Permit] = d
			}
			got := make(chan time.Time, 1)
			go func() {
				mustAcquire(t, c, soloist.Detached{Kind: soloist.KindPermit, Name: "s", Limit: 2, Holder: "c#1"}, false)
				got <- time.Now()
			}()
			time.Sleep(5 * time.Second) // it looks once a second by now
			<-s.looks
			<-s.looks
			time.Sleep(time.Millisecond)
			at := time.Now()
			wantIs(t, "releasing", c.Detached().Release(t.Context(), held[released]), nil)
			if later := (<-got).Sub(at); later > 0 {
				t.Errorf("permit %d was released, and taken %v later", released, later)
			}
		})
	}
}

// A release between the refusal of one who waits and its subscription to releases is noticed at once.
func TestDetachedWaitMissesNoRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := soloisttest.NewStore()
		other := soloisttest.NewReplica(t, s, soloist.Config{})
		held, _ := mustAcquire(t, other, lockOf("a#1"), false)
		releases := func() { wantIs(t, "releasing", other.Detached().Release(context.Background(), held), nil) }
		c := soloisttest.NewReplica(t, &wakerThatEnds{s.Share(), releases}, soloist.Config{}).With(soloist.Options{Wait: time.Minute})
		begin := time.Now()
		mustAcquire(t, c, lockOf("b#1"), false)
		if took := time.Since(begin); took > 0 {
			t.Errorf("it waited for %v", took)
		}
	})
}

// A subscribed store notes the requests to acquire, and the contexts of subscriptions. The first subscription is lost at once if it is told so.
type subscribed struct {
	*soloisttest.Store
	loses    bool
	asked    atomic.Int32
	contexts []context.Context
}

func (s *subscribed) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	s.asked.Add(1)
	return s.Store.Acquire(ctx, claims)
}

func (s *subscribed) Watch(ctx context.Context, names []string) (<-chan struct{}, error) {
	if s.contexts = append(s.contexts, ctx); s.loses && len(s.contexts) == 1 {
		lost := make(chan struct{})
		close(lost)
		return lost, nil
	}
	return s.Store.Watch(ctx, names)
}

// One who waits asks when it begins to and when it has subscribed to releases, and no more until there is one, or until it stops waiting. Who waits behind it in the same
// process asks nothing. No subscription outlives the wait.
func TestDetachedWaitCostsLittle(t *testing.T) {
	for name, loses := range map[string]bool{"subscribed": false, "after a lost subscription": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &subscribed{Store: soloisttest.NewStore(), loses: loses}
				holder := soloisttest.NewReplica(t, s.Share(), soloist.Config{})
				l := mustLock(t, holder, "x")
				c := soloisttest.NewReplica(t, s, soloist.Config{})
				waits := func(holder string, wait time.Duration, took time.Duration) {
					t.Helper()
					begin := time.Now()
					_, _, err := c.With(soloist.Options{Wait: wait}).Detached().Acquire(t.Context(), lockOf(holder), false)
					var held *soloist.HeldError
					if !errors.As(err, &held) || held.Name != "x" || held.Kind != soloist.KindLock || time.Since(begin) != took {
						t.Errorf("%s: %v after %v; want that it is held, after %v", holder, err, time.Since(begin), took)
					}
				}
				want := int32(2)
				if loses {
					want = 4
				}
				first := make(chan struct{})
				go func() {
					defer close(first)
					waits("a#1", 20*time.Second, 20*time.Second)
				}()
				time.Sleep(5 * time.Second)
				waits("b#1", 5*time.Second, 5*time.Second) // behind it
				<-first
				check(t, "requests", s.asked.Load(), want)
				subscriptions := len(s.contexts)
				s.Slow(2 * time.Second)
				waits("c#1", time.Second, 2*time.Second) // its time is over when it is refused
				s.Slow(0)
				check(t, "requests of all", s.asked.Load(), want+1)
				check(t, "subscriptions when the wait is over", len(s.contexts), subscriptions)

				got := make(chan struct{})
				go func() {
					defer close(got)
					mustAcquire(t, c.With(soloist.Options{Wait: -1}), lockOf("d#1"), false)
				}()
				time.Sleep(10 * time.Second)
				synctest.Wait()
				for i, ctx := range s.contexts[:len(s.contexts)-1] {
					if ctx.Err() == nil {
						t.Errorf("subscription %d of %d goes on", i+1, len(s.contexts))
					}
				}
				must(t, l.Release())
				<-got
				if last := s.contexts[len(s.contexts)-1]; last.Err() == nil {
					t.Error("the last subscription goes on")
				}
			})
		})
	}
}

// Those who wait are told when their client closes, the first in line and the next; and where the store tells nobody of releases, the end of a lease is noticed when it comes.
func TestDetachedWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := deaf{soloisttest.NewStore()}
		other := soloisttest.NewReplica(t, s.Share(), soloist.Config{})
		c := soloisttest.NewReplica(t, s, soloist.Config{}).With(soloist.Options{Wait: -1})
		mustAcquire(t, other, lockOf("a#1"), false)
		begin := time.Now()
		mustAcquire(t, c, lockOf("b#1"), false)
		if took := time.Since(begin); took > 30*time.Second+20*time.Millisecond {
			t.Errorf("it waited for %v", took)
		}
		errs := make(chan error, 2)
		for _, holder := range []string{"c#1", "d#1"} {
			go func() {
				_, _, err := c.Detached().Acquire(t.Context(), lockOf(holder), false)
				errs <- err
			}()
		}
		time.Sleep(time.Second)
		begin = time.Now()
		must(t, c.Close())
		for range 2 {
			if err := <-errs; !errors.Is(err, soloist.ErrClosed) && !errors.Is(err, soloist.ErrHeld) || time.Since(begin) > 0 {
				t.Errorf("%v after %v", err, time.Since(begin))
			}
		}
	})
}

// What a list shows of a detached lease, its holder is shown, and nobody else: which permit it has, and which job its element is of.
func TestLookAtADetachedLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := soloisttest.NewReplica(t, soloisttest.NewStore(), soloist.Config{})
		mustAcquire(t, c, soloist.Detached{Kind: soloist.KindPermit, Name: "s", Limit: 2, Holder: "a#1"}, false)
		permit, _ := mustAcquire(t, c, soloist.Detached{Kind: soloist.KindPermit, Name: "s", Limit: 2, Holder: "a#2"}, false)
		el, err := c.Elements("invoices", soloist.ElementsOptions{}).ClaimDetached(t.Context(), "1", "a#3", false)
		must(t, err)
		if left := time.Until(el.Until); left != 27*time.Second {
			t.Errorf("%v left of the element", left)
		}
		for _, d := range []soloist.Detached{permit, el.Detached} {
			info, err := c.Detached().Look(t.Context(), d)
			if err != nil || info.Kind != d.Kind || info.Name != d.Name || info.Job != d.Job || info.Permit != d.Permit || info.Token != d.Token || info.Left != 27*time.Second {
				t.Errorf("%+v: %+v, %v", d, info, err)
			}
			d.Holder = "b#1"
			_, err = c.Detached().Look(t.Context(), d)
			wantIs(t, "looking as another", err, soloist.ErrLost)
		}
	})
}

// A release that need not read is repeated when its reply is lost; and one that says it need not, of an element, reads all the same.
func TestDetachedReleaseWithoutAReadIsAsGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := soloisttest.NewStore()
		c := soloisttest.NewReplica(t, s, soloist.Config{})
		l, _ := mustAcquire(t, c, lockOf("a#1"), false)
		s.LoseReplies(1)
		wantIs(t, "releasing", c.Detached().Release(t.Context(), l), nil)

		l, _ = mustAcquire(t, c, lockOf("a#1"), false)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		wantIs(t, "releasing for a caller that has gone", c.Detached().Release(gone, l), nil)
		l, _ = mustAcquire(t, c, lockOf("a#2"), false)
		away, begin := errors.New("away"), time.Now()
		s.Break(away)
		if err := c.Detached().Release(t.Context(), l); !errors.Is(err, away) || errors.Is(err, soloist.ErrUnknown) || time.Since(begin) > 0 {
			t.Errorf("a store that is certainly away: %v, after %v", err, time.Since(begin))
		}
		s.Heal()

		elements := c.Elements("invoices", soloist.ElementsOptions{})
		for attempt := 1; attempt <= 3; attempt++ {
			el, err := elements.ClaimDetached(t.Context(), "1", "a#1", false)
			if err != nil || el.Attempt != attempt {
				t.Errorf("%+v, %v; want attempt %d", el, err, attempt)
			}
			el.Plain = true
			wantIs(t, "failed", elements.FailDetached(t.Context(), el.Detached, errors.New("no paper")), nil)
		}

		leave(t, s, "lock/y", "") // a record that others have marked
		outs, err := s.Acquire(t.Context(), []store.Claim{{Name: "lock/y", Holder: "x", TTL: time.Second}})
		must(t, errors.Join(err, outs[0].Err))
		_, err = s.Release(t.Context(), []store.Release{{Name: "lock/y", Holder: "x", Token: outs[0].Grant.Token, Mark: 5, Retain: store.Forever}})
		must(t, err)
		marked, _ := mustAcquire(t, c, soloist.Detached{Kind: soloist.KindLock, Name: "y", Holder: "a#1"}, false)
		wantIs(t, "releasing what is marked", c.Detached().Release(t.Context(), marked), nil)
		time.Sleep(time.Minute)
		_, err = s.Sweep(t.Context(), 1000)
		must(t, err)
		if marked, _ = mustAcquire(t, c, soloist.Detached{Kind: soloist.KindLock, Name: "y", Holder: "a#1"}, false); marked.Plain {
			t.Error("its mark was forgotten")
		}
	})
}

// An element that is claimed for a caller who has gone is given back at once, unless the caller may ask again: then it has it for as long as a lease lasts.
func TestDetachedElementOfACallerThatHasGone(t *testing.T) {
	for repeated, want := range map[bool]error{false: nil, true: soloist.ErrHeld} {
		t.Run(fmt.Sprintf("repeated %t", repeated), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := soloisttest.NewStore()
				elements := soloisttest.NewReplica(t, s, soloist.Config{}).Elements("invoices", soloist.ElementsOptions{})
				s.Slow(2 * time.Second)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				first, _ := elements.ClaimDetached(ctx, "1", "a#1", repeated)
				s.Slow(0)
				_, err := elements.ClaimDetached(t.Context(), "1", "b#1", false)
				wantIs(t, "another", err, want)
				if !repeated {
					return
				}
				again, err := elements.ClaimDetached(t.Context(), "1", "a#1", true)
				if wantIs(t, "the same again", err, nil); again.Token != first.Token || again.Attempt != 1 {
					t.Errorf("first %+v, and again %+v", first, again)
				}
			})
		})
	}
}

// A store that is countsLate writes a state under a lease when it is let, or fails then.
type countsLate struct {
	*soloisttest.Store
	asked chan struct{}
	let   chan error
}

func (s countsLate) Extend(ctx context.Context, extensions []store.Extension) ([]error, error) {
	if extensions[0].State != nil {
		s.asked <- struct{}{}
		if err := <-s.let; err != nil {
			return nil, err
		}
	}
	return s.Store.Extend(ctx, extensions)
}

// A claim that is repeated while the first call counts a crash may be granted. Then the first one takes nothing away,
// be it that the crash cannot be counted, or that it was the last one.
func TestDetachedElementThatAnotherCallMayHave(t *testing.T) {
	for what, c := range map[string]struct {
		attempts  int
		let, want error
	}{
		"not counted": {0, errors.New("away"), soloist.ErrUnknown},
		"the last":    {1, nil, soloist.ErrFailed},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := countsLate{soloisttest.NewStore(), make(chan struct{}), make(chan error)}
				of := func(s store.Store) *soloist.Elements {
					opts := soloist.ElementsOptions{Retry: soloist.Retry{Attempts: c.attempts}}
					return soloisttest.NewReplica(t, s, soloist.Config{}).Elements("invoices", opts)
				}
				elements, others := of(s), of(s.Share())
				if _, err := others.ClaimDetached(t.Context(), "1", "dead#1", false); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				first := make(chan error, 1)
				go func() {
					_, err := elements.ClaimDetached(t.Context(), "1", "a#1", true)
					first <- err
				}()
				<-s.asked
				again, err := others.ClaimDetached(t.Context(), "1", "a#1", true)
				if err != nil || time.Until(again.Until) <= 0 {
					t.Fatalf("the same again: %+v, %v", again, err)
				}
				s.let <- c.let
				wantIs(t, "the first call", <-first, c.want)
				_, err = others.ClaimDetached(t.Context(), "1", "b#1", false)
				wantIs(t, "another, while the lease of the second call lasts", err, soloist.ErrHeld)
				wantIs(t, "done", others.DoneDetached(t.Context(), again.Detached), nil)
				_, err = others.ClaimDetached(t.Context(), "1", "b#1", false)
				wantIs(t, "another, after it is done", err, soloist.ErrDone)
			})
		})
	}
}

// A store with silentClaims carries out no claim, and does not say so.
type silentClaims struct {
	*soloisttest.Store
	claims atomic.Int32
}

func (s *silentClaims) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	if claims[0].Mark < 0 {
		return s.Store.Acquire(ctx, claims)
	}
	s.claims.Add(1)
	return nil, errNoReply
}

// A client that is closed claims nothing more for a holder outside, also if nobody knows what became of the claims before.
func TestDetachedClaimsWithoutAReplyEndWithTheClient(t *testing.T) {
	for wait, opts := range map[string]soloist.Options{"at once": {}, "after a wait": {Wait: -1}} {
		t.Run(wait, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &silentClaims{Store: soloisttest.NewStore()}
				c := clientOf(t, s)
				ended := make(chan error, 1)
				go func() {
					_, _, err := c.With(opts).Detached().Acquire(t.Context(), lockOf("a#1"), false)
					ended <- err
				}()
				time.Sleep(time.Second)
				must(t, c.Close())
				synctest.Wait()
				before, begin := s.claims.Load(), time.Now()
				wantIs(t, "acquiring", <-ended, soloist.ErrUnknown)
				check(t, "claims of a closed client", s.claims.Load()-before, 0)
				if took := time.Since(begin); took > 5*time.Second {
					t.Errorf("it ends %v after the client, want a RequestTimeout at most, in which what may have been granted is looked for", took)
				}
			})
		})
	}
}

// What a claim for a holder outside is granted when its client has been closed meanwhile is released, unless the holder may ask for it again.
func TestDetachedGrantOfAClosedClient(t *testing.T) {
	for _, repeated := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := soloisttest.NewStore()
			c := clientOf(t, s)
			s.Slow(2 * time.Second)
			ended := make(chan error, 1)
			go func() {
				_, _, err := c.Detached().Acquire(t.Context(), lockOf("a#1"), repeated)
				ended <- err
			}()
			time.Sleep(time.Second)
			must(t, c.Close())
			err := <-ended
			s.Slow(0)
			_, other := soloisttest.NewReplica(t, s.Share(), soloist.Config{}).TryLock(t.Context(), "x")
			if repeated {
				wantIs(t, "acquiring", err, nil)
				wantIs(t, "another", other, soloist.ErrHeld)
			} else {
				wantIs(t, "acquiring", err, soloist.ErrClosed)
				wantIs(t, "another", other, nil)
			}
		})
	}
}
