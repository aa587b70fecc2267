package soloist_test

import (
	"context"
	"errors"
	"testing"
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
