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

func ok[T any](context.Context, T) error { return nil }

func TestElementIsProcessedOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		invoices := a.Elements("invoices", soloist.ElementsOptions{})
		err := invoices.Process(background, "4711", func(ctx context.Context, lease *soloist.Element) error {
			if err := b.Elements("invoices", soloist.ElementsOptions{}).Process(ctx, "4711", ok); !errors.Is(err, soloist.ErrHeld) {
				t.Errorf("b, while a has it: %v", err)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(1000 * time.Hour)
		_, _ = s.Sweep(background, 100) // the record of what was done must outlive it
		if err := b.Elements("invoices", soloist.ElementsOptions{}).Process(background, "4711", ok); !errors.Is(err, soloist.ErrDone) {
			t.Errorf("b, when it is processed: %v", err)
		}
		if err := b.Elements("other", soloist.ElementsOptions{}).Process(background, "4711", ok); err != nil {
			t.Errorf("the same id of another job: %v", err)
		}
	})
}

func TestRetainedElementsAreForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		invoices := a.Elements("invoices", soloist.ElementsOptions{Retain: time.Hour})
		if err := invoices.Process(background, "1", ok); err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			after time.Duration
			swept int
		}{{59 * time.Minute, 0}, {2 * time.Minute, 1}} {
			time.Sleep(step.after)
			if n, err := s.Sweep(background, 10); n != step.swept || err != nil {
				t.Errorf("swept %d (%v)", n, err)
			}
		}
	})
}

func TestFailedElements(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		invoices := a.Elements("invoices", soloist.ElementsOptions{Retry: soloist.Retry{Attempts: 3, Backoff: 10 * time.Second}})
		bad := errors.New("the service answers 500")
		failing := func(context.Context, *soloist.Element) error { return bad }
		for attempt, pause := range []time.Duration{10 * time.Second, 20 * time.Second, 0} {
			if err := invoices.Process(background, "1", failing); !errors.Is(err, bad) {
				t.Fatalf("attempt %d: %v", attempt+1, err)
			}
			var held *soloist.HeldError
			if err := invoices.Process(background, "1", ok); pause > 0 && (!errors.As(err, &held) || held.Left != pause) {
				t.Errorf("after attempt %d: %v", attempt+1, err)
			}
			if pause > 0 {
				if err := b.Admin().RetryElement(background, "invoices", "1"); !errors.Is(err, soloist.ErrHeld) || !strings.Contains(err.Error(), "cannot be ended: try again in "+pause.String()) {
					t.Errorf("RetryElement in the pause of %v: %v", pause, err)
				}
			}
			time.Sleep(pause)
		}
		var failed *soloist.FailedError
		if err := invoices.Process(background, "1", ok); !errors.As(err, &failed) || failed.Attempts != 3 || failed.Reason != bad.Error() {
			t.Fatalf("after three attempts: %v", err)
		}
		for info, err := range b.Admin().Elements(background, "invoices") {
			if err != nil || info.Status != "failed" || info.Attempts != 3 {
				t.Errorf("listed: %+v, %v", info, err)
			}
		}
		if err := b.Admin().RetryElement(background, "invoices", "1"); err != nil {
			t.Fatal(err)
		}
		actions, err := collect(b.Admin().Actions(background))
		if len(actions) != 1 || err != nil || actions[0].Verb != soloist.ActionRetry || actions[0].Kind != soloist.KindElement || actions[0].Name != "1" || actions[0].Job != "invoices" || actions[0].By != "b" {
			t.Errorf("actions: %+v, %v; want one, of the element that is to be tried again", actions, err)
		}
		if err := invoices.Process(background, "1", ok); err != nil {
			t.Errorf("after RetryElement: %v", err)
		}
		if err := b.Admin().RetryElement(background, "invoices", "1"); !errors.Is(err, soloist.ErrDone) {
			t.Errorf("RetryElement of a processed element: %v", err)
		}
		if err := b.Admin().RetryElement(background, "invoices", "none"); !errors.Is(err, soloist.ErrNoElement) {
			t.Errorf("RetryElement of an element that nobody has claimed: %v", err)
		}
		el, err := invoices.Claim(background, "2")
		must(t, err)
		if err := b.Admin().RetryElement(background, "invoices", "2"); !errors.Is(err, soloist.ErrHeld) || strings.Contains(err.Error(), "back-off") {
			t.Errorf("RetryElement of an element that is being processed: %v", err)
		}
		must(t, el.Done())
	})
}

// Crashes count however long the element lies until somebody looks at it again, and whatever is swept meanwhile.
func TestSweptCrashesCount(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, _, b *soloist.Client) {
		for i := range 3 {
			network := s.Share()
			dying := soloisttest.NewReplica(t, network, soloist.Config{}).Elements("invoices", soloist.ElementsOptions{Retry: soloist.Retry{Attempts: 3}})
			if el, err := dying.Claim(background, "1"); err != nil || el.Attempt() != i+1 {
				t.Fatalf("attempt %d: %+v, %v", i+1, el, err)
			}
			network.Break(nil)
			time.Sleep(time.Hour)
			if n, err := s.Sweep(background, 100); n != 0 || err != nil {
				t.Errorf("a sweep after crash %d forgot %d, %v", i+1, n, err)
			}
		}
		invoices := b.Elements("invoices", soloist.ElementsOptions{Retry: soloist.Retry{Attempts: 3}})
		var failed *soloist.FailedError
		if _, err := invoices.Claim(background, "1"); !errors.As(err, &failed) || failed.Attempts != 3 {
			t.Errorf("after three crashes: %v", err)
		}
	})
}

