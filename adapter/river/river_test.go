//go:build unix

package riveradapter_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"

	"github.com/soloist-dev/soloist"
	riveradapter "github.com/soloist-dev/soloist/adapter/river"
	"github.com/soloist-dev/soloist/soloisttest"
	"github.com/soloist-dev/soloist/store/pgstore"
	"github.com/soloist-dev/soloist/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

// database starts a server with River's tables.
func database(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), servers.Postgres(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrator.Migrate(t.Context(), rivermigrate.DirectionUp, nil); err != nil {
		t.Fatal(err)
	}
	return pool
}

// unconfirmed begins transactions whose commits succeed and report that they did not.
type unconfirmed struct{ *pgxpool.Pool }

func (u unconfirmed) Begin(ctx context.Context) (pgx.Tx, error) {
	tx, err := u.Pool.Begin(ctx)
	return unconfirmedTx{tx}, err
}

type unconfirmedTx struct{ pgx.Tx }

func (tx unconfirmedTx) Commit(ctx context.Context) error {
	return errors.Join(tx.Tx.Commit(ctx), errors.New("the connection is lost"))
}

// A run inserts its job with its record: one job, although the confirmation of the commit was lost; none, if the lease is lost.
func TestPeriodicInsertsOneJobForARun(t *testing.T) {
	pool := database(t)
	s, err := pgstore.New(pool, pgstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	client, err := soloist.New(s, soloist.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	queue, err := river.NewClient(riverpgxv5.New(pool), &river.Config{})
	if err != nil {
		t.Fatal(err)
	}
	jobs := func() int {
		list, err := queue.JobList(t.Context(), river.NewJobListParams().Kinds("report"))
		if err != nil {
			t.Error(err)
			return -1
		}
		return len(list.Jobs)
	}
	report := func(run soloist.Run) river.JobArgs { return reportArgs{At: run.ScheduledAt} }
	run := func(name string, do func(context.Context, soloist.Run) error) {
		ctx, stop := context.WithTimeout(t.Context(), servers.Patience)
		defer stop()
		ran := false
		err := client.Run(ctx, soloist.Job{Name: name, Schedule: soloist.At(time.Now()), Do: func(ctx context.Context, run soloist.Run) error {
			defer stop()
			ran = true
			return do(ctx, run)
		}})
		if err != nil || !ran {
			t.Errorf("%s: ran: %v, %v", name, ran, err)
		}
	}

	insert := riveradapter.Periodic(queue, pool, s, report, nil)
	run("lost", func(ctx context.Context, run soloist.Run) error {
		if err := client.Admin().Release(ctx, soloist.LeaseInfo{Kind: soloist.KindJob, Name: run.Job, Token: run.Lease.Token()}, "a test"); err != nil {
			t.Error(err)
		}
		err := insert(context.WithoutCancel(ctx), run)
		if n := jobs(); !errors.Is(err, soloist.ErrLost) || n != 0 {
			t.Errorf("without a lease: %d jobs, %v; want none and ErrLost", n, err)
		}
		return nil
	})
	run("retried", func(ctx context.Context, run soloist.Run) error {
		if err := riveradapter.Periodic(queue, unconfirmed{pool}, s, report, nil)(ctx, run); err == nil {
			t.Error("a commit without a confirmation is a success")
		}
		err := insert(ctx, run)
		if n := jobs(); !errors.Is(err, soloist.ErrDone) || n != 1 {
			t.Errorf("retried: %d jobs, %v; want 1 and ErrDone", n, err)
		}
		return err
	})
}

// Two jobs with one key are worked once, and the other one is completed too. A job that another worker has is snoozed, which costs no attempt.
func TestJobIsWorkedOnce(t *testing.T) {
	pool := database(t)
	client, s := soloisttest.NewClient(t)
	other := soloisttest.NewReplica(t, s, soloist.Config{})
	held, err := other.Elements("river", soloist.ElementsOptions{}).Claim(t.Context(), "held")
	if err != nil {
		t.Fatal(err)
	}
	var attempts atomic.Int32
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(ctx context.Context, _ *river.Job[reportArgs]) error {
		if soloist.LeaseFrom(ctx) == nil {
			t.Error("there is no lease")
		}
		if attempts.Add(1) == 1 {
			return errors.New("the first attempt fails")
		}
		return nil
	}))
	key := func(job *rivertype.JobRow) string { return job.Tags[0] }
	queue, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 2}}, Workers: workers,
		Middleware: []rivertype.Middleware{riveradapter.Once(client.Elements("river", soloist.ElementsOptions{}), key)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := queue.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := queue.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	// becomes inserts a job and waits for its state.
	becomes := func(tag string, state rivertype.JobState) *rivertype.JobRow {
		t.Helper()
		inserted, err := queue.Insert(t.Context(), reportArgs{}, &river.InsertOpts{Tags: []string{tag}})
		if err != nil {
			t.Fatal(err)
		}
		var job *rivertype.JobRow
		servers.Wait(t, "a job of "+tag+" to be "+string(state), func() bool {
			job, err = queue.JobGet(t.Context(), inserted.Job.ID)
			return err == nil && job.State == state
		})
		return job
	}
	becomes("invoice-4711", rivertype.JobStateCompleted)
	becomes("invoice-4711", rivertype.JobStateCompleted)
	if n := attempts.Load(); n != 2 {
		t.Errorf("%d attempts; want one that failed and one that did not", n)
	}
	if job := becomes("held", rivertype.JobStateScheduled); job.Attempt != 0 || attempts.Load() != 2 {
		t.Errorf("snoozed: attempt %d of River, %d attempts of the worker; want 0 and 2", job.Attempt, attempts.Load())
	}
	if err := held.Release(); err != nil {
		t.Error(err)
	}
}

