package move_test

import (
	"context"
	"fmt"
	"log"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store/memstore"
	"github.com/soloist-dev/soloist/store/move"
)

func ExampleNew() {
	s, err := move.New(memstore.New(), memstore.New(), move.OldDecides) // the old store, the new one, and the phase
	if err != nil {
		log.Fatal(err)
	}
	client, err := soloist.New(s, soloist.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	fmt.Println(client.Do(context.Background(), "close-month", func(context.Context, *soloist.Lease) error { return nil }))
	// Output: <nil>
}
