package soloist_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
	"github.com/soloist-dev/soloist/store"
)

// A function whose context has ended still has its lease, and can write its last state under it.
func TestFunctionFinishesUnderItsLease(t *testing.T) {
	finishes := func(ctx context.Context, lease *soloist.Lease) error {
		<-ctx.Done()
		time.Sleep(time.Minute) // it takes longer than a TTL
		if err := lease.SetState(lease.Context(), []byte("as far as it came")); err != nil {
			return err
		}
		return ctx.Err()
	}
	for what, test := range map[string]struct {
		does func(context.Context, *soloist.Client) error
		want error
	}{
		"Do":           {func(ctx context.Context, c *soloist.Client) error { return c.Do(ctx, "x", finishes) }, context.Canceled},
		"Lead":         {func(ctx context.Context, c *soloist.Client) error { return c.Lead(ctx, "x", finishes) }, nil},
		"Semaphore.Do": {func(ctx context.Context, c *soloist.Client) error { return c.Semaphore("x", 1).Do(ctx, finishes) }, context.Canceled},
		"Process": {func(ctx context.Context, c *soloist.Client) error {
			return c.Elements("x", soloist.ElementsOptions{}).Process(ctx, "1", func(ctx context.Context, el *soloist.Element) error { return finishes(ctx, el.Lease) })
		}, context.Canceled},
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, _ *soloist.Client) {
				ctx, cancel := context.WithCancel(background)
				time.AfterFunc(time.Second, cancel)
				if err := test.does(ctx, a); !errors.Is(err, test.want) || err != nil && test.want == nil {
					t.Errorf("%v, want %v", err, test.want)
				}
			})
		})
	}
}

// Run and Lead return nil when their context ends: while they wait, while the store is away, and when what they began has ended.
func TestRunAndLeadEndWithTheirContext(t *testing.T) {
	job := soloist.Job{Name: "x", Schedule: soloist.Every(time.Minute), Do: func(context.Context, soloist.Run) error { return nil }}
	for what, does := range map[string]func(context.Context, *soloist.Client) error{
		"Run":  func(ctx context.Context, c *soloist.Client) error { return c.Run(ctx, job) },
		"Lead": func(ctx context.Context, c *soloist.Client) error { return c.Lead(ctx, "x", ok) },
	} {
		for state, prepare := range map[string]func(*testing.T, *soloisttest.Store, *soloist.Client){
			"waiting": func(t *testing.T, _ *soloisttest.Store, other *soloist.Client) {
				if _, err := other.Campaign(background, "x"); err != nil {
					t.Fatal(err)
				}
			},
			"without a store": func(_ *testing.T, s *soloisttest.Store, _ *soloist.Client) { s.Break(nil) },
		} {
			t.Run(what+" "+state, func(t *testing.T) {
				inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
					prepare(t, s, b)
					ctx, cancel := context.WithTimeout(background, 10*time.Minute)
					defer cancel()
					if err := does(ctx, a); err != nil || ctx.Err() == nil {
						t.Errorf("%v; its context: %v", err, ctx.Err())
					}
					s.Heal()
				})
			})
		}
	}
}

// Shutdown ends Run and Lead, waits for what runs, and releases the rest.
func TestShutdown(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		idle := mustLock(t, a, "idle")
		ended := make(chan error, 3)
		began := make(chan struct{}, 3)
		go func() {
			ended <- a.Do(background, "x", func(ctx context.Context, _ *soloist.Lease) error {
				began <- struct{}{}
				time.Sleep(10 * time.Minute)
				return ctx.Err()
			})
		}()
		go func() {
			ended <- a.Lead(background, "x", func(ctx context.Context, _ *soloist.Lease) error {
				began <- struct{}{}
				<-ctx.Done()
				return ctx.Err()
			})
		}()
		go func() {
			ended <- a.Run(background, soloist.Job{Name: "x", Schedule: soloist.At(time.Now()), Do: func(ctx context.Context, _ soloist.Run) error {
				began <- struct{}{}
				time.Sleep(5 * time.Minute)
				return ctx.Err()
			}})
		}()
		for range 3 {
			<-began
		}
		begin := time.Now()
		if err := a.Shutdown(background); err != nil || time.Since(begin) < 9*time.Minute || time.Since(begin) > 10*time.Minute {
			t.Errorf("%v, after %v", err, time.Since(begin))
		}
		for range 3 {
			if err := <-ended; err != nil {
				t.Errorf("what ran: %v", err)
			}
		}
		if !errors.Is(context.Cause(idle.Context()), soloist.ErrClosed) {
			t.Errorf("the lease that was left: %v", context.Cause(idle.Context()))
		}
		for _, name := range []string{"idle", "x"} {
			mustLock(t, b, name)
		}
		if err := a.Do(background, "y", ok); !errors.Is(err, soloist.ErrClosed) {
			t.Errorf("after it: %v", err)
		}
	})
}

