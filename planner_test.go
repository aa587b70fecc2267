package soloist

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/soloist-dev/soloist/store"
)

// The tests of this file ask the planner directly, without a store, a goroutine or a clock. Each row names the rule that it shows. Times are
// counted from an epoch at which the job became known; unless a row says otherwise it is due every minute and has a Grace of 15 s.

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func after(d time.Duration) time.Time { return epoch.Add(d) }

func ms(d time.Duration) int64 { return after(d).UnixMilli() }

const (
	second = time.Second
	minute = time.Minute
)

// known is what a replica knows of a job.
type known struct {
	schedule Schedule // every minute if nil
	missed   Missed
	limit    int
	crash    Crash
	attempts int
	atLeast  time.Duration

	mark    time.Duration // of the record: done until then; 0 is none
	ended   time.Duration // the end of the last run
	paused  bool
	resumed time.Duration
	trigger int64         // manual runs asked for
	undated bool          // and nobody knows when
	served  int64         // and done
	claimed time.Duration // a claim that was refused because another had the job
	until   time.Duration // the end of the lease that is in the way
}

// planner returns a planner that has one job, of which it knows this.
func (k known) planner(t *testing.T) (*planner, *plannedJob) {
	t.Helper()
	job := Job{Name: "tick", Schedule: k.schedule, Do: doNothing, Grace: 15 * second, Missed: k.missed, MissedCap: k.limit, Crash: k.crash, AtLeast: k.atLeast, Retry: Retry{Attempts: k.attempts}}
	if job.Schedule == nil {
		job.Schedule = Every(minute)
	}
	p := testPlanner()
	j := p.with(t, job)
	j.served = k.served
	if k.mark > 0 {
		j.mark = ms(k.mark)
	}
	if k.ended > 0 {
		j.ended = after(k.ended)
	}
	if k.paused {
		j.asked.Paused = &Pause{}
	}
	if k.resumed > 0 {
		j.asked.Resumed = ms(k.resumed)
	}
	if j.asked.Trigger = k.trigger; k.trigger > 0 && !k.undated {
		j.asked.At = after(30 * second)
	}
	if k.claimed > 0 {
		j.timely = timelyClaim{at: after(k.claimed), refused: true, mark: j.mark}
	}
	if k.until > 0 {
		j.leaseEnd = after(k.until)
	}
	return p, j
}

// testPlanner returns a planner without jobs that draws nothing by chance.
func testPlanner() *planner {
	holders := 0
	newHolder := func() string { holders++; return fmt.Sprint("holder ", holders) }
	return newPlanner(groupLimits{from: 2, prefix: "group/", requestTimeout: second}, newHolder, func(time.Duration) time.Duration { return 0 }, func(string) {})
}

// with adds a job at the epoch.
func (p *planner) with(t *testing.T, job Job) *plannedJob {
	t.Helper()
	filled, opts, err := job.filled(Options{})
	if err != nil {
		t.Fatal(err)
	}
	p.add(&jobSpec{given: job, job: filled, opts: opts, name: "job/" + job.Name, control: "control/" + job.Name}, epoch)
	return p.jobs[job.Name]
}

func TestWhatIsClaimed(t *testing.T) {
	for _, row := range []struct {
		rule string
		known
		now   time.Duration
		claim string        // the mark of the claim, from the epoch; "any" for a claim whatever the mark, "" for no claim
		wake  time.Duration // when to look again if nothing is claimed; 0 for never
	}{
		{rule: "nothing is claimed before it is due", now: 59 * second, wake: minute},
		{rule: "a scheduled time is claimed from the instant on at which it is due", now: minute, claim: "1m0s"},
		{rule: "a scheduled time is not missed until Grace is over", now: minute + 15*second, claim: "1m0s"},
		{rule: "with MissedSkip a missed time is left out", now: minute + 16*second, wake: 2 * minute},
		{rule: "with MissedOnce the newest missed time is claimed", known: known{missed: MissedOnce}, now: 3*minute + 30*second, claim: "3m0s"},
		{rule: "with MissedAll the claim has the mark of the newest time, though an older one is run first: a record that is further refuses it in one step",
			known: known{missed: MissedAll}, now: 3*minute + 30*second, claim: "3m0s"},
		{rule: "what the record has done is not claimed again", known: known{mark: minute}, now: minute + second, wake: 2 * minute},
		{rule: "a time that was due before the job was known is not claimed", now: 0, wake: minute},

		{rule: "nothing scheduled is claimed during a pause", known: known{paused: true}, now: minute, wake: 2 * minute},
		{rule: "a manual run is claimed whatever the mark", known: known{mark: 5 * minute, trigger: 1}, now: 10 * second, claim: "any"},
		{rule: "a manual run is claimed during a pause", known: known{paused: true, trigger: 2, served: 1}, now: 10 * second, claim: "any"},
		{rule: "a manual run that has been done is not claimed again", known: known{trigger: 2, served: 2}, now: 10 * second, wake: minute},
		{rule: "times that fell into a pause are dropped", known: known{resumed: minute + 5*second, missed: MissedAll}, now: minute + 10*second, wake: 2 * minute},
		{rule: "the first time after a pause is claimed", known: known{resumed: minute + 5*second}, now: 2 * minute, claim: "2m0s"},

		{rule: "a time that was claimed within Grace, and was refused because another had the job, is not missed", known: known{claimed: minute + second}, now: minute + 40*second, claim: "1m0s"},
		{rule: "of two times that are not missed the newer is the mark, though the older is run first", known: known{claimed: minute + second}, now: 2*minute + 15*second, claim: "2m0s"},
		{rule: "a missed time is not the mark: what is given back says for which time it was claimed", known: known{claimed: minute + second}, now: 2*minute + 16*second, claim: "1m0s"},
		{rule: "a claim that was refused before the time was due keeps nothing", known: known{claimed: 59 * second}, now: minute + 40*second, wake: 2 * minute},
		{rule: "when the lease of another ends the job is claimed although nothing is due: its holder may have died in a run", known: known{mark: minute, until: 90 * second}, now: 90 * second, claim: "1m0.001s"},
		{rule: "until the lease of another ends nothing is claimed", known: known{mark: minute, until: 90 * second}, now: 89 * second, wake: 90 * second},
		{rule: "a scheduled time that comes before the end of another's lease is claimed when it is due", known: known{mark: minute, until: 150 * second}, now: 90 * second, wake: 2 * minute},

		{rule: "a job with a fixed delay that has never run is due at once", known: known{schedule: Delay(10 * second)}, now: second, claim: "0s"},
		{rule: "a fixed delay counts from the end of the last run", known: known{schedule: Delay(10 * second), ended: minute}, now: minute + 9*second, wake: minute + 10*second},
		{rule: "a fixed delay that is over is due", known: known{schedule: Delay(10 * second), ended: minute}, now: minute + 10*second, claim: "1m10s"},
		{rule: "a fixed delay is due although the mark is further: a run under way may have raised it", known: known{schedule: Delay(10 * second), ended: minute, mark: 2 * minute}, now: minute + 10*second, claim: "2m0.001s"},

		{rule: "a job that is due once is never looked at again after that", known: known{schedule: At(after(minute)), mark: minute}, now: minute + second},
	} {
		t.Run(row.rule, func(t *testing.T) {
			p, job := row.planner(t)
			now := after(row.now)
			req := p.request([]*plannedJob{job}, now)[0]
			claim := ""
			switch {
			case req.claims && req.claim.Mark == 0:
				claim = "any"
			case req.claims:
				claim = time.UnixMilli(req.claim.Mark).Sub(epoch).String()
			}
			if claim != row.claim {
				t.Fatalf("claims %q, want %q", claim, row.claim)
			}
			if req.claims {
				return
			}
			p.answer(req, answer{trip: trip{now, now, 0}})
			if wake := p.wake(); (row.wake == 0) != wake.IsZero() || row.wake > 0 && !wake.Equal(after(row.wake)) {
				t.Errorf("looks again at %v, want %v", wake.Sub(epoch), row.wake)
			}
		})
	}
}

