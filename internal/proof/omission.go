package proof

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// An Omission says when a scheduled time must have been begun by somebody: if one replica was well, as Well events tell, from when its
// run may start until Grace after that, whatever befell the others. Times that nobody could have begun are excused: those at which the
// job was taken, until Grace was nearly over, by who had it before or was at another time of it. Where a time may be run once only, one is excused too that
// the store was told of by a replica which then was not well: nobody may begin it after that.
//
// A run has begun when its function was called.
type Omission struct {
	Grace    time.Duration                       // as the job has it; 0 leaves the rule out
	Start    func(scheduled int64) time.Duration // how long after its time a run may start, below Jitter; nil if it may at once
	Jitter   time.Duration                       // more than Start ever returns, 0 if that is nil
	Look     time.Duration                       // within which a well replica looks at a job that has become free
	From     time.Duration                       // times before are left out: the fleet had not agreed on since when the job is due
	Until    time.Duration                       // times whose Grace ends later are left out: somebody may yet take them over
	Spaced   time.Duration                       // times sooner than this after one that was begun are done with it
	Doubt    []Span                              // in which the job may have been paused, or was asked for by a person
	Later    bool                                // a later time that is begun stands for it: it may have been missed, for all that were
	Group    string                              // what the names begin with that a replica takes to claim jobs for all, which then wait for it; "" if there are none
	Observed bool                                // there is no clock: each replica takes a lease, or a linger, to begin when it first sees it
	Tries    bool                                // attempts are bounded: a replica that dies before it begins has had one
	Drift    float64                             // by which part of it the age of a lease may be told wrongly
}

// allowance is by how much the client takes clocks to differ when it looks back at what a replica that died had begun.
const allowance = 2 * time.Second

// start is how long after a scheduled time its run may start.
func (o Omission) start(scheduled int64) time.Duration {
	if o.Start == nil {
		return 0
	}
	return o.Start(scheduled)
}

// omitted checks that what a well replica could have begun was begun.
func (c *jobCheck) omitted() {
	rule := c.rule.Omission
	well := slices.DeleteFunc(c.of(Well), func(e Event) bool { return e.Name != c.rule.Name })
	leases := c.byName[c.rule.Record]
	for s := c.rule.Next(c.rule.Zero); c.instant(s)+rule.Grace <= rule.Until; s = c.rule.Next(s) {
		from := c.instant(s) + rule.start(s)
		to := from + rule.Grace
		if from < rule.From {
			continue
		}
		seen := max(to, c.diedWith(leases, from, to)+rule.Look)
		if rule.Observed && rule.Spaced > 0 { // who is refused at last may have to see a whole linger
			seen = max(seen, to+rule.Spaced+rule.Look)
		}
		were := slices.DeleteFunc(slices.Clone(well), func(e Event) bool { return e.At > c.instant(s)-c.rule.Skew || e.Until < seen+c.rule.Skew })
		if len(were) == 0 || c.begunFor(s) || c.rule.AtMostOnce && c.diedBeginning(s, well) || c.excused(s, from, to, seen, leases, were) {
			continue
		}
		c.found = append(c.found, Violation{OmissionChecker, c.rule.Name,
			fmt.Sprintf("%s (%v) was begun by nobody, although %s was well from %v to %v", utc(s), from, were[0].Replica, were[0].At, were[0].Until),
			c.around(from, to)})
	}
}

// diedWith is until when a time that could be begun from an instant on was at somebody who died or was cut off: who comes next must be well then. It is 0 if it was
// at nobody.
func (c *jobCheck) diedWith(leases []*lease, from, to time.Duration) (until time.Duration) {
	for i, l := range leases {
		if l.from >= from && l.from <= to && l.released == Never {
			until = max(until, c.taken(leases[i:], from))
		}
	}
	return until
}

