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
// again when that has ended, as they do at a job that somebody runs. The name is taken for a TTL of the jobs, and not given back: should
// the asker die, or whoever it has seen at a job, another asks in time to take over.
//
// A herd saves requests and decides nothing. Who runs a job is decided by the job's own lease.
type herd struct {
	name  string // of the record; the scheduled time follows
	ttl   time.Duration
	tasks []*task

	scheduled int64  // that this replica has asked the name for, in unix ms
	holder    string // as which it has
	token     int64  // of its grant; 0 if it has none
}

// gather finds the herds of at least least jobs.
func (r *runner) gather(least int) {
	byKey := map[string]*herd{}
	for _, t := range r.tasks {
		if _, delayed := t.job.Schedule.(delay); delayed {
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
		h.name = r.names.prefix + kindHerd + hex.EncodeToString(sum.Sum(nil)[:12]) + "/"
	}
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
			claims[i] = store.Claim{Name: h.record(), Holder: h.holder, TTL: h.ttl, Mark: 1}
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
			h.scheduled, h.holder, h.token = mark, r.newHolder(), 0
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
	default:
		r.log.Warn("claiming jobs that are due together", "jobs", len(tasks), "err", out.Err)
	}
	for _, t := range tasks {
		r.schedule(t, t.orDue(wake, now))
	}
	return false
}

// over tells the other replicas of those herds that this one has asked for and of which all jobs are done: there is nothing more to
// look for.
func (r *runner) over(herds []*herd) {
	now := time.Now()
	var releases []store.Release
	for _, h := range herds {
		if !slices.ContainsFunc(h.tasks, func(t *task) bool { return t.open(h.scheduled, now) }) {
			releases = append(releases, store.Release{Name: h.record(), Holder: h.holder, Token: h.token, Mark: 1, Retain: overFor})
		}
	}
	if len(releases) > 0 {
		r.background(func() { r.release(releases) })
	}
}

// open says that somebody has to look at the job again for the sake of a scheduled time.
func (t *task) open(scheduled int64, now time.Time) bool {
	return t.mark < scheduled && t.ctl.Paused == nil || t.until.After(now)
}