// A grant leads to one run, or to none.
func TestWhatAGrantLeadsTo(t *testing.T) {
	abandonedRun := func(pending time.Duration, attempts int) *jobState {
		return &jobState{Pending: ms(pending), Attempts: attempts}
	}
	for _, row := range []struct {
		rule string
		known
		asked     time.Duration // when the claim was made; the answer came a millisecond later
		slow      time.Duration // or so much later
		abandoned time.Duration // how long ago the lease before was granted, whose holder died; 0 if none did
		recorded  time.Duration // the mark of the record, if this replica does not know it yet
		state     *jobState     // of the record; none if nil
		want      string        // "TIME" or "manual N", then "attempt N", "announced", "given up"; "" for nothing
		history   string        // what the state has of runs before
	}{
		{rule: "what is due is run", asked: minute, want: "1m0s attempt 1 announced"},
		{rule: "what is due is run, without a word before it when no successor could mistake it", known: known{mark: minute}, state: &jobState{Since: ms(0)}, asked: 2*minute + 3*second, want: "2m0s attempt 1"},
		{rule: "a run that begins soon after an older time was missed is announced: a successor whose clock is behind would find the older one", known: known{schedule: Every(16 * second), mark: 16 * second}, state: &jobState{Since: ms(0)}, asked: 48 * second, want: "48s attempt 1 announced"},
		{rule: "four seconds after an older time was missed no clock can mistake the run", known: known{schedule: Every(16 * second), mark: 16 * second}, state: &jobState{Since: ms(0)}, asked: 52 * second, want: "48s attempt 1"},
		{rule: "nothing is run that is not due", known: known{mark: minute}, asked: minute + 30*second},
		{rule: "of what is due the oldest that is not missed is run first", known: known{mark: minute, missed: MissedAll}, asked: 4*minute + 5*second, want: "2m0s attempt 1"},
		{rule: "with MissedOnce the newest missed time is run for all", known: known{mark: minute, missed: MissedOnce}, asked: 4*minute + 30*second, want: "4m0s attempt 1"},
		{rule: "with a cap the newest missed times are run", known: known{mark: minute, missed: MissedAll, limit: 2}, asked: 4*minute + 30*second, want: "3m0s attempt 1"},
		{rule: "what became due while the claim was under way is not run: nobody has asked whether it may", known: known{mark: minute}, asked: 2*minute - time.Millisecond},

		{rule: "of what was missed by the time of the answer, nothing is run that became due while the claim was under way", known: known{mark: minute, missed: MissedOnce}, asked: 2*minute + 30*second, slow: 90 * second, want: "2m0s attempt 1 announced"},

		{rule: "a manual run comes first", known: known{mark: minute, trigger: 1}, asked: 2*minute + 3*second, want: "manual 1 attempt 1 announced"},
		{rule: "a manual run that the record has done is not run again", known: known{mark: minute, trigger: 1}, state: &jobState{Trigger: 1}, asked: minute + 30*second},
		{rule: "a run that was interrupted comes before a manual one, which nobody would know of after that", known: known{mark: minute, trigger: 1}, state: abandonedRun(2*minute, 1), asked: 2*minute + 50*second, want: "2m0s attempt 2 announced"},
		{rule: "a run that was interrupted does not keep a manual one waiting during a pause", known: known{mark: minute, paused: true, trigger: 1}, state: abandonedRun(2*minute, 1), asked: 2*minute + 50*second, want: "manual 1 attempt 1 announced"},
		{rule: "during a pause only a manual run is run", known: known{mark: minute, paused: true}, asked: 2*minute + 3*second},

		{rule: "a run that was interrupted is run again, also when it would be missed", known: known{mark: minute}, state: abandonedRun(2*minute, 0), asked: 2*minute + 50*second, want: "2m0s attempt 1 announced"},
		{rule: "a failed attempt counts when the run is interrupted after it", known: known{mark: minute}, state: abandonedRun(2*minute, 2), asked: 2*minute + 50*second, want: "2m0s attempt 3 announced"},
		{rule: "a run that was interrupted before a pause ended is dropped", known: known{mark: minute, resumed: 2*minute + 30*second}, state: abandonedRun(2*minute, 1), asked: 2*minute + 50*second},

		{rule: "the run of a dead holder is found as of its grant, although it would be missed now", known: known{mark: minute}, asked: 2*minute + 35*second, abandoned: 32 * second, want: "2m0s attempt 2 announced", history: "2m0s attempt 1 abandoned from 2m3.001s to 2m35.001s"},
		{rule: "the run of a dead holder whose clock was ahead is found", known: known{mark: minute}, asked: 2*minute + 29*second, abandoned: 30 * second, want: "2m0s attempt 2 announced", history: "2m0s attempt 1 abandoned from 1m59.001s to 2m29.001s"},
		{rule: "the run of a dead holder whose clock was behind is found", known: known{mark: minute}, asked: 2*minute + 46*second, abandoned: 30 * second, want: "2m0s attempt 2 announced", history: "2m0s attempt 1 abandoned from 2m16.001s to 2m46.001s"},
		{rule: "the run of a dead holder is found by a request that took long, granted at its end", known: known{mark: minute}, asked: 2*minute + 36*second, slow: 6 * second, abandoned: 41 * second, want: "2m0s attempt 2 announced", history: "2m0s attempt 1 abandoned from 2m1s to 2m42s"},
		{rule: "the run of a dead holder is found by a request that took long, granted at its beginning", known: known{mark: minute}, asked: 2*minute + 36*second, slow: 6 * second, abandoned: 20 * second, want: "2m0s attempt 2 announced", history: "2m0s attempt 1 abandoned from 2m22s to 2m42s"},
		{rule: "the death of a holder that had nothing to run is no crash of what is due now", known: known{mark: minute}, asked: 2*minute + 5*second, abandoned: 30 * second, want: "2m0s attempt 1"},
		{rule: "the attempts that the dead holder had recorded count", known: known{mark: minute}, state: abandonedRun(2*minute, 1), asked: 2*minute + 35*second, abandoned: 32 * second, want: "2m0s attempt 3 announced", history: "2m0s attempt 2 abandoned from 2m3.001s to 2m35.001s"},
		{rule: "a crash that uses up the attempts ends the run", known: known{mark: minute, attempts: 2}, state: abandonedRun(2*minute, 1), asked: 2*minute + 35*second, abandoned: 32 * second, want: "2m0s attempt 3 announced given up", history: "2m0s attempt 2 abandoned from 2m3.001s to 2m35.001s"},
		{rule: "a manual run that was interrupted comes before one that was requested meanwhile", known: known{mark: minute, trigger: 2}, state: &jobState{Pending: -1, Manual: ms(20 * second), Attempts: 1}, asked: minute + 40*second, want: "manual 1 attempt 2 announced"},
		{rule: "a manual run whose holder died is taken over under its number", known: known{mark: minute, trigger: 2, served: 0}, state: &jobState{Pending: -1, Manual: ms(20 * second)}, asked: minute + 40*second, abandoned: 30 * second, want: "manual 1 attempt 2 announced", history: "manual 20s attempt 1 abandoned from 1m10.001s to 1m40.001s"},
		{rule: "a time that this replica claimed within Grace, before its holder died, is a crash of that run", known: known{mark: minute, claimed: 2*minute + second}, asked: 2*minute + 40*second, abandoned: 39 * second, want: "2m0s attempt 2 announced", history: "2m0s attempt 1 abandoned from 2m1.001s to 2m40.001s"},
		{rule: "an older time that this replica claimed within Grace comes before the run of the dead holder, whose crash is told", known: known{mark: minute, claimed: 2*minute + second}, asked: 3*minute + 40*second, abandoned: 35 * second, want: "2m0s attempt 1 announced", history: "3m0s attempt 1 abandoned from 3m5.001s to 3m40.001s"},
		{rule: "a time that this replica claimed within Grace is missed if a run has been recorded since, were it the first of the job", known: known{claimed: 2*minute + second}, recorded: minute, asked: 2*minute + 40*second},

		{rule: "with CrashGiveUp every run is announced", known: known{mark: minute, crash: CrashGiveUp}, state: &jobState{Since: ms(0)}, asked: 2*minute + 3*second, want: "2m0s attempt 1 announced"},
		{rule: "with CrashGiveUp a run that had begun is not run again", known: known{mark: 2 * minute, crash: CrashGiveUp}, state: abandonedRun(2*minute, 0), asked: 2*minute + 35*second, abandoned: 32 * second, history: "2m0s attempt 1 abandoned from 2m3.001s to 2m35.001s"},
		{rule: "with CrashGiveUp a manual run that had begun is not run again", known: known{mark: minute, crash: CrashGiveUp, trigger: 1}, state: &jobState{Pending: -1, Manual: ms(20 * second)}, asked: minute + 40*second, abandoned: 30 * second, history: "manual 20s attempt 1 abandoned from 1m10.001s to 1m40.001s"},

		{rule: "a claim that was given back keeps its time from being missed", known: known{mark: minute}, state: &jobState{Claimed: ms(2 * minute)}, asked: 2*minute + 40*second, want: "2m0s attempt 1 announced"},
		{rule: "what had been missed when a claim was made that was given back stays missed", known: known{schedule: Every(10 * second), mark: minute}, state: &jobState{Claimed: ms(80 * second), Asked: ms(88 * second)}, asked: 110 * second, want: "1m20s attempt 1 announced"},
		{rule: "what was not missed when a claim was made that was given back is run, oldest first", known: known{schedule: Every(10 * second), mark: minute}, state: &jobState{Claimed: ms(80 * second), Asked: ms(84 * second)}, asked: 110 * second, want: "1m10s attempt 1 announced"},
		{rule: "a claim that was given back, and for which nothing was due, keeps no other claim's time", known: known{mark: minute, claimed: 2*minute + second}, state: &jobState{Claimed: ms(minute) + 1}, asked: 2*minute + 40*second, want: "2m0s attempt 1 announced"},
		{rule: "a claim that was given back by a clock that is ahead is not run before its time", known: known{mark: minute}, state: &jobState{Claimed: ms(2 * minute)}, asked: 2*minute - time.Millisecond},
		{rule: "the run of a dead holder is found of which a claim was told that was given back", known: known{mark: minute}, state: &jobState{Died: ms(2*minute + 3*second)}, asked: 2*minute + 50*second, want: "2m0s attempt 2 announced", history: "2m0s attempt 1 abandoned from 2m3.001s to 2m50.001s"},
		{rule: "so is it if the next holder, which had found it too, has died before it began", known: known{mark: minute}, state: &jobState{Died: ms(2*minute + 3*second)}, asked: 2*minute + 50*second, abandoned: 10 * second, want: "2m0s attempt 2 announced", history: "2m0s attempt 1 abandoned from 2m3.001s to 2m50.001s"},
		{rule: "so is it if that claim was told late: the holder may have begun at any instant of its trip", known: known{mark: minute}, asked: 2*minute + 50*second,
			state: &jobState{Died: ms(2*minute - 6*second), Spread: 6100}, want: "2m0s attempt 2 announced", history: "2m0s attempt 1 abandoned from 2m0.101s to 2m50.001s"},
		{rule: "if that holder had nothing to run, what is due now is no crash", known: known{mark: minute}, state: &jobState{Since: ms(0), Died: ms(minute + 30*second)}, asked: 2*minute + 5*second, want: "2m0s attempt 1 announced"},
		{rule: "if nothing is due either, nothing is run", known: known{mark: 2 * minute}, state: &jobState{Died: ms(minute + 30*second)}, asked: 2*minute + 5*second},
		{rule: "with a fixed delay the death of a holder that had nothing to run is no crash, whatever this replica has claimed", known: known{schedule: Delay(10 * second), mark: minute, ended: minute, claimed: 71 * second}, asked: 100 * second, abandoned: 35 * second, want: "1m10s attempt 1"},
		{rule: "with a fixed delay a holder that died counts as a crash", known: known{schedule: Delay(10 * second), mark: minute, ended: minute}, asked: minute + 50*second, abandoned: 30 * second, want: "1m10s attempt 2 announced", history: "1m10s attempt 1 abandoned from 1m20.001s to 1m50.001s"},

		{rule: "a time that is not due yet is not the run of a dead holder, though its lease was shorter than clocks may differ", known: known{mark: minute}, asked: 2*minute - 500*time.Millisecond, abandoned: 600 * time.Millisecond},
		{rule: "the death of a holder that had nothing to run is no crash of what fell due after a pause, though a claim before that pause was refused", known: known{mark: minute, resumed: 2*minute + 30*second, claimed: 2*minute + second}, asked: 3*minute + 5*second, abandoned: 30 * second, want: "3m0s attempt 1"},
		{rule: "the run that the dead holder had announced is taken over before an older time that this replica claimed within Grace", known: known{mark: minute, claimed: 2*minute + second}, state: abandonedRun(3*minute, 1), asked: 3*minute + 40*second, abandoned: 35 * second, want: "3m0s attempt 3 announced", history: "3m0s attempt 2 abandoned from 3m5.001s to 3m40.001s"},
		{rule: "a time that this replica claimed within Grace, and that others would miss, is announced", known: known{mark: minute, claimed: 2*minute + second}, state: &jobState{Since: ms(0)}, asked: 2*minute + 17*second, want: "2m0s attempt 1 announced"},
		{rule: "what the record has lost, and this replica has seen done, is not run again", known: known{mark: 2 * minute}, recorded: minute, asked: 2*minute + 5*second},
		{rule: "nor is a run that the record still shows as interrupted", known: known{mark: 2 * minute}, recorded: minute, state: abandonedRun(2*minute, 1), asked: 2*minute + 5*second},
		{rule: "a run that was interrupted is dropped by a pause that ended at its time", known: known{mark: minute, resumed: 2 * minute}, state: abandonedRun(2*minute, 1), asked: 2*minute + 5*second},
		{rule: "a manual run of which nobody knows when it was asked for is run", known: known{mark: minute, trigger: 1, undated: true}, asked: minute + 30*second, want: "manual 1 attempt 1 announced"},
		{rule: "a job that is due once needs no announcement", known: known{schedule: At(after(minute))}, asked: minute + 3*second, want: "1m0s attempt 1"},
		{rule: "nor does a fixed delay after a run", known: known{schedule: Delay(10 * second), mark: minute, ended: minute}, asked: 80 * second, want: "1m10s attempt 1"},
		{rule: "the first run of a fixed delay is announced: each replica counts it from when it knew the job", known: known{schedule: Delay(10 * second)}, asked: second, want: "0s attempt 1 announced"},
		{rule: "the first run of a fixed delay is found when its holder died", known: known{schedule: Delay(10 * second)}, asked: 40 * second, abandoned: 30 * second, want: "0s attempt 2 announced", history: "0s attempt 1 abandoned from 10.001s to 40.001s"},
		{rule: "with CrashGiveUp a run that its dead holder had not announced had not begun: no attempt is used up", known: known{mark: minute, crash: CrashGiveUp, attempts: 1}, asked: 2*minute + 35*second, abandoned: 32 * second, want: "2m0s attempt 1 announced"},
		{rule: "a claim that was given back keeps no time from being run that this replica claimed before", known: known{mark: minute, claimed: 2*minute + second}, state: &jobState{Claimed: ms(3 * minute), Asked: ms(3*minute + 2*second)}, asked: 3*minute + 40*second, want: "2m0s attempt 1 announced"},
	} {
		t.Run(row.rule, func(t *testing.T) {
			p, job := row.planner(t)
			g := store.Grant{Token: 7, Mark: job.mark, ExpiredAge: row.abandoned}
			if row.recorded > 0 {
				g.Mark = ms(row.recorded)
			}
			if row.state != nil {
				g.State = row.state.json()
			}
			asked := after(row.asked)
			told := job.asked
			job.asked = control{}
			req := p.request([]*plannedJob{job}, asked)[0]
			req.claims, job.asked = true, told // what people ask is learned with the answer
			s := p.answer(req, answer{trip: trip{asked, asked.Add(max(row.slow, time.Millisecond)), 0}, out: store.Outcome{Grant: g}})
			if !s.granted {
				t.Fatal("it does not take the grant")
			}
			check(t, "run", s.run.text(), row.want)
			check(t, "history", historyText(s.run.state.Runs), row.history)
			if row.state != nil && row.state.Died > 0 {
				if given := s.run.unused(job.job); given == nil || strings.Contains(string(given), `"died":`) || strings.Contains(string(given), `"spread":`) {
					t.Errorf("a grant that is given back leaves the state %s, want one without that death", given)
				}
			}
		})
	}
}

