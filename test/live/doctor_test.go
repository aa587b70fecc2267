//go:build unix

package live

import (
	"strings"
	"testing"

	"github.com/soloist-dev/soloist/test/servers"
)

// Two servers behind one address look like one to each of their clients. The doctor asks over several connections.
func TestDoctorFindsTwoServersBehindOneAddress(t *testing.T) {
	servers.Long(t)
	for name, start := range map[string]func(*testing.T) *rig{
		"Redis": redisRig, "MariaDB": mariadbRig, "PostgreSQL": func(t *testing.T) *rig { return postgresRig(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one, two := start(t), start(t)
			if out, err := soloist(t, one.through(), "doctor").CombinedOutput(); err != nil || !strings.Contains(string(out), "8 new connections know of a lease") {
				t.Errorf("one server: %v\n%s", err, out)
			}
			one.proxy.retarget(0.5, one.addr, two.addr)
			const most = 5 // by chance all connections can lead to the same server, one time in 256
			for attempt := 1; ; attempt++ {
				out, err := soloist(t, one.through(), "doctor").CombinedOutput()
				if err != nil && strings.Contains(string(out), "there is more than one server behind this address") {
					return
				}
				if attempt == most {
					t.Fatalf("not found in %d attempts: %v\n%s", attempt, err, out)
				}
			}
		})
	}
}
