package load_test

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/internal/load"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

var small = load.Size{Goroutines: 8, Waiters: 4, Leases: 500, Replicas: 3, Jobs: 5, StartJobs: 50, Elements: 100}

func config(s *memstore.Store) load.Config {
	return load.Config{
		Open:      func(context.Context) (store.Store, error) { return s.Share(), nil },
		Namespace: "load-test", For: 60 * time.Millisecond, Size: small,
	}
}

func TestEveryCaseMeasuresAndCleansUp(t *testing.T) {
	for _, c := range load.Cases {
		t.Run(c.Letter, func(t *testing.T) {
			t.Parallel()
			s := memstore.New()
			cfg := config(s)
			cfg.Progress = func(done float64, what string) {
				if done < 0 || done > 1 || what == "" {
					t.Errorf("told %v of %q", done, what)
				}
			}
			for _, r := range measured(t, cfg, c) {
				if r.Case != c.Letter || r.What == "" || r.Unit == "" || r.Operations < 1 || r.Rate <= 0 || r.Requests <= 0 || r.Seconds <= 0 {
					t.Errorf("%+v", r)
				}
				if r.P50 > r.P90 || r.P90 > r.P99 || r.P99 > r.Max {
					t.Errorf("percentiles that do not grow: %+v", r)
				}
			}
			if _, err := load.Clean(t.Context(), s, cfg.Namespace); err != nil {
				t.Fatal(err)
			}
			for r := range s.List(t.Context(), "") {
				t.Errorf("%q is left in the store", r.Name)
			}
		})
	}
}

