package soloist_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
	"github.com/soloist-dev/soloist/store"
)

func TestEachScheduledTimeRunsOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		var r recorder
		begin := time.Now()
		job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Second), Do: r.do}
		start(t, a, job)
		start(t, b, job)
		time.Sleep(60*time.Second + 500*time.Millisecond)
		synctest.Wait()
		check(t, "scheduled", r.scheduled(begin), seconds(1, 60))
		for i, run := range r.all() {
			if late := r.began()[i].Sub(run.ScheduledAt); late > 100*time.Millisecond || late < 0 {
				t.Errorf("the run of %v began %v after it", run.ScheduledAt, late)
			}
			if i > 0 && run.Lease.Token() <= r.all()[i-1].Lease.Token() {
				t.Errorf("token %d after %d", run.Lease.Token(), r.all()[i-1].Lease.Token())
			}
		}
	})
}

// A replica dies in the middle of a run: the run is taken over when its lease ends, and nothing due meanwhile is left out.
func TestRunOfADeadReplicaIsTakenOver(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, _, b *soloist.Client) {
		network := soloisttest.NewStore()
		b = soloisttest.NewReplica(t, network.Share(), soloist.Config{Replica: "b"})
		a := soloisttest.NewReplica(t, network, soloist.Config{Replica: "a"})
		var r recorder
		begin := time.Now()
		hang := func(ctx context.Context, run soloist.Run) error {
			if run.ScheduledAt.Sub(begin) == 3*time.Second {
				network.Stall() // from now on a is cut off
				<-ctx.Done()
				return ctx.Err()
			}
			return r.do(ctx, run)
		}
		start(t, a, soloist.Job{Name: "tick", Schedule: soloist.Every(time.Second), TTL: 6 * time.Second, Do: hang})
		time.Sleep(3500 * time.Millisecond)
		start(t, b, soloist.Job{Name: "tick", Schedule: soloist.Every(time.Second), TTL: 6 * time.Second, Do: r.do})
		time.Sleep(11 * time.Second)
		synctest.Wait()
		check(t, "scheduled", r.scheduled(begin), seconds(1, 14))
		if third := r.all()[2]; third.Attempt != 2 {
			t.Errorf("the run that was taken over has attempt %d", third.Attempt)
		}
		if late := r.began()[2].Sub(begin); late > 10*time.Second {
			t.Errorf("taken over after %v", late)
		}
		info, err := b.Admin().Job(background, "tick")
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(info.Runs, func(r soloist.RunRecord) bool { return r.Outcome == soloist.OutcomeAbandoned })
		if i < 0 || info.Runs[i].ScheduledAt.Sub(begin) != 3*time.Second || info.Runs[i].Replica != "a" || info.Runs[i].Token == 0 {
			t.Errorf("the history does not show the abandoned run and who died: %+v", info.Runs)
		}
	})
}

func TestGiveUpRunsAtMostOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		var r recorder
		begin := time.Now()
		job := func(do func(context.Context, soloist.Run) error) soloist.Job {
			return soloist.Job{Name: "tick", Schedule: soloist.Every(10 * time.Second), TTL: 6 * time.Second, Crash: soloist.CrashGiveUp, Do: do}
		}
		start(t, a, job(func(ctx context.Context, run soloist.Run) error {
			_ = r.do(ctx, run)
			s.Stall()
			<-ctx.Done()
			return ctx.Err()
		}))
		time.Sleep(10500 * time.Millisecond)
		stop := start(t, b, job(r.do))
		time.Sleep(25 * time.Second)
		stop()
		check(t, "scheduled", r.scheduled(begin), []time.Duration{10 * time.Second, 20 * time.Second, 30 * time.Second})
		info, _ := b.Admin().Job(background, "tick")
		if !slices.ContainsFunc(info.Runs, func(r soloist.RunRecord) bool { return r.Outcome == soloist.OutcomeAbandoned }) {
			t.Errorf("the history does not show the abandoned run: %+v", info.Runs)
		}
		s.Heal()
	})
}