// A replica whose clock was ahead died in a run that is not due yet by its successor's. That has nothing to run, and the next one finds nobody dead: it
// runs that time all the same, when it is due and though it would be missed.
func TestTheRunThatADeadHolderBeganAheadIsNotMissed(t *testing.T) {
	for _, row := range []struct {
		rule string
		known
		state   *jobState     // that the successor finds
		ago     time.Duration // how long before the end of the minute it is asked for
		claimed time.Duration // what the record says then; 0 if it is left as it was
		want    string        // what another replica runs after Grace
	}{
		{rule: "a time that clocks may differ by", known: known{mark: minute}, ago: 500 * time.Millisecond, claimed: 2 * minute, want: "2m0s attempt 1 announced"},
		{rule: "no clock is further ahead", known: known{mark: minute}, ago: 1500 * time.Millisecond},
		{rule: "nothing is run during a pause", known: known{mark: minute, paused: true}, ago: 500 * time.Millisecond},
		{rule: "what is missed is run with other policies", known: known{mark: minute, missed: MissedOnce}, ago: 500 * time.Millisecond, want: "2m0s attempt 1"},
		{rule: "a fixed delay is not missed", known: known{schedule: Delay(minute), mark: minute, ended: minute}, ago: 500 * time.Millisecond, want: "2m0s attempt 1"},
		{rule: "when something else was claimed does not matter", known: known{mark: minute}, state: &jobState{Claimed: ms(minute), Asked: ms(24 * time.Hour)}, ago: 500 * time.Millisecond, claimed: 2 * minute, want: "2m0s attempt 1 announced"},
		{rule: "what was claimed in time before stays so", known: known{mark: minute}, state: &jobState{Claimed: ms(2*minute) + 1}, ago: 500 * time.Millisecond, want: "2m0s attempt 1 announced"},
	} {
		t.Run(row.rule, func(t *testing.T) {
			grant := func(at, expired time.Duration, state []byte) step {
				p, job := row.planner(t)
				asked := job.asked
				job.asked = control{}
				req := p.request([]*plannedJob{job}, after(at))[0]
				req.claims, job.asked = true, asked
				g := store.Grant{Token: 7, Mark: job.mark, ExpiredAge: expired, State: state}
				return p.answer(req, answer{trip: trip{after(at), after(at), 0}, out: store.Outcome{Grant: g}})
			}
			var state []byte
			if row.state != nil {
				state = row.state.json()
			}
			s := grant(2*minute-row.ago, 700*time.Millisecond, state)
			check(t, "run", s.run.text(), "")
			if row.claimed > 0 {
				state = s.unused
				check(t, "claimed", time.UnixMilli(s.run.state.Claimed).Sub(epoch).String(), row.claimed.String())
			} else {
				check(t, "state", string(s.unused), "")
			}
			check(t, "run once more before it is due", grant(2*minute-row.ago+100*time.Millisecond, 0, state).run.text(), "")
			check(t, "run after Grace", grant(2*minute+20*second, 0, state).run.text(), row.want)
		})
	}
}

// A replica died in a run, and its successor knows of an older time, which comes first: the run is not forgotten, and the crash counts.
func TestTheRunOfADeadHolderComesAfterAnOlderTime(t *testing.T) {
	for _, row := range []struct {
		rule     string
		crash    Crash
		attempts int
		died     bool // the successor dies too, in the older time
		want     []string
	}{
		{rule: "it is run as soon as the older time is done", want: []string{"2m0s attempt 1 announced", "3m0s attempt 2 announced"}},
		{rule: "it is given up if its crash was the last attempt", attempts: 1, want: []string{"2m0s attempt 1 announced", "3m0s attempt 2 announced given up"}},
		{rule: "it is run after the older time was taken over", died: true, want: []string{"2m0s attempt 1 announced", "2m0s attempt 2 announced", "3m0s attempt 2 announced"}},
		{rule: "what may be run once only had not begun", crash: CrashGiveUp, want: []string{"2m0s attempt 1 announced", "3m0s attempt 1 announced"}},
		{rule: "what may be run once only had not begun, nor is the older time begun again", crash: CrashGiveUp, died: true, want: []string{"2m0s attempt 1 announced", "3m0s attempt 1 announced"}},
	} {
		t.Run(row.rule, func(t *testing.T) {
			p, job := known{mark: minute, crash: row.crash, attempts: row.attempts, claimed: 2*minute + second}.planner(t)
			at := after(3*minute + 20*second)
			p.joined([]*plannedJob{job}, at)
			record := store.Grant{Mark: job.mark, ExpiredAge: 18 * second}
			for i, want := range row.want {
				due := p.due(at)
				if len(due) == 0 {
					t.Fatalf("the job is not claimed for %q", want)
				}
				req := p.request(due, at)[0]
				if req.claim.Mark > 0 && req.claim.Mark <= record.Mark {
					t.Fatalf("the claim with mark %d is refused: all is done up to %d", req.claim.Mark, record.Mark)
				}
				record.Token++
				d := p.answer(req, answer{trip: trip{at, at, 0}, out: store.Outcome{Grant: record}}).run
				check(t, "run", d.text(), want)
				record.State, record.ExpiredAge = d.state.json(), 0
				if row.crash == CrashGiveUp {
					record.Mark = d.key()
				}
				if row.died && i == 0 { // another replica finds the record as it is
					p, job = known{mark: minute, crash: row.crash, attempts: row.attempts}.planner(t)
					p.joined([]*plannedJob{job}, at)
					p.answer(jobRequest{job: job, spec: job.jobSpec, claims: true}, answer{trip: trip{at, at, 0}, out: store.Outcome{Err: &store.HeldError{Record: store.Record{Holder: "x", Mark: record.Mark, Left: 30 * second}}}})
					at = at.Add(30 * second)
					record.ExpiredAge = 30 * second
					continue
				}
				at = at.Add(second)
				x := execution{jobSpec: job.jobSpec, decision: d}
				record.Mark = x.over(&d.state)
				record.State = d.state.json()
				p.ended(ending{job: job, recorded: true, state: d.state, mark: record.Mark}, at)
			}
			if due := p.due(at); len(due) > 0 {
				t.Error("it is claimed once more, although all is done")
			}
		})
	}
}

// The record of a job says since when it is known to the replica that was granted it first. If one that has known it for longer runs an older time, the record says
// so from then on: the replica that takes that run over counts from there too, and leaves out none of the times between.
func TestJobIsKnownSinceTheFirstOfItsReplicas(t *testing.T) {
	since := func(d time.Duration) []byte { return (&jobState{Since: ms(d)}).json() }
	for _, row := range []struct {
		rule  string
		state []byte
		mark  time.Duration
		seen  bool          // that the record told the epoch
		done  time.Duration // that it was done until then; 0 is never
		want  int64
	}{
		{rule: "a record without a word of it gets one", want: ms(0)},
		{rule: "a record of a replica that came later", state: since(90 * second), want: ms(0)},
		{rule: "a record of a replica that was there before", state: since(-minute), want: ms(-minute)},
		{rule: "once something has been done nothing is missed before it", state: since(90 * second), mark: 100 * second, want: ms(90 * second)},
		{rule: "a record that told an earlier time before is that of a job which was forgotten and is back", state: since(90 * second), seen: true, want: ms(90 * second)},
		{rule: "unless something has been done since the later time: then the store has lost what was written", state: since(90 * second), seen: true, done: 100 * second, want: ms(0)},
	} {
		t.Run(row.rule, func(t *testing.T) {
			p, job := known{missed: MissedAll, mark: row.done}.planner(t)
			if row.seen {
				job.sinceThere = ms(0)
			}
			at := after(2*minute + second)
			p.joined([]*plannedJob{job}, at)
			g := store.Grant{Token: 7, State: row.state}
			if row.mark > 0 {
				g.Mark = ms(row.mark)
			}
			d := p.answer(p.request(p.due(at), at)[0], answer{trip: trip{at, at, 0}, out: store.Outcome{Grant: g}}).run
			if d.none() || d.state.Since != row.want {
				t.Errorf("runs %q and records that the job is known since %d, want a run and %d", d.text(), d.state.Since, row.want)
			}
		})
	}
}

// historyText returns what a history tells.
func historyText(runs []RunRecord) string {
	var text []string
	for _, r := range runs {
		attempt := fmt.Sprint(r.ScheduledAt.Sub(epoch), " attempt ", r.Attempt)
		if r.Manual {
			attempt = "manual " + attempt
		}
		text = append(text, fmt.Sprintf("%s %s from %v to %v", attempt, r.Outcome, r.StartedAt.Sub(epoch), r.EndedAt.Sub(epoch)))
	}
	return strings.Join(text, ", ")
}

func (d decision) text() string {
	if d.none() {
		return ""
	}
	text := d.scheduled.Sub(epoch).String()
	if d.manual > 0 {
		text = fmt.Sprint("manual ", d.manual)
	}
	text += fmt.Sprint(" attempt ", d.attempt)
	if d.announce {
		text += " announced"
	}
	if d.giveUp {
		text += " given up"
	}
	return text
}

