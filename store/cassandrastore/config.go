package cassandrastore

import (
	"regexp"
	"strconv"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/soloist-dev/soloist/store"
)

// A Config configures a store.
type Config struct {
	// Keyspace is the name of the keyspace, which must exist. The default is "soloist".
	Keyspace string

	// Table is the name of the table. The default is "soloist".
	Table string

	// Local lets the copies in one datacenter decide, that of the node which a request is sent to: LOCAL_SERIAL instead of
	// SERIAL. All clients of the table must then use the same datacenter, also while none of its nodes can be reached: give
	// New a session whose HostFilter is gocql.DataCenterHostFilter, for host policies go on to other datacenters then. A store
	// by URL has that filter. Fencing is promised only if the keyspace has no copies elsewhere.
	Local bool
}

// A name of Cassandra has at most 48 characters. It is quoted in statements, so upper case is kept.
var identifier = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,47}$`)

func (c Config) filled() (Config, error) {
	if c.Keyspace == "" {
		c.Keyspace = "soloist"
	}
	if c.Table == "" {
		c.Table = "soloist"
	}
	for what, name := range map[string]string{"keyspace": c.Keyspace, "table": c.Table} {
		if !identifier.MatchString(name) {
			return c, &store.InvalidError{What: what, Value: strconv.Quote(name), Rule: "give a letter, then up to 47 letters, digits and _"}
		}
	}
	return c, nil
}

func (c Config) table() string { return `"` + c.Keyspace + `"."` + c.Table + `"` }

// serial is the consistency of reads of one row, and of the decision of a write.
func (c Config) serial() gocql.Consistency {
	if c.Local {
		return gocql.LocalSerial
	}
	return gocql.Serial
}

// quorum is the consistency of lists, and at which a decided write is acknowledged, so that lists see it.
func (c Config) quorum() gocql.Consistency {
	if c.Local {
		return gocql.LocalQuorum
	}
	return gocql.Quorum
}
