package soloist_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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

// What the error of a call means. Most programs need these cases.
func Example_errors() {
	client, err := soloist.New(memstore.New(), soloist.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx := context.Background()
	meaning := func(err error) string {
		var held *soloist.HeldError
		var panicked *soloist.PanicError
		switch {
		case err == nil:
			return "done"
		case errors.As(err, &held):
			return "not begun: " + held.Name + " is held"
		case errors.Is(err, soloist.ErrLost):
			return "the lease ended before the work did: another holder may have worked, too"
		case errors.Is(err, soloist.ErrUnknown):
			return "the store did not respond: try again later"
		case errors.As(err, &panicked):
			return fmt.Sprint("the function panicked: ", panicked.Value)
		}
		return "the function failed: " + err.Error()
	}

	fmt.Println(meaning(client.Do(ctx, "report", func(ctx context.Context, _ *soloist.Lease) error {
		second := client.Do(ctx, "report", func(context.Context, *soloist.Lease) error { return nil })
		fmt.Println(meaning(second))
		return nil
	})))
	fmt.Println(meaning(client.Do(ctx, "report", func(context.Context, *soloist.Lease) error { return errors.New("no paper") })))
	fmt.Println(meaning(client.Do(ctx, "report", func(context.Context, *soloist.Lease) error { panic("no printer") })))
	// Output:
	// not begun: report is held
	// done
	// the function failed: no paper
	// the function panicked: no printer
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

// A holder of a lock works with the context of the lease, not with its own: it ends when the lease is lost.
func ExampleClient_Lock() {
	client, err := soloist.New(memstore.New(), soloist.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	lease, err := client.Lock(context.Background(), "ledger") // waits; soloist.Options.Wait or ctx bound that
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release()
	ctx := lease.Context()

	for _, account := range []string{"4711", "4712"} {
		if ctx.Err() != nil {
			log.Print(context.Cause(ctx)) // soloist.ErrLost: another replica may have the ledger by now
			return
		}
		book(ctx, account, lease.Token()) // whatever books refuses a lower token than one that it has seen: see package fence
	}
	// Output:
	// booked 4711
	// booked 4712
}

func book(_ context.Context, account string, _ int64) { fmt.Println("booked", account) }

func ExampleClient_TryLock() {
	client, err := soloist.New(memstore.New(), soloist.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx := context.Background()

	first, err := client.TryLock(ctx, "close-month")
	if err != nil {
		log.Fatal(err)
	}
	var held *soloist.HeldError
	if _, err := client.TryLock(ctx, "close-month"); errors.As(err, &held) {
		fmt.Println(held.Name, "is held, for longer than 20 seconds:", held.Left > 20*time.Second)
	}
	fmt.Println(first.Release()) // nil: it was held until now
	// Output:
	// close-month is held, for longer than 20 seconds: true
	// <nil>
}

// Options apply to the leases of the copy that With returns. What is not given is inherited.
func ExampleClient_With() {
	client, err := soloist.New(memstore.New(), soloist.Config{TTL: time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx := context.Background()
	patient := client.With(soloist.Options{Wait: 10 * time.Millisecond, AtMost: time.Hour})

	err = patient.Do(ctx, "report", func(ctx context.Context, lease *soloist.Lease) error {
		fmt.Println("the TTL is still a minute:", lease.Left() > 30*time.Second)
		err := patient.Do(ctx, "report", func(context.Context, *soloist.Lease) error { return nil })
		fmt.Println("held for 10ms, too:", errors.Is(err, soloist.ErrHeld))
		return nil
	})
	fmt.Println(err)
	// Output:
	// the TTL is still a minute: true
	// held for 10ms, too: true
	// <nil>
}

// Lead runs a function on one replica for as long as it leads. When it stops, or dies, another replica takes over.
func ExampleClient_Lead() {
	client, err := soloist.New(memstore.New(), soloist.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx, stop := context.WithCancel(context.Background()) // signal.NotifyContext in a real program

	err = client.Lead(ctx, "importer", func(ctx context.Context, lease *soloist.Lease) error {
		fmt.Println("leading")
		stop()       // the process is told to stop
		<-ctx.Done() // when it should stop, or has lost the leadership
		return lease.SetState(lease.Context(), []byte("page 7"))
	})
	fmt.Println(err)

	next, err := client.Campaign(context.Background(), "importer")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("the next leader begins at %s\n", next.State())
	// Output:
	// leading
	// <nil>
	// the next leader begins at page 7
}

// A service whose leader alone may write: the other replicas redirect to it. The name of a replica is its address.
func ExampleClient_Leader() {
	client, err := soloist.New(memstore.New(), soloist.Config{Replica: "http://10.0.0.1:8080"})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	orders := func(w http.ResponseWriter, r *http.Request) {
		leader, err := client.Leader(r.Context(), "orders")
		switch address := leader.Replica(); {
		case err != nil || address == "": // the store did not respond, or the leader died less than a TTL ago
			w.Header().Set("Retry-After", "5")
			http.Error(w, "no leader", http.StatusServiceUnavailable)
		case address == client.Replica():
			fmt.Fprint(w, "written") // with the token of the lease, see package fence: another replica may lead by now
		default:
			http.Redirect(w, r, address+r.URL.Path, http.StatusTemporaryRedirect)
		}
	}

	ask := func() {
		response := httptest.NewRecorder()
		orders(response, httptest.NewRequest(http.MethodPost, "/orders", nil))
		fmt.Println(response.Code, strings.TrimSpace(response.Body.String()))
	}
	ask()
	if _, err := client.Campaign(context.Background(), "orders"); err != nil { // in a real program Lead, in a goroutine
		log.Fatal(err)
	}
	ask()
	// Output:
	// 503 no leader
	// 200 written
}

// Campaign is for leaders that are not one function: it returns a lease, and the caller says when it ends.
func ExampleClient_Campaign() {
	client, err := soloist.New(memstore.New(), soloist.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	lease, err := client.Campaign(context.Background(), "importer") // waits until this replica leads
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		<-lease.Context().Done()
		// stop what only the leader may do
	}()
	fmt.Println("leading", lease.Name())
	fmt.Println(lease.Release()) // resign
	// Output:
	// leading importer
	// <nil>
}

// The state is what the holders of a name leave to each other: it is written only if the lease is still held.
func ExampleLease_SetState() {
	client, err := soloist.New(memstore.New(), soloist.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	for range 3 {
		err := client.Do(context.Background(), "import", func(ctx context.Context, lease *soloist.Lease) error {
			page, _ := strconv.Atoi(string(lease.State())) // nil at first
			fmt.Println("importing page", page+1)
			return lease.SetState(ctx, []byte(strconv.Itoa(page+1)))
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// importing page 1
	// importing page 2
	// importing page 3
}

// A long batch that goes on where it was interrupted: by a shutdown, a crash or a failure, on any replica.
func ExampleLease_State() {
	client, err := soloist.New(memstore.New(), soloist.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx, stop := context.WithCancel(context.Background())

	err = client.Run(ctx, soloist.Job{
		Name:     "reindex",
		Schedule: soloist.Every(time.Second), // a day in a real program
		Retry:    soloist.Retry{Attempts: 5},
		Do: func(ctx context.Context, run soloist.Run) error {
			row, _ := strconv.Atoi(string(run.Lease.State())) // 0 at first
			for ; row < 300; row += 100 {
				if err := run.Lease.SetState(ctx, []byte(strconv.Itoa(row))); err != nil {
					return err
				}
				if row == 200 && run.Attempt == 1 {
					return errors.New("the disk is full")
				}
				fmt.Println("attempt", run.Attempt, "has indexed the rows from", row)
			}
			stop()
			return run.Lease.SetState(run.Lease.Context(), nil) // the next run begins at 0 again
		},
	})
	fmt.Println(err)
	// Output:
	// attempt 1 has indexed the rows from 0
	// attempt 1 has indexed the rows from 100
	// attempt 2 has indexed the rows from 200
	// <nil>
}

// LeaseFrom finds the lease in a context, for example for the fencing token.
func ExampleLeaseFrom() {
	client, err := soloist.New(memstore.New(), soloist.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	write := func(ctx context.Context) error {
		if lease := soloist.LeaseFrom(ctx); lease != nil {
			fmt.Println("writing under", lease.Name(), "with a token:", lease.Token() > 0)
		}
		return nil
	}
	err = client.Do(context.Background(), "ledger", func(ctx context.Context, _ *soloist.Lease) error { return write(ctx) })
	fmt.Println(err)
	// Output:
	// writing under ledger with a token: true
	// <nil>
}

// Process runs a function once, ever, for each ID. An attempt that fails is repeated later, by whichever replica asks first.
func ExampleElements_Process() {
	client, err := soloist.New(memstore.New(), soloist.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	invoices := client.Elements("invoices", soloist.ElementsOptions{Retry: soloist.Retry{Attempts: 5, Backoff: time.Minute}})

	for _, id := range []string{"4711", "4712", "4711"} {
		err := invoices.Process(context.Background(), id, func(_ context.Context, invoice *soloist.Element) error {
			fmt.Println("issuing", invoice.ID(), "in attempt", invoice.Attempt())
			return nil
		})
		switch {
		case errors.Is(err, soloist.ErrDone):
			fmt.Println(id, "is issued already")
		case errors.Is(err, soloist.ErrHeld): // another replica is issuing it, or it failed and its back-off lasts
		case err != nil:
			log.Println(id, err)
		}
	}
	// Output:
	// issuing 4711 in attempt 1
	// issuing 4712 in attempt 1
	// 4711 is issued already
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
	runner, err := client.NewRunner(soloist.Job{Name: "report", Schedule: soloist.Every(24 * time.Hour), Do: func(context.Context, soloist.Run) error { return nil }})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go runner.Run(ctx)
	<-runner.Ready()

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

// A permit is a lease: it is renewed until it is released, and its context ends if it is lost.
func ExampleSemaphore_Acquire() {
	client, err := soloist.New(memstore.New(), soloist.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	render := func(_ context.Context, page string) error {
		fmt.Println("rendered", page)
		return nil
	}

	one := func(ctx context.Context, page string) error {
		permit, err := client.Semaphore("pdf", 3).Acquire(ctx) // waits until one of the three is free
		if err != nil {
			return err
		}
		defer permit.Release()
		return render(permit.Context(), page) // that context ends when the permit is lost
	}
	fmt.Println(one(context.Background(), "a.html"))
	// Output:
	// rendered a.html
	// <nil>
}

// Two limits: one export at a time for each tenant, and three in all. A tenant with many exports takes no permits from the others while it waits.
func ExampleSemaphore_Do_tenants() {
	client, err := soloist.New(memstore.New(), soloist.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	patient := client.With(soloist.Options{Wait: time.Minute})

	export := func(ctx context.Context, tenant string) error {
		return client.Semaphore("exports of "+tenant, 1).Do(ctx, func(ctx context.Context, _ *soloist.Lease) error {
			return patient.Semaphore("exports", 3).Do(ctx, func(ctx context.Context, _ *soloist.Lease) error {
				fmt.Println("exporting for", tenant)
				if tenant == "acme" { // another request of the same tenant, meanwhile
					fmt.Println("too many:", errors.Is(client.Semaphore("exports of acme", 1).Do(ctx, nil), soloist.ErrHeld))
				}
				return nil
			})
		})
	}
	fmt.Println(export(context.Background(), "acme"))
	fmt.Println(export(context.Background(), "globex"))
	// Output:
	// exporting for acme
	// too many: true
	// <nil>
	// exporting for globex
	// <nil>
}

// At most two of the fleet at a time; the third waits for its turn.
func ExampleSemaphore_Do() {
	client, err := soloist.New(memstore.New(), soloist.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	pdf := client.With(soloist.Options{Wait: time.Minute}).Semaphore("pdf", 2)

	var working atomic.Int32
	var tooMany atomic.Bool
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			err := pdf.Do(context.Background(), func(context.Context, *soloist.Lease) error {
				defer working.Add(-1)
				if working.Add(1) > 2 {
					tooMany.Store(true)
				}
				return nil
			})
			if err != nil {
				log.Print(err)
			}
		})
	}
	all.Wait()
	fmt.Println("more than two at a time:", tooMany.Load())
	// Output: more than two at a time: false
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

// A nightly report that is tried three times. An alert follows if all attempts fail, or if the whole fleet was down when it was due.
func ExampleConfig_alerts() {
	report := soloist.Job{
		Name:     "report",
		Schedule: soloist.Every(time.Second), // cron.MustParse("TZ=Europe/Berlin 0 3 * * *") in a real program
		Retry:    soloist.Retry{Attempts: 3, Backoff: 10 * time.Millisecond},
		Do:       func(context.Context, soloist.Run) error { return errors.New("no data") },
	}
	ctx, stop := context.WithCancel(context.Background())
	alerts := func(_ context.Context, e soloist.Event) {
		switch {
		case e.Subject.Kind != soloist.KindJob:
		case e.Kind == soloist.EventMissed:
			fmt.Println(e.Subject.Name, "was missed:", e.Missed)
		case e.Kind == soloist.EventRunEnd && e.Err != nil && e.Attempt == report.Retry.Attempts:
			fmt.Println(e.Subject.Name, "has failed for good:", e.Err)
			stop()
		}
	}
	client, err := soloist.New(memstore.New(), soloist.Config{Observe: alerts, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	fmt.Println(client.Run(ctx, report))
	// Output:
	// report has failed for good: no data
	// <nil>
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

// A middleware wraps all work under a lease: here it logs, and it could begin a span of a trace.
func ExampleMiddleware() {
	logged := func(next soloist.Handler) soloist.Handler {
		return func(ctx context.Context, work soloist.Work) error {
			err := next(ctx, work)
			fmt.Println(work.Subject.Kind, work.Subject.Name, "ended with", err)
			return err
		}
	}
	client, err := soloist.New(memstore.New(), soloist.Config{Middleware: []soloist.Middleware{logged}})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	_ = client.Do(context.Background(), "close-month", func(context.Context, *soloist.Lease) error { return nil })
	_ = client.Elements("invoices", soloist.ElementsOptions{}).Process(context.Background(), "4711",
		func(context.Context, *soloist.Element) error { return errors.New("no such customer") })
	// Output:
	// lock close-month ended with <nil>
	// element 4711 ended with no such customer
}

// Shutdown waits for the work under leases, but not longer than its context. What has not ended then is interrupted.
func ExampleClient_Shutdown() {
	client, err := soloist.New(memstore.New(), soloist.Config{})
	if err != nil {
		log.Fatal(err)
	}
	began, ended := make(chan bool), make(chan error)
	go func() {
		ended <- client.Do(context.Background(), "import", func(ctx context.Context, _ *soloist.Lease) error {
			close(began)
			<-ctx.Done() // this function would go on for hours
			return context.Cause(ctx)
		})
	}()
	<-began

	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond) // 20 seconds, in a pod that has 30
	defer cancel()
	fmt.Println(errors.Is(client.Shutdown(ctx), context.DeadlineExceeded))
	fmt.Println(<-ended)
	// Output:
	// true
	// interrupted: the replica shuts down
}

// Admin shows what the fleet does, and steers it: a page for operators, for instance.
func ExampleClient_Admin() {
	client, err := soloist.New(memstore.New(), soloist.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx := context.Background()
	lease, err := client.Lock(ctx, "ledger")
	if err != nil {
		log.Fatal(err)
	}

	for lock, err := range client.Admin().Locks(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(lock.Name, "is held by this replica:", lock.Replica() == client.Replica())
		if err := client.Admin().Release(ctx, lock, "its host is gone"); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("lost:", errors.Is(lease.Check(ctx), soloist.ErrLost))
	// Output:
	// ledger is held by this replica: true
	// lost: true
}

// A run on demand, beside the schedule, on whichever replica has the job.
func ExampleAdmin_TriggerAndWait() {
	client, err := soloist.New(memstore.New(), soloist.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	runner, err := client.NewRunner(soloist.Job{
		Name:     "report",
		Schedule: cron.MustParse("0 6 * * *"),
		Do: func(_ context.Context, run soloist.Run) error {
			run.Report("42 rows", 0) // kept in the job's history
			return nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go runner.Run(ctx)
	<-runner.Ready()

	run, err := client.Admin().TriggerAndWait(ctx, "report")
	fmt.Println(run.Outcome, run.Output, err)
	// Output: ok 42 rows <nil>
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

	// The schedule of a job can be changed, too; what is the same in the other fields must be given again.
	err = runner.Update(soloist.Job{Name: "report/acme", Schedule: cron.MustParse("0 7 * * *"), Do: func(context.Context, soloist.Run) error { return nil }})
	if err != nil {
		log.Fatal(err)
	}
	for _, entry := range runner.Entries() {
		fmt.Println(entry.Job.Name, entry.Job.Schedule, "is due in at most a day:", time.Until(entry.Next) <= 24*time.Hour)
	}

	if err := runner.Remove(ctx, "report/acme"); err != nil { // waits for the end of a run
		log.Fatal(err)
	}
	fmt.Println(len(runner.Entries()), "jobs")
	cancel()
	fmt.Println(<-ended)
	// Output:
	// report/acme
	// report/acme 0 7 * * * is due in at most a day: true
	// 0 jobs
	// <nil>
}
