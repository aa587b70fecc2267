package soloist

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/soloist-dev/soloist/internal/rand"
	"github.com/soloist-dev/soloist/store"
)

// herdFrom is how many jobs of one schedule make a herd. Asking for fewer costs the store little more than asking whether to ask.
const herdFrom = 32

// overFor is how long it is remembered that all jobs of a herd are done: longer than any request for it is under way.
const overFor = time.Hour

// A herd is jobs that are due together because they have one schedule. All replicas would ask for all of them at once, and all but
// the first would be refused. So whoever takes the herd's name for a scheduled time asks for its jobs, and the others look
// again when that has ended, as they do at a job that somebody runs. The name is taken for no longer than asking needs, so that another asks
// within Grace if the asker dies. When it has asked, it gives the name back to linger for a TTL of the jobs: should it die then, or whoever it
// has seen at a job, another asks in time to take over.
//
// A herd saves requests and decides nothing. Who runs a job is decided by the job's own lease.
type herd struct {
	name  string // of the record; the scheduled time follows
	ttl   time.Duration
	ask   time.Duration // for which the name is taken at first
	tasks []*task

	scheduled int64  // that this replica has asked the name for, in unix ms
	holder    string // as which it has
	token     int64  // of its grant; 0 if it has none
	askers    int    // that this replica has waited for, since one told that it had asked
}

// herdPatience is how many askers may die before a replica asks for the jobs by itself: so many times asking are within Grace.
const herdPatience = 3

// impatient says whether to ask for the jobs although another replica asks for them, or has asked.
func (h *herd) impatient(asking bool) bool {
	if !asking {
		h.askers = 0
		return false
	}
	h.askers++
	return h.askers > herdPatience
}

// gather finds the herds of at least least jobs.
func (r *runner) gather(least int) {
	byKey := map[string]*herd{}
	for _, t := range r.tasks {
		if _, delayed := t.job.Schedule.(delay); delayed || t.job.Jitter > 0 { // they are not due together
			continue
		}
		key := fmt.Sprintf("%s\x00%v", describe(t.job.Schedule), t.client.opts.TTL)
		if byKey[key] == nil {
			byKey[key] = &herd{ttl: t.client.opts.TTL}
		}
		byKey[key].tasks = append(byKey[key].tasks, t)
	}
	for key, h := range byKey {
		if len(h.tasks) < least {
			continue
		}
		slices.SortFunc(h.tasks, byName)
		sum := sha256.New()
		fmt.Fprintf(sum, "%s\x00", key)
		for _, t := range h.tasks {
			fmt.Fprintf(sum, "%s\x00", t.name)
			t.herd = h
		}
		h.ask = min(h.ttl, max(store.MinTTL, min(h.grace()/4, 2*r.cfg.RequestTimeout)))
		h.name = r.names.prefix + kindHerd + hex.EncodeToString(sum.Sum(nil)[:12]) + "/"
	}
}

// grace is the shortest of its jobs.
func (h *herd) grace() time.Duration {
	return slices.MinFunc(h.tasks, func(a, b *task) int { return cmp.Compare(a.job.Grace, b.job.Grace) }).job.Grace
}

func byName(a, b *task) int { return cmp.Compare(a.name, b.name) }

// leads asks for the names of the herds that are due, in one request. It answers the herds that this replica is to ask for, and of the
// tasks that are due those that it is to ask for, which are also those of no herd. The others it puts off.
func (r *runner) leads(ctx context.Context, due []*task) (leading []*herd, mine []*task) {
	together, mine := r.together(due)
	if len(together) == 0 {
		return nil, due
	}
	herds := slices.SortedFunc(maps.Keys(together), func(a, b *herd) int { return cmp.Compare(a.name, b.name) })
	for part := range slices.Chunk(herds, batchLimit) {
		claims := make([]store.Claim, len(part))
		for i, h := range part {
			claims[i] = store.Claim{Name: h.record(), Holder: h.holder, TTL: h.ask, Mark: 1}
		}
		outs, _, err := r.claimBatch(ctx, claims, r.clock.earliest())
		r.complain(err)
		for i, h := range part {
			out := store.Outcome{Err: err}
			if err == nil {
				out = outs[i]
			}
			if h.led(r, together[h], out) {
				leading, mine = append(leading, h), append(mine, together[h]...)
			}
		}
	}
	return leading, mine
}

