package storetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// A Harness says how to come by the stores to check.
type Harness struct {
	// Open answers a store on data of its own, empty, for one law. The suite closes it. What the store was given, and
	// so does not close, is for t.Cleanup.
	Open func(t testing.TB) store.Store

	// Reopen answers another handle on the data of s, as another process would have; s is open and stays so. The suite
	// closes it. Without Reopen the laws about several handles are skipped.
	Reopen func(t testing.TB, s store.Store) store.Store

	// Writes, if not nil, counts what has been written to the data of s until now, in any unit: bytes of a log,
	// changes, revisions. Refused claims must leave it where it was.
	Writes func(t testing.TB, s store.Store) int64

	// Corrupt, if not nil, writes over the record of a name as no store would, so that it cannot be read, in one of several ways counted from 0,
	// and answers which: "" when there is no such way, and then it has changed nothing.
	Corrupt func(t testing.TB, s store.Store, name string, way int) string

	// TTL is the suite's unit of waiting: the shortest TTL that the store keeps well, several round trips long.
	// 0 means 150 ms.
	TTL time.Duration

	// Names is how many names are many, in one batch. 0 means 5,000.
	Names int

	// Batches makes each claim, extension and release that the suite would make alone one of two, of which the other is refused. It is
	// for stores that have other ways for one than for several.
	Batches bool
}

// A law is a row of the suite.
type law struct {
	name  string // of the subtest
	rule  string // what it says, as a sentence
	needs []need // what the store or the harness must have for the law to say anything
	check func(*subject)
}

// Laws answers the names of the laws, in their order.
func Laws() []string {
	names := make([]string, len(laws))
	for i, l := range laws {
		names[i] = l.name
	}
	return names
}

// Run checks every law, each as a subtest on a store of its own. A law that needs what the store does not have is
// skipped and says so.
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

// Check checks one law and answers how the store breaks it, nil if it keeps it, and an error that is
// errors.ErrUnsupported if the law needs what the store does not have. It must be called on the goroutine of t.
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
