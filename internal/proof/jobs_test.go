package proof

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// job is due each 10 s.
var job = JobRule{Name: "job", Next: everyTen}

func jobs(change func(*JobRule)) Rules {
	r := job
	if change != nil {
		change(&r)
	}
	return Rules{Jobs: []JobRule{r}}
}

// missed is a policy with a Grace of 5 s, and a cap of 2.
func missed(policy string) Rules {
	return jobs(func(r *JobRule) { r.Record, r.Asked, r.Missed = "job", 1, Missed{Policy: policy, Cap: 2, Grace: 5 * s} })
}

// away has a run of 10 s recorded, and then everybody away until 48 s, when 20, 30 and 40 are missed.
func away(picks time.Duration) History {
	return History{
		grant(10*s, 1, 5*s), run(10*s, 10*s+5, 11*s, 1, Okay, 11*s+5), markRaised(11*s, 1, 10*s),
		with(grant(48*s, 2, 5*s), func(e *Event) { e.Seen = 10_000 }), run(picks, 48*s+5, 49*s, 2, Okay, 49*s+5), markRaised(49*s, 2, picks),
	}
}

// claimed is the same, but that somebody has the job from 41 s to 47 s and gives it back, the replica that runs 40 then claims it meanwhile, and runs it at 48 s.
func claimed(change func(claim *Event), wanted ...int64) History {
	claim := Event{Kind: Acquire, At: 42 * s, Until: 43 * s, Replica: "r", Name: "job", Holder: "r#1", Token: 2, TTL: 5 * s, Mark: 40_000, Result: Held, Took: 42 * s, Did: Held, DidToken: 2}
	if change != nil {
		change(&claim)
	}
	return History{
		grant(10*s, 1, 5*s), run(10*s, 10*s+5, 11*s, 1, Okay, 11*s+5), markRaised(11*s, 1, 10*s),
		with(grant(41*s, 2, 9*s), func(e *Event) { e.Seen, e.Mark = 10_000, append(wanted, 0)[0] }), claim, markRaised(47*s, 2, 10*s),
		with(grant(48*s, 3, 5*s), func(e *Event) { e.Seen = 10_000 }), with(run(40*s, 48*s+5, 49*s, 3, Okay, 49*s+5), func(e *Event) { e.Replica = "r" }), markRaised(49*s, 3, 40*s),
	}
}

// gaveBackLater is the same, but that q is refused in time, is granted the job at 47.5 s with a mark, and gives it back; r asks for the first time at 48 s.
func gaveBackLater(mark int64, change func(claim *Event)) History {
	h := claimed(func(e *Event) {
		if e.Replica = "q"; change != nil {
			change(e)
		}
	})
	return append(h[:6], with(grant(47*s+s/2, 3, 5*s), func(e *Event) { e.Replica, e.Seen, e.Mark = "q", 10_000, mark }), markRaised(47*s+s/2+s/4, 3, 10*s),
		with(grant(48*s, 4, 5*s), func(e *Event) { e.Seen = 10_000 }), with(run(40*s, 48*s+5, 49*s, 4, Okay, 49*s+5), func(e *Event) { e.Replica = "r" }), markRaised(49*s, 4, 40*s))
}

// putOff has a holder who was granted the job at an instant, and dies. Its successor runs 20, which it was in time for, and then 30, which the dead one may have been at.
func putOff(granted time.Duration, more ...Event) History {
	next := granted + 9*s
	return append(History{
		grant(10*s, 1, 5*s), run(10*s, 10*s+5, 11*s, 1, Okay, 11*s+5), markRaised(11*s, 1, 10*s),
		with(grant(granted, 2, 8*s), func(e *Event) { e.Seen = 10_000 }),
		with(grant(next, 3, 5*s), func(e *Event) { e.Seen = 10_000 }), run(20*s, next+5, next+s, 3, Okay, next+s+5), markRaised(next+s, 3, 20*s),
		with(grant(next+2*s, 4, 5*s), func(e *Event) { e.Seen = 20_000 }), run(30*s, next+2*s+5, next+3*s, 4, Okay, next+3*s+5), markRaised(next+3*s, 4, 30*s),
	}, more...)
}

