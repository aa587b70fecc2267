package cassandrastore_test

import (
	"strings"
	"testing"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/cassandrastore"
)

func says(err error, text string) bool { return err != nil && strings.Contains(err.Error(), text) }

// TestCapabilities: what is promised follows from the keyspace and the table.
func TestCapabilities(t *testing.T) {
	server := shared(t)
	for _, test := range []struct {
		rule, replication, alter string
		local                    bool
		fencing, durable         store.Answer
		why, worst               string // of the fencing; of the findings, the subject that is not OK
	}{
		{"one copy", oneCopy, "", false, store.No, store.No, "one copy", "replication error"},
		{"one copy in the datacenter", `{'class': 'NetworkTopologyStrategy', 'datacenter1': 1}`, "", true, store.No, store.No, "one copy", "replication error"},
		{"two copies", `{'class': 'NetworkTopologyStrategy', 'datacenter1': 2}`, "", false, store.Yes, store.Yes, "majority of 2", "replication warning"},
		{"three copies", `{'class': 'NetworkTopologyStrategy', 'datacenter1': 3}`, "", false, store.Yes, store.Yes, "majority of 3", ""},
		{"three copies in the datacenter", `{'class': 'NetworkTopologyStrategy', 'datacenter1': 3}`, "", true, store.Yes, store.Yes, "majority of 3", ""},
		{"three copies anywhere", `{'class': 'SimpleStrategy', 'replication_factor': 3}`, "", false, store.Yes, store.Yes, "majority of 3", ""},
		{"no commit log", `{'class': 'SimpleStrategy', 'replication_factor': 3} AND durable_writes = false`, "", false, store.No, store.No, "durable_writes", "durable_writes error"},
		{"rows that expire", `{'class': 'SimpleStrategy', 'replication_factor': 3}`, "default_time_to_live = 60", false, store.No, store.Yes, "default_time_to_live", "default_time_to_live error"},
		{"rows that come back", `{'class': 'SimpleStrategy', 'replication_factor': 3}`, "gc_grace_seconds = 86399", false, store.No, store.Yes, "gc_grace_seconds", "gc_grace_seconds error"},
		{"a day for a repair", `{'class': 'SimpleStrategy', 'replication_factor': 3}`, "gc_grace_seconds = 86400", false, store.Yes, store.Yes, "majority of 3", ""},
	} {
		t.Run(test.rule, func(t *testing.T) {
			cfg := cassandrastore.Config{Keyspace: server.keyspace(t, test.replication), Local: test.local}
			s := server.migrated(t, cfg)
			if test.alter != "" {
				server.do(t, `ALTER TABLE `+cfg.Keyspace+`.soloist WITH `+test.alter)
			}
			c, err := s.Capabilities(background)
			if err != nil || c.Fencing.Answer != test.fencing || c.Durable.Answer != test.durable || !strings.Contains(c.Fencing.Why, test.why) {
				t.Errorf("got %+v, %v, want fencing %v because of %q, durable %v", c, err, test.fencing, test.why, test.durable)
			}
			if c.Scope != store.ScopeFleet || !strings.Contains(c.Backend, "Cassandra 5.") {
				t.Errorf("got %+v", c)
			}
			findings, err := s.Examine(background)
			if err != nil {
				t.Fatal(err)
			}
			worst, last := "", findings[len(findings)-1]
			for _, f := range findings {
				if f.Level != store.LevelOK {
					worst += f.Subject + " " + string(f.Level)
				}
			}
			if test.local != (last.Subject == "consistency" && last.Found == "LOCAL_SERIAL, with copies in 1 datacenters") {
				t.Errorf("of the consistency doctor says %+v", last)
			}
			if worst != test.worst {
				t.Errorf("doctor finds fault with %q, want %q: %+v", worst, test.worst, findings)
			}
		})
	}
}
