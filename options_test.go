package soloist_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

func TestBadOptions(t *testing.T) {
	c, s := soloisttest.NewClient(t)
	for what, opts := range map[string]soloist.Options{
		"TTL":     {TTL: time.Nanosecond},
		"Margin":  {TTL: time.Second, Margin: 500 * time.Millisecond},
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

// An AtLeast that no lease can last is refused, whatever AtMost is.
func TestAtLeastBeyondEveryLease(t *testing.T) {
	c, _ := soloisttest.NewClient(t)
	var bad *soloist.InvalidError
	if _, err := c.With(soloist.Options{AtLeast: store.MaxTTL + 1}).TryLock(background, "x"); !errors.As(err, &bad) || bad.What != "AtLeast" {
		t.Error(err)
	}
}

// What a Config says of a replica is listed by others, so it is bounded, and told in an error that is bounded, too.
func TestBadReplica(t *testing.T) {
	long := strings.Repeat("x", 4000)
	for what, cfgs := range map[string][]soloist.Config{
		"version": {{Version: long[:101]}, {Version: long}, {Version: "\xff"}},
		"replica": {{Replica: long[:129]}, {Replica: long}, {Replica: "a\nb"}, {Replica: "\xff"}},
	} {
		for _, cfg := range cfgs {
			var bad *soloist.InvalidError
			if _, err := soloist.New(memstore.New(), cfg); !errors.As(err, &bad) || bad.What != what || len(bad.Error()) > 400 {
				t.Errorf("%q, %q: %v", cfg.Version, cfg.Replica, err)
			}
		}
	}
	for _, cfg := range []soloist.Config{{Version: long[:100]}, {Replica: long[:128]}} {
		c, err := soloist.New(memstore.New(), cfg)
		if err != nil {
			t.Errorf("%q, %q: %v", cfg.Version, cfg.Replica, err)
			continue
		}
		must(t, c.Close())
	}
}

// The bounds themselves are good values.
func TestOptionsAtTheirBounds(t *testing.T) {
	c, _ := soloisttest.NewClient(t)
	for what, opts := range map[string]soloist.Options{
		"the shortest TTL":          {TTL: 10 * time.Millisecond},
		"the longest TTL":           {TTL: store.MaxTTL},
		"a Margin below half a TTL": {TTL: time.Second, Margin: 499 * time.Millisecond},
		"the shortest AtMost":       {AtMost: 10 * time.Millisecond},
		"the longest AtLeast":       {AtLeast: store.MaxTTL},
		"AtLeast as long as AtMost": {AtLeast: time.Minute, AtMost: time.Minute},
	} {
		if _, err := c.With(opts).TryLock(background, what); err != nil {
			t.Errorf("%s: %v", what, err)
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
			"nothing":                     {nil, 4 * time.Minute},
			"a Wait":                      {[]soloist.Options{{Wait: time.Minute}}, 4 * time.Minute},
			"a Margin":                    {[]soloist.Options{{Margin: time.Second}}, 299 * time.Second},
			"a TTL":                       {[]soloist.Options{{TTL: 10 * time.Second}}, 9 * time.Second},
			"a TTL, a Wait":               {[]soloist.Options{{TTL: 10 * time.Second}, {Wait: time.Minute}}, 9 * time.Second},
			"an AtMost":                   {[]soloist.Options{{AtMost: time.Minute}}, 54 * time.Second},
			"an AtMost above two Margins": {[]soloist.Options{{Margin: 20 * time.Second}, {AtMost: time.Minute}}, 40 * time.Second},
			"an AtMost of two Margins":    {[]soloist.Options{{Margin: 30 * time.Second}, {AtMost: time.Minute}}, 54 * time.Second},
			"an AtMost, off":              {[]soloist.Options{{AtMost: time.Minute}, {AtMost: -1}}, 4 * time.Minute},
			"mended":                      {[]soloist.Options{{Margin: time.Hour}, {Margin: time.Second}}, 299 * time.Second},
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

// NoWait undoes a Wait that is inherited: Do does not wait, and Lock for as long as its ctx allows.
func TestNoWait(t *testing.T) {
	for _, inherited := range []time.Duration{-1, time.Second} {
		inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
			l := mustLock(t, a, "x")
			c := b.With(soloist.Options{Wait: inherited}).With(soloist.Options{Wait: soloist.NoWait})
			for _, c := range []*soloist.Client{c, c.With(soloist.Options{AtMost: time.Hour})} {
				begun := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				err := c.Do(ctx, "x", func(context.Context, *soloist.Lease) error { return nil })
				if took := time.Since(begun); !errors.Is(err, soloist.ErrHeld) || took != 0 {
					t.Errorf("Do, instead of a Wait of %v: %v after %v", inherited, err, took)
				}
			}
			time.AfterFunc(time.Hour, func() { _ = l.Release() })
			begun := time.Now()
			if l, err := c.Lock(t.Context(), "x"); err != nil || l.Release() != nil || time.Since(begun) < time.Hour {
				t.Errorf("Lock, instead of a Wait of %v: %v after %v", inherited, err, time.Since(begun))
			}
		})
	}
}

// The longest RequestTimeout bounds requests, and a longer one is refused: its multiples would be no durations.
func TestLongestRequestTimeout(t *testing.T) {
	for timeout, valid := range map[time.Duration]bool{store.MaxTTL: true, store.MaxTTL + 1: false, math.MaxInt64: false, -1: false} {
		c, err := soloist.New(memstore.New(), soloist.Config{RequestTimeout: timeout})
		if !valid {
			if !errors.Is(err, store.ErrInvalid) {
				t.Errorf("%v: %v, want an *InvalidError", timeout, err)
			}
			if err != nil {
				continue
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.TryLock(background, "x"); err != nil {
			t.Errorf("%v: %v", timeout, err)
		}
		c.Close()
	}
}

// A request takes at most a third of the TTL, and at most 5 s, unless the client is told otherwise.
func TestHowLongARequestTakes(t *testing.T) {
	for _, row := range []struct{ ttl, given, want time.Duration }{
		{0, 0, 5 * time.Second}, {10 * time.Minute, 0, 5 * time.Second}, {3 * time.Second, 0, time.Second}, {10 * time.Millisecond, 0, 10 * time.Millisecond},
		{time.Minute, 20 * time.Second, 20 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := soloisttest.NewStore()
			c := soloisttest.NewReplica(t, s, soloist.Config{TTL: row.ttl, RequestTimeout: row.given})
			l := mustLock(t, c, "x")
			s.Stall()
			begin := time.Now()
			err := l.Check(background)
			wantIs(t, "a request that is not answered", err, soloist.ErrUnknown)
			if took := time.Since(begin); took < row.want || took > row.want*9/8 { // requests share timers
				t.Errorf("with a TTL of %v it gave up after %v, want %v", row.ttl, took, row.want)
			}
			s.Heal()
		})
	}
}
