// Command job runs a job on every replica of a host that shares one file: start it twice and see that each scheduled time
// is run once. Ctrl-C ends it, after the run under way.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/cron"
	"github.com/soloist-dev/soloist/store/sqlitestore"
)

func main() {
	path := flag.String("file", "soloist.db", "the file that the replicas share")
	schedule := flag.String("schedule", "*/2 * * * * *", "a cron expression")
	after := flag.Duration("for", 0, "end by itself after this time")
	flag.Parse()
	if err := run(*path, *schedule, *after); err != nil {
		log.Fatal(err)
	}
}

func run(path, expression string, after time.Duration) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if after > 0 {
		ctx, stop = context.WithTimeout(ctx, after)
		defer stop()
	}
	schedule, err := cron.Parse(expression)
	if err != nil {
		return err
	}
	s, err := sqlitestore.Open(path)
	if err != nil {
		return err
	}
	defer s.Close()
	client, err := soloist.New(s, soloist.Config{RequireFencing: true})
	if err != nil {
		return err
	}
	defer client.Close()
	return client.Run(ctx, soloist.Job{
		Name:     "publish-news",
		Schedule: schedule,
		TTL:      5 * time.Second, // a replica that dies is replaced after this time, at most
		AtMost:   time.Minute,
		Do: func(_ context.Context, run soloist.Run) error {
			fmt.Printf("%s %s runs it, attempt %d, token %d\n", run.ScheduledAt.Format(time.TimeOnly), client.Replica(), run.Attempt, run.Lease.Token())
			return nil
		},
	})
}
