package soloist_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/cron"
	"github.com/soloist-dev/soloist/fence"
	"github.com/soloist-dev/soloist/store/memstore"
)

// A job: each scheduled time runs on one replica of the fleet.
func Example() {
	ctx, stop := context.WithCancel(context.Background()) // signal.NotifyContext in a real program
	publish := func(_ context.Context, due time.Time, token int64) error {
		fmt.Println("published, due at a whole second:", due.Nanosecond() == 0, "with a token:", token > 0)
		stop()
		return nil
	}

	s := memstore.New() // or a store in PostgreSQL, MySQL, Redis, SQLite
	client, err := soloist.New(s, soloist.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	err = client.Run(ctx, soloist.Job{ // blocks until ctx ends; call it on every replica
		Name:     "publish-news",
		Schedule: cron.MustParse("* * * * * *"), // every second; or soloist.Every, Delay, At
		AtMost:   5 * time.Minute,
		Do: func(ctx context.Context, run soloist.Run) error {
			return publish(ctx, run.ScheduledAt, run.Lease.Token())
		},
	})
	fmt.Println(err)
	// Output:
	// published, due at a whole second: true with a token: true
	// <nil>
}

// Everything else: a lock, an element of work, a semaphore, a leader.
func Example_more() {
	ctx := context.Background()
	client, err := soloist.New(memstore.New(), soloist.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	say := func(what string) func(context.Context, *soloist.Lease) error {
		return func(context.Context, *soloist.Lease) error {
			fmt.Println(what)
			return nil
		}
	}
	closeMonth, importAll := say("the month is closed"), say("imported")
	issue := func(_ context.Context, invoice *soloist.Element) error {
		fmt.Println("invoice", invoice.ID(), "is issued")
		return nil
	}

	// One at a time in the whole fleet; soloist.ErrHeld if another has it.
	err = client.Do(ctx, "close-month", closeMonth)

	// Once, ever; soloist.ErrDone if it is processed already.
	err = errors.Join(err, client.Elements("invoices", soloist.ElementsOptions{}).Process(ctx, "4711", issue))

	// At most three at a time; Acquire waits for its turn.
	permit, err2 := client.Semaphore("pdf", 3).Acquire(ctx)
	if err2 == nil {
		defer permit.Release()
	}

	// For as long as this replica leads; another stands by.
	err = errors.Join(err, err2, client.Lead(ctx, "importer", importAll))

	fmt.Println(err)
	again := client.Elements("invoices", soloist.ElementsOptions{}).Process(ctx, "4711", issue)
	fmt.Println(errors.Is(again, soloist.ErrDone))
	// Output:
	// the month is closed
	// invoice 4711 is issued
	// imported
	// <nil>
	// true
}

func ExampleClient_Do() {
	client, err := soloist.New(memstore.New(), soloist.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	err = client.Do(context.Background(), "nightly", func(ctx context.Context, lease *soloist.Lease) error {
		// ctx ends when the lease is lost. Code that is called from here can get the token with soloist.LeaseFrom(ctx).
		second := client.Do(ctx, "nightly", func(context.Context, *soloist.Lease) error { return nil })
		var held *soloist.HeldError
		if errors.As(second, &held) {
			fmt.Println("held:", held.Name)
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// held: nightly
	// <nil>
}

func ExampleClient_Lock() {
	client, err := soloist.New(memstore.New(), soloist.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx := context.Background()

	lease, err := client.With(soloist.Options{TTL: 10 * time.Second, Wait: time.Minute}).Lock(ctx, "ledger")
	if err != nil {
		log.Fatal(err) // soloist.ErrHeld if it is still held after a minute
	}
	if err := lease.Err(); err != nil {
		log.Fatal(err) // reads the local clock only; call it just before a step that cannot be undone
	}
	fmt.Println(lease.Release()) // nil: the lease was live until then
	// Output: <nil>
}

func ExampleClient_Run_policies() {
	jobs := []soloist.Job{
		{
			Name:     "backup",
			Schedule: cron.MustParse("TZ=Europe/Berlin 0 3 * * *"),
			Missed:   soloist.MissedOnce, // after an outage, run the newest missed time, for all
			Retry:    soloist.Retry{Attempts: 3, Backoff: time.Minute},
			Do:       func(context.Context, soloist.Run) error { return nil },
		},
		{
			Name:     "charge-cards",
			Schedule: soloist.Every(time.Hour),
			Crash:    soloist.CrashGiveUp, // at most once: a run whose replica died is not run again
			AtMost:   10 * time.Minute,
			Do:       func(context.Context, soloist.Run) error { return nil },
		},
		{
			Name:     "refresh",
			Schedule: soloist.Delay(10 * time.Second), // after the end of the last run
			Jitter:   time.Second,
			Do:       func(context.Context, soloist.Run) error { return nil },
		},
	}
	client, err := soloist.New(memstore.New(), soloist.Config{Drain: time.Second})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	fmt.Println(client.Run(ctx, jobs...))
	// Output: <nil>
}

func ExampleAdmin_Pause() {
	client, err := soloist.New(memstore.New(), soloist.Config{Replica: "ops"})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_ = client.Run(ctx, soloist.Job{Name: "report", Schedule: soloist.Every(24 * time.Hour), Do: func(context.Context, soloist.Run) error { return nil }})

	ctx = context.Background()
	if err := client.Admin().Pause(ctx, "report", "the warehouse is moving"); err != nil {
		log.Fatal(err)
	}
	job, err := client.Admin().Job(ctx, "report")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s, paused by %s: %s\n", job.Schedule, job.Paused.By, job.Paused.Reason)
	// Output: @every 24h0m0s, paused by ops: the warehouse is moving
}

func ExampleElements_ClaimAll() {
	client, err := soloist.New(memstore.New(), soloist.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	invoices := client.Elements("invoices", soloist.ElementsOptions{Retry: soloist.Retry{Attempts: 3, Backoff: time.Minute}})

	claimed, err := invoices.ClaimAll(context.Background(), []string{"4711", "4712", "4713"})
	if err != nil {
		log.Fatal(err) // nothing is claimed
	}
	var processed []*soloist.Element
	for _, c := range claimed {
		switch {
		case c.Err == nil:
			processed = append(processed, c.Element)
		case errors.Is(c.Err, soloist.ErrDone), errors.Is(c.Err, soloist.ErrHeld):
			// processed already, or another replica has it
		default:
			log.Println(c.ID, "is not processed:", c.Err) // its attempts are used up, or the store did not respond
		}
	}
	for _, err := range invoices.DoneAll(processed) {
		fmt.Println(err)
	}
	// Output:
	// <nil>
	// <nil>
	// <nil>
}

func ExampleClient_Semaphore() {
	client, err := soloist.New(memstore.New(), soloist.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx := context.Background()

	for range 3 {
		permit, err := client.Semaphore("pdf", 2).TryAcquire(ctx)
		fmt.Println(permit != nil, errors.Is(err, soloist.ErrHeld))
	}
	// Output:
	// true false
	// true false
	// false true
}

// A guard at the resource refuses the writes of a holder that has not noticed yet that its lease is lost.
func Example_fence() {
	var guard fence.Memory // beside the resource, shared by all that write to it
	ctx := context.Background()
	client, err := soloist.New(memstore.New(), soloist.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	first, err := client.TryLock(ctx, "ledger")
	if err != nil {
		log.Fatal(err)
	}
	_ = first.Release() // or it expired while the process was paused
	second, err := client.TryLock(ctx, "ledger")
	if err != nil {
		log.Fatal(err)
	}

	write := func(context.Context) error { return nil }
	fmt.Println(guard.Claim(ctx, "ledger", second.Token())) // a new holder's first act
	fmt.Println(guard.Do(ctx, "ledger", second.Token(), write))
	fmt.Println(errors.Is(guard.Do(ctx, "ledger", first.Token(), write), fence.ErrStale))
	// Output:
	// <nil>
	// <nil>
	// true
}

// Config.Observe receives every event, for example to count them.
func ExampleConfig_observe() {
	client, err := soloist.New(memstore.New(), soloist.Config{
		Observe: func(_ context.Context, e soloist.Event) {
			if e.Kind == soloist.EventRequest {
				fmt.Fprintln(os.Stdout, e.Verb, e.Outcome, e.Size)
			}
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	_ = client.Do(context.Background(), "x", func(context.Context, *soloist.Lease) error { return nil })
	// Output:
	// acquire ok 1
	// release ok 1
}

// A Runner can add and remove jobs while it runs: one for each tenant, for instance.
func ExampleRunner() {
	client, err := soloist.New(memstore.New(), soloist.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = client.Close() }()

	ctx, cancel := context.WithCancel(context.Background())
	runner, err := client.NewRunner()
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- runner.Run(ctx) }()

	reported := make(chan string)
	err = runner.Add(soloist.Job{Name: "report/acme", Schedule: cron.MustParse("0 6 * * *"), Do: func(_ context.Context, run soloist.Run) error {
		reported <- run.Job
		return nil
	}})
	if err != nil {
		log.Fatal(err)
	}
	<-runner.Ready() // now the job is registered in the store
	if err := client.Admin().Trigger(ctx, "report/acme"); err != nil {
		log.Fatal(err)
	}
	fmt.Println(<-reported)

	if err := runner.Remove(ctx, "report/acme"); err != nil { // waits for the end of a run
		log.Fatal(err)
	}
	fmt.Println(len(runner.Entries()), "jobs")
	cancel()
	fmt.Println(<-ended)
	// Output:
	// report/acme
	// 0 jobs
	// <nil>
}
