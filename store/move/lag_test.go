package move

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// TestLagsAreForgotten: leases whose holders never ask again do not stay in memory, except for a while.
func TestLagsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBehind()
		for i := range 10 * fewRemembered {
			b.add(store.Claim{Name: fmt.Sprint(i), Holder: "h", TTL: time.Second})
			time.Sleep(lagTime / 100)
		}
		if n := len(b.of); n > fewRemembered+1 {
			t.Errorf("%d leases are remembered", n)
		}
		last := store.Claim{Name: fmt.Sprint(10*fewRemembered - 1), Holder: "h"}
		if b.get(last) == nil {
			t.Error("the last one is forgotten")
		}
	})
}

// TestALeaseThatFallsBehindOnceMoreStaysBehind: what was brought to the shadow does not settle a write that came after it.
func TestALeaseThatFallsBehindOnceMoreStaysBehind(t *testing.T) {
	b, c := newBehind(), store.Claim{Name: "x", Holder: "h", TTL: time.Second}
	b.add(c)
	brought := b.get(c)
	b.add(c)
	if b.settle(c, brought); b.get(c) == nil {
		t.Error("it counts as settled")
	}
	if b.settle(c, b.get(c)); b.get(c) != nil {
		t.Error("it is not settled")
	}
}

// TestLongLeasesAreRemembered: what is known of a lease whose TTL is longer than others are remembered stays until the TTL is over.
func TestLongLeasesAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, long := newMemory[struct{}](repeatTime), store.Claim{Name: "long", Holder: "h", TTL: time.Hour}
		m.put(long, struct{}{})
		time.Sleep(time.Minute)
		for i := range 2 * fewRemembered {
			m.put(store.Claim{Name: fmt.Sprint(i), Holder: "h", TTL: time.Second}, struct{}{})
		}
		if m.get(long) == nil {
			t.Error("it is forgotten after a minute of an hour")
		}
	})
}

// TestShortLeasesAreRemembered: what is known of a lease stays for a time at least, however short its TTL is, and not for much longer. The memory is looked through now and then only.
func TestShortLeasesAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory[struct{}](repeatTime)
		put := func(name string, n int) {
			for i := range n {
				m.put(store.Claim{Name: fmt.Sprint(name, i), Holder: "h", TTL: time.Second}, struct{}{})
			}
		}
		put("first", fewRemembered)
		time.Sleep(repeatTime)
		put("second", 1)
		if n := len(m.of); n != fewRemembered+1 || m.sweep != 2*n {
			t.Errorf("%d are remembered, and looked through at %d", n, m.sweep)
		}
		time.Sleep(time.Nanosecond)
		put("third", fewRemembered+1)
		if n := len(m.of); n != 2*fewRemembered+2 {
			t.Errorf("%d are remembered: they were looked through too early", n)
		}
		put("fourth", 1)
		if n := len(m.of); n != fewRemembered+3 || m.sweep != 2*n {
			t.Errorf("%d are remembered, and looked through at %d; want those of the last time", n, m.sweep)
		}
		time.Sleep(time.Minute)
		put("fifth", fewRemembered+4)
		if n := len(m.of); n != fewRemembered+4 {
			t.Errorf("%d are remembered", n)
		}
	})
}

