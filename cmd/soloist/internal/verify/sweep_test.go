package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/soloist-dev/soloist/internal/proof"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

// A sweeping store calls a function when it is swept.
type sweeping struct {
	store.Store
	sweep func() (int, error)
}

func (s sweeping) Sweep(context.Context, int) (int, error) { return s.sweep() }

// A client sweeps its store of itself. What is forgotten by that must not look as if the store had lost it, even if the process is killed
// meanwhile, or the sweep has no answer and is carried out later.
func TestSweepsOfTheClientAreRecorded(t *testing.T) {
	var told bytes.Buffer
	rec := newRecorder(&told)
	events := func() (found []event) {
		rec.tell(false)
		for line := range strings.Lines(told.String()) {
			var e event
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatal(err)
			}
			found = append(found, e)
		}
		return found
	}
	answer := func(n int, err error) func() (int, error) {
		return func() (int, error) {
			if e := events(); len(e) == 0 || e[len(e)-1].Kind != proof.Swept || e[len(e)-1].Until != proof.Never {
				t.Errorf("while the store is swept, what is told is %v", e)
			}
			return n, err
		}
	}
	for _, c := range []struct {
		n     int
		err   error
		until bool // the end is known
	}{{7, nil, true}, {0, context.DeadlineExceeded, false}} {
		l := &link{Store: sweeping{memstore.New(), answer(c.n, c.err)}, net: &network{rec: rec}}
		sweeper, ok := store.As[store.Sweeper](store.Store(l))
		if !ok {
			t.Fatal("the client cannot sweep")
		}
		if n, err := sweeper.Sweep(t.Context(), 10); n != c.n || !errors.Is(err, c.err) {
			t.Errorf("the sweep reports %d, %v", n, err)
		}
		if e := events(); e[len(e)-1].Kind != proof.Swept || e[len(e)-1].Count != c.n || (e[len(e)-1].Until != proof.Never) != c.until {
			t.Errorf("after the sweep, what is told at last is %v", e[len(e)-1])
		}
	}
	bare := &link{Store: struct{ store.Store }{memstore.New()}, net: &network{rec: rec}}
	if _, err := bare.Sweep(t.Context(), 10); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a store that cannot be swept: %v", err)
	}
}