func check(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

func doNothing(context.Context, Run) error { return nil }

// A replica that is refused looks again shortly before a time would be missed, whatever its own claim was in time for: the lease that is in the way may be
// for an older time, and end early.
func TestWhoIsRefusedLooksAgainBeforeATimeIsMissed(t *testing.T) {
	for name, row := range map[string]struct {
		period, grace time.Duration
		granted       time.Duration // the lease that is in the way
		looks         []time.Duration
	}{
		"granted before it was due":       {minute, 15 * second, 30 * second, []time.Duration{minute, minute + 13125*time.Millisecond, 2 * minute}},
		"granted when it was due":         {minute, 15 * second, minute, []time.Duration{minute, minute + 13125*time.Millisecond, 2 * minute}},
		"two times that are within Grace": {10 * second, 11 * second, 10 * second, []time.Duration{10 * second, 19625 * time.Millisecond, 20 * second, 29625 * time.Millisecond, 30 * second}},
	} {
		t.Run(name, func(t *testing.T) {
			p := testPlanner()
			p.joined([]*plannedJob{p.with(t, Job{Name: "tick", Schedule: Every(row.period), Do: doNothing, Grace: row.grace})}, epoch)
			for _, look := range row.looks {
				check(t, "looks at the job", fmt.Sprint(p.wake().Sub(epoch)), fmt.Sprint(look))
				now := p.wake()
				requests := p.request(p.due(now), now)
				if len(requests) != 1 || !requests[0].claims {
					t.Fatalf("at %v it asks %+v, want a claim", look, requests)
				}
				record := store.Record{Name: "job/tick", Holder: "x", Token: 1, Age: now.Sub(after(row.granted)), Left: 10 * minute}
				p.answer(requests[0], answer{trip: trip{now, now, 0}, out: store.Outcome{Err: &store.HeldError{Record: record}}})
			}
		})
	}
}

// The clock of a replica may be ahead by a little, so that it was granted a job before a scheduled time was due by another clock. Another replica that claimed
// the time then has not missed it, whatever becomes of those that had the job, if there is no record of another run. The record of one that may run once only shows at once which run it is.
func TestTimeOfAHolderWhoseClockIsAhead(t *testing.T) {
	for name, row := range map[string]struct {
		crash   Crash
		granted time.Duration // when the first holder was granted the job, before it was due
		mark    time.Duration // of the record when that had ended
		run     string
	}{
		"both died":                    {0, minute - 3*time.Millisecond, 0, "1m0s attempt 2 announced"},
		"a run was recorded":           {0, minute - 3*time.Millisecond, second, ""},
		"further than clocks differ":   {0, minute - skew - time.Millisecond, 0, ""},
		"it may run once only":         {CrashGiveUp, minute - 3*time.Millisecond, 0, ""},
		"granted when it was due here": {0, minute, 0, "1m0s attempt 2 announced"},
	} {
		t.Run(name, func(t *testing.T) {
			p, job := known{crash: row.crash}.planner(t)
			p.joined([]*plannedJob{job}, epoch)
			claim := func(out store.Outcome, now time.Time) step {
				t.Helper()
				req := p.request(p.due(now), now)
				if len(req) != 1 || !req[0].claims {
					t.Fatalf("at %v it asks %+v, want a claim", now.Sub(epoch), req)
				}
				return p.answer(req[0], answer{trip: trip{now, now, 0}, out: out})
			}
			held := func(holder string, token int64, since, until, now time.Duration) {
				t.Helper()
				claim(store.Outcome{Err: &store.HeldError{Record: store.Record{Name: job.name, Holder: holder, Token: token, Age: now - since, Left: until - now, Mark: job.mark}}}, after(now))
			}
			held("a", 1, row.granted, minute+20*second, minute)
			held("b", 2, minute+20*second, minute+40*second, minute+20*second)
			g := store.Grant{Token: 3, Mark: job.mark, ExpiredAge: 20 * second, State: (&jobState{Since: ms(0)}).json()}
			if row.mark > 0 {
				g.Mark = ms(row.mark)
			}
			check(t, "run", claim(store.Outcome{Grant: g}, after(minute+40*second)).run.text(), row.run)
		})
	}
}

// A time is not missed because of a linger that this replica has seen for the first time when it claimed, if that was to end within Grace.
func TestLingerThatIsSeenLate(t *testing.T) {
	for name, row := range map[string]struct {
		age, left time.Duration // since the grant, and until the linger has been seen long enough
		claim     string        // when it has
	}{
		"it was to end before":              {minute, 40 * second, "1m0s"},
		"it was to end when Grace is over":  {25 * second, 40 * second, "1m0s"},
		"it was to end after Grace":         {25*second - time.Millisecond, 40 * second, ""},
		"it ends within Grace":              {30 * second, 10 * second, "1m0s"},
		"it ends when the time was missed":  {20 * second, 20 * second, ""},
		"it is by a clock that is far away": {0, 40 * second, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := testPlanner()
			job := p.with(t, Job{Name: "tick", Schedule: Every(minute), Do: doNothing, Grace: 15 * second, AtLeast: 40 * second})
			p.joined([]*plannedJob{job}, epoch)
			at := after(minute)
			req := p.request(p.due(at), at)[0]
			lingers := &store.HeldError{Record: store.Record{Name: "job/tick", Token: 1, Age: row.age, Left: row.left}}
			p.answer(req, answer{trip: trip{at, at, 0}, out: store.Outcome{Err: lingers}})
			check(t, "looks again", fmt.Sprint(p.wake().Sub(epoch)), fmt.Sprint(minute+row.left))
			got := ""
			for _, req := range p.request(p.due(p.wake()), after(minute+row.left)) {
				if req.claims {
					got = fmt.Sprint(time.UnixMilli(req.claim.Mark).Sub(epoch))
				}
			}
			check(t, "claims", got, row.claim)
		})
	}
}

// On a store without a clock each replica looks itself at a job that lingers, so that it sees early since when.
func TestJobThatLingersIsInNoGroupWithoutAClock(t *testing.T) {
	for _, clockless := range []bool{false, true} {
		p := testPlanner()
		p.limits.clockless = clockless
		var jobs []*plannedJob
		for name, atLeast := range map[string]time.Duration{"a": 0, "b": second, "c": 0} {
			jobs = append(jobs, p.with(t, Job{Name: name, Schedule: Every(minute), Do: doNothing, AtLeast: atLeast}))
		}
		p.joined(jobs, epoch)
		at := after(minute)
		groups, alone := p.requestGroups(p.due(at), at)
		got := ""
		for _, g := range groups {
			got += fmt.Sprint(len(g.jobs), " together ")
		}
		for _, j := range alone {
			got += j.job.Name
		}
		check(t, fmt.Sprint("without a clock ", clockless, ": claims"), got, map[bool]string{false: "3 together ", true: "2 together b"}[clockless])
	}
}

// The history names the replica that died if its lease was seen, however short leases are.
func TestWhoDied(t *testing.T) {
	for name, row := range map[string]struct {
		age, expired time.Duration // of the lease that was seen when the job was claimed first, and of that whose holder died, when it was claimed again
		slow         time.Duration // how long the second claim took
		later        time.Duration // than the first
		replica      string
	}{
		"it was seen":                                 {0, 1900 * time.Millisecond, 0, 1900 * time.Millisecond, "r1"},
		"it was seen when it was old":                 {time.Hour, time.Hour + 1900*time.Millisecond, 0, 1900 * time.Millisecond, "r1"},
		"clocks drift":                                {0, 1700 * time.Millisecond, 0, 1900 * time.Millisecond, "r1"},
		"another was granted after the one seen":      {0, 900 * time.Millisecond, 0, 1900 * time.Millisecond, ""},
		"it was granted before the one seen":          {0, 2900 * time.Millisecond, 0, 1900 * time.Millisecond, ""},
		"nobody knows when, for the answer took long": {0, 900 * time.Millisecond, second, 1900 * time.Millisecond, "r1"},
		"clocks drift for an hour":                    {0, time.Hour - 1900*time.Millisecond, 0, time.Hour, "r1"},
		"another was granted, an hour ago":            {0, time.Hour - 2100*time.Millisecond, 0, time.Hour, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p, job := known{mark: minute}.planner(t)
			at := after(2*minute + second)
			req := jobRequest{job: job, spec: job.jobSpec, claims: true}
			held := &store.HeldError{Record: store.Record{Name: "job/tick", Holder: "r1#x-1", Token: 5, Mark: job.mark, Age: row.age, Left: second}}
			p.answer(req, answer{trip: trip{at, at, 0}, out: store.Outcome{Err: held}})
			at = at.Add(row.later)
			state := jobState{Pending: ms(2 * minute)}
			g := store.Grant{Token: 9, Mark: job.mark, ExpiredAge: row.expired, State: state.json()}
			runs := p.answer(req, answer{trip: trip{at.Add(-row.slow), at, 0}, out: store.Outcome{Grant: g}}).run.state.Runs
			if len(runs) != 1 || runs[0].Replica != row.replica || (runs[0].Token == 5) != (row.replica != "") {
				t.Errorf("the history is %+v; want one run, of the replica %q", runs, row.replica)
			}
		})
	}
}

// The one that has claimed a group keeps the others from looking until a job of it stops lingering, if a time of that is not missed by then: should it be cut off,
// another begins the time.
func TestWhatLingersIsLookedAtByOthersOfTheGroup(t *testing.T) {
	for name, row := range map[string]struct {
		left, linger time.Duration
	}{
		"it ends while a time can be begun":      {9 * second, 9 * second},
		"it ends when a time is as good as lost": {14 * second, 30 * second},
	} {
		t.Run(name, func(t *testing.T) {
			p := testPlanner()
			p.joined([]*plannedJob{p.with(t, Job{Name: "a", Schedule: Every(minute), Do: doNothing, Grace: 15 * second}),
				p.with(t, Job{Name: "b", Schedule: Every(minute), Do: doNothing, Grace: 15 * second})}, epoch)
			at := after(minute)
			for _, req := range ofTheGroup(t, p, at) {
				lingers := &store.HeldError{Record: store.Record{Name: req.claim.Name, Token: 2, Left: row.left}}
				p.answer(req, answer{trip: trip{at, at, 0}, out: store.Outcome{Err: lingers}})
			}
			releases := p.finishGroups(at)
			if len(releases) != 1 || releases[0].Linger != row.linger {
				t.Errorf("gives back %+v, want the name of the group to linger for %v", releases, row.linger)
			}
		})
	}
}

// A run of an older time comes first, and a manual one does. The others of the group look at the job before the time that is due is missed: the replica that runs it may be cut off by then.
func TestWhatComesAfterARunIsLookedAtByOthersOfTheGroup(t *testing.T) {
	for name, row := range map[string]struct {
		interrupted time.Duration // the time of a run that the record shows; none if 0
		trigger     int64
		linger      time.Duration
	}{
		"the time that is due":  {0, 0, 30 * second},
		"an older time":         {minute, 0, 13125 * time.Millisecond},
		"the time, interrupted": {2 * minute, 0, 30 * second},
		"a manual run":          {0, 1, 13125 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			p := testPlanner()
			a := p.with(t, Job{Name: "a", Schedule: Every(minute), Do: doNothing, Grace: 15 * second})
			p.joined([]*plannedJob{a, p.with(t, Job{Name: "b", Schedule: Every(minute), Do: doNothing, Grace: 15 * second})}, epoch)
			at := after(2 * minute)
			for _, req := range ofTheGroup(t, p, at) {
				grant := store.Grant{Token: 2}
				if req.job == a && row.interrupted > 0 {
					grant.State = (&jobState{Pending: ms(row.interrupted)}).json()
				}
				if req.job == a {
					a.asked.Trigger, a.asked.At = row.trigger, at
				}
				p.answer(req, answer{trip: trip{at, at, 0}, out: store.Outcome{Grant: grant}})
			}
			releases := p.finishGroups(at)
			if len(releases) != 1 || releases[0].Linger != row.linger {
				t.Errorf("gives back %+v, want the name of the group to linger for %v", releases, row.linger)
			}
		})
	}
}

// Who is told that another claims a group waits for it, but only so often: one that claims the jobs and dies may be followed by another that does.
func TestPatienceWithThoseThatClaimAGroup(t *testing.T) {
	p := testPlanner()
	p.joined([]*plannedJob{p.with(t, Job{Name: "a", Schedule: Every(minute), Do: doNothing, Grace: 15 * second}),
		p.with(t, Job{Name: "b", Schedule: Every(minute), Do: doNothing, Grace: 15 * second})}, epoch)
	for i, row := range []struct {
		minute int
		holder string // of the group's name; none if somebody has claimed the jobs
		token  int64  // 0 if the record is locked, and nobody knows who claims them
		mine   int
	}{{1, "x", 1, 0}, {1, "y", 2, 0}, {1, "", 2, 0}, {1, "x", 3, 0}, {1, "y", 4, 0}, {1, "z", 5, 0}, {2, "x", 1, 0}, {2, "y", 2, 0}, {2, "", 0, 0}, {2, "z", 3, 0}, {2, "w", 4, 2}} {
		at := after(time.Duration(row.minute)*minute + time.Duration(i)*second)
		p.joined(nil, at) // another job has come, and groups are made anew
		requests, alone := p.requestGroups(p.due(at), at)
		if len(requests) != 1 || len(alone) > 0 {
			t.Fatalf("%d groups and %d jobs alone are claimed", len(requests), len(alone))
		}
		held := &store.HeldError{Record: store.Record{Holder: row.holder, Token: row.token, Left: second}}
		mine, err := p.answerGroup(requests[0], store.Outcome{Err: held}, at)
		if err != nil || len(mine) != row.mine {
			t.Errorf("refused for the %d. time: claims %d jobs, want %d: %v", i+1, len(mine), row.mine, err)
		}
	}
}

