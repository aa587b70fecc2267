package soloist

import (
	"fmt"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// What a replica learns of a job from its record, from the end of its runs, and from others. As in planner_test.go, the planner is asked directly.

// outlook returns whether the job is claimed at an instant, and with which mark, or else when it is looked at again.
func (p *planner) outlook(j *plannedJob, at time.Duration) string {
	now := after(at)
	req := p.request([]*plannedJob{j}, now)[0]
	switch {
	case req.claims && req.claim.Mark == 0:
		return "claims it whatever the mark"
	case req.claims:
		return fmt.Sprint("claims ", time.UnixMilli(req.claim.Mark).Sub(epoch))
	}
	p.answer(req, answer{trip: trip{now, now}})
	return p.waits()
}

// waits returns when the next job is looked at.
func (p *planner) waits() string {
	if p.wake().IsZero() {
		return "never looks again"
	}
	return fmt.Sprint("looks again at ", p.wake().Sub(epoch))
}

func TestWhatIsLearntFromARecord(t *testing.T) {
	fixed := known{schedule: Delay(10 * second), ended: minute}
	for _, row := range []struct {
		rule string
		known
		record store.Record
		at     time.Duration
		want   string
	}{
		{"what was done here is not claimed again, should the record have lost it", known{mark: 2 * minute}, store.Record{Mark: ms(minute)}, 2*minute + second, "looks again at 3m0s"},
		{"nor is a manual run that was done here", known{mark: minute, trigger: 2, served: 2}, store.Record{State: []byte(`{"trigger":1}`)}, 90 * second, "looks again at 2m0s"},
		{"a fixed delay counts from the end that was seen, should the record have lost it", fixed, store.Record{State: []byte(`{"schedule":"@delay 10s"}`)}, 65 * second, "looks again at 1m10s"},
		{"a fixed delay counts from a later end that the record has", fixed, store.Record{State: fmt.Appendf(nil, `{"ended":%d}`, ms(62*second))}, 65 * second, "looks again at 1m12s"},
		{"a state that can be read in part is not believed", known{mark: minute, trigger: 1}, store.Record{State: []byte(`{"trigger":9,"ended":"never"}`)}, 90 * second, "claims it whatever the mark"},
		{"nor is one that no replica has written", known{mark: minute, trigger: 1}, store.Record{State: []byte(`{"trigger":9007199254740993}`)}, 90 * second, "claims it whatever the mark"},
		{"a run that was interrupted is claimed at once, however late", known{mark: minute}, store.Record{State: fmt.Appendf(nil, `{"pending":%d}`, ms(2*minute))}, 150 * second, "claims 1m0.001s"},
		{"a manual run that was interrupted is claimed at once", known{mark: minute}, store.Record{State: []byte(`{"pending":-1}`)}, 90 * second, "claims 1m0.001s"},
		{"a manual run under way is waited for", known{mark: minute}, store.Record{Holder: "x", Left: 20 * second, State: []byte(`{"pending":-1}`)}, 90 * second, "looks again at 1m50s"},
	} {
		t.Run(row.rule, func(t *testing.T) {
			p, job := row.planner(t)
			job.endedThere = ms(row.ended)
			p.read(job, row.record, trip{after(row.at), after(row.at)})
			check(t, "the replica", p.outlook(job, row.at), row.want)
		})
	}
}

// A replica that hears that a run was interrupted claims the job, unless it knows already how the lease of that run has ended.
func TestNewsOfARunThatItKnowsIsNoNews(t *testing.T) {
	for _, row := range []struct {
		before int64 // the token that it knew before it read the record
		holder string
		token  int64 // of the record
		news   left
		claims bool
	}{
		{0, "", 5, left{Jobs: map[string]int64{"tick": 5}}, false},
		{0, "", 5, left{Jobs: map[string]int64{"tick": 6}}, true},
		{0, "", 5, left{All: 5}, false},
		{0, "", 5, left{All: 6}, true},
		{0, "x", 5, left{Jobs: map[string]int64{"tick": 4}}, false},
		{0, "x", 5, left{Jobs: map[string]int64{"tick": 5}}, true},
		{7, "", 5, left{Jobs: map[string]int64{"tick": 7}}, false},
		{7, "x", 5, left{Jobs: map[string]int64{"tick": 7}}, false},
	} {
		p, job := known{mark: minute}.planner(t)
		job.token = row.before
		now := after(90 * second)
		p.read(job, store.Record{Holder: row.holder, Token: row.token, Mark: job.mark, Left: time.Hour}, trip{now, now})
		p.joined([]*plannedJob{job}, now)
		want := "looks again at 2m0s"
		for range 2 { // the same news twice are one
			p.heard(controlNews{version: 1, left: row.news}, now)
			if row.claims {
				want = "looks again at 1m30s"
			}
			check(t, fmt.Sprintf("%+v: the replica", row), p.waits(), want)
			p.lookAt(job, after(2*minute))
			row.claims, want = false, "looks again at 2m0s"
		}
	}
}

// A run has ended here. The job was last done at 1m unless the row says otherwise.
func TestWhatIsClaimedAfterARun(t *testing.T) {
	pending := jobState{Pending: ms(2 * minute)}
	for _, row := range []struct {
		rule string
		known
		ending
		at   time.Duration
		want string // at once, and then
	}{
		{"what it has done is done", known{mark: minute}, ending{recorded: true, mark: ms(2 * minute)}, 2*minute + second, "looks again at 3m0s"},
		{"what it has done may be done again if that could not be recorded", known{mark: minute}, ending{mark: ms(2 * minute)}, 2*minute + second, "looks again at 2m1s, claims 2m0s"},
		{"a manual run leaves done what is done", known{mark: minute, trigger: 1}, ending{recorded: true, state: jobState{Trigger: 1}}, minute + 10*second, "looks again at 2m0s"},
		{"a manual run may be done again if it could not be recorded", known{mark: minute, trigger: 1}, ending{state: jobState{Trigger: 1}}, minute + 10*second, "looks again at 1m10s, claims it whatever the mark"},
		{"a fixed delay counts from its end", known{schedule: Delay(10 * second), ended: minute}, ending{recorded: true, mark: ms(70 * second), state: jobState{Ended: ms(75 * second)}}, 76 * second, "looks again at 1m25s"},
		{"a run that comes after it is claimed at once, however late", known{mark: minute}, ending{recorded: true, mark: ms(90 * second), state: pending}, 150 * second, "looks again at 2m30s, claims 1m30.001s"},
		{"a run that is not done, for its lease was lost, is claimed at once, however late", known{mark: minute}, ending{recorded: true, state: pending}, 150 * second, "looks again at 2m30s, claims 1m0.001s"},
		{"a run that was interrupted is left to the others, and claimed soon after", known{mark: minute}, ending{recorded: true, state: pending, left: 7}, 2*minute + second, "looks again at 2m1.5s, claims 2m0s"},
		{"so is one that was interrupted, however late", known{mark: minute}, ending{recorded: true, state: pending, left: 7}, 150 * second, "looks again at 2m30.5s, claims 1m0.001s"},
		{"a run that was interrupted waits for the end of a pause", known{mark: minute, paused: true}, ending{recorded: true, state: pending, left: 7}, 150 * second, "looks again at 3m0s"},
	} {
		t.Run(row.rule, func(t *testing.T) {
			p, job := row.planner(t)
			job.phase, row.job = granted, job
			p.ended(row.ending, after(row.at))
			got := p.waits()
			if wake := p.wake().Sub(epoch); wake <= row.at+second {
				got += ", " + p.outlook(job, wake)
			}
			check(t, "the replica", got, row.want)
		})
	}
}

// A record that is further than clocks may differ is reported, once for each of its marks. AtLeast makes it further, and with a fixed delay its mark is no time.
func TestRecordThatIsAheadIsReported(t *testing.T) {
	for name, row := range map[string]struct {
		known
		ahead, reported time.Duration
	}{
		"as far as clocks differ":             {known{}, skew, 0},
		"further":                             {known{}, skew + time.Millisecond, skew + time.Millisecond},
		"no further than AtLeast":             {known{atLeast: minute}, skew + minute, 0},
		"further than AtLeast":                {known{atLeast: minute}, skew + minute + time.Millisecond, skew + minute + time.Millisecond},
		"further, and with a fixed delay":     {known{schedule: Delay(minute)}, 1000 * time.Hour, 0},
		"behind, as records usually are":      {known{}, -minute, 0},
		"further than anybody will ever live": {known{}, 1000000 * time.Hour, 1000000 * time.Hour},
	} {
		p, job := row.planner(t)
		now := after(time.Hour)
		for _, want := range []time.Duration{row.reported, 0} {
			ahead := p.read(job, store.Record{Mark: now.Add(row.ahead).UnixMilli()}, trip{now, now})
			check(t, name+": reported", fmt.Sprint(ahead), fmt.Sprint(want))
		}
		if row.reported > 0 {
			ahead := p.read(job, store.Record{Mark: now.Add(row.ahead + second).UnixMilli()}, trip{now, now})
			check(t, name+", with a later mark: reported", fmt.Sprint(ahead), fmt.Sprint(row.reported+second))
		}
	}
}

// What is due less than AtLeast after a run is done with it, unless the schedule is a fixed delay, of which no time is due before the run has ended.
func TestMarkAfterARun(t *testing.T) {
	for name, row := range map[string]struct {
		schedule Schedule
		atLeast  time.Duration
		want     time.Duration
	}{
		"without AtLeast":        {Every(minute), 0, minute},
		"as long as the period":  {Every(minute), minute, minute},
		"longer than the period": {Every(minute), minute + time.Millisecond, 2 * minute},
		"with a fixed delay":     {Delay(second), minute, minute},
	} {
		_, job := known{schedule: row.schedule, atLeast: row.atLeast}.planner(t)
		check(t, name+": done up to", fmt.Sprint(time.UnixMilli(job.markAfter(after(minute))).Sub(epoch)), fmt.Sprint(row.want))
	}
}

// A replica that is refused a job with a fixed delay looks again when the lease ends, however short the delay is: it counts from the end of the run.
func TestWhoIsRefusedAFixedDelayWaitsForTheLease(t *testing.T) {
	p, job := known{schedule: Delay(second)}.planner(t)
	now := after(minute)
	req := p.request([]*plannedJob{job}, now)[0]
	record := store.Record{Holder: "x", Token: 1, Left: 10 * minute}
	p.answer(req, answer{trip: trip{now, now}, out: store.Outcome{Err: &store.HeldError{Record: record}}})
	check(t, "the replica", p.waits(), "looks again at 11m0s")
}

// A job that is removed goes as soon as nothing is under way for it, whatever was.
func TestARemovedJobGoesAtOnce(t *testing.T) {
	now := after(minute)
	for name, ends := range map[string]func(*planner, *plannedJob, jobRequest){
		"a run": func(p *planner, j *plannedJob, _ jobRequest) {
			p.ended(ending{job: j, recorded: true, mark: ms(minute)}, now)
		},
		"a grant that was given back": func(p *planner, j *plannedJob, _ jobRequest) { p.ended(ending{job: j, back: true}, now) },
		"a claim that was refused": func(p *planner, _ *plannedJob, req jobRequest) {
			p.answer(req, answer{trip: trip{now, now}, out: store.Outcome{Err: &store.HeldError{Record: store.Record{Holder: "x", Left: minute}}}})
		},
		"a claim that was not answered": func(p *planner, _ *plannedJob, req jobRequest) { p.unanswered([]jobRequest{req}, now) },
	} {
		p, job := known{}.planner(t)
		p.joined([]*plannedJob{job}, epoch)
		req := p.request(p.due(now), now)[0]
		p.remove(job)
		ends(p, job, req)
		select {
		case <-job.gone:
		default:
			t.Errorf("%s has ended, and the job is still there", name)
		}
		if len(p.jobs) > 0 || !p.wake().IsZero() {
			t.Errorf("%s has ended, and %d jobs are looked at again at %v", name, len(p.jobs), p.wake())
		}
	}
}