// notRepeated checks that a job with a fixed delay is claimed again by somebody after each run that was recorded, if one replica was well from when it
// was due until Grace after that. With a jitter each scheduled time has a start of its own.
func (c *jobCheck) notRepeated() {
	rule := c.rule.Omission
	well := slices.DeleteFunc(c.of(Well), func(e Event) bool { return e.Name != c.rule.Name })
	for _, r := range c.runs {
		from := r.Until + c.rule.Delay
		if l := c.byToken[leaseKey{c.rule.Record, r.Token}]; l != nil {
			from = max(from, l.linger)
		}
		to := from + rule.Grace
		if rule.Observed { // who sees the linger for the first time then waits for the whole of it
			to += rule.Spaced
		}
		last := to + rule.Jitter
		if r.Recorded == 0 || r.Result != Okay || last > rule.Until || slices.ContainsFunc(rule.Doubt, func(d Span) bool { return d.From <= last && r.At <= d.To }) {
			continue
		}
		within := func(at time.Duration, scheduled int64) bool {
			latest := last
			if c.rule.Skew == 0 { // else a time may have another name, by the clock of who had the job before
				latest = to + rule.start(scheduled)
			}
			return at >= from-2*c.rule.Skew-time.Second/2 && at <= latest
		}
		i := slices.IndexFunc(well, func(e Event) bool { return e.At <= from && e.Until >= last })
		claimed := slices.ContainsFunc(c.byName[c.rule.Record], func(l *lease) bool { return within(l.from, l.grant.Mark) })
		// Under a claim of before, which its replica decided late.
		begun := slices.ContainsFunc(c.runs, func(o Event) bool { return within(o.At, o.Mark) && o.Token != r.Token })
		// A manual run, which may have been asked for long before: the delay counts from its end.
		manual := slices.ContainsFunc(c.runs, func(o Event) bool { return o.Manual && o.At >= r.Until && o.At <= last })
		if i < 0 || claimed || begun || manual {
			continue
		}
		c.found = append(c.found, Violation{OmissionChecker, c.rule.Name,
			fmt.Sprintf("was due at %v after a run that ended at %v, and claimed by nobody in time until %v, although %s was well from %v to %v", from, r.Until, last,
				well[i].Replica, well[i].At, well[i].Until), append(History{r}, c.around(from, last)...)})
	}
}

// begunFor reports whether somebody has begun a scheduled time, or one that stands for it.
func (c *jobCheck) begunFor(scheduled int64) bool {
	return slices.ContainsFunc(c.runs, func(r Event) bool {
		return !r.Manual && (r.Mark == scheduled || c.rule.Omission.Later && r.Mark > scheduled)
	})
}

// diedBeginning reports whether the store was told that a scheduled time begins by a replica that was not well until it could call the function.
func (c *jobCheck) diedBeginning(scheduled int64, well History) bool {
	return c.has(func(e *Event) bool {
		return c.tells(e, scheduled) && !slices.ContainsFunc(well, func(w Event) bool {
			return w.Replica == e.Replica && w.At <= e.At && w.Until >= e.Took+c.rule.Omission.Look
		})
	})
}

// excused reports whether nobody need have begun a scheduled time, from which on some replicas were well until all had seen what was in the way.
func (c *jobCheck) excused(scheduled int64, from, to, seen time.Duration, leases []*lease, well History) bool {
	rule := c.rule.Omission
	if slices.ContainsFunc(rule.Doubt, func(d Span) bool { return d.From <= to && from <= d.To }) {
		return true
	}
	for before := range c.at {
		if at := c.instant(before); at < c.instant(scheduled) && c.instant(scheduled) < at+rule.Spaced {
			return true
		}
	}
	if rule.Tries && c.tried(leases, from, seen+c.rule.Skew) {
		return true
	}
	if c.diedInARow(leases, from, seen+c.rule.Skew, well) || c.passedOver(scheduled, to+c.rule.Skew) || c.overtaken(scheduled, from, to) {
		return true
	}
	return c.takenByOthers(leases, scheduled, from, to, well)
}