// Failures are counted over sweeps too, however short the time is for which processed elements are remembered.
func TestSweptFailuresCount(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		invoices := a.Elements("invoices", soloist.ElementsOptions{Retain: time.Minute, Retry: soloist.Retry{Attempts: 3}})
		for i := range 3 {
			el, err := invoices.Claim(background, "1")
			if err != nil || el.Attempt() != i+1 {
				t.Fatalf("attempt %d: %+v, %v", i+1, el, err)
			}
			if err := el.Fail(errors.New("no")); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
			if n, err := s.Sweep(background, 100); n != 0 || err != nil {
				t.Errorf("a sweep after failure %d forgot %d, %v", i+1, n, err)
			}
		}
		if _, err := invoices.Claim(background, "1"); !errors.Is(err, soloist.ErrFailed) {
			t.Errorf("after three failures: %v", err)
		}
	})
}

// An element in the pause after a failure is held by nobody: lists show that it waits.
func TestElementInItsPauseWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, _ *soloist.Client) {
		el, err := a.Elements("invoices", soloist.ElementsOptions{Retry: soloist.Retry{Backoff: time.Minute}}).Claim(background, "1")
		must(t, err)
		must(t, el.Fail(errors.New("no paper")))
		for info, err := range a.Admin().Elements(background, "invoices") {
			if err != nil || info.Status != "waiting" || info.Left != time.Minute || info.Holder != "" {
				t.Errorf("%+v, %v", info, err)
			}
		}
	})
}

// An element whose last crash has used up its attempts stays failed, whatever sweeps forget.
func TestSweptLastCrashCounts(t *testing.T) {
	for name, claim := range map[string]func(*soloist.Elements) error{
		"claimed":  func(e *soloist.Elements) error { _, err := e.Claim(background, "1"); return err },
		"detached": func(e *soloist.Elements) error { _, err := e.ClaimDetached(background, "1", "c#1", false); return err },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *soloisttest.Store, _, b *soloist.Client) {
				opts := soloist.ElementsOptions{Retain: time.Minute, Retry: soloist.Retry{Attempts: 1}}
				_, err := b.Elements("invoices", opts).ClaimDetached(background, "1", "a#1", false) // who dies
				must(t, err)
				time.Sleep(time.Minute)
				for range 2 {
					if err := claim(b.Elements("invoices", opts)); !errors.Is(err, soloist.ErrFailed) {
						t.Errorf("after a crash, with one attempt: %v", err)
					}
					time.Sleep(time.Hour)
					if n, err := s.Sweep(background, 100); n != 0 || err != nil {
						t.Errorf("a sweep forgot %d, %v", n, err)
					}
				}
			})
		})
	}
}

// Crashes count as attempts: an element that kills its replicas does not do so forever.
func TestCrashesCount(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, _, b *soloist.Client) {
		for i := range 3 {
			network := s.Share()
			dying := soloisttest.NewReplica(t, network, soloist.Config{}).Elements("invoices", soloist.ElementsOptions{Retry: soloist.Retry{Attempts: 3}})
			el, err := dying.Claim(background, "1")
			if err != nil {
				t.Fatal(err)
			}
			if el.Attempt() != i+1 {
				t.Errorf("attempt %d is called %d", i+1, el.Attempt())
			}
			network.Break(nil)
			time.Sleep(31 * time.Second)
		}
		invoices := b.Elements("invoices", soloist.ElementsOptions{Retry: soloist.Retry{Attempts: 3}})
		if _, err := invoices.Claim(background, "1"); !errors.Is(err, soloist.ErrFailed) {
			t.Errorf("after three crashes: %v", err)
		}
	})
}

func TestPanicOfAnElementIsAFailure(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, _ *soloist.Client) {
		err := a.Elements("invoices", soloist.ElementsOptions{}).Process(background, "1", func(context.Context, *soloist.Element) error { panic("boo") })
		var panicked *soloist.PanicError
		if !errors.As(err, &panicked) || panicked.Value != "boo" {
			t.Fatalf("got: %v", err)
		}
		for info := range a.Admin().Elements(background, "invoices") {
			if info.Status != "waiting" || info.Error != "panic: boo" {
				t.Errorf("%+v", info)
			}
		}
	})
}

// When the record of what was done cannot be made, Process says so although the function succeeded.
func TestProcessReportsThatItCouldNotRecord(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		err := a.Elements("invoices", soloist.ElementsOptions{}).Process(background, "1", func(context.Context, *soloist.Element) error { s.Break(nil); return nil })
		if !errors.Is(err, soloist.ErrUnknown) {
			t.Errorf("with the store gone: %v", err)
		}
		s.Heal()
		err = a.Elements("invoices", soloist.ElementsOptions{}).Process(background, "2", func(_ context.Context, l *soloist.Element) error { soloisttest.LoseLease(t, s, l.Lease); return nil })
		if !errors.Is(err, soloist.ErrLost) {
			t.Errorf("with the lease lost: %v", err)
		}
	})
}

