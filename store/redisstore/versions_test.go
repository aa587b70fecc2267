package redisstore_test

import (
	"strings"
	"testing"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/storetest"
	"github.com/soloist-dev/soloist/test/servers"
)

// TestVersions: the laws hold on each version of Redis and Valkey, and the store names it.
func TestVersions(t *testing.T) {
	servers.Long(t)
	for _, v := range servers.RedisVersions {
		t.Run(v.Name+" "+v.Version, func(t *testing.T) {
			t.Parallel()
			server := servers.RedisOf(t, v)
			storetest.Run(t, harness(t, server.URL, counting(server.URL)))
			c, err := store.CapabilitiesOf(t.Context(), open(t, fresh(t, server.URL)))
			if want := v.Name + " " + v.Version; err != nil || !strings.HasPrefix(c.Backend, want) {
				t.Errorf("the store names %q, %v, want %s", c.Backend, err, want)
			}
		})
	}
}
