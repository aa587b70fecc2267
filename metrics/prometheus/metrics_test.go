package prommetrics_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/soloist-dev/soloist"
	prommetrics "github.com/soloist-dev/soloist/metrics/prometheus"
	"github.com/soloist-dev/soloist/soloisttest"
)

var background = context.Background()

// A watched is a client whose metrics are gathered.
type watched struct {
	*soloist.Client
	store   *soloisttest.Store
	metrics *prommetrics.Metrics
	reg     *prometheus.Registry
}

func watch(t *testing.T, opts prommetrics.Options) watched {
	t.Helper()
	w := watched{store: soloisttest.NewStore(), metrics: prommetrics.New(opts), reg: prometheus.NewPedanticRegistry()}
	if err := w.reg.Register(w.metrics); err != nil {
		t.Fatal(err)
	}
	w.Client = soloisttest.NewReplica(t, w.store, soloist.Config{Observe: w.metrics.Observe})
	return w
}

// values returns the series that are not 0, by name and labels; of a histogram its count and sum.
func (w watched) values(t *testing.T) map[string]float64 {
	t.Helper()
	synctest.Wait() // a context ends before its event
	families, err := w.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			var labels []string
			for _, label := range metric.GetLabel() {
				labels = append(labels, label.GetValue())
			}
			name := strings.TrimPrefix(family.GetName(), "soloist_")
			in := "{" + strings.Join(labels, ",") + "}"
			found[name+in] = metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
			found[name+"_count"+in] = float64(metric.GetHistogram().GetSampleCount())
			found[name+"_sum"+in] = metric.GetHistogram().GetSampleSum()
		}
	}
	maps.DeleteFunc(found, func(_ string, value float64) bool { return value == 0 })
	return found
}

// want compares the series whose names begin with one of the prefixes, and are not 0.
func (w watched) want(t *testing.T, want map[string]float64, prefixes ...string) {
	t.Helper()
	got := w.values(t)
	maps.DeleteFunc(got, func(name string, _ float64) bool {
		return !slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
	})
	if !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func ok(context.Context, *soloist.Lease) error { return nil }

func mustLock(t *testing.T, c *soloist.Client, name string) *soloist.Lease {
	t.Helper()
	l, err := c.Lock(background, name)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, prommetrics.Options{})
		begin := time.Now()
		ctx, stop := context.WithCancel(background)
		err := w.Run(ctx, soloist.Job{
			Name: "import", Schedule: soloist.At(begin.Add(time.Minute)), Retry: soloist.Retry{Attempts: 3, Backoff: time.Second},
			Do: func(_ context.Context, run soloist.Run) error {
				time.Sleep(10 * time.Second)
				w.want(t, map[string]float64{"leases_held{internal}": 1, "leases_held{job}": 1}, "leases_held")
				switch run.Attempt {
				case 1:
					return errors.New("not yet")
				case 2:
					w.want(t, map[string]float64{"last_failure_timestamp_seconds{import}": seconds(begin.Add(70 * time.Second))}, "last_")
					panic("not yet")
				}
				w.want(t, map[string]float64{"last_failure_timestamp_seconds{import}": seconds(time.Now().Add(-12 * time.Second))}, "last_")
				stop()
				return nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		got := w.values(t)
		w.want(t, map[string]float64{"last_failure_timestamp_seconds{import}": got["last_failure_timestamp_seconds{import}"], "last_success_timestamp_seconds{import}": seconds(time.Now())}, "last_")
		if d := got["start_delay_seconds_sum{import}"]; d < 0 || d > 1 {
			t.Errorf("start delay %f", d)
		}
		if got["start_delay_seconds_count{import}"] != 1 {
			t.Errorf("got %v; want one start, whatever the number of attempts", got)
		}
		w.want(t, map[string]float64{
			"runs_total{failed,import}": 1, "runs_total{panicked,import}": 1, "runs_total{ok,import}": 1,
			"run_duration_seconds_count{import}": 3, "run_duration_seconds_sum{import}": 30,
		}, "runs_total", "run_duration", "missed")
		w.want(t, map[string]float64{"acquire_total{job,granted}": 1, "acquire_total{internal,granted}": 1}, "leases_held", "acquire", "wait", "lease_lost")
	})
}

// seconds returns a time as a gauge has it.
func seconds(at time.Time) float64 { return float64(at.UnixMilli()) / 1000 }

// Every counter of a job is there from its first run on, so that increase() sees the first failure if a scrape comes before.
func TestCountersBeginAtZero(t *testing.T) {
	m := prommetrics.New(prommetrics.Options{})
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(m)
	count := func(name string, want int) {
		t.Helper()
		if n, err := testutil.GatherAndCount(reg, name); err != nil || n != want {
			t.Errorf("%s has %d series, want %d: %v", name, n, want, err)
		}
	}
	count("soloist_leases_held", 6)
	count("soloist_lease_lost_total", 6*4)
	count("soloist_acquire_total", 4*6+2)
	count("soloist_runs_total", 0)
	m.Observe(background, soloist.Event{Kind: soloist.EventRunStart, Subject: soloist.Subject{Kind: soloist.KindJob, Name: "import"}, Attempt: 1})
	count("soloist_runs_total", 5)
	count("soloist_missed_runs_total", 1)
}

func TestMissedRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, prommetrics.Options{})
		runs := 0
		job := func(stop func()) soloist.Job {
			return soloist.Job{Name: "import", Schedule: soloist.Every(time.Minute), Missed: soloist.MissedOnce, Do: func(context.Context, soloist.Run) error {
				runs++
				stop()
				return nil
			}}
		}
		var second time.Time
		for range 2 {
			second = time.Now()
			ctx, stop := context.WithCancel(background)
			if err := w.Run(ctx, job(stop)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Minute)
		}
		got := w.values(t)
		if missed := got["missed_runs_total{import}"]; missed < 5 || missed > 10 || runs != 2 {
			t.Errorf("%f missed in ten minutes without a replica, %d runs", missed, runs)
		}
		if at := got["last_missed_timestamp_seconds{import}"]; at != seconds(second) { // the first thing that a process does may be to count what was missed
			t.Errorf("last missed at %f, want %f", at, seconds(second))
		}
		if n := got["start_delay_seconds_count{import}"]; n != 2 {
			t.Errorf("%f starts", n)
		}
	})
}

