package gocronadapter_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/soloist-dev/soloist"
	gocronadapter "github.com/soloist-dev/soloist/adapter/gocron"
	"github.com/soloist-dev/soloist/cron"
	"github.com/soloist-dev/soloist/store/memstore"
)

func report() { fmt.Println("reported") }

// One scheduler of the fleet runs each time of the job.
func Example() {
	client, err := soloist.New(memstore.New(), soloist.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	done := make(chan struct{})

	locker, err := gocronadapter.NewLocker(client, 20*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	scheduler, err := gocron.NewScheduler(gocron.WithLocation(time.UTC), gocron.WithDistributedLocker(locker))
	if err != nil {
		log.Fatal(err)
	}
	_, err = scheduler.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()),
		gocron.NewTask(func() { report(); close(done) }), gocron.WithName("report"))
	if err != nil {
		log.Fatal(err)
	}
	scheduler.Start()
	<-done
	if err := scheduler.Shutdown(); err != nil { // before client.Close
		log.Fatal(err)
	}

	// Output: reported
}

func ExampleNewLocker() {
	client, err := soloist.New(memstore.New(), soloist.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	locker, err := gocronadapter.NewLocker(client, 20*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	scheduler, err := gocron.NewScheduler(gocron.WithLocation(time.UTC), gocron.WithDistributedLocker(locker))
	if err != nil {
		log.Fatal(err)
	}
	_, err = scheduler.NewJob(gocron.CronJob("* * * * *", false), gocron.NewTask(report), gocron.WithName("report"))
	if err != nil {
		log.Fatal(err)
	}
	scheduler.Start()
	defer scheduler.Shutdown() // before client.Close
}

func ExampleNewElector() {
	client, err := soloist.New(memstore.New(), soloist.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	elector := gocronadapter.NewElector(client, "scheduler")
	ctx, resign := context.WithCancel(context.Background())
	defer resign() // after scheduler.Shutdown
	go func() {
		if err := elector.Run(ctx); err != nil {
			log.Print(err)
		}
	}()
	scheduler, err := gocron.NewScheduler(gocron.WithLocation(time.UTC), gocron.WithDistributedElector(elector))
	if err != nil {
		log.Fatal(err)
	}
	_, err = scheduler.NewJob(gocron.CronJob("* * * * *", false), gocron.NewTask(report), gocron.WithName("report"))
	if err != nil {
		log.Fatal(err)
	}
	scheduler.Start()
	defer scheduler.Shutdown()
}

// With gocron alone, every replica runs the job.
func Example_gocronAlone() {
	scheduler, err := gocron.NewScheduler(gocron.WithLocation(time.UTC))
	if err != nil {
		log.Fatal(err)
	}
	_, err = scheduler.NewJob(gocron.CronJob("0 9 * * MON-FRI", false), gocron.NewTask(report))
	if err != nil {
		log.Fatal(err)
	}
	scheduler.Start()
}

// With soloist, one replica runs each scheduled time.
func Example_insteadOfGocron() {
	client, err := soloist.New(memstore.New(), soloist.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	err = client.Run(context.Background(), soloist.Job{
		Name: "report", Schedule: cron.MustParse("0 9 * * MON-FRI"),
		Do: func(ctx context.Context, run soloist.Run) error {
			report()
			return nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
}