// Jobs that are not due together are in no group, nor one that is about to go.
func TestWhatIsInNoGroup(t *testing.T) {
	for name, row := range map[string]struct {
		job    Job
		groups int
	}{
		"jobs of one schedule": {Job{Schedule: Every(minute)}, 1},
		"fixed delays":         {Job{Schedule: Delay(minute)}, 0},
		"jobs with a jitter":   {Job{Schedule: Every(minute), Jitter: second}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := testPlanner()
			var jobs []*plannedJob
			for i := range 3 {
				row.job.Name, row.job.Do = fmt.Sprint(i), doNothing
				jobs = append(jobs, p.with(t, row.job))
			}
			p.joined(jobs, epoch)
			p.due(epoch)
			if len(p.groups) != row.groups {
				t.Errorf("%d groups, want %d", len(p.groups), row.groups)
			}
			jobs[0].phase = granted // so that it goes when its run has ended
			p.remove(jobs[0])
			p.due(epoch)
			for _, g := range p.groups {
				if slices.Contains(g.jobs, jobs[0]) {
					t.Error("a job that is removed is in a group")
				}
			}
		})
	}
}

// A group's name is taken for as long as claiming takes, and for no longer than others of the group can wait for, or a lease lasts.
func TestNameOfAGroupIsTakenForAsLongAsClaimingTakes(t *testing.T) {
	for _, row := range []struct {
		ttl, grace, request, want time.Duration
	}{
		{minute, 5 * minute, second, 2 * second},
		{minute, 4 * second, second, second},
		{1500 * time.Millisecond, 5 * minute, second, 1500 * time.Millisecond},
		{minute, 2 * time.Millisecond, second, store.MinTTL},
	} {
		p := testPlanner()
		p.limits.requestTimeout = row.request
		var jobs []*plannedJob
		for i, grace := range []time.Duration{row.grace, row.grace + minute} {
			jobs = append(jobs, p.with(t, Job{Name: fmt.Sprint(i), Schedule: Every(minute), Do: doNothing, TTL: row.ttl, Grace: grace}))
		}
		p.joined(jobs, epoch)
		at := after(minute)
		groups, _ := p.requestGroups(p.due(at), at)
		if len(groups) != 1 || groups[0].claim.TTL != row.want {
			t.Errorf("with %+v: %+v", row, groups)
		}
	}
}

// Of jobs that are due each is claimed, with its group or alone: alone what is to be claimed for another time than the rest of its group, and what has not enough others.
func TestEachJobThatIsDueIsClaimedOnce(t *testing.T) {
	for name, row := range map[string]struct {
		older    []string // these are to be claimed for an older time
		away     []string // these are not due
		together int
	}{
		"all together":               {nil, nil, 4},
		"one for an older time":      {[]string{"b"}, nil, 3},
		"one that is not due":        {nil, []string{"a"}, 3},
		"too few that are due":       {nil, []string{"a", "c"}, 0},
		"too few for the older time": {[]string{"a"}, []string{"c"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := testPlanner()
			p.limits.from = 3
			var jobs []*plannedJob
			for _, name := range []string{"a", "b", "c", "d"} {
				job := Job{Name: name, Schedule: Every(minute), Do: doNothing, Grace: 15 * second}
				if slices.Contains(row.older, name) {
					job.Grace = second
				}
				j := p.with(t, job)
				if slices.Contains(row.older, name) {
					j.timely = timelyClaim{at: after(minute), refused: true, mark: j.mark}
				}
				if slices.Contains(row.away, name) {
					j.mark = ms(2 * minute)
				}
				jobs = append(jobs, j)
			}
			at := after(2*minute + 5*second)
			p.joined(jobs, at)
			groups, alone := p.requestGroups(p.due(at), at)
			claimed := map[string]int{}
			together := 0
			for _, g := range groups {
				together += len(g.jobs)
				for _, j := range g.jobs {
					claimed[j.job.Name]++
				}
			}
			for _, j := range alone {
				claimed[j.job.Name]++
			}
			for _, j := range jobs {
				if want := map[bool]int{true: 0, false: 1}[slices.Contains(row.away, j.job.Name)]; claimed[j.job.Name] != want {
					t.Errorf("%s is claimed %d times, want %d", j.job.Name, claimed[j.job.Name], want)
				}
			}
			if together != row.together {
				t.Errorf("%d jobs are claimed together, want %d", together, row.together)
			}
		})
	}
}

// What is claimed once more for the same time is claimed alone: others of the group need not know that it is open.
func TestWhatIsClaimedOnceMoreIsClaimedAlone(t *testing.T) {
	p, jobs := pair(t)
	at := after(minute)
	p.unanswered(ofTheGroup(t, p, at), at)
	for _, j := range jobs {
		j.open = false
	}
	p.finishGroups(at)
	at = p.wake().Add(second)
	if groups, alone := p.requestGroups(p.due(at), at); len(groups) != 0 || len(alone) != 2 {
		t.Errorf("%d groups and %d jobs alone are claimed, want both jobs alone", len(groups), len(alone))
	}
}

// Jobs whose runs were interrupted are claimed alone, though all of their group were: the name of the group is taken by who claimed them for these runs.
func TestWhatWasInterruptedIsClaimedAlone(t *testing.T) {
	p, _ := pair(t)
	at := after(minute)
	groups, _ := p.requestGroups(p.due(at), at)
	if _, err := p.answerGroup(groups[0], store.Outcome{Err: &store.HeldError{Record: store.Record{Left: 14 * second}}}, at); err != nil {
		t.Fatal(err)
	}
	at = at.Add(second)
	p.heard(controlNews{version: 1, left: left{Jobs: map[string]int64{"a": 6, "b": 7}}}, at)
	again, alone := p.requestGroups(p.due(at), at)
	check(t, "at once", fmt.Sprint(len(again), len(alone)), "0 2")
}

// A job that was late once, and claimed alone, is claimed with its group when it is due the next time.
func TestWhatWasClaimedAloneIsClaimedByItsGroupAgain(t *testing.T) {
	p, jobs := pair(t)
	for _, j := range jobs {
		j.behind = true
	}
	at := after(minute)
	groups, alone := p.requestGroups(p.due(at), at)
	check(t, "alone", fmt.Sprint(len(groups), len(alone)), "0 2")
	for _, req := range p.request(alone, at) {
		p.answer(req, answer{trip: trip{at, at, 0}, out: store.Outcome{Err: &store.DoneError{Record: store.Record{Mark: ms(minute)}}}})
	}
	at = after(2 * minute)
	groups, alone = p.requestGroups(p.due(at), at)
	check(t, "by their group", fmt.Sprint(len(groups), len(alone)), "1 0")
}

// A group of which all is done is looked at again at its next time, and one whose claim has failed is soon. A job is claimed while there is time,
// however long another has the group's name.
func TestGroupIsLookedAtAgain(t *testing.T) {
	held := func(holder string, left time.Duration) error {
		return &store.HeldError{Record: store.Record{Holder: holder, Left: left}}
	}
	for name, row := range map[string]struct {
		err   error
		looks time.Duration
		alone int // jobs that are looked at then without their group
	}{
		"done":                      {&store.DoneError{}, 2 * minute, 0},
		"held":                      {held("x", 5*second), minute + 5*second, 0},
		"claimed":                   {held("", 13*second), minute + 13*second, 0},
		"held too long":             {held("x", 20*second), minute + 15*second*7/8, 2},
		"claimed, and told so late": {held("", 20*second), minute + 15*second*7/8, 2},
		"claimed, for all that TTL": {held("", 29*second), minute + 29*second, 2}, // to see that there is nothing to claim
		"claimed, and told so then": {&store.HeldError{Record: store.Record{Left: 20 * second, Age: 9 * second}}, minute + 20*second, 2},
		"failed":                    {errControl, minute + longestPause/3, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := pair(t)
			at := after(minute)
			groups, _ := p.requestGroups(p.due(at), at)
			mine, err := p.answerGroup(groups[0], store.Outcome{Err: row.err}, at)
			if (err != nil) != (name == "failed") || len(mine) > 0 {
				t.Errorf("%d jobs are to be claimed, %v", len(mine), err)
			}
			if len(p.wakes) != 2 {
				t.Fatalf("%d jobs are looked at again, want 2", len(p.wakes))
			}
			check(t, "looks again", fmt.Sprint(p.wake().Sub(epoch)), fmt.Sprint(row.looks))
			at = p.wake()
			if _, alone := p.requestGroups(p.due(at), at); len(alone) != row.alone {
				t.Errorf("then %d jobs are looked at alone, want %d", len(alone), row.alone)
			}
		})
	}
}

// Without a clock in the store each replica sees for itself whether the holder of a job has died. Who was refused a job when it was the first to see its lease claims it when that is over,
// although another has the name of the group by then, which has seen less of the lease.
func TestLeaseThatIsOverHereOnly(t *testing.T) {
	for _, row := range []struct {
		clockless bool
		over      time.Duration // the lease of a, after the minute
		looks     time.Duration
		alone     string
	}{
		{true, 2 * second, 2 * second, "a"},
		{true, 0, 0, "a"},
		{true, 6 * second, 5 * second, ""},
		{false, 2 * second, 5 * second, ""},
	} {
		p, jobs := pair(t)
		p.limits.clockless = row.clockless
		at := after(minute)
		jobs[0].leaseEnd = at.Add(row.over)
		groups, _ := p.requestGroups(p.due(at), at)
		if _, err := p.answerGroup(groups[0], store.Outcome{Err: &store.HeldError{Record: store.Record{Holder: "y", Left: 5 * second}}}, at); err != nil {
			t.Fatal(err)
		}
		check(t, fmt.Sprintf("%+v: looks again", row), fmt.Sprint(p.wake().Sub(at)), fmt.Sprint(row.looks))
		at = p.wake()
		_, alone := p.requestGroups(p.due(at), at)
		names := ""
		for _, j := range alone {
			names += j.job.Name
		}
		check(t, fmt.Sprintf("%+v: alone", row), names, row.alone)
	}
}

// The one that has claimed a group keeps the others from looking for no longer than each of its jobs allows, and not at all if it does not know of one.
func TestHowLongAGroupRests(t *testing.T) {
	lingers := func(left time.Duration) store.Outcome {
		return store.Outcome{Err: &store.HeldError{Record: store.Record{Token: 2, Left: left}}}
	}
	done := store.Outcome{Err: &store.DoneError{Record: store.Record{Token: 2, Mark: ms(minute)}}}
	underWay := store.Outcome{Err: &store.DoneError{Record: store.Record{Token: 2, Mark: ms(minute), Holder: "x", Left: 5 * second}}}
	for name, row := range map[string]struct {
		a, b   store.Outcome
		linger time.Duration
		done   bool
	}{
		"the first is shorter":  {lingers(5 * second), lingers(9 * second), 5 * second, false},
		"the second is shorter": {lingers(9 * second), lingers(5 * second), 5 * second, false},
		"one was not answered":  {lingers(5 * second), store.Outcome{Err: store.ErrUnknown}, 0, false},
		"all is done":           {done, done, 0, true},
		"one is done, and its holder may die in a manual run": {done, underWay, 30 * second, false},
	} {
		t.Run(name, func(t *testing.T) {
			p, jobs := pair(t)
			at := after(minute)
			for _, req := range ofTheGroup(t, p, at) {
				out := row.a
				if req.job == jobs[1] {
					out = row.b
				}
				p.answer(req, answer{trip: trip{at, at, 0}, out: out})
			}
			releases := p.finishGroups(at)
			if len(releases) != 1 || releases[0].Linger != row.linger || (releases[0].Mark > 0) != row.done {
				t.Errorf("gives back %+v, want the name of the group to linger for %v, done %t", releases, row.linger, row.done)
			}
		})
	}
}

