package soloist_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
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
func (w *witness) of(kind soloist.EventKind) []soloist.Event {
	return w.that(func(e soloist.Event) bool { return e.Kind == kind })
}

// that returns the events for which is returns true.
func (w *witness) that(is func(soloist.Event) bool) (those []soloist.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events {
		if is(e) {
			those = append(those, e)
		}
	}
	return those
}

// A lease that is lost is reported once, no matter what notices it: the clock, the store, or the release.
func TestALostLeaseIsToldOnce(t *testing.T) {
	var token int64
	lose := func(t *testing.T, s *soloisttest.Store, l *soloist.Lease) {
		token = l.Token()
		soloisttest.LoseLease(t, s, l)
	}
	// unseen takes a lease away without its holder's knowledge.
	unseen := func(t *testing.T, s *soloisttest.Store, l *soloist.Lease) {
		token = l.Token()
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
				if lost := w.of(soloist.EventLost); len(lost) != 1 || lost[0].Subject.Name != "x" || lost[0].Token != token || !errors.Is(lost[0].Err, soloist.ErrLost) {
					t.Errorf("lost: %+v; want one, with token %d", lost, token)
				}
			})
		})
	}
}

// A lease that was granted ends with one event, so that a count of the leases that are held does not drift: it is lost, or it is released and was
// not lost before.
func TestEachLeaseEndsOnce(t *testing.T) {
	type fleet struct {
		s *soloisttest.Store
		c *soloist.Client
	}
	lock := func(t *testing.T, f fleet) *soloist.Lease { return mustLock(t, f.c, "x") }
	for what, test := range map[string]struct {
		ends     func(t *testing.T, f fleet)
		lost     string
		released int
	}{
		"released twice": {func(t *testing.T, f fleet) { l := lock(t, f); _ = l.Release(); _ = l.Release() }, "", 1},
		"lost and never released": {func(t *testing.T, f fleet) {
			l := lock(t, f)
			f.s.Stall()
			<-l.Context().Done()
		}, soloist.LossUnconfirmed, 0},
		"lost, and then the store has it and releases it": {func(t *testing.T, f fleet) {
			l := lock(t, f)
			f.s.Stall()
			<-l.Context().Done()
			f.s.Heal()
			if err := l.Release(); err != nil {
				t.Error(err)
			}
		}, soloist.LossUnconfirmed, 1},
		"lost to another holder": {func(t *testing.T, f fleet) {
			l := lock(t, f)
			soloisttest.LoseLease(t, f.s, l)
			_ = l.Release()
		}, soloist.LossGone, 1},
		"lost, as its release reveals": {func(t *testing.T, f fleet) {
			l := lock(t, f)
			admin := soloisttest.NewReplica(t, f.s.Share(), soloist.Config{}).Admin()
			if err := admin.Release(background, soloist.LeaseInfo{Kind: soloist.KindLock, Name: "x", Token: l.Token()}, "a test"); err != nil {
				t.Fatal(err)
			}
			_ = l.Release()
		}, soloist.LossGone, 1},
		"held for too long": {func(t *testing.T, f fleet) {
			l := mustLock(t, f.c.With(soloist.Options{AtMost: time.Minute}), "x")
			<-l.Context().Done()
			_ = l.Release()
		}, soloist.LossOverran, 1},
		"closed": {func(t *testing.T, f fleet) { lock(t, f); _ = f.c.Close() }, "", 1},
		"closed under a function": {func(t *testing.T, f fleet) {
			stop := make(chan struct{})
			go func() {
				_ = f.c.Do(background, "x", func(context.Context, *soloist.Lease) error { <-stop; return nil })
			}()
			synctest.Wait()
			_ = f.c.Close()
			close(stop)
			synctest.Wait()
		}, soloist.LossClosed, 1},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var w witness
				s := soloisttest.NewStore()
				test.ends(t, fleet{s, soloisttest.NewReplica(t, s, soloist.Config{Observe: w.observe})})
				synctest.Wait() // the context of a lease ends before its loss is reported
				granted, lost, released := w.of(soloist.EventGranted), w.of(soloist.EventLost), w.of(soloist.EventReleased)
				if len(granted) != 1 || len(released) != test.released {
					t.Fatalf("granted: %+v; released: %+v", granted, released)
				}
				for _, e := range released {
					if e.Lost != (test.lost != "") || e.Token != granted[0].Token || e.Token == 0 {
						t.Errorf("released: %+v", e)
					}
				}
				if test.lost == "" && len(lost) != 0 || test.lost != "" && (len(lost) != 1 || lost[0].Outcome != test.lost) {
					t.Errorf("lost: %+v", lost)
				}
			})
		})
	}
}

// A releaser is a slog.Handler that releases a lease when its loss is logged.
type releaser struct {
	slog.Handler
	lease func() *soloist.Lease
}

func (r releaser) Enabled(context.Context, slog.Level) bool { return true }

func (r releaser) Handle(_ context.Context, record slog.Record) error {
	if record.Message == "lease lost" {
		return r.lease().Release()
	}
	return nil
}

