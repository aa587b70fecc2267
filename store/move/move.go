package move

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/soloist-dev/soloist/store"
)

// A Phase is a step of a move. See the package comment for their order.
type Phase int

// The phases.
const (
	OldOnly    Phase = iota + 1 // the old store alone
	OldDecides                  // both; the old store decides
	NewDecides                  // both; the new store decides
	NewOnly                     // the new store alone
)

var phases = [...]string{OldOnly: "old-only", OldDecides: "old-decides", NewDecides: "new-decides", NewOnly: "new-only"}

// String returns "old-only", "old-decides", "new-decides" or "new-only".
func (p Phase) String() string {
	if p < OldOnly || p > NewOnly {
		return "Phase(" + strconv.Itoa(int(p)) + ")"
	}
	return phases[p]
}

// MarshalText returns the phase as String does. It returns an error if p is no phase.
func (p Phase) MarshalText() ([]byte, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	return []byte(p.String()), nil
}

// UnmarshalText reads what MarshalText writes.
func (p *Phase) UnmarshalText(text []byte) error {
	for phase := OldOnly; phase <= NewOnly; phase++ {
		if string(text) == phases[phase] {
			*p = phase
			return nil
		}
	}
	return fmt.Errorf("move: phase %.40q: give old-only, old-decides, new-decides or new-only", text)
}

// middle reports whether both stores are in use.
func (p Phase) middle() bool { return p == OldDecides || p == NewDecides }

func (p Phase) check() error {
	if p < OldOnly || p > NewOnly {
		return fmt.Errorf("move: phase %d: give OldOnly, OldDecides, NewDecides or NewOnly", int(p))
	}
	return nil
}

// New returns a store that is made of two others as phase has it. It is safe for concurrent use. Close closes both. In OldOnly and NewOnly it can
// do what that store can do. It returns an error if phase is no phase, or a store is nil.
func New(oldStore, newStore store.Store, phase Phase) (store.Store, error) {
	if oldStore == nil || newStore == nil {
		return nil, errors.New("move: give two stores, an old and a new one")
	}
	if err := phase.check(); err != nil {
		return nil, err
	}
	switch phase {
	case OldOnly:
		return &alone{oldStore, newStore}, nil
	case NewOnly:
		return &alone{newStore, oldStore}, nil
	}
	b := pair(oldStore, newStore, phase)
	_, oldHasNone := store.As[store.Clockless](oldStore)
	_, newHasNone := store.As[store.Clockless](newStore)
	if oldHasNone || newHasNone {
		return clockless{b}, nil
	}
	return b, nil
}

func pair(oldStore, newStore store.Store, phase Phase) *both {
	b := &both{truth: oldStore, shadow: newStore, phase: phase, behind: newBehind(), doubted: newMemory[doubt](repeatTime), released: newMemory[ending](repeatTime)}
	if phase == NewDecides {
		b.truth, b.shadow = newStore, oldStore
	}
	return b
}

// An alone store is one store, with another one to close.
type alone struct {
	store.Store
	other store.Store
}

// Unwrap returns the store in use.
func (a *alone) Unwrap() store.Store { return a.Store }

// Close closes both stores.
func (a *alone) Close() error { return errors.Join(a.Store.Close(), a.other.Close()) }
