//go:build unix

package histories

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store/natsstore"
	"github.com/soloist-dev/soloist/test/servers"
)

// Leases in NATS may end late, as those of a store without a clock.
func TestNATS(t *testing.T) {
	servers.Long(t)
	t.Parallel()
	s := servers.NATS(t, 1)[0]
	to, faults := wired(t, "http://"+s.Addr)
	open := func() (*natsstore.Store, error) {
		return natsstore.OpenURL(t.Context(), "nats://"+strings.TrimPrefix(to, "http://")+"/histories?synced=true") // with batches of few messages
	}
	b := &rig{noClock: true, stores: handles(t, open)}
	maker, err := open()
	if err != nil {
		t.Fatal(err)
	}
	defer maker.Close()
	if _, err := maker.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.faults = append(faults, fault{"server stopped", func(context.Context, []string) bool {
		s.Pause()
		defer s.Resume()
		time.Sleep(while())
		return true
	}})
	try(t, b)
}
