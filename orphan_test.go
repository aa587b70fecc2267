package soloist_test

import (
	"context"
	"errors"
	"fmt"
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

func TestUnknownIsReportedAndGivenBack(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		s.LoseReplies(1 << 30)
		if _, err := a.TryLock(background, "x"); !errors.Is(err, soloist.ErrUnknown) {
			t.Fatalf("got: %v", err)
		}
		s.Heal()
		start := time.Now()
		l, err := b.Lock(background, "x")
		if err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(start); waited > 10*time.Second {
			t.Fatalf("what nobody waited for was given back after %v", waited)
		}
		_ = l.Release()
	})
}

func TestCancelledAttemptIsGivenBack(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		s.LoseReplies(1)
		ctx, cancel := context.WithCancel(background)
		time.AfterFunc(time.Millisecond, cancel)
		s.Slow(500 * time.Microsecond)
		if _, err := a.TryLock(ctx, "x"); err == nil {
			t.Fatal("granted")
		} else if !errors.Is(err, context.Canceled) {
			t.Fatalf("got: %v", err)
		}
		s.Heal()
		time.Sleep(8 * time.Second)
		mustLock(t, b, "x")
	})
}

// What is given back because nobody waited for it keeps what its record has, also when the store forgets what it can.
func TestWhatIsGivenBackKeepsItsState(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		l := mustLock(t, b, "x")
		must(t, l.SetState(background, []byte("page 7")))
		must(t, l.Release())
		s.LoseReplies(1 << 30)
		if _, err := a.TryLock(background, "x"); !errors.Is(err, soloist.ErrUnknown) {
			t.Fatalf("got: %v", err)
		}
		s.Heal()
		time.Sleep(10 * time.Second)
		_, err := s.Sweep(background, 100)
		must(t, err)
		check(t, "state", string(mustLock(t, b, "x").State()), "page 7")
	})
}

// An element that is given back because nobody waited for it keeps its attempts.
func TestElementThatIsGivenBackKeepsItsAttempts(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		failed := errors.New("failed")
		elements := func(c *soloist.Client) *soloist.Elements { return c.Elements("invoices", soloist.ElementsOptions{}) }
		if err := elements(b).Process(background, "1", func(context.Context, *soloist.Element) error { return failed }); !errors.Is(err, failed) {
			t.Fatal(err)
		}
		s.LoseReplies(1 << 30)
		if _, err := elements(a).Claim(background, "1"); !errors.Is(err, soloist.ErrUnknown) {
			t.Fatalf("got: %v", err)
		}
		s.Heal()
		time.Sleep(10 * time.Second)
		el, err := elements(b).Claim(background, "1")
		must(t, err)
		check(t, "attempt", el.Attempt(), 2)
	})
}

// An element of a batch whose outcome is unknown is told as that, and given back if it was granted.
func TestUnknownElementOfABatchIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := doubtful{Store: memstore.New()}
		s.acquired = func(claims []store.Claim, outs []store.Outcome) ([]store.Outcome, error) {
			for i, c := range claims {
				if c.Name == "element/invoices/2" && c.Mark > 0 {
					outs[i] = store.Outcome{Err: errNoReply}
				}
			}
			return outs, nil
		}
		a, b := soloisttest.NewReplica(t, s, soloist.Config{}), soloisttest.NewReplica(t, s.Share(), soloist.Config{})
		claimed, err := a.Elements("invoices", soloist.ElementsOptions{}).ClaimAll(background, []string{"1", "2", "3"})
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range claimed {
			if want := i == 1; errors.Is(c.Err, soloist.ErrUnknown) != want || (c.Element == nil) != want {
				t.Errorf("%s: %v, %v", c.ID, c.Element, c.Err)
			}
		}
		synctest.Wait()
		if err := b.Elements("invoices", soloist.ElementsOptions{}).Process(background, "2", ok); err != nil {
			t.Errorf("what nobody was told of: %v", err)
		}
	})
}

