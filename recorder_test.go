package soloist_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
)

// A recorder notes the runs of a job on all replicas.
type recorder struct {
	mu   sync.Mutex
	runs []soloist.Run
	at   []time.Time
}

func (r *recorder) do(_ context.Context, run soloist.Run) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runs = append(r.runs, run)
	r.at = append(r.at, time.Now())
	return nil
}

// all returns the runs so far.
func (r *recorder) all() []soloist.Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.runs)
}

// began returns when the runs did.
func (r *recorder) began() []time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.at)
}

// scheduled returns the offsets of the scheduled times from a start.
func (r *recorder) scheduled(start time.Time) []time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []time.Duration
	for _, run := range r.runs {
		all = append(all, run.ScheduledAt.Sub(start))
	}
	return all
}

// start runs jobs on c until the function that it answers is called, which waits for the end of Run.
func start(t *testing.T, c *soloist.Client, jobs ...soloist.Job) func() {
	t.Helper()
	ctx, cancel := context.WithCancel(background)
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx, jobs...) }()
	synctest.Wait()
	select {
	case err := <-done:
		t.Fatalf("Run returned: %v", err)
	default:
	}
	var once sync.Once
	stop := func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("Run: %v", err)
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

func seconds(from, to int) []time.Duration {
	var all []time.Duration
	for i := from; i <= to; i++ {
		all = append(all, time.Duration(i)*time.Second)
	}
	return all
}

func check[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s:\n got %v\nwant %v", what, got, want)
	}
}
