package consulstore_test

import (
	"context"
	"fmt"
	"log"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store/consulstore"
)

// A client by the agent of this machine, with a token that another program keeps in a file.
func Example() {
	ctx := context.Background()
	s, err := consulstore.New(consulstore.Config{TokenFile: "/run/soloist/consul-token"})
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
