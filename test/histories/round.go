package histories

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/soloist-dev/soloist/internal/proof"
	"github.com/soloist-dev/soloist/store"
)

// A rig is a store that is tried: handles on it, as those of several processes, and what can be done to them.
type rig struct {
	stores   []store.Store
	sure     bool // the store always knows what it has done
	noClock  bool // see proof.Rules.Clockless
	faults   []fault
	complete func(ctx context.Context, c store.Completion, hold time.Duration, commit bool) error // nil where the store has no transactions of its users
	to       []store.Store                                                                        // those that a fleet moves to from stores; nil if it does not move
	allow    func(proof.History) proof.History                                                    // leaves out what is not judged; nil judges all
}

// A fault does something to the store or to one of its connections, and has undone it when it returns. It reports whether it took effect.
type fault struct {
	name string
	do   func(ctx context.Context, names []string) bool
}

// longest is how long a fault lasts at most: several of the TTLs.
const longest = 1500 * time.Millisecond

func while() time.Duration { return time.Duration(1 + rand.Int64N(int64(longest))) }

// A run is rounds on one rig.
type run struct {
	rig     *rig
	drift   float64
	tally   tally
	verdict proof.Verdict
	rounds  int
	last    proof.History // of the last round
}

// names is how many names the actors of all rounds have had.
func (r *run) names() int { return r.rounds * namesPerRound }

// wanted names what a run must have had at least.
func (r *run) wanted() []string {
	if r.rig.to != nil {
		return movedMinimum
	}
	var also []string
	if !r.rig.sure {
		also = append(also, "unknown")
	}
	for _, f := range r.rig.faults {
		also = append(also, f.name)
	}
	if r.rig.complete != nil {
		also = append(also, "completed")
	}
	return append(also, minimum...)
}

// How many names the actors of a round have.
const (
	plainNames    = 10
	markedNames   = 6
	namesPerRound = plainNames + markedNames
)

// round makes about as many operations, on its own names, and judges them.
func (r *run) round(ctx context.Context, operations int) error {
	r.rounds++
	rec := newRecorder()
	page := fmt.Sprintf("%x-%d", time.Now().UnixNano(), r.rounds)
	names := func(kind string, n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprintf("%s/%s/%d", kind, page, i))
		}
		return all
	}
	locks := names("locks", 2)
	var err error
	if r.rig.to != nil {
		all := names("marked", namesPerRound)
		f := &fleet{rig: r.rig, rec: rec, page: page, round: r.rounds - 1, ahead: rand.IntN(2) == 0, names: all, locks: locks}
		r.amidFaults(ctx, rec, all, func() { err = f.move(ctx, operations) })
	} else {
		plain, marked, completed := names("plain", plainNames), names("marked", markedNames), names("completed", 2)
		all := slices.Concat(plain, marked)
		r.amidFaults(ctx, rec, all, func() { err = r.work(ctx, rec, operations, all, locks, completed) })
	}
	if err != nil {
		return err
	}
	r.judge(rec)
	return ctx.Err()
}

// work has actors make about as many operations.
func (r *run) work(ctx context.Context, rec *recorder, operations int, all, locks, completed []string) error {
	var left atomic.Int64
	left.Store(int64(operations))
	var actors, late sync.WaitGroup
	for i, s := range r.rig.stores {
		s := &troubled{&recorded{s, rec, fmt.Sprint("p", i)}, 0.06, &late}
		for j := range 3 {
			a := &actor{s: s, id: fmt.Sprintf("p%d.%d", i, j), names: all, ttl: ttl}
			actors.Go(func() { a.act(ctx, &left) })
		}
		u, err := newUser(s, fmt.Sprint("client", i), locks, time.Duration(100+rand.IntN(300))*time.Millisecond)
		if err != nil {
			return err
		}
		actors.Go(func() { u.use(ctx, &left) })
		if r.rig.complete != nil {
			c := &completer{s: s.recorded, complete: r.rig.complete, id: fmt.Sprintf("c%d", i), names: completed}
			actors.Go(func() { c.work(ctx, &left) })
		}
	}
	actors.Wait()
	late.Wait()
	return nil
}

// amidFaults works while the rig's faults happen, one after the other.
func (r *run) amidFaults(ctx context.Context, rec *recorder, names []string, work func()) {
	blown := make(chan struct{})
	calm, end := context.WithCancel(ctx)
	go func() {
		defer close(blown)
		for next := r.rounds; calm.Err() == nil && len(r.rig.faults) > 0; next = rand.IntN(len(r.rig.faults)) { // each begins some round: one needs names that are new
			if f := r.rig.faults[next%len(r.rig.faults)]; f.do(calm, names) {
				rec.fault(f.name)
			}
			time.Sleep(time.Duration(rand.Int64N(int64(longest / 5)))) // work goes on between the faults
		}
	}()
	work()
	end()
	<-blown
}

// judge adds what package proof makes of a round.
func (r *run) judge(rec *recorder) {
	h := named(rec.history())
	h = slices.DeleteFunc(h, func(e proof.Event) bool { return rec.late[e.Name] })
	if r.rig.allow != nil {
		h = r.rig.allow(h)
	}
	r.last = h
	r.tally.add(h)
	r.verdict.Add(proof.Check(h, proof.Rules{Drift: r.drift, Steps: 2_000_000, Clockless: r.rig.noClock, Complete: true}))
}

// named gives each belief the name of the record that its holder was granted, which only the client's requests tell.
func named(h proof.History) proof.History {
	records := map[string]string{}
	for _, e := range h {
		if e.Kind == proof.Acquire {
			records[e.Holder] = e.Name
		}
	}
	for i, e := range h {
		if e.Kind == proof.Belief {
			h[i].Name = records[e.Holder]
		}
	}
	return h
}
