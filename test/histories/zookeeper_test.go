//go:build unix

package histories

import (
	"context"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store/zkstore"
	"github.com/soloist-dev/soloist/test/servers"
)

func TestZooKeeper(t *testing.T) {
	servers.Long(t)
	t.Parallel()
	s := servers.ZooKeeper(t, 1)[0]
	to, faults := wired(t, "zk://"+s.Addr+"/histories?sessiontimeout=3s&dialtimeout=5m")
	b := &rig{noClock: true, stores: handles(t, func() (*zkstore.Store, error) { return zkstore.OpenURL(t.Context(), to) })}
	b.faults = append(faults, fault{"server stopped", func(context.Context, []string) bool {
		s.Pause()
		defer s.Resume()
		time.Sleep(while())
		return true
	}})
	try(t, b)
}
