//go:build unix

package failover

import (
	"fmt"
	"slices"
	"testing"
)

// A recorder keeps the errors of a test.
type recorder struct {
	testing.TB
	said []string
}

func (r *recorder) Errorf(format string, args ...any) {
	r.said = append(r.said, fmt.Sprintf(format, args...))
}

// TestTwoHolders: a second grant of a name before its release is said.
func TestTwoHolders(t *testing.T) {
	r := &recorder{TB: t}
	f := newFleet(r, 2)
	f.enter("name-0", 1)
	f.enter("name-1", 2)
	f.enter("name-0", 3)
	if want := []string{"name-0 has two holders"}; !slices.Equal(r.said, want) {
		t.Errorf("said %q, want %q", r.said, want)
	}
}
