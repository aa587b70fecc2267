package riveradapter

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store"
)

// A Beginner begins transactions in River's database, such as a *pgxpool.Pool.
type Beginner interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// Periodic returns the function of a soloist.Job: for each run it inserts the job that args returns, with opts, which may be
// nil. The insertion and the record of the run commit in one transaction of db. So each scheduled time inserts one job, even if
// a replica dies at any moment. The store of the soloist.Client must be in River's database: s is that store, a
// *pgstore.Store.
//
// The function returns an error if the job cannot be inserted or the lease of the run is lost; nothing is inserted then.
// Job.Retry applies to it. If the confirmation of a commit is lost, the error does not show that the job was inserted; the
// record does, and a retry inserts nothing.
func Periodic(c *river.Client[pgx.Tx], db Beginner, s store.Completer[pgx.Tx], args func(soloist.Run) river.JobArgs,
	opts *river.InsertOpts,
) func(context.Context, soloist.Run) error {
	return func(ctx context.Context, run soloist.Run) error {
		err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
			if _, err := c.InsertTx(ctx, tx, args(run), opts); err != nil {
				return err
			}
			return s.Complete(ctx, tx, run.Lease.Completion())
		})
		if err != nil {
			return fmt.Errorf("inserting the job of River for a run of %q: %w", run.Job, err)
		}
		return nil
	}
}
