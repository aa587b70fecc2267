package load

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store"
)

// A Config configures the store and the size of the load.
type Config struct {
	// Open opens another handle on the records at each call, as another process would.
	Open func(context.Context) (store.Store, error)

	Namespace string        // of all records that are created; nothing else may use it
	For       time.Duration // approximate time for each case
	Size      Size

	// Processes, if not nil, returns a command that calls Waiter, for case C with processes.
	Processes Command

	// Mark, if not nil, is called just before and just after what cases E, H, M and S measure.
	Mark func()

	// Progress, if not nil, is called with how much of a case is done, from 0 to 1, and its current step. It is called by
	// one goroutine at a time.
	Progress func(done float64, what string)
}

// A Size has the sizes of the cases. The zero value of a field means the default.
type Size struct {
	Goroutines int // B, D: 64
	Waiters    int // C: 16
	Leases     int // E: 10,000
	Replicas   int // H: 10
	Jobs       int // H: 100
	StartJobs  int // S: 10,000
	Elements   int // M: the maximum for each form; 20,000
}

func (s Size) filled() Size {
	or := func(n *int, standard int) {
		if *n == 0 {
			*n = standard
		}
	}
	or(&s.Goroutines, 64)
	or(&s.Waiters, 16)
	or(&s.Leases, 10_000)
	or(&s.Replicas, 10)
	or(&s.Jobs, 100)
	or(&s.StartJobs, 10_000)
	or(&s.Elements, 20_000)
	return s
}

// A Case is one thing to measure.
type Case struct {
	Letter string
	What   string
	Run    func(context.Context, Config) ([]Result, error)
}

// Cases has all cases, in order.
var Cases = []Case{
	{"A", "take and give back a free lock, one caller", Pair},
	{"B", "the same by many goroutines, a lock each", Many},
	{"C", "many wait for one lock", Wait},
	{"D", "tries at a lock that is held", Refused},
	{"E", "many leases are kept alive", Keep},
	{"H", "one tick of many jobs on many replicas", Tick},
	{"M", "elements claimed, processed and recorded", Elements},
	{"S", "a client with many jobs starts", Start},
}

// Do runs the case.
func (k Case) Do(ctx context.Context, cfg Config) ([]Result, error) {
	cfg.Size = cfg.Size.filled()
	if cfg.Progress == nil {
		cfg.Progress = func(float64, string) {}
	}
	if cfg.Mark == nil {
		cfg.Mark = func() {}
	}
	results, err := k.Run(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("case %s (%s): %w", k.Letter, k.What, err)
	}
	return results, nil
}

// requestTimeout is longer than the client's default: a slow request should be measured and not repeated. A reply that
// takes as long as a lease would be useless.
const requestTimeout = usualTTL

// A replica is a client with its own handle, whose requests are counted.
type replica struct {
	*soloist.Client
	counter *Counter
	store   store.Store
}

func (cfg Config) replica(ctx context.Context, opts soloist.Options) (*replica, error) {
	s, err := cfg.Open(ctx)
	if err != nil {
		return nil, err
	}
	r := &replica{counter: &Counter{}, store: s}
	r.Client, err = soloist.New(Count(s, r.counter), soloist.Config{
		Namespace: cfg.Namespace, TTL: opts.TTL, Margin: opts.Margin, RequestTimeout: requestTimeout, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return r, nil
}

func (r *replica) close() error { return errors.Join(r.Close(), r.store.Close()) }

// on calls fn with a new client.
func (cfg Config) on(ctx context.Context, opts soloist.Options, fn func(*replica) error) error {
	r, err := cfg.replica(ctx, opts)
	if err != nil {
		return err
	}
	err = fn(r)
	return errors.Join(err, r.close())
}

// part returns cfg with a Progress that reports the i-th of n parts of the whole.
func (cfg Config) part(i, n int) Config {
	whole := cfg.Progress
	cfg.Progress = func(done float64, what string) { whole((float64(i)+done)/float64(n), what) }
	return cfg
}

// loop returns a loop of workers, with the time and the progress of cfg. A seventh of the time is for warming up.
func (cfg Config) loop(workers int, what string) Loop {
	return Loop{
		Workers: workers, For: cfg.For, Warm: min(cfg.For/6, 300*time.Millisecond),
		Progress: func(done float64) { cfg.Progress(done, what) },
	}
}
