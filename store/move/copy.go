package move

import (
	"context"
	"fmt"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// Options are the options of [Copy].
type Options struct {
	// Next is the phase that replicas will roll to after the copy: a neighbor of the phase of the copy. A copy before the other middle phase does
	// less: that phase needs the marks and the states, but not the tokens, since it links them. The default is for both neighbors.
	Next Phase

	// Retain is how long from now a store must remember at least what is copied into it, see [store.Release]. The default is store.Forever, since nobody
	// can see how long a record was to be remembered. A record of the store that decides whose token is raised is remembered as long.
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

// examples bounds Report.Examples.
const examples = 20

// Copy brings the stores to agree about every name: the other store has the mark and the state that the deciding one
// has, whose token is greater, unless Options.Next does not need that. It acquires and releases each name that differs,
// as a replica in the phase does. phase is OldDecides or NewDecides, and every replica must be in it. Names that are
// taken, or were left by a holder that died, are only counted: call Copy again until the report is complete. Then it
// also raises the tokens that the deciding store gives to new names above all that the other one has given, also to
// names that the other has forgotten since, unless Options.Next does not need that; for this a [store.Sweeper] is
// swept. It waits, for up to a minute or so, for holders to renew leases that the other store has lost once: they are
// not in the way then. An interrupted Copy can be repeated; what has been copied costs nothing then. On an error the
// report has what was done until then.
func Copy(ctx context.Context, oldStore, newStore store.Store, phase Phase, o Options) (Report, error) {
	if o.Retain < 0 {
		return Report{}, fmt.Errorf("move: Options.Retain %v: give how long to remember, or 0 forever", o.Retain)
	}
	if o.Retain == 0 {
		o.Retain = store.Forever
	}
	r, err := scan(ctx, oldStore, newStore, phase, o, true, func(b *both, todo task, batch []twins, r *Report) ([]twins, error) {
		return b.copy(ctx, todo, batch, o, r)
	})
	if err != nil || !r.Complete() || o.Next.middle() {
		return r, err
	}
	if phase == OldDecides {
		return r, raiseFloor(ctx, oldStore, newStore)
	}
	return r, raiseFloor(ctx, newStore, oldStore)
}

// Compare reports what [Copy] has to do before replicas may roll to the phase next, and changes nothing. next may be 0, as in [Options]. Of a name without a mark
// and a state that one store has forgotten since, the other middle phase needs nothing: it is the same, although Copy would write its token again. What Copy
// waits for counts as taken.
func Compare(ctx context.Context, oldStore, newStore store.Store, phase, next Phase) (Report, error) {
	return scan(ctx, oldStore, newStore, phase, Options{Next: next}, false, func(_ *both, _ task, batch []twins, r *Report) ([]twins, error) {
		for _, p := range batch {
			if p.plain() && next.middle() {
				r.Same++
				continue
			}
			r.Differ++
			r.note(p.name)
		}
		return nil, nil
	})
}

func (r *Report) note(name string) {
	if len(r.Examples) < examples {
		r.Examples = append(r.Examples, name)
	}
}

// add adds what was found in one batch.
func (r *Report) add(one Report) {
	r.Same += one.Same
	r.Copied += one.Copied
	r.Differ += one.Differ
	r.Taken += one.Taken
	r.Left = max(r.Left, one.Left)
	for _, name := range one.Examples {
		r.note(name)
	}
}
