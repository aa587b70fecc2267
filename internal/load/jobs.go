package load

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
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

// start runs jobs, and returns when they are registered, with the number of requests that this took. The function that
// it returns ends them.
func (r *replica) start(ctx context.Context, jobs []soloist.Job) (requests int64, stop func() error, err error) {
	registered := make(chan int64, 1)
	r.counter.claimed = func(claims []store.Claim) {
		// The commands to the jobs are first read when the jobs have been registered.
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
		if err := <-ended; !errors.Is(err, soloist.ErrUnknown) { // the measurement is over: how the last runs end does not matter
			return err
		}
		return nil
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

// Tick is case H: replicas, each with its own handle, run the same jobs, which are all due at the same times. The jobs
// do nothing, so the case measures the requests of the fleet to the store. A tick must be over before the next one; if
// the machine or the store cannot keep up, the time between ticks is increased.
func Tick(ctx context.Context, cfg Config) ([]Result, error) {
	every := (tickEvery + time.Duration(cfg.Size.Replicas*cfg.Size.Jobs)*100*time.Microsecond).Truncate(time.Second)
	for ; ; every *= 4 {
		result, err := cfg.tick(ctx, every)
		if !errors.Is(err, errBehind) || every > time.Hour {
			return []Result{result}, err
		}
	}
}

func (cfg Config) tick(ctx context.Context, every time.Duration) (Result, error) {
	n, m := cfg.Size.Replicas, cfg.Size.Jobs
	what := fmt.Sprintf("%d replicas, %d jobs", n, m)
	runs := newTally(every)
	jobs := make([]soloist.Job, m)
	for i := range jobs {
		jobs[i] = soloist.Job{
			Name: fmt.Sprintf("ticking-%v-%d", every, i), Schedule: soloist.Every(every), Missed: soloist.MissedAll,
			Do: func(_ context.Context, run soloist.Run) error { runs.add(run.Job, run.ScheduledAt); return nil },
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
			return Result{}, errors.Join(err, end())
		}
		replicas = append(replicas, r)
		_, stop, err := r.start(ctx, jobs)
		stops = append(stops, stop)
		if err != nil {
			return Result{}, errors.Join(err, end())
		}
	}
	result, err := cfg.ticks(ctx, what, replicas, runs)
	return result, errors.Join(err, end())
}

// ticks counts the requests of the replicas from the middle between two ticks to the middle between two later ones, or
// until the runs of those ticks have ended if that takes a little longer.
func (cfg Config) ticks(ctx context.Context, what string, replicas []*replica, runs *tally) (Result, error) {
	count := func() (requests, acquires, names int64) {
		for _, r := range replicas {
			requests += r.counter.Requests.Load()
			acquires += r.counter.Acquires.Load()
			names += r.counter.Names.Load()
		}
		return requests, acquires, names
	}
	every := runs.every
	begin := time.Now().Truncate(every).Add(every).Add(every / 2)
	if time.Until(begin) < every/2 { // a tick under way is mostly over by then
		begin = begin.Add(every)
	}
	end := begin.Add(max(every, cfg.For.Truncate(every)))
	defer tell(time.Until(end), func(done float64) { cfg.Progress(0.5+done/2, what) })()
	if err := napUntil(ctx, begin); err != nil {
		return Result{}, err
	}
	cfg.Mark()
	before := used()
	requests, acquires, names := count()
	err := napUntil(ctx, end)
	if err == nil {
		err = runs.await(ctx, begin, end, cfg.Size.Jobs)
	}
	if err != nil {
		return Result{}, err
	}
	cfg.Mark()
	s := &Sample{Operations: max(int64(end.Sub(begin)/every), int64(time.Since(begin)/every))}
	s.since(before)
	requestsNow, acquiresNow, namesNow := count()
	r := s.Result("H", what, "tick", requestsNow-requests)
	each := float64(s.Operations) * float64(len(replicas))
	ran, again, _ := runs.between(begin, end)
	r.More = []More{
		{Name: "claiming requests for each replica and tick", Value: float64(acquiresNow-acquires) / each},
		{Name: "names for each replica and tick", Value: float64(namesNow-names) / each},
		{Name: "runs a tick", Value: float64(ran) / float64(end.Sub(begin)/every)},
	}
	if again > 0 {
		r.More = append(r.More, More{Name: "RUN AGAIN", Value: float64(again)})
	}
	return r, nil
}
