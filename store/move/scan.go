package move

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// copyAtOnce is how many batches are under way at once: so both stores are busy.
const copyAtOnce = 8

// A doer does a task for a batch of names that differ and are free. It returns the names that have to be looked at again, since they changed meanwhile.
type doer func(b *both, todo task, batch []twins, r *Report) (again []twins, err error)

// scan reads both lists and calls do with the names that differ and are free, with some batches at once. If it waits,
// names count as the same whose leases it has seen renewed.
func scan(ctx context.Context, oldStore, newStore store.Store, phase Phase, o Options, waits bool, do doer) (Report, error) {
	if !phase.middle() {
		return Report{}, fmt.Errorf("move: phase %v: records are copied in the phases %v and %v", phase, OldDecides, NewDecides)
	}
	if o.Next != 0 && o.Next != phase-1 && o.Next != phase+1 {
		return Report{}, fmt.Errorf("move: Options.Next %v: from the phase %v replicas roll to %v or to %v", o.Next, phase, phase-1, phase+1)
	}
	w := &work{
		both: pair(oldStore, newStore, phase), do: do, progress: o.Progress, abandoned: o.Abandoned,
		tokens: !o.Next.middle(), waits: waits, slots: make(chan struct{}, copyAtOnce), pace: newPace(),
	}
	unread := w.list(ctx)
	w.running.Wait()
	for round := 1; unread == nil && w.err == nil && len(w.suspects) > 0; round++ {
		suspects := w.suspects
		w.suspects, w.last = nil, round == suspectLooks
		for batch := range slices.Chunk(suspects, mostCopied) {
			if unread == nil {
				unread = w.look(ctx, batch)
			}
		}
		w.running.Wait()
		if len(w.suspects) > 0 && unread == nil {
			unread = pause(ctx, suspectPause/2+rand.N(suspectPause))
		}
	}
	if unread == nil && w.err == nil {
		unread = w.outlast(ctx)
	}
	return w.report, errors.Join(unread, w.err)
}

// A work is a scan with its batches.
type work struct {
	both      *both
	do        doer
	progress  func(Report)
	abandoned bool // names whose last holder died are copied too
	tokens    bool // the store that decides must have the greater tokens
	waits     bool // names are waited for whose leases have to be seen renewed
	slots     chan struct{}
	running   sync.WaitGroup
	pace      *pace
	todo      [tasks][]twins // the batches that are not full yet
	swapped   []twins        // of which no more than the order of the tokens was in the way, at the last look

	mu       sync.Mutex // of what follows
	report   Report
	err      error
	suspects []twins
	last     bool // they are looked at for the last time
}

// list reads both lists, and sends what can be done at once. It returns an error if they could not be read.
func (w *work) list(ctx context.Context) error {
	for p, err := range w.both.pairs(ctx, "", "", ahead) {
		if err != nil {
			return err
		}
		if strings.HasPrefix(p.name, Records) {
			continue
		}
		same := p.same(w.tokens)
		switch {
		case same && p.halfHeld() || !same && p.taken():
			w.doubt(p)
		case w.count(p, same):
			if !w.put(p) {
				return nil
			}
		}
	}
	w.flush()
	return nil
}

// put adds a name to the batch of its task, and sends the batch when it is large enough. It reports false if one has failed.
func (w *work) put(p twins) bool {
	todo := p.task(w.tokens)
	w.todo[todo] = append(w.todo[todo], p)
	return len(w.todo[todo]) < w.pace.now() || w.send(todo)
}

// flush sends what is left.
func (w *work) flush() {
	for todo := range tasks {
		if len(w.todo[todo]) > 0 && !w.send(todo) {
			return
		}
	}
}

// How often names are read again that seemed to be held by a replica of the phase behind, and how long after one another, more or less: replicas of this phase
// have finished the requests to both stores by then that were under way, and others are under way.
const (
	suspectLooks = 25
	suspectPause = 20 * time.Millisecond
)

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// look reads names again that seemed to be held by a replica of the phase behind. The two lists are not of one moment, and replicas of this phase ask one store
// after the other, so names that they use can look like that. The shadow is read first: the store that decides then has the greater token of a name in use, and if it still
// has the grant that was listed, its holder did not have the shadow. The last look counts what still seems so.
func (w *work) look(ctx context.Context, batch []twins) error {
	err := w.read(ctx, batch, func(p, now twins) bool {
		behind := now.halfHeld() && now.truth.Token == p.truth.Token
		switch same := now.same(w.tokens) && !behind; {
		case !same && now.taken() && !w.last:
			w.doubt(now)
		case !same && w.waits && !behind && now.swapped() && now.truth.Left <= mostOutlasted:
			w.swapped = append(w.swapped, now)
		case w.count(now, same):
			return w.put(now)
		}
		return true
	})
	if err == nil {
		w.flush()
	}
	return err
}

