package gocronadapter_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"

	"github.com/soloist-dev/soloist"
	gocronadapter "github.com/soloist-dev/soloist/adapter/gocron"
	"github.com/soloist-dev/soloist/elected"
	"github.com/soloist-dev/soloist/soloisttest"
)

var (
	_ gocron.Locker  = (*gocronadapter.Locker)(nil)
	_ gocron.Elector = (*gocronadapter.Elector)(nil)
)

// schedule starts a scheduler with one job that is due every minute from now on. The returned function ends it; no job
// may be running then, because Shutdown waits without sleeping, so that the time of a bubble stands still.
func schedule(t *testing.T, job func(), refused func(error), option gocron.SchedulerOption) (end func()) {
	t.Helper()
	s, err := gocron.NewScheduler(gocron.WithLocation(time.UTC), option)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.NewJob(gocron.DurationJob(time.Minute), gocron.NewTask(job), gocron.WithName("report"),
		gocron.WithEventListeners(gocron.AfterLockError(func(_ uuid.UUID, _ string, err error) { refused(err) })))
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	return func() {
		t.Helper()
		synctest.Wait()
		if err := s.Shutdown(); err != nil {
			t.Error(err)
		}
	}
}

func locker(t *testing.T, c *soloist.Client, hold time.Duration) *gocronadapter.Locker {
	t.Helper()
	l, err := gocronadapter.NewLocker(c, hold)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Two schedulers that fire apart by less than the hold run each time once, however short the job is.
func TestLockerRunsAShortJobOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, s := soloisttest.NewClient(t)
		b := soloisttest.NewReplica(t, s, soloist.Config{})
		var mu sync.Mutex
		var runs, refusals int
		job := func() {
			mu.Lock()
			defer mu.Unlock()
			runs++
		}
		refused := func(err error) {
			mu.Lock()
			defer mu.Unlock()
			if refusals++; !errors.Is(err, soloist.ErrHeld) {
				t.Errorf("refused: %v; want ErrHeld", err)
			}
		}
		endA := schedule(t, job, refused, gocron.WithDistributedLocker(locker(t, a, 20*time.Second)))
		time.Sleep(5 * time.Second)
		endB := schedule(t, job, refused, gocron.WithDistributedLocker(locker(t, b, 20*time.Second)))
		time.Sleep(3*time.Minute + 30*time.Second)
		endA()
		endB()
		if runs != 3 || refusals != 3 {
			t.Errorf("%d runs and %d refusals in three minutes; want 3 and 3", runs, refusals)
		}
	})
}

// The job finds its lease, and learns from it that the lock was lost. After it, there is no lease.
func TestJobLearnsThatItsLockWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, s := soloisttest.NewClient(t)
		l := locker(t, client, time.Second)
		cause := make(chan error, 1)
		end := schedule(t, func() {
			s.Stall()
			lease := l.Lease("report")
			<-lease.Context().Done()
			s.Heal()
			cause <- context.Cause(lease.Context())
		}, func(err error) { t.Error(err) }, gocron.WithDistributedLocker(l))
		if err := <-cause; !errors.Is(err, soloist.ErrLost) {
			t.Errorf("the context of the lease ended with %v; want ErrLost", err)
		}
		end()
		if lease := l.Lease("report"); lease != nil {
			t.Errorf("after the job there is the lease of %s", lease.Name())
		}
	})
}

// Gocron cancels the context of a job before its last run has ended; its lock is released in spite of that.
func TestUnlockNeedsNoContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, s := soloisttest.NewClient(t)
		b := soloisttest.NewReplica(t, s, soloist.Config{})
		l := locker(t, a, time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		held, err := l.Lock(ctx, "report")
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := held.Unlock(ctx); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second) // the hold, less than the TTL
		if _, err := b.TryLock(t.Context(), "report"); err != nil {
			t.Errorf("after the hold: %v", err)
		}
	})
}

// A run that lost its lock and ends late does not take the lease of the run after it away.
func TestLateUnlockLeavesTheNextLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, s := soloisttest.NewClient(t)
		l := locker(t, client, time.Second)
		late, err := l.Lock(t.Context(), "report")
		if err != nil {
			t.Fatal(err)
		}
		soloisttest.LoseLease(t, s, l.Lease("report"))
		time.Sleep(time.Minute) // until who has it now loses it, too
		next, err := l.Lock(t.Context(), "report")
		if err != nil {
			t.Fatal(err)
		}
		lease := l.Lease("report")
		if err := late.Unlock(t.Context()); !errors.Is(err, soloist.ErrLost) {
			t.Errorf("the late one: %v, want ErrLost", err)
		}
		if now := l.Lease("report"); now != lease || now.Err() != nil {
			t.Errorf("after the late one the job has another lease, or none: %v", now)
		}
		if err := next.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Only the leader's scheduler runs jobs, and the next leader's when it has resigned.
func TestElectorRunsJobsOnTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, s := soloisttest.NewClient(t)
		b := soloisttest.NewReplica(t, s, soloist.Config{})
		var mu sync.Mutex
		runs := map[*soloist.Client]int{}
		start := func(c *soloist.Client) (e *gocronadapter.Elector, resign, end func()) {
			e = gocronadapter.NewElector(c, "scheduler")
			ctx, resign := context.WithCancel(t.Context())
			go func() {
				if err := e.Run(ctx); err != nil {
					t.Error(err)
				}
			}()
			synctest.Wait()
			return e, resign, schedule(t, func() {
				mu.Lock()
				defer mu.Unlock()
				runs[c]++
			}, func(err error) { t.Error(err) }, gocron.WithDistributedElector(e))
		}
		one, resignA, endA := start(a)
		other, resignB, endB := start(b)
		defer resignB()
		time.Sleep(2*time.Minute + 30*time.Second)
		if err := other.IsLeader(t.Context()); !errors.Is(err, elected.ErrNotLeader) || other.Lease() != nil {
			t.Errorf("the second one: %v and a lease: %t; want ErrNotLeader and none", err, other.Lease() != nil)
		}
		endA()
		resignA()
		time.Sleep(time.Minute)
		endB()
		if runs[a] != 2 || runs[b] != 1 {
			t.Errorf("%d runs on the first leader, %d on the second; want 2 and 1", runs[a], runs[b])
		}
		if err := one.IsLeader(t.Context()); !errors.Is(err, elected.ErrNotLeader) || one.Lease() != nil {
			t.Errorf("after it resigned: %v and a lease: %t; want ErrNotLeader and none", err, one.Lease() != nil)
		}
	})
}

// A leader that is cut off from the store does not lead for longer than its lease, even if its Run notices the loss late.
// It leads again afterwards.
func TestElectorThatIsCutOffDoesNotLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := func(next soloist.Handler) soloist.Handler {
			return func(ctx context.Context, work soloist.Work) error {
				later, cancel := context.WithCancel(context.WithoutCancel(ctx))
				defer context.AfterFunc(ctx, func() { time.Sleep(10 * time.Second); cancel() })()
				return next(later, work)
			}
		}
		s := soloisttest.NewStore()
		client := soloisttest.NewReplica(t, s, soloist.Config{Middleware: []soloist.Middleware{late}})
		e := gocronadapter.NewElector(client, "scheduler")
		ctx, resign := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- e.Run(ctx) }()
		synctest.Wait()
		if err := e.IsLeader(ctx); err != nil {
			t.Error(err)
		}
		s.Stall()
		time.Sleep(30 * time.Second) // the TTL
		if err := e.IsLeader(ctx); !errors.Is(err, elected.ErrNotLeader) {
			t.Errorf("cut off for a TTL: %v; want ErrNotLeader", err)
		}
		s.Heal()
		time.Sleep(time.Minute)
		if err := e.IsLeader(ctx); err != nil {
			t.Errorf("a minute after the store came back: %v", err)
		}
		resign()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestInputThatIsNotValidIsAnError(t *testing.T) {
	client, _ := soloisttest.NewClient(t)
	for what, try := range map[string]func() error{
		"no client": func() error { _, err := gocronadapter.NewLocker(nil, time.Second); return err },
		"no hold":   func() error { _, err := gocronadapter.NewLocker(client, 0); return err },
		"AtMost": func() error {
			_, err := gocronadapter.NewLocker(client.With(soloist.Options{AtMost: time.Minute}), time.Hour)
			return err
		},
		"no name": func() error { return gocronadapter.NewElector(client, "").Run(t.Context()) },
	} {
		var invalid *soloist.InvalidError
		if err := try(); !errors.As(err, &invalid) {
			t.Errorf("%s: %v; want an InvalidError", what, err)
		}
	}
}

func BenchmarkLocker(b *testing.B) {
	client, _ := soloisttest.NewClient(b)
	const hold = time.Millisecond
	l, err := gocronadapter.NewLocker(client, hold)
	if err != nil {
		b.Fatal(err)
	}
	n := 0
	name := func() string {
		n++
		return strconv.Itoa(n)
	}
	b.Run("lease", func(b *testing.B) {
		holding := client.With(soloist.Options{AtLeast: hold})
		for b.Loop() {
			lease, err := holding.TryLock(b.Context(), name())
			if err != nil {
				b.Fatal(err)
			}
			if err := lease.Release(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("locker", func(b *testing.B) {
		for b.Loop() {
			lock, err := l.Lock(b.Context(), name())
			if err != nil {
				b.Fatal(err)
			}
			if err := lock.Unlock(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkElector(b *testing.B) {
	client, _ := soloisttest.NewClient(b)
	elector := gocronadapter.NewElector(client, "scheduler")
	ctx, resign := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- elector.Run(ctx) }()
	for elector.IsLeader(b.Context()) != nil {
		time.Sleep(time.Millisecond)
	}
	for b.Loop() {
		if err := elector.IsLeader(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	resign()
	<-ended
}