// A job that the claimer of a group has not claimed is claimed by another at once: it would be missed until the name of the group is free again.
func TestWhatTheClaimerOfAGroupLeavesOutIsClaimedByAnother(t *testing.T) {
	for name, row := range map[string]struct {
		is     func(p *planner, c *plannedJob)
		linger time.Duration
	}{
		"it is to be looked at later":          {func(p *planner, c *plannedJob) { p.joined([]*plannedJob{c}, epoch); p.lookAt(c, after(minute+second)) }, 0},
		"it has not joined":                    {func(*planner, *plannedJob) {}, 0},
		"a run of it is under way":             {func(_ *planner, c *plannedJob) { c.phase, c.runs = granted, after(minute) }, 30 * second},
		"a run before it is under way":         {func(_ *planner, c *plannedJob) { c.phase, c.runs = granted, epoch }, 13125 * time.Millisecond},
		"a manual run is under way":            {func(_ *planner, c *plannedJob) { c.phase = granted }, 13125 * time.Millisecond},
		"it is paused":                         {func(_ *planner, c *plannedJob) { c.asked.Paused = &Pause{} }, 30 * second},
		"it is done":                           {func(_ *planner, c *plannedJob) { c.mark = ms(minute) }, 30 * second},
		"it was claimed for this time already": {func(_ *planner, c *plannedJob) { c.claimed = ms(minute) }, 30 * second},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := pair(t)
			c := p.with(t, Job{Name: "c", Schedule: Every(minute), Do: doNothing, Grace: 15 * second})
			row.is(p, c)
			at := after(minute)
			for _, req := range ofTheGroup(t, p, at) {
				p.answer(req, answer{trip: trip{at, at, 0}, out: store.Outcome{Grant: store.Grant{Token: 2}}})
			}
			releases := p.finishGroups(at)
			if len(releases) != 1 || releases[0].Linger != row.linger || releases[0].Mark > 0 {
				t.Errorf("gives back %+v, want the name of the group to linger for %v", releases, row.linger)
			}
		})
	}
}

// The replica that claims for all does not keep the others from a job whose record a transaction had locked: nobody has it then, and this replica may be cut off before it looks again.
func TestLockedJobOfAGroupIsClaimedByAnother(t *testing.T) {
	for name, row := range map[string]struct {
		out    store.Outcome // of the claim of one of the jobs
		linger time.Duration
	}{
		"its record is locked": {store.Outcome{Err: &store.HeldError{Record: store.Record{Left: second / 10}}}, 0},
		"another has it":       {store.Outcome{Err: &store.HeldError{Record: store.Record{Holder: "x", Token: 7, Left: 30 * second}}}, 13125 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := pair(t)
			at := after(minute)
			for i, req := range ofTheGroup(t, p, at) {
				out := store.Outcome{Grant: store.Grant{Token: 2}}
				if i == 1 {
					out = row.out
				}
				p.answer(req, answer{trip: trip{at, at, 0}, out: out})
			}
			releases := p.finishGroups(at)
			if len(releases) != 1 || releases[0].Linger != row.linger || releases[0].Mark > 0 {
				t.Errorf("gives back %+v, want the name of the group to linger for %v", releases, row.linger)
			}
		})
	}
}

// A pause that may be over by now does not make a job done for the others of its group; one that is known to hold does.
func TestAnOldPauseDoesNotEndAGroup(t *testing.T) {
	paused := &plannedJob{asked: control{Paused: &Pause{}}}
	if !paused.lacks(ms(minute), false, after(minute)) {
		t.Error("with controls that have changed since they were read, a paused job counts as done")
	}
	if paused.lacks(ms(minute), true, after(minute)) {
		t.Error("a paused job is to be looked at for a time that falls into the pause")
	}
}

// A job that is removed while it is claimed is given back.
func TestAJobThatIsRemovedMeanwhileIsGivenBack(t *testing.T) {
	for _, removed := range []bool{false, true} {
		p, job := known{mark: minute}.planner(t)
		at := after(2 * minute)
		p.joined([]*plannedJob{job}, at)
		req := p.request(p.due(at), at)[0]
		if removed {
			p.remove(job)
		}
		s := p.answer(req, answer{trip: trip{at, at, 0}, out: store.Outcome{Grant: store.Grant{Token: 7, Mark: job.mark}}})
		if !s.granted || s.back != removed {
			t.Errorf("removed %t: granted %t, given back %t", removed, s.granted, s.back)
		}
	}
}

// pair returns a planner with two jobs that are due together.
func pair(t *testing.T) (*planner, []*plannedJob) {
	t.Helper()
	p := testPlanner()
	var jobs []*plannedJob
	for _, name := range []string{"a", "b"} {
		jobs = append(jobs, p.with(t, Job{Name: name, Schedule: Every(minute), Do: doNothing, Grace: 15 * second}))
	}
	p.joined(jobs, epoch)
	return p, jobs
}

// ofTheGroup has the planner granted the name of the one group of jobs that are due, which has two, and returns the claims of those.
func ofTheGroup(t *testing.T, p *planner, at time.Time) []jobRequest {
	t.Helper()
	groups, _ := p.requestGroups(p.due(at), at)
	mine, err := p.answerGroup(groups[0], store.Outcome{Grant: store.Grant{Token: 1}}, at)
	if err != nil || len(mine) != 2 {
		t.Fatalf("%d jobs are to be claimed, %v", len(mine), err)
	}
	return p.request(mine, at)
}

// A job whose schedule is replaced leaves the group of those with the former one.
func TestUpdatedJobLeavesItsGroup(t *testing.T) {
	p, jobs := pair(t)
	p.due(epoch)
	if jobs[0].group == nil || jobs[0].group != jobs[1].group {
		t.Fatal("two jobs with one schedule are in no group")
	}
	spec := *jobs[0].jobSpec
	spec.job.Schedule = Every(2 * minute)
	p.update(jobs[0], &spec, epoch)
	p.due(epoch)
	if jobs[0].group != nil || jobs[1].group != nil || len(p.groups) > 0 {
		t.Error("jobs with different schedules are in one group")
	}
}

// That a request was not answered keeps a paused job from being done for its group until the group is claimed again, and not forever.
func TestUnansweredRequestCountsOnce(t *testing.T) {
	p, jobs := pair(t)
	lead := func(at time.Time) store.Release {
		t.Helper()
		groups, _ := p.requestGroups(p.due(at), at)
		if len(groups) != 1 {
			t.Fatalf("%d groups are claimed at %v", len(groups), at.Sub(epoch))
		}
		if _, err := p.answerGroup(groups[0], store.Outcome{Grant: store.Grant{Token: 1}}, at); err != nil {
			t.Fatal(err)
		}
		if at.Equal(after(minute)) {
			p.unanswered(p.request(jobs, at), at)
		}
		for _, j := range jobs {
			j.open, j.asked = false, control{Paused: &Pause{}}
		}
		releases := p.finishGroups(at)
		for _, j := range jobs {
			j.asked = control{}
			p.lookAt(j, after(2*minute))
		}
		return releases[0]
	}
	if r := lead(after(minute)); r.Mark != 0 {
		t.Error("a group is done although nobody knows whether its jobs are still paused")
	}
	if r := lead(after(2 * minute)); r.Mark != 1 {
		t.Error("a group is not done although all of its jobs are paused, and that is known")
	}
}

// Missed times are counted by the replica that leaves them out, and not again by one that takes its run over or tries it once more.
func TestMissedTimesAreCountedOnce(t *testing.T) {
	for name, row := range map[string]struct {
		known
		asked     time.Duration // just after 4m if 0
		state     *jobState
		abandoned time.Duration
		want      string
		missed    int
	}{
		"the first that runs a later one":   {want: "4m0s", missed: 2},
		"its successor, after its death":    {abandoned: 10 * second, want: "4m0s"},
		"one that tries the run again":      {state: &jobState{Pending: ms(4 * minute), Attempts: 1}, want: "4m0s"},
		"one that takes over what it left":  {state: &jobState{Pending: ms(4 * minute)}, want: "4m0s"},
		"more than are counted":             {known: known{schedule: Every(second)}, asked: time.Hour, want: "59m45s", missed: mostMissed},
		"a manual run, for none":            {known: known{trigger: 1}, asked: 5 * minute, want: "manual 1"},
		"a run with a fixed delay, of none": {known: known{schedule: Delay(10 * second), ended: 4 * minute}, asked: 4*minute + 11*second, want: "4m10s"},
	} {
		t.Run(name, func(t *testing.T) {
			row.mark = minute
			p, job := row.planner(t)
			at := after(4*minute + 11*second)
			if row.asked > 0 {
				at = after(row.asked)
			}
			g := store.Grant{Token: 7, Mark: job.mark, ExpiredAge: row.abandoned}
			if row.state != nil {
				g.State = row.state.json()
			}
			job.asked.At = at
			d := p.answer(jobRequest{job: job, spec: job.jobSpec, claims: true}, answer{trip: trip{at, at, 0}, out: store.Outcome{Grant: g}}).run
			check(t, "runs", strings.Split(d.text(), " attempt")[0], row.want)
			if d.missed != row.missed {
				t.Errorf("%d times count as missed, want %d", d.missed, row.missed)
			}
		})
	}
}

// Who begins once more knows nothing of what people ask: the store may have been put back to an older state meanwhile, and a version of it come again.
func TestWhatWasHeardIsForgottenAtTheBeginning(t *testing.T) {
	p, job := known{mark: minute}.planner(t)
	p.joined([]*plannedJob{job}, after(minute))
	p.heard(controlNews{each: map[string]control{}, version: 3}, after(minute))
	check(t, "known before", fmt.Sprint(p.knows(3)), "true")
	p.begin(after(2 * minute))
	check(t, "known after", fmt.Sprint(p.knows(3)), "false")
}