// together finds the tasks that are due with others of their herd, for a scheduled time for which this replica has not asked yet; and
// the rest.
func (r *runner) together(due []*task) (together map[*herd][]*task, rest []*task) {
	now := time.Now()
	together = map[*herd][]*task{}
	for _, t := range due {
		mark, ok := t.want(now)
		h := t.herd
		if h == nil || !ok || t.asked() || t.behind || mark == t.claimed || len(together[h]) > 0 && mark != h.scheduled {
			rest = append(rest, t)
			continue
		}
		if h.scheduled != mark {
			h.scheduled, h.holder, h.token, h.askers = mark, r.newHolder(), 0, 0
		}
		together[h] = append(together[h], t)
	}
	for h, tasks := range together {
		if len(tasks) < r.least {
			rest = append(rest, tasks...)
			delete(together, h)
		}
	}
	return together, rest
}

func (h *herd) record() string { return h.name + strconv.FormatInt(h.scheduled, 10) }

// led takes the answer to the claim of a herd's name. It says that this replica is to ask for the tasks, or puts them off.
func (h *herd) led(r *runner, tasks []*task, out store.Outcome) bool {
	now := time.Now()
	var held *HeldError
	var done *DoneError
	wake := soon()
	switch {
	case out.Err == nil:
		h.token = out.Grant.Token
		return true
	case errors.As(out.Err, &done):
		for _, t := range tasks {
			t.mark = max(t.mark, h.scheduled)
			r.schedule(t, t.next(now))
		}
		return false
	case errors.As(out.Err, &held):
		wake = now.Add(held.Record.Left + rand.N(20*time.Millisecond))
		if h.impatient(held.Record.Holder != "") {
			return true
		}
	default:
		r.log.Warn("claiming jobs that are due together", "jobs", len(tasks), "err", out.Err)
	}
	for _, t := range tasks {
		r.schedule(t, t.orDue(wake, now))
	}
	return false
}

// asked gives back the names of the herds that this replica has asked for. If all jobs of one are done, the others are told: there is nothing
// more to look for. known says that this replica knows what people ask of all jobs.
func (r *runner) asked(herds []*herd, known bool) {
	now := time.Now()
	var releases []store.Release
	for _, h := range herds {
		if h.token == 0 { // another has the name
			continue
		}
		rel := store.Release{Name: h.record(), Holder: h.holder, Token: h.token}
		switch {
		case slices.ContainsFunc(h.tasks, func(t *task) bool { return t.open }): // another asks as soon as it looks
		case slices.ContainsFunc(h.tasks, func(t *task) bool { return t.lacks(h.scheduled, known, now) }):
			rel.Linger = h.rest(now)
		default:
			rel.Mark, rel.Retain = 1, overFor
		}
		releases = append(releases, rel)
	}
	if len(releases) > 0 {
		r.background(func() { r.releaseBatch(releases) })
	}
}

// rest is how long nobody need ask for the jobs again.
func (h *herd) rest(now time.Time) time.Duration {
	d := h.ttl
	for _, t := range h.tasks {
		if t.last.After(now) {
			d = min(d, t.last.Sub(now))
		}
	}
	return d
}

// lacks says that somebody has to look at the job again for the sake of a scheduled time. A pause that may be over by now does not make it
// done.
func (t *task) lacks(scheduled int64, known bool, now time.Time) bool {
	return t.mark < scheduled && (t.ctl.Paused == nil || !known) || t.until.After(now)
}
