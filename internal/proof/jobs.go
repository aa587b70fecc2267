package proof

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// A JobRule says what is known of a job.
type JobRule struct {
	Name       string        // as in the events of its runs
	Record     string        // the name of its record, for the rule of missed runs; "" leaves that out
	AtMostOnce bool          // a scheduled time whose run was begun is not begun again
	Expected   []int64       // scheduled times, unix ms, that must have been completed, or begun if AtMostOnce
	Attempts   int           // how often a scheduled time may be begun; 0 sets no bound
	Takeover   bool          // the end of the history was long and healthy enough for every run that was cut off to be run again
	End        time.Duration // with Takeover: runs that were cut off later than this are left out; 0 leaves none out
	Zero       int64         // unix ms of the instant 0 of the history

	// Next returns the first scheduled time after one, both unix ms; nil leaves out what needs it.
	Next func(after int64) int64

	Missed   Missed
	Omission Omission

	Skew      time.Duration   // by how much wall clocks are wrong at most
	Delay     time.Duration   // between the end of a recorded run and the beginning of the next; 0 leaves it out
	Pauses    []Span          // no scheduled time within them is run
	Asked     int             // how many manual runs were asked for
	AskedSure []time.Duration // after each of these instants a manual run must have begun
}

// A Span is a time without its ends.
type Span struct{ From, To time.Duration }

// Missed is the policy for scheduled times that nobody could start within Grace. It is checked for runs that follow a run which
// was recorded, in histories in which the store could be watched.
type Missed struct {
	Policy string // "skip", "once", "all"; "" leaves the rule out
	Cap    int    // of "all"
	Grace  time.Duration
	Queued time.Duration // how long a claim waits in its client at most before it is sent
}

// jobs finds runs of a job that must not have been, and scheduled times that were left out.
func (f *facts) jobs(rule JobRule) []Violation {
	c := &jobCheck{facts: f, rule: rule, at: map[int64]History{}, commits: map[int64]bool{}}
	for i := range f.History {
		e := &f.History[i]
		if e.Kind == Commit && e.Name == rule.Name && !e.Manual {
			c.commits[e.Mark] = true
		}
		if e.Kind == Run && e.Name == rule.Name {
			c.runs = append(c.runs, *e)
			if !e.Manual {
				c.at[e.Mark] = append(c.at[e.Mark], *e)
			}
		}
	}
	c.schedule()
	c.asked()
	c.once()
	c.committed()
	c.expected()
	if rule.Missed.Policy != "" && rule.Next != nil {
		c.missed()
	}
	switch {
	case rule.Omission.Grace <= 0 || !f.watchable:
	case rule.Delay > 0:
		c.notRepeated()
	case rule.Next != nil:
		c.omitted()
	}
	return c.found
}

type jobCheck struct {
	*facts

	rule JobRule
	runs History           // in the order of their beginnings
	at   map[int64]History // by scheduled time, without manual ones

	commits map[int64]bool // the scheduled times that transactions have recorded
	found   []Violation
}

func (c *jobCheck) bad(excerpt History, format string, args ...any) {
	c.found = append(c.found, Violation{JobsChecker, c.rule.Name, fmt.Sprintf(format, args...), excerpt})
}

// instant is when a scheduled time is on the history's clock.
func (c *jobCheck) instant(scheduled int64) time.Duration {
	return time.Duration(scheduled-c.rule.Zero) * time.Millisecond
}

