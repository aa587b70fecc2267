package memstore

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// take takes a name with Acquire, or with Choose: both must mind the end of the tokens.
type take func(*testing.T, *Store, string) (store.Grant, error)

func acquire(t *testing.T, s *Store, holder string) (store.Grant, error) {
	t.Helper()
	out, err := s.Acquire(t.Context(), []store.Claim{{Name: "n", Holder: holder, TTL: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	return out[0].Grant, out[0].Err
}

func choose(t *testing.T, s *Store, holder string) (store.Grant, error) {
	t.Helper()
	_, grant, err := s.Choose(t.Context(), []string{"n"}, store.Claim{Holder: holder, TTL: time.Hour})
	return grant, err
}

func release(t *testing.T, s *Store, holder string, token int64) {
	t.Helper()
	errs, err := s.Release(t.Context(), []store.Release{{Name: "n", Holder: holder, Token: token}})
	if err := errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
}

func TestTokensEnd(t *testing.T) {
	for name, take := range map[string]take{"Acquire": acquire, "Choose": choose} {
		t.Run(name, func(t *testing.T) {
			s := New()
			defer s.Close()
			s.mem.records["n"] = &record{token: math.MaxInt64 - 2, released: true}
			for _, want := range []int64{math.MaxInt64 - 1, math.MaxInt64} {
				g, err := take(t, s, "a")
				if err != nil || g.Token != want {
					t.Fatalf("token %d, %v; want %d", g.Token, err, want)
				}
				if again, err := take(t, s, "a"); err != nil || again.Token != want {
					t.Fatalf("asked again: token %d, %v; want %d", again.Token, err, want)
				}
				release(t, s, "a", want)
			}
			if g, err := take(t, s, "b"); !errors.Is(err, store.ErrTokens) || g.Token != 0 {
				t.Fatalf("after the last token: token %d, %v; want store.ErrTokens", g.Token, err)
			}
			if r := s.mem.records["n"]; r.token != math.MaxInt64 || !r.released || r.holder != "a" {
				t.Errorf("the record is %+v; want it as the last holder left it", r)
			}
		})
	}
}

// TestWatchesEnd shows that nothing of a watch stays in memory, whichever ends first.
func TestWatchesEnd(t *testing.T) {
	s := New()
	other := s.Share()
	ctx, cancel := context.WithCancel(t.Context())
	ended := []<-chan struct{}{watch(t, s, ctx, "a", "b"), watch(t, s, ctx, "b", "b"), watch(t, s, t.Context(), "a")}
	stays := watch(t, other, t.Context(), "a")
	cancel()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, w := range ended {
		if _, open := <-w; open {
			t.Error("a value; want the channel closed")
		}
	}
	s.mem.mu.Lock()
	if n := len(s.mem.watchers); n != 1 {
		t.Errorf("%d names are watched; want the other handle's", n)
	}
	s.mem.mu.Unlock()
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if _, open := <-stays; open {
		t.Error("a value; want the channel closed")
	}
}

func watch(t *testing.T, s *Store, ctx context.Context, names ...string) <-chan struct{} {
	t.Helper()
	w, err := s.Watch(ctx, names)
	if err != nil {
		t.Fatal(err)
	}
	return w
}