// What is held is granted and neither lost nor released, whatever the order in which a lease is lost and released.
func TestLeasesHeldDoesNotDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, prommetrics.Options{})
		a, b, c := mustLock(t, w.Client, "a"), mustLock(t, w.Client, "b"), mustLock(t, w.Client, "c")
		short := mustLock(t, w.With(soloist.Options{AtMost: time.Minute}), "short")
		permit, err := w.Semaphore("s", 3).Acquire(background)
		if err != nil {
			t.Fatal(err)
		}
		w.want(t, map[string]float64{"leases_held{lock}": 4, "leases_held{permit}": 1}, "leases_held")
		_ = a.Release()
		_ = a.Release()
		soloisttest.LoseLease(t, w.store, b)
		_ = b.Release()
		w.want(t, map[string]float64{"leases_held{lock}": 2, "leases_held{permit}": 1, "lease_lost_total{gone,lock}": 1}, "leases_held", "lease_lost")
		<-short.Context().Done()
		w.want(t, map[string]float64{
			"leases_held{lock}": 1, "leases_held{permit}": 1, "lease_lost_total{gone,lock}": 1, "lease_lost_total{overran,lock}": 1,
		}, "leases_held", "lease_lost")
		w.store.Stall()
		<-c.Context().Done()
		<-permit.Context().Done()
		lost := map[string]float64{
			"lease_lost_total{gone,lock}": 1, "lease_lost_total{overran,lock}": 1, "lease_lost_total{unconfirmed,lock}": 1, "lease_lost_total{unconfirmed,permit}": 1,
		}
		w.want(t, lost, "leases_held", "lease_lost")
		w.store.Heal()
		for _, l := range []*soloist.Lease{c, permit, short} {
			_ = l.Release()
		}
		w.want(t, lost, "leases_held", "lease_lost")
	})
}

func TestOutcomesOfAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, prommetrics.Options{})
		other := soloisttest.NewReplica(t, w.store.Share(), soloist.Config{})
		held := mustLock(t, other, "x")
		_ = w.Do(background, "x", ok)                                               // held
		_ = w.With(soloist.Options{Wait: time.Minute}).Do(background, "x", ok)      // held after a minute
		time.AfterFunc(time.Hour, func() { _ = held.Release() })                    //
		_ = mustLock(t, w.Client, "x").Release()                                    // granted after an hour
		elements := w.Elements("invoices", soloist.ElementsOptions{})               //
		process := func(context.Context, *soloist.Element) error { return nil }     //
		_ = elements.Process(background, "1", process)                              // granted
		_ = elements.Process(background, "1", process)                              // done
		_, _ = elements.ClaimAll(background, []string{"1", "2"})                    // done, granted
		w.store.Stall()                                                             //
		_ = w.Do(background, "y", ok)                                               // unknown
		w.store.Heal()                                                              //
		w.store.Break(nil)                                                          //
		_ = w.Do(background, "y", ok)                                               // error
		w.store.Heal()                                                              //
		canceled, cancel := context.WithCancel(background)                          //
		cancel()                                                                    //
		_ = w.Client.With(soloist.Options{Wait: time.Minute}).Do(canceled, "z", ok) // canceled
		w.want(t, map[string]float64{
			"acquire_total{lock,held}": 2, "acquire_total{lock,granted}": 1, "acquire_total{lock,unknown}": 1, "acquire_total{lock,error}": 1, "acquire_total{lock,canceled}": 1,
			"acquire_total{element,granted}": 2, "acquire_total{element,done}": 2,
		}, "acquire_total")
		got := w.values(t)
		if got["wait_duration_seconds_count{lock}"] != 6 || got["wait_duration_seconds_sum{lock}"] < 3660 {
			t.Errorf("waits: %v", got)
		}
	})
}

func TestRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, prommetrics.Options{})
		w.store.Slow(time.Second)
		if err := w.Semaphore("s", 3).Do(background, ok); err != nil {
			t.Fatal(err)
		}
		w.want(t, map[string]float64{
			"store_request_duration_seconds_count{ok,choose}": 1, "store_request_duration_seconds_sum{ok,choose}": 1,
			"store_request_duration_seconds_count{ok,release}": 1, "store_request_duration_seconds_sum{ok,release}": 1,
			"store_batch_size_count{choose}": 1, "store_batch_size_sum{choose}": 3, "store_batch_size_count{release}": 1, "store_batch_size_sum{release}": 1,
		}, "store_")
		w.store.Heal()
		w.store.Break(nil)
		_ = w.Do(background, "x", ok)
		if n := w.values(t)["store_request_duration_seconds_count{error,acquire}"]; n != 1 {
			t.Errorf("%f failed requests", n)
		}
	})
}

// Names that users choose freely are in no label: their number has no bound, and they can be secret.
func TestFreeNamesAreInNoMetric(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, prommetrics.Options{})
		const free = "free-name"
		l := mustLock(t, w.Client, free+"-lock")
		_ = w.Do(background, free+"-lock", ok)
		soloisttest.LoseLease(t, w.store, l)
		_ = l.Release()
		_ = w.Semaphore(free+"-semaphore", 2).Do(background, ok)
		led, stop := context.WithCancel(background)
		_ = w.Lead(led, free+"-leader", func(context.Context, *soloist.Lease) error { stop(); return nil })
		elements := w.Elements(free+"-elements", soloist.ElementsOptions{})
		_ = elements.Process(background, free+"-id", func(context.Context, *soloist.Element) error { return errors.New(free + "-error") })
		_, _ = elements.ClaimAll(background, []string{free + "-id", free + "-other"})
		w.store.Break(errors.New(free + "-store"))
		_ = w.Do(background, free+"-lock", ok)
		got := w.values(t)
		for series := range got {
			if strings.Contains(series, free) {
				t.Error(series)
			}
		}
		for _, kind := range []soloist.Kind{soloist.KindLock, soloist.KindPermit, soloist.KindLeader, soloist.KindElement} {
			if got[fmt.Sprintf("acquire_total{%s,granted}", kind)] == 0 {
				t.Errorf("nothing was granted for a %s, so this test shows nothing", kind)
			}
		}
	})
}

// A program with a job for each of its customers gives them one label. Text that Prometheus refuses is mended.
func TestTask(t *testing.T) {
	w := watch(t, prommetrics.Options{Task: func(job string) string {
		kind, _, _ := strings.Cut(job, ":")
		return kind
	}})
	for _, job := range []string{"bill:1", "bill:2", "\xff:3"} {
		w.metrics.Observe(background, soloist.Event{Kind: soloist.EventRunEnd, Subject: soloist.Subject{Kind: soloist.KindJob, Name: job}, Outcome: soloist.OutcomeOK})
	}
	if err := testutil.GatherAndCompare(w.reg, strings.NewReader(`
# HELP soloist_runs_total Attempts at runs of jobs that ended, by outcome.
# TYPE soloist_runs_total counter
soloist_runs_total{outcome="ok",task="bill"} 2
soloist_runs_total{outcome="ok",task="�"} 1
`), "soloist_runs_total"); err != nil {
		t.Error(err)
	}
}