// measured returns the results of a case, which is given more time until there is something in each: a busy machine may do nothing in the time.
func measured(t *testing.T, cfg load.Config, c load.Case) []load.Result {
	t.Helper()
	for ; ; cfg.For *= 4 {
		results, err := c.Do(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(results, func(r load.Result) bool { return r.Operations == 0 }) || cfg.For > time.Minute {
			return results
		}
	}
}

// What the cases promise of the client holds here, where nothing disturbs.
func TestRequestsAreCounted(t *testing.T) {
	s := memstore.New()
	run := func(f func(context.Context, load.Config) ([]load.Result, error)) []load.Result {
		t.Helper()
		return measured(t, config(s), load.Case{Letter: "?", Run: f})
	}
	if r := run(load.Pair)[0]; r.Requests != 2 {
		t.Errorf("a pair makes %v requests; want 2", r.Requests)
	}
	if r := run(load.Refused)[0]; r.Requests != 1 {
		t.Errorf("a refused try makes %v requests; want 1", r.Requests)
	}
	if r := run(load.Many)[0]; r.Requests <= 0 || r.Requests > 2 {
		t.Errorf("one of many pairs makes %v requests; want at most 2", r.Requests)
	}
	tick := run(load.Tick)[0]
	if runs := more(t, tick, "runs a tick"); runs != float64(small.Jobs) {
		t.Errorf("%v runs a tick; want one of each of %d jobs", runs, small.Jobs)
	}
	elements := run(load.Elements)
	if one, many := elements[0].Requests, elements[len(elements)-1].Requests; one != 2 || many > 0.01 {
		t.Errorf("%v requests for an element, %v in batches", one, many)
	}
}

func more(t *testing.T, r load.Result, name string) float64 {
	t.Helper()
	for _, m := range r.More {
		if m.Name == name {
			return m.Value
		}
	}
	t.Fatalf("no figure %q in %+v", name, r)
	return 0
}

func TestAnErrorEndsACase(t *testing.T) {
	for _, c := range load.Cases {
		s := memstore.New()
		cfg := config(s)
		cfg.Open = func(context.Context) (store.Store, error) {
			closed := s.Share()
			_ = closed.Close()
			return closed, nil
		}
		if _, err := c.Do(t.Context(), cfg); err == nil || !strings.HasPrefix(err.Error(), "case "+c.Letter) {
			t.Errorf("case %s on a closed store: %v", c.Letter, err)
		}
	}
}

func TestTheEndOfTheContextEndsACase(t *testing.T) {
	for _, c := range load.Cases {
		cfg := config(memstore.New())
		cfg.For = time.Hour
		cfg.Size.Elements = 1e9
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, err := c.Do(ctx, cfg)
		cancel()
		if err == nil && c.Letter != "S" { // which may be over by then
			t.Errorf("case %s goes on without an error", c.Letter)
		}
	}
}

func TestQuantiles(t *testing.T) {
	var times, more load.Times
	if times.Quantile(0.5) != 0 || times.Max() != 0 {
		t.Error("an empty one has times")
	}
	for i := range 1000 {
		d := time.Duration(i+1) * time.Millisecond
		if i%2 == 0 {
			times.Add(d)
		} else {
			more.Add(d)
		}
	}
	times.Merge(&more)
	for q, want := range map[float64]time.Duration{0: time.Millisecond, 0.5: 500 * time.Millisecond, 0.99: 990 * time.Millisecond, 1: time.Second} {
		if got := times.Quantile(q); got < want-want/32 || got > want+want/32 {
			t.Errorf("quantile %v is %v; want %v", q, got, want)
		}
	}
	if times.Count() != 1000 || times.Max() != time.Second {
		t.Errorf("%d times up to %v", times.Count(), times.Max())
	}
	var one load.Times
	one.Add(-time.Second) // a clock that was set back
	one.Add(1<<63 - 1)
	if one.Quantile(0) != 0 || one.Quantile(1) < 1<<62 {
		t.Errorf("%v to %v", one.Quantile(0), one.Quantile(1))
	}
}

func TestChangesOfTheOwner(t *testing.T) {
	h := load.Changes([]load.Hold{
		{Waiter: 1, Granted: 400, Released: 500}, // out of order
		{Waiter: 0, Granted: 0, Released: 100},
		{Waiter: 0, Granted: 110, Released: 200}, // the same again
		{Waiter: 1, Granted: 230, Released: 350},
		{Waiter: 2, Granted: 490, Released: 600}, // before the one before had ended
	}, 4)
	if h.Holds != 5 || h.Changes != 2 || h.Overlap != 1 || h.Most != 2 || h.Fewest != 0 {
		t.Errorf("%+v", h)
	}
	if gap := h.Gaps.Max(); gap != 30 {
		t.Errorf("the longest gap is %v; want 30ns", gap)
	}
}

// TestMain lets this binary be a waiting process too.
func TestMain(m *testing.M) {
	if os.Getenv("LOAD_TEST_WAITER") == "" {
		os.Exit(m.Run())
	}
	open := func(context.Context) (store.Store, error) { return memstore.New(), nil }
	if err := load.Waiter(context.Background(), open, os.Stdin, os.Stdout); err != nil {
		os.Exit(1)
	}
}

func TestProcessesWait(t *testing.T) {
	cfg := config(memstore.New())
	cfg.Processes = func(ctx context.Context) *exec.Cmd {
		cmd := exec.CommandContext(ctx, os.Args[0])
		cmd.Env = append(os.Environ(), "LOAD_TEST_WAITER=1")
		return cmd
	}
	// Each has its own memory, so they do not exclude each other; that must be seen, when they have run long enough to run at the same time.
	for ; ; cfg.For *= 4 {
		results := measured(t, cfg, load.Cases[2])
		last := results[len(results)-1]
		if slices.ContainsFunc(last.More, func(m load.More) bool { return m.Name == "HOLDS THAT OVERLAP" && m.Value > 0 }) {
			return
		}
		if cfg.For > time.Minute {
			t.Fatalf("processes that do not exclude each other: %+v", last)
		}
	}
}

func TestAProcessThatFailsIsReported(t *testing.T) {
	cfg := config(memstore.New())
	cfg.Processes = func(ctx context.Context) *exec.Cmd { return exec.CommandContext(ctx, "false") }
	if _, err := load.Cases[2].Do(t.Context(), cfg); err == nil {
		t.Error("no error")
	}
	pipe, answers := io.Pipe()
	go func() {
		_ = load.Serve(t.Context(), strings.NewReader("{}\n"), answers, func(string) (func(context.Context, int) (func() error, error), func() int64, error) {
			return nil, nil, os.ErrPermission
		})
	}()
	var a load.Account
	if err := json.NewDecoder(pipe).Decode(&a); err != nil || a.Error != os.ErrPermission.Error() {
		t.Errorf("%+v, %v", a, err)
	}
}