// silentOnce leaves the outcome of one name of a batch open, and does not respond when that is asked for again.
type silentOnce struct {
	*memstore.Store
	name string
}

func (s silentOnce) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	if len(claims) == 1 && claims[0].Name == s.name && claims[0].Mark > 0 {
		<-ctx.Done()
		return nil, store.AsUnknown(ctx.Err())
	}
	outs, err := s.Store.Acquire(ctx, claims)
	for i, c := range claims {
		if c.Name == s.name && c.Mark > 0 {
			outs[i] = store.Outcome{Err: errNoReply}
		}
	}
	return outs, err
}

// The others of a batch wait for an eighth of RequestTimeout for one whose outcome is unknown.
func TestUnknownElementHoldsUpNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := soloisttest.NewReplica(t, silentOnce{memstore.New(), "element/invoices/2"}, soloist.Config{RequestTimeout: 8 * time.Second})
		begin := time.Now()
		claimed, err := c.Elements("invoices", soloist.ElementsOptions{}).ClaimAll(background, []string{"1", "2", "3"})
		must(t, err)
		check(t, "waited for", time.Since(begin), time.Second)
		if claimed[0].Err != nil || !errors.Is(claimed[1].Err, soloist.ErrUnknown) || claimed[2].Err != nil {
			t.Errorf("%v, %v, %v", claimed[0].Err, claimed[1].Err, claimed[2].Err)
		}
	})
}

// If the store stops responding to a batch, what the batch may have been granted is released when the store responds again.
func TestUnknownBatchIsGivenBack(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		s.LoseReplies(1 << 30)
		if claimed, err := a.Elements("invoices", soloist.ElementsOptions{}).ClaimAll(background, []string{"1", "2"}); claimed != nil || !errors.Is(err, soloist.ErrUnknown) {
			t.Errorf("%v, %v", claimed, err)
		}
		s.Heal()
		time.Sleep(8 * time.Second)
		for _, id := range []string{"1", "2"} {
			if err := b.Elements("invoices", soloist.ElementsOptions{}).Process(background, id, ok); err != nil {
				t.Errorf("%s: %v", id, err)
			}
		}
	})
}

// Close leaves the time of a request to what is under way to give back a grant that nobody knows of.
func TestCloseGivesBackWhatIsUnknown(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		s.LoseReplies(1 << 30)
		time.AfterFunc(time.Second, func() { s.Break(nil) })
		if _, err := a.TryLock(background, "x"); !errors.Is(err, soloist.ErrUnknown) {
			t.Fatalf("got: %v", err)
		}
		synctest.Wait() // a look at the record has failed
		s.Heal()
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		mustLock(t, b, "x")
	})
}

// A slowCommit store is slow with the commit of the first claim of a name: meanwhile the record is locked, and looks free to who reads it.
type slowCommit struct {
	*memstore.Store
	takes time.Duration
	whole bool // the error of that claim is the one of its request
	fresh bool // there is no record to be locked: other claims wait for the commit
	first *atomic.Bool
	under *atomic.Bool // the commit is under way
}

func (s slowCommit) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	outs := make([]store.Outcome, len(claims))
	for i, c := range claims {
		switch {
		case c.Mark >= 0 && s.first.CompareAndSwap(true, false):
			s.under.Store(true)
			time.AfterFunc(s.takes, func() {
				defer s.under.Store(false)
				if outs, err := s.Store.Acquire(background, []store.Claim{c}); err != nil || outs[0].Err != nil {
					panic("it is not free")
				}
			})
			if outs[i].Err = errNoReply; s.whole {
				return nil, errNoReply
			}
		case c.Mark >= 0 && s.under.Load() && !s.fresh:
			outs[i].Err = &store.HeldError{Record: store.Record{Name: c.Name, Left: 100 * time.Millisecond}}
		default:
			for c.Mark >= 0 && s.under.Load() {
				if time.Sleep(10 * time.Millisecond); ctx.Err() != nil {
					return nil, store.AsUnknown(ctx.Err())
				}
			}
			one, err := s.Store.Acquire(ctx, []store.Claim{c})
			if err != nil {
				return nil, err
			}
			outs[i] = one[0]
		}
	}
	return outs, nil
}

