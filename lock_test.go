package soloist_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
)

// inBubble runs a test whose clock is fake, with two replicas on one store.
func inBubble(t *testing.T, test func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := soloisttest.NewStore()
		test(t, s, soloisttest.NewReplica(t, s, soloist.Config{Replica: "a"}), soloisttest.NewReplica(t, s.Share(), soloist.Config{Replica: "b"}))
	})
}

var background = context.Background()

func mustLock(t testing.TB, c *soloist.Client, name string) *soloist.Lease {
	t.Helper()
	l, err := c.TryLock(background, name)
	if err != nil {
		t.Fatalf("TryLock(%q): %v", name, err)
	}
	return l
}

func TestLockExcludesAndTokensGrow(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		first := mustLock(t, a, "x")
		_, err := b.TryLock(background, "x")
		var held *soloist.HeldError
		if !errors.As(err, &held) || held.Holder != first.Holder() {
			t.Fatalf("while a holds it, b got: %v", err)
		}
		if err := first.Release(); err != nil {
			t.Fatal(err)
		}
		second := mustLock(t, b, "x")
		if second.Token() <= first.Token() {
			t.Fatalf("token %d after %d", second.Token(), first.Token())
		}
		if err := first.Release(); err != nil {
			t.Fatalf("releasing again: %v", err)
		}
		if err := second.Check(background); err != nil {
			t.Fatalf("a stale second release harmed the successor: %v", err)
		}
	})
}

func TestDoJoinsErrorsAndReleasesOnPanic(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		own := errors.New("own")
		if err := a.Do(background, "x", func(context.Context, *soloist.Lease) error { return own }); !errors.Is(err, own) {
			t.Fatal(err)
		}
		func() {
			defer func() { _ = recover() }()
			_ = a.Do(background, "x", func(context.Context, *soloist.Lease) error { panic("boo") })
		}()
		mustLock(t, b, "x")
	})
}

func TestBadNames(t *testing.T) {
	c, _ := soloisttest.NewClient(t)
	for _, name := range []string{"", "a\nb", "\xff", string(make([]byte, 300))} {
		if _, err := c.TryLock(background, name); err == nil {
			t.Errorf("the name %q passed", name)
		}
	}
}
