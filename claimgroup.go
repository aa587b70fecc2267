package soloist

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// groupFrom is how many jobs of one schedule make a claim group. Claiming fewer costs the store little more than claiming the group's name.
const groupFrom = 32

// doneFor is how long it is remembered that all jobs of a group are done: longer than any request for it is under way.
const doneFor = time.Hour

// A claimGroup is jobs that are due together because they have one schedule. All replicas would claim all of them at once, and all but
// the first would be refused. So the replica that is granted the group's name for a scheduled time claims its jobs, and the others look
// again when that has ended, as they do at a job that another replica runs. The name is taken for no longer than claiming needs, so that another
// replica claims within Grace if this one dies. When it has claimed the jobs, it gives the name back to linger for a TTL of the jobs: should it die
// then, or a holder that it has seen at a job, another claims in time to take over.
//
// A name that lingers for the whole of that TTL is one whose jobs nobody need claim. If it lingers for less, it is to be free when a job would be missed soon; but it
// may have been given back late, or taken late.
//
// A group saves requests and decides nothing. Which replica runs a job is decided by the job's own lease.
type claimGroup struct {
	name string // of the record; the scheduled time follows
	ttl  time.Duration
	hold time.Duration // for which the name is taken at first
	jobs []*plannedJob

	scheduled int64  // for which this replica has claimed the name, in unix ms
	holder    string // as which it has
	token     int64  // of its grant; 0 if it has none
	waited    int    // how many holders of the name this replica has waited for, since one reported that it had claimed the jobs
}

// groupPatience is how many holders of a group's name may die before a replica claims the jobs by itself: so many times claiming are within Grace.
const groupPatience = 3

// claimGroups finds the groups among jobs. Those that are in old stay what they are.
func claimGroups(jobs map[string]*plannedJob, limits groupLimits, old map[string]*claimGroup) map[string]*claimGroup {
	byKey := map[string][]*plannedJob{}
	for _, j := range jobs {
		j.group = nil
		if _, delayed := j.delayed(); delayed || j.job.Jitter > 0 || j.removed { // they are not due together
			continue
		}
		if limits.clockless && j.opts.AtLeast > 0 { // each replica sees for itself since when it lingers
			continue
		}
		key := fmt.Sprintf("%s\x00%v", describe(j.job.Schedule), j.opts.TTL)
		byKey[key] = append(byKey[key], j)
	}
	groups := map[string]*claimGroup{}
	for key, jobs := range byKey {
		if len(jobs) < limits.from {
			continue
		}
		slices.SortFunc(jobs, byName)
		name := limits.prefix + digest(key, jobs) + "/"
		g := old[name]
		if g == nil {
			g = &claimGroup{name: name, ttl: jobs[0].opts.TTL}
		}
		g.jobs = jobs
		g.hold = min(g.ttl, max(store.MinTTL, min(g.grace()/4, 2*limits.requestTimeout)))
		for _, j := range jobs {
			j.group = g
		}
		groups[name] = g
	}
	return groups
}

// digest identifies a group by what its jobs have in common and by their names.
func digest(key string, jobs []*plannedJob) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\x00", key)
	for _, j := range jobs {
		fmt.Fprintf(sum, "%s\x00", j.name)
	}
	return hex.EncodeToString(sum.Sum(nil)[:12])
}

// groupLimits say which jobs make a group, how its record is named, and how long a request may take.
type groupLimits struct {
	from           int
	prefix         string
	requestTimeout time.Duration
	clockless      bool // the store is
}

// grace is the shortest of its jobs.
func (g *claimGroup) grace() time.Duration {
	return slices.MinFunc(g.jobs, func(a, b *plannedJob) int { return cmp.Compare(a.job.Grace, b.job.Grace) }).job.Grace
}

func byName(a, b *plannedJob) int { return cmp.Compare(a.name, b.name) }

func (g *claimGroup) record() string { return g.name + strconv.FormatInt(g.scheduled, 10) }

// A groupRequest is a claim of a group's name to make, for the jobs of the group that are due.
type groupRequest struct {
	group *claimGroup
	mark  int64 // with which all of jobs would be claimed
	jobs  []*plannedJob
	claim store.Claim
}

// requestGroups splits the jobs that are due at now into those that are due with others of their group, for a scheduled time that this replica has not
// claimed them for yet, and the rest.
func (p *planner) requestGroups(due []*plannedJob, now time.Time) (requests []*groupRequest, alone []*plannedJob) {
	together := map[*claimGroup]*groupRequest{}
	for _, j := range due {
		mark, ok := j.request(now)
		if !ok || !j.withGroup(mark) {
			alone = append(alone, j)
			continue
		}
		req := together[j.group]
		if req == nil {
			req = &groupRequest{group: j.group, mark: mark}
			together[j.group] = req
		}
		if req.mark != mark {
			alone = append(alone, j)
			continue
		}
		req.jobs = append(req.jobs, j)
	}
	for _, req := range slices.SortedFunc(maps.Values(together), func(a, b *groupRequest) int { return strings.Compare(a.group.name, b.group.name) }) {
		if len(req.jobs) < p.limits.from {
			alone = append(alone, req.jobs...)
			continue
		}
		req.claim = req.group.claim(req.mark, p.newHolder)
		requests = append(requests, req)
	}
	return requests, alone
}