// When the context of Shutdown ends, functions are interrupted, and so they are by Close at once.
func TestShutdownInterrupts(t *testing.T) {
	for what, test := range map[string]struct {
		end  func(*soloist.Client) error
		took time.Duration
		want error
	}{
		"Close": {func(c *soloist.Client) error { return c.Close() }, 0, nil},
		"Shutdown": {func(c *soloist.Client) error {
			ctx, cancel := context.WithTimeout(background, time.Minute)
			defer cancel()
			return c.Shutdown(ctx)
		}, time.Minute, context.DeadlineExceeded},
		"Shutdown and Close": {func(c *soloist.Client) error {
			time.AfterFunc(time.Minute, func() { _ = c.Close() })
			return c.Shutdown(background)
		}, time.Minute, nil},
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
				cause := make(chan error, 2)
				wait := func(ctx context.Context) error {
					<-ctx.Done()
					cause <- context.Cause(ctx)
					return ctx.Err()
				}
				began := time.Now()
				go func() {
					_ = a.Do(background, "x", func(ctx context.Context, _ *soloist.Lease) error { return wait(ctx) })
				}()
				go func() {
					_ = a.Run(background, soloist.Job{Name: "x", Schedule: soloist.At(began), Do: func(ctx context.Context, _ soloist.Run) error { return wait(ctx) }})
				}()
				synctest.Wait()
				time.Sleep(time.Second)
				begin := time.Now()
				if err := test.end(a); !errors.Is(err, test.want) || err != nil && test.want == nil {
					t.Errorf("%v, want %v", err, test.want)
				}
				if took := time.Since(begin).Truncate(time.Second); took != test.took {
					t.Errorf("it took %v, want %v", took, test.took)
				}
				for range 2 {
					if err := <-cause; !errors.Is(err, soloist.ErrInterrupted) {
						t.Errorf("the cause: %v", err)
					}
				}
				mustLock(t, b, "x")
			})
		})
	}
}

// A late store keeps the replies to claims for a second.
type late struct {
	*soloisttest.Store
	is atomic.Bool
}

func (s *late) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	outcomes, err := s.Store.Acquire(ctx, claims)
	if s.is.Load() {
		time.Sleep(time.Second)
	}
	return outcomes, err
}

// A job that is granted to a client while it closes does not begin there, and begins at once on a replica that was refused it meanwhile.
func TestNothingBeginsWhileClosing(t *testing.T) {
	for what, end := range map[string]func(*soloist.Client, context.CancelFunc) error{
		"Close":    func(c *soloist.Client, _ context.CancelFunc) error { return c.Close() },
		"Shutdown": func(c *soloist.Client, _ context.CancelFunc) error { return c.Shutdown(background) },
		"Run":      func(_ *soloist.Client, cancel context.CancelFunc) error { cancel(); return nil },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slow := &late{Store: soloisttest.NewStore()}
				a := soloisttest.NewReplica(t, slow, soloist.Config{Replica: "a"})
				b := soloisttest.NewReplica(t, slow.Share(), soloist.Config{Replica: "b"})
				due := time.Now().Add(10 * time.Second)
				var atA, atB atomic.Int32
				counting := func(began *atomic.Int32) soloist.Job {
					return soloist.Job{Name: "x", Schedule: soloist.At(due), Do: func(context.Context, soloist.Run) error { began.Add(1); return nil }}
				}
				ctx, cancel := context.WithCancel(background)
				defer cancel()
				go func() { _ = a.Run(ctx, counting(&atA)) }()
				time.Sleep(9 * time.Second)
				slow.is.Store(true)
				time.Sleep(1500 * time.Millisecond) // it is granted, and the reply under way
				start(t, b, counting(&atB))
				if err := end(a, cancel); err != nil {
					t.Error(err)
				}
				time.Sleep(5 * time.Second)
				if atA.Load() != 0 || atB.Load() != 1 {
					t.Errorf("it began %d times on the replica that ends, and %d times on the other", atA.Load(), atB.Load())
				}
			})
		})
	}
}

