package soloist_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
)

func TestWaitersAreServedInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		l := mustLock(t, b, "x")
		var order []int
		var wg sync.WaitGroup
		for i := range 5 {
			synctest.Wait()
			wg.Go(func() {
				mine, err := a.Lock(background, "x")
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, i)
				_ = mine.Release()
			})
		}
		synctest.Wait()
		start := time.Now()
		_ = l.Release()
		wg.Wait()
		if fmt.Sprint(order) != "[0 1 2 3 4]" {
			t.Errorf("order %v", order)
		}
		if waited := time.Since(start); waited > 100*time.Millisecond {
			t.Errorf("it took %v to hand it on: nobody was woken", waited)
		}
	})
}

func TestWaitEndsWithItsBound(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		mustLock(t, a, "x")
		start := time.Now()
		err := b.With(soloist.Options{Wait: 7 * time.Second}).Do(background, "x", nil)
		if !errors.Is(err, soloist.ErrHeld) || time.Since(start) != 7*time.Second {
			t.Fatalf("after %v: %v", time.Since(start), err)
		}
		ctx, cancel := context.WithTimeout(background, 3*time.Second)
		defer cancel()
		if _, err := b.Lock(ctx, "x"); !errors.Is(err, soloist.ErrHeld) || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got: %v", err)
		}
	})
}

// Wait is for how long Do, Process and Claim wait, too; a leader waits for as long as its context allows.
func TestWhoHeedsWait(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		elements := func(c *soloist.Client) *soloist.Elements { return c.Elements("x", soloist.ElementsOptions{}) }
		mustLock(t, a, "x")
		if _, err := a.Semaphore("x", 1).Acquire(background); err != nil {
			t.Fatal(err)
		}
		if _, err := elements(a).Claim(background, "1"); err != nil {
			t.Fatal(err)
		}
		leader, err := a.Campaign(background, "x")
		if err != nil {
			t.Fatal(err)
		}
		patient := b.With(soloist.Options{Wait: time.Minute})
		for what, call := range map[string]func() error{
			"Do":           func() error { return patient.Do(background, "x", ok) },
			"Lock":         func() error { _, err := patient.Lock(background, "x"); return err },
			"Semaphore.Do": func() error { return patient.Semaphore("x", 1).Do(background, ok) },
			"Acquire":      func() error { _, err := patient.Semaphore("x", 1).Acquire(background); return err },
			"Process":      func() error { return elements(patient).Process(background, "1", ok) },
			"Claim":        func() error { _, err := elements(patient).Claim(background, "1"); return err },
		} {
			begin := time.Now()
			if err := call(); !errors.Is(err, soloist.ErrHeld) || time.Since(begin) != time.Minute {
				t.Errorf("%s: %v, after %v", what, err, time.Since(begin))
			}
		}
		time.AfterFunc(time.Hour, func() { _ = leader.Release() })
		begin := time.Now()
		if err := patient.Lead(background, "x", ok); err != nil || time.Since(begin) < time.Hour {
			t.Errorf("Lead: %v, after %v", err, time.Since(begin))
		}
	})
}

// An element for which somebody waits is reported as processed when it is.
func TestProcessWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		el, err := a.Elements("x", soloist.ElementsOptions{}).Claim(background, "1")
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Minute, func() { _ = el.Done() })
		ran := false
		err = b.With(soloist.Options{Wait: -1}).Elements("x", soloist.ElementsOptions{}).Process(background, "1", func(context.Context, *soloist.Element) error {
			ran = true
			return nil
		})
		if !errors.Is(err, soloist.ErrDone) || ran {
			t.Errorf("%v, ran: %v", err, ran)
		}
	})
}