// withGroup reports whether the job, which is to be claimed with mark, is claimed by one replica for all. It is not for what this replica knows better:
// a manual run, whose mark is 0, a job that it has just run and that is due once more, and one that it has claimed with that mark, or a later one, before.
func (j *plannedJob) withGroup(mark int64) bool {
	return j.group != nil && !j.behind && mark > j.claimed
}

// claim returns the claim of the group's name for a scheduled time. Claims for the same time have the same holder.
func (g *claimGroup) claim(scheduled int64, newHolder func() string) store.Claim {
	if g.scheduled != scheduled {
		g.scheduled, g.holder, g.token, g.waited = scheduled, newHolder(), 0, 0
	}
	return store.Claim{Name: g.record(), Holder: g.holder, TTL: g.hold, Mark: 1}
}

// answerGroup takes the answer to the claim of a group's name. It returns the jobs if this replica is to claim them; else it puts them off.
// The error is that of the claim, unless it was refused.
func (p *planner) answerGroup(req *groupRequest, out store.Outcome, now time.Time) ([]*plannedJob, error) {
	p.reckons(now)
	g := req.group
	wake, failed := p.soon(now), out.Err
	late := true // if the name is another's until it is too late for a job, that is claimed alone while there is time
	var held *store.HeldError
	var done *store.DoneError
	switch {
	case out.Err == nil:
		g.token = out.Grant.Token
		p.leading = append(p.leading, g)
		return req.jobs, nil
	case errors.As(out.Err, &done):
		for _, j := range req.jobs {
			j.mark = max(j.mark, g.scheduled)
			p.lookAgain(j, now)
		}
		return nil, nil
	case errors.As(out.Err, &held):
		if !locked(held) && g.impatient(held.Record.Holder != "") {
			return req.jobs, nil
		}
		wake, failed = p.spread(now.Add(held.Record.Left)), nil
		late = held.Record.Holder != "" || held.Record.Left+held.Record.Age < g.ttl*15/16
	}
	for _, j := range req.jobs {
		look := j.orDue(wake, now)
		if last := j.lastCallAfter(j.done(), now); late && !last.IsZero() && look.After(last.Add(j.job.Grace/16)) {
			look, j.behind = last, true
		}
		// Without a clock each replica sees for itself when a holder has died, and the one that has the group's name may have
		// seen less of its lease.
		if p.limits.clockless && !j.leaseEnd.IsZero() && j.leaseEnd.Before(look) {
			look, j.behind = j.leaseEnd, true
		}
		p.lookAt(j, look)
	}
	return nil, failed
}

// impatient reports whether to claim the jobs although the name was refused, because of another that claims them or because one has.
func (g *claimGroup) impatient(claiming bool) bool {
	if !claiming {
		g.waited = 0
		return false
	}
	g.waited++
	return g.waited > groupPatience
}

// finishGroups returns the releases of the names of the groups whose jobs this replica has claimed. If all jobs of one are done, its record says so:
// there is nothing more to look for.
func (p *planner) finishGroups(now time.Time) []store.Release {
	var releases []store.Release
	for _, g := range p.leading {
		rel := store.Release{Name: g.record(), Holder: g.holder, Token: g.token}
		switch {
		case slices.ContainsFunc(g.jobs, func(j *plannedJob) bool { return j.open || j.leftOut(g.scheduled, !p.unsure) }): // another claims as soon as it looks
		case slices.ContainsFunc(g.jobs, func(j *plannedJob) bool { return j.lacks(g.scheduled, !p.unsure, now) }):
			rel.Linger = g.rest(now)
		default:
			rel.Mark, rel.Retain = 1, doneFor
		}
		releases = append(releases, rel)
	}
	p.leading, p.unsure = nil, false
	return releases
}

// rest is how long no replica need claim the jobs again.
func (g *claimGroup) rest(now time.Time) time.Duration {
	d := g.ttl
	for _, j := range g.jobs {
		last := j.lastCall
		if j.phase == granted { // a run that goes on since before the scheduled time was due may end in time for it
			last = j.lastCallAfter(later(j.done(), j.runs), now)
		}
		if last.After(now) {
			d = min(d, last.Sub(now))
		}
	}
	return d
}

// lacks reports whether some replica has to look at the job again for the sake of a scheduled time.
func (j *plannedJob) lacks(scheduled int64, known bool, now time.Time) bool {
	return j.toBegin(scheduled, known) || j.leaseEnd.After(now)
}

// toBegin reports whether a scheduled time is not known to be done. A pause that may be over by now, because not all is known of what people have asked, does
// not make it done.
func (j *plannedJob) toBegin(scheduled int64, known bool) bool {
	return j.mark < scheduled && (j.asked.Paused == nil || !known)
}

// leftOut reports whether this replica has not claimed the job for a scheduled time of its group, and has no run of it under way: it has not joined yet,
// or is to be looked at later. Then nobody may have claimed it.
func (j *plannedJob) leftOut(scheduled int64, known bool) bool {
	return j.toBegin(scheduled, known) && j.claimed < scheduled && j.phase != granted
}
