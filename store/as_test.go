package store_test

import (
	"context"
	"errors"
	"testing"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

// wrapper is a store that loses nothing of what the wrapped store can do.
type wrapper struct{ store.Store }

func (w wrapper) Unwrap() store.Store { return w.Store }

// pinged is a wrapper with its own method.
type pinged struct{ wrapper }

var errPinged = errors.New("pinged")

func (pinged) Ping(context.Context) error { return errPinged }

func TestAs(t *testing.T) {
	mem := memstore.New()
	defer mem.Close()
	s := wrapper{pinged{wrapper{mem}}}
	if p, ok := store.As[store.Pinger](s); !ok || !errors.Is(p.Ping(t.Context()), errPinged) {
		t.Errorf("the Pinger of a wrapper is passed by: %T", p)
	}
	if w, ok := store.As[store.Watcher](s); !ok || w != store.Watcher(mem) {
		t.Errorf("the Watcher is %T; want that of the innermost store", w)
	}
	if m, ok := store.As[*memstore.Store](s); !ok || m != mem {
		t.Errorf("the store in memory is %p; want %p", m, mem)
	}
	if _, ok := store.As[store.Migrator](s); ok {
		t.Error("a Migrator where there is none")
	}
	if _, ok := store.As[store.Watcher](mute{mem}); ok {
		t.Error("a wrapper without Unwrap was unwrapped")
	}
	if _, ok := store.As[store.Watcher](wrapper{}); ok {
		t.Error("a Watcher of nothing")
	}
	if c, err := store.CapabilitiesOf(t.Context(), s); err != nil || c.Scope != store.ScopeProcess {
		t.Errorf("the capabilities of a wrapped store are %+v, %v", c, err)
	}
}
