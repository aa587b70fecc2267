package storetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// A Harness opens the stores to check.
type Harness struct {
	// Open returns a store without records, for one law. The suite closes it. What the store was given, and so does not close, is closed
	// with t.Cleanup.
	Open func(t testing.TB) store.Store

	// Reopen returns another handle on the data of s, as another process would have it. s stays open. The suite closes the handle.
	// Without Reopen the laws about several handles are skipped.
	Reopen func(t testing.TB, s store.Store) store.Store

	// Writes, if not nil, counts what has been written to the data of s until now, in any unit: bytes of a log,
	// changes, revisions. Refused claims must leave it where it was.
	Writes func(t testing.TB, s store.Store) int64

	// Corrupt, if not nil, overwrites the record of a name so that it cannot be read, in one of several ways counted from 0, and returns a
	// description of the way. If there is no such way, it returns "" and changes nothing.
	Corrupt func(t testing.TB, s store.Store, name string, way int) string

	// Fail, if not nil, opens a handle as Reopen does, before each of whose requests to the backend fate is called: it says what becomes of that
	// request. Where the backend's client would repeat what has failed, it must not.
	Fail func(t testing.TB, s store.Store, fate func() Fate) store.Store

	// TTL is the suite's unit of waiting: the shortest TTL that the store keeps reliably, several round trips long. The default is 150 ms.
	TTL time.Duration

	// Names is the number of names in a large batch. The default is 5,000.
	Names int

	// LateIsUnknown is for stores of which a claim that took longer than half of its TTL can be unknown, as between two stores. The
	// suite waits until that lease has ended, and claims again with a TTL twice as long.
	LateIsUnknown bool

	// LateLists is for stores that list a new record some time after its first grant, other than in a list of its whole name. Before the suite
	// lists several records, or sweeps, it waits until each record that the law has made was listed once.
	LateLists bool

	// TimedTokens is for stores whose tokens are at least the time of the grant, in microseconds since 1970: a store that has lost its data
	// grants tokens that go on growing, as long as its clock is right. The clock of the tests and that of the store must be the same.
	TimedTokens bool

	// Batches makes the suite send each single claim, extension and release in a batch of two, of which the other one is refused. It is for
	// stores that handle a single element differently from several.
	Batches bool
}

// A law is a row of the suite.
type law struct {
	name  string // of the subtest
	rule  string // the law as a sentence
	needs []need // what the store or the harness must have so that the law can be checked
	check func(*subject)
}

// Laws returns the names of the laws, in their order.
func Laws() []string {
	names := make([]string, len(laws))
	for i, l := range laws {
		names[i] = l.name
	}
	return names
}

// Run checks every law, each as a subtest on a new store. A law about something that the store does not support is skipped.
func Run(t *testing.T, h Harness) {
	for _, name := range Laws() {
		t.Run(name, func(t *testing.T) {
			switch err := Check(t, name, h); {
			case errors.Is(err, errors.ErrUnsupported):
				t.Skip(err)
			case err != nil:
				t.Error(err)
			}
		})
	}
}

// Check checks one law. It returns nil if the store keeps the law, an error that describes how the store breaks it, or an error that is
// errors.ErrUnsupported if the law is about something that the store does not support. It must be called on the goroutine of t.
func Check(t testing.TB, name string, h Harness) error {
	t.Helper()
	i := slices.IndexFunc(laws, func(l law) bool { return l.name == name })
	if i < 0 {
		return fmt.Errorf("storetest: there is no law %q", name)
	}
	if h.TTL == 0 {
		h.TTL = 150 * time.Millisecond
	}
	if h.Names == 0 {
		h.Names = 5000
	}
	return judge(t, laws[i], h)
}
