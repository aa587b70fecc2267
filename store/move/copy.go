package move

import (
	"bytes"
	"context"
	crypto "crypto/rand"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// Options are the options of [Copy].
type Options struct {
	// Retain is how long from now both stores must remember at least what is copied, see [store.Release]. The default is store.Forever, since nobody
	// can see how long a record was to be remembered.
	Retain time.Duration

	// Abandoned also copies records whose last holder died. Whoever takes such a name next is then not told so: a run that was interrupted is not
	// taken over, and a crash is not counted. By default they are left to a replica that takes them over, or to a release by force.
	Abandoned bool

	// Progress, if not nil, is called with the report so far, after each batch of names. It is not called concurrently.
	Progress func(Report)
}

// A Report is what [Copy] and [Compare] found.
type Report struct {
	Names     int           // that either store has a record of
	Same      int           // of them, those that need nothing
	Copied    int           // that were brought to agree by this call
	Differ    int           // that Compare found to differ and to be free
	Taken     int           // that differ and are held, or linger
	Abandoned int           // that differ, and whose last holder died
	Left      time.Duration // until the last of those that are taken ends, unless it is extended
	Examples  []string      // some names of those that are not the same yet
}

// Complete reports whether all names are the same in both stores.
func (r Report) Complete() bool { return r.Differ == 0 && r.Taken == 0 && r.Abandoned == 0 }

// Records is the prefix of the names that are not copied: those of the move itself, which package fleetmove keeps in both stores.
const Records = "@soloist-move/"

// copyTTL is the TTL of the leases under which records are copied, copyBatch how many are in a request, and copyAtOnce how many such batches are
// under way.
const (
	copyTTL    = 10 * time.Second
	copyBatch  = 500
	copyAtOnce = 4
)

// examples bounds Report.Examples.
const examples = 20

// Copy brings the stores to agree about every name: the other store has the mark and the state that the deciding one has, whose token is
// greater. It acquires and releases each name that differs, as a replica in the phase does. phase is OldDecides or NewDecides, and every replica must be in
// it. Names that are taken, or were left by a holder that died, are only counted: call Copy again until the report is complete. An interrupted
// Copy can be repeated; what has been copied costs nothing then. On an error the report has what was done until then.
func Copy(ctx context.Context, oldStore, newStore store.Store, phase Phase, o Options) (Report, error) {
	if o.Retain < 0 {
		return Report{}, fmt.Errorf("move: Options.Retain %v: give how long to remember, or 0 forever", o.Retain)
	}
	if o.Retain == 0 {
		o.Retain = store.Forever
	}
	return scan(ctx, oldStore, newStore, phase, o, func(b *both, names []string, r *Report) ([]store.Record, error) {
		return b.touch(ctx, names, o.Retain, r)
	})
}

// Compare reports what [Copy] would have to do, and changes nothing.
func Compare(ctx context.Context, oldStore, newStore store.Store, phase Phase) (Report, error) {
	return scan(ctx, oldStore, newStore, phase, Options{}, func(_ *both, names []string, r *Report) ([]store.Record, error) {
		r.Differ += len(names)
		for _, name := range names {
			r.note(name)
		}
		return nil, nil
	})
}

func (r *Report) note(name string) {
	if len(r.Examples) < examples {
		r.Examples = append(r.Examples, name)
	}
}

// scan reads both lists and calls do with the names that differ and are free, with some batches at once: so both stores are busy.
func scan(ctx context.Context, oldStore, newStore store.Store, phase Phase, o Options, do func(*both, []string, *Report) (held []store.Record, err error)) (Report, error) {
	if phase != OldDecides && phase != NewDecides {
		return Report{}, fmt.Errorf("move: phase %v: records are copied in the phases %v and %v", phase, OldDecides, NewDecides)
	}
	w := &work{both: pair(oldStore, newStore, phase), do: do, progress: o.Progress, slots: make(chan struct{}, copyAtOnce)}
	var names []string
	var unread error
	failed := false
	for p, err := range w.both.pairs(ctx, "", "") {
		if err != nil {
			unread = err
			break
		}
		if strings.HasPrefix(p.name, Records) {
			continue
		}
		switch {
		case p.same() && p.halfHeld() || !p.same() && p.taken():
			w.doubt(p)
		case w.count(p, p.same(), o.Abandoned):
			names = append(names, p.name)
		}
		if len(names) == copyBatch {
			batch := names
			names = nil
			if failed = !w.send(batch); failed {
				break
			}
		}
	}
	if len(names) > 0 && unread == nil && !failed {
		w.send(names)
	}
	w.running.Wait()
	for round := 1; unread == nil && w.err == nil && len(w.suspects) > 0; round++ {
		suspects := w.suspects
		w.suspects, w.last = nil, round == suspectLooks
		for batch := range slices.Chunk(suspects, copyBatch) {
			if unread == nil {
				unread = w.look(ctx, batch, o.Abandoned)
			}
		}
		w.running.Wait()
		if len(w.suspects) > 0 && unread == nil {
			unread = pause(ctx, suspectPause/2+rand.N(suspectPause))
		}
	}
	return w.report, errors.Join(unread, w.err)
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
func (w *work) look(ctx context.Context, batch []twins, abandoned bool) error {
	reads := make([]store.Claim, len(batch))
	for i, p := range batch {
		reads[i] = store.Claim{Name: p.name, Holder: "move/" + crypto.Text(), TTL: copyTTL, Mark: -1}
	}
	shadows, truths := claimEach(ctx, w.both.shadow, reads), claimEach(ctx, w.both.truth, reads)
	var names []string
	for i, p := range batch {
		var shadow, truth *store.DoneError
		if !errors.As(shadows[i].Err, &shadow) || !errors.As(truths[i].Err, &truth) {
			return fmt.Errorf("move: reading %q: %w", p.name, errors.Join(shadows[i].Err, truths[i].Err))
		}
		now := twins{p.name, truth.Record, shadow.Record, truth.Record.Token != 0 && shadow.Record.Token != 0}
		behind := now.halfHeld() && now.truth.Token == p.truth.Token
		switch same := now.same() && !behind; {
		case !same && now.taken() && !w.last:
			w.doubt(now)
		case w.count(now, same, abandoned):
			names = append(names, p.name)
		}
	}
	if len(names) > 0 {
		w.send(names)
	}
	return nil
}

// doubt notes a name that is to be looked at again.
func (w *work) doubt(p twins) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.suspects = append(w.suspects, p)
}

// A work is a scan with its batches.
type work struct {
	both     *both
	do       func(*both, []string, *Report) (held []store.Record, err error)
	progress func(Report)
	slots    chan struct{}
	running  sync.WaitGroup

	mu       sync.Mutex // of what follows
	report   Report
	err      error
	suspects []twins
	last     bool // they are looked at for the last time
}

// count notes what the stores have of a name, and reports whether it is not the same and can be copied.
func (w *work) count(p twins, same, abandoned bool) bool {
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
	case p.truth.Holder != "" && !abandoned:
		r.Abandoned++
		r.note(p.name)
	default:
		return true
	}
	return false
}

