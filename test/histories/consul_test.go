//go:build unix

package histories

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store/consulstore"
	"github.com/soloist-dev/soloist/test/servers"
)

// Leases in Consul may end late, as those of a store without a clock.
func TestConsul(t *testing.T) {
	servers.Long(t)
	t.Parallel()
	s := servers.Consul(t, 1, nil)[0]
	to, faults := wired(t, "http://"+s.Addr)
	b := &rig{noClock: true, stores: handles(t, func() (*consulstore.Store, error) {
		return consulstore.OpenURL(t.Context(), "consul://"+strings.TrimPrefix(to, "http://")+"/histories")
	})}
	b.faults = append(faults, fault{"server stopped", func(context.Context, []string) bool {
		s.Pause()
		defer s.Resume()
		time.Sleep(while())
		return true
	}})
	try(t, b)
}
