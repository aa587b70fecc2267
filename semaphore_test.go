package soloist_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

func TestSemaphore(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		stores := map[string]store.Store{"chooser": s, "looking": plain{s}}
		for name, s := range stores {
			c := soloisttest.NewReplica(t, s, soloist.Config{})
			sem := c.Semaphore("pdf/"+name, 3)
			var permits []*soloist.Lease
			for range 3 {
				p, err := sem.TryAcquire(background)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				permits = append(permits, p)
			}
			if _, err := sem.TryAcquire(background); !errors.Is(err, soloist.ErrHeld) {
				t.Errorf("%s: a fourth of three: %v", name, err)
			}
			go func() {
				time.Sleep(5 * time.Second)
				_ = permits[1].Release()
			}()
			start := time.Now()
			p, err := sem.Acquire(background)
			if err != nil || time.Since(start) > 6*time.Second {
				t.Errorf("%s: waiting for a permit: %v after %v", name, err, time.Since(start))
			}
			infos, err := collect(c.Admin().Semaphores(background))
			i := slices.IndexFunc(infos, func(s soloist.SemaphoreInfo) bool { return s.Name == "pdf/"+name })
			if err != nil || i < 0 || len(infos[i].Permits) != 3 || infos[i].Limit != 3 {
				t.Errorf("%s: %+v, %v", name, infos, err)
			}
			_ = p.Release()
		}
	})
}

func TestBadSemaphores(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		for _, sem := range []*soloist.Semaphore{a.Semaphore("pdf", 0), a.Semaphore("pdf", 1001), a.Semaphore("", 3)} {
			var bad *soloist.InvalidError
			if _, err := sem.TryAcquire(background); !errors.As(err, &bad) {
				t.Errorf("got: %v", err)
			}
			if _, err := sem.Acquire(background); !errors.As(err, &bad) {
				t.Errorf("waiting, got: %v", err)
			}
		}
		if n := s.Calls(); n != 0 {
			t.Errorf("the store was asked %d times", n)
		}
	})
}

// The smallest semaphore and the largest one have as many permits as they say.
func TestSmallestAndLargestSemaphore(t *testing.T) {
	for _, n := range []int{1, 1000} {
		inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, _ *soloist.Client) {
			s := a.Semaphore("pdf", n)
			for range n {
				permitOf(t, s)
			}
			_, err := s.TryAcquire(background)
			wantIs(t, fmt.Sprintf("one more permit than %d", n), err, soloist.ErrHeld)
		})
	}
}

func TestPermitOfADeadHolderComesBack(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		if _, err := a.Semaphore("pdf", 1).TryAcquire(background); err != nil {
			t.Fatal(err)
		}
		s.Stall()
		start := time.Now()
		p, err := b.Semaphore("pdf", 1).Acquire(background)
		if err != nil || time.Since(start) > 31*time.Second {
			t.Fatalf("after %v: %v", time.Since(start), err)
		}
		_ = p.Release()
		s.Heal()
		for _, n := range []int{0, -1, 1001} {
			var bad *soloist.InvalidError
			if _, err := b.Semaphore("pdf", n).Acquire(background); !errors.As(err, &bad) {
				t.Errorf("limit %d: %v", n, err)
			}
		}
	})
}

// A permit that may have been granted is given back, whichever it is.
func TestUnknownPermitIsGivenBack(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		if _, err := b.Semaphore("x", 2).TryAcquire(background); err != nil {
			t.Fatal(err)
		}
		s.LoseReplies(1 << 30)
		if _, err := a.Semaphore("x", 2).TryAcquire(background); !errors.Is(err, soloist.ErrUnknown) {
			t.Errorf("got: %v", err)
		}
		s.Heal()
		time.Sleep(8 * time.Second)
		if _, err := b.Semaphore("x", 2).TryAcquire(background); err != nil {
			t.Errorf("the other permit: %v", err)
		}
	})
}

