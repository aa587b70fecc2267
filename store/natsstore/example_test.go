package natsstore_test

import (
	"context"
	"fmt"
	"log"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store/natsstore"
)

// A client on an existing connection.
func Example() {
	ctx := context.Background()
	nc, err := nats.Connect("nats://10.0.0.1,nats://10.0.0.2,nats://10.0.0.3", nats.MaxReconnects(-1))
	if err != nil {
		log.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		log.Fatal(err)
	}
	s, err := natsstore.New(js, natsstore.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	locks, err := soloist.New(s, soloist.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	err = locks.Do(ctx, "close-month", func(_ context.Context, lease *soloist.Lease) error {
		fmt.Println("token", lease.Token())
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}