func utc(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02 15:04:05.999Z") }

// schedule checks that runs are of times of the schedule, and not before them.
func (c *jobCheck) schedule() {
	for _, r := range c.runs {
		switch {
		case r.Manual:
		case c.rule.Next != nil && c.rule.Next(r.Mark-1) != r.Mark:
			c.bad(History{r}, "%s is not a time of its schedule", utc(r.Mark))
		case r.At < c.instant(r.Mark)-c.rule.Skew:
			c.bad(History{r}, "%s was begun before it was due", utc(r.Mark))
		}
	}
}

// asked checks what people have asked for.
func (c *jobCheck) asked() {
	manual := map[int64]Event{}
	for _, r := range c.runs {
		if r.Manual {
			if first, again := manual[r.Mark]; again && c.rule.AtMostOnce && first.Token != r.Token {
				c.bad(History{first, r}, "a manual run was begun more than once")
			}
			manual[r.Mark] = r
			continue
		}
		for _, p := range c.rule.Pauses {
			at := c.instant(r.Mark)
			if c.rule.Delay > 0 { // due once, however long ago; after the pause it still is. What was granted before may begin, and be tried again
				first := c.at[r.Mark][0]
				if first.At >= p.To { // the answer told of the end of the pause
					continue
				}
				at = c.granted(first)
			}
			if p.From < at && at < p.To && r.At > p.From {
				c.bad(History{r}, "%s was run, although the job was paused from %v to %v", utc(r.Mark), p.From, p.To)
			}
		}
	}
	if len(manual) > c.rule.Asked {
		c.bad(nil, "%d manual runs, where %d were asked for", len(manual), c.rule.Asked)
	}
	for _, at := range c.rule.AskedSure {
		if !slices.ContainsFunc(c.runs, func(r Event) bool { return r.Manual && r.At >= at }) {
			c.bad(nil, "the manual run that was asked for at %v was never begun", at)
		}
	}
}

// granted is when the lease was granted under which a run began; its begin where that is not known.
func (c *jobCheck) granted(r Event) time.Duration {
	for i := range c.History {
		if e := &c.History[i]; e.Kind == Acquire && e.Name == c.rule.Record && (e.Result == Granted && e.Token == r.Token || e.Did == Granted && e.DidToken == r.Token) {
			return e.At
		}
	}
	return r.At
}

// once checks that what is recorded is not begun again, nor what came before it.
func (c *jobCheck) once() {
	var last Event // the run with the greatest scheduled time of those recorded so far
	recorded := slices.Clone(c.runs)
	slices.SortStableFunc(recorded, func(a, b Event) int { return cmp.Compare(a.Recorded, b.Recorded) })
	next := 0
	for _, r := range c.runs {
		for ; next < len(recorded) && recorded[next].Recorded < r.At; next++ {
			e := recorded[next]
			if e.Recorded > 0 && e.Result == Okay && !e.Manual && e.Mark > last.Mark {
				last = e
			}
		}
		if i := slices.IndexFunc(recorded[:next], func(e Event) bool { return c.tooSoon(e, r) }); i >= 0 {
			c.bad(History{recorded[i], r}, "begun sooner than %v after the end of a run before", c.rule.Delay)
		}
		if !r.Manual && last.Recorded > 0 && c.notAfter(r.Mark, last.Mark) {
			c.bad(History{last, r}, "%s was begun after %s had been recorded as done", utc(r.Mark), utc(last.Mark))
		}
	}
	for scheduled, runs := range c.at {
		var done History
		for _, r := range runs {
			if r.Recorded > 0 && r.Result == Okay {
				done = append(done, r)
			}
			if c.rule.AtMostOnce && r.Token != runs[0].Token {
				c.bad(runs, "%s was begun more than once", utc(scheduled))
				break
			}
		}
		if len(done) > 1 {
			c.bad(done, "%s was completed and recorded %d times", utc(scheduled), len(done))
		}
		if c.rule.Attempts > 0 && len(runs) > c.rule.Attempts {
			c.bad(runs, "%s was begun %d times, where %d attempts are allowed", utc(scheduled), len(runs), c.rule.Attempts)
		}
	}
}

// tooSoon reports whether a run began sooner than the delay after the end of one that had been recorded.
func (c *jobCheck) tooSoon(before, r Event) bool {
	return c.rule.Delay > 0 && before.Recorded > 0 && before.Result == Okay && !r.Manual && r.Attempt == 1 && r.Token > before.Token &&
		r.At < before.Until+c.rule.Delay-2*c.rule.Skew-time.Millisecond
}

// notAfter reports whether a scheduled time is one that is done, or comes before it. With a delay the scheduled times of two clocks have no order if
// they are near.
func (c *jobCheck) notAfter(scheduled, done int64) bool {
	apart := int64(0)
	if c.rule.Delay > 0 {
		apart = 2 * c.rule.Skew.Milliseconds()
	}
	return scheduled == done || scheduled <= done-apart
}

// committed checks that a run whose end was recorded in a transaction is not begun again, and that there is one such transaction for each.
func (c *jobCheck) committed() {
	first := map[int64]*Event{}
	for i := range c.History {
		e := &c.History[i]
		if e.Kind != Commit || e.Name != c.rule.Name || e.Manual { // manual runs may have one time
			continue
		}
		before, again := first[e.Mark]
		if again {
			c.bad(History{*before, *e}, "%s was committed twice", utc(e.Mark))
			continue
		}
		first[e.Mark] = e
		for _, r := range c.runs {
			if r.At > e.At && r.Token > e.Token && !r.Manual && c.notAfter(r.Mark, e.Mark) {
				c.bad(History{*e, r}, "%s was begun after %s had been committed", utc(r.Mark), utc(e.Mark))
			}
		}
	}
}

// expected checks that nothing was left out.
func (c *jobCheck) expected() {
	for _, scheduled := range c.rule.Expected {
		if runs := c.at[scheduled]; !c.completed(scheduled, runs) && !(c.rule.AtMostOnce && c.begun(scheduled)) {
			c.bad(runs, "%s was left out", utc(scheduled))
		}
	}
	if !c.rule.Takeover {
		return
	}
	for scheduled, runs := range c.at {
		if cut := runs[len(runs)-1]; (cut.Until == Never || cut.Result == Lost && (c.rule.End == 0 || cut.Until < c.rule.End)) && !c.completed(scheduled, runs) && !c.untold(cut) {
			c.bad(runs, "%s was cut off, and never run again", utc(scheduled))
		}
	}
}

// completed reports whether a scheduled time was run to its end, or a transaction has recorded that it was.
func (c *jobCheck) completed(scheduled int64, runs History) bool {
	return c.commits[scheduled] || slices.ContainsFunc(runs, func(r Event) bool { return c.rule.AtMostOnce || r.Result == Okay })
}

// begun reports whether the store was told of the beginning of a run that then was not: one that may be run once only is not tried again
// when nobody knows whether that was recorded.
func (c *jobCheck) begun(scheduled int64) bool {
	return c.has(func(e *Event) bool { return c.tells(e, scheduled) })
}

// tells reports whether the store was told by an event that a scheduled time, which may be run once only, begins.
func (c *jobCheck) tells(e *Event, scheduled int64) bool {
	return e.Kind == Extend && e.Name == c.rule.Record && e.Mark == scheduled && e.Did == Okay
}

// untold reports whether the successor could not know of the run: its grant did not reach it at first, and who asks again as the same holder
// is not told that the lease before was abandoned; or it reached it when nobody waited for it any more; or it died itself before it could
// begin.
func (c *jobCheck) untold(cut Event) bool {
	for _, l := range c.byName[c.rule.Record] {
		if l.grant.DidToken > cut.Token {
			ran := slices.ContainsFunc(c.runs, func(r Event) bool { return r.Token == l.grant.DidToken })
			late := l.grant.Until-l.grant.At > l.grant.TTL/5 || l.released < l.grant.Until // a request is not waited for so long, or was not
			return l.grant.Result != Granted || (late || l.released == Never) && !ran
		}
	}
	return false
}

// missed checks that each run which follows a recorded one is that which the policy picks.
func (c *jobCheck) missed() {
	leases := c.byName[c.rule.Record]
	first := map[int64]Event{} // the first run under each token
	for _, r := range c.runs {
		if _, ok := first[r.Token]; !ok {
			first[r.Token] = r
		}
	}
	done, clean := int64(0), false // what the lease before has left
	for i, l := range leases {
		r := first[l.grant.DidToken]
		if clean && !r.Manual && r.Attempt == 1 {
			if !c.picks(done, r.Mark, c.made(l.grant), r.At) && !c.refusedInTime(r.Replica, r.Mark, leases) && !c.givenBackInTime(r, leases) && !c.putOff(r, leases[:i]) {
				c.bad(History{*l.grant, r}, "%s was run, where the policy %q picks %s; %s was done", utc(r.Mark), c.rule.Missed.Policy,
					utc(c.pick(done, l.from)), utc(done))
			}
		}
		done, clean = 0, false
		for i := range c.History {
			if e := &c.History[i]; e.Kind == Release && e.Name == c.rule.Record && e.Token == l.grant.DidToken && e.Did == Okay && e.Mark > 0 {
				done, clean = max(done, e.Mark), true
			}
		}
		for _, other := range c.runs { // a run that failed and is to be tried again is not picked by the policy
			if other.Token == l.grant.DidToken && other.Result != Okay {
				clean = false
			}
		}
	}
}

// firstAsked is when the first of the requests for a grant was sent: one that had no answer is repeated.
func (c *jobCheck) firstAsked(grant *Event) time.Duration {
	first := grant.At
	for i := range c.History {
		if e := &c.History[i]; e.Kind == Acquire && e.Name == grant.Name && e.Holder == grant.Holder {
			first = min(first, e.At)
		}
	}
	return first
}

// flights is how many of its requests a client has under way at most beside which it sends another.
const flights = 4

// made is the earliest instant at which a claim can have been made in its client. It waits there for Queued at most behind requests that hang, and if
// there are so many of them that no other is sent, until one ends. Nothing else was waiting when the last of them was sent.
func (c *jobCheck) made(claim *Event) time.Duration {
	sent := c.firstAsked(claim)
	hang, last := map[time.Duration]bool{}, time.Duration(0)
	for i := range c.History {
		if e := &c.History[i]; e.Kind == Ill && e.Replica == claim.Replica && e.At < sent && e.Until >= sent {
			hang[e.At], last = true, e.At
		}
	}
	if len(hang) >= flights {
		return min(last, sent-c.rule.Missed.Queued)
	}
	return sent - c.rule.Missed.Queued
}

// refusedInTime reports whether a replica need not miss a scheduled time, however late it begins it, because it claimed the job within Grace and was
// refused: the lease in the way had been granted when the time was due, so that it may have been for this time; or the record was
// locked, and nobody else could claim it either.
func (c *jobCheck) refusedInTime(replica string, scheduled int64, leases []*lease) bool {
	return c.rule.Missed.Policy == "skip" && c.has(func(e *Event) bool {
		if e.Kind != Acquire || e.Name != c.rule.Record || e.Replica != replica || !c.claimsInTime(e, scheduled) {
			return false
		}
		return e.Result == Locked || e.Result == Held && slices.ContainsFunc(leases, func(l *lease) bool {
			return l.grant.DidToken == e.Token && grantedAsTold(e, l) >= c.instant(scheduled)
		})
	})
}

// grantedAsTold is the latest instant at which a lease can have been granted according to a refusal: that has its age, which the replica counts back from the answer.
func grantedAsTold(refusal *Event, l *lease) time.Duration {
	decided := refusal.At
	if refusal.Did != "" {
		decided = refusal.Took
	}
	return l.from + refusal.Until - decided
}

// givenBackInTime reports whether the job was claimed within Grace of a run's time and given back, with nothing begun: what is given back so reports
// the time. So does a claim with the mark of that time that is made later, by a replica that was refused in time.
func (c *jobCheck) givenBackInTime(r Event, leases []*lease) bool {
	return c.rule.Missed.Policy == "skip" && slices.ContainsFunc(leases, func(l *lease) bool {
		back := l.released < r.At && !slices.ContainsFunc(c.runs, func(o Event) bool { return o.Token == l.grant.DidToken })
		return back && (c.claimsInTime(l.grant, r.Mark) || l.grant.Mark == r.Mark && c.refusedInTime(l.grant.Replica, r.Mark, leases))
	})
}

// apart is how far the clocks of replicas may lie apart for a takeover to find the same run.
const apart = 2 * time.Second

// putOff reports whether a run may be that of a holder who died, which comes after an older one: who took over from the dead was in time for that, ran it first,
// or gave it back to who ran it, and recorded the other. A successor decides as of when the dead one was granted the job, whose clock may have been another.
func (c *jobCheck) putOff(r Event, before []*lease) bool {
	if c.rule.Missed.Policy != "skip" || len(before) < 2 {
		return false
	}
	ran := func(l *lease, is func(scheduled int64) bool) bool {
		return slices.ContainsFunc(c.runs, func(o Event) bool { return o.Token == l.grant.DidToken && is(o.Mark) })
	}
	older, i := before[len(before)-1], len(before)-2
	for i > 0 && before[i].released != Never && !ran(before[i], func(int64) bool { return true }) {
		i--
	}
	dead, due := before[i], c.instant(r.Mark)
	return dead.released == Never && ran(older, func(scheduled int64) bool { return scheduled < r.Mark }) &&
		due <= dead.from+apart && due+c.rule.Missed.Grace >= dead.from-apart
}

// claimsInTime reports whether a claim was made for a scheduled time within Grace. It is made when it is asked for first, in the client.
func (c *jobCheck) claimsInTime(claim *Event, scheduled int64) bool {
	from := c.instant(scheduled)
	return claim.Mark >= scheduled && claim.At >= from && c.made(claim) <= from+c.rule.Missed.Grace
}

// picks reports whether the policy picks a scheduled time at some instant between that at which its run's claim was sent and that at which it
// began. What it picks changes when a time becomes due, and when the grace of one is over.
func (c *jobCheck) picks(done, scheduled int64, from, to time.Duration) bool {
	instants := []time.Duration{from, to}
	for s := c.rule.Next(done); c.instant(s) <= to; s = c.rule.Next(s) {
		instants = append(instants, c.instant(s), c.instant(s)+c.rule.Missed.Grace+1)
	}
	return slices.ContainsFunc(instants, func(at time.Duration) bool { return from <= at && at <= to && c.pick(done, at) == scheduled })
}

// pick is the policy: which scheduled time is to be run at an instant, all up to done being done.
func (c *jobCheck) pick(done int64, at time.Duration) int64 {
	var missed []int64
	for s := c.rule.Next(done); c.instant(s) <= at; s = c.rule.Next(s) {
		if c.instant(s) < at-c.rule.Missed.Grace {
			missed = append(missed, s)
			continue
		}
		if len(missed) == 0 || c.rule.Missed.Policy == "skip" {
			return s
		}
		break
	}
	switch {
	case len(missed) == 0 || c.rule.Missed.Policy == "skip":
		return 0
	case c.rule.Missed.Policy == "once":
		return missed[len(missed)-1]
	}
	return missed[max(0, len(missed)-c.rule.Missed.Cap)]
}