func TestManyElementsInFewRequests(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		ids := make([]string, 3000)
		for i := range ids {
			ids[i] = fmt.Sprint("invoice/", i, "%2F")
		}
		if err := b.Elements("in/voices", soloist.ElementsOptions{}).Process(background, ids[7], ok); err != nil {
			t.Fatal(err)
		}
		before := s.Calls()
		claimed, err := a.Elements("in/voices", soloist.ElementsOptions{}).ClaimAll(background, append(ids, "", ids[0]))
		if err != nil {
			t.Fatal(err)
		}
		var mine []*soloist.Element
		for i, c := range claimed {
			switch {
			case c.Element != nil:
				mine = append(mine, c.Element)
			case i == 7 && errors.Is(c.Err, soloist.ErrDone), i == 3000 && !errors.Is(c.Err, soloist.ErrUnknown), i == 3001 && errors.Is(c.Err, soloist.ErrHeld):
			default:
				t.Errorf("%d: %v", i, c.Err)
			}
		}
		if err := errors.Join(a.Elements("in/voices", soloist.ElementsOptions{}).DoneAll(mine)...); err != nil {
			t.Fatal(err)
		}
		if calls := s.Calls() - before; len(mine) != 2999 || calls > 20 {
			t.Errorf("%d claimed and done in %d calls", len(mine), calls)
		}
		processed := 0
		for info, err := range a.Admin().Elements(background, "in/voices") {
			if err == nil && info.Status == "processed" {
				processed++
			}
		}
		if jobs, err := collect(a.Admin().ElementJobs(background)); processed != 3000 || fmt.Sprint(jobs, err) != "[in/voices] <nil>" {
			t.Errorf("%d processed; jobs %v, %v", processed, jobs, err)
		}
	})
}

// plain hides what a store can do beyond the three verbs.
type plain struct{ store.Store }

// What is wrong with the whole call is its error, and not one beside each id that a caller may take for work that is done.
func TestClaimAllThatCannotClaim(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		var invalid *soloist.InvalidError
		for what, e := range map[string]*soloist.Elements{
			"a bad job":     a.Elements("in\x00voices", soloist.ElementsOptions{}),
			"a bad Retain":  a.Elements("invoices", soloist.ElementsOptions{Retain: -1}),
			"a bad Retry":   a.Elements("invoices", soloist.ElementsOptions{Retry: soloist.Retry{Attempts: -1}}),
			"a Wait":        a.With(soloist.Options{Wait: time.Minute}).Elements("invoices", soloist.ElementsOptions{}),
			"a bad Options": a.With(soloist.Options{TTL: -1}).Elements("invoices", soloist.ElementsOptions{}),
		} {
			for _, ids := range [][]string{{"1", "2"}, nil} {
				if claimed, err := e.ClaimAll(background, ids); claimed != nil || !errors.As(err, &invalid) {
					t.Errorf("%s: %v, %v", what, claimed, err)
				}
			}
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		if claimed, err := a.Elements("invoices", soloist.ElementsOptions{}).ClaimAll(background, []string{"1"}); claimed != nil || !errors.Is(err, soloist.ErrClosed) {
			t.Errorf("closed: %v, %v", claimed, err)
		}
		s.Heal()
		c := soloisttest.NewReplica(t, s, soloist.Config{})
		s.Slow(time.Second)
		time.AfterFunc(500*time.Millisecond, func() { _ = c.Close() })
		if claimed, err := c.Elements("invoices", soloist.ElementsOptions{}).ClaimAll(background, []string{"1"}); claimed != nil || !errors.Is(err, soloist.ErrClosed) {
			t.Errorf("closed meanwhile: %v, %v", claimed, err)
		}
		s.Heal()
		if err := b.Elements("invoices", soloist.ElementsOptions{}).Process(background, "1", ok); err != nil {
			t.Errorf("what was claimed meanwhile: %v", err)
		}
	})
}

// A replica that dies while it looks at an element that has failed for good is no further attempt.
func TestFailedElementStaysAsItFailed(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		opts := soloist.ElementsOptions{Retry: soloist.Retry{Attempts: 1}}
		el, err := a.Elements("x", opts).Claim(background, "1")
		if err != nil {
			t.Fatal(err)
		}
		name := el.Completion().Name
		if err := el.Fail(errors.New("no such customer")); err != nil {
			t.Fatal(err)
		}
		outs, err := s.Share().Acquire(background, []store.Claim{{Name: name, Holder: "dead", TTL: time.Second}})
		if err != nil || outs[0].Err != nil {
			t.Fatal(err, outs)
		}
		time.Sleep(time.Minute)
		_, err = b.Elements("x", opts).Claim(background, "1")
		var failed *soloist.FailedError
		if !errors.As(err, &failed) || failed.Attempts != 1 || failed.Reason != "no such customer" {
			t.Errorf("%+v, %v", failed, err)
		}
	})
}