// tried reports whether a time that could be begun from an instant on has had an attempt: whether a lease that began before another instant was not given back.
// One that was given back with nothing begun leaves the time to who comes next, however late that is, and with it the attempt.
func (c *jobCheck) tried(leases []*lease, from, until time.Duration) bool {
	for i, l := range leases {
		switch {
		case l.from < from-c.rule.Omission.Spaced-max(c.rule.Skew, allowance)-c.misjudged(leases[i:], until):
		case l.from > until:
			return false
		case l.released == Never:
			return true
		case l.from >= from-c.rule.Skew && i+1 < len(leases) && !c.ranUnder(l):
			until = max(until, leases[i+1].from)
		}
	}
	return false
}

// misjudged is by how much who comes after the first of these leases, until an instant at the latest, may be wrong about when it began: that is reckoned from its age.
func (c *jobCheck) misjudged(leases []*lease, until time.Duration) time.Duration {
	if len(leases) > 1 {
		until = min(until, leases[1].from)
	}
	return time.Duration(c.rule.Omission.Drift * float64(until-leases[0].from))
}

// ranUnder reports whether something was begun under a lease.
func (c *jobCheck) ranUnder(l *lease) bool {
	return slices.ContainsFunc(c.runs, func(r Event) bool { return r.Token == l.grant.DidToken })
}

// takenByOthers reports whether others had the job until Grace was nearly over, for an earlier time or a manual run: scheduled times are run in their
// order, so one that comes before this is run first, whichever replica does it. A well replica that was refused looks again when the lease in the way would have
// ended, and at the latest when an eighth of Grace is left: if it found the job free then, the rest is no excuse. One that waits for another which claims
// for all looks again when that has ended.
func (c *jobCheck) takenByOthers(leases []*lease, scheduled int64, from, to time.Duration, well History) bool {
	rule := c.rule.Omission
	ahead := from - c.rule.Skew // by a clock that is
	until, free, look, seen := ahead, ahead, from, from
	if rule.Observed { // until when those wait who have seen a linger for the first time
		seen += rule.Spaced
	}
	for i, l := range leases {
		if l.from > to {
			break
		}
		if l.from >= from && !c.forAnother(leases[i:], scheduled) {
			continue
		}
		looks := max(look, c.waits(well, l.from))
		if last := from + rule.Grace*7/8; free < last { // else it was refused at the last call, too
			looks = min(looks, last)
		}
		if l.from > max(until, seen, looks)+rule.Look+2*c.rule.Skew {
			return false
		}
		taken := c.taken(leases[i:], from)
		until, look = max(until, taken), max(look, taken, l.until+(l.until-l.from)/8)
		free = max(free, c.taken(leases[i:], l.until)) // for who looked just before its end
		if rule.Observed {                             // who looked just before the last extension sees it a TTL later
			look = max(look, l.until+l.grant.TTL)
		}
	}
	return until > ahead && until+max(rule.Look, rule.Grace/8)+2*c.rule.Skew >= to
}

// waits is until when each of some replicas waits because it was told, before an instant, that another claims for all.
func (c *jobCheck) waits(replicas History, before time.Duration) time.Duration {
	if c.rule.Omission.Group == "" {
		return 0
	}
	each := map[string]time.Duration{}
	for i := range c.History {
		e := &c.History[i]
		if e.Kind != Acquire || e.Result != Held || e.Until > before || !strings.HasPrefix(e.Name, c.rule.Omission.Group) {
			continue
		}
		if l := c.byToken[leaseKey{e.Name, e.Token}]; l != nil {
			each[e.Replica] = max(each[e.Replica], l.taken())
		}
	}
	first := Never
	for _, r := range replicas {
		first = min(first, each[r.Replica])
	}
	return first
}

