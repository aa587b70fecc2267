package redisfence_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/fence"
	"github.com/soloist-dev/soloist/fence/redisfence"

	"github.com/redis/go-redis/v9"
)

// The commands of a transaction are run if the guard has seen no greater token.
func ExampleGuard_DoTx() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: "localhost:6379", MaxRetries: -1})
	defer client.Close()
	var lease *soloist.Lease // of the lock "balance"

	guard, err := redisfence.New(client, redisfence.Config{})
	if err != nil {
		log.Fatal(err)
	}
	err = guard.DoTx(ctx, "balance", lease.Token(), func(tx redis.Pipeliner) error {
		return tx.IncrBy(ctx, "balance", 100).Err()
	})
	if errors.Is(err, fence.ErrStale) {
		return // another process holds the lock by now
	}
	fmt.Println(err)
}

// A write that has to read first is a script.
func ExampleGuard_Write() {
	ctx := context.Background()
	var guard *redisfence.Guard
	var lease *soloist.Lease
	const spend = `
		if tonumber(redis.call('GET', KEYS[1]) or '0') < tonumber(ARGV[1]) then return false end
		return redis.call('DECRBY', KEYS[1], ARGV[1])`
	left, err := guard.Write(ctx, "balance", lease.Token(), spend, []string{"balance"}, 100)
	fmt.Println(left, err)
}