func slowlyCommitting(takes time.Duration) slowCommit {
	s := slowCommit{Store: memstore.New(), takes: takes, first: new(atomic.Bool), under: new(atomic.Bool)}
	s.first.Store(true)
	return s
}

// A claim that is asked for again while the first request is still being committed is not refused by that: it is granted, or unknown and given back when it is committed.
func TestClaimThatCommitsSlowly(t *testing.T) {
	for what, claim := range map[string]func(*soloist.Client) error{
		"a lock": func(c *soloist.Client) error {
			l, err := c.TryLock(background, "x")
			if err != nil {
				return err
			}
			return l.Release()
		},
		"elements": func(c *soloist.Client) error {
			claimed, err := c.Elements("x", soloist.ElementsOptions{}).ClaimAll(background, []string{"1"})
			switch {
			case err != nil:
				return err
			case claimed[0].Err != nil:
				return claimed[0].Err
			}
			return claimed[0].Element.Release()
		},
		"a detached lease": func(c *soloist.Client) error {
			d, _, err := c.Detached().Acquire(background, lockOf("a#1"), false)
			if err != nil {
				return err
			}
			return c.Detached().Release(background, d)
		},
	} {
		for how := range 4 {
			for _, takes := range []time.Duration{2 * time.Second, 15 * time.Second} { // it is asked for again for 10 s
				whole, fresh := how%2 == 1, how > 1
				t.Run(fmt.Sprint(what, whole, fresh, takes), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						s := slowlyCommitting(takes)
						s.whole, s.fresh = whole, fresh
						a, b := soloisttest.NewReplica(t, s, soloist.Config{}), soloisttest.NewReplica(t, s.Share(), soloist.Config{})
						begun := time.Now()
						err := claim(a)
						if errors.Is(err, soloist.ErrHeld) || err != nil && !errors.Is(err, soloist.ErrUnknown) {
							t.Errorf("%v, want a lease or an unknown outcome", err)
						}
						if settled := takes < 10*time.Second && (what != "elements" || whole && fresh); settled != (err == nil) {
							t.Errorf("%v; is it granted: want %v", err, settled)
						}
						time.Sleep(25*time.Second - time.Since(begun))
						if err := claim(b); err != nil {
							t.Errorf("what nobody was told of: %v", err)
						}
					})
				})
			}
		}
	}
}

// What a claim gets whose caller goes while it is being committed is given back: the look at the record may come before the commit.
func TestCallerGoesDuringACommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := slowlyCommitting(20 * time.Millisecond)
		a, b := soloisttest.NewReplica(t, s, soloist.Config{}), soloisttest.NewReplica(t, s.Share(), soloist.Config{})
		ctx, cancel := context.WithCancel(background)
		time.AfterFunc(time.Millisecond, cancel)
		if _, err := a.With(soloist.Options{TTL: time.Hour}).TryLock(ctx, "x"); !errors.Is(err, soloist.ErrUnknown) || !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want that it is unknown because the caller has gone", err)
		}
		time.Sleep(time.Second)
		mustLock(t, b, "x")
	})
}

// A lateOutage is a store that carries out claims from an instant on, and answers no request before a later one.
type lateOutage struct {
	*soloisttest.Store
	begin          time.Time
	lost, answered time.Duration
}

func (s lateOutage) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	at := time.Since(s.begin)
	switch {
	case at >= s.answered:
		return s.Store.Acquire(ctx, claims)
	case claims[0].Mark < 0:
		return nil, errors.New("away")
	case at >= s.lost:
		if _, err := s.Store.Acquire(ctx, claims); err != nil {
			return nil, err
		}
	}
	<-ctx.Done()
	return nil, store.AsUnknown(ctx.Err())
}