// Who is told that an element is processed is told since when.
func TestDoneTellsSinceWhen(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		must(t, a.Elements("invoices", soloist.ElementsOptions{}).Process(background, "1", ok))
		time.Sleep(time.Hour)
		_, err := b.Elements("invoices", soloist.ElementsOptions{}).Claim(background, "1")
		var done *soloist.DoneError
		if !errors.As(err, &done) || done.Age != time.Hour || done.Token == 0 || done.ID != "1" {
			t.Errorf("got %v: %+v", err, done)
		}
	})
}

// An element whose lease ended while another one was being claimed is not handed out: somebody else may have processed it.
func TestElementThatIsLostBeforeItIsHandedOut(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		ids := []string{"x", "y"}
		dying := s.Share()
		if _, err := soloisttest.NewReplica(t, dying, soloist.Config{Replica: "dying"}).Elements("e", soloist.ElementsOptions{}).ClaimAll(background, ids); err != nil {
			t.Fatal(err)
		}
		dying.Stall()
		time.Sleep(2 * time.Minute) // its leases are over

		s.Slow(100 * time.Millisecond) // until 100 ms it claims, until 200 ms it writes down the crash at x
		time.AfterFunc(150*time.Millisecond, s.Stall)
		claimed, err := a.Elements("e", soloist.ElementsOptions{}).ClaimAll(background, ids)
		if err != nil {
			t.Fatal(err)
		}
		if x := claimed[0]; x.ID != "x" || x.Element != nil || !errors.Is(x.Err, soloist.ErrLost) {
			t.Errorf("x: %+v, want that it is lost", x)
		}
		if y := claimed[1]; y.Element != nil || !errors.Is(y.Err, soloist.ErrUnknown) {
			t.Errorf("y: %+v, want an unknown outcome", y)
		}
		s.Heal()
		dying.Heal()
	})
}

// RetryElement succeeds only if the store has confirmed each of its steps.
func TestRetryElementThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		doubt := ""
		s := doubtful{Store: memstore.New(), released: func(releases []store.Release, errs []error) ([]error, error) {
			if doubt != "" && strings.HasPrefix(releases[0].Name, doubt) {
				return nil, errNoReply
			}
			return errs, nil
		}}
		c := soloisttest.NewReplica(t, s, soloist.Config{})
		for _, doubt = range []string{"element/", "actions"} {
			if err := c.Admin().RetryElement(background, "invoices", "1"); !errors.Is(err, soloist.ErrNoElement) {
				t.Errorf("of an element that is not there: %v", err)
			}
			el, err := c.Elements("invoices", soloist.ElementsOptions{}).Claim(background, "2")
			must(t, err)
			_ = el.Fail(errors.New("bad"))
			if err := c.Admin().RetryElement(background, "invoices", "2"); !errors.Is(err, soloist.ErrUnknown) {
				t.Errorf("while nobody confirms releases of %q: %v", doubt, err)
			}
		}
		network := soloisttest.NewStore()
		network.Break(errors.New("away"))
		away := soloisttest.NewReplica(t, network, soloist.Config{}).Admin()
		for what, err := range map[string]error{
			"a bad job": c.Admin().RetryElement(background, "in\x00voices", "1"), "a bad ID": c.Admin().RetryElement(background, "invoices", ""), "no store": away.RetryElement(background, "invoices", "1"),
		} {
			if _, bad := errors.AsType[*soloist.InvalidError](err); err == nil || errors.Is(err, soloist.ErrNoElement) || bad != (what != "no store") {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

// The error of RetryElement for an element that a transaction has locked is about that, and not about a back-off.
func TestRetryElementThatIsLocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locked := false
		s := doubtful{Store: memstore.New(), acquired: func(claims []store.Claim, outs []store.Outcome) ([]store.Outcome, error) {
			if locked && claims[0].Mark > 0 { // it can be read
				return []store.Outcome{{Err: &store.HeldError{Record: store.Record{Name: claims[0].Name, Left: time.Second}}}}, nil
			}
			return outs, nil
		}}
		c := soloisttest.NewReplica(t, s, soloist.Config{})
		el, err := c.Elements("invoices", soloist.ElementsOptions{Retry: soloist.Retry{Attempts: 1}}).Claim(background, "1")
		must(t, err)
		must(t, el.Fail(errors.New("no paper")))
		locked = true
		err = c.Admin().RetryElement(background, "invoices", "1")
		if !errors.Is(err, soloist.ErrHeld) || !strings.Contains(err.Error(), "a transaction has locked it") || strings.Contains(err.Error(), "back-off") {
			t.Errorf("RetryElement: %v; want that a transaction has locked it", err)
		}
	})
}

// An element that is retried is free at once, whatever options the client of the Admin has for its own leases.
func TestRetriedElementDoesNotLinger(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		invoices := b.Elements("invoices", soloist.ElementsOptions{Retry: soloist.Retry{Attempts: 1}})
		el, err := invoices.Claim(background, "1")
		must(t, err)
		must(t, el.Fail(errors.New("no paper")))
		must(t, a.With(soloist.Options{AtLeast: time.Hour}).Admin().RetryElement(background, "invoices", "1"))
		_, err = invoices.Claim(background, "1")
		must(t, err)
	})
}