// Close is bounded although functions ignore it and the store does not respond.
func TestCloseIsBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		stop := make(chan struct{})
		go func() {
			_ = a.Do(background, "x", func(context.Context, *soloist.Lease) error { <-stop; return nil })
		}()
		el, err := a.Elements("x", soloist.ElementsOptions{}).Claim(background, "1")
		if err != nil {
			t.Fatal(err)
		}
		must(t, mustLock(t, a, "y").SetState(background, []byte("page 7"))) // which its release records once more
		claimMany(t, a.Elements("many", soloist.ElementsOptions{}), 10_000) // more requests than are under way together
		s.Stall()
		go func() { _ = el.Done() }()
		synctest.Wait()
		begin := time.Now()
		if err := a.Close(); err == nil || time.Since(begin) > 20*time.Second {
			t.Errorf("%.200v, after %v", err, time.Since(begin))
		}
		s.Heal()
		close(stop)
	})
}

// Requests that had no reply are looked for at once for all leases, at most for a RequestTimeout, and no longer than they may be under way.
func TestCloseDoesNotWaitForEachLateRequest(t *testing.T) {
	for what, test := range map[string]struct {
		after, atMost time.Duration
		ends          func(t *testing.T, c *soloist.Client, e *soloist.Elements, claimed []*soloist.Element)
	}{
		"soon after":    {20 * time.Second, 5 * time.Second, func(_ *testing.T, c *soloist.Client, _ *soloist.Elements, _ []*soloist.Element) { _ = c.Close() }},
		"after an hour": {time.Hour, 0, func(_ *testing.T, c *soloist.Client, _ *soloist.Elements, _ []*soloist.Element) { _ = c.Close() }},
		"by one that ends": {0, 0, func(t *testing.T, c *soloist.Client, e *soloist.Elements, claimed []*soloist.Element) {
			must(t, c.Do(background, "batch", func(ctx context.Context, _ *soloist.Lease) error {
				go func() { _ = c.Close() }()
				<-ctx.Done()
				return errors.Join(e.DoneAll(claimed)...)
			}))
		}},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := soloisttest.NewReplica(t, outrun{soloisttest.NewStore(), 2 * time.Second, false, new(atomic.Bool)}, soloist.Config{})
				e := c.Elements("x", soloist.ElementsOptions{})
				var ids []string
				for i := range 20 {
					ids = append(ids, fmt.Sprint(i))
				}
				claims, err := e.ClaimAll(background, ids)
				must(t, err)
				var claimed []*soloist.Element
				for _, one := range claims {
					must(t, one.Err)
					claimed = append(claimed, one.Element)
				}
				time.Sleep(test.after)
				begin := time.Now()
				test.ends(t, c, e, claimed)
				if took := time.Since(begin); took > test.atMost {
					t.Errorf("took %v, want at most %v", took, test.atMost)
				}
			})
		})
	}
}

func TestCloseReleasesAndRefuses(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		l := mustLock(t, a, "x")
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		if l.Context().Err() == nil {
			t.Error("the lease's context goes on")
		}
		mustLock(t, b, "x")
		if _, err := a.TryLock(background, "y"); !errors.Is(err, soloist.ErrClosed) {
			t.Fatalf("got: %v", err)
		}
	})
}

// Close does not release under a function that goes on.
func TestCloseLeavesTheLeaseOfAFunctionThatIgnoresIt(t *testing.T) {
	for what, test := range map[string]struct {
		does func(a *soloist.Client, ignores func()) error
		held func(b *soloist.Client) bool
	}{
		"Do": {func(a *soloist.Client, ignores func()) error {
			return a.Do(background, "x", func(context.Context, *soloist.Lease) error { ignores(); return nil })
		}, func(b *soloist.Client) bool {
			_, err := b.TryLock(background, "x")
			return errors.Is(err, soloist.ErrHeld)
		}},
		"Run": {func(a *soloist.Client, ignores func()) error {
			return a.Run(background, soloist.Job{Name: "x", Schedule: soloist.At(time.Now()), Do: func(context.Context, soloist.Run) error { ignores(); return nil }})
		}, func(b *soloist.Client) bool {
			info, err := b.Admin().Job(background, "x")
			return err == nil && info.Running != nil
		}},
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
				started, stop := make(chan struct{}), make(chan struct{})
				go func() { _ = test.does(a, func() { close(started); <-stop }) }()
				<-started
				if err := a.Close(); err == nil {
					t.Error("Close says that all is well")
				}
				if !test.held(b) {
					t.Error("it was released while the function goes on")
				}
				close(stop)
				synctest.Wait()
			})
		})
	}
}

