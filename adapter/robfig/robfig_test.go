package robfig_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	_ "time/tzdata"

	"github.com/robfig/cron/v3"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/adapter/robfig"
	"github.com/soloist-dev/soloist/soloisttest"
)

// A record is a cron.Logger that remembers what it was told.
type record struct {
	mu    sync.Mutex
	infos []string
	errs  []error
}

func (r *record) Info(msg string, keysAndValues ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.infos = append(r.infos, fmt.Sprint(append([]any{msg}, keysAndValues...)...))
}

func (r *record) Error(err error, _ string, _ ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs = append(r.errs, err)
}

// The Runner of soloist runs each scheduled time of a robfig spec once in the fleet, with its scheduled time.
func TestEachScheduledTimeIsRunOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, s := soloisttest.NewClient(t)
		b := soloisttest.NewReplica(t, s, soloist.Config{})
		schedule, err := robfig.Parse("*/10 * * * *", time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var ran []string
		job := soloist.Job{Name: "report", Schedule: schedule, Do: func(_ context.Context, run soloist.Run) error {
			mu.Lock()
			defer mu.Unlock()
			ran = append(ran, run.ScheduledAt.Format("15:04:05"))
			return nil
		}}
		ctx, cancel := context.WithTimeout(t.Context(), 35*time.Minute) // the bubble begins at midnight
		defer cancel()
		var fleet sync.WaitGroup
		for _, c := range []*soloist.Client{a, b} {
			fleet.Go(func() {
				if err := c.Run(ctx, job); err != nil {
					t.Error(err)
				}
			})
		}
		fleet.Wait()
		if got, want := strings.Join(ran, " "), "00:10:00 00:20:00 00:30:00"; got != want {
			t.Errorf("ran %s; want %s", got, want)
		}
	})
}

// A schedule has the same times as cron has in that zone, whatever the zone of the question.
func TestScheduleHasTheTimesOfCron(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range []string{"30 2 * * *", "0 0 1 * *", "*/20 1-3 * * SUN", "CRON_TZ=Asia/Tokyo 0 9 * * *", "@weekly"} {
		theirs, err := cron.ParseStandard(spec)
		if err != nil {
			t.Fatal(err)
		}
		ours, err := robfig.Parse(spec, berlin)
		if err != nil {
			t.Fatal(err)
		}
		at := time.Date(2026, 3, 27, 23, 59, 59, 5e8, time.UTC)
		for range 400 {
			want, got := theirs.Next(at.In(berlin)), ours.Next(at)
			if !got.Equal(want) || !got.After(at) || got.Location() != time.UTC {
				t.Fatalf("%s after %v: %v; cron has %v", spec, at, got, want)
			}
			at = got
		}
	}
	never, err := robfig.Parse("0 0 30 2 *", berlin)
	if err != nil {
		t.Fatal(err)
	}
	if next := never.Next(time.Now()); !next.IsZero() {
		t.Errorf("30 February is %v", next)
	}
}