// What the last of several requests was granted is given back, also if the TTL has passed since the first one.
func TestWhatALaterRequestGotIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lateOutage{soloisttest.NewStore(), time.Now(), 6 * time.Second, 9750 * time.Millisecond}
		a, b := soloisttest.NewReplica(t, s, soloist.Config{TTL: 9 * time.Second}), soloisttest.NewReplica(t, s.Share(), soloist.Config{})
		if _, err := a.TryLock(background, "x"); !errors.Is(err, soloist.ErrUnknown) {
			t.Fatalf("got: %v", err)
		}
		if _, err := b.TryLock(background, "x"); !errors.Is(err, soloist.ErrHeld) {
			t.Fatalf("%v; want that a later request was granted", err)
		}
		time.Sleep(12500*time.Millisecond - time.Since(s.begin)) // that lease ends after more than 15 s
		mustLock(t, b, "x")
	})
}

// A lateTwice store carries out the first two requests of a claim at two instants, and any others not at all. None gets a reply.
type lateTwice struct {
	*soloisttest.Store
	at    [2]time.Duration
	asked *atomic.Int64
	got   *atomic.Int64 // how many of the two were granted
}

func (s lateTwice) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	if claims[0].Mark < 0 {
		return s.Store.Acquire(ctx, claims)
	}
	if n := int(s.asked.Add(1)); n <= len(s.at) {
		time.AfterFunc(s.at[n-1], func() {
			if outs, err := s.Store.Acquire(background, claims); err == nil && outs[0].Err == nil {
				s.got.Add(1)
			}
		})
	}
	return nil, errNoReply
}

// What a request without a reply is granted is given back, also if what another request of the same claim was granted has been given back before.
func TestWhatTwoRequestsGotIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lateTwice{soloisttest.NewStore(), [2]time.Duration{12 * time.Second, 25 * time.Second}, new(atomic.Int64), new(atomic.Int64)}
		a, b := soloisttest.NewReplica(t, s, soloist.Config{TTL: time.Minute}), soloisttest.NewReplica(t, s.Share(), soloist.Config{})
		begun := time.Now()
		if _, err := a.TryLock(background, "x"); !errors.Is(err, soloist.ErrUnknown) {
			t.Fatalf("got: %v", err)
		}
		time.Sleep(s.at[1] - time.Since(begun) - time.Second)
		must(t, mustLock(t, b, "x").Release()) // the first grant was given back
		time.Sleep(17 * time.Second)           // a record is looked at after a quarter of the TTL at the latest
		check(t, "grants", s.got.Load(), 2)
		mustLock(t, b, "x")
	})
}

// An outrun store carries out the first claim only after a time, and does not reply to it: to the whole request, or to each of its parts.
type outrun struct {
	*soloisttest.Store
	after time.Duration
	parts bool
	said  *atomic.Bool
}

func (s outrun) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	if !slices.ContainsFunc(claims, func(c store.Claim) bool { return c.Mark >= 0 }) || !s.said.CompareAndSwap(false, true) {
		return s.Store.Acquire(ctx, claims)
	}
	time.AfterFunc(s.after, func() { _, _ = s.Store.Acquire(background, claims) })
	if s.parts {
		return slices.Repeat([]store.Outcome{{Err: errNoReply}}, len(claims)), nil
	}
	return nil, errNoReply
}

// Choose has the first name locked by the first request for as long as it is under way.
func (s outrun) Choose(ctx context.Context, names []string, claim store.Claim) (int, store.Grant, error) {
	if s.said.CompareAndSwap(false, true) {
		claim.Name = names[0]
		time.AfterFunc(s.after, func() { _, _ = s.Store.Acquire(background, []store.Claim{claim}) })
		return 0, store.Grant{}, errNoReply
	}
	i, g, err := s.Store.Choose(ctx, names[1:], claim)
	return i + 1, g, err
}

