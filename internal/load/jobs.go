package load

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store"
)

// Start is case S: how long a client with many jobs takes until it can run them, when they are new to the store and when they are known.
func Start(ctx context.Context, cfg Config) ([]Result, error) {
	n := cfg.Size.StartJobs
	jobs := make([]soloist.Job, n)
	for i := range jobs {
		jobs[i] = soloist.Job{
			Name: fmt.Sprint("started-", i), Schedule: soloist.Every(365 * 24 * time.Hour),
			Do: func(context.Context, soloist.Run) error { return nil },
		}
	}
	var results []Result
	for i, form := range []string{"new to the store", "known to it"} {
		what := fmt.Sprintf("%d jobs, %s", n, form)
		cfg.Progress(float64(i)/2, what)
		err := cfg.on(ctx, soloist.Options{}, func(r *replica) error {
			cfg.Mark()
			before := used()
			requests, stop, err := r.start(ctx, jobs)
			cfg.Mark()
			s := &Sample{Operations: 1}
			s.since(before)
			s.Times.Add(s.Took)
			results = append(results, s.Result("S", what, "start", requests))
			return errors.Join(err, stop())
		})
		if err != nil {
			return nil, err
		}
	}
	return results, nil
}

// start runs jobs, and returns when they are registered with the requests that this took. The function that it answers ends them.
func (r *replica) start(ctx context.Context, jobs []soloist.Job) (requests int64, stop func() error, err error) {
	registered := make(chan int64, 1)
	r.counter.claimed = func(claims []store.Claim) {
		// The first look at what is asked of the jobs comes when they have been registered.
		if len(claims) == 1 && strings.HasSuffix(claims[0].Name, "/controls") {
			select {
			case registered <- r.counter.Requests.Load() - 1:
			default:
			}
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx, jobs...) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	select {
	case requests = <-registered:
		return requests, stop, nil
	case err := <-ended:
		ended <- nil
		if err == nil {
			err = context.Cause(ctx)
		}
		return 0, stop, err
	}
}

// tickEvery is the least time between the ticks of case H.
const tickEvery = time.Second

// Tick is case H: replicas, each with a handle of its own, run the same jobs, which are all due at once, again and again. The jobs do
// nothing, so what is measured is what the fleet asks of the store.
func Tick(ctx context.Context, cfg Config) ([]Result, error) {
	n, m := cfg.Size.Replicas, cfg.Size.Jobs
	what := fmt.Sprintf("%d replicas, %d jobs", n, m)
	every := (tickEvery + time.Duration(n*m)*100*time.Microsecond).Truncate(time.Second) // a tick is over before the next
	var runs atomic.Int64
	jobs := make([]soloist.Job, m)
	for i := range jobs {
		jobs[i] = soloist.Job{
			Name: fmt.Sprint("ticking-", i), Schedule: soloist.Every(every),
			Do: func(context.Context, soloist.Run) error { runs.Add(1); return nil },
		}
	}
	var replicas []*replica
	var stops []func() error
	end := func() error {
		errs := make([]error, len(stops))
		var ending sync.WaitGroup
		for i, stop := range stops {
			ending.Go(func() { errs[i] = stop() })
		}
		ending.Wait()
		for _, r := range replicas {
			errs = append(errs, r.close())
		}
		return errors.Join(errs...)
	}
	for i := range n {
		cfg.Progress(0.5*float64(i)/float64(n), what+": starting them")
		r, err := cfg.replica(ctx, soloist.Options{})
		if err != nil {
			return nil, errors.Join(err, end())
		}
		replicas = append(replicas, r)
		_, stop, err := r.start(ctx, jobs)
		stops = append(stops, stop)
		if err != nil {
			return nil, errors.Join(err, end())
		}
	}
	result, err := cfg.ticks(ctx, what, every, replicas, &runs)
	if err = errors.Join(err, end()); err != nil {
		return nil, err
	}
	return []Result{result}, nil
}

// ticks counts what the replicas ask from the middle between two ticks to the middle between two later ones.
func (cfg Config) ticks(ctx context.Context, what string, every time.Duration, replicas []*replica, runs *atomic.Int64) (Result, error) {
	count := func() (requests, acquires, names int64) {
		for _, r := range replicas {
			requests += r.counter.Requests.Load()
			acquires += r.counter.Acquires.Load()
			names += r.counter.Names.Load()
		}
		return requests, acquires, names
	}
	begin := time.Now().Truncate(every).Add(every).Add(every / 2)
	if time.Until(begin) < every/2 { // a tick under way is over by then
		begin = begin.Add(every)
	}
	n := max(1, int64(cfg.For/every))
	length := time.Duration(n) * every
	defer tell(time.Until(begin)+length, func(done float64) { cfg.Progress(0.5+done/2, what) })()
	if err := napUntil(ctx, begin); err != nil {
		return Result{}, err
	}
	cfg.Mark()
	before := used()
	requests, acquires, names := count()
	ran := runs.Load()
	if err := napUntil(ctx, begin.Add(length)); err != nil {
		return Result{}, err
	}
	cfg.Mark()
	s := &Sample{Operations: n}
	s.since(before)
	requestsNow, acquiresNow, namesNow := count()
	ran = runs.Load() - ran
	r := s.Result("H", what, "tick", requestsNow-requests)
	each := float64(n) * float64(len(replicas))
	r.More = []More{
		{Name: "claiming requests for each replica and tick", Value: float64(acquiresNow-acquires) / each},
		{Name: "names for each replica and tick", Value: float64(namesNow-names) / each},
		{Name: "runs a tick", Value: float64(ran) / float64(n)},
	}
	return r, nil
}