func TestMissedRuns(t *testing.T) {
	for _, test := range []struct {
		missed soloist.Missed
		limit  int
		want   []time.Duration // minutes after the start, when the fleet was away from 1:30 to 10:10 with a grace of 15 s
	}{
		{soloist.MissedSkip, 0, []time.Duration{1, 10, 11}},
		{soloist.MissedOnce, 0, []time.Duration{1, 9, 10, 11}},
		{soloist.MissedAll, 0, []time.Duration{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
		{soloist.MissedAll, 3, []time.Duration{1, 7, 8, 9, 10, 11}},
	} {
		t.Run(fmt.Sprint(test.missed, test.limit), func(t *testing.T) {
			inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
				var r recorder
				begin := time.Now()
				job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), Grace: 15 * time.Second, Missed: test.missed, MissedCap: test.limit, Do: r.do}
				stop := start(t, a, job)
				time.Sleep(90 * time.Second)
				stop()
				time.Sleep(8*time.Minute + 40*time.Second)
				start(t, b, job)
				time.Sleep(80 * time.Second)
				synctest.Wait()
				got := r.scheduled(begin)
				for i := range got {
					got[i] /= time.Minute
				}
				check(t, "minutes", got, test.want)
			})
		})
	}
}

// With MissedAll each of the missed times is run also where several are due within a second.
func TestMissedRunsWithinASecond(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		var r recorder
		begin := time.Now()
		const pace = 250 * time.Millisecond
		job := soloist.Job{Name: "tick", Schedule: soloist.Every(pace), Grace: pace / 5, Missed: soloist.MissedAll, Do: r.do}
		stop := start(t, a, job)
		time.Sleep(4*pace + pace/2)
		stop()
		time.Sleep(8 * pace)
		start(t, b, job)
		time.Sleep(2 * pace)
		synctest.Wait()
		var want []time.Duration
		for n := range 14 {
			want = append(want, time.Duration(n+1)*pace)
		}
		check(t, "scheduled", r.scheduled(begin), want)
	})
}

// A Grace or Jitter with which no instant could be computed is refused; with the longest Grace every time since the job is known is run.
func TestLongestGrace(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		var r recorder
		begin := time.Now()
		job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), Jitter: time.Second, Do: r.do}
		for field, set := range map[string]func(*soloist.Job, time.Duration){
			"Grace":  func(j *soloist.Job, d time.Duration) { j.Grace = d },
			"Jitter": func(j *soloist.Job, d time.Duration) { j.Jitter = d },
		} {
			for _, long := range []time.Duration{store.MaxTTL + 1, soloist.Forever} {
				bad := job
				set(&bad, long)
				var invalid *soloist.InvalidError
				if _, err := a.NewRunner(bad); !errors.As(err, &invalid) || invalid.What != field {
					t.Errorf("%s %v: %v", field, long, err)
				}
			}
		}
		job.Grace = store.MaxTTL
		stop := start(t, a, job)
		time.Sleep(90 * time.Second)
		stop()
		time.Sleep(5 * time.Minute)
		start(t, b, job)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		check(t, "scheduled", r.scheduled(begin), []time.Duration{time.Minute, 2 * time.Minute, 3 * time.Minute, 4 * time.Minute, 5 * time.Minute, 6 * time.Minute})
	})
}

// A job that is first seen has missed nothing, and later replicas count from then.
func TestMissedRunsCountFromTheFirstReplica(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		var r recorder
		begin := time.Now()
		job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), Missed: soloist.MissedAll, Do: r.do}
		time.Sleep(150 * time.Second)
		stop := start(t, a, job)
		time.Sleep(time.Second)
		stop() // before it was ever due
		time.Sleep(5 * time.Minute)
		start(t, b, job)
		time.Sleep(time.Second)
		synctest.Wait()
		check(t, "scheduled", r.scheduled(begin), []time.Duration{3 * time.Minute, 4 * time.Minute, 5 * time.Minute, 6 * time.Minute, 7 * time.Minute})
	})
}