// What a request without a reply is granted late is given back, also if a repeated request was refused, or was granted another permit, or the same lease, which
// was released before: nobody knows of it.
func TestWhatIsGrantedAfterARefusalIsGivenBack(t *testing.T) {
	lock := func(c *soloist.Client) (*soloist.Lease, error) { return c.TryLock(background, "x") }
	permit := func(c *soloist.Client) (*soloist.Lease, error) { return c.Semaphore("x", 2).TryAcquire(background) }
	element := func(c *soloist.Client) (*soloist.Lease, error) {
		el, err := c.Elements("x", soloist.ElementsOptions{}).Claim(background, "1")
		if err != nil {
			return nil, err
		}
		if el.Attempt() != 1 {
			return nil, fmt.Errorf("attempt %d", el.Attempt())
		}
		return el.Lease, nil
	}
	batch := func(c *soloist.Client) (*soloist.Lease, error) {
		claimed, err := c.Elements("x", soloist.ElementsOptions{}).ClaimAll(background, []string{"1", "2"})
		if err != nil {
			return nil, err
		}
		return nil, claimed[0].Err
	}
	released := func(acquire func(*soloist.Client) (*soloist.Lease, error)) func(*soloist.Client) (*soloist.Lease, error) {
		return func(c *soloist.Client) (*soloist.Lease, error) {
			l, err := acquire(c)
			if err != nil {
				return nil, err
			}
			return nil, l.Release()
		}
	}
	lost := func(c *soloist.Client) (*soloist.Lease, error) {
		l, err := lock(c)
		if err != nil {
			return nil, err
		}
		must(t, c.Admin().Release(background, soloist.LeaseInfo{Kind: soloist.KindLock, Name: "x", Token: l.Token()}, "a test"))
		return nil, l.Release()
	}
	ofBatch := func(c *soloist.Client) (*soloist.Lease, error) {
		claimed, err := c.Elements("x", soloist.ElementsOptions{}).ClaimAll(background, []string{"1", "2"})
		if err != nil || claimed[0].Err != nil {
			return nil, errors.Join(err, claimed[0].Err)
		}
		return claimed[0].Element.Lease, nil
	}
	detached := func(c *soloist.Client) (*soloist.Lease, error) {
		_, _, err := c.Detached().Acquire(background, lockOf("a#1"), false)
		return nil, err
	}
	for what, one := range map[string]struct {
		acquire, other func(*soloist.Client) (*soloist.Lease, error)
		wait           time.Duration
		before         int   // how many others have it at first
		want, late     error // what it returns, and what another is told when the first request is carried out
	}{
		"a lock":                          {lock, lock, 0, 1, soloist.ErrHeld, soloist.ErrHeld},
		"an element":                      {element, element, 0, 1, soloist.ErrHeld, soloist.ErrHeld},
		"one of a batch":                  {batch, element, 0, 1, soloist.ErrHeld, soloist.ErrHeld},
		"a part of a request":             {batch, element, 0, 1, soloist.ErrHeld, soloist.ErrHeld},
		"a wait":                          {func(c *soloist.Client) (*soloist.Lease, error) { return c.Lock(background, "x") }, lock, time.Second, 1, soloist.ErrHeld, soloist.ErrHeld},
		"a permit":                        {permit, permit, 0, 2, soloist.ErrHeld, nil},
		"another permit":                  {permit, permit, 0, 0, nil, soloist.ErrHeld},
		"a lock that was released":        {released(lock), lock, 0, 0, nil, soloist.ErrHeld},
		"a lock that was lost":            {lost, lock, 0, 0, soloist.ErrLost, soloist.ErrHeld},
		"a permit that was released":      {released(permit), permit, 0, 0, nil, nil},
		"an element that was released":    {released(element), element, 0, 0, nil, soloist.ErrHeld},
		"one of a batch, released":        {released(ofBatch), element, 0, 0, nil, soloist.ErrHeld},
		"a part, released":                {released(ofBatch), element, 0, 0, nil, soloist.ErrHeld},
		"a detached lease":                {detached, lock, 0, 1, soloist.ErrHeld, soloist.ErrHeld},
		"a detached lease, after a while": {detached, lock, time.Second, 1, soloist.ErrHeld, soloist.ErrHeld},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := outrun{soloisttest.NewStore(), 5 * time.Second, strings.HasPrefix(what, "a part"), new(atomic.Bool)}
				b := soloisttest.NewReplica(t, s.Share(), soloist.Config{})
				var others []*soloist.Lease
				for range one.before {
					l, err := one.other(b)
					must(t, err)
					others = append(others, l)
				}
				a := soloisttest.NewReplica(t, s, soloist.Config{})
				begun := time.Now()
				_, err := one.acquire(a.With(soloist.Options{Wait: one.wait}))
				wantIs(t, "the repeated request", err, one.want)
				time.Sleep(time.Second)
				for _, l := range others {
					must(t, l.Release())
				}
				time.Sleep(s.after - time.Since(begun))
				synctest.Wait()
				_, err = one.other(b)
				wantIs(t, "another, when the first request was carried out", err, one.late)
				time.Sleep(9 * time.Second)
				_, err = one.other(b)
				wantIs(t, "another, later", err, nil)
			})
		})
	}
}

