package redisstore_test

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store/redisstore"
)

// A store on your own client.
func ExampleNew() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{
		Addr:                  "localhost:6379",
		ContextTimeoutEnabled: true, // a request ends with the deadline of its context
		MaxRetries:            -1,   // soloist repeats requests itself, and then knows which had no effect
	})
	defer rdb.Close()
	s, err := redisstore.New(rdb, redisstore.Config{Prefix: "billing"})
	if err != nil {
		panic(err)
	}
	client, err := soloist.New(s, soloist.Config{})
	if err != nil {
		panic(err)
	}
	defer client.Close()
	err = client.Do(ctx, "invoices", func(ctx context.Context, lease *soloist.Lease) error {
		fmt.Println("only here, with token", lease.Token())
		return nil
	})
	fmt.Println(err)
}

// A store by its URL.
func ExampleOpenURL() {
	s, err := redisstore.OpenURL(context.Background(), "redis+sentinel://10.0.0.1,10.0.0.2,10.0.0.3/main?prefix=billing")
	if err != nil {
		panic(err)
	}
	defer s.Close()
}