func TestPauseAndResume(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		var r recorder
		begin := time.Now()
		job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Second), Missed: soloist.MissedAll, Do: r.do}
		start(t, a, job)
		start(t, b, job)
		operator := soloisttest.NewReplica(t, s.Share(), soloist.Config{Replica: "operator"})
		time.Sleep(5*time.Second + 500*time.Millisecond)
		if err := operator.Admin().Pause(background, "tick", "maintenance"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		info, _ := operator.Admin().Job(background, "tick")
		if info.Paused == nil || info.Paused.Reason != "maintenance" || info.Paused.By != "operator" {
			t.Errorf("pause: %+v", info.Paused)
		}
		if err := operator.Admin().Resume(background, "tick"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		check(t, "scheduled", r.scheduled(begin), append(seconds(1, 5), seconds(16, 20)...))
	})
}

func TestTriggerRunsOnceNow(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		var r recorder
		begin := time.Now()
		job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Do: r.do}
		start(t, a, job)
		start(t, b, job)
		time.Sleep(time.Minute)
		for range 2 {
			if err := b.Admin().Trigger(background, "tick"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			synctest.Wait()
		}
		if len(r.all()) != 2 || !r.all()[0].Manual || r.began()[0].Sub(begin) > 61*time.Second {
			t.Fatalf("runs: %+v at %v", r.all(), r.began())
		}
		if err := b.Admin().Pause(background, "tick", ""); err != nil {
			t.Fatal(err)
		}
		if err := a.Admin().Trigger(background, "tick"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if len(r.all()) != 3 {
			t.Errorf("a paused job does not run by hand: %+v", r.all())
		}
		_ = b.Admin().Resume(background, "tick")
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(r.all()) != 4 || r.all()[3].Manual || r.all()[3].ScheduledAt.Sub(begin) != time.Hour {
			t.Errorf("the schedule was disturbed: %+v", r.all())
		}
		if err := b.Admin().Trigger(background, "tock"); !errors.Is(err, soloist.ErrNoJob) {
			t.Errorf("an unknown job: %v", err)
		}
	})
}

func TestOverlapNever(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		running, most := 0, 0
		job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Second), Do: func(context.Context, soloist.Run) error {
			running++
			most = max(most, running)
			time.Sleep(2500 * time.Millisecond)
			running--
			return nil
		}}
		start(t, a, job)
		start(t, b, job)
		time.Sleep(time.Minute)
		synctest.Wait()
		if most != 1 {
			t.Errorf("%d at once", most)
		}
	})
}

func TestAtLeastSpacesRuns(t *testing.T) {
	for atLeast, want := range map[time.Duration][]time.Duration{
		time.Minute: {30 * time.Second, 90 * time.Second, 150 * time.Second, 210 * time.Second},
		time.Second: {30 * time.Second, 60 * time.Second, 90 * time.Second, 120 * time.Second, 150 * time.Second, 180 * time.Second, 210 * time.Second},
	} {
		t.Run(atLeast.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
				var r recorder
				begin := time.Now()
				job := soloist.Job{Name: "tick", Schedule: soloist.Every(30 * time.Second), AtLeast: atLeast, Do: r.do}
				start(t, a, job)
				start(t, b, job)
				time.Sleep(4*time.Minute - time.Second)
				synctest.Wait()
				check(t, "scheduled", r.scheduled(begin), want)
				info, err := a.Admin().Job(background, "tick")
				if err != nil || len(info.Runs) != len(want) {
					t.Errorf("%d runs in the history, %v", len(info.Runs), err)
				}
			})
		})
	}
}

