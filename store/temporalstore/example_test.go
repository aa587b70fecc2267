package temporalstore_test

import (
	"context"
	"fmt"
	"log"

	"go.temporal.io/sdk/client"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store/temporalstore"
)

func Example() {
	ctx := context.Background()
	c, err := client.Dial(client.Options{HostPort: "temporal.internal:7233", Namespace: "locks"})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	s, err := temporalstore.New(c, temporalstore.Config{Namespace: "locks"})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	locks, err := soloist.New(s, soloist.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	err = locks.Do(ctx, "warm-cache", func(_ context.Context, lease *soloist.Lease) error {
		fmt.Println("token", lease.Token())
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}