// Cron counts an interval from when it is asked, and replicas are not asked at the same time.
func TestIntervalsAreTheSameOnAllReplicas(t *testing.T) {
	for _, s := range []cron.Schedule{cron.Every(90 * time.Second), &cron.ConstantDelaySchedule{Delay: 90 * time.Second}} {
		ours, err := robfig.Schedule(s, "@every 90s", time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		if x, y := ours.Next(at.Add(time.Second)), ours.Next(at.Add(40*time.Second)); !x.Equal(y) {
			t.Errorf("two replicas have %v and %v", x, y)
		}
	}
}

// Lists show a schedule as its spec, with its zone.
func TestScheduleHasAText(t *testing.T) {
	for spec, want := range map[string]string{
		"30 2 * * *":                      "CRON_TZ=UTC 30 2 * * *",
		"CRON_TZ=Asia/Tokyo 30 2 * * *":   "CRON_TZ=Asia/Tokyo 30 2 * * *",
		"TZ=Europe/Berlin 30 2 * * MON":   "TZ=Europe/Berlin 30 2 * * MON",
		"@daily":                          "CRON_TZ=UTC @daily",
		"CRON_TZ=Europe/Berlin @midnight": "CRON_TZ=Europe/Berlin @midnight",
	} {
		s, err := robfig.Parse(spec, time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(s); got != want {
			t.Errorf("%s is shown as %q; want %q", spec, got, want)
		}
	}
}

// A zone without changes is shown by its name only if others find that zone under the name, and by its offset if not.
func TestTextOfAFixedZone(t *testing.T) {
	for want, loc := range map[string]*time.Location{
		"CRON_TZ=+01:00:00 30 2 * * *": time.FixedZone("CET", 3600), // CET has a summer time
		"CRON_TZ=-05:30:00 30 2 * * *": time.FixedZone("Head office", -5*3600-1800),
		"CRON_TZ=+02:00:00 30 2 * * *": time.FixedZone("", 7200),
		"CRON_TZ=+03:00:00 30 2 * * *": time.FixedZone("Local", 3*3600),
		"CRON_TZ=+04:00:00 30 2 * * *": time.FixedZone("UTC", 4*3600),
		"CRON_TZ=UTC 30 2 * * *":       time.FixedZone("", 0),
		"CRON_TZ=Etc/GMT-1 30 2 * * *": time.FixedZone("Etc/GMT-1", 3600),
	} {
		s, err := robfig.Parse("30 2 * * *", loc)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(s); got != want {
			t.Errorf("the zone %q is shown as %q; want %q", loc, got, want)
		}
	}
}

func TestInputThatIsNotValidIsNamed(t *testing.T) {
	client, _ := soloisttest.NewClient(t)
	logger := cron.DiscardLogger
	parsed, _ := cron.ParseStandard("@daily")
	for what, try := range map[string]func() error{
		"spec":      func() error { _, err := robfig.Parse("61 * * * *", time.UTC); return err },
		"after the": func() error { _, err := robfig.Parse("CRON_TZ=UTC", time.UTC); return err },
		"same on":   func() error { _, err := robfig.Parse("@daily", time.Local); return err },
		"location":  func() error { _, err := robfig.Parse("@daily", nil); return err },
		"schedule":  func() error { _, err := robfig.Schedule(nil, "@daily", time.UTC); return err },
		"text":      func() error { _, err := robfig.Schedule(parsed, "", time.UTC); return err },
		"client":    func() error { _, err := robfig.Singleton(nil, "report", time.Second, logger); return err },
		"logger":    func() error { _, err := robfig.Singleton(client, "report", time.Second, nil); return err },
		"hold":      func() error { _, err := robfig.Singleton(client, "report", 0, logger); return err },
		"name":      func() error { _, err := robfig.Singleton(client, "", time.Second, logger); return err },
		"AtLeast": func() error {
			_, err := robfig.Singleton(client.With(soloist.Options{AtMost: time.Minute}), "report", time.Hour, logger)
			return err
		},
	} {
		err := try()
		var invalid *soloist.InvalidError
		if !errors.As(err, &invalid) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v; want an InvalidError with that word", what, err)
		}
	}
}

// fire starts a Cron with one job that is due each minute, and returns when d has passed and its jobs have ended.
func fire(d time.Duration, wrapper cron.JobWrapper, job func(), outer ...cron.JobWrapper) {
	c := cron.New(cron.WithLocation(time.UTC), cron.WithLogger(cron.DiscardLogger), cron.WithChain(outer...))
	c.Schedule(&cron.SpecSchedule{Second: 1, Minute: 1<<60 - 1, Hour: 1<<24 - 1, Dom: 1<<32 - 2, Month: 1<<13 - 2, Dow: 1<<7 - 1, Location: time.UTC},
		cron.NewChain(wrapper).Then(cron.FuncJob(job)))
	c.Start()
	time.Sleep(d)
	<-c.Stop().Done()
}

func singleton(t *testing.T, c *soloist.Client, hold time.Duration, logger cron.Logger) cron.JobWrapper {
	t.Helper()
	w, err := robfig.Singleton(c, "report", hold, logger)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// Two replicas whose clocks differ by less than the hold run each time once, however short the job is.
func TestSingletonRunsAShortJobOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, s := soloisttest.NewClient(t)
		b := soloisttest.NewReplica(t, s, soloist.Config{})
		var mu sync.Mutex
		ran := map[string]int{}
		job := func() {
			mu.Lock()
			defer mu.Unlock()
			ran[time.Now().UTC().Format("04")]++
		}
		var log record
		late := func(inner cron.Job) cron.Job { // the clock of b is 5 s behind
			return cron.FuncJob(func() { time.Sleep(5 * time.Second); inner.Run() })
		}
		var fleet sync.WaitGroup
		fleet.Go(func() { fire(3*time.Minute+30*time.Second, singleton(t, a, 20*time.Second, &log), job) })
		fleet.Go(func() { fire(3*time.Minute+30*time.Second, singleton(t, b, 20*time.Second, &log), job, late) })
		fleet.Wait()
		if fmt.Sprint(ran) != "map[01:1 02:1 03:1]" || len(log.infos) != 3 || len(log.errs) != 0 {
			t.Errorf("runs by minute: %v, skipped %v, errors %v; want one run and one skip each minute", ran, log.infos, log.errs)
		}
	})
}

