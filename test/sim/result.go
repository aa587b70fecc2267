package sim

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"github.com/soloist-dev/soloist/internal/proof"
)

// result ends the history: what was begun and never ended stays so.
func (w *world) result() Result {
	w.mu.Lock()
	defer w.mu.Unlock()
	var health proof.History
	for _, r := range w.all {
		health = append(health, r.well()...)
	}
	order := make([]*proof.Event, 0, len(w.events)+len(health))
	for _, events := range []proof.History{w.events, health} {
		for i := range events {
			if e := &events[i]; e.Kind != "" {
				order = append(order, e)
			}
		}
	}
	slices.SortStableFunc(order, inTime)
	h := slices.Grow(*room.Get().(*proof.History), len(order))
	for _, e := range order {
		h = append(h, *e)
	}
	if w.plan.Control == NoControl {
		w.histories(h)
	}
	return Result{History: h, Rules: w.rules(), Found: append(w.found, w.handOvers(h)...), Fired: slices.Sorted(maps.Keys(w.fired))}
}

// inTime orders events by when they were; what happened at one instant was noted in any order.
func inTime(a, b *proof.Event) int {
	if order := cmp.Compare(a.At, b.At); order != 0 {
		return order
	}
	if order := cmp.Compare(a.Took, b.Took); order != 0 {
		return order
	}
	return cmp.Or(cmp.Compare(a.Replica, b.Replica), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Holder, b.Holder), cmp.Compare(a.Fault, b.Fault))
}

// rules are what the history has to keep.
func (w *world) rules() proof.Rules {
	var rules proof.Rules
	p := w.plan
	if p.Work == Elements || p.Work == Mixed {
		names := map[string]bool{}
		for i := range p.Names {
			names[recordOfElement(string(rune('0'+i)))] = true
		}
		rule := proof.ElementRule{Names: names, MustBeDone: p.attempts() == 0, Retain: p.Retain}
		if p.crashesAlone() { // else an attempt may not have been recorded, or not count since it was interrupted
			rule.Attempts = p.attempts()
		}
		rules.Elements = []proof.ElementRule{rule}
	}
	rules.Answer, rules.Clockless = p.promptly(), p.Clockless
	for _, j := range p.jobs() {
		rules.Jobs = append(rules.Jobs, w.jobRule(j))
	}
	return rules
}

func (w *world) jobRule(j JobPlan) proof.JobRule {
	p, asks := w.plan, w.asks[j.Name]
	rule := proof.JobRule{Name: j.Name, Record: recordOfJob(j.Name), AtMostOnce: j.GiveUp, Zero: w.begin.UnixMilli(), Takeover: true, End: p.Trouble + p.TTL}
	for _, one := range asks.pauses {
		rule.Pauses = append(rule.Pauses, proof.Span{From: one.from, To: one.to})
	}
	if rule.Asked = len(asks.asked); !j.GiveUp && j.Attempts == 0 { // else a claim that was cut off may have used it up
		rule.AskedSure = asks.manual
	}
	if p.crashesAlone() { // else an attempt may not have been recorded, or not count since it was interrupted
		rule.Attempts = j.Attempts
	}
	skew, allowed := p.skew()
	rule.Skew = skew
	if j.Delay > 0 {
		rule.Takeover = false // the next run is not of the same time
		rule.Delay = j.Delay
		if rule.Omission = w.omission(j); !allowed || len(p.Suspends) > 0 {
			rule.Omission.Grace = 0
		} else if rule.Omission.Grace > 0 {
			rule.Omission.Grace = 2*j.ttl(p) + 2*time.Second + 2*skew
		}
		return rule
	}
	if j.Other > 0 || !allowed { // it is run at the times of either schedule, or of a wrong clock; a successor may take a run that was cut off for one of another time
		rule.Takeover, rule.Attempts = false, 0
		return rule
	}
	rule.Next = j.next()
	if j.Jitter == 0 && j.AtLeast == 0 && !j.Person && !j.Uneven && skew == 0 {
		rule.Missed = proof.Missed{Policy: j.Missed, Cap: j.Cap, Grace: j.Grace, Queued: queued}
	}
	rule.Omission = w.omission(j)
	if j.Attempts > 0 || j.Uneven { // a successor with another Grace may find that the time was missed
		rule.Takeover = false
	}
	if j.Person || j.AtLeast > 0 || j.Jitter > 0 {
		rule.Takeover = false
		return rule
	}
	if p.Work == Cron && j.Attempts > 0 && len(p.Crashes) > 0 {
		return rule // a replica that dies before it begins has had its attempt
	}
	// When all is well, and what had begun before is over, each scheduled time is run.
	first, last := p.Trouble+max(p.TTL*3/2, j.Longest+p.TTL/2), p.Trouble+p.Tail-p.TTL
	first += p.observed()
	if p.Odds.Slow > 0 && slices.ContainsFunc(p.Cuts, func(c Cut) bool { return c.Frozen }) {
		first += p.TTL // what was sent when a replica goes on may arrive as late
	}
	if p.Work == Cron {
		first, last = time.Minute, p.Trouble+p.Tail-time.Minute
	}
	if j.Missed == "all" && j.Cap >= 100 && p.Work != Cron {
		first = p.TTL
	}
	ms := func(d time.Duration) int64 { return rule.Zero + d.Milliseconds() }
	for s := rule.Next(ms(first)); s <= ms(last); s = rule.Next(s) {
		rule.Expected = append(rule.Expected, s)
	}
	return rule
}

