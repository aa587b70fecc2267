package soloist_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/cron"
	"github.com/soloist-dev/soloist/soloisttest"
)

// Jobs with one expression are spread by their names, the same on each replica.
func TestScheduleDependsOnTheNameOfTheJob(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		spread := cron.MustParse("@every 1h offset H")
		for _, name := range []string{"acme", "globex"} {
			var r recorder
			begin := time.Now()
			for _, c := range []*soloist.Client{a, b} {
				start(t, c, soloist.Job{Name: name, Schedule: spread, Do: r.do})
			}
			time.Sleep(time.Hour)
			synctest.Wait()
			named, err := spread.For(name)
			if err != nil {
				t.Fatal(err)
			}
			check(t, "scheduled", r.scheduled(begin), []time.Duration{named.Next(begin).Sub(begin)})
		}
	})
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		never := cron.MustParse("0 0 H(27-31) 2 *")
		for i := range 100 {
			if _, err := never.For(fmt.Sprint(i)); err != nil {
				err := a.Run(background, soloist.Job{Name: fmt.Sprint(i), Schedule: never, Do: (&recorder{}).do})
				if wrong := (*cron.ParseError)(nil); !errors.As(err, &wrong) {
					t.Fatalf("a job that would never run: %v", err)
				}
				return
			}
		}
		t.Error("no name was found for which the expression never fires")
	})
}

func TestDelayCountsFromTheEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		var starts []time.Duration
		begin := time.Now()
		job := soloist.Job{Name: "tick", Schedule: soloist.Delay(10 * time.Second), Do: func(context.Context, soloist.Run) error {
			starts = append(starts, time.Since(begin).Round(100*time.Millisecond))
			time.Sleep(3 * time.Second)
			return nil
		}}
		start(t, a, job)
		start(t, b, job)
		time.Sleep(50 * time.Second)
		synctest.Wait()
		check(t, "starts", starts, []time.Duration{0, 13 * time.Second, 26 * time.Second, 39 * time.Second})
	})
}

func TestOneOffRunsOnceForTheFleet(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		var r recorder
		begin := time.Now()
		job := soloist.Job{Name: "once", Schedule: soloist.At(begin.Add(time.Minute)), Missed: soloist.MissedOnce, Do: r.do}
		time.Sleep(time.Hour)
		stop := start(t, a, job)
		time.Sleep(time.Second)
		stop()
		start(t, b, job)
		time.Sleep(time.Hour)
		synctest.Wait()
		check(t, "scheduled", r.scheduled(begin), []time.Duration{time.Minute})
	})
}

// between is a schedule of the application's own, whose times lie between two milliseconds.
type between struct{ soloist.Schedule }

func (b between) Next(after time.Time) time.Time {
	const past = 500 * time.Microsecond
	return b.Schedule.Next(after.Add(-past)).Add(past)
}

// Each time of a schedule is run once, as the next whole millisecond if it is none itself: a record counts in those.
func TestTimesBetweenMilliseconds(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		s.Slow(5 * time.Millisecond)
		begin := time.Now()
		time.Sleep(10 * time.Second)
		var r recorder
		start(t, a, soloist.Job{Name: "tick", Schedule: between{soloist.Every(30 * time.Second)}, Do: r.do})
		time.Sleep(51 * time.Second)
		synctest.Wait()
		check(t, "scheduled", r.scheduled(begin), []time.Duration{30*time.Second + time.Millisecond, 60*time.Second + time.Millisecond})
		calls := s.Calls()
		time.Sleep(10 * time.Second)
		if calls = s.Calls() - calls; calls > 100 {
			t.Errorf("%d requests within 10 s in which nothing was due", calls)
		}
		info, err := a.Admin().Job(background, "tick")
		if err != nil || info.Schedule != "soloist_test.between" {
			t.Errorf("listed as %q: %v", info.Schedule, err)
		}
	})
}