// A job whose element another worker has is snoozed until that worker's lease would end, for a second at least.
func TestSnoozedUntilTheLeaseWouldEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, s := soloisttest.NewClient(t)
		others := s.Share()
		other := soloisttest.NewReplica(t, others, soloist.Config{TTL: 30 * time.Second})
		held, err := other.Elements("river", soloist.ElementsOptions{}).Claim(t.Context(), "4711")
		if err != nil {
			t.Fatal(err)
		}
		others.Stall() // it renews nothing any more
		time.Sleep(28 * time.Second)
		once := riveradapter.Once(client.Elements("river", soloist.ElementsOptions{}), nil)
		for _, want := range []time.Duration{2 * time.Second, time.Second} {
			var snoozed *rivertype.JobSnoozeError
			err := once.Work(t.Context(), &rivertype.JobRow{ID: 4711}, func(context.Context) error { return errors.New("it was worked") })
			if !errors.As(err, &snoozed) || snoozed.Duration != want {
				t.Errorf("got %v, want to be snoozed for %v", err, want)
			}
			time.Sleep(1500 * time.Millisecond)
		}
		others.Heal()
		_ = held.Release()
	})
}

// An error of the worker itself is one, also if it is about something else that is held or done.
func TestErrorOfTheWorkerIsKept(t *testing.T) {
	client, _ := soloisttest.NewClient(t)
	once := riveradapter.Once(client.Elements("river", soloist.ElementsOptions{}), nil)
	for _, of := range []error{soloist.ErrDone, &soloist.HeldError{Name: "another"}} {
		for range 2 {
			failed := fmt.Errorf("the second step: %w", of)
			if err := once.Work(t.Context(), &rivertype.JobRow{ID: 4711}, func(context.Context) error { return failed }); !errors.Is(err, failed) {
				t.Errorf("got %v, want the error of the worker", err)
			}
		}
	}
}

// BenchmarkOnce measures a job that was worked before: the middleware, and the element alone, which is what it is to be compared with. The store is in
// memory.
func BenchmarkOnce(b *testing.B) {
	client, _ := soloisttest.NewClient(b)
	elements := client.Elements("river", soloist.ElementsOptions{})
	worked, err := elements.Claim(b.Context(), "4711")
	if err != nil {
		b.Fatal(err)
	}
	if err := worked.Done(); err != nil {
		b.Fatal(err)
	}
	twice := errors.New("worked twice")
	b.Run("element", func(b *testing.B) {
		for b.Loop() {
			if err := elements.Process(b.Context(), "4711", func(context.Context, *soloist.Element) error { return twice }); !errors.Is(err, soloist.ErrDone) {
				b.Fatal(err)
			}
		}
	})
	b.Run("middleware", func(b *testing.B) {
		once, job := riveradapter.Once(elements, nil), &rivertype.JobRow{ID: 4711}
		for b.Loop() {
			if err := once.Work(b.Context(), job, func(context.Context) error { return twice }); err != nil {
				b.Fatal(err)
			}
		}
	})
}
