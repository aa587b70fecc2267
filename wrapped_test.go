package soloist_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

// wrapped is a store around another one, as users write it for metrics.
type wrapped struct{ store.Store }

func (w wrapped) Unwrap() store.Store { return w.Store }

// unable is a wrapper that would see the calls of optional interfaces, around a store that has none of them.
type unable struct{ wrapped }

func (unable) Watch(context.Context, []string) (<-chan struct{}, error) {
	return nil, errors.ErrUnsupported
}

func (unable) Queue(context.Context, store.Claim) (store.Grant, time.Duration, error) {
	return store.Grant{}, 0, errors.ErrUnsupported
}

func (unable) Leave(context.Context, string, string) (bool, error) {
	return false, errors.ErrUnsupported
}

func (unable) Choose(context.Context, []string, store.Claim) (int, store.Grant, error) {
	return 0, store.Grant{}, errors.ErrUnsupported
}

func (unable) Sweep(context.Context, int) (int, error) { return 0, errors.ErrUnsupported }

func (unable) Capabilities(context.Context) (store.Capabilities, error) {
	return store.Capabilities{}, errors.ErrUnsupported
}

// A lock on a store that is wrapped is handed over at once, as on the store itself: it is not polled for.
func TestWrappedStoreHandsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLined()
		a, b := clientOf(t, wrapped{wrapped{s.share()}}), clientOf(t, wrapped{s.share()})
		first, err := a.Lock(background, "x")
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan time.Time, 1)
		go func() {
			lease, err := b.Lock(background, "x")
			if err != nil {
				t.Error(err)
			}
			got <- time.Now()
			_ = lease.Release()
		}()
		time.Sleep(10*time.Second + 123*time.Millisecond)
		released := time.Now()
		if err := first.Release(); err != nil {
			t.Error(err)
		}
		if after := (<-got).Sub(released); after > 0 {
			t.Errorf("handed over after %v; want at once", after)
		}
	})
}

func TestWrappedStoreIsAsFencedAsItIs(t *testing.T) {
	for _, s := range []store.Store{wrapped{memstore.New()}, unable{wrapped{memstore.New()}}} {
		c, err := soloist.New(s, soloist.Config{RequireFencing: true})
		_, is := s.(wrapped)
		if (err == nil) != is || err != nil && !errors.Is(err, soloist.ErrUnfenced) {
			t.Errorf("%T: %v", s, err)
		}
		if err == nil {
			_ = c.Close()
		}
	}
}

// What a wrapper says is unsupported, the client does without.
func TestClientDoesWithoutWhatIsUnsupported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		a, b := clientOf(t, unable{wrapped{plain{mem}}}), clientOf(t, unable{wrapped{plain{mem.Share()}}})
		for what, take := range map[string]func(*soloist.Client) (*soloist.Lease, error){
			"lock":   func(c *soloist.Client) (*soloist.Lease, error) { return c.Lock(background, "x") },
			"permit": func(c *soloist.Client) (*soloist.Lease, error) { return c.Semaphore("s", 1).Acquire(background) },
			"one of two permits": func(c *soloist.Client) (*soloist.Lease, error) {
				if c == a {
					if _, err := a.Semaphore("two", 2).Acquire(background); err != nil {
						return nil, err
					}
				}
				return c.Semaphore("two", 2).Acquire(background)
			},
		} {
			first, err := take(a)
			if err != nil {
				t.Fatal(what, err)
			}
			time.AfterFunc(5*time.Second, func() { _ = first.Release() })
			begin := time.Now()
			second, err := take(b)
			if waited := time.Since(begin); err != nil || waited < 5*time.Second || waited > 7*time.Second {
				t.Errorf("%s: got it after %v, %v; want it within the second of polling after 5s", what, waited, err)
				continue
			}
			_ = second.Release()
		}
	})
}