// All who close a client wait for the same end and are told the same.
func TestCloseTwiceAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, _, _ *soloist.Client) {
		c := soloisttest.NewReplica(t, soloisttest.NewStore(), soloist.Config{})
		stop := make(chan struct{})
		defer func() { close(stop); synctest.Wait() }()
		go func() {
			_ = c.Do(background, "x", func(context.Context, *soloist.Lease) error { <-stop; return nil })
		}()
		synctest.Wait()
		errs := make(chan error, 2)
		begin := time.Now()
		for range 2 {
			go func() {
				errs <- c.Close()
				if took := time.Since(begin); took < 5*time.Second { // the RequestTimeout, for the function that ignores its context
					t.Errorf("Close returned after %v", took)
				}
			}()
		}
		one, two := <-errs, <-errs
		if one == nil || two == nil || one.Error() != two.Error() {
			t.Errorf("%v; %v", one, two)
		}
		if again := c.Close(); again == nil || again.Error() != one.Error() {
			t.Errorf("again: %v", again)
		}
	})
}

// Shutdown and Close name the leases that they could not release.
func TestShutdownWithoutAStore(t *testing.T) {
	for what, end := range map[string]func(*soloist.Client) error{
		"Shutdown": func(c *soloist.Client) error { return c.Shutdown(background) },
		"Shutdown that is in a hurry": func(c *soloist.Client) error {
			ctx, cancel := context.WithCancel(background)
			cancel()
			return c.Shutdown(ctx)
		},
		"Close": func(c *soloist.Client) error { return c.Close() },
	} {
		inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
			must(t, mustLock(t, a, "left behind").SetState(background, []byte("page 7"))) // which its release records once more
			s.Stall()
			begin := time.Now()
			if err := end(a); time.Since(begin) > 20*time.Second || !errors.Is(err, soloist.ErrUnknown) || !strings.Contains(err.Error(), "left behind") {
				t.Errorf("%s, after %v: %v", what, time.Since(begin), err)
			}
			s.Heal()
		})
	}
}

// Nothing of a client that is closed goes on as if it had been asked to end meanwhile: each call says why it does nothing.
func TestAClosedClientSaysSo(t *testing.T) {
	c := soloisttest.NewReplica(t, soloisttest.NewStore(), soloist.Config{})
	must(t, c.Close())
	for what, err := range map[string]error{
		"Do":           c.Do(background, "x", func(context.Context, *soloist.Lease) error { return nil }),
		"Lead":         c.Lead(background, "x", func(context.Context, *soloist.Lease) error { return nil }),
		"Run":          c.Run(background, soloist.Job{Name: "x", Schedule: soloist.Every(time.Hour), Do: nothing}),
		"Process":      c.Elements("x", soloist.ElementsOptions{}).Process(background, "1", func(context.Context, *soloist.Element) error { return nil }),
		"Semaphore.Do": c.Semaphore("x", 1).Do(background, func(context.Context, *soloist.Lease) error { return nil }),
	} {
		wantIs(t, what, err, soloist.ErrClosed)
	}
}

// What waits when a client is closed ends at once, although the store does not answer, or nobody ends the run that is waited for. So does what waits for a run when the store is closed.
func TestWaitingEndsWithTheClient(t *testing.T) {
	for what, wait := range map[string]func(context.Context, *soloist.Client) error{
		"a detached lease": func(ctx context.Context, c *soloist.Client) error {
			_, _, err := c.With(soloist.Options{Wait: -1}).Detached().Acquire(ctx, lockOf("a#1"), false)
			return err
		},
		"a manual run": func(ctx context.Context, c *soloist.Client) error {
			_, err := c.Admin().TriggerAndWait(ctx, "tick")
			return err
		},
		"a manual run, of a closed store": func(ctx context.Context, c *soloist.Client) error {
			_, err := c.Admin().TriggerAndWait(ctx, "tick")
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
				mine := s.Share()
				c, err := soloist.New(mine, soloist.Config{})
				must(t, err)
				defer c.Close()
				start(t, a, soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Do: func(ctx context.Context, _ soloist.Run) error { <-ctx.Done(); return nil }})
				synctest.Wait()
				if what == "a detached lease" {
					mine.Break(errors.New("away"))
				}
				ctx, cancel := context.WithCancel(background)
				defer cancel()
				ended := make(chan error, 1)
				go func() { ended <- wait(ctx, c) }()
				time.Sleep(10 * time.Second)
				begin, want := time.Now(), error(soloist.ErrClosed)
				if what == "a manual run, of a closed store" {
					must(t, mine.Close())
					want = store.ErrClosed
				} else {
					must(t, c.Close())
				}
				time.Sleep(2 * time.Second)
				select {
				case err := <-ended:
					wantIs(t, "waiting", err, want)
				default:
					t.Errorf("it goes on %v later", time.Since(begin))
					cancel()
					<-ended
				}
				mine.Heal()
			})
		})
	}
}

