package soloist_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

// A doubtful store lets a test decide what the answers to claims and releases are, after they have had their effect.
type doubtful struct {
	*memstore.Store
	acquired func(claims []store.Claim, outs []store.Outcome) ([]store.Outcome, error)
	released func(releases []store.Release, errs []error) ([]error, error)
}

func (s doubtful) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	outs, err := s.Store.Acquire(ctx, claims)
	if err != nil || s.acquired == nil {
		return outs, err
	}
	return s.acquired(claims, outs)
}

func (s doubtful) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	errs, err := s.Store.Release(ctx, releases)
	if err != nil || s.released == nil {
		return errs, err
	}
	return s.released(releases, errs)
}

var errNoReply = store.AsUnknown(errors.New("no reply"))

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

// What may have been granted is unknown, and not refused, although the store refuses when it is asked again; and it is given back.
func TestUnknownIsNotToldAsARefusal(t *testing.T) {
	for what, claim := range map[string]func(*soloist.Client) error{
		"one": func(c *soloist.Client) error { _, err := c.TryLock(background, "x"); return err },
		"a batch": func(c *soloist.Client) error {
			_, err := c.Elements("invoices", soloist.ElementsOptions{}).ClaimAll(background, []string{"1", "2"})
			return err
		},
		"any of several": func(c *soloist.Client) error { _, err := c.Semaphore("x", 2).TryAcquire(background); return err },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := soloisttest.NewStore()
				c := soloisttest.NewReplica(t, s, soloist.Config{})
				s.LoseReplies(1)
				time.AfterFunc(time.Nanosecond, func() { s.Heal(); s.Break(nil) })
				if err := claim(c); !errors.Is(err, soloist.ErrUnknown) {
					t.Errorf("got: %v", err)
				}
				s.Heal()
				time.Sleep(8 * time.Second)
				for r, err := range s.List(background, "") {
					if err != nil || !r.Free() {
						t.Errorf("%+v, %v", r, err)
					}
				}
			})
		})
	}
}

// What a batch may have been granted whose store answers no more is given back when it does.
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

// Of a batch of releases those are asked again that were not answered, and each answer goes to its own.
func TestRepeatedBatchOfReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := doubtful{Store: memstore.New()}
		var asked []string
		s.released = func(releases []store.Release, errs []error) ([]error, error) {
			asked = append(asked, "|")
			for i, r := range releases {
				asked = append(asked, r.Name[len("element/invoices/"):])
				switch {
				case len(releases) == 5 && i%2 == 0:
					errs[i] = errNoReply
				case r.Name == "element/invoices/2":
					errs[i] = store.ErrLost
				}
			}
			return errs, nil
		}
		invoices := soloisttest.NewReplica(t, s, soloist.Config{}).Elements("invoices", soloist.ElementsOptions{})
		claimed, err := invoices.ClaimAll(background, []string{"0", "1", "2", "3", "4"})
		if err != nil {
			t.Fatal(err)
		}
		var elements []*soloist.Element
		for _, c := range claimed {
			elements = append(elements, c.Element)
		}
		for i, err := range invoices.DoneAll(elements) {
			if lost := errors.Is(err, soloist.ErrLost); lost != (i == 2) || !lost && err != nil {
				t.Errorf("%d: %v", i, err)
			}
		}
		if got := fmt.Sprint(asked); got != "[| 0 1 2 3 4 | 0 2 4]" {
			t.Errorf("asked for %s", got)
		}
	})
}

// A caller that has lost its leadership stands again, as long as it is asked to lead.
func TestLeadStandsAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		terms := 0
		err := a.Lead(background, "boss", func(ctx context.Context, lease *soloist.Lease) error {
			if terms++; terms == 3 {
				return nil
			}
			soloisttest.LoseLease(t, s, lease)
			<-ctx.Done()
			return ctx.Err()
		})
		if err != nil || terms != 3 {
			t.Errorf("%d terms, then: %v", terms, err)
		}
	})
}

// Renewals do not take back what Extend has got.
func TestRenewalsKeepAnExtension(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		l := mustLock(t, a, "x")
		if err := l.Extend(background, 10*time.Minute); err != nil {
			t.Fatal(err)
		}
		before := s.Calls()
		time.Sleep(time.Minute)
		if s.Calls() == before {
			t.Error("it was not renewed")
		}
		s.Break(nil)
		time.Sleep(7 * time.Minute)
		if err := l.Err(); err != nil {
			t.Errorf("within the extension: %v", err)
		}
	})
}

// An attempt that was interrupted is not a failed one: the element is free at once, and has its attempts.
func TestInterruptedElementHasNotFailed(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		invoices := a.Elements("invoices", soloist.ElementsOptions{Retry: soloist.Retry{Attempts: 2, Backoff: time.Hour}})
		ctx, cancel := context.WithCancel(background)
		for range 3 {
			err := invoices.Process(ctx, "1", func(ctx context.Context, _ *soloist.Element) error {
				cancel()
				<-ctx.Done()
				return ctx.Err()
			})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got: %v", err)
			}
			ctx, cancel = context.WithCancel(background)
		}
		cancel()
		el, err := b.Elements("invoices", soloist.ElementsOptions{}).Claim(background, "1")
		if err != nil || el.Attempt() != 1 {
			t.Fatalf("after interruptions: %v", err)
		}
		_ = el.Done()
	})
}

// Attempts are counted from 1, whether they fail or crash, one by one or in batches, and from 1 again after RetryElement.
func TestAttemptsAreCounted(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, _, b *soloist.Client) {
		with := func(c *soloist.Client) *soloist.Elements {
			e := c.Elements("invoices", soloist.ElementsOptions{Retry: soloist.Retry{Attempts: 4}})
			return e
		}
		invoices := with(b)
		attempt := func(e *soloist.Elements, want int, batch bool) *soloist.Element {
			t.Helper()
			if !batch {
				el, err := e.Claim(background, "1")
				if err != nil || el.Attempt() != want {
					t.Fatalf("attempt %d: %v", want, err)
				}
				return el
			}
			claimed, err := e.ClaimAll(background, []string{"1"})
			if err != nil || claimed[0].Err != nil || claimed[0].Element.Attempt() != want {
				t.Fatalf("attempt %d: %+v, %v", want, claimed, err)
			}
			return claimed[0].Element
		}
		listed := func(want int, status string) {
			t.Helper()
			for info, err := range b.Admin().Elements(background, "invoices") {
				if err != nil || info.Attempts != want || info.Status != status {
					t.Errorf("%+v, %v; want %d attempts and %s", info, err, want, status)
				}
			}
		}
		_ = attempt(invoices, 1, false).Fail(errors.New("bad"))
		listed(1, "waiting")
		network := s.Share()
		attempt(with(soloisttest.NewReplica(t, network, soloist.Config{})), 2, true)
		network.Break(nil)
		time.Sleep(31 * time.Second)
		listed(1, "abandoned")
		el := attempt(invoices, 3, true)
		listed(2, "claimed")
		_ = el.Fail(errors.New("worse"))
		listed(3, "waiting")
		_ = attempt(invoices, 4, false).Fail(errors.New("worst"))
		listed(4, "failed")
		var failed *soloist.FailedError
		if _, err := invoices.Claim(background, "1"); !errors.As(err, &failed) || failed.Attempts != 4 || failed.Reason != "worst" {
			t.Errorf("got: %v", err)
		}
		if err := b.Admin().RetryElement(background, "invoices", "1"); err != nil {
			t.Fatal(err)
		}
		_ = attempt(invoices, 1, true).Done()
		listed(0, "processed")
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