// An element that was recorded as processed by a holder outside of this process stays processed, whatever is swept, and its record keeps nothing of what went before.
func TestProcessedElementLeavesOnlyThat(t *testing.T) {
	for name, process := range map[string]func(*soloist.Elements) error{
		"here": func(e *soloist.Elements) error { return e.Process(background, "1", ok) },
		"outside": func(e *soloist.Elements) error {
			el, err := e.ClaimDetached(background, "1", "a#1", false)
			return errors.Join(err, e.DoneDetached(background, el.Detached))
		},
		"in a batch": func(e *soloist.Elements) error {
			claimed, err := e.ClaimAll(background, []string{"1"})
			return errors.Join(err, errors.Join(e.DoneAll([]*soloist.Element{claimed[0].Element})...))
		},
	} {
		for retain, kept := range map[time.Duration]bool{0: true, 1000 * time.Hour: true, time.Minute: false} {
			t.Run(fmt.Sprint(name, ", for ", retain), func(t *testing.T) {
				inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
					invoices := a.Elements("invoices", soloist.ElementsOptions{Retain: retain})
					el, err := invoices.Claim(background, "1")
					must(t, err)
					must(t, el.SetState(background, []byte("page 7")))
					must(t, el.Fail(errors.New("no paper")))
					must(t, process(invoices))
					for info, err := range b.Admin().Elements(background, "invoices") {
						if err != nil || info.Status != "processed" || info.Attempts != 0 || info.Error != "" {
							t.Errorf("%+v, %v", info, err)
						}
					}
					time.Sleep(100 * time.Hour)
					_, err = s.Sweep(background, 100)
					must(t, err)
					if _, err := b.Elements("invoices", soloist.ElementsOptions{}).Claim(background, "1"); errors.Is(err, soloist.ErrDone) != kept {
						t.Errorf("later: %v", err)
					}
				})
			})
		}
	}
}

// An element that failed without a bound for its attempts is remembered for as long as a processed one, and no longer.
func TestFailedElementIsRetained(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		invoices := a.Elements("invoices", soloist.ElementsOptions{Retain: time.Hour})
		el, err := invoices.Claim(background, "1")
		must(t, err)
		must(t, el.Fail(errors.New("no paper")))
		for _, step := range []struct {
			after time.Duration
			swept int
		}{{59 * time.Minute, 0}, {2 * time.Minute, 1}} {
			time.Sleep(step.after)
			if n, err := s.Sweep(background, 10); n != step.swept || err != nil {
				t.Errorf("swept %d, %v; want %d", n, err, step.swept)
			}
		}
	})
}

// What the next attempt at an element needs, its state and how often it has failed, is there however late that comes.
func TestFailedElementIsKeptForItsNextAttempt(t *testing.T) {
	for name, test := range map[string]struct {
		retry soloist.Retry
		state string
	}{
		"a state": {state: "page 7"}, "attempts that count": {retry: soloist.Retry{Attempts: 9}}, "a back-off that grows": {retry: soloist.Retry{Backoff: time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
				invoices := a.Elements("invoices", soloist.ElementsOptions{Retain: time.Hour, Retry: test.retry})
				el, err := invoices.Claim(background, "1")
				must(t, err)
				if test.state != "" {
					must(t, el.SetState(background, []byte(test.state)))
				}
				must(t, el.Fail(errors.New("no paper")))
				time.Sleep(1000 * time.Hour)
				if n, err := s.Sweep(background, 10); n != 0 || err != nil {
					t.Errorf("swept %d, %v", n, err)
				}
				el, err = invoices.Claim(background, "1")
				must(t, err)
				check(t, "attempt and state", fmt.Sprintf("%d %q", el.Attempt(), el.State()), fmt.Sprintf("2 %q", test.state))
			})
		})
	}
}

// A stubborn store does not extend leases of elements: it fails the request, or the extension in it.
type stubborn struct {
	*soloisttest.Store
	err  error
	each bool
}

func (s *stubborn) Extend(ctx context.Context, extensions []store.Extension) ([]error, error) {
	switch {
	case s.err == nil || !strings.HasPrefix(extensions[0].Name, "element/"):
		return s.Store.Extend(ctx, extensions)
	case s.each:
		return slices.Repeat([]error{s.err}, len(extensions)), nil
	}
	return nil, s.err
}

// Where the crash of the last holder cannot be recorded at once, the element is not handed out. It is free then, and the crash counts.
func TestCrashThatCannotBeRecorded(t *testing.T) {
	for name, claim := range map[string]func(*soloist.Elements) (int, error){
		"claimed": func(e *soloist.Elements) (int, error) {
			el, err := e.Claim(background, "1")
			if err != nil {
				return 0, err
			}
			return el.Attempt(), nil
		},
		"detached": func(e *soloist.Elements) (int, error) {
			el, err := e.ClaimDetached(background, "1", "c#1", false)
			return el.Attempt, err
		},
	} {
		for _, each := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", each ", each), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					readOnly := errors.New("read-only")
					s := &stubborn{Store: soloisttest.NewStore(), err: readOnly, each: each}
					invoices := soloisttest.NewReplica(t, s, soloist.Config{}).Elements("invoices", soloist.ElementsOptions{})
					_, err := invoices.ClaimDetached(background, "1", "a#1", false) // who dies
					must(t, err)
					time.Sleep(time.Minute)
					if n, err := claim(invoices); n != 0 || !errors.Is(err, readOnly) {
						t.Errorf("attempt %d, %v; want that it cannot be claimed", n, err)
					}
					s.err = nil
					if n, err := claim(invoices); n != 2 || err != nil {
						t.Errorf("attempt %d, %v; want the second", n, err)
					}
				})
			})
		}
	}
}