// A release that runs while the loss is being reported knows that the lease was lost.
func TestReleaseBesideALossIsNoSecondEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w witness
		var l *soloist.Lease
		c := soloisttest.NewReplica(t, soloisttest.NewStore(), soloist.Config{
			Observe: w.observe, Logger: slog.New(releaser{slog.DiscardHandler, func() *soloist.Lease { return l }}),
		})
		l = mustLock(t, c.With(soloist.Options{AtMost: time.Minute}), "x")
		<-l.Context().Done()
		synctest.Wait()
		lost, released := w.of(soloist.EventLost), w.of(soloist.EventReleased)
		if len(lost) != 1 || len(released) != 1 || !released[0].Lost || released[0].Err != nil {
			t.Errorf("lost: %+v; released: %+v", lost, released)
		}
	})
}

// Elements that are claimed together are refused one by one, with the reason.
func TestRefusedElementsOfABatchAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w witness
		s := soloisttest.NewStore()
		mine := soloisttest.NewReplica(t, s, soloist.Config{Observe: w.observe}).Elements("invoices", soloist.ElementsOptions{})
		others := soloisttest.NewReplica(t, s.Share(), soloist.Config{}).Elements("invoices", soloist.ElementsOptions{})
		if err := others.Process(background, "1", ok); err != nil {
			t.Fatal(err)
		}
		if _, err := others.Claim(background, "2"); err != nil {
			t.Fatal(err)
		}
		if _, err := mine.ClaimAll(background, []string{"1", "2", "3"}); err != nil {
			t.Fatal(err)
		}
		down := errors.New("down")
		s.Break(down)
		if _, err := mine.ClaimAll(background, []string{"4"}); !errors.Is(err, down) {
			t.Fatal(err)
		}
		refused := w.of(soloist.EventRefused)
		want := []error{soloist.ErrDone, soloist.ErrHeld, down}
		if len(refused) != len(want) {
			t.Fatalf("refused: %+v", refused)
		}
		for i, e := range refused {
			if e.Subject.Kind != soloist.KindElement || e.Subject.Parent != "invoices" || e.Subject.Name != []string{"1", "2", "4"}[i] || !errors.Is(e.Err, want[i]) {
				t.Errorf("refused: %+v", e)
			}
		}
	})
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
		s := soloisttest.NewStore()
		c := soloisttest.NewReplica(t, s, soloist.Config{Observe: w.observe})
		if err := c.Semaphore("x", 3).Do(background, ok); err != nil {
			t.Fatal(err)
		}
		_, err := c.Semaphore("y", 2).TryAcquire(background)
		must(t, err)
		_, err = c.Semaphore("y", 2).TryAcquire(background)
		must(t, err)
		if _, err := c.Semaphore("y", 2).TryAcquire(background); !errors.Is(err, soloist.ErrHeld) {
			t.Error(err)
		}
		s.Break(nil)
		if _, err := c.Semaphore("y", 2).TryAcquire(background); err == nil {
			t.Error("granted by a store that is away")
		}
		s.Heal()
		var told []string
		for _, e := range w.of(soloist.EventRequest) {
			told = append(told, fmt.Sprint(e.Verb, " ", e.Size, " ", e.Outcome))
		}
		if got := fmt.Sprint(told); got != "[choose 3 ok release 1 ok choose 2 ok choose 2 ok choose 2 ok choose 2 error]" {
			t.Errorf("told of %s", got)
		}
	})
}

// A request says whether it failed, or whether nobody knows.
func TestOutcomesOfRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w witness
		s := soloisttest.NewStore()
		c := soloisttest.NewReplica(t, s, soloist.Config{Observe: w.observe})
		s.LoseReplies(1)
		s.Slow(time.Second)
		lease := mustLock(t, c, "x") // by the second request
		s.Slow(0)
		s.Break(errors.New("away"))
		if err := lease.Check(background); err == nil {
			t.Error("a store that is away has confirmed the lease")
		}
		s.Heal()
		var told []string
		for _, e := range w.of(soloist.EventRequest) {
			told = append(told, fmt.Sprint(e.Verb, " ", e.Outcome, " ", e.Duration))
		}
		if got := fmt.Sprint(told); got != "[acquire unknown 1s acquire ok 1s extend error 0s]" {
			t.Errorf("told of %s", got)
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

// A loss that two requests report at once is reported once to people, and the release after it is no second one.
func TestALossThatTwoRequestsNotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w witness
		gone := make(chan struct{})
		s := renewing{memstore.New(), func(_ context.Context, _ *memstore.Store, extensions []store.Extension) ([]error, error) {
			<-gone
			return slices.Repeat([]error{store.ErrLost}, len(extensions)), nil
		}}
		c := soloisttest.NewReplica(t, s, soloist.Config{Observe: w.observe})
		l := mustLock(t, c, "x")
		checked := make(chan error, 2)
		for range cap(checked) {
			go func() { checked <- l.Check(background) }()
		}
		synctest.Wait()
		close(gone)
		for range cap(checked) {
			if err := <-checked; !errors.Is(err, soloist.ErrLost) {
				t.Errorf("checked: %v", err)
			}
		}
		_ = l.Release()
		lost, released := w.of(soloist.EventLost), w.of(soloist.EventReleased)
		if len(lost) != 1 || len(released) != 1 || !released[0].Lost {
			t.Errorf("lost: %+v; released: %+v; want one of each, and that the release knows of the loss", lost, released)
		}
	})
}