// A claim of a permit that is repeated gets the permit that the first one got, also where the client chooses among the free ones.
func TestRepeatedClaimGetsItsPermitAgain(t *testing.T) {
	for range 20 { // it draws
		synctest.Test(t, func(t *testing.T) {
			mem := memstore.New()
			unknown := false
			s := plain{doubtful{Store: mem, acquired: func(_ []store.Claim, outs []store.Outcome) ([]store.Outcome, error) {
				if outs[0].Grant.Token > 0 && !unknown {
					unknown = true
					return nil, errNoReply
				}
				return outs, nil
			}}}
			permit, err := soloisttest.NewReplica(t, s, soloist.Config{}).Semaphore("pool", 8).TryAcquire(background)
			if err != nil || !unknown {
				t.Fatal(err, unknown)
			}
			held := 0
			for r, err := range mem.List(background, "") {
				if err != nil {
					t.Fatal(err)
				}
				if !r.Free() {
					held++
				}
			}
			if held != 1 {
				t.Fatalf("%d permits are held by one holder", held)
			}
			if err := permit.Release(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A racing store shows permits as free that others have when they are claimed.
type racing struct {
	store.Store
	claims *int
}

func (s racing) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	outs := make([]store.Outcome, len(claims))
	for i, c := range claims {
		outs[i].Err = &store.DoneError{Record: store.Record{Name: c.Name}}
		if c.Mark >= 0 {
			if *s.claims++; *s.claims > 1000 {
				return nil, errors.New("too many requests")
			}
			outs[i].Err = &store.HeldError{Record: store.Record{Name: c.Name, Holder: "other", Left: time.Second}}
		}
	}
	return outs, nil
}

// A client that is never fast enough for a permit goes on asking, with pauses, and no longer than it has time.
func TestRaceForPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		claims := 0
		c := soloisttest.NewReplica(t, racing{memstore.New(), &claims}, soloist.Config{})
		ctx, cancel := context.WithTimeout(background, 20*time.Second)
		defer cancel()
		if _, err := c.Semaphore("x", 3).TryAcquire(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want that the time is over", err)
		}
		if claims < 20 || claims > 100 {
			t.Errorf("%d claims in 20 s", claims)
		}
	})
}

// The refusal of a semaphore names the permit that is free first.
func TestRefusalTellsOfThePermitThatIsFreeFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		for i, ttl := range []time.Duration{time.Hour, time.Minute, 2 * time.Hour} {
			pool := soloisttest.NewReplica(t, plain{mem}, soloist.Config{TTL: ttl}).Semaphore("pool", 3)
			if _, err := pool.TryAcquire(background); err != nil {
				t.Fatal(i, err)
			}
		}
		_, err := soloisttest.NewReplica(t, plain{mem}, soloist.Config{}).Semaphore("pool", 3).TryAcquire(background)
		held, ok := errors.AsType[*soloist.HeldError](err)
		if !ok || held.Left > time.Minute {
			t.Errorf("got %+v, %v; want the permit that is held for a minute", held, err)
		}
	})
}

// oneUnread is a store that cannot read the records whose names end with something, and cannot choose.
type oneUnread struct {
	store.Store
	name string
}

func (u oneUnread) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	outs, err := u.Store.Acquire(ctx, claims)
	for i := range outs {
		if strings.HasSuffix(claims[i].Name, u.name) {
			outs[i] = store.Outcome{Err: errors.New("something else has written it")}
		}
	}
	return outs, err
}

// A permit that cannot be read is held by nobody, and does not keep the others from being acquired.
func TestPermitThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := soloisttest.NewReplica(t, oneUnread{memstore.New(), "/0"}, soloist.Config{})
		s := c.Semaphore("x", 3)
		for range 2 {
			if _, err := s.TryAcquire(background); err != nil {
				t.Error(err)
			}
		}
		if _, err := s.TryAcquire(background); !errors.Is(err, soloist.ErrHeld) {
			t.Errorf("a third one: %v", err)
		}
		c = soloisttest.NewReplica(t, oneUnread{memstore.New(), ""}, soloist.Config{})
		if _, err := c.Semaphore("x", 3).TryAcquire(background); err == nil || errors.Is(err, soloist.ErrHeld) {
			t.Errorf("of a semaphore without any that can be read: %v", err)
		}
	})
}