// A tardy store responds late to claims of elements.
type tardy struct {
	*soloisttest.Store
	late time.Duration
}

func (s *tardy) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	outs, err := s.Store.Acquire(ctx, claims)
	if claims[0].Mark > 0 {
		time.Sleep(s.late)
	}
	return outs, err
}

// Only a grant tells that the holder before it has died. If nobody gets the element under that grant, the crash counts all the same.
func TestCrashCountsThatOnlyAGrantInVainTold(t *testing.T) {
	for name, test := range map[string]struct {
		late  time.Duration
		claim func(*soloist.Elements) (int, error)
		want  error
	}{
		"the answer is late": {5700 * time.Millisecond, func(e *soloist.Elements) (int, error) {
			el, err := e.Claim(background, "1")
			if err != nil {
				return 0, err
			}
			return el.Attempt(), el.Release()
		}, soloist.ErrLost},
		"detached, and the caller has gone": {2 * time.Second, func(e *soloist.Elements) (int, error) {
			ctx, cancel := context.WithTimeout(background, time.Second)
			defer cancel()
			el, err := e.ClaimDetached(ctx, "1", "c#1", false)
			return el.Attempt, err
		}, context.DeadlineExceeded},
	} {
		for attempts, want := range map[int]error{0: nil, 1: soloist.ErrFailed, 2: nil} {
			t.Run(fmt.Sprint(name, ", attempts ", attempts), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := &tardy{Store: soloisttest.NewStore()}
					c := soloisttest.NewReplica(t, s, soloist.Config{TTL: 6 * time.Second, RequestTimeout: 10 * time.Second})
					invoices := c.Elements("invoices", soloist.ElementsOptions{Retry: soloist.Retry{Attempts: attempts}})
					_, err := invoices.ClaimDetached(background, "1", "a#1", false) // who dies
					must(t, err)
					time.Sleep(time.Minute)
					s.late = test.late
					if n, err := test.claim(invoices); n != 0 || !errors.Is(err, test.want) {
						t.Errorf("attempt %d, %v; want that nobody gets it: %v", n, err, test.want)
					}
					s.late = 0
					time.Sleep(time.Minute)
					_, err = s.Sweep(background, 100)
					must(t, err)
					if n, err := test.claim(invoices); !errors.Is(err, want) || want == nil && n != 2 {
						t.Errorf("attempt %d, %v; want the second, or %v", n, err, want)
					}
					if infos, err := collect(c.Admin().Elements(background, "invoices")); err != nil || len(infos) != 1 || infos[0].Attempts != 1 || (infos[0].Status == "failed") != (want != nil) {
						t.Errorf("it is listed as %+v, %v", infos, err)
					}
				})
			})
		}
	}
}

// An element whose record says what no client has written is not handed out, and its record stays as it is.
func TestElementWithAStateThatIsNotOurs(t *testing.T) {
	for _, state := range []string{"page 7", `{"attempts":-5}`, `{"at":-1}`, `{"attempts":1e30}`} {
		t.Run(state, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
				leave(t, s, "element/invoices/1", state)
				invoices := a.Elements("invoices", soloist.ElementsOptions{})
				claimed, err := invoices.ClaimAll(background, []string{"1"})
				must(t, err)
				errs := map[string]error{"together": claimed[0].Err}
				_, errs["alone"] = invoices.Claim(background, "1")
				_, errs["detached"] = invoices.ClaimDetached(background, "1", "a#1", false)
				outs, err := s.Acquire(background, []store.Claim{{Name: "element/invoices/1", Holder: "b#1", TTL: time.Minute}}) // somebody has it all the same
				must(t, errors.Join(err, outs[0].Err))
				d := soloist.Detached{Kind: soloist.KindElement, Name: "1", Job: "invoices", Holder: "b#1", Token: outs[0].Grant.Token}
				errs["failed"] = invoices.FailDetached(background, d, errors.New("no paper"))
				for what, err := range errs {
					if err == nil || !strings.Contains(err.Error(), `"1": its state is not`) {
						t.Errorf("%s: %v", what, err)
					}
				}
				check(t, "its state", string(outs[0].Grant.State), state)
				for r, err := range s.List(background, "element/") {
					check(t, "its record", fmt.Sprint(string(r.State), " of ", r.Holder, err), state+" of b#1<nil>")
				}
			})
		})
	}
}

