// Command metrics counts what happens and traces what runs: Config.Observe is told of everything, and a middleware wraps each
// run. It prints the counts in the format of Prometheus when it ends.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store/memstore"
)

// counts are counters by name and labels. With a library for metrics they would be its counters.
type counts struct {
	mu sync.Mutex
	of map[string]float64
}

func (c *counts) add(n float64, format string, labels ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of[fmt.Sprintf(format, labels...)] += n
}

// observe is called from many goroutines and must not block.
func (c *counts) observe(_ context.Context, e soloist.Event) {
	switch e.Kind {
	case soloist.EventRequest:
		c.add(1, "soloist_requests_total{verb=%q,outcome=%q}", e.Verb, e.Outcome)
	case soloist.EventGranted:
		c.add(e.Waited.Seconds(), "soloist_waited_seconds_total{kind=%q}", e.Subject.Kind)
	case soloist.EventRefused:
		c.add(1, "soloist_refused_total{kind=%q}", e.Subject.Kind)
	case soloist.EventLost:
		c.add(1, "soloist_lost_total{kind=%q}", e.Subject.Kind) // worth an alert
	case soloist.EventMissed:
		c.add(float64(e.Missed), "soloist_missed_total{task=%q}", e.Subject.Name)
	case soloist.EventRunEnd:
		c.add(1, "soloist_runs_total{task=%q,outcome=%q}", e.Subject.Name, e.Outcome)
		c.add(e.Duration.Seconds(), "soloist_run_seconds_total{task=%q}", e.Subject.Name)
	}
}

func (c *counts) print(w io.Writer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(c.of)) {
		fmt.Fprintf(w, "%s %g\n", name, c.of[name])
	}
}

// traced is a middleware: with a library for traces it would begin a span in ctx, and end it.
func traced(next soloist.Handler) soloist.Handler {
	return func(ctx context.Context, work soloist.Work) error {
		begin := time.Now()
		err := next(ctx, work)
		log.Printf("%s %s, attempt %d, took %v: %v",
			work.Subject.Kind, work.Subject.Name, work.Attempt, time.Since(begin), err)
		return err
	}
}

func main() {
	after := flag.Duration("for", 3*time.Second, "end after this time")
	flag.Parse()
	all := &counts{of: map[string]float64{}}
	if err := run(all, *after); err != nil {
		log.Fatal(err)
	}
	all.print(os.Stdout)
}

func run(all *counts, after time.Duration) error {
	client, err := soloist.New(memstore.New(), soloist.Config{Observe: all.observe, Middleware: []soloist.Middleware{traced}})
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), after)
	defer cancel()
	return client.Run(ctx, soloist.Job{
		Name:     "import",
		Schedule: soloist.Every(time.Second),
		Retry:    soloist.Retry{Attempts: 2, Backoff: 10 * time.Millisecond},
		Do: func(_ context.Context, run soloist.Run) error {
			if run.Attempt == 1 {
				return errors.New("the file is not there yet")
			}
			return nil
		},
	})
}
