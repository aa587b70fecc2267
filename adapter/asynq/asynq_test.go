//go:build unix

package asynqadapter_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/soloist-dev/soloist"
	asynqadapter "github.com/soloist-dev/soloist/adapter/asynq"
	"github.com/soloist-dev/soloist/soloisttest"
	"github.com/soloist-dev/soloist/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

var redisServer = servers.Shared(func(t servers.Test) *servers.RedisServer { return servers.Redis(t) })

// connect returns how to reach a server with no tasks.
func connect(t *testing.T) asynq.RedisConnOpt {
	t.Helper()
	opt, err := asynq.ParseRedisURI(redisServer(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	return opt
}

// serve processes tasks of a queue until the test ends.
func serve(t *testing.T, opt asynq.RedisConnOpt, queue string, handler asynq.Handler) {
	t.Helper()
	server := asynq.NewServer(opt, asynq.Config{
		Concurrency: 2, Queues: map[string]int{queue: 1}, LogLevel: asynq.FatalLevel, IsFailure: asynqadapter.IsFailure,
		TaskCheckInterval: 10 * time.Millisecond, DelayedTaskCheckInterval: 10 * time.Millisecond,
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Millisecond },
	})
	if err := server.Start(handler); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
}

// A run that is repeated, as after a crash, is one task, and a later run is another one.
func TestPeriodicEnqueuesOneTaskForARun(t *testing.T) {
	opt := connect(t)
	tasks, inspector := asynq.NewClient(opt), asynq.NewInspector(opt)
	defer tasks.Close()
	defer inspector.Close()
	const queue = "periodic"
	do := asynqadapter.Periodic(tasks, func(run soloist.Run) *asynq.Task {
		return asynq.NewTask("report", []byte(run.ScheduledAt.Format(time.RFC3339)))
	}, asynq.Queue(queue))
	run := soloist.Run{Job: "report", ScheduledAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Attempt: 1}
	for _, r := range []soloist.Run{run, {Job: run.Job, ScheduledAt: run.ScheduledAt, Attempt: 2}, {Job: run.Job, ScheduledAt: run.ScheduledAt.Add(time.Minute)}} {
		if err := do(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	pending, err := inspector.ListPendingTasks(queue)
	if err != nil || len(pending) != 2 {
		t.Fatalf("%d tasks, %v; want 2", len(pending), err)
	}
	info, err := inspector.GetTaskInfo(queue, "report@2026-01-02T03:04:05.000Z")
	if err != nil || string(info.Payload) != "2026-01-02T03:04:05Z" {
		t.Errorf("%+v, %v", info, err)
	}
	_ = tasks.Close()
	if err := do(t.Context(), soloist.Run{Job: "other", ScheduledAt: run.ScheduledAt}); err == nil {
		t.Error("a task that could not be enqueued is no error")
	}
}

// The options of a job are shared by all its runs: a run under way beside another does not write its task ID into them, although the slice has room.
func TestRunsDoNotWriteIntoTheOptions(t *testing.T) {
	opt := connect(t)
	tasks, inspector := asynq.NewClient(opt), asynq.NewInspector(opt)
	defer tasks.Close()
	defer inspector.Close()
	const queue = "options"
	opts := make([]asynq.Option, 1, 2)
	opts[0] = asynq.Queue(queue)
	do := asynqadapter.Periodic(tasks, func(soloist.Run) *asynq.Task { return asynq.NewTask("report", nil) }, opts...)
	if err := do(t.Context(), soloist.Run{Job: "report", ScheduledAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}); err != nil {
		t.Fatal(err)
	}
	if _, err := inspector.GetTaskInfo(queue, "report@2026-01-02T03:04:05.000Z"); err != nil {
		t.Fatal(err)
	}
	if beyond := opts[:2][1]; beyond != nil {
		t.Errorf("the run has written %v behind the options", beyond)
	}
}

// Two workers process a task that is enqueued twice once; the second time it is a success to asynq. A failure is tried again.
func TestTaskIsProcessedOnce(t *testing.T) {
	opt := connect(t)
	tasks, inspector := asynq.NewClient(opt), asynq.NewInspector(opt)
	defer tasks.Close()
	defer inspector.Close()
	a, s := soloisttest.NewClient(t)
	b := soloisttest.NewReplica(t, s, soloist.Config{})
	const queue = "once"
	var attempts atomic.Int32
	for _, c := range []*soloist.Client{a, b} {
		mux := asynq.NewServeMux()
		mux.Use(asynqadapter.Once(c.Elements("tasks", soloist.ElementsOptions{}), nil))
		mux.HandleFunc("invoice", func(ctx context.Context, _ *asynq.Task) error {
			if soloist.LeaseFrom(ctx) == nil {
				return errors.New("there is no lease")
			}
			if attempts.Add(1) == 1 {
				return errors.New("the first attempt fails")
			}
			return nil
		})
		serve(t, opt, queue, mux)
	}
	for range 2 {
		if _, err := tasks.Enqueue(asynq.NewTask("invoice", nil), asynq.TaskID("4711"), asynq.Queue(queue), asynq.Retention(time.Hour)); err != nil {
			t.Fatal(err)
		}
		servers.Wait(t, "the task to be completed", func() bool {
			info, err := inspector.GetTaskInfo(queue, "4711")
			return err == nil && info.State == asynq.TaskStateCompleted
		})
		if err := inspector.DeleteTask(queue, "4711"); err != nil { // asynq forgets it
			t.Fatal(err)
		}
	}
	if n := attempts.Load(); n != 2 {
		t.Errorf("%d attempts; want one that failed and one that did not", n)
	}
}

// A task that another worker has is tried again later, and costs no retry.
func TestTaskThatIsHeldWaits(t *testing.T) {
	opt := connect(t)
	tasks, inspector := asynq.NewClient(opt), asynq.NewInspector(opt)
	defer tasks.Close()
	defer inspector.Close()
	c, s := soloisttest.NewClient(t)
	other := soloisttest.NewReplica(t, s, soloist.Config{})
	held, err := other.Elements("tasks", soloist.ElementsOptions{}).Claim(t.Context(), "invoice-4711")
	if err != nil {
		t.Fatal(err)
	}
	const queue = "held"
	var refused, ran atomic.Int32
	id := func(_ context.Context, task *asynq.Task) string { return "invoice-" + string(task.Payload()) }
	once := asynqadapter.Once(c.Elements("tasks", soloist.ElementsOptions{}), id)(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		ran.Add(1)
		return nil
	}))
	serve(t, opt, queue, asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		err := once.ProcessTask(ctx, task)
		if errors.Is(err, soloist.ErrHeld) {
			refused.Add(1)
		}
		return err
	}))
	info, err := tasks.Enqueue(asynq.NewTask("invoice", []byte("4711")), asynq.Queue(queue), asynq.MaxRetry(1), asynq.Retention(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	servers.Wait(t, "more refusals than there are retries", func() bool { return refused.Load() > 2 })
	if err := held.Release(); err != nil {
		t.Fatal(err)
	}
	servers.Wait(t, "the task to be completed", func() bool {
		now, err := inspector.GetTaskInfo(queue, info.ID)
		return err == nil && now.State == asynq.TaskStateCompleted && now.Retried == 0
	})
	if ran.Load() != 1 {
		t.Errorf("it ran %d times", ran.Load())
	}
}

// A task that another worker has at its last retry waits for it: asynq would archive it, whatever the error.
func TestTaskThatIsHeldAtItsLastRetryWaits(t *testing.T) {
	opt := connect(t)
	tasks, inspector := asynq.NewClient(opt), asynq.NewInspector(opt)
	defer tasks.Close()
	defer inspector.Close()
	_, s := soloisttest.NewClient(t)
	var refused, ran atomic.Int32
	c := soloisttest.NewReplica(t, s, soloist.Config{Observe: func(_ context.Context, e soloist.Event) {
		if e.Kind == soloist.EventRefused {
			refused.Add(1)
		}
	}})
	held, err := soloisttest.NewReplica(t, s, soloist.Config{}).Elements("tasks", soloist.ElementsOptions{}).Claim(t.Context(), "4711")
	if err != nil {
		t.Fatal(err)
	}
	const queue = "last"
	serve(t, opt, queue, asynqadapter.Once(c.Elements("tasks", soloist.ElementsOptions{}), nil)(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		ran.Add(1)
		return nil
	})))
	info, err := tasks.Enqueue(asynq.NewTask("invoice", nil), asynq.TaskID("4711"), asynq.Queue(queue), asynq.MaxRetry(0), asynq.Retention(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	ended := func() bool {
		now, err := inspector.GetTaskInfo(queue, info.ID)
		return err == nil && (now.State == asynq.TaskStateCompleted || now.State == asynq.TaskStateArchived)
	}
	servers.Wait(t, "it to be refused more than once, or archived", func() bool { return refused.Load() > 1 || ended() })
	if err := held.Release(); err != nil {
		t.Fatal(err)
	}
	servers.Wait(t, "the task to end", ended)
	if now, err := inspector.GetTaskInfo(queue, info.ID); err != nil || now.State != asynq.TaskStateCompleted || ran.Load() != 1 {
		t.Errorf("%+v, %v; it ran %d times", now, err, ran.Load())
	}
}

// A task that is held at its last retry waits no longer than its context, and is told as held then.
func TestTaskThatIsHeldWaitsUntilItsContextEnds(t *testing.T) {
	opt := connect(t)
	tasks := asynq.NewClient(opt)
	defer tasks.Close()
	_, s := soloisttest.NewClient(t)
	refused := make(chan struct{}, 1)
	c := soloisttest.NewReplica(t, s, soloist.Config{Observe: func(_ context.Context, e soloist.Event) {
		if e.Kind == soloist.EventRefused {
			refused <- struct{}{}
		}
	}})
	if _, err := soloisttest.NewReplica(t, s, soloist.Config{}).Elements("tasks", soloist.ElementsOptions{}).Claim(t.Context(), "4711"); err != nil {
		t.Fatal(err)
	}
	const queue = "ends"
	told := make(chan error, 1)
	once := asynqadapter.Once(c.Elements("tasks", soloist.ElementsOptions{}), nil)(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return nil }))
	serve(t, opt, queue, asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		ctx, cancel := context.WithCancel(ctx)
		go func() { <-refused; cancel() }()
		err := once.ProcessTask(ctx, task)
		told <- err
		return err
	}))
	if _, err := tasks.Enqueue(asynq.NewTask("invoice", nil), asynq.TaskID("4711"), asynq.Queue(queue), asynq.MaxRetry(0)); err != nil {
		t.Fatal(err)
	}
	if err := <-told; !errors.Is(err, soloist.ErrHeld) {
		t.Errorf("got %v, want that it is held", err)
	}
}

