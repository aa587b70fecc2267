package pgfence_test

import (
	"context"
	"errors"
	"log"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/fence"
	"github.com/soloist-dev/soloist/fence/pgfence"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

func ExampleGuard_DoTx() {
	ctx := context.Background()
	var ledger *pgxpool.Pool
	var lease *soloist.Lease
	guard, err := pgfence.New(ledger, pgfence.Config{})
	if err != nil {
		log.Fatal(err)
	}
	err = guard.DoTx(ctx, "ledger", lease.Token(), func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE accounts SET balance = balance - 10 WHERE id = 7")
		return err
	})
	if errors.Is(err, fence.ErrStale) {
		return // another process holds the lock by now
	}
	if err != nil {
		log.Print(err)
	}
}
