//go:build unix

package histories

import (
	"context"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/soloist-dev/soloist/store/cassandrastore"
	"github.com/soloist-dev/soloist/test/servers"
)

// One node decides by itself. What it shows is what becomes of requests whose answer is late or lost, which the driver may not repeat.
func TestCassandra(t *testing.T) {
	servers.Long(t)
	t.Parallel()
	node := servers.Cassandra(t)
	createKeyspace(t, node.Addr, "histories")
	to, faults := wired(t, "cassandra://cassandra:cassandra@"+node.Addr+"/histories")
	b := &rig{noClock: true, stores: handles(t, func() (*cassandrastore.Store, error) { return cassandrastore.OpenURL(t.Context(), to) })}
	if _, err := b.stores[0].(*cassandrastore.Store).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.faults = append(faults, fault{"server stopped", func(context.Context, []string) bool {
		node.Pause()
		defer node.Resume()
		time.Sleep(while())
		return true
	}})
	try(t, b)
}

// createKeyspace makes a keyspace, when the node has its superuser.
func createKeyspace(t *testing.T, addr, name string) {
	t.Helper()
	cluster := gocql.NewCluster(addr)
	cluster.Authenticator = gocql.PasswordAuthenticator{Username: "cassandra", Password: "cassandra"}
	cluster.ConnectTimeout, cluster.Timeout, cluster.NumConns = servers.Patience, servers.Patience, 1
	var session *gocql.Session
	servers.Wait(t, "the superuser of Cassandra", func() (ok bool) {
		var err error
		session, err = cluster.CreateSession()
		return err == nil
	})
	defer session.Close()
	err := session.Query("CREATE KEYSPACE " + name + " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}").Exec()
	if err != nil {
		t.Fatal(err)
	}
}
