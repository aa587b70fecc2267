package soloist_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

// A state whose outcome is unknown may take effect after a later one. The state that a lease is released with is the last one all the same;
// only who takes over from a dead holder may find the older.
func TestALateState(t *testing.T) {
	for _, dies := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := renewing{memstore.New(), func(ctx context.Context, next *memstore.Store, extensions []store.Extension) ([]error, error) {
				if string(extensions[0].State) != "first" {
					return next.Extend(ctx, extensions)
				}
				time.AfterFunc(5*time.Second, func() { _, _ = next.Extend(background, extensions) })
				return nil, store.AsUnknown(errors.New("the reply was lost"))
			}}
			c := soloisttest.NewReplica(t, s, soloist.Config{})
			l := mustLock(t, c, "x")
			if err := l.SetState(background, []byte("first")); !errors.Is(err, soloist.ErrUnknown) {
				t.Errorf("first: %v", err)
			}
			if err := l.SetState(background, []byte("second")); err != nil {
				t.Errorf("second: %v", err)
			}
			time.Sleep(10 * time.Second)
			want := "first"
			if !dies {
				want = "second"
				if err := l.Release(); err != nil {
					t.Error(err)
				}
			}
			for r, err := range s.List(background, "lock/") {
				if err != nil || string(r.State) != want {
					t.Errorf("dies %t: state %q, %v", dies, r.State, err)
				}
			}
		})
	}
}

// A request that sets a state may be carried out twice, and the second time after a later one: the release leaves the last state.
func TestAStateThatIsSetTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := renewing{memstore.New(), func(ctx context.Context, next *memstore.Store, extensions []store.Extension) ([]error, error) {
			if string(extensions[0].State) == "first" {
				time.AfterFunc(5*time.Second, func() { _, _ = next.Extend(background, extensions) })
			}
			return next.Extend(ctx, extensions)
		}}
		c := soloisttest.NewReplica(t, s, soloist.Config{})
		l := mustLock(t, c, "x")
		for _, state := range []string{"first", "second"} {
			if err := l.SetState(background, []byte(state)); err != nil {
				t.Errorf("%s: %v", state, err)
			}
		}
		time.Sleep(10 * time.Second)
		if err := l.Release(); err != nil {
			t.Error(err)
		}
		if next := mustLock(t, c, "x"); string(next.State()) != "second" {
			t.Errorf("state %q", next.State())
		}
	})
}