// Who waits behind another caller of its client takes the permit that is free, and does not wait for that one's.
func TestWaitingForAnyPermit(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		var held []*soloist.Lease
		for range 2 {
			l, err := a.Semaphore("s", 2).TryAcquire(background)
			must(t, err)
			held = append(held, l)
		}
		got := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := b.Semaphore("s", 2).Acquire(background)
				got <- err
			}()
			synctest.Wait()
		}
		for i, l := range held {
			must(t, l.Release())
			time.Sleep(time.Second)
			if len(got) != i+1 {
				t.Fatalf("of two who wait %d have a permit, after %d were released", len(got), i+1)
			}
		}
		must(t, <-got)
		must(t, <-got)
	})
}

// An error of the store is that of the one who wants a permit, whichever request of the attempt fails.
func TestPermitOfAStoreThatFails(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		away := errors.New("away")
		for what, fails := range map[string]func(store.Claim) bool{
			"looking": func(store.Claim) bool { return true }, "claiming": func(c store.Claim) bool { return c.Mark >= 0 },
		} {
			c := soloisttest.NewReplica(t, plain{failing{s, fails}}, soloist.Config{})
			if l, err := c.Semaphore("x", 2).TryAcquire(background); err == nil || err.Error() != "refused" || l != nil {
				t.Errorf("%s: %v, %v", what, l, err)
			}
		}
		s.Break(away)
		if l, err := a.Semaphore("x", 2).TryAcquire(background); !errors.Is(err, away) || l != nil {
			t.Errorf("choosing: %v, %v", l, err)
		}
		for _, bad := range []*soloist.Semaphore{a.Semaphore("x", 0), a.Semaphore(strings.Repeat("x", 1000), 2)} {
			if err := bad.Do(background, ok); !errors.Is(err, store.ErrInvalid) {
				t.Errorf("Do of what is no semaphore: %v", err)
			}
		}
	})
}

// A passedBy store has no clock and does not choose. Between the time when it is read and the first claim after that, other things happen.
type passedBy struct {
	store.Store
	between func()
}

func (passedBy) Clockless() {}

func (s *passedBy) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	outs, err := s.Store.Acquire(ctx, claims)
	if between := s.between; between != nil && claims[0].Mark < 0 {
		s.between = nil
		between()
	}
	return outs, err
}

// Who claims all permits, because none was free when they were read, keeps one of those that it is granted, and gives the others back.
func TestPermitsThatAreReleasedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		b := soloisttest.NewReplica(t, mem.Share(), soloist.Config{}).Semaphore("x", 4)
		var held []*soloist.Lease
		for range 4 {
			held = append(held, permitOf(t, b))
		}
		s := &passedBy{mem, func() {
			for _, l := range held[1:] {
				must(t, l.Release())
			}
		}}
		permitOf(t, soloisttest.NewReplica(t, s, soloist.Config{}).Semaphore("x", 4))
		time.Sleep(time.Second)
		permitOf(t, b)
		permitOf(t, b)
		_, err := b.TryAcquire(background)
		wantIs(t, "a fifth permit of four", err, soloist.ErrHeld)
	})
}

// A lossy store has no clock and does not choose. Of a claim of several names, the grant of one is not told.
type lossy struct{ *passedBy }

func (s lossy) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	outs, err := s.passedBy.Acquire(ctx, claims)
	if i := slices.IndexFunc(outs, func(out store.Outcome) bool { return out.Err == nil }); len(claims) > 1 && i >= 0 && claims[0].Mark >= 0 {
		outs[i] = store.Outcome{Err: store.AsUnknown(errors.New("no reply"))}
	}
	return outs, err
}

// Who claims all permits, of which one was released meanwhile, and has no reply about that one, is not refused: it asks again, and is told that it has it.
func TestPermitThatMayHaveBeenGrantedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		b := soloisttest.NewReplica(t, mem.Share(), soloist.Config{}).Semaphore("x", 3)
		var held []*soloist.Lease
		for range 3 {
			held = append(held, permitOf(t, b))
		}
		s := lossy{&passedBy{mem, func() { must(t, held[1].Release()) }}}
		must(t, permitOf(t, soloisttest.NewReplica(t, s, soloist.Config{}).Semaphore("x", 3)).Release())
		permitOf(t, b)
	})
}

