package fleetmove_test

import (
	"context"
	"fmt"
	"log"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/fleetmove"
	"github.com/soloist-dev/soloist/store/memstore"
	"github.com/soloist-dev/soloist/store/move"
)

func ExampleJoin() {
	phase := move.OldOnly                                                       // from your configuration: move.Phase reads and writes "old-only"
	s, err := fleetmove.Join(memstore.New(), memstore.New(), phase, "worker-7") // the old store, the new one
	if err != nil {
		log.Fatal(err)
	}
	client, err := soloist.New(s, soloist.Config{Replica: "worker-7"})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	fmt.Println(client.Do(context.Background(), "close-month", func(context.Context, *soloist.Lease) error { return nil }))
	// Output: <nil>
}
