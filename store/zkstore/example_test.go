package zkstore_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store/zkstore"
)

func Example() {
	ctx := context.Background()
	conn, _, err := zk.Connect([]string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}, 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	s, err := zkstore.New(conn, zkstore.Config{Path: "/soloist"})
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