func TestBadJobs(t *testing.T) {
	c, _ := soloisttest.NewClient(t)
	good := soloist.Job{Name: "x", Schedule: soloist.Every(time.Second), Do: func(context.Context, soloist.Run) error { return nil }}
	for what, change := range map[string]func(*soloist.Job){
		"name":           func(j *soloist.Job) { j.Name = "" },
		"schedule":       func(j *soloist.Job) { j.Schedule = soloist.Every(0) },
		"Do":             func(j *soloist.Job) { j.Do = nil },
		"TTL":            func(j *soloist.Job) { j.TTL = 1 },
		"AtLeast":        func(j *soloist.Job) { j.AtLeast, j.AtMost = time.Hour, time.Minute },
		"Jitter":         func(j *soloist.Job) { j.Jitter = -1 },
		"Missed":         func(j *soloist.Job) { j.Missed = 7 },
		"Missed ":        func(j *soloist.Job) { j.Missed = -1 },
		"MissedCap":      func(j *soloist.Job) { j.MissedCap = -1 },
		"Crash":          func(j *soloist.Job) { j.Crash = 7 },
		"Crash ":         func(j *soloist.Job) { j.Crash = -1 },
		"Retry.Attempts": func(j *soloist.Job) { j.Retry.Attempts = -1 },

		// Options that contradict each other: the error names both.
		"MissedCap, Missed":               func(j *soloist.Job) { j.MissedCap, j.Missed = 3, soloist.MissedOnce },
		"Missed, Schedule":                func(j *soloist.Job) { j.Missed, j.Schedule = soloist.MissedAll, soloist.Delay(time.Second) },
		"Retry.Backoff, Retry.Attempts":   func(j *soloist.Job) { j.Retry.Backoff = time.Second },
		"Retry.MaxBackoff, Retry.Backoff": func(j *soloist.Job) { j.Retry.Attempts, j.Retry.MaxBackoff = 2, time.Hour },
		"Retry.MaxBackoff, Retry.Backoff ": func(j *soloist.Job) {
			j.Retry = soloist.Retry{Attempts: 2, Backoff: time.Hour, MaxBackoff: time.Second}
		},
		"AtLeast, AtMost": func(j *soloist.Job) { j.AtLeast, j.AtMost = time.Hour, time.Minute },
		"Margin, TTL":     func(j *soloist.Job) { j.Margin, j.TTL = time.Minute, time.Minute },
	} {
		bad := good
		change(&bad)
		var invalid *soloist.InvalidError
		first, second, _ := strings.Cut(strings.TrimSpace(what), ", ")
		if err := c.Run(background, bad); !errors.As(err, &invalid) || invalid.What != first || !strings.Contains(invalid.Rule, second) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := c.Run(background, good, good); err == nil {
		t.Error("a job given twice passed")
	}
	if err := c.Run(background); err == nil {
		t.Error("no job passed")
	}
}

// A run whose function gives up because its lease was lost is taken over, also when the store, being back in time, takes the release: by this replica if there is no other, and
// also if the run is later than Grace by then.
func TestRunThatWasCutOffIsTakenOver(t *testing.T) {
	for _, grace := range []time.Duration{time.Minute, time.Second} {
		inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
			var attempts []string
			job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Grace: grace, Do: func(ctx context.Context, run soloist.Run) error {
				attempts = append(attempts, fmt.Sprint(run.Attempt, " of ", run.ScheduledAt.Hour()))
				if run.Attempt > 1 {
					return nil
				}
				s.Break(nil)
				<-ctx.Done()
				s.Heal()
				return ctx.Err()
			}}
			start(t, a, job)
			time.Sleep(90 * time.Minute)
			synctest.Wait()
			check(t, fmt.Sprint("with a Grace of ", grace, ": attempts"), attempts, []string{"1 of 1", "2 of 1"})
			info, err := b.Admin().Job(background, "tick")
			if err != nil || len(info.Runs) != 2 || info.Runs[0].Outcome != soloist.OutcomeLost || info.Runs[1].Outcome != soloist.OutcomeOK {
				t.Errorf("history: %+v, %v", info.Runs, err)
			}
		})
	}
}