// If a part of the elements could not be claimed, none is: what was granted is free again at once, and keeps its count.
func TestClaimAllOrNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &troubled{Store: soloisttest.NewStore()}
		other := soloisttest.NewReplica(t, s.Share(), soloist.Config{}).Elements("invoices", soloist.ElementsOptions{})
		var ids []string
		for i := range 1100 {
			ids = append(ids, fmt.Sprint(i))
		}
		el, err := other.Claim(background, ids[7])
		must(t, err)
		must(t, el.Fail(errors.New("no paper")))
		away := errors.New("away")
		s.set(func(c store.Claim, _ store.Outcome) { // the first batch is granted
			if c.Name == "element/invoices/0" {
				s.Break(away)
				time.AfterFunc(time.Second, s.Heal) // and can be released soon
			}
		}, nil)
		invoices := soloisttest.NewReplica(t, s, soloist.Config{}).Elements("invoices", soloist.ElementsOptions{})
		if claimed, err := invoices.ClaimAll(background, ids); claimed != nil || !errors.Is(err, away) {
			t.Errorf("%d claimed, %v", len(claimed), err)
		}
		_, err = s.Sweep(background, 2000)
		must(t, err)
		claimed, err := other.ClaimAll(background, ids)
		must(t, err)
		for i, c := range claimed {
			if want := map[bool]int{true: 2, false: 1}[i == 7]; c.Err != nil || c.Element.Attempt() != want {
				t.Fatalf("%s: %+v", c.ID, c)
			}
		}
	})
}

// An element that failed when its lease had been lost here, and not yet in the store, has failed; and what cannot be recorded is told beside the reason.
func TestFailureIsRecordedOrTold(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		bad := errors.New("no paper")
		invoices := a.Elements("invoices", soloist.ElementsOptions{})
		err := invoices.Process(background, "1", func(ctx context.Context, _ *soloist.Element) error {
			s.Stall()
			<-ctx.Done()
			s.Heal()
			return bad
		})
		if !errors.Is(err, bad) || errors.Is(err, soloist.ErrLost) {
			t.Errorf("lost here alone: %v", err)
		}
		el, err := b.Elements("invoices", soloist.ElementsOptions{}).Claim(background, "1")
		if err != nil || el.Attempt() != 2 || el.ID() != "1" {
			t.Fatalf("%+v, %v; want the second attempt", el, err)
		}
		err = invoices.Process(background, "2", func(context.Context, *soloist.Element) error { s.Break(nil); return bad })
		if !errors.Is(err, bad) || !errors.Is(err, soloist.ErrUnknown) {
			t.Errorf("with the store gone: %v", err)
		}
		s.Heal()
		lost, err := invoices.Claim(background, "3")
		must(t, err)
		soloisttest.LoseLease(t, s, lost.Lease)
		if err := lost.Fail(bad); !errors.Is(err, soloist.ErrLost) {
			t.Errorf("failing when it is lost: %v", err)
		}
	})
}

// What the list says of an element is what its record has.
func TestElementsAreListed(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		el, err := a.Elements("invoices", soloist.ElementsOptions{}).Claim(background, "1")
		must(t, err)
		time.Sleep(5 * time.Second)
		for info, err := range b.Admin().Elements(background, "invoices") {
			if err != nil || info.ID != "1" || info.Status != "claimed" || info.Holder != el.Holder() || info.Token != el.Token() || info.Age != 5*time.Second || info.Left != 25*time.Second {
				t.Errorf("%+v, %v", info, err)
			}
		}
	})
}

// The reason of a failure is kept, within bounds and as readable text.
func TestReasonOfAFailureIsReadable(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, _ *soloist.Client) {
		invoices := a.Elements("invoices", soloist.ElementsOptions{})
		for reason, want := range map[string]string{
			"one\ttwo\nthree":               "one\ttwo\nthree",
			"red \x1b[31m and \x00 nothing": "red  [31m and   nothing",
			"not UTF-8: \xff":               "not UTF-8: �",
			strings.Repeat("x", 1000):       strings.Repeat("x", 1000),
			strings.Repeat("x", 1001):       strings.Repeat("x", 1000) + "…",
			strings.Repeat("x", 999) + "é":  strings.Repeat("x", 999) + "…",
		} {
			el, err := invoices.Claim(background, "1")
			must(t, err)
			must(t, el.Fail(errors.New(reason)))
			for info, err := range a.Admin().Elements(background, "invoices") {
				if err != nil || info.Error != want {
					t.Errorf("%.80q: %.80q, %v", reason, info.Error, err)
				}
			}
		}
	})
}

// Who waits for an element in the same process is woken when it is released, also where the store tells nobody and it was claimed together with others.
func TestElementOfABatchIsHandedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := soloisttest.NewReplica(t, deaf{soloisttest.NewStore()}, soloist.Config{})
		claimed, err := c.Elements("invoices", soloist.ElementsOptions{}).ClaimAll(background, []string{"1", "2"})
		must(t, err)
		got := make(chan time.Time, 1)
		go func() {
			_, err := c.With(soloist.Options{Wait: time.Hour}).Elements("invoices", soloist.ElementsOptions{}).Claim(background, "1")
			if err != nil {
				t.Error(err)
			}
			got <- time.Now()
		}()
		time.Sleep(10*time.Second + 123*time.Millisecond)
		released := time.Now()
		must(t, claimed[0].Element.Release())
		if late := (<-got).Sub(released); late > 0 {
			t.Errorf("it was taken %v after its release", late)
		}
	})
}

