package soloist

import (
	"container/heap"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// A planner decides which jobs a replica claims when, and what it runs under a grant. It is a machine without a clock, a store, a goroutine or a
// lock: it is told what happens, and when, and returns what to do. A job goes round in it:
//
//	add → joined → due → request → answer → ended → due …
//
// Between request and answer the caller asks the store, and between answer and ended it runs the job's function.
type planner struct {
	jobs  map[string]*plannedJob // by name
	fresh []*plannedJob          // those that have not joined
	wakes wakeHeap               // of the idle ones
	clock time.Time              // the latest that the wall clock has shown when jobs were looked at, or something was reckoned by it
	news  controlNews            // what people have asked of jobs, and which runs have been interrupted, when this was heard last

	limits  groupLimits
	groups  map[string]*claimGroup // by the names of their records
	stale   bool                   // jobs have come or gone since the groups were made
	leading []*claimGroup          // whose names this replica has been granted, until finishGroups
	unsure  bool                   // a claim since then was made without knowing all that people have asked

	newHolder func() string                           // draws the holder of a claim
	draw      func(below time.Duration) time.Duration // draws a part of it, to keep replicas apart
	left      func(job string)                        // is called when a job that was removed has gone
}

func newPlanner(limits groupLimits, newHolder func() string, draw func(time.Duration) time.Duration, left func(string)) *planner {
	return &planner{jobs: map[string]*plannedJob{}, news: controlNews{version: unsettled}, limits: limits, newHolder: newHolder, draw: draw, left: left}
}

// begin starts all over at now: what was heard and seen is forgotten, for the jobs may have been forgotten meanwhile, and all join anew.
func (p *planner) begin(now time.Time) {
	p.fresh, p.news, p.leading, p.unsure = nil, controlNews{version: unsettled}, nil, false
	for _, j := range p.jobs {
		if j.phase == idle || j.phase == joining {
			p.unwake(j)
			*j = plannedJob{jobSpec: j.jobSpec, index: -1, gone: j.gone}
			p.knownSince(j, now)
			p.fresh = append(p.fresh, j)
		}
	}
}

// add adds a job that is known here since now. It is not due before it has joined.
func (p *planner) add(spec *jobSpec, now time.Time) {
	j := &plannedJob{jobSpec: spec, index: -1, gone: make(chan struct{})}
	p.knownSince(j, now)
	p.jobs[spec.job.Name] = j
	p.fresh = append(p.fresh, j)
}

// knownSince sets since when the job is known here.
func (p *planner) knownSince(j *plannedJob, now time.Time) {
	p.reckons(now)
	j.known = now.Truncate(time.Millisecond)
	j.since = j.known
	if j.once() {
		j.since = time.Time{} // a time before the job was known is not left out, only missed
	}
}

// update gives a job other terms. A run under way goes on with those that it has begun with.
func (p *planner) update(j *plannedJob, spec *jobSpec, now time.Time) {
	once := j.once()
	if j.jobSpec = spec; j.once() != once {
		p.knownSince(j, now)
	}
	p.stale = true
	if j.phase == idle {
		p.lookAgain(j, now)
	}
}

// remove makes a job go: at once if nothing is under way for it, else when that has ended.
func (p *planner) remove(j *plannedJob) {
	j.removed, p.stale = true, true
	if j.phase == joining || j.phase == idle {
		p.drop(j)
	}
}

func (p *planner) drop(j *plannedJob) {
	p.unwake(j)
	delete(p.jobs, j.job.Name)
	close(j.gone)
	p.left(j.job.Name)
}

func (p *planner) unwake(j *plannedJob) {
	if j.index >= 0 {
		heap.Remove(&p.wakes, j.index)
	}
}

// joining returns the jobs whose records have not been read yet, in the order of their names.
func (p *planner) joining() []*plannedJob {
	p.fresh = slices.DeleteFunc(p.fresh, func(j *plannedJob) bool { return j.removed || j.phase != joining })
	return slices.SortedFunc(slices.Values(p.fresh), byName)
}

// read learns what the record of a job that joins has, as it was read on a trip, and returns by how much it is ahead of this replica's clock.
func (p *planner) read(j *plannedJob, r store.Record, t trip) (ahead time.Duration) {
	j.saw(r, t.answered)
	j.sawLease(r, t)
	return j.ahead(t.answered)
}

// joined lets jobs be due from now on.
func (p *planner) joined(jobs []*plannedJob, now time.Time) {
	p.stale = true
	for _, j := range jobs {
		if !j.removed {
			p.lookAgain(j, now)
			p.hears(j, now)
		}
	}
}

// reckons notes that something is reckoned by what the wall clock shows.
func (p *planner) reckons(now time.Time) { p.clock = later(p.clock, now.Round(0)) }

// setBack looks at all again because the wall clock was set back to now. What it showed was wrong: a time that seemed to be missed may be due yet, and nothing
// that this replica has seen was later than now. When a lease ends is asked anew.
func (p *planner) setBack(now time.Time) {
	p.clock = now.Round(0)
	for _, j := range p.jobs {
		for _, at := range []*time.Time{&j.known, &j.since, &j.ended, &j.timely.at} {
			*at = earlier(at.Round(0), now.Truncate(time.Millisecond))
		}
		if !j.leaseEnd.IsZero() {
			j.leaseEnd, j.behind = now, true
		}
		if j.phase == idle {
			p.lookAgain(j, now)
		}
	}
}

// due returns the jobs that are to be looked at by now. Each is to be requested, with its group or alone.
func (p *planner) due(now time.Time) []*plannedJob {
	if now.Round(0).Before(p.clock) {
		p.setBack(now)
	}
	p.reckons(now)
	if p.stale {
		p.groups, p.stale = claimGroups(p.jobs, p.limits, p.groups), false
	}
	var due []*plannedJob
	for len(p.wakes) > 0 && !p.wakes[0].wake.After(now) {
		j := heap.Pop(&p.wakes).(*plannedJob)
		j.phase = claiming
		due = append(due, j)
	}
	return due
}

// wake is when the next job is to be looked at; the zero time is never.
func (p *planner) wake() time.Time {
	if len(p.wakes) == 0 {
		return time.Time{}
	}
	return p.wakes[0].wake
}

// A request is what a job asks of the store: a claim, or nothing but to know what people have asked of it.
type jobRequest struct {
	job    *plannedJob
	spec   *jobSpec
	claims bool
	claim  store.Claim
}

// request returns what to ask the store at now for jobs that are due.
func (p *planner) request(jobs []*plannedJob, now time.Time) []jobRequest {
	var requests []jobRequest
	for _, j := range jobs {
		if j.removed {
			p.drop(j)
			continue
		}
		req := jobRequest{job: j, spec: j.jobSpec}
		mark, ok := j.request(now)
		if j.open = false; ok {
			j.claim(mark, now)
			req.claims, req.claim = true, store.Claim{Name: j.name, Holder: p.newHolder(), TTL: j.opts.TTL, Mark: mark}
		}
		requests = append(requests, req)
	}
	return requests
}

// knows reports whether the jobs have what people have asked of them, whose version is as given.
func (p *planner) knows(version int64) bool { return version != unsettled && version == p.news.version }

// An answer is what the store has answered to a request.
type answer struct {
	trip
	out      store.Outcome // of the claim, if one was made
	again    bool          // as in target
	controls error         // why nobody knows what people have asked of the job; nil if that is known
}

// A step is what to do after an answer. Without a grant there is nothing to do but to wait.
type step struct {
	granted bool
	spec    *jobSpec
	run     decision // what to run under the grant; nothing if it is none
	back    bool     // give the grant back and run nothing, for nobody knows whether it may be run
	unused  []byte   // the state to give the grant back with if nothing is begun under it; nil leaves that of the record

	failed error         // why the claim, or what people have asked of the job, is not known
	ahead  time.Duration // of this replica's clock is the job's record, which is to be reported; 0 if it is not
}

// answer takes the answer to a request.
func (p *planner) answer(req jobRequest, a answer) (s step) {
	j, now := req.job, a.answered
	p.reckons(now)
	var held *store.HeldError
	var done *store.DoneError
	if req.claims {
		j.leaseEnd = time.Time{}
	}
	switch {
	case !req.claims && a.controls != nil && j.asked.Paused == unreadable.Paused: // it is heard when that can be read again
		j.open = true
		p.lookAgain(j, now)
	case !req.claims && a.controls != nil:
		j.open, s.failed = true, a.controls
		p.lookAt(j, p.soon(now))
	case !req.claims:
		p.lookAgain(j, now)
	case errors.As(a.out.Err, &done):
		j.saw(done.Record, now)
		s.ahead = j.ahead(now)
		j.sawLease(done.Record, a.trip)
		p.lookAgain(j, now)
	case errors.As(a.out.Err, &held) && locked(held): // who has it, and since when, is not known: what was refused before still counts
		j.open = true
		p.lookAt(j, j.orDue(p.spread(now.Add(held.Record.Left)), now))
	case errors.As(a.out.Err, &held):
		j.sawLease(held.Record, a.trip)
		j.refused(held.Record, now)
		p.lookAt(j, j.again(held.Record, p.spread(now.Add(held.Record.Left)), now))
	case a.out.Err != nil:
		j.unanswered()
		s.failed = a.out.Err
		p.lookAt(j, p.soon(now))
	default:
		j.phase = granted
		s.granted, s.spec, s.run = true, j.jobSpec, j.decide(a.out.Grant, a.trip)
		s.unused = s.run.unused(j.job)
		j.runs = time.Time{}
		if s.run.manual == 0 {
			j.runs = s.run.scheduled
		}
		if _, delayed := j.delayed(); !delayed { // the run may be of an older time, and the others of the group are not to wait for the end of it
			j.lastCall = j.lastCallAfter(later(j.done(), j.runs), now)
		}
		j.open, s.failed = a.controls != nil, a.controls
		s.back = j.removed || j.open
	}
	return s
}

// unanswered takes it that a whole batch of requests was not answered.
func (p *planner) unanswered(requests []jobRequest, now time.Time) {
	p.unsure = true
	for _, req := range requests {
		req.job.unanswered()
		p.lookAt(req.job, p.soon(now))
	}
}

// ended takes the end of what a grant has led to.
func (p *planner) ended(e ending, now time.Time) {
	p.reckons(now)
	j := e.job
	if e.back {
		j.leaseEnd = now // to claim it although it may not be due: its record shows the run that was not begun
		p.lookAt(j, j.orDue(p.soon(now), now))
	} else {
		j.timely = timelyClaim{} // the record shows the run
		j.sawEnd(e, now)
		wake, due := j.next(now)
		if j.behind = due; due && e.left > 0 { // another replica takes the run over at once, and this one if there is none
			wake = p.soon(now)
		}
		p.lookAt(j, wake)
	}
	if !j.removed { // another replica may have left a later run meanwhile
		p.hearsLeft(j, now)
	}
}

// heard takes over what people ask of the jobs, and which runs have been interrupted.
func (p *planner) heard(news controlNews, now time.Time) {
	p.news = news
	for _, j := range p.jobs {
		p.hears(j, now)
	}
}

// hears applies the last news to a job.
func (p *planner) hears(j *plannedJob, now time.Time) {
	name := j.job.Name
	if asked := p.news.each[name].under(p.news.all); p.news.each != nil && asked != j.asked {
		j.hear(asked)
		if j.phase == idle {
			p.lookAgain(j, now)
		}
	}
	p.hearsLeft(j, now)
}

// hearsLeft has a job claimed of which another replica has left a run, unless one goes on here.
func (p *planner) hearsLeft(j *plannedJob, now time.Time) {
	name := j.job.Name
	if left := p.news.left; j.phase == idle && left.since(name, j.token, j.unlisted) {
		j.token, j.unlisted = max(j.token, left.Jobs[name]), max(j.unlisted, left.All)
		j.leaseEnd, j.behind = now, true // to claim it although it may not be due, and not by its group
		p.lookAt(j, now)
	}
}

// soon is when to ask again after a failure.
func (p *planner) soon(now time.Time) time.Time {
	return now.Add(longestPause/3 + p.draw(longestPause*2/3))
}

// spread keeps replicas apart that would ask at the same instant.
func (p *planner) spread(at time.Time) time.Time { return at.Add(p.draw(20 * time.Millisecond)) }

// lookAgain sets when to look at a job again by what is known of it at now.
func (p *planner) lookAgain(j *plannedJob, now time.Time) {
	p.reckons(now)
	wake, _ := j.next(now)
	p.lookAt(j, wake)
}

// lookAt sets when to look at a job again, for which nothing is under way any more; the zero time is never. It is kept by the wall clock alone, as scheduled
// times are: instants that have the monotonic clock too have no order with those once the wall clock was set, or the machine suspended.
func (p *planner) lookAt(j *plannedJob, wake time.Time) {
	if j.removed {
		p.drop(j)
		return
	}
	j.phase, j.wake = idle, wake.Round(0)
	switch {
	case wake.IsZero():
		p.unwake(j)
	case j.index >= 0:
		heap.Fix(&p.wakes, j.index)
	default:
		heap.Push(&p.wakes, j)
	}
}

// sorted returns the jobs in the order of their names.
func (p *planner) sorted() []*plannedJob { return slices.SortedFunc(maps.Values(p.jobs), byName) }

// A wakeHeap orders idle jobs by when to look at them (container/heap).
type wakeHeap []*plannedJob

func (h wakeHeap) Len() int           { return len(h) }
func (h wakeHeap) Less(i, j int) bool { return h[i].wake.Before(h[j].wake) }
func (h wakeHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *wakeHeap) Push(x any) {
	j := x.(*plannedJob)
	j.index = len(*h)
	*h = append(*h, j)
}

func (h *wakeHeap) Pop() any {
	old := *h
	j := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	j.index = -1
	return j
}