// putOffAgain is the same, but that who was in time for 20 is granted the job in between, and gives it back.
func putOffAgain(more ...Event) History {
	h := putOff(28 * s)
	for i := range h {
		if e := &h[i]; e.Token > 2 {
			e.Token++
			if e.DidToken > 2 {
				e.DidToken++
			}
			if e.Holder != "" {
				e.Holder = attempt(e.Token)
			}
		}
	}
	unanswered := Event{Kind: Acquire, At: 21 * s, Until: Never, Replica: "a", Name: "job", Holder: attempt(3), Mark: 20_000, TTL: s / 4, Result: Unknown}
	return append(h, append(more, unanswered, with(grant(36*s+s/2, 3, s/4), func(e *Event) { e.Seen, e.Mark = 10_000, 20_000 }), markRaised(36*s+s/2+s/8, 3, 10*s))...)
}

// queuedFor is the policy "skip" where a claim may wait in its client.
func queuedFor(d time.Duration) Rules {
	r := missed("skip")
	r.Jobs[0].Missed.Queued = d
	return r
}

func manualTwice() History {
	manual := func(e *Event) { e.Manual = true }
	return History{with(run(30*s, 6*s, Never, 1, Unknown, 0), manual), with(run(30*s, 13*s, 14*s, 2, Okay, 15*s), manual)}
}

func pausedDelay() Rules {
	return jobs(func(r *JobRule) { r.Next, r.Delay, r.Record, r.Pauses = nil, 5*s, "job", []Span{{9 * s, 15 * s}} })
}

func begunOnce() Rules {
	return jobs(func(r *JobRule) { r.AtMostOnce, r.Record, r.Expected = true, "job", []int64{10_000} })
}

func takenOver(end time.Duration) Rules {
	return jobs(func(r *JobRule) { r.Takeover, r.Record, r.End = true, "job", end })
}

// hung are requests of a replica that hang until it claims the job.
func hung(n int) (h History) {
	for i := range n {
		h = append(h, Event{Kind: Ill, At: 45*s - time.Duration(i), Until: 48 * s, Replica: "a", Name: "x"})
	}
	return h
}

// jobHistory is a history of a job, and what is wrong with it.
type jobHistory struct {
	name  string
	h     History
	rules Rules
	want  []string // each a part of what is found
}

func judgeJobs(t *testing.T, tests []jobHistory) {
	t.Helper()
	for _, test := range tests {
		t.Run(strings.ReplaceAll(test.name, " ", "-"), func(t *testing.T) {
			if found := texts(JobsChecker, Check(test.h, test.rules).Violations); !slices.EqualFunc(found, test.want, strings.Contains) {
				t.Errorf("found %q, want %q", found, test.want)
			}
		})
	}
}

// manually makes a run one that a person has asked for.
func manually(e Event) Event {
	e.Manual = true
	return e
}

