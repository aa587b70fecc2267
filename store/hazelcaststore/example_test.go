package hazelcaststore_test

import (
	"context"
	"fmt"
	"log"

	"github.com/hazelcast/hazelcast-go-client"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store/hazelcaststore"
)

func Example() {
	ctx := context.Background()
	var cluster hazelcast.Config
	cluster.Cluster.Name = "production"
	cluster.Cluster.Network.Addresses = []string{"10.0.0.1:5701", "10.0.0.2:5701", "10.0.0.3:5701"}
	s, err := hazelcaststore.New(cluster, hazelcaststore.Config{MinMembers: 2})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	client, err := soloist.New(s, soloist.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	err = client.Do(ctx, "warm-cache", func(_ context.Context, lease *soloist.Lease) error {
		fmt.Println("token", lease.Token())
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}

// With the CP Subsystem the store promises fencing. All CP members are written down.
func Example_cp() {
	var cluster hazelcast.Config
	cluster.Cluster.Name = "production"
	cluster.Cluster.Network.Addresses = []string{"10.0.0.1:5701", "10.0.0.2:5701", "10.0.0.3:5701"}
	s, err := hazelcaststore.New(cluster, hazelcaststore.Config{CP: true})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	client, err := soloist.New(s, soloist.Config{RequireFencing: true})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
}