// queued is how long a claim waits behind requests that hang before it is sent beside them.
const queued = 100 * time.Millisecond

// omission returns what must have been begun because a replica was well.
func (w *world) omission(j JobPlan) proof.Omission {
	p := w.plan
	o := proof.Omission{Grace: j.Grace, Look: time.Second / 2, Until: p.Trouble + p.Tail - 2*p.TTL - time.Second, Spaced: j.AtLeast, Tries: j.Attempts > 0, Later: j.Missed != "skip", Observed: p.Clockless, Drift: p.drift()}
	o.From = proof.Never
	for i := range w.events { // what is due counts from the mark that a replica has registered
		if e := &w.events[i]; e.Name == recordOfJob(j.Name) && (e.Kind == proof.Release || e.Kind == proof.Extend) && e.Mark > 0 && e.Did == proof.Okay {
			o.From = min(o.From, e.Took)
		}
	}
	if j.Jitter > 0 {
		o.Start, o.Jitter = j.start, j.Jitter
	}
	if p.Job.Herd {
		o.Group = "group/"
	}
	if j.Uneven {
		o.Grace = 0 // replicas disagree about what is missed
	}
	for _, d := range w.asks[j.Name].doubts { // what was due before may have been at somebody who died
		o.Doubt = append(o.Doubt, proof.Span{From: d.from - 3*p.TTL, To: max(d.to, d.to+p.TTL)})
	}
	return o
}

// start is how long after a scheduled time its run may start at the earliest.
func (j JobPlan) start(scheduled int64) time.Duration {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s\x00%d", j.Name, scheduled)
	return time.Duration(h.Sum64() % uint64(j.Jitter))
}

// next is the schedule, reckoned in another way than the client does it.
func (j JobPlan) next() func(after int64) int64 {
	if j.Expression == "" {
		d := j.Every.Milliseconds()
		return func(after int64) int64 { return (after/d + 1) * d }
	}
	zone, minute, hour := j.fixedTime()
	var all []int64
	day := -1
	for at := j.Begin.Add(-48 * time.Hour); len(all) < 6; at = at.Add(time.Minute) {
		local := at.In(zone)
		if local.YearDay() != day && (local.Hour() > hour || local.Hour() == hour && local.Minute() >= minute) {
			day = local.YearDay()
			all = append(all, at.UnixMilli())
		}
	}
	return func(after int64) int64 {
		for _, s := range all {
			if s > after {
				return s
			}
		}
		return all[len(all)-1] + 1<<40
	}
}

// fixedTime reads the expressions that overAChange makes.
func (j JobPlan) fixedTime() (zone *time.Location, minute, hour int) {
	var name string
	if _, err := fmt.Sscanf(j.Expression, "TZ=%s %d %d", &name, &minute, &hour); err != nil {
		panic(err)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		panic(err)
	}
	return zone, minute, hour
}

// handOvers finds locks that stayed free although somebody waited for them, in the good time at the end.
func (w *world) handOvers(h proof.History) []proof.Violation {
	drift := w.plan.drift()
	// What is left of a lease is measured by a clock that drifts, and that of a lease that was granted by one; and there is the network.
	bound := max(w.plan.TTL/8, time.Duration(1.5*drift*float64(w.plan.TTL))) + 200*time.Millisecond
	if w.plan.Uneven {
		bound *= 2 // there are TTLs of twice the length
	}
	bound += w.plan.observed()
	if !w.plan.Waiter {
		bound += 1200 * time.Millisecond // the client asks again each second
	}
	from := w.plan.Trouble + w.plan.TTL*5/4 // requests that were sent before may still be waited for, in a queue for a TTL and the time of a request
	if w.plan.Uneven {
		from += w.plan.TTL * 5 / 4
	}
	return proof.Idle(h, from, bound)
}