// An allOverdue store has no clock, does not choose, and takes what is held for overdue.
type allOverdue struct{ store.Store }

func (allOverdue) Clockless() {}

func (s allOverdue) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	outs, err := s.Store.Acquire(ctx, claims)
	for i := range outs {
		if held, is := errors.AsType[*store.HeldError](outs[i].Err); is {
			outs[i].Err = &store.HeldError{Record: held.Record, Overdue: held.Record.Left}
		}
	}
	return outs, err
}

// Of several permits that are overdue, who waits gets the one that has been watched for long enough first, whichever that is.
func TestOverduePermitThatIsFreeFirst(t *testing.T) {
	for first := range 3 {
		synctest.Test(t, func(t *testing.T) {
			s := allOverdue{memstore.New()}
			for i := range 3 {
				claim := store.Claim{Name: fmt.Sprint("semaphore/x/", i), Holder: "dead/3", TTL: 20 * time.Second}
				if i == first {
					claim.TTL = 5 * time.Second
				}
				outs, err := s.Acquire(background, []store.Claim{claim})
				must(t, errors.Join(err, outs[0].Err))
			}
			begin := time.Now()
			permitOf(t, soloisttest.NewReplica(t, s, soloist.Config{}).Semaphore("x", 3))
			if took := time.Since(begin); took != 5*time.Second {
				t.Errorf("permit %d is free first, after 5s; one was granted after %v", first, took)
			}
		})
	}
}

// Of several elements that are overdue, who claims them all waits for the one that has to be watched for the longest time, wherever it stands.
func TestOverdueElementsAreWaitedForTogether(t *testing.T) {
	for longest := range 3 {
		synctest.Test(t, func(t *testing.T) {
			s, ids := allOverdue{memstore.New()}, []string{"0", "1", "2"}
			for i, id := range ids {
				claim := store.Claim{Name: "element/x/" + id, Holder: "dead/3", TTL: 5 * time.Second}
				if i == longest {
					claim.TTL = 20 * time.Second
				}
				outs, err := s.Acquire(background, []store.Claim{claim})
				must(t, errors.Join(err, outs[0].Err))
			}
			all, err := soloisttest.NewReplica(t, s, soloist.Config{}).Elements("x", soloist.ElementsOptions{}).ClaimAll(background, ids)
			must(t, err)
			for i, one := range all {
				if one.Err != nil {
					t.Errorf("element %d is overdue for the longest time; %d: %v", longest, i, one.Err)
				}
			}
		})
	}
}

// Who waits for what is overdue is refused when the client is closed, and at once if its own deadline comes before.
func TestWaitForWhatIsOverdueEnds(t *testing.T) {
	for what, one := range map[string]struct {
		deadline, closes, want time.Duration
	}{
		"when the client is closed":            {time.Minute, 3 * time.Second, 3 * time.Second},
		"before the deadline of the caller":    {10 * time.Second, time.Hour, 0},
		"when it has been watched long enough": {21 * time.Second, time.Hour, 20 * time.Second},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := allOverdue{memstore.New()}
				outs, err := s.Acquire(background, []store.Claim{{Name: "lock/x", Holder: "dead", TTL: 20 * time.Second}})
				must(t, errors.Join(err, outs[0].Err))
				c := soloisttest.NewReplica(t, s, soloist.Config{})
				defer time.AfterFunc(one.closes, func() { must(t, c.Close()) }).Stop()
				ctx, cancel := context.WithTimeout(background, one.deadline)
				defer cancel()
				begin, want := time.Now(), soloist.ErrHeld
				if one.want == 20*time.Second {
					want = nil
				}
				_, err = c.TryLock(ctx, "x")
				wantIs(t, "an attempt", err, want)
				check(t, "time until it has ended", time.Since(begin), one.want)
			})
		})
	}
}

func permitOf(t *testing.T, s *soloist.Semaphore) *soloist.Lease {
	t.Helper()
	l, err := s.TryAcquire(background)
	must(t, err)
	return l
}