// Events come from many goroutines, while metrics are gathered.
func TestObserveFromManyGoroutines(t *testing.T) {
	m := prommetrics.New(prommetrics.Options{})
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(m)
	job, lock := soloist.Subject{Kind: soloist.KindJob, Name: "import"}, soloist.Subject{Kind: soloist.KindLock, Name: "x"}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 200 {
				m.Observe(background, soloist.Event{Kind: soloist.EventGranted, Subject: lock})
				m.Observe(background, soloist.Event{Kind: soloist.EventRunStart, Subject: job, Attempt: 1})
				m.Observe(background, soloist.Event{Kind: soloist.EventRunEnd, Subject: job, Outcome: soloist.OutcomeOK})
				m.Observe(background, soloist.Event{Kind: soloist.EventRequest, Verb: soloist.VerbExtend, Outcome: "ok", Size: 3})
				m.Observe(background, soloist.Event{Kind: soloist.EventReleased, Subject: lock})
			}
		})
		all.Go(func() {
			for range 5 {
				if _, err := reg.Gather(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if err := testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP soloist_missed_runs_total Scheduled times that were missed and are not run.
# TYPE soloist_missed_runs_total counter
soloist_missed_runs_total{task="import"} 0
# HELP soloist_runs_total Attempts at runs of jobs that ended, by outcome.
# TYPE soloist_runs_total counter
soloist_runs_total{outcome="failed",task="import"} 0
soloist_runs_total{outcome="interrupted",task="import"} 0
soloist_runs_total{outcome="lost",task="import"} 0
soloist_runs_total{outcome="ok",task="import"} 1600
soloist_runs_total{outcome="panicked",task="import"} 0
`), "soloist_runs_total", "soloist_missed_runs_total"); err != nil {
		t.Error(err)
	}
}

// full returns metrics with at least one series of each.
func full(t *testing.T) *prometheus.Registry {
	t.Helper()
	m := prommetrics.New(prommetrics.Options{})
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(m)
	job := soloist.Subject{Kind: soloist.KindJob, Name: "import"}
	for _, e := range []soloist.Event{
		{Kind: soloist.EventRequest, Verb: soloist.VerbAcquire, Outcome: "ok", Size: 1},
		{Kind: soloist.EventGranted, Subject: soloist.Subject{Kind: soloist.KindLock}},
		{Kind: soloist.EventMissed, Subject: job, Missed: 1},
		{Kind: soloist.EventRunStart, Subject: job, Attempt: 1},
		{Kind: soloist.EventRunEnd, Subject: job, Outcome: soloist.OutcomeOK},
		{Kind: soloist.EventRunEnd, Subject: job, Outcome: soloist.OutcomeFailed},
	} {
		m.Observe(background, e)
	}
	return reg
}

func TestNamesAreAsPrometheusAdvises(t *testing.T) {
	problems, err := testutil.GatherAndLint(full(t))
	if err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}

// The page for operators lists every metric with its labels, and its queries name no other.
func TestPageListsTheMetrics(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "operate", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	families, err := full(t).Gather()
	if err != nil || len(families) != 13 {
		t.Fatalf("%d metrics: %v", len(families), err)
	}
	known := map[string]bool{}
	for _, family := range families {
		var labels []string
		for _, label := range family.GetMetric()[0].GetLabel() {
			labels = append(labels, "`"+label.GetName()+"`")
		}
		slices.Sort(labels)
		kind := strings.ToLower(family.GetType().String())
		if row := fmt.Sprintf("\n| `%s` | %s | %s |", family.GetName(), kind, strings.Join(labels, ", ")); !strings.Contains(page, row) {
			t.Errorf("the page has no row %s", row)
		}
		for _, suffix := range []string{"", "_bucket", "_count", "_sum"} {
			known[family.GetName()+suffix] = suffix == "" || kind == "histogram"
		}
	}
	for _, name := range ofCron {
		if known[name] = true; !strings.Contains(page, "\n| `"+name+"` | gauge | | ") {
			t.Errorf("the page has no row of the gauge %s", name)
		}
	}
	for _, name := range regexp.MustCompile(`soloist_\w+`).FindAllString(page, -1) {
		if !known[name] {
			t.Errorf("the page names %s, which is no metric", name)
		}
	}
}

// Names that callers choose freely make no series: 100,000 of them have as many as one.
func TestSeriesDoNotGrowWithNames(t *testing.T) {
	metrics, reg := prommetrics.New(prommetrics.Options{}), prometheus.NewPedanticRegistry()
	if err := reg.Register(metrics); err != nil {
		t.Fatal(err)
	}
	use := func(name string) {
		for _, kind := range []soloist.Kind{soloist.KindLock, soloist.KindLeader, soloist.KindPermit, soloist.KindElement} {
			subject := soloist.Subject{Kind: kind, Name: name}
			for _, e := range []soloist.Event{
				{Kind: soloist.EventGranted}, {Kind: soloist.EventRefused, Err: soloist.ErrHeld}, {Kind: soloist.EventLost, Outcome: "expired"}, {Kind: soloist.EventReleased},
			} {
				e.Subject = subject
				metrics.Observe(background, e)
			}
		}
	}
	count := func() int {
		n, err := testutil.GatherAndCount(reg)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	use("first")
	before := count()
	for i := range 100_000 {
		use(fmt.Sprint("name-", i))
	}
	if after := count(); after != before || before == 0 {
		t.Errorf("%d series for one name, %d for 100,000 more", before, after)
	}
}