// A replica gives back what it was granted, because nobody could say whether the run may begin. The next one finds the run, although it would be missed by then,
// and what befell it.
func TestWhatIsGivenBackIsFound(t *testing.T) {
	for _, row := range []struct {
		rule string
		known
		state     *jobState     // of the record
		abandoned time.Duration // when the lease before was granted, whose holder died; never if 0
		want      string        // what the next replica does
		history   string
	}{
		{rule: "a run is found", want: "2m0s attempt 1 announced"},
		{rule: "a run that may be run once only has not begun", known: known{crash: CrashGiveUp}, want: "2m0s attempt 1 announced"},
		{rule: "a run that was interrupted has its attempts", state: &jobState{Pending: ms(2 * minute), Attempts: 2}, want: "2m0s attempt 3 announced"},
		{rule: "the crash of a run counts once", abandoned: 2*minute + second, want: "2m0s attempt 2 announced", history: "2m0s attempt 1 abandoned from 2m1s to 2m10s"},
		{rule: "a manual run is found", known: known{trigger: 1}, want: "manual 1 attempt 1 announced"},
		{rule: "a manual run that may be run once only has not begun", known: known{trigger: 1, crash: CrashGiveUp}, want: "manual 1 attempt 1 announced"},
		{rule: "nor has it if the grant told of the end of another run", known: known{trigger: 1, crash: CrashGiveUp}, state: &jobState{Pending: ms(minute)}, abandoned: minute + second, want: "manual 1 attempt 1 announced", history: "1m0s attempt 1 abandoned from 1m1s to 2m10s"},
		{rule: "the crash of a manual run counts once", known: known{trigger: 1}, state: &jobState{Pending: -1, Manual: ms(20 * second)}, abandoned: 2*minute + second, want: "manual 1 attempt 2 announced", history: "manual 20s attempt 1 abandoned from 2m1s to 2m10s"},
		{rule: "the end of a run that may be run once only is told once", known: known{crash: CrashGiveUp, paused: true}, state: &jobState{Pending: ms(minute)}, abandoned: minute + second, history: "1m0s attempt 1 abandoned from 1m1s to 2m10s"},
		{rule: "nothing is found where nothing is to be run", known: known{paused: true}},
	} {
		t.Run(row.rule, func(t *testing.T) {
			row.mark = minute
			at := after(2*minute + 10*second)
			g := store.Grant{Token: 7, Mark: ms(minute), State: (&jobState{Since: ms(0)}).json()}
			if row.state != nil {
				g.State = row.state.json()
			}
			if row.abandoned > 0 {
				g.ExpiredAge = at.Sub(after(row.abandoned))
			}
			for range 3 {
				p, job := row.planner(t)
				s := p.answer(jobRequest{job: job, spec: job.jobSpec, claims: true}, answer{trip: trip{at, at, 0}, out: store.Outcome{Grant: g}, controls: errControl})
				if !s.granted || !s.back {
					t.Fatal("it does not give the job back")
				}
				if s.unused != nil {
					g.State = s.unused
				}
				if s.unused != nil && row.want == "" && row.history == "" {
					t.Error("it writes a record that has nothing to tell")
				}
				g.Token, g.ExpiredAge = g.Token+1, 0
				at = at.Add(20 * second)
			}
			p, job := row.planner(t)
			d := p.answer(jobRequest{job: job, spec: job.jobSpec, claims: true}, answer{trip: trip{at, at, 0}, out: store.Outcome{Grant: g}}).run
			check(t, "run", d.text(), row.want)
			check(t, "history", historyText(d.state.Runs), row.history)
		})
	}
}

// A replica that was granted a job in time and could neither run it nor give it back runs it when it is granted it again, although it was not answered in between.
func TestGrantThatWasOfNoUseIsRemembered(t *testing.T) {
	p, job := known{mark: minute}.planner(t)
	p.joined([]*plannedJob{job}, after(minute))
	at := after(2 * minute)
	claim := func(out store.Outcome) step {
		t.Helper()
		req := p.request(p.due(at), at)
		if len(req) != 1 || !req[0].claims {
			t.Fatalf("at %v it asks %+v, want a claim", at.Sub(epoch), req)
		}
		return p.answer(req[0], answer{trip: trip{at, at, 0}, out: out})
	}
	g := store.Grant{Token: 7, Mark: job.mark}
	claim(store.Outcome{Grant: g})
	p.ended(ending{job: job, back: true}, at)
	for range 3 {
		at = p.wake()
		claim(store.Outcome{Err: store.ErrUnknown})
	}
	at = at.Add(minute / 2)
	check(t, "run", claim(store.Outcome{Grant: g}).run.text(), "2m0s attempt 1 announced")
}

// A replica that gives a job back, because the manual run which it was granted it for has been done, looks at it again when it is due.
func TestWhatIsGivenBackIsLookedAtWhenItIsDue(t *testing.T) {
	for name, row := range map[string]struct{ at, looks time.Duration }{
		"it is due soon":  {2*minute - second/4, 2 * minute},
		"it is due later": {2*minute - second, 2*minute - second + longestPause/3},
	} {
		t.Run(name, func(t *testing.T) {
			p, job := known{mark: minute, trigger: 1}.planner(t)
			at := after(row.at)
			p.joined([]*plannedJob{job}, at)
			g := store.Grant{Token: 7, Mark: job.mark, State: (&jobState{Since: ms(0), Trigger: 1}).json()}
			if s := p.answer(p.request(p.due(at), at)[0], answer{trip: trip{at, at, 0}, out: store.Outcome{Grant: g}}); !s.granted || !s.run.none() {
				t.Fatalf("it was granted %t, to run %q", s.granted, s.run.text())
			}
			p.ended(ending{job: job, back: true}, at)
			check(t, "looks again", fmt.Sprint(p.wake().Sub(epoch)), fmt.Sprint(row.looks))
		})
	}
}

// The history of a manual run that may be run once only, and whose replica died, tells when it was asked for.
func TestAbandonedManualRunIsOfWhenItWasAskedFor(t *testing.T) {
	p, job := known{mark: minute, crash: CrashGiveUp, trigger: 1}.planner(t)
	at := after(minute + 40*second)
	state := jobState{Pending: -1, Manual: ms(20 * second)}
	g := store.Grant{Token: 7, Mark: job.mark, ExpiredAge: 5 * second, State: state.json()}
	d := p.answer(jobRequest{job: job, spec: job.jobSpec, claims: true}, answer{trip: trip{at, at, 0}, out: store.Outcome{Grant: g}}).run
	if runs := d.state.Runs; len(runs) != 1 || !runs[0].Manual || !runs[0].ScheduledAt.Equal(after(20*second)) || d.state.Trigger != 1 {
		t.Errorf("the history is %+v, and the last manual run %d; want one of 20 s, number 1", runs, d.state.Trigger)
	}
}

// The record of a manual run of which nobody knows when it was asked for can be read: its successor finds the run, and has no time for it either.
func TestManualRunOfUnknownTimeIsFound(t *testing.T) {
	for crash, want := range map[Crash]string{CrashTakeOver: "manual 1 attempt 2 announced", CrashGiveUp: ""} {
		p, job := known{mark: minute, trigger: 1, undated: true, crash: crash}.planner(t)
		g := store.Grant{Token: 7, Mark: job.mark, State: (&jobState{User: []byte("page 7")}).json()}
		grant := func(at time.Time) decision {
			return p.answer(jobRequest{job: job, spec: job.jobSpec, claims: true}, answer{trip: trip{at, at, 0}, out: store.Outcome{Grant: g}}).run
		}
		announced := grant(after(minute + 10*second)).state
		g.State = announced.json()
		if _, err := parseJobState(g.State); err != nil {
			t.Errorf("%v: %v", crash, err)
		}
		g.Token, g.ExpiredAge = 8, 20*second
		d := grant(after(minute + 30*second))
		check(t, fmt.Sprint(crash, ": run"), d.text(), want)
		if runs := d.state.Runs; len(runs) != 1 || !runs[0].ScheduledAt.IsZero() || !runs[0].Manual || string(d.state.User) != "page 7" {
			t.Errorf("%v: the history is %+v, and the function's state %q; want one manual run without a time", crash, runs, d.state.User)
		}
	}
}

// Who resumes a job that is not paused drops nothing: what is due is run.
func TestResumingWhatIsNotPausedDropsNothing(t *testing.T) {
	ctl := control{Trigger: 3, Resumed: 7}
	resume(&ctl)
	if ctl.Paused != nil || ctl.Resumed != 7 || ctl.Trigger != 3 {
		t.Errorf("it is %+v then", ctl)
	}
	ctl.Paused = &Pause{}
	resume(&ctl)
	if ctl.Paused != nil || ctl.Resumed == 7 {
		t.Errorf("resumed after a pause it is %+v", ctl)
	}
}

// A notice that comes late, as of a replica that was cut off, is of an older run than one that came before: this one is kept.
func TestLateNoticeHidesNoLaterRun(t *testing.T) {
	var l left
	l.add(map[string]int64{"tick": 7, "tock": 3})
	l.add(map[string]int64{"tick": 5, "tock": 4})
	check(t, "notices", fmt.Sprint(l.Jobs), "map[tick:7 tock:4]")
}

// Of more jobs that were interrupted than are listed, those that are not may have been, too.
func TestMoreIsLeftThanIsListed(t *testing.T) {
	var l left
	jobs := map[string]int64{}
	for i := range mostLeft + 2 {
		jobs[fmt.Sprint("job ", i)] = int64(10 + i)
	}
	l.add(jobs)
	if len(l.Jobs) != mostLeft {
		t.Errorf("%d jobs are listed, want %d", len(l.Jobs), mostLeft)
	}
	for job, token := range jobs {
		if !l.since(job, token-1, 0) {
			t.Errorf("%s was interrupted under token %d, and nobody knows", job, token)
		}
	}
	if l.since("another", 11, 0) {
		t.Error("a job counts as interrupted under a token that is above those of all that are not listed")
	}
	l.add(map[string]int64{"older": 5})
	if !l.since("another", 10, 0) {
		t.Error("what was not listed before is forgotten when another is not listed either")
	}
}

// Where each name counts its own tokens, those of a job can be below one that is not listed any more: its interruptions are heard all the same, and those that may be meant by that
// token once.
func TestInterruptionIsHeardBelowTheTokensOfOtherJobs(t *testing.T) {
	p, job := known{mark: minute}.planner(t)
	at := after(minute + second)
	p.read(job, store.Record{Name: job.name, Token: 3, Mark: ms(minute)}, trip{at, at, 0})
	p.joined([]*plannedJob{job}, at)
	for _, row := range []struct {
		left left
		due  int
	}{
		{left{All: 365}, 1},
		{left{All: 365}, 0},
		{left{All: 365, Jobs: map[string]int64{"tick": 10}}, 1},
		{left{All: 365, Jobs: map[string]int64{"tick": 10}}, 0},
		{left{All: 366, Jobs: map[string]int64{"tick": 10}}, 1},
		{left{All: 366, Jobs: map[string]int64{"tick": 11}}, 1},
	} {
		at = at.Add(second)
		p.heard(controlNews{left: row.left}, at)
		due := p.due(at)
		if len(due) != row.due {
			t.Errorf("after %+v %d jobs are to be claimed, want %d", row.left, len(due), row.due)
		}
		for _, req := range p.request(due, at) {
			held := &store.DoneError{Record: store.Record{Name: job.name, Token: 3, Mark: ms(minute)}}
			p.answer(req, answer{trip: trip{at, at, 0}, out: store.Outcome{Err: held}})
		}
	}
}

// However many runs are interrupted, and whatever their tokens, each is heard by who has not looked since the one before: it is listed, or may be meant by a token that is new.
func TestEachOfManyInterruptionsIsHeard(t *testing.T) {
	batch := func(prefix string, n int, token func(int) int64) map[string]int64 {
		jobs := map[string]int64{}
		for i := range n {
			jobs[fmt.Sprint(prefix, i)] = token(i)
		}
		return jobs
	}
	from := func(first int64) func(int) int64 { return func(i int) int64 { return first + int64(i) } }
	var all left
	var seen []int64 // the token up to which all may have been interrupted, before each batch
	batches := []map[string]int64{batch("old", 101, from(1000)), {"new": 3}, batch("more", 150, from(5)), batch("same", 101, from(7)), {"last": 1}, {"very last": 2}}
	for i, jobs := range batches {
		seen = append(seen, all.All)
		all.add(jobs)
		if len(all.Jobs) != mostLeft {
			t.Errorf("after batch %d: %d jobs are listed", i, len(all.Jobs))
		}
		for told := max(0, i-2); told <= i; told++ {
			unheard := 0
			for job, token := range batches[told] {
				if !all.since(job, token-1, seen[told]) {
					unheard++
				}
			}
			if unheard > 0 {
				t.Errorf("after batch %d: %d of %d interruptions of batch %d are not heard", i, unheard, len(batches[told]), told)
			}
		}
		for job := range jobs {
			if _, listed := all.Jobs[job]; !listed && len(jobs) == 1 {
				t.Errorf("%s, which was interrupted last, is not listed", job)
			}
		}
	}
}