// What a client has when it is closed is released although the store is away for a moment: others need not wait for the end of its lease.
func TestCloseOutlastsAStoreThatIsAwayForAMoment(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		mustLock(t, a, "x")
		s.Break(nil)
		time.AfterFunc(3*time.Second, s.Heal)
		must(t, a.Close())
		mustLock(t, b, "x")
	})
}

// A release that is repeated for as long as its lease may last, because it records something, ends with its client: no request is sent any more, however that was closed.
func TestReleaseEndsWithTheClient(t *testing.T) {
	for how, end := range map[string]func(*soloist.Client) error{
		"Shutdown": func(c *soloist.Client) error { return c.Shutdown(background) },
		"Close":    func(c *soloist.Client) error { return c.Close() },
	} {
		t.Run(how, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
				el, err := a.With(soloist.Options{TTL: time.Hour}).Elements("invoices", soloist.ElementsOptions{}).Claim(background, "1")
				must(t, err)
				s.Break(errors.New("away"))
				done := make(chan error, 1)
				go func() { done <- el.Done() }()
				time.Sleep(time.Minute)
				must(t, end(a))
				synctest.Wait()
				asked := s.Calls()
				time.Sleep(time.Minute)
				check(t, "requests after that", s.Calls(), asked)
				select {
				case err := <-done:
					wantIs(t, "recording", err, soloist.ErrUnknown)
				default:
					t.Error("it is still being recorded")
				}
			})
		})
	}
}

// A job that was granted when its replica ends is given back although the store is away for longer than two requests take, and keeps what its record has.
func TestWhatIsGivenBackAtTheEndKeepsItsRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &late{Store: soloisttest.NewStore()}
		a := soloisttest.NewReplica(t, slow, soloist.Config{Replica: "a"})
		b := soloisttest.NewReplica(t, slow.Share(), soloist.Config{Replica: "b"})
		begin := time.Now()
		ctx, cancel := context.WithCancel(background)
		defer cancel()
		ran := make(chan error, 1)
		go func() {
			ran <- a.Run(ctx, soloist.Job{Name: "x", Schedule: soloist.Every(10 * time.Second), Do: nothing})
		}()
		time.Sleep(19 * time.Second)
		slow.is.Store(true)
		time.Sleep(1500 * time.Millisecond) // it is granted, and the reply under way
		slow.Break(nil)
		cancel()
		time.Sleep(12 * time.Second)
		slow.Heal()
		must(t, <-ran)
		if took := time.Since(begin); took > 35*time.Second {
			t.Errorf("it ended after %v", took)
		}
		_, err := slow.Sweep(background, 1000)
		must(t, err)
		info, err := b.Admin().Job(background, "x")
		if must(t, err); info.Running != nil || len(info.Runs) != 1 || !info.DoneUpTo.Equal(begin.Add(10*time.Second)) {
			t.Errorf("%+v", info)
		}
	})
}

// A function whose lease is granted only while the client closes finds that it is to end.
func TestWhatIsGrantedWhileClosingIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := soloisttest.NewClient(t)
		s.Slow(2 * time.Second)
		causes := make(chan error, 1)
		go func() {
			_ = c.Do(background, "x", func(ctx context.Context, _ *soloist.Lease) error {
				causes <- context.Cause(ctx)
				return nil
			})
		}()
		time.Sleep(time.Second)
		must(t, c.Close())
		wantIs(t, "it begins", <-causes, soloist.ErrInterrupted)
	})
}

// Why Shutdown has not waited for its functions is in its error.
func TestWhyShutdownDoesNotWait(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, _ *soloist.Client) {
		go func() {
			_ = a.Do(background, "x", func(ctx context.Context, _ *soloist.Lease) error { <-ctx.Done(); return nil })
		}()
		time.Sleep(time.Second)
		hurry := errors.New("the machine is about to be taken away")
		ctx, cancel := context.WithCancelCause(background)
		cancel(hurry)
		wantIs(t, "Shutdown", a.Shutdown(ctx), hurry)
	})
}