// send does a batch in the background, when there is a slot. It reports false if one has failed.
func (w *work) send(names []string) bool {
	w.slots <- struct{}{}
	w.running.Go(func() {
		defer func() { <-w.slots }()
		var r Report
		held, err := w.do(w.both, names, &r)
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, h := range held {
			if w.last {
				r.Taken++
				r.Left = max(r.Left, h.Left)
				r.note(h.Name)
			} else {
				w.report.Names-- // it is counted again
				w.suspects = append(w.suspects, twins{name: h.Name})
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

// add adds what was found in one batch.
func (r *Report) add(one Report) {
	r.Copied += one.Copied
	r.Differ += one.Differ
	r.Taken += one.Taken
	r.Left = max(r.Left, one.Left)
	for _, name := range one.Examples {
		r.note(name)
	}
}

// Twins are what the two stores have of a name.
type twins struct {
	name          string
	truth, shadow store.Record
	inBoth        bool
}

// same reports whether a name needs no copy.
func (p twins) same() bool {
	return p.inBoth && p.truth.Token > p.shadow.Token && p.truth.Mark == p.shadow.Mark && bytes.Equal(p.truth.State, p.shadow.State)
}

func (p twins) taken() bool { return !p.truth.Free() || !p.shadow.Free() }

// halfHeld reports whether the last holder in the store that decides did not have the shadow. Such a holder is in the phase behind: what it
// will write is in one store only, and so is its crash.
func (p twins) halfHeld() bool { return p.truth.Holder != "" && p.truth.Holder != p.shadow.Holder }

// touch acquires names, and releases them with records that agree: the store that decides first, so that the other one never knows more. It returns those that
// were held. Once it has begun, it goes on when ctx ends: else the names would be taken until its leases end.
func (b *both) touch(ctx context.Context, names []string, retain time.Duration, r *Report) (held []store.Record, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), copyTTL)
	defer cancel()
	claims := make([]store.Claim, len(names))
	for i, name := range names {
		claims[i] = store.Claim{Name: name, Holder: "move/" + crypto.Text(), TTL: copyTTL}
	}
	outcomes, granted, err := b.claim(ctx, claims)
	if err != nil {
		return nil, err
	}
	var broken error
	for i, out := range outcomes {
		var taken *store.HeldError
		switch {
		case errors.As(out.Err, &taken):
			held = append(held, store.Record{Name: names[i], Left: taken.Record.Left})
		case out.Err != nil:
			broken = errors.Join(broken, fmt.Errorf("move: copying %q: %w", names[i], out.Err))
		}
	}
	for i, err := range apply(ctx, ends(granted, retain, false), b.truth.Release) {
		if err != nil {
			broken = errors.Join(broken, fmt.Errorf("move: releasing %q: %w", granted[i].claim.Name, err))
			granted[i] = nil
		}
	}
	granted = slices.DeleteFunc(granted, func(c *claiming) bool { return c == nil })
	for i, err := range apply(ctx, ends(granted, retain, true), b.shadow.Release) {
		if err != nil {
			broken = errors.Join(broken, fmt.Errorf("move: copying %q: %w", granted[i].claim.Name, err))
			continue
		}
		r.Copied++
	}
	return held, broken
}

// ends returns the releases that end granted claims in one of the stores, with the newer of the two records.
func ends(granted []*claiming, retain time.Duration, shadow bool) []store.Release {
	releases := make([]store.Release, len(granted))
	for i, c := range granted {
		newest, token := c.outcome.Grant, c.outcome.Grant.Token
		if c.first.Grant.Mark > newest.Mark {
			newest = c.first.Grant
		}
		if shadow {
			token = c.first.Grant.Token
		}
		releases[i] = store.Release{Name: c.claim.Name, Holder: c.claim.Holder, Token: token, Mark: newest.Mark, State: written(newest.State), Retain: retain}
	}
	return releases
}
