package sqlfence_test

import (
	"context"
	"database/sql"
	"errors"
	"log"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/fence"
	"github.com/soloist-dev/soloist/fence/sqlfence"
)

func ExampleGuard_DoTx() {
	ctx := context.Background()
	var db *sql.DB
	var lease *soloist.Lease
	guard, err := sqlfence.New(db, sqlfence.Config{Dialect: sqlfence.PostgreSQL})
	if err != nil {
		log.Fatal(err)
	}
	err = guard.DoTx(ctx, "ledger", lease.Token(), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = balance - 10 WHERE id = 7")
		return err
	})
	if errors.Is(err, fence.ErrStale) {
		return // another process holds the lock by now
	}
	if err != nil {
		log.Print(err)
	}
}
