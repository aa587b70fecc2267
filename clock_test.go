package soloist_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
	"github.com/soloist-dev/soloist/store"
)

// What a replica, or an operator, has written whose wall clock is wrong.

// leave makes a record with a state.
func leave(t *testing.T, s store.Store, name, state string) {
	t.Helper()
	outs, err := s.Acquire(background, []store.Claim{{Name: name, Holder: "x", TTL: time.Second}})
	if err != nil || outs[0].Err != nil {
		t.Fatal(outs, err)
	}
	errs, err := s.Release(background, []store.Release{{Name: name, Holder: "x", Token: outs[0].Grant.Token, State: []byte(state), Retain: store.Forever}})
	if err != nil || errs[0] != nil {
		t.Fatal(errs, err)
	}
}

// A replica whose clock is ahead and that has only registered a job keeps it from nothing, and leaves no run behind.
func TestRegisteringLeavesNoMark(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		var r recorder
		begin := time.Now()
		job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), Do: r.do}
		start(t, a, job)()
		info, err := a.Admin().Job(background, "tick")
		if err != nil || !info.DoneUpTo.IsZero() {
			t.Errorf("a job that has never run was done until %v, %v", info.DoneUpTo, err)
		}
		leave(t, s, "job/tock", fmt.Sprintf(`{"since":%d}`, begin.Add(time.Hour).UnixMilli()))
		job.Name = "tock"
		start(t, b, job)
		time.Sleep(150 * time.Second)
		check(t, "scheduled", r.scheduled(begin), []time.Duration{time.Minute, 2 * time.Minute})
	})
}

// A job that was resumed by somebody whose clock is ahead goes on all the same.
func TestResumedByAClockThatIsAhead(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		var r recorder
		begin := time.Now()
		job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), Missed: soloist.MissedAll, Do: r.do}
		stop := start(t, a, job)
		time.Sleep(30 * time.Second)
		if err := b.Admin().Pause(background, "tick", "a test"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		leave(t, s, "control/tick", fmt.Sprintf(`{"resumed":%d}`, begin.Add(time.Hour).UnixMilli()))
		leave(t, s, "controls", "")
		time.Sleep(2 * time.Minute)
		check(t, "scheduled", r.scheduled(begin), []time.Duration{3 * time.Minute, 4 * time.Minute})
		stop()
		start(t, b, job) // which counts from when it was written, and not from when it reads it
		time.Sleep(time.Minute)
		check(t, "the next", r.scheduled(begin)[2:], []time.Duration{5 * time.Minute})
	})
}

// A delay counts from when a replica first saw the end of the last run, if that lies in the future.
func TestDelayAfterAnEndInTheFuture(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		var r recorder
		begin := time.Now()
		leave(t, s, "job/tick", fmt.Sprintf(`{"ended":%d}`, begin.Add(time.Hour).UnixMilli()))
		job := soloist.Job{Name: "tick", Schedule: soloist.Delay(time.Minute), Do: r.do}
		start(t, a, job)
		time.Sleep(30 * time.Second)
		start(t, b, job)
		time.Sleep(80 * time.Second)
		if began := r.began(); len(began) != 1 || began[0].Sub(begin) > 61*time.Second {
			t.Errorf("begun at %v; want once, a minute after %v", began, begin)
		}
	})
}

// A run with a fixed delay that is due before the record's mark, by which a replica whose clock was ahead has done the one before, is taken over when it is interrupted.
// Nothing else tells by its mark that it is not done.
func TestDelayAfterAMarkInTheFuture(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		var first, second recorder
		begin := time.Now()
		ahead := begin.Add(1400 * time.Millisecond)
		outs, err := s.Acquire(background, []store.Claim{{Name: "job/tick", Holder: "x", TTL: time.Second}})
		if err != nil || outs[0].Err != nil {
			t.Fatal(outs, err)
		}
		_, err = s.Release(background, []store.Release{{Name: "job/tick", Holder: "x", Token: outs[0].Grant.Token, Mark: ahead.UnixMilli(), Retain: store.Forever,
			State: fmt.Appendf(nil, `{"ended":%d}`, ahead.UnixMilli()+100)}})
		must(t, err)
		job := func(do func(context.Context, soloist.Run) error) soloist.Job {
			return soloist.Job{Name: "tick", Schedule: soloist.Delay(500 * time.Millisecond), TTL: time.Minute, Do: do}
		}
		stop := start(t, a, job(func(ctx context.Context, run soloist.Run) error {
			_ = first.do(ctx, run)
			<-ctx.Done()
			return ctx.Err()
		}))
		time.Sleep(900 * time.Millisecond)
		check(t, "runs", len(first.all()), 1)
		stop()
		start(t, b, job(second.do))
		time.Sleep(100 * time.Millisecond)
		if runs := second.all(); len(runs) != 1 || runs[0].ScheduledAt != first.all()[0].ScheduledAt || !runs[0].ScheduledAt.After(ahead) {
			t.Errorf("the run %+v was interrupted, and then begun: %+v", first.all(), runs)
		}
		info, err := b.Admin().Job(background, "tick")
		if err != nil || slices.ContainsFunc(info.Runs, func(r soloist.RunRecord) bool { return r.Outcome == soloist.OutcomeAbandoned }) {
			t.Errorf("%+v, %v", info.Runs, err)
		}
	})
}

// That a record is ahead of this replica's clock is logged once, and the job goes on when the clock has come that far. Nothing is logged of a job that is not.
func TestRecordThatIsAheadIsLogged(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, _, _ *soloist.Client) {
		var ahead, later, well recorder
		var log strings.Builder
		begin := time.Now()
		done := func(name string) {
			outs, err := s.Acquire(background, []store.Claim{{Name: name, Holder: "x", TTL: time.Second}})
			if err != nil || outs[0].Err != nil {
				t.Fatal(outs, err)
			}
			if _, err := s.Release(background, []store.Release{{Name: name, Holder: "x", Token: outs[0].Grant.Token, Mark: begin.Add(10 * time.Minute).UnixMilli(), Retain: store.Forever}}); err != nil {
				t.Fatal(err)
			}
		}
		done("job/ahead")
		start(t, soloisttest.NewReplica(t, s, soloist.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}),
			soloist.Job{Name: "ahead", Schedule: soloist.Every(time.Minute), Do: ahead.do}, soloist.Job{Name: "later", Schedule: soloist.Every(time.Minute), Do: later.do}, soloist.Job{Name: "well", Schedule: soloist.Every(time.Minute), Do: well.do})
		time.Sleep(90 * time.Second)
		done("job/later") // which the replica learns when it is refused
		time.Sleep(time.Until(begin.Add(12*time.Minute + time.Second)))
		check(t, "runs of the job", ahead.scheduled(begin), []time.Duration{11 * time.Minute, 12 * time.Minute})
		check(t, "runs of the second", later.scheduled(begin), []time.Duration{time.Minute, 11 * time.Minute, 12 * time.Minute})
		check(t, "runs of the other", len(well.all()), 12)
		check(t, "lines about it", strings.Count(log.String(), "a job's record is ahead of this replica's clock"), 2)
		check(t, "warnings and errors", strings.Count(log.String(), "level=WARN")+strings.Count(log.String(), "level=ERROR"), 2)
	})
}
