package pgstore

import (
	"strings"
	"testing"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"
)

// TestVersions: the laws hold on each version of PostgreSQL, and the store names it.
func TestVersions(t *testing.T) {
	servers.Long(t)
	for _, version := range servers.PostgresVersions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			base := servers.PostgresOf(t, version, quiet...).URL
			conform(t, func(t testing.TB) *Store { return fresh(t, base) })
			c, err := store.CapabilitiesOf(t.Context(), fresh(t, base))
			if want := "PostgreSQL " + strings.TrimSuffix(version, ".0"); err != nil || !strings.HasPrefix(c.Backend, want) {
				t.Errorf("the store names %q, %v, want %s", c.Backend, err, want)
			}
		})
	}
}