// What comes next is not pending when it is done as well, and an attempt that was lost may be the last one.
func TestWhatIsOver(t *testing.T) {
	for next, want := range map[int64]int64{0: 0, 6: 0, 7: 0, 8: 8} {
		state := jobState{Pending: 5, Attempts: 2, Next: next, Begun: 1}
		if state.advance(7); state.Pending != want || (state.Attempts == 1) != (want != 0) || state.Next != 0 {
			t.Errorf("with %d to come next, and all done up to 7, what is left is %+v", next, state)
		}
	}
	for attempt, want := range map[int]bool{1: false, 2: true} {
		if over, done := (Job{Retry: Retry{Attempts: 2}}).verdict(RunRecord{Attempt: attempt, Outcome: OutcomeLost}); !over || done != want {
			t.Errorf("attempt %d of 2 was lost: over %t, done %t", attempt, over, done)
		}
	}
}

// The record of a job says what its latest definition has, also where that is the default again.
func TestRecordHasTheLatestGrace(t *testing.T) {
	var s jobState
	for _, grace := range []time.Duration{5 * time.Minute, defaultGrace, time.Second} {
		if s.describe(Job{Schedule: Every(time.Hour), Grace: grace}); s.grace() != grace {
			t.Errorf("the record has a Grace of %v; want %v", s.grace(), grace)
		}
	}
	if s.Grace = mostCounted; s.grace() != Forever.Truncate(time.Millisecond) {
		t.Errorf("the record has the longest Grace that can be; it is read as %v", s.grace())
	}
}

// The last attempt of the run that served a request is found in the history: a run that has its number, or that of a request which came before it had begun.
func TestRunOfARequest(t *testing.T) {
	of := func(request, token int64) RunRecord {
		return RunRecord{Manual: request > 0, Request: request, Token: token}
	}
	full := slices.Repeat([]RunRecord{of(0, 9)}, historyLength-1)
	for _, c := range []struct {
		about string
		runs  []RunRecord
		want  int64 // its token; 0 if it is not there
	}{
		{"the second of two attempts, before one of the schedule", []RunRecord{of(1, 1), of(2, 2), of(2, 3), of(0, 4)}, 3},
		{"one before another manual run", []RunRecord{of(2, 2), of(0, 4), of(3, 5)}, 2},
		{"one that serves a later request too", []RunRecord{of(3, 2), of(3, 3), of(4, 4)}, 3},
		{"the same in a full history that goes back far enough", append([]RunRecord{of(1, 1), of(3, 2)}, full...), 2},
		{"one that a full history may not have any more", append(slices.Clone(full), of(3, 2)), 0},
		{"none", []RunRecord{of(0, 3), of(1, 1)}, 0},
	} {
		run, err := servedBy("tick", 2, c.runs)
		if run.Token != c.want || (err == nil) != (c.want > 0) {
			t.Errorf("%s: %+v, %v", c.about, run, err)
		}
	}
}

// A manual run that is asked for anew with a number that was served is looked for in the record: the job may have been forgotten, and count from 1 again. What else is
// asked of the job is no reason to look.
func TestManualRunsThatCountAnew(t *testing.T) {
	asked := func(number int64, at time.Duration) control {
		return control{Trigger: number, At: after(at)}
	}
	for _, row := range []struct {
		rule string
		news []control
		want bool
	}{
		{"one that was served", []control{asked(2, second)}, false},
		{"its job is paused", []control{{Trigger: 2, At: after(second), Paused: &Pause{}}}, false},
		{"another of its number", []control{asked(2, minute)}, true},
		{"one of a lower number", []control{asked(1, minute)}, true},
		{"nothing is asked any more", []control{{}}, false},
		{"one that comes after that", []control{{}, asked(1, minute)}, true},
	} {
		t.Run(row.rule, func(t *testing.T) {
			p, job := known{served: 2}.planner(t)
			job.asked = asked(2, second)
			p.joined([]*plannedJob{job}, epoch)
			for _, asked := range row.news {
				p.heard(controlNews{each: map[string]control{"tick": asked}}, epoch)
			}
			if got := job.triggered(); got != row.want {
				t.Errorf("it is looked for: %t, want %t", got, row.want)
			}
		})
	}
}

// putForward returns an instant as it is read when the wall clock has been put forward by d before, or the machine was suspended for so long: the
// monotonic clock, which t has too, shows what it would have shown.
func putForward(t *testing.T, at time.Time, d time.Duration) time.Time {
	t.Helper()
	read := at.Add(d)
	(*struct {
		wall uint64
		mono int64 // as package time has it
		loc  *time.Location
	})(unsafe.Pointer(&read)).mono -= int64(d)
	if read.Sub(at) != 0 || read.Round(0).Sub(at.Round(0)) != d {
		t.Fatalf("package time has changed: %v after %v", read, at)
	}
	return read
}

// When the wall clock goes forward, a job is looked at when it is due by it, although the end of a lease that another job waits for is further away by the
// monotonic clock. That lease is asked for too: if the machine was suspended, it has ended.
func TestNoJobWaitsForTheLeaseOfAnother(t *testing.T) {
	now := time.Now()
	p := testPlanner()
	p.with(t, Job{Name: "due", Schedule: At(now.Add(30 * minute)), Do: doNothing, Grace: minute})
	last := p.with(t, Job{Name: "last", Schedule: At(now.Add(40 * minute)), Do: doNothing, Grace: minute})
	waits := p.with(t, Job{Name: "waits", Schedule: At(now.Add(50 * minute)), Do: doNothing, Grace: minute})
	p.read(waits, store.Record{Holder: "x", Token: 1, Age: 2 * minute, Left: 10 * minute, Mark: ms(0)}, trip{now, now, 0})
	refused := p.with(t, Job{Name: "refused", Schedule: Delay(minute), Do: doNothing})
	p.joined(p.sorted(), now)
	for _, req := range p.request(p.due(now), now) {
		p.answer(req, answer{trip: trip{now, now, 0}, out: store.Outcome{Err: &store.HeldError{Record: store.Record{Holder: "x", Token: 1, Left: 10 * minute}}}})
	}
	check(t, "the job that was refused is looked at after", fmt.Sprint(refused.wake.Sub(now.Round(0))), "10m0s")
	check(t, "the job that waits for a lease is looked at after", fmt.Sprint(waits.wake.Sub(now.Round(0))), "10m0s")
	now = putForward(t, now.Add(second), 30*minute)
	due := p.due(now)
	check(t, "the jobs that are looked at", fmt.Sprint(len(due)), "3")
	for _, req := range p.request(due, now) {
		if !req.claims {
			t.Errorf("%s is not claimed", req.spec.job.Name)
		}
	}
	if !p.wake().Equal(last.wake) {
		t.Errorf("looks again at %v, want %v", p.wake(), last.wake)
	}
}

// A step back of the wall clock is noticed by what it showed when jobs were looked at last, also if nothing was due then.
func TestClockIsSetBackWhileNothingIsDue(t *testing.T) {
	p := testPlanner()
	j := p.with(t, Job{Name: "tick", Schedule: Every(24 * time.Hour), Do: doNothing})
	p.read(j, store.Record{Holder: "x", Token: 1, Left: 10 * minute, Mark: ms(0)}, trip{after(0), after(0), 0})
	p.joined([]*plannedJob{j}, after(0))
	check(t, "what is due before the lease ends", fmt.Sprint(len(p.due(after(9*minute)))), "0")
	check(t, "what is due when the clock was set back", fmt.Sprint(len(p.due(after(2*minute)))), "1")
}

// What is due by an end of a run that was in the future by this replica's clock is due by the wall clock as its wake is: else who looks finds that it is not due, and looks again
// at once.
func TestNoBusyLoopAfterAnEndInTheFuture(t *testing.T) {
	now := time.Now()
	p := testPlanner()
	j := p.with(t, Job{Name: "tick", Schedule: Delay(time.Hour), Do: doNothing})
	state := jobState{Since: now.Add(-2 * time.Hour).UnixMilli(), Ended: now.Add(second).UnixMilli()}
	p.read(j, store.Record{Name: j.name, Token: 1, Mark: now.UnixMilli(), State: state.json()}, trip{now, now, 0})
	p.joined([]*plannedJob{j}, now)
	now = putForward(t, now.Add(second), 2*time.Hour)
	requests := p.request(p.due(now), now)
	if len(requests) != 1 || !requests[0].claims {
		t.Errorf("%d requests, want a claim of what is due by the wall clock", len(requests))
	}
}

// Jitter puts off the runs of a job with a fixed delay too.
func TestJitterOfADelay(t *testing.T) {
	starts := map[time.Duration]bool{}
	for _, name := range []string{"a", "b", "c", "d"} {
		p := testPlanner()
		j := p.with(t, Job{Name: name, Schedule: Delay(minute), Jitter: time.Hour, Do: doNothing})
		p.read(j, store.Record{Name: j.name, Token: 1, Mark: ms(minute), State: (&jobState{Since: ms(0), Ended: ms(minute)}).json()}, trip{after(2 * minute), after(2 * minute), 0})
		p.joined([]*plannedJob{j}, after(2*minute))
		wake := p.wake().Sub(epoch)
		if wake < 2*minute || wake >= 62*minute {
			t.Errorf("%s is due after %v, want 2 to 62 minutes", name, wake)
		}
		starts[wake] = true
		check(t, "requests before that", fmt.Sprint(len(p.request(p.due(after(wake-second)), after(wake-second)))), "0")
		requests := p.request(p.due(after(wake)), after(wake))
		check(t, "requests then", fmt.Sprint(len(requests)), "1")

		// The scheduled time is that without the jitter.
		check(t, "shown before that", fmt.Sprint(j.upcoming(after(minute)).Sub(epoch)), "2m0s")
		check(t, "start", fmt.Sprint(wake), fmt.Sprint(j.job.start(after(2*minute)).Sub(epoch)))
		g := store.Grant{Token: 2, Mark: ms(minute), State: (&jobState{Since: ms(0), Ended: ms(minute)}).json()}
		s := p.answer(requests[0], answer{trip: trip{after(wake), after(wake), 0}, out: store.Outcome{Grant: g}})
		check(t, "run", s.run.text(), "2m0s attempt 1")
	}
	if len(starts) != 4 {
		t.Errorf("%d instants for four jobs", len(starts))
	}
}

// A later run that another replica has left is heard of also while a run of this replica goes on, whose lease it has lost: the job is claimed when that has returned.
func TestInterruptionIsHeardAtTheEndOfALostRun(t *testing.T) {
	p := testPlanner()
	job := p.with(t, Job{Name: "tick", Schedule: Every(time.Hour), Grace: minute, Do: doNothing})
	p.read(job, store.Record{Name: job.name, Token: 1, Mark: ms(minute), State: (&jobState{Since: ms(0)}).json()}, trip{after(minute), after(minute), 0})
	p.joined([]*plannedJob{job}, after(minute))
	at := after(p.wake().Sub(epoch))
	for _, req := range p.request(p.due(at), at) {
		p.answer(req, answer{trip: trip{at, at, 0}, out: store.Outcome{Grant: store.Grant{Token: 10, Mark: ms(minute)}}})
	}
	check(t, "it runs here", fmt.Sprint(job.phase == granted), "true")
	at = at.Add(5 * minute)
	p.heard(controlNews{left: left{Jobs: map[string]int64{"tick": 11}}}, at)
	p.ended(ending{job: job}, at)
	check(t, "jobs to claim", fmt.Sprint(len(p.due(at))), "1")
}

// One instant is one definition, in whatever zone it is written.
func TestDefinitionOfAnInstant(t *testing.T) {
	of := func(t time.Time) uint32 { return definitionOf(Job{Schedule: At(t)}, Options{}) }
	at := time.Date(2027, 3, 1, 12, 0, 0, 123_456_789, time.UTC)
	for _, same := range []time.Time{at.In(time.FixedZone("", 3600)), at.Truncate(time.Millisecond), at.Local()} {
		if of(same) != of(at) {
			t.Errorf("%v is another definition than %v", same, at)
		}
	}
	if of(at.Add(time.Millisecond)) == of(at) {
		t.Error("a later instant is the same definition")
	}
}