// A grant says under which token, and how long the request took; only who has called waits for it.
func TestGrantsAreToldOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w witness
		s := soloisttest.NewStore()
		c := soloisttest.NewReplica(t, s, soloist.Config{Observe: w.observe})
		var ran *soloist.Lease
		start(t, c, soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), Do: func(_ context.Context, run soloist.Run) error {
			ran = run.Lease
			return nil
		}})
		time.Sleep(90 * time.Second)
		network := s.Share()
		network.Slow(50 * time.Millisecond)
		lease := mustLock(t, soloisttest.NewReplica(t, network, soloist.Config{Observe: w.observe}), "x")                    // which has no other request under way
		granted := slices.DeleteFunc(w.of(soloist.EventGranted), func(e soloist.Event) bool { return e.Subject.Kind == "" }) // of the record of the replica
		if len(granted) != 2 {
			t.Fatalf("told of %+v", granted)
		}
		if e := granted[0]; e.Subject.Kind != soloist.KindJob || e.Token != ran.Token() || e.Waited != 0 {
			t.Errorf("of the job it was told %+v", e)
		}
		if e := granted[1]; e.Subject.Name != "x" || e.Token != lease.Token() || e.Waited != 50*time.Millisecond || e.Duration != 50*time.Millisecond {
			t.Errorf("of the lock it was told %+v", e)
		}
	})
}

// Each attempt at a run is told of when it begins and when it has ended, and so are the times that were missed before it.
func TestRunsAreToldOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told, works []string
		begin := time.Now()
		s := soloisttest.NewStore()
		middleware := func(next soloist.Handler) soloist.Handler {
			return func(ctx context.Context, w soloist.Work) error {
				works = append(works, fmt.Sprintf("%d of %v, by hand %t", w.Attempt, w.ScheduledAt.Sub(begin).Round(time.Second), w.Manual))
				return next(ctx, w)
			}
		}
		a := soloisttest.NewReplica(t, s, soloist.Config{Middleware: []soloist.Middleware{middleware}, Observe: func(ctx context.Context, e soloist.Event) {
			switch e.Kind {
			case soloist.EventRunStart, soloist.EventRunEnd, soloist.EventMissed:
			default:
				return
			}
			if l := soloist.LeaseFrom(ctx); l == nil || l.Token() != e.Token || e.Token == 0 || e.Subject != (soloist.Subject{Kind: soloist.KindJob, Name: "tick"}) {
				t.Errorf("%s of %+v with token %d", e.Kind, e.Subject, e.Token)
			}
			text := string(e.Kind)
			if e.Attempt > 0 {
				text += fmt.Sprintf(" %d of %v", e.Attempt, e.ScheduledAt.Sub(begin).Round(time.Second))
			}
			for what, is := range map[string]bool{" by hand": e.Manual, fmt.Sprintf(" missed %d", e.Missed): e.Missed > 0} {
				if is {
					text += what
				}
			}
			if e.Outcome != "" {
				text += fmt.Sprintf(" %s (%v) after %v", e.Outcome, e.Err, e.Duration)
			} else if e.Attempt > 0 {
				text += fmt.Sprintf(", late by %v", e.Delay.Round(time.Second))
			}
			told = append(told, text)
		}})
		calls := 0
		start(t, a, soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Retry: soloist.Retry{Attempts: 2, Backoff: time.Second}, Do: func(context.Context, soloist.Run) error {
			time.Sleep(2 * time.Second)
			if calls++; calls == 1 {
				return errors.New("no paper")
			}
			return nil
		}})
		time.Sleep(61 * time.Minute)
		must(t, a.Admin().Trigger(background, "tick"))
		time.Sleep(time.Minute)
		s.Break(nil)
		time.Sleep(2*time.Hour + 10*time.Minute)
		s.Heal()
		time.Sleep(time.Hour)
		synctest.Wait()
		check(t, "events", strings.Join(told, "\n"), strings.Join([]string{
			"run-start 1 of 1h0m0s, late by 0s", "run-end 1 of 1h0m0s failed (no paper) after 2s",
			"run-start 2 of 1h0m0s, late by 3s", "run-end 2 of 1h0m0s ok (<nil>) after 2s",
			"run-start 1 of 1h1m0s by hand, late by 0s", "run-end 1 of 1h1m0s by hand ok (<nil>) after 2s",
			"missed missed 2", "run-start 1 of 4h0m0s, late by 0s", "run-end 1 of 4h0m0s ok (<nil>) after 2s",
		}, "\n"))
		check(t, "middleware", works, []string{"1 of 1h0m0s, by hand false", "2 of 1h0m0s, by hand false", "1 of 1h1m0s, by hand true", "1 of 4h0m0s, by hand false"})
	})
}