// A lateAgain store replies to no first claim, as outrun does, but late, and to others later than their leases can be used.
type lateAgain struct{ outrun }

func (s lateAgain) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	first := !s.said.Load()
	outs, err := s.outrun.Acquire(ctx, claims)
	switch {
	case claims[0].Mark < 0:
	case first:
		time.Sleep(5 * time.Second)
	default:
		time.Sleep(23500 * time.Millisecond)
	}
	return outs, err
}

// What a request without a reply is granted late is given back, also if the repeated request was granted a lease too late to use it, and that was given back before.
func TestWhatIsGrantedAfterALateGrantIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lateAgain{outrun{soloisttest.NewStore(), 33 * time.Second, false, new(atomic.Bool)}}
		a := soloisttest.NewReplica(t, s, soloist.Config{TTL: 30 * time.Second, RequestTimeout: time.Minute})
		b := soloisttest.NewReplica(t, s.Share(), soloist.Config{})
		begun := time.Now()
		_, err := a.TryLock(background, "x")
		wantIs(t, "the repeated request", err, soloist.ErrLost)
		must(t, mustLock(t, b, "x").Release()) // that grant was given back
		time.Sleep(s.after - time.Since(begun))
		synctest.Wait()
		_, err = b.TryLock(background, "x")
		wantIs(t, "another, when the first request was carried out", err, soloist.ErrHeld)
		time.Sleep(9 * time.Second) // a record is looked at after a quarter of the TTL at the latest
		mustLock(t, b, "x")
	})
}

// What a request without a reply is granted when the run that a repeated one was granted is over is given back: it would keep the next run from all replicas for a TTL.
func TestWhatIsGrantedAfterARunIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		s := outrun{soloisttest.NewStore(), 5 * time.Second, false, new(atomic.Bool)}
		s.said.Store(true)
		b := soloisttest.NewReplica(t, s.Share(), soloist.Config{})
		start(t, soloisttest.NewReplica(t, s, soloist.Config{}), soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), TTL: 5 * time.Minute, Do: r.do})
		time.Sleep(time.Minute)
		s.said.Store(false)
		must(t, b.Admin().Trigger(background, "tick"))
		time.Sleep(time.Minute)
		check(t, "runs", len(r.began()), 1)
		check(t, "requests without a reply", s.said.Load(), true)
		must(t, b.Admin().Trigger(background, "tick"))
		time.Sleep(2 * time.Minute)
		check(t, "runs", len(r.began()), 2)
	})
}