// TestRunsOfJobs gives histories of which runs of a job there are, and tells of each all that is wrong with it. Two lie side by side wherever a little decides.
func TestRunsOfJobs(t *testing.T) {
	once := jobs(func(r *JobRule) { r.AtMostOnce, r.Asked = true, 2 })
	paused := func(from, to time.Duration) Rules {
		return jobs(func(r *JobRule) { r.Pauses, r.Skew, r.Asked = []Span{{from, to}}, 2*s, 1 })
	}
	sure := jobs(func(r *JobRule) { r.Asked, r.AskedSure = 1, []time.Duration{12 * s} })
	delayed := func(skew time.Duration) Rules {
		return jobs(func(r *JobRule) { r.Next, r.Delay, r.Skew, r.Asked = nil, 15*s, skew, 1 })
	}
	expected := jobs(func(r *JobRule) { r.Record, r.Expected = "job", []int64{10_000} })
	commit := func(at time.Duration, token int64, scheduled time.Duration) Event {
		return Event{Kind: Commit, At: at, Name: "job", Token: token, Mark: scheduled.Milliseconds()}
	}
	other := func(e Event) Event {
		e.Name = "other"
		return e
	}
	anyTime := jobs(func(r *JobRule) { r.Next = nil })
	first, lost := run(10*s, 10*s, 11*s, 1, Okay, 12*s), run(10*s, 10*s, Never, 1, Unknown, 0)
	begins := with(markRaised(11*s, 1, 10*s), func(e *Event) { e.Kind = Extend })
	secondAttempt := func(e *Event) { e.Attempt = 2 }
	judgeJobs(t, []jobHistory{
		{"a time once, and by a person", History{first, manually(run(10*s, 13*s, 14*s, 2, Okay, 15*s))}, once, nil},
		{"by a person, and tried again under its lease", History{manually(run(10*s, 13*s, 14*s, 2, Failed, 0)), manually(run(10*s, 15*s, 16*s, 2, Okay, 17*s))}, once, nil},
		{"by a person, and begun again under another", History{manually(run(10*s, 13*s, 14*s, 2, Failed, 0)), manually(run(10*s, 15*s, 16*s, 3, Okay, 17*s))}, once, []string{"a manual run was begun more than once"}},
		{"a time once, and tried again under its lease", History{run(10*s, 10*s, 11*s, 1, Failed, 0), run(10*s, 12*s, 13*s, 1, Okay, 14*s)}, once, nil},
		{"a time once, and begun again under another", History{run(10*s, 10*s, 11*s, 1, Failed, 0), run(10*s, 12*s, 13*s, 2, Okay, 14*s)}, once, []string{"10Z was begun more than once"}},

		{"by a person in a pause", History{manually(run(10*s, 12*s, 13*s, 1, Okay, 14*s))}, paused(9*s, 15*s), nil},
		{"due in a pause, and begun as it begins", History{run(10*s, 9*s, 13*s, 1, Okay, 14*s)}, paused(9*s, 15*s), nil},
		{"due and begun in a pause", History{run(10*s, 9*s+1, 13*s, 1, Okay, 14*s)}, paused(9*s, 15*s), []string{"10Z was run, although the job was paused from 9s to 15s"}},
		{"due as a pause begins", History{first}, paused(10*s, 15*s), nil},
		{"due as a pause ends", History{first}, paused(5*s, 10*s), nil},
		{"due after a pause", History{first}, paused(5*s, 9*s), nil},
		{"claimed in a pause, and begun as it ends", History{grant(10*s, 1, 9*s), run(10*s, 15*s, 16*s, 1, Okay, 17*s)}, pausedDelay(), nil},
		{"claimed and begun in a pause", History{grant(10*s, 1, 9*s), run(10*s, 15*s-1, 16*s, 1, Okay, 17*s)}, pausedDelay(), []string{"was run, although the job was paused"}},
		{"claimed before a pause where the store is not watched", History{acquireJob(8*s, 1), run(10*s, 12*s, 13*s, 1, Okay, 14*s)}, pausedDelay(), nil},
		{"claimed before a pause, and told when it asked again", History{askedAgain(grant(8*s, 1, 9*s)), run(10*s, 12*s, 13*s, 1, Okay, 14*s)}, pausedDelay(), nil},
		{"claimed as a pause begins", History{grant(9*s, 1, 9*s), run(10*s, 12*s, 13*s, 1, Okay, 14*s)}, pausedDelay(), nil},
		{"claimed when a pause has begun, and before that called for, another claimed, and another refused late", History{{Kind: Take, At: 8 * s, Until: 11 * s, Name: "job", Token: 1, Result: Granted},
			other(grant(8*s, 1, 9*s)), grant(8*s, 2, s), {Kind: Acquire, At: 8 * s, Until: 12 * s, Name: "job", Token: 1, Result: Held, Took: 11 * s, Did: Held, DidToken: 1},
			grant(10*s, 1, 9*s), run(10*s, 12*s, 13*s, 1, Okay, 14*s)}, pausedDelay(), []string{"was run, although the job was paused"}},

		{"asked for, and begun then", History{manually(run(10*s, 12*s, 13*s, 1, Okay, 14*s))}, sure, nil},
		{"asked for, and begun before", History{manually(run(10*s, 12*s-1, 13*s, 1, Okay, 14*s))}, sure, []string{"asked for at 12s was never begun"}},
		{"asked for, and begun because it was due", History{run(10*s, 12*s, 13*s, 1, Okay, 14*s)}, sure, []string{"asked for at 12s was never begun"}},

		{"begun again as it is recorded", History{first, run(10*s, 12*s, 13*s, 2, Unknown, 0)}, jobs(nil), nil},
		{"begun again when it is recorded", History{first, run(10*s, 12*s+1, 13*s, 2, Unknown, 0)}, jobs(nil), []string{"10Z was begun after 1970-01-01 00:00:10Z had been recorded as done"}},
		{"begun when a later one is recorded", History{run(20*s, 20*s, 21*s, 2, Okay, 22*s), run(10*s, 23*s, 24*s, 3, Okay, 25*s)}, jobs(nil), []string{"10Z was begun after 1970-01-01 00:00:20Z had been"}},
		{"begun when a later one is recorded, and an earlier one after that", History{run(10*s, 12*s, 13*s, 1, Okay, 25*s), run(20*s, 20*s, 21*s, 2, Okay, 22*s), run(20*s, 30*s, 31*s, 3, Unknown, 0)}, jobs(nil), []string{"20Z was begun after 1970-01-01 00:00:20Z"}},
		{"begun when it is recorded, and an earlier one is not yet", History{run(10*s, 10*s, 11*s, 1, Okay, 40*s), run(20*s, 20*s, 21*s, 2, Okay, 22*s), run(20*s, 30*s, 31*s, 3, Unknown, 0)}, jobs(nil), []string{"20Z was begun after 1970-01-01 00:00:20Z"}},
		{"begun when it is recorded, and a later one has ended without", History{first, run(20*s, 20*s, 21*s, 2, Okay, 0), run(10*s, 25*s, 26*s, 3, Unknown, 0)}, jobs(nil), []string{"10Z was begun after 1970-01-01 00:00:10Z"}},
		{"begun again when it has ended, and is not recorded", History{run(10*s, 10*s, 11*s, 1, Okay, 0), run(10*s, 13*s, 14*s, 2, Okay, 15*s)}, jobs(nil), nil},
		{"begun again when it is recorded that it failed", History{run(10*s, 10*s, 11*s, 1, Failed, 12*s), run(10*s, 13*s, 14*s, 2, Okay, 15*s)}, jobs(nil), nil},
		{"due when all began", History{run(0, 0, s, 1, Okay, 2*s)}, anyTime, nil},
		{"no time between, where clocks are wrong", History{first, run(9*s, 13*s, 14*s, 2, Okay, 15*s)}, jobs(func(r *JobRule) { r.Next, r.Skew = nil, s }), []string{"09Z was begun after"}},
		{"before it is due, which is another job's", History{other(run(10*s, 9*s, 11*s, 1, Okay, 12*s))}, jobs(nil), nil},
		{"as often as allowed", History{lost, run(10*s, 13*s, 14*s, 2, Okay, 15*s)}, jobs(func(r *JobRule) { r.Attempts = 2 }), nil},

		{"sooner than a delay", History{first, run(25*s, 26*s-time.Millisecond-1, 27*s, 2, Okay, 28*s)}, delayed(0), []string{"sooner than 15s after the end of a run before"}},
		{"after a delay", History{first, run(25*s, 26*s-time.Millisecond, 27*s, 2, Okay, 28*s)}, delayed(0), nil},
		{"sooner than a delay by two clocks", History{first, run(24*s, 24*s-time.Millisecond-1, 27*s, 2, Okay, 28*s)}, delayed(s), []string{"sooner than 15s"}},
		{"after a delay by two clocks", History{first, run(24*s, 24*s-time.Millisecond, 27*s, 2, Okay, 28*s)}, delayed(s), nil},
		{"sooner than a delay, and by a person before that", History{first, manually(run(13*s, 13*s, 14*s, 2, Failed, 0)), run(20*s, 20*s, 21*s, 3, Okay, 22*s)}, delayed(0), []string{"sooner than 15s"}},
		{"sooner than a delay, by a person", History{first, manually(run(13*s, 13*s, 14*s, 2, Okay, 15*s))}, delayed(0), nil},
		{"sooner than a delay, as another attempt", History{first, with(run(20*s, 20*s, 21*s, 2, Okay, 22*s), secondAttempt)}, delayed(0), nil},
		{"sooner than a delay, under its lease", History{first, run(20*s, 20*s, 21*s, 1, Okay, 22*s)}, delayed(0), nil},
		{"sooner than a delay after one that failed", History{run(10*s, 10*s, 11*s, 1, Failed, 12*s), run(20*s, 20*s, 21*s, 2, Okay, 22*s)}, delayed(0), nil},
		{"sooner than a delay after one that is not recorded", History{run(10*s, 10*s, 11*s, 1, Okay, 0), run(20*s, 20*s, 21*s, 2, Okay, 22*s)}, delayed(0), nil},
		{"no delay, and before the end of one that a transaction has recorded", History{run(10*s, 10*s, 25*s, 1, Okay, 12*s), run(20*s, 20*s, 21*s, 2, Okay, 22*s)}, jobs(nil), nil},
		{"after a delay, and due before by a clock that is behind", History{first, run(8*s+1*time.Millisecond, 26*s, 27*s, 2, Okay, 28*s)}, delayed(s), nil},
		{"after a delay, and due before by any clock", History{first, run(8*s, 26*s, 27*s, 2, Okay, 28*s)}, delayed(s), []string{"08Z was begun after"}},
		{"after a delay, and due when the one before was", History{first, run(10*s, 26*s, 27*s, 2, Unknown, 0)}, delayed(s), []string{"10Z was begun after 1970-01-01 00:00:10Z"}},

		{"committed, and a later one is begun", History{lost, commit(12*s, 1, 10*s), run(20*s, 20*s, 21*s, 2, Okay, 22*s)}, jobs(nil), nil},
		{"committed when another has begun it", History{lost, run(10*s, 11*s, 14*s, 2, Unknown, 0), commit(12*s, 1, 10*s)}, jobs(nil), nil},
		{"committed as another begins it", History{lost, commit(12*s, 1, 10*s), run(10*s, 12*s, 14*s, 2, Unknown, 0)}, jobs(nil), nil},
		{"committed, and begun by a person", History{lost, commit(12*s, 1, 10*s), manually(run(10*s, 13*s, 14*s, 2, Okay, 15*s))}, sure, nil},
		{"committed, and due before by a clock that is behind", History{lost, commit(12*s, 1, 10*s), run(8*s+1*time.Millisecond, 40*s, 41*s, 2, Okay, 42*s)}, delayed(s), nil},
		{"committed, and begun again after a delay", History{lost, commit(12*s, 1, 10*s), run(10*s, 40*s, 41*s, 2, Okay, 42*s)}, delayed(s), []string{"10Z was begun after 1970-01-01 00:00:10Z had been committed"}},
		{"committed twice, and begun again", History{lost, commit(12*s, 1, 10*s), commit(13*s, 1, 10*s), run(10*s, 14*s, 15*s, 2, Okay, 16*s)}, jobs(nil), []string{"10Z was begun after 1970-01-01 00:00:10Z had been committed", "10Z was committed twice"}},
		{"two runs by persons are committed", History{lost, manually(commit(12*s, 1, 10*s)), manually(commit(13*s, 2, 10*s))}, jobs(nil), nil},
		{"two runs of another job are committed", History{lost, other(commit(12*s, 1, 10*s)), other(commit(13*s, 2, 10*s))}, jobs(nil), nil},

		{"expected, and completed", History{first}, expected, nil},
		{"expected, and committed", History{lost, commit(12*s, 1, 10*s)}, expected, nil},
		{"expected, and another job's is committed", History{lost, other(commit(12*s, 1, 10*s))}, expected, []string{"10Z was left out"}},
		{"expected, and one by a person is committed", History{lost, manually(commit(12*s, 1, 10*s))}, expected, []string{"10Z was left out"}},
		{"expected, and the store was told that it begins", History{grant(10*s, 1, 9*s), begins}, expected, []string{"10Z was left out"}},
		{"expected once, and begun", History{lost}, begunOnce(), nil},
		{"expected once, and the store was told that another begins", History{with(begins, func(e *Event) { e.Mark = 20_000 })}, begunOnce(), []string{"10Z was left out"}},
		{"expected once, and the store was told that it begins, in vain", History{with(begins, func(e *Event) { e.Did = Lost })}, begunOnce(), []string{"10Z was left out"}},
		{"expected once, and another record was told that it begins", History{other(begins)}, begunOnce(), []string{"10Z was left out"}},

		{"cut off too near to the end", History{lost}, jobs(nil), nil},
		{"cut off, and not to be begun again", History{lost}, jobs(func(r *JobRule) { r.Takeover, r.AtMostOnce = true, true }), nil},
		{"failed", History{run(10*s, 10*s, 11*s, 1, Failed, 0)}, takenOver(0), nil},
		{"cut off when it was tried again", History{run(10*s, 10*s, 11*s, 1, Failed, 0), run(10*s, 12*s, 13*s, 2, Lost, 0)}, takenOver(0), []string{"10Z was cut off, and never run again"}},
		{"cut off, and failed when it was tried again", History{lost, run(10*s, 13*s, 14*s, 2, Failed, 0)}, takenOver(0), nil},
		{"lost just before the end", History{run(10*s, 10*s, 11*s-1, 1, Lost, 0)}, takenOver(11 * s), []string{"10Z was cut off, and never run again"}},
		{"begun just before the end by a replica that died", History{run(10*s, 10*s, Never, 1, Unknown, 0)}, takenOver(11 * s), []string{"10Z was cut off, and never run again"}},
		{"lost at the end", History{run(10*s, 10*s, 11*s, 1, Lost, 0)}, takenOver(11 * s), nil},
		{"cut off, and the next learned of its grant by asking again", History{grant(10*s, 1, 5*s), lost, askedAgain(grant(20*s, 2, 5*s)), markRaised(22*s, 2, 0)}, takenOver(0), nil},
		{"cut off, and the next learned of its grant by asking again, and ran another", History{grant(10*s, 1, 5*s), lost, askedAgain(grant(20*s, 2, 5*s)), run(20*s, 21*s, 22*s, 2, Okay, 23*s)}, takenOver(0), nil},
		{"cut off, and the next died", History{grant(10*s, 1, 5*s), lost, grant(20*s, 2, 5*s)}, takenOver(0), nil},
		{"cut off, and the next ran another", History{grant(10*s, 1, 5*s), lost, grant(20*s, 2, 5*s), run(20*s, 21*s, 22*s, 2, Okay, 23*s)}, takenOver(0), []string{"10Z was cut off"}},
		{"cut off, and the next was told late", History{grant(10*s, 1, 5*s), lost, with(grant(20*s, 2, 5*s), func(e *Event) { e.Until = 21*s + 1 }), markRaised(22*s, 2, 0)}, takenOver(0), nil},
		{"cut off, and the next was told in time", History{grant(10*s, 1, 5*s), lost, with(grant(20*s, 2, 5*s), func(e *Event) { e.Until = 21 * s }), markRaised(22*s, 2, 0)}, takenOver(0), []string{"10Z was cut off"}},
		{"cut off, and the next had given it back before it was told", History{grant(10*s, 1, 5*s), lost, with(grant(20*s, 2, 5*s), func(e *Event) { e.Until = 21 * s }), markRaised(21*s-2, 2, 0)}, takenOver(0), nil},
		{"cut off, and the next gave it back when it was told", History{grant(10*s, 1, 5*s), lost, with(grant(20*s, 2, 5*s), func(e *Event) { e.Until = 21 * s }), markRaised(21*s-1, 2, 0)}, takenOver(0), []string{"10Z was cut off"}},
		{"cut off, and the next was told late, and ran another", History{grant(10*s, 1, 5*s), lost, with(grant(20*s, 2, 5*s), func(e *Event) { e.Until = 21*s + 1 }), run(20*s, 22*s, 23*s, 2, Okay, 24*s), markRaised(25*s, 2, 20*s)}, takenOver(0), []string{"10Z was cut off"}},
	})
}

