//go:build unix

package histories

import (
	"testing"

	"github.com/soloist-dev/soloist/store/temporalstore"
	"github.com/soloist-dev/soloist/test/servers"
)

func TestTemporal(t *testing.T) {
	servers.Long(t)
	t.Parallel()
	to, faults := wired(t, "temporal://"+servers.Temporal(t).Addr+"/default")
	try(t, &rig{noClock: true, faults: faults, stores: handles(t, func() (*temporalstore.Store, error) {
		return temporalstore.OpenURL(t.Context(), to)
	})})
}
