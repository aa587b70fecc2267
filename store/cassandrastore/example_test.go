package cassandrastore_test

import (
	"context"
	"fmt"
	"log"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store/cassandrastore"
)

func Example() {
	ctx := context.Background()
	cluster := gocql.NewCluster("10.0.0.1", "10.0.0.2", "10.0.0.3")
	cluster.PoolConfig.HostSelectionPolicy = gocql.TokenAwareHostPolicy(gocql.DCAwareRoundRobinPolicy("dc1"))
	session, err := cluster.CreateSession()
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	s, err := cassandrastore.New(session, cassandrastore.Config{Keyspace: "app"})
	if err != nil {
		log.Fatal(err)
	}
	client, err := soloist.New(s, soloist.Config{RequireFencing: true})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	err = client.Do(ctx, "close-month", func(_ context.Context, lease *soloist.Lease) error {
		fmt.Println("token", lease.Token())
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}