// TestLeaseIsBehindNoMore: a lease whose shadow has what was written, or which has ended, is behind no more.
func TestLeaseIsBehindNoMore(t *testing.T) {
	const token = 9
	has := granted("granted", store.Grant{Token: 7, Mark: 3})
	release := func(ctx context.Context, s store.Store) ([]error, error) {
		return s.Release(ctx, []store.Release{{Name: "n", Holder: "me", Token: token}})
	}
	for what, c := range map[string]struct {
		send            func(context.Context, store.Store) ([]error, error)
		decides, shadow answer
		behind          bool
	}{
		"a write":                      {extending([]byte("t")), ok, has, false},
		"a renewal":                    {extending(nil), ok, has, false},
		"a loss":                       {extending(nil), isLost, has, false},
		"a release":                    {release, ok, has, false},
		"a failure":                    {extending(nil), failed, has, true},
		"a write without the shadow":   {extending([]byte("t")), ok, away, true},
		"a renewal without the shadow": {extending(nil), ok, away, true},
		"a loss without the shadow":    {extending(nil), isLost, away, false},
		"a release without the shadow": {release, ok, away, false},
	} {
		s, older, newer, _ := answered(t)
		older.acquires = []answer{done("read", store.Record{Holder: "me", Token: token, Mark: 4, State: []byte("read"), Left: time.Second})}
		newer.acquires = []answer{c.shadow}
		older.changes = c.decides
		b, claim := s.(*both), store.Claim{Name: "n", Holder: "me", TTL: time.Minute}
		b.behind.add(claim)
		if _, err := c.send(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if behind := b.behind.get(claim) != nil; behind != c.behind {
			t.Errorf("%s: behind %t, want %t", what, behind, c.behind)
		}
	}
}

// extending extends the lease of n, with a state unless that is nil.
func extending(state []byte) func(context.Context, store.Store) ([]error, error) {
	return func(ctx context.Context, s store.Store) ([]error, error) {
		return s.Extend(ctx, []store.Extension{{Name: "n", Holder: "me", Token: 9, TTL: time.Minute, State: state}})
	}
}

// TestTurnThatDoesNotCome: one batch at a time brings the shadow what it lacks. Where the time is over before that of a write has come, the store that decides alone has it: its outcome is unknown.
// A request whose time is over before it begins is not sent.
func TestTurnThatDoesNotCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, older, newer, asked := answered(t)
		newer.acquires = []answer{granted("granted", store.Grant{Token: 7, Mark: 3})}
		older.acquires = []answer{done("read", store.Record{Holder: "me", Token: 9, Left: time.Second})}
		b := s.(*both)
		b.behind.add(store.Claim{Name: "n", Holder: "me", TTL: time.Minute})
		b.behind.turn <- struct{}{} // of another batch, which does not end
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		errs, err := extending([]byte("t"))(ctx, s)
		if err != nil || !errors.Is(errs[0], store.ErrUnknown) || ctx.Err() == nil {
			t.Errorf("got %v, %v, want an unknown outcome at the end of its time", errs, err)
		}
		if last := (*asked)[len(*asked)-1]; last.to != "old" || last.verb != "extend" {
			t.Errorf("asked %v last, want that the store that decides is", last)
		}
		*asked = nil
		for verb, send := range map[string]func() error{
			"extension": func() error { _, err := extending([]byte("t"))(ctx, s); return err },
			"release": func() error {
				_, err := s.Release(ctx, []store.Release{{Name: "n", Holder: "me", Token: 9}})
				return err
			},
		} {
			if err := send(); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, store.ErrUnknown) || len(*asked) != 0 {
				t.Errorf("the %s after the end of its time: %v, asked %v; want that nothing was sent", verb, err, *asked)
			}
		}
	})
}

// TestLeaseThatLacksNothingTakesNoTurn: what is not behind is written to the shadow at once, also while a batch of
// others brings it what it lacks, however long that takes.
func TestLeaseThatLacksNothingTakesNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, older, newer, asked := answered(t)
		newer.acquires = []answer{granted("granted", store.Grant{Token: 7, Mark: 3})}
		older.acquires = []answer{done("read", store.Record{Holder: "me", Token: 9, Left: time.Second})}
		s.(*both).behind.turn <- struct{}{} // of another batch, which does not end
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		for _, state := range [][]byte{nil, []byte("t")} {
			errs, err := extending(state)(ctx, s)
			if err = errors.Join(append(errs, err)...); err != nil || time.Since(begun) != 0 {
				t.Errorf("with the state %q: %v after %v, asked %v", state, err, time.Since(begun), *asked)
			}
		}
	})
}
