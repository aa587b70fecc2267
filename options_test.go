package soloist_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
)

func TestBadOptions(t *testing.T) {
	c, s := soloisttest.NewClient(t)
	for what, opts := range map[string]soloist.Options{
		"TTL":     {TTL: time.Nanosecond},
		"Margin":  {TTL: time.Second, Margin: time.Second},
		"AtLeast": {AtLeast: time.Minute, AtMost: time.Second},
		"AtMost":  {AtMost: 1},
	} {
		var bad *soloist.InvalidError
		if _, err := c.With(opts).TryLock(background, "x"); !errors.As(err, &bad) || bad.What != what {
			t.Errorf("%s: %v", what, err)
		}
		if opts.TTL == 0 {
			continue
		}
		if _, err := soloist.New(s, soloist.Config{TTL: opts.TTL, Margin: opts.Margin}); !errors.As(err, &bad) || bad.What != what {
			t.Errorf("New, %s: %v", what, err)
		}
	}
}

// What is zero in With is as it was before.
func TestWithInherits(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, _, b *soloist.Client) {
		a := soloisttest.NewReplica(t, s, soloist.Config{TTL: 5 * time.Minute, Margin: time.Minute})
		for what, test := range map[string]struct {
			opts []soloist.Options
			left time.Duration
		}{
			"nothing":        {nil, 4 * time.Minute},
			"a Wait":         {[]soloist.Options{{Wait: time.Minute}}, 4 * time.Minute},
			"a Margin":       {[]soloist.Options{{Margin: time.Second}}, 299 * time.Second},
			"a TTL":          {[]soloist.Options{{TTL: 10 * time.Second}}, 9 * time.Second},
			"a TTL, a Wait":  {[]soloist.Options{{TTL: 10 * time.Second}, {Wait: time.Minute}}, 9 * time.Second},
			"an AtMost":      {[]soloist.Options{{AtMost: time.Minute}}, 54 * time.Second},
			"an AtMost, off": {[]soloist.Options{{AtMost: time.Minute}, {AtMost: -1}}, 4 * time.Minute},
			"mended":         {[]soloist.Options{{Margin: time.Hour}, {Margin: time.Second}}, 299 * time.Second},
		} {
			c := a
			for _, o := range test.opts {
				c = c.With(o)
			}
			if left := mustLock(t, c, what).Left(); left != test.left {
				t.Errorf("%s: %v left, want %v", what, left, test.left)
			}
		}
		l := mustLock(t, b.With(soloist.Options{AtLeast: time.Minute}).With(soloist.Options{AtLeast: -1}), "x")
		if err := l.Release(); err != nil {
			t.Fatal(err)
		}
		mustLock(t, b, "x")
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