// What cannot be claimed, because of its ID, its options or its client, is refused with the reason.
func TestElementsThatCannotBeClaimed(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, _ *soloist.Client) {
		var invalid *soloist.InvalidError
		for what, e := range map[string]*soloist.Elements{
			"name": a.Elements("invoices", soloist.ElementsOptions{}), "Retain": a.Elements("invoices", soloist.ElementsOptions{Retain: -1}),
		} {
			if _, err := e.Claim(background, ""); !errors.As(err, &invalid) || invalid.What != what {
				t.Errorf("%v; want that the %s is not valid", err, what)
			}
		}
		claimed, err := a.Elements("invoices", soloist.ElementsOptions{}).ClaimAll(background, []string{"", "1"})
		if err != nil || !errors.As(claimed[0].Err, &invalid) || claimed[1].Err != nil {
			t.Errorf("%+v, %v", claimed, err)
		}
		must(t, a.Close())
		invoices := a.Elements("invoices", soloist.ElementsOptions{})
		if err := invoices.Process(background, "2", ok); !errors.Is(err, soloist.ErrClosed) {
			t.Errorf("closed: %v", err)
		}
	})
}

// An element that may be tried once has failed for good: that is remembered for longer than what was processed.
func TestOneFailureIsRemembered(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		opts := soloist.ElementsOptions{Retain: time.Hour, Retry: soloist.Retry{Attempts: 1}}
		el, err := a.Elements("invoices", opts).Claim(background, "1")
		must(t, err)
		must(t, el.Fail(errors.New("no paper")))
		time.Sleep(2 * time.Hour)
		_, err = s.Sweep(background, 10)
		must(t, err)
		_, err = b.Elements("invoices", opts).Claim(background, "1")
		wantIs(t, "after its only attempt", err, soloist.ErrFailed)
	})
}

// Of many elements that are recorded in several requests, each has the error of its own.
func TestEachOfManyIsToldItsOutcome(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		const many, lost = 1100, 1050 // of which 1024 go into the first request
		e := a.Elements("many", soloist.ElementsOptions{})
		elements := claimMany(t, e, many)
		must(t, b.Admin().Release(background, soloist.LeaseInfo{Kind: soloist.KindElement, Job: "many", Name: fmt.Sprint(lost), Token: elements[lost].Token()}, "a test"))
		for i, err := range e.DoneAll(elements) {
			if errors.Is(err, soloist.ErrLost) != (i == lost) || i != lost && err != nil {
				t.Errorf("element %d: %v", i, err)
			}
		}
	})
}

// Of many elements that are recorded together, each has the error of its own also if some before it were released:
// those are not recorded.
func TestElementsThatHaveEndedAreNotRecorded(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		e := a.Elements("many", soloist.ElementsOptions{})
		elements := claimMany(t, e, 3)
		must(t, elements[0].Release())
		must(t, b.Admin().Release(background, soloist.LeaseInfo{Kind: soloist.KindElement, Job: "many", Name: "1", Token: elements[1].Token()}, "a test"))
		for i, err := range e.DoneAll(elements) {
			if errors.Is(err, soloist.ErrLost) != (i < 2) || i == 2 && err != nil {
				t.Errorf("element %d: %v", i, err)
			}
		}
	})
}

// A failed attempt counts also if it is recorded without a reason.
func TestElementFailsWithoutAReason(t *testing.T) {
	c := soloisttest.NewReplica(t, soloisttest.NewStore(), soloist.Config{})
	films := c.Elements("films", soloist.ElementsOptions{})
	for what, fail := range map[string]func(id string) error{
		"alone": func(id string) error {
			el, err := films.Claim(t.Context(), id)
			must(t, err)
			return el.Fail(nil)
		},
		"many": func(id string) error {
			el, err := films.Claim(t.Context(), id)
			must(t, err)
			return films.FailAll([]*soloist.Element{el}, nil)[0]
		},
		"detached": func(id string) error {
			el, err := films.ClaimDetached(t.Context(), id, "caller#1", false)
			must(t, err)
			return films.FailDetached(t.Context(), el.Detached, nil)
		},
	} {
		must(t, fail(what))
	}
	n := 0
	for info, err := range c.Admin().Elements(t.Context(), "films") {
		must(t, err)
		if n++; info.Attempts != 1 || info.Error != "no reason was given" {
			t.Errorf("%+v", info)
		}
	}
	if n != 3 {
		t.Errorf("%d elements have failed", n)
	}
}

// An attempt that ends because another lease was lost, that of the caller, was only interrupted. One that ends because its own was lost has failed.
func TestAttemptUnderALostLease(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		const most = 10 * time.Second
		once := soloist.ElementsOptions{Retry: soloist.Retry{Attempts: 1}}
		until := func(ctx context.Context, _ *soloist.Element) error { <-ctx.Done(); return context.Cause(ctx) }
		err := a.With(soloist.Options{AtMost: most}).Do(background, "outer", func(ctx context.Context, _ *soloist.Lease) error {
			return a.Elements("e", once).Process(ctx, "1", until)
		})
		wantIs(t, "under a lock that was lost", err, soloist.ErrOverran)
		el, err := b.Elements("e", once).Claim(background, "1")
		must(t, err)
		must(t, errors.Join(el.Release(), err))
		err = a.With(soloist.Options{AtMost: most}).Elements("e", once).Process(background, "1", until)
		wantIs(t, "longer than AtMost", err, soloist.ErrOverran)
		_, err = b.Elements("e", once).Claim(background, "1")
		wantIs(t, "after it has overrun", err, soloist.ErrFailed)
	})
}
