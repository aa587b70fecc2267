package riveradapter_test

import (
	"context"
	"log"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"github.com/soloist-dev/soloist"
	riveradapter "github.com/soloist-dev/soloist/adapter/river"
	"github.com/soloist-dev/soloist/cron"
	"github.com/soloist-dev/soloist/store/pgstore"
)

// reportArgs are the arguments of a job of River.
type reportArgs struct {
	At time.Time `json:"at"`
}

func (reportArgs) Kind() string { return "report" }

// Each scheduled time inserts one job, in the transaction that records it; each job is worked once.
func Example() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://localhost/app")
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	s, err := pgstore.New(pool, pgstore.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	client, err := soloist.New(s, soloist.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(ctx context.Context, job *river.Job[reportArgs]) error {
		log.Printf("report of %v with token %d", job.Args.At, soloist.LeaseFrom(ctx).Token())
		return nil
	}))
	once := riveradapter.Once(client.Elements("river", soloist.ElementsOptions{Retain: 30 * 24 * time.Hour}), nil)
	queue, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Queues:     map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 10}},
		Workers:    workers,
		Middleware: []rivertype.Middleware{once},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := queue.Start(ctx); err != nil {
		log.Fatal(err)
	}
	defer queue.Stop(ctx)

	report := func(run soloist.Run) river.JobArgs { return reportArgs{At: run.ScheduledAt} }
	err = client.Run(ctx, soloist.Job{
		Name: "report", Schedule: cron.MustParse("0 9 * * MON-FRI"),
		Do: riveradapter.Periodic(queue, pool, s, report, nil),
	})
	if err != nil {
		log.Fatal(err)
	}
}
