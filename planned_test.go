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
	p.answer(req, answer{trip: trip{now, now, 0}})
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
			p.read(job, row.record, trip{after(row.at), after(row.at), 0})
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
		p.read(job, store.Record{Holder: row.holder, Token: row.token, Mark: job.mark, Left: time.Hour}, trip{now, now, 0})
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
			ahead := p.read(job, store.Record{Mark: now.Add(row.ahead).UnixMilli()}, trip{now, now, 0})
			check(t, name+": reported", fmt.Sprint(ahead), fmt.Sprint(want))
		}
		if row.reported > 0 {
			ahead := p.read(job, store.Record{Mark: now.Add(row.ahead + second).UnixMilli()}, trip{now, now, 0})
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
	p.answer(req, answer{trip: trip{now, now, 0}, out: store.Outcome{Err: &store.HeldError{Record: record}}})
	check(t, "the replica", p.waits(), "looks again at 11m0s")
}

// A replica that is refused a job between a scheduled time and the start of its run, as its jitter sets it, looks again when the run may start: the lease in
// the way may be given back before it ends.
func TestWhoIsRefusedWithinAJitterLooksWhenItIsOver(t *testing.T) {
	p, job := known{}.planner(t)
	job.job.Jitter = 30 * second
	start := job.job.start(after(2 * minute))
	p.refuse(job, 2*minute+time.Millisecond, store.Record{Holder: "x", Age: minute, Left: 10 * minute})
	check(t, "the replica", p.waits(), "looks again at "+start.Sub(epoch).String())
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
			p.answer(req, answer{trip: trip{now, now, 0}, out: store.Outcome{Err: &store.HeldError{Record: store.Record{Holder: "x", Left: minute}}}})
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

// refuse takes the answer that another has the job.
func (p *planner) refuse(j *plannedJob, at time.Duration, record store.Record) {
	record.Name, record.Token = j.name, 1
	p.answer(jobRequest{job: j, spec: j.jobSpec, claims: true}, answer{trip: trip{after(at), after(at), 0}, out: store.Outcome{Err: &store.HeldError{Record: record}}})
}

// A replica that was refused a time, and then a later one, begins the later one although it did not know when it claimed it that the earlier one was done.
func TestClaimOfALaterTimeIsInTime(t *testing.T) {
	p, job := known{}.planner(t)
	check(t, "the replica", p.outlook(job, 61*second), "claims 1m0s")
	p.refuse(job, 61*second, store.Record{Holder: "x", Age: second, Left: minute})
	check(t, "the replica", p.outlook(job, 121*second), "claims 2m0s")
	p.refuse(job, 121*second, store.Record{Holder: "x", Age: second, Mark: ms(minute), Left: minute})
	check(t, "when that lease has ended, the replica", p.outlook(job, 201*second), "claims 2m0s")
	d := p.answer(jobRequest{job: job, spec: job.jobSpec, claims: true}, answer{trip: trip{after(201 * second), after(201 * second), 0}, out: store.Outcome{Grant: store.Grant{Token: 2, Mark: ms(minute)}}}).run
	check(t, "and runs", d.text(), "2m0s attempt 1 announced")
}

func TestWhatARefusalTells(t *testing.T) {
	for _, row := range []struct {
		rule string
		known
		claimed time.Duration // when it was refused the job
		record  store.Record
		at      time.Duration
		want    string
	}{
		{"what was done here is not claimed again, should the record have lost it", known{mark: 2 * minute}, 125 * second, store.Record{Mark: ms(minute), Left: second}, 126 * second, "looks again at 3m0s"},
		{"a time is not missed that was claimed when another had been granted the job for it, whatever AtLeast is", known{atLeast: 40 * second}, 61 * second, store.Record{Holder: "x", Age: second, Left: 30 * second}, 91 * second, "claims 1m0s"},
		{"a claim that was not answered does not undo one that was refused", known{claimed: 61 * second}, 0, store.Record{}, 91 * second, "claims 1m0s"},
		{"what is due once is claimed when the lease of who has it ends", known{schedule: At(after(minute))}, 61 * second, store.Record{Holder: "x", Age: second, Left: 90 * second}, 151 * second, "claims 1m0s"},
		{"until then it is looked at when that lease ends, however often", known{schedule: At(after(minute)), until: 151 * second}, 0, store.Record{}, 100 * second, "looks again at 2m31s"},
		{"during a pause the end of a lease is no reason to look", known{mark: minute, paused: true, until: 90 * second}, 0, store.Record{}, 100 * second, "looks again at 2m0s"},
		{"during a pause what the record has done is not looked at", known{mark: 5 * minute, paused: true}, 0, store.Record{}, 100 * second, "looks again at 6m0s"},
	} {
		t.Run(row.rule, func(t *testing.T) {
			p, job := row.planner(t)
			if row.claimed > 0 {
				job.claim(0, after(row.claimed))
				p.refuse(job, row.claimed, row.record)
			} else {
				job.unanswered()
			}
			check(t, "the replica", p.outlook(job, row.at), row.want)
		})
	}
}

// A replica that has claimed a time in time begins it after two that died with it, one after the other, although it was refused in between because a transaction had locked the
// record: that does not tell that another time was run.
func TestWhatWasClaimedInTimeIsRemembered(t *testing.T) {
	for what, row := range map[string]struct {
		age    time.Duration // of the lease of the first of them when it was due
		locked bool
		want   string
	}{
		"by who was refused twice":                         {0, false, "1m0s attempt 2 announced"},
		"by who found the record locked":                   {0, true, "1m0s attempt 2 announced"},
		"but not if the first had it for something before": {2*second + time.Millisecond, false, ""},
	} {
		t.Run(what, func(t *testing.T) {
			p, job := known{mark: 30 * second}.planner(t)
			refuse := func(at time.Duration, record store.Record) {
				job.claim(ms(minute), after(at))
				p.answer(jobRequest{job: job, spec: job.jobSpec, claims: true}, answer{trip: trip{after(at), after(at), 0}, out: store.Outcome{Err: &store.HeldError{Record: record}}})
			}
			mark := ms(30 * second)
			refuse(minute, store.Record{Holder: "a", Token: 1, Mark: mark, Age: row.age, Left: 30 * second})
			if row.locked {
				refuse(90*second, store.Record{Left: second / 10})
				check(t, "it looks again", p.waits(), "looks again at 1m30.1s")
			}
			refuse(91*second, store.Record{Holder: "b", Token: 2, Mark: mark, Age: second, Left: 29 * second})
			d := p.answer(jobRequest{job: job, spec: job.jobSpec, claims: true}, answer{trip: trip{after(120 * second).Add(-1), after(120 * second).Add(-1), 0},
				out: store.Outcome{Grant: store.Grant{Token: 3, Mark: mark, ExpiredAge: 30 * second}}}).run
			check(t, "it runs", d.text(), row.want)
		})
	}
}

// A replica that is refused what is due once looks again when the lease of who has it ends, and before the time would be missed.
func TestWhoIsRefusedWhatIsDueOnceLooksAgain(t *testing.T) {
	p, job := known{schedule: At(after(minute))}.planner(t)
	for _, row := range []struct {
		at   time.Duration
		want string
	}{{61 * second, "looks again at 1m13.125s"}, {74 * second, "looks again at 2m0s"}} {
		job.claim(ms(minute), after(row.at))
		p.refuse(job, row.at, store.Record{Holder: "x", Age: row.at - minute, Left: 2*minute - row.at})
		check(t, "the replica", p.waits(), row.want)
	}
}

// With Jitter a job is looked at when its time may start, and again before Grace is over, counted from then.
func TestLooksAtAJobWithJitter(t *testing.T) {
	p := testPlanner()
	job := p.with(t, Job{Name: "tick", Schedule: Every(20 * second), Do: doNothing, Jitter: minute, Grace: 15 * second})
	p.joined([]*plannedJob{job}, epoch)
	looks := 0
	for now := p.wake(); now.Before(after(time.Hour)); now = p.wake() {
		if looks++; looks > 1000 {
			t.Fatalf("it is looked at without end at %v", now.Sub(epoch))
		}
		requests := p.request(p.due(now), now)
		if len(requests) != 1 {
			t.Fatalf("at %v it asks %+v", now.Sub(epoch), requests)
		}
		if mark := time.UnixMilli(requests[0].claim.Mark); requests[0].claims && job.job.start(mark).After(now) {
			t.Errorf("at %v the time %v is claimed, which may not start before %v", now.Sub(epoch), mark.Sub(epoch), job.job.start(mark).Sub(epoch))
		}
		record := store.Record{Holder: "x", Age: time.Hour, Left: time.Hour}
		p.answer(requests[0], answer{trip: trip{now, now, 0}, out: store.Outcome{Err: &store.HeldError{Record: record}}})
		last := time.Time{} // of the first time that may start, and that is not as good as missed; none is begun before an earlier one may start
		for due := job.job.Schedule.Next(later(epoch, now.Add(-minute-13125*time.Millisecond))); last.IsZero() && !job.job.start(due).After(now); due = job.job.Schedule.Next(due) {
			if end := job.job.start(due).Add(13125 * time.Millisecond); end.After(now) {
				last = end
			}
		}
		if !p.wake().After(now) || !last.IsZero() && p.wake().After(last) {
			t.Fatalf("at %v it is refused, and looks again at %v; want by %v", now.Sub(epoch), p.wake().Sub(epoch), last.Sub(epoch))
		}
	}
	if looks < 100 {
		t.Errorf("it is looked at %d times in an hour", looks)
	}
}

// Jobs that are claimed with their group are claimed alone when this replica claims them once more for the same time, and with their group for the next.
func TestAGroupIsClaimedOnceForATime(t *testing.T) {
	p, jobs := pair(t)
	for _, row := range []struct {
		at            time.Duration
		groups, alone int
	}{{minute, 1, 0}, {73125 * time.Millisecond, 0, 2}, {2 * minute, 1, 0}} {
		now := after(row.at)
		groups, alone := p.requestGroups(p.due(now), now)
		if len(groups) != row.groups || len(alone) != row.alone {
			t.Fatalf("at %v %d groups and %d jobs alone are claimed; want %d and %d", row.at, len(groups), len(alone), row.groups, row.alone)
		}
		for _, g := range groups {
			if _, err := p.answerGroup(g, store.Outcome{Grant: store.Grant{Token: 1}}, now); err != nil {
				t.Fatal(err)
			}
		}
		for _, req := range p.request(jobs, now) {
			req.job.behind = false
			record := store.Record{Holder: "x", Age: row.at - minute, Left: 2*minute - row.at}
			if record.Left == 0 {
				record.Left = minute
			}
			p.answer(req, answer{trip: trip{now, now, 0}, out: store.Outcome{Err: &store.HeldError{Record: record}}})
		}
		if releases := p.finishGroups(now); row.at == minute && (len(releases) != 1 || releases[0].Linger != 13125*time.Millisecond) {
			t.Errorf("gives back %+v; want the name of the group to linger until a time would be missed", releases)
		}
	}
}

// When it is not known what became of a claim, the name of the group does not linger: another replica claims as soon as it looks.
func TestAGroupDoesNotLingerAfterAClaimThatWasNotAnswered(t *testing.T) {
	for name, answers := range map[string]func(*planner, []jobRequest, time.Time){
		"all": func(p *planner, requests []jobRequest, now time.Time) { p.unanswered(requests, now) },
		"one of them": func(p *planner, requests []jobRequest, now time.Time) {
			for i, out := range []store.Outcome{{Err: store.ErrUnknown}, {Err: &store.HeldError{Record: store.Record{Holder: "x", Left: minute}}}} {
				p.answer(requests[i], answer{trip: trip{now, now, 0}, out: out})
			}
		},
	} {
		p, _ := pair(t)
		now := after(minute)
		groups, _ := p.requestGroups(p.due(now), now)
		jobs, err := p.answerGroup(groups[0], store.Outcome{Grant: store.Grant{Token: 1}}, now)
		if err != nil {
			t.Fatal(err)
		}
		answers(p, p.request(jobs, now), now)
		if releases := p.finishGroups(now); len(releases) != 1 || releases[0].Linger != 0 || releases[0].Mark != 0 {
			t.Errorf("%s: gives back %+v, want the name of the group free at once", name, releases)
		}
	}
}

// An Entry shows what comes next.
func TestWhatComesNext(t *testing.T) {
	for _, row := range []struct {
		rule string
		known
		runs time.Duration // the time for which it was granted last
		busy bool          // the run is under way
		want time.Duration // 0 if nobody knows
	}{
		{"what is due and not missed", known{}, 0, false, 2 * minute},
		{"nothing while the job is paused", known{paused: true}, 0, false, 0},
		{"what comes after the run under way", known{mark: minute}, 2 * minute, true, 3 * minute},
		{"what is due, while an older time is run", known{}, minute, true, 2 * minute},
		{"what is not missed, while a much older time is run", known{schedule: Every(16 * second)}, 96 * second, true, 128 * second},
		{"what was run here, if that could not be recorded", known{mark: minute}, 2 * minute, false, 2 * minute},
		{"with a fixed delay the end of it", known{schedule: Delay(minute), ended: 90 * second}, 0, false, 150 * second},
		{"with a fixed delay that is over the present", known{schedule: Delay(second), ended: minute}, 0, false, 130 * second},
		{"with a fixed delay nothing while the run is under way", known{schedule: Delay(minute), ended: 90 * second}, 0, true, 0},
	} {
		_, job := row.planner(t)
		job.phase = idle
		if row.busy {
			job.phase = granted
		}
		if row.runs > 0 {
			job.runs = after(row.runs)
		}
		got := time.Duration(0)
		if next := job.upcoming(after(130 * second)); !next.IsZero() {
			got = next.Sub(epoch)
		}
		check(t, row.rule, fmt.Sprint(got), fmt.Sprint(row.want))
	}
}

// A job that is updated is looked at when its new schedule says, unless it is being claimed or run: then that goes on.
func TestUpdatedJobIsLookedAtAnew(t *testing.T) {
	for _, busy := range []bool{false, true} {
		p, job := known{schedule: Every(time.Hour)}.planner(t)
		p.joined([]*plannedJob{job}, epoch)
		want := "looks again at 1m0s"
		if busy {
			p.request(p.due(after(time.Hour)), after(time.Hour))
			job.phase, want = granted, "never looks again"
		}
		spec := *job.jobSpec
		spec.job.Schedule = Every(minute)
		p.update(job, &spec, epoch)
		if check(t, "the replica", p.waits(), want); busy && job.phase != granted {
			t.Error("a job that is run counts as idle when it is updated")
		}
	}
}

// A job that gets another schedule in place of At has missed nothing, and one that gets an At is run at that time though it was before the job was known:
// as in a process that begins with the new definition.
func TestJobThatIsNotDueOnceAnyMoreHasMissedNothing(t *testing.T) {
	for _, missed := range []Missed{MissedSkip, MissedOnce, MissedAll} {
		for _, row := range []struct {
			before, after Schedule
			at            time.Duration // when it is updated
			claim         string        // the mark of the claim, if it is due then
			wake          string
		}{
			{At(after(24 * time.Hour)), Every(time.Hour), time.Hour + second, "", "2h0m0s"},
			{At(after(24 * time.Hour)), Every(time.Hour), time.Hour, "", "2h0m0s"},
			{Every(time.Hour), At(after(-5 * second)), second, "-5s", ""},
			{Every(time.Hour), Every(time.Minute), 61 * second, "1m0s", ""},
		} {
			p, job := known{schedule: row.before, missed: missed}.planner(t)
			p.joined([]*plannedJob{job}, epoch)
			spec := *job.jobSpec
			spec.job.Schedule = row.after
			now := after(row.at)
			p.update(job, &spec, now)
			claim, wake := "", ""
			if mark, ok := job.request(now); ok {
				claim = time.UnixMilli(mark).Sub(epoch).String()
			} else {
				wake = p.wake().Sub(epoch).String()
			}
			what := fmt.Sprintf("%v, after %v in place of %v: ", missed, row.after, row.before)
			check(t, what+"claim", claim, row.claim)
			check(t, what+"looks again", wake, row.wake)
		}
	}
}

// A job that is removed while it joins, or between being due and being claimed, is gone, and stays so.
func TestAJobThatIsRemovedBeforeItIsClaimedIsNotClaimed(t *testing.T) {
	p, job := known{}.planner(t)
	joins := p.joining()
	p.remove(job)
	p.joined(joins, epoch)
	if len(p.jobs) > 0 || !p.wake().IsZero() {
		t.Error("it is looked at although it was removed while it joined")
	}
	p, job = known{}.planner(t)
	p.joined([]*plannedJob{job}, epoch)
	due := p.due(after(minute))
	p.remove(job)
	if requests := p.request(due, after(minute)); len(requests) > 0 {
		t.Errorf("asks %+v for a job that was removed", requests)
	}
	select {
	case <-job.gone:
	default:
		t.Error("it is not gone")
	}
}

// Of a paused job that is due nothing is claimed. If nobody knows whether it is paused still, it is looked at again soon.
func TestWhatWasAskedOfAPausedJobCannotBeRead(t *testing.T) {
	p, job := known{paused: true}.planner(t)
	now := after(minute)
	s := p.answer(p.request([]*plannedJob{job}, now)[0], answer{trip: trip{now, now, 0}, controls: errControl})
	check(t, "the replica", p.waits(), "looks again at 1m0.5s")
	if !job.open || s.failed == nil {
		t.Errorf("the failure is not told: open %t, %v", job.open, s.failed)
	}
}

// A claim that was refused because all is done shows the lease of a run that may be begun once only: when it ends the job is looked at.
func TestLeaseOfWhatIsDoneIsKnown(t *testing.T) {
	p, job := known{mark: minute}.planner(t)
	now := after(2 * minute)
	req := p.request([]*plannedJob{job}, now)[0]
	record := store.Record{Holder: "x", Token: 1, Mark: ms(2 * minute), Left: 30 * second}
	p.answer(req, answer{trip: trip{now, now, 0}, out: store.Outcome{Err: &store.DoneError{Record: record}}})
	check(t, "the replica", p.waits(), "looks again at 2m30s")
}

// The job that is to be looked at first is, and each once, however often that changes.
func TestJobsAreLookedAtInTheirOrder(t *testing.T) {
	p := testPlanner()
	var jobs []*plannedJob
	for i := range 8 {
		jobs = append(jobs, p.with(t, Job{Name: fmt.Sprint(i), Schedule: Every(time.Hour), Do: doNothing}))
	}
	p.joined(jobs, epoch)
	for i, j := range jobs { // the last ones are to be looked at first
		p.lookAt(j, after(time.Duration(20-i)*minute))
	}
	p.lookAt(jobs[7], after(30*minute)) // but for one that comes last
	p.lookAt(jobs[3], time.Time{})      // and for one that never does
	got := ""
	for !p.wake().IsZero() {
		at := p.wake()
		for _, j := range p.due(at) {
			got += fmt.Sprint(j.job.Name, " at ", at.Sub(epoch), ", ")
		}
	}
	check(t, "looked at", got, "6 at 14m0s, 5 at 15m0s, 4 at 16m0s, 2 at 18m0s, 1 at 19m0s, 0 at 20m0s, 7 at 30m0s, ")
}

// A replica claims the name of a group as one holder until it knows what became of that, so that a grant whose reply was lost is its own. For the next time it is another.
func TestAGroupIsClaimedAgainByTheSameHolder(t *testing.T) {
	p, _ := pair(t)
	var claims []store.Claim
	for _, at := range []time.Duration{minute, minute + 2*second, 2 * minute} {
		now := after(at)
		groups, alone := p.requestGroups(p.due(now), now)
		if len(groups) != 1 || len(alone) > 0 {
			t.Fatalf("at %v %d groups are claimed, and %d jobs alone", at, len(groups), len(alone))
		}
		claims = append(claims, groups[0].claim)
		if _, err := p.answerGroup(groups[0], store.Outcome{Err: store.ErrUnknown}, now); err == nil {
			t.Fatal("nobody is told that it is not known who claims")
		}
	}
	if claims[0] != claims[1] {
		t.Errorf("claimed as %+v, and again as %+v", claims[0], claims[1])
	}
	if claims[1].Holder == claims[2].Holder || claims[1].Name == claims[2].Name {
		t.Errorf("claimed as %+v, and for the next time as %+v", claims[1], claims[2])
	}
}

// A replica whose clock was ahead, and was set back, begins what is due by the right one: it is not to wait until that shows what the wrong one did.
func TestClockThatWasAheadAndIsSetBack(t *testing.T) {
	const wrong = 120*time.Hour + 30*minute // as which the clock shows 30 minutes
	at := func(now time.Time) trip { return trip{now, now, 0} }
	join := func(p *planner, j *plannedJob, now time.Duration) { p.joined([]*plannedJob{j}, after(now)) }
	refusal := func(j *plannedJob, age, left time.Duration) store.Outcome {
		return store.Outcome{Err: &store.HeldError{Record: store.Record{Name: j.name, Holder: "x", Token: 1, Age: age, Left: left}}}
	}
	for _, row := range []struct {
		what     string
		schedule Schedule
		known    time.Duration // since when the job is known, by its clock then
		before   func(p *planner, j *plannedJob)
		want     string // from 33 minutes on
	}{
		{"it looked at a job that is due every hour", Every(time.Hour), 0, func(p *planner, j *plannedJob) {
			join(p, j, 30*minute)
			for _, req := range p.request(p.due(after(wrong)), after(wrong)) {
				p.answer(req, answer{trip: at(after(wrong))})
			}
		}, "at 1h0m0s it claims 1h0m0s"},
		{"it looked at a job that is due once", At(after(time.Hour)), 0, func(p *planner, j *plannedJob) {
			join(p, j, 30*minute)
			for _, req := range p.request(p.due(after(wrong)), after(wrong)) {
				p.answer(req, answer{trip: at(after(wrong))})
			}
		}, "at 1h0m0s it claims 1h0m0s"},
		{"a job joined", Every(time.Hour), wrong, func(p *planner, j *plannedJob) { join(p, j, wrong) }, "at 1h0m0s it claims 1h0m0s"},
		{"a job was added", Every(time.Hour), wrong, func(p *planner, j *plannedJob) { join(p, j, 33*minute) }, "at 1h0m0s it claims 1h0m0s"},
		{"a run of a fixed delay ended", Delay(10 * minute), 0, func(p *planner, j *plannedJob) {
			j.phase = granted
			p.ended(ending{job: j, recorded: true, state: jobState{Ended: ms(wrong)}}, after(wrong))
		}, "at 43m0s it claims 43m0s"},
		{"it was refused a time of that day", Every(time.Hour), 0, func(p *planner, j *plannedJob) {
			j.mark = ms(0)
			join(p, j, 30*minute)
			req := p.request(p.due(after(wrong-29*minute-55*second)), after(wrong-29*minute-55*second))[0]
			p.answer(req, answer{trip: at(after(wrong - 29*minute - 55*second)), out: refusal(j, second, minute)})
		}, "at 33m0s it claims 1ms, at 1h0m0s it claims 1h0m0s"},
		{"it saw a lease of another replica", Every(24 * time.Hour), 0, func(p *planner, j *plannedJob) {
			p.read(j, store.Record{Holder: "x", Token: 1, Age: 10 * minute, Left: minute, Mark: ms(0)}, at(after(wrong)))
			join(p, j, wrong)
		}, "at 33m0s it claims 1ms"},
	} {
		t.Run(row.what, func(t *testing.T) {
			p := testPlanner()
			job := p.with(t, Job{Name: "tick", Schedule: row.schedule, Do: doNothing, Grace: 15 * second})
			if row.known > 0 {
				spec := job.jobSpec
				p.remove(job)
				p.add(spec, after(row.known))
				job = p.jobs["tick"]
			}
			row.before(p, job)
			got := ""
			for now := 33 * minute; now <= time.Hour; now += 5 * second {
				for _, req := range p.request(p.due(after(now)), after(now)) {
					a := answer{trip: at(after(now))}
					if req.claims {
						if got != "" {
							got += ", "
						}
						got += fmt.Sprintf("at %v it claims %v", now, time.UnixMilli(req.claim.Mark).Sub(epoch))
						a.out = refusal(job, 0, time.Hour)
					}
					p.answer(req, a)
				}
			}
			check(t, "the replica", got, row.want)
		})
	}
}

// So it is with what another replica claimed for all when the clock was ahead.
func TestGroupWhoseClockIsSetBack(t *testing.T) {
	p, jobs := pair(t)
	wrong := after(120*time.Hour + second)
	groups, _ := p.requestGroups(p.due(wrong), wrong)
	if _, err := p.answerGroup(groups[0], store.Outcome{Err: &store.HeldError{Record: store.Record{Holder: "x", Left: 2 * second}}}, wrong); err != nil {
		t.Fatal(err)
	}
	if due := p.due(after(59 * second)); len(due) > 0 {
		t.Errorf("%d jobs are looked at before they are due", len(due))
	}
	check(t, "the replica", p.waits(), "looks again at 1m0s")
	if due := p.due(after(minute)); len(due) != len(jobs) {
		t.Errorf("%d jobs are due after a minute, want %d", len(due), len(jobs))
	}
}