// read reads names, the shadow's record of each first, and calls fn with what was known and what is, until that returns false.
func (w *work) read(ctx context.Context, batch []twins, fn func(before, now twins) bool) error {
	reads := readsOf(batch)
	shadows, truths := claimEach(ctx, w.both.shadow, reads), claimEach(ctx, w.both.truth, reads)
	for i, p := range batch {
		var shadow, truth *store.DoneError
		if !errors.As(shadows[i].Err, &shadow) || !errors.As(truths[i].Err, &truth) {
			return fmt.Errorf("move: reading %q: %w", p.name, errors.Join(shadows[i].Err, truths[i].Err))
		}
		if !fn(p, twins{p.name, truth.Record, shadow.Record, truth.Record.Token != 0 && shadow.Record.Token != 0}) {
			return nil
		}
	}
	return nil
}

// mostOutlasted bounds how long a copy waits until leases have been renewed.
const mostOutlasted = time.Minute

// outlast waits until the leases have ended of those names of which only the order of the tokens is in the way, and reads them again. A lease that is there still has been renewed
// by its holder. So that is a replica of this phase, which was told the token of the store that decides alone: it is greater than all that anybody was told before, and nobody
// has been granted the name since. Of a replica in the other middle phase, which was told the shadow's token, nobody is there to renew.
func (w *work) outlast(ctx context.Context) error {
	if len(w.swapped) == 0 {
		return nil
	}
	before := map[string]int64{} // tokens by name
	var longest time.Duration
	for _, p := range w.swapped {
		before[p.name] = p.truth.Token
		longest = max(longest, p.truth.Left)
	}
	if err := pause(ctx, longest+longest/8+suspectPause); err != nil { // the store's clock may be slower than this one
		return err
	}
	for batch := range slices.Chunk(w.swapped, mostCopied) {
		err := w.read(ctx, batch, func(_, now twins) bool {
			renewed := now.swapped() && now.truth.Token == before[now.name]
			return !w.count(now, renewed || now.same(w.tokens)) || w.put(now)
		})
		if err != nil {
			return err
		}
	}
	w.flush()
	w.running.Wait()
	return nil
}

// readsOf returns claims that read the records of names.
func readsOf(batch []twins) []store.Claim {
	reads := make([]store.Claim, len(batch))
	for i, p := range batch {
		reads[i] = store.Claim{Name: p.name, Holder: copier(p.name), TTL: copyTTL, Mark: -1}
	}
	return reads
}

// doubt notes a name that is to be looked at again.
func (w *work) doubt(p twins) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.suspects = append(w.suspects, p)
}

// count notes what the stores have of a name, and reports whether it is not the same and can be copied.
func (w *work) count(p twins, same bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := &w.report
	r.Names++
	switch {
	case same:
		r.Same++
	case p.taken():
		r.Taken++
		r.Left = max(r.Left, p.truth.Left, p.shadow.Left)
		r.note(p.name)
	case p.abandoned() && !w.abandoned:
		r.Abandoned++
		r.note(p.name)
	default:
		return true
	}
	return false
}

// send does the batch of a task in the background, when there is a slot. It reports false if one has failed.
func (w *work) send(todo task) bool {
	batch := w.todo[todo]
	w.todo[todo] = nil
	w.slots <- struct{}{}
	w.running.Go(func() {
		defer func() { <-w.slots }()
		var r Report
		begun := time.Now()
		again, err := w.do(w.both, todo, batch, &r)
		w.pace.took(len(batch), time.Since(begun))
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, p := range again {
			if w.last {
				r.Taken++
				r.Left = max(r.Left, p.truth.Left, p.shadow.Left)
				r.note(p.name)
			} else {
				w.report.Names-- // it is counted again
				w.suspects = append(w.suspects, p)
			}
		}
		w.err = errors.Join(w.err, err)
		w.report.add(r)
		if w.progress != nil {
			w.progress(w.report)
		}
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err == nil
}
