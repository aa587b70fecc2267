//go:build unix

package histories

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store/etcdstore"
	"github.com/soloist-dev/soloist/test/servers"
)

// Leases in etcd may end late, as those of a store without a clock.
func TestEtcd(t *testing.T) {
	servers.Long(t)
	t.Parallel()
	s := servers.Etcd(t, 1)[0]
	to, faults := wired(t, s.URL)
	b := &rig{noClock: true, stores: handles(t, func() (*etcdstore.Store, error) {
		return etcdstore.OpenURL(t.Context(), "etcd://"+strings.TrimPrefix(to, "http://"))
	})}
	b.faults = append(faults, fault{"server stopped", func(context.Context, []string) bool {
		s.Pause()
		defer s.Resume()
		time.Sleep(while())
		return true
	}})
	try(t, b)
}