// The ID of a task is that of the instant at which its run is due, in whatever zone a replica reckons that.
func TestTaskIDIsTheSameInEachZone(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6_000_000, time.UTC)
	for _, zone := range []*time.Location{time.UTC, time.FixedZone("elsewhere", -5*60*60)} {
		if id := asynqadapter.TaskID(soloist.Run{Job: "report", ScheduledAt: at.In(zone)}); id != "report@2026-01-02T03:04:05.006Z" {
			t.Errorf("in zone %s: %s", zone, id)
		}
	}
}

// What another worker has is no failure. Whatever else goes wrong is one, also a lock that the task itself finds held.
func TestWhatIsAFailure(t *testing.T) {
	client, s := soloisttest.NewClient(t)
	if _, err := soloisttest.NewReplica(t, s, soloist.Config{}).Elements("tasks", soloist.ElementsOptions{}).Claim(t.Context(), "held"); err != nil {
		t.Fatal(err)
	}
	process := func(element string, err error) error {
		id := func(context.Context, *asynq.Task) string { return element }
		once := asynqadapter.Once(client.Elements("tasks", soloist.ElementsOptions{}), id)
		return once(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return err })).ProcessTask(t.Context(), asynq.NewTask("invoice", nil))
	}
	held := process("held", errors.New("processed"))
	var told *soloist.HeldError
	if !errors.Is(held, soloist.ErrHeld) || !errors.As(held, &told) || told.Name != "held" || held.Error() != told.Error() {
		t.Errorf("what another worker has: %v", held)
	}
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false}, {held, false}, {fmt.Errorf("processing: %w", held), false}, {process("a lock", &soloist.HeldError{Name: "x"}), true},
		{&soloist.HeldError{Name: "x"}, true}, {fmt.Errorf("claiming: %w", soloist.ErrHeld), true}, {soloist.ErrUnknown, true},
		{soloist.ErrLost, true}, {soloist.ErrDone, true}, {soloist.ErrFailed, true}, {errors.New("broken"), true},
	} {
		if asynqadapter.IsFailure(c.err) != c.want {
			t.Errorf("%v is a failure: %t, want %t", c.err, !c.want, c.want)
		}
	}
}