// A job that lasts beyond the next time is not run beside itself.
func TestSingletonDoesNotOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, s := soloisttest.NewClient(t)
		b := soloisttest.NewReplica(t, s, soloist.Config{})
		var mu sync.Mutex
		var running, most int
		job := func() {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			time.Sleep(100 * time.Second)
			mu.Lock()
			running--
			mu.Unlock()
		}
		var fleet sync.WaitGroup
		for _, c := range []*soloist.Client{a, b} {
			fleet.Go(func() { fire(5*time.Minute+time.Second, singleton(t, c, time.Second, cron.DiscardLogger), job) })
		}
		fleet.Wait()
		if most != 1 {
			t.Errorf("%d runs at a time", most)
		}
	})
}

// A panic passes to the wrappers outside, and the lock is free for the next time.
func TestSingletonPassesOnAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, _ := soloisttest.NewClient(t)
		var log record // of the wrapper outside
		runs := 0
		inner := singleton(t, client, time.Second, cron.DiscardLogger)
		fire(2*time.Minute+30*time.Second, inner, func() { runs++; panic("boom") }, cron.Recover(&log))
		var panicked *soloist.PanicError
		if runs != 2 || len(log.errs) != 2 || !errors.As(log.errs[0], &panicked) || panicked.Value != "boom" {
			t.Errorf("%d runs, errors %v; want two of boom", runs, log.errs)
		}
	})
}

// A run that the store did not allow is not made, and a lost lease is reported.
func TestSingletonReportsWhatItCouldNotDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, s := soloisttest.NewClient(t)
		var log record
		down := errors.New("the store is down")
		s.Break(down)
		fire(90*time.Second, singleton(t, client, time.Second, &log), func() { t.Error("it ran without the lock") })
		if len(log.errs) != 1 || !errors.Is(log.errs[0], down) {
			t.Errorf("errors: %v; want that of the store", log.errs)
		}
		s.Heal()
		log.errs = nil
		fire(time.Minute, singleton(t, client, time.Second, &log), func() {
			s.Stall()
			time.Sleep(time.Minute) // longer than the TTL
			s.Heal()
		})
		if len(log.errs) != 1 || !errors.Is(log.errs[0], soloist.ErrLost) {
			t.Errorf("errors: %v; want ErrLost", log.errs)
		}
	})
}

// BenchmarkSingleton compares a job that another replica has with what its client does of it.
func BenchmarkSingleton(b *testing.B) {
	client, _ := soloisttest.NewClient(b)
	wrapper, err := robfig.Singleton(client, "report", time.Hour, cron.DiscardLogger)
	if err != nil {
		b.Fatal(err)
	}
	runs := 0
	job := wrapper(cron.FuncJob(func() { runs++ }))
	job.Run()
	b.Run("do", func(b *testing.B) {
		for b.Loop() {
			if err := client.Do(b.Context(), "report", func(context.Context, *soloist.Lease) error { return nil }); !errors.Is(err, soloist.ErrHeld) {
				b.Fatal(err)
			}
		}
	})
	b.Run("singleton", func(b *testing.B) {
		for b.Loop() {
			job.Run()
		}
	})
	if runs != 1 {
		b.Errorf("%d runs", runs)
	}
}

func BenchmarkSchedule(b *testing.B) {
	spec, err := cron.ParseStandard("0 9 * * MON-FRI")
	if err != nil {
		b.Fatal(err)
	}
	schedule, err := robfig.Schedule(spec, "0 9 * * MON-FRI", time.UTC)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("cron", func(b *testing.B) {
		at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		for b.Loop() {
			at = spec.Next(at)
		}
	})
	b.Run("adapted", func(b *testing.B) {
		at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		for b.Loop() {
			at = schedule.Next(at)
		}
	})
}
