package asynqadapter_test

import (
	"context"
	"log"
	"time"

	"github.com/hibiken/asynq"

	"github.com/soloist-dev/soloist"
	asynqadapter "github.com/soloist-dev/soloist/adapter/asynq"
	"github.com/soloist-dev/soloist/cron"
	"github.com/soloist-dev/soloist/store/memstore"
)

// One task for each scheduled time, whichever replica enqueues it.
func ExamplePeriodic() {
	client, err := soloist.New(memstore.New(), soloist.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	tasks := asynq.NewClient(asynq.RedisClientOpt{Addr: "localhost:6379"})
	defer tasks.Close()

	err = client.Run(context.Background(), soloist.Job{
		Name: "report", Schedule: cron.MustParse("0 9 * * MON-FRI"),
		Do: asynqadapter.Periodic(tasks, func(run soloist.Run) *asynq.Task {
			return asynq.NewTask("report", []byte(run.ScheduledAt.Format(time.DateOnly)))
		}, asynq.Retention(24*time.Hour)),
	})
	if err != nil {
		log.Fatal(err)
	}
}

// Each task is processed once.
func ExampleOnce() {
	client, err := soloist.New(memstore.New(), soloist.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	server := asynq.NewServer(asynq.RedisClientOpt{Addr: "localhost:6379"}, asynq.Config{IsFailure: asynqadapter.IsFailure})
	mux := asynq.NewServeMux()
	mux.Use(asynqadapter.Once(client.Elements("tasks", soloist.ElementsOptions{Retain: 30 * 24 * time.Hour}), nil))
	mux.HandleFunc("report", func(ctx context.Context, task *asynq.Task) error {
		log.Printf("report of %s with token %d", task.Payload(), soloist.LeaseFrom(ctx).Token())
		return nil
	})
	if err := server.Run(mux); err != nil {
		log.Fatal(err)
	}
}