// An error of the task itself is one, also if it says that something else was done.
func TestErrorOfTheTaskIsKept(t *testing.T) {
	client, _ := soloisttest.NewClient(t)
	id := func(context.Context, *asynq.Task) string { return "4711" }
	handler := asynqadapter.Once(client.Elements("tasks", soloist.ElementsOptions{}), id)(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		return fmt.Errorf("the second step: %w", soloist.ErrDone)
	}))
	for range 2 {
		if err := handler.ProcessTask(t.Context(), asynq.NewTask("invoice", nil)); err == nil || !strings.Contains(err.Error(), "the second step") {
			t.Errorf("got %v, want the error of the task", err)
		}
	}
}

// BenchmarkOnce measures a task that was processed before: the middleware, and the element alone, which is what it is to be compared with. The store
// is in memory.
func BenchmarkOnce(b *testing.B) {
	client, _ := soloisttest.NewClient(b)
	elements := client.Elements("tasks", soloist.ElementsOptions{})
	processed, err := elements.Claim(b.Context(), "4711")
	if err != nil {
		b.Fatal(err)
	}
	if err := processed.Done(); err != nil {
		b.Fatal(err)
	}
	twice := errors.New("processed twice")
	b.Run("element", func(b *testing.B) {
		for b.Loop() {
			if err := elements.Process(b.Context(), "4711", func(context.Context, *soloist.Element) error { return twice }); !errors.Is(err, soloist.ErrDone) {
				b.Fatal(err)
			}
		}
	})
	b.Run("middleware", func(b *testing.B) {
		id := func(context.Context, *asynq.Task) string { return "4711" }
		handler := asynqadapter.Once(elements, id)(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return twice }))
		task := asynq.NewTask("invoice", nil)
		for b.Loop() {
			if err := handler.ProcessTask(b.Context(), task); err != nil {
				b.Fatal(err)
			}
		}
	})
}