// acquireJob is a grant of the job's record where the store is not watched.
func acquireJob(at time.Duration, token int64) Event {
	return Event{Kind: Acquire, At: at, Until: at + 2, Name: "job", Holder: attempt(token), Token: token, TTL: 9 * s, Result: Granted}
}

// TestMissedTimes gives histories of which time a run is of when others were missed, and tells of each all that is wrong with it.
func TestMissedTimes(t *testing.T) {
	policy := func(policy string, most int, next func(int64) int64) Rules {
		r := missed(policy)
		r.Jobs[0].Missed.Cap, r.Jobs[0].Next = most, next
		return r
	}
	changed := func(h History, at int, change func(*Event), more ...Event) History {
		change(&h[at])
		return append(h, more...)
	}
	const before, release, late = 1, 2, 4 // of the events of away: the run that is recorded, its release, and the run after those that were missed
	same := func(*Event) {}
	// slow is a claim that is made at one instant, and granted, and whose run begins at another.
	slow := func(from, begun, picks time.Duration) History {
		return append(away(picks)[:3], with(grant(from, 2, 60*s), func(e *Event) { e.Seen = 10_000 }), run(picks, begun, begun+s, 2, Okay, begun+2*s))
	}
	asked := func(change func(*Event)) Event { // at 44 s, when 40 is not missed
		return with(Event{Kind: Acquire, At: 44 * s, Until: Never, Replica: "a", Name: "job", Holder: attempt(2), TTL: 5 * s, Result: Unknown}, change)
	}
	hangs := func(change func(*Event)) Event {
		return with(with(hung(1)[0], func(e *Event) { e.At = 44 * s }), change)
	}
	longAfter := func() History { // as putOff, but that the second run is begun when the time after it is missed, too
		return append(putOff(28 * s)[:7], grant(48*s, 4, 5*s), run(30*s, 48*s+5, 49*s, 4, Okay, 49*s+5), markRaised(49*s, 4, 30*s))
	}
	q := func(e *Event) { e.Replica = "q" }
	gaveBackAt := func(at time.Duration, more ...Event) History { // q had claimed it in time
		return changed(claimed(q, 40_000), 5, func(e *Event) { *e = markRaised(at-1, 2, 10*s) }, more...)
	}
	refusedBecauseOf := func(granted time.Duration, change func(*Event)) History {
		return changed(claimed(change), 3, func(e *Event) { e.At, e.Until, e.Took = granted-1, granted+1, granted })
	}
	lockedOut := func(change func(*Event)) History {
		return claimed(func(e *Event) {
			if e.Result, e.Token = Locked, 0; change != nil {
				change(e)
			}
		})
	}
	diedInTime := func() History { // q, who had claimed it in time; another then claims it for an earlier time, and gives it back
		return slices.Delete(changed(gaveBackLater(30_000, nil), 3, func(e *Event) { e.Mark = 40_000 }), 5, 6)
	}
	irregular := func(after int64) int64 {
		for _, at := range []int64{10_000, 18_000, 20_000, 21_000} {
			if at > after {
				return at
			}
		}
		return everyTen(after)
	}
	newest, skips := []string{`30Z was run, where the policy "once" picks 1970-01-01 00:00:40Z; 1970-01-01 00:00:10Z was done`}, []string{`Z was run, where the policy "skip" picks`}
	judgeJobs(t, []jobHistory{
		{"after one that is recorded", away(30 * s), missed("once"), newest},
		{"after one that is not recorded, for its release was in vain", changed(away(30*s), release, func(e *Event) { e.Did = Lost }), missed("once"), nil},
		{"after one that is not recorded, for its release does not tell", changed(away(30*s), release, func(e *Event) { e.Mark = 0 }), missed("once"), nil},
		{"after one that another record tells of", changed(away(30*s), release, func(e *Event) { e.Name = "other" }), missed("once"), nil},
		{"after one that an extension tells of", changed(away(30*s), release, func(e *Event) { e.Kind = Extend }), missed("once"), nil},
		{"after one that is recorded, and released again with an earlier time", append(away(30*s), markRaised(12*s, 1, 5*s)), missed("once"), newest},
		{"after one that failed", changed(away(30*s), before, func(e *Event) { e.Result = Failed }), missed("once"), nil},
		{"after one that is recorded, when that of another lease failed", append(away(30*s), manually(run(10*s, 12*s, 13*s, 9, Failed, 0))), missed("once"), newest},
		{"where the schedule is not known", away(30 * s), policy("once", 2, nil), nil},
		{"as a later attempt", changed(away(30*s), late, func(e *Event) { e.Attempt = 2 }), missed("once"), nil},
		{"as the first of two attempts", changed(away(30*s), late, func(e *Event) { e.Result, e.Recorded = Failed, 0 }, with(run(30*s, 50*s, 51*s, 2, Okay, 52*s), func(e *Event) { e.Attempt = 2 })), missed("once"), newest},
		{"by a person", changed(away(30*s), late, func(e *Event) { e.Manual = true }), missed("once"), nil},
		{"all, fewer than the cap", away(20 * s), policy("all", 10, everyTen), nil},
		{"none is missed", slow(20*s, 20*s+5, 20*s), missed("once"), nil},
		{"none is missed or due when it is claimed", slow(15*s, 20*s+5, 20*s), missed("all"), nil},
		{"was due between the claim and the begin", slow(38*s, 46*s, 40*s), missed("skip"), nil},
		{"was missed at the claim", slow(38*s, 46*s, 30*s), missed("skip"), skips},
		{"was due at the begin", slow(38*s, 40*s, 40*s), missed("skip"), nil},
		{"was the newest that was missed between the claim and the begin", slow(22*s, 29*s, 20*s), policy("once", 0, irregular), nil},
		{"was the newest that was missed before the claim", slow(26*s+1, 29*s, 20*s), policy("once", 0, irregular), []string{"20Z was run"}},

		{"asked for in time", append(away(40*s), asked(same)), missed("skip"), nil},
		{"asked for in time, but another name, by another, or by the user", append(away(40*s), asked(func(e *Event) { e.Name = "group/1" }), asked(func(e *Event) { e.Holder = "r#1" }), asked(func(e *Event) { e.Kind = Take })), missed("skip"), skips},
		{"waited behind four, and others came later", append(append(away(40*s), hung(4)...), hangs(func(e *Event) { e.At = 48 * s }), hangs(func(e *Event) { e.At, e.Until = 49*s, 50*s })), missed("skip"), nil},
		{"waited behind three, and others were well, hung elsewhere, or had ended", append(append(away(40*s), hung(3)...), hangs(func(e *Event) { e.Kind = Well }),
			hangs(func(e *Event) { e.Replica = "r" }), hangs(func(e *Event) { e.Until = 48*s - 1 })), missed("skip"), skips},
		{"waited behind four, of which one was sent too late", append(append(away(40*s), hung(3)...), hangs(func(e *Event) { e.At = 45*s + 1 })), missed("skip"), skips},
		{"waited behind four, of which one was sent too late, but not for longer than a claim may", append(append(away(40*s), hung(3)...), hangs(func(e *Event) { e.At = 45*s + 1 })), queuedFor(3 * s), nil},

		{"claimed as it is due, and refused", claimed(func(e *Event) { e.At = 40 * s }), missed("skip"), nil},
		{"claimed before it is due, and refused", claimed(func(e *Event) { e.At = 40*s - 1 }), missed("skip"), skips},
		{"refused because of a lease from before, which a slow answer told as a later one", refusedBecauseOf(39*s+s/2, nil), missed("skip"), nil},
		{"the same, where the store could not be watched", refusedBecauseOf(39*s+s/2, func(e *Event) { e.Took, e.Did = 0, "" }), missed("skip"), nil},
		{"refused because of a lease from before, and told so", refusedBecauseOf(39*s+s/2, func(e *Event) { e.Took = 42*s + s/2 + 2 }), missed("skip"), skips},
		{"claimed in time, and failed", claimed(func(e *Event) { e.Result = Failed }), missed("skip"), skips},
		{"claimed in time, and its record was locked", lockedOut(nil), missed("skip"), nil},
		{"claimed in time by another, for which its record was locked", lockedOut(q), missed("skip"), skips},
		{"claimed late, and its record was locked", lockedOut(func(e *Event) { e.At = 45*s + 1 }), missed("skip"), skips},
		{"refused another name in time", claimed(func(e *Event) { e.Name = "other" }), missed("skip"), skips},
		{"its user was refused in time", claimed(func(e *Event) { e.Kind = Take }), missed("skip"), skips},
		{"claimed in time, and refused, where none is skipped", claimed(nil), missed("all"), []string{`40Z was run, where the policy "all" picks 1970-01-01 00:00:30Z`}},
		{"claimed in time by another, who gave it back, where none is skipped", claimed(q, 40_000), missed("all"), []string{"40Z was run"}},
		{"claimed in time by another, who gave it back before it was begun", gaveBackAt(48*s + 4), missed("skip"), nil},
		{"claimed in time by another, who gave it back as it was begun", gaveBackAt(48*s + 5), missed("skip"), skips},
		{"claimed in time by another, who ran something else", gaveBackAt(47*s, manually(run(10*s, 42*s, 43*s, 2, Okay, 0))), missed("skip"), skips},
		{"claimed in time by another, who died", diedInTime(), missed("skip"), skips},
		{"after a name that was given back, and a run that is recorded", append(away(40*s), grant(5*s, 9, s), markRaised(6*s, 9, 0)), missed("skip"), skips},

		{"comes after an older one long before, and was that of who died", longAfter(), missed("skip"), nil},
		{"comes after an older one long before, and was that of who died, where none is skipped", longAfter(), missed("once"), []string{"30Z was run"}},
		{"comes after an older one, and was that of who died before all", putOff(28 * s)[3:], missed("skip"), nil},
		{"comes after an older one, and was just due for who died", putOff(28*s - 1), missed("skip"), nil},
		{"comes after an older one, and was just missed for who died", putOff(37*s - 1), missed("skip"), nil},
		{"comes after an older one, and was missed for who died", putOff(37 * s), missed("skip"), skips},
		{"comes after itself, and was that of who died", changed(changed(putOff(28*s), 5, func(e *Event) { e.Mark, e.Recorded = 30_000, 0 }), 6, func(e *Event) { e.Mark = 30_000 }), missed("skip"), skips},
		{"comes after an older one, and after a manual run since somebody died", putOffAgain(manually(run(10*s, 36*s+s/2+5, 36*s+s/2+6, 3, Okay, 0))), missed("skip"), []string{"20Z was run", "30Z was run"}},
		{"comes after an older one, and after a manual run of who has not died", putOff(28*s, markRaised(29*s, 2, 0), manually(run(10*s, 28*s+5, 28*s+6, 2, Okay, 0))), missed("skip"), skips},
	})
}
