package soloist_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
)

// A witness keeps the events of a client.
type witness struct {
	mu     sync.Mutex
	events []soloist.Event
}

func (w *witness) observe(_ context.Context, e soloist.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
}

// of returns the events of a kind.
func (w *witness) of(kind soloist.EventKind) (of []soloist.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events {
		if e.Kind == kind {
			of = append(of, e)
		}
	}
	return of
}

// A lease that is lost is reported once, no matter what notices it: the clock, the store, or the release.
func TestALostLeaseIsToldOnce(t *testing.T) {
	lose := func(t *testing.T, s *soloisttest.Store, l *soloist.Lease) { soloisttest.LoseLease(t, s, l) }
	// unseen takes a lease away without its holder's knowledge.
	unseen := func(t *testing.T, s *soloisttest.Store, l *soloist.Lease) {
		c := soloisttest.NewReplica(t, s.Share(), soloist.Config{})
		if err := c.Admin().Release(background, soloist.LeaseInfo{Kind: soloist.KindLock, Name: l.Name(), Token: l.Token()}, "a test"); err != nil {
			t.Fatal(err)
		}
		mustLock(t, c, l.Name())
	}
	for what, test := range map[string]struct {
		loses func(*testing.T, *soloisttest.Store, *soloist.Lease)
		run   bool
	}{"noticed": {lose, false}, "noticed by its release": {unseen, false}, "of a run": {lose, true}} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var w witness
				s := soloisttest.NewStore()
				c := soloisttest.NewReplica(t, s, soloist.Config{Observe: w.observe})
				if test.run {
					ctx, cancel := context.WithCancel(background)
					_ = c.Run(ctx, soloist.Job{Name: "x", Schedule: soloist.At(time.Now()), Do: func(_ context.Context, run soloist.Run) error {
						defer cancel()
						test.loses(t, s, run.Lease)
						return nil
					}})
				} else {
					l := mustLock(t, c, "x")
					test.loses(t, s, l)
					if err := l.Release(); !errors.Is(err, soloist.ErrLost) {
						t.Errorf("released: %v", err)
					}
				}
				if lost := w.of(soloist.EventLost); len(lost) != 1 || lost[0].Subject.Name != "x" || !errors.Is(lost[0].Err, soloist.ErrLost) {
					t.Errorf("lost: %+v", lost)
				}
			})
		})
	}
}

// Events of elements carry their job, of which there are few, beside the ID of the element.
func TestEventsOfElementsNameTheJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w witness
		s := soloisttest.NewStore()
		invoices := soloisttest.NewReplica(t, s, soloist.Config{Observe: w.observe}).Elements("invoices", soloist.ElementsOptions{})
		if err := invoices.Process(background, "1", ok); err != nil {
			t.Fatal(err)
		}
		claimed, err := invoices.ClaimAll(background, []string{"2", "3"})
		if err != nil {
			t.Fatal(err)
		}
		soloisttest.LoseLease(t, s, claimed[0].Element.Lease)
		_ = invoices.DoneAll([]*soloist.Element{claimed[0].Element, claimed[1].Element})
		for kind, n := range map[soloist.EventKind]int{soloist.EventGranted: 3, soloist.EventReleased: 3, soloist.EventLost: 1} {
			events := w.of(kind)
			if len(events) != n {
				t.Errorf("%d events of kind %s, want %d", len(events), kind, n)
			}
			for _, e := range events {
				if e.Subject.Kind != soloist.KindElement || e.Subject.Parent != "invoices" || e.Subject.Name < "1" || e.Subject.Name > "3" {
					t.Errorf("%s of %+v", kind, e.Subject)
				}
			}
		}
	})
}

// Each request is reported, also the one that takes a permit.
func TestEachRequestIsToldOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w witness
		c := soloisttest.NewReplica(t, soloisttest.NewStore(), soloist.Config{Observe: w.observe})
		if err := c.Semaphore("x", 3).Do(background, ok); err != nil {
			t.Fatal(err)
		}
		var told []string
		for _, e := range w.of(soloist.EventRequest) {
			told = append(told, fmt.Sprint(e.Verb, " ", e.Size, " ", e.Outcome))
		}
		if got := fmt.Sprint(told); got != "[choose 3 ok release 1 ok]" {
			t.Errorf("told of %s", got)
		}
	})
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

// A refusal says of what, how long its caller has waited, and why; a grant how long.
func TestRefusalsAndWaitsAreToldOf(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		var w witness
		c := soloisttest.NewReplica(t, s, soloist.Config{Observe: w.observe})
		held := mustLock(t, a, "x")
		if _, err := a.Semaphore("x", 1).Acquire(background); err != nil {
			t.Fatal(err)
		}
		_ = c.Do(background, "x", ok)
		_ = c.With(soloist.Options{Wait: time.Minute}).Semaphore("x", 1).Do(background, ok)
		time.AfterFunc(time.Hour, func() { _ = held.Release() })
		if _, err := c.Lock(background, "x"); err != nil {
			t.Fatal(err)
		}
		var told []string
		for _, kind := range []soloist.EventKind{soloist.EventRefused, soloist.EventGranted} {
			for _, e := range w.of(kind) {
				told = append(told, fmt.Sprint(kind, " ", e.Subject.Kind, " ", e.Subject.Parent, e.Subject.Name, " ", e.Waited.Truncate(time.Minute), " ", errors.Is(e.Err, soloist.ErrHeld)))
			}
		}
		if got := strings.Join(told, "; "); got != "refused lock x 0s true; refused permit x 1m0s true; granted lock x 1h0m0s false" {
			t.Error(got)
		}
	})
}