// diedInARow reports whether two holders, one after the other, had the job since the time could be begun, the first while it could, and neither began anything or gave the job
// back: a replica that comes then finds the second alone. So does a second that learned of its grant by asking again, for that does not show that the lease
// before was abandoned. One that was well remembers the time, and must begin it when it is granted the job after them.
func (c *jobCheck) diedInARow(leases []*lease, from, to time.Duration, well History) bool {
	died := 0
	for _, l := range leases {
		if l.from < from-c.rule.Skew {
			continue
		}
		if died == 0 && l.from > to {
			return false
		}
		ran := c.ranUnder(l)
		askedAgain := died > 0 && l.grant.Result != Granted
		switch {
		case died < 2 && !askedAgain:
			if l.released != Never || ran {
				return false
			}
			died++
		case slices.ContainsFunc(well, func(e Event) bool { return e.Replica == l.grant.Replica }):
			return false
		case ran:
			return true
		default:
			died = 2
		}
	}
	return died >= 2
}

// passedOver reports whether somebody whose clock is ahead has begun a later time before that was due, until an instant: for that clock this time was missed.
// One whose clock is behind is still in time for it then, and finds the later one done.
func (c *jobCheck) passedOver(scheduled int64, until time.Duration) bool {
	return c.rule.Skew > 0 && slices.ContainsFunc(c.runs, func(r Event) bool {
		return !r.Manual && r.Mark > scheduled && r.At < c.instant(r.Mark) && r.At <= until
	})
}

// overtaken reports whether a replica that was not well while the time could be begun has begun a later one, when those that were well still had to see the rest
// of a linger. It had seen the linger before them, and the time was missed for it.
func (c *jobCheck) overtaken(scheduled int64, from, to time.Duration) bool {
	rule := c.rule.Omission
	return rule.Observed && slices.ContainsFunc(c.runs, func(r Event) bool {
		return !r.Manual && r.Mark > scheduled && r.At >= to && r.At <= to+rule.Spaced &&
			!slices.ContainsFunc(c.of(Well), func(e Event) bool {
				return e.Name == c.rule.Name && e.Replica == r.Replica && e.At <= from && e.Until >= to
			})
	})
}

// taken is until when nobody else could have the name.
func (l *lease) taken() time.Duration { return max(l.end(), l.linger) }

// taken is until when nobody else need have found that the first of these leases is over, if all looked at an instant. A linger is over when it is: who has
// claimed the job within Grace waits until they have seen all of it.
func (c *jobCheck) taken(leases []*lease, look time.Duration) time.Duration {
	l := leases[0]
	until := l.taken()
	if !c.rule.Omission.Observed || l.released != Never {
		return until
	}
	until = max(until, look+l.grant.TTL)
	if len(leases) > 1 { // somebody has found it
		until = max(l.taken(), min(until, leases[1].from))
	}
	return until
}

// forAnother reports whether the first of these leases was for a manual run or for an earlier time than scheduled. If nothing began under it,
// it was for what began next.
func (c *jobCheck) forAnother(leases []*lease, scheduled int64) bool {
	for _, l := range leases {
		for _, r := range c.runs {
			if r.Token == l.grant.DidToken {
				return r.Manual || r.Mark < scheduled
			}
		}
		if mark := c.beginning(l); mark > 0 {
			return mark < scheduled
		}
	}
	return false
}

// beginning is the scheduled time of which the store was to be told under a lease that it begins, or is given up; 0 if there was none.
func (c *jobCheck) beginning(l *lease) int64 {
	for i := range c.History {
		if e := &c.History[i]; (e.Kind == Extend || e.Kind == Release) && e.Name == c.rule.Record && e.Token == l.grant.DidToken && e.Mark > 0 {
			return e.Mark
		}
	}
	return 0
}

// around is what was asked of the store, and began, about two instants: also of other records, for who asks for this one may be
// settled by them.
func (c *jobCheck) around(from, to time.Duration) History {
	var near History
	for _, e := range c.History {
		about := e.Kind == Acquire || e.Name == c.rule.Record && (e.Kind == Extend || e.Kind == Release) || e.Kind == Run && e.Name == c.rule.Name || e.Kind == Fault
		if about && e.At <= to && e.At >= from-2*c.rule.Omission.Grace {
			near = append(near, e)
		}
	}
	const most = 25
	return near[max(0, len(near)-most):]
}
