package robfig_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/adapter/robfig"
	"github.com/soloist-dev/soloist/store/memstore"
)

func report() { fmt.Println("reported") }

// One replica runs each scheduled time.
func Example() {
	client, err := soloist.New(memstore.New(), soloist.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	schedule, err := robfig.Parse("@every 1s", time.UTC)
	if err != nil {
		log.Fatal(err)
	}
	err = client.Run(ctx, soloist.Job{Name: "report", Schedule: schedule, Do: func(ctx context.Context, run soloist.Run) error {
		defer stop() // of this example
		report()
		return nil
	}})
	if err != nil {
		log.Fatal(err)
	}

	// Output: reported
}

// A parser with seconds, as cron.WithSeconds has it.
func ExampleSchedule() {
	const spec = "30 0 9 * * MON-FRI"
	parser := cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)
	parsed, err := parser.Parse(spec)
	if err != nil {
		log.Fatal(err)
	}
	schedule, err := robfig.Schedule(parsed, spec, time.UTC)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(schedule)
	fmt.Println(schedule.Next(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)))

	// Output:
	// CRON_TZ=UTC 30 0 9 * * MON-FRI
	// 2026-11-23 09:00:30 +0000 UTC
}

// Cron stays the scheduler; the wrapper makes one replica run the job.
func ExampleSingleton() {
	client, err := soloist.New(memstore.New(), soloist.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	singleton, err := robfig.Singleton(client, "report", 20*time.Second, cron.DefaultLogger)
	if err != nil {
		log.Fatal(err)
	}
	c := cron.New(cron.WithLocation(time.UTC))
	if _, err := c.AddJob("* * * * *", cron.NewChain(singleton).Then(cron.FuncJob(report))); err != nil {
		log.Fatal(err)
	}
	c.Start()
	defer func() { <-c.Stop().Done() }() // before client.Close
}

// With cron alone, every replica runs the job.
func Example_cronAlone() {
	c := cron.New(cron.WithLocation(time.UTC))
	if _, err := c.AddFunc("0 9 * * MON-FRI", report); err != nil {
		log.Fatal(err)
	}
	c.Run()
}

// With soloist, one replica runs each scheduled time.
func Example_insteadOfCron() {
	client, err := soloist.New(memstore.New(), soloist.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	schedule, err := robfig.Parse("0 9 * * MON-FRI", time.UTC)
	if err != nil {
		log.Fatal(err)
	}
	err = client.Run(context.Background(), soloist.Job{
		Name: "report", Schedule: schedule,
		Do: func(ctx context.Context, run soloist.Run) error {
			report()
			return nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
}
