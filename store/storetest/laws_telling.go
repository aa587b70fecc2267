package storetest

import (
	"fmt"

	"github.com/soloist-dev/soloist/store"
)

var tellingLaws = []law{
	{name: "ping", needs: []need{pings}, check: ping,
		rule: "A store that is open, on a backend that responds, can be pinged."},
	{name: "capabilities", needs: []need{probes}, check: capabilities,
		rule: "Capabilities names the backend and the scope, and gives the reason for each promise."},
}

func ping(s *subject) {
	err := as[store.Pinger](s).Ping(s.ctx)
	s.did("Ping: %s", tell(err))
	if err != nil {
		s.fail(err, "nil")
	}
}

func capabilities(s *subject) {
	c, err := store.CapabilitiesOf(s.ctx, s.Store)
	s.did("Capabilities: %+v, error %s", c, tell(err))
	switch {
	case err != nil:
		s.fail(err, "capabilities")
	case c.Backend == "":
		s.fail("no backend", "its name and version")
	case c.Scope != store.ScopeProcess && c.Scope != store.ScopeHost && c.Scope != store.ScopeFleet:
		s.fail(fmt.Sprintf("scope %q", c.Scope), "one of the three")
	case c.Fencing.Why == "" || c.Durable.Why == "" || c.Waiting.Why == "":
		s.fail("a promise without a reason", "why, for yes, no and unknown alike")
	}
	if _, waits := store.As[store.Watcher](s.Store); !waits && c.Waiting.Answer == store.Yes {
		s.fail("a promise to wake waiters", "a store that is a Watcher, or another answer")
	}
}
