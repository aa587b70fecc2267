//go:build unix

package histories

import (
	"testing"

	"github.com/soloist-dev/soloist/store/hazelcaststore"
	"github.com/soloist-dev/soloist/test/servers"
)

// A cluster of one member cannot be split, so its histories are those of a store that keeps what it has.
func TestHazelcast(t *testing.T) {
	servers.Long(t)
	t.Parallel()
	to, faults := wired(t, "hazelcast://"+servers.Hazelcast(t).Addr+"/histories?unisocket=true&dialtimeout=5m&cluster="+servers.HazelcastName)
	try(t, &rig{noClock: true, faults: faults, stores: handles(t, func() (*hazelcaststore.Store, error) {
		return hazelcaststore.OpenURL(t.Context(), to)
	})})
}
