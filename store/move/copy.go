package move

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
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

// copyTTL is the TTL of the leases under which records are copied, copyBatch how many at once.
const (
	copyTTL   = 30 * time.Second
	copyBatch = 500
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
	return scan(ctx, oldStore, newStore, phase, o.Abandoned, func(b *both, names []string, r *Report) error {
		return b.touch(ctx, names, o.Retain, r)
	})
}

// Compare reports what [Copy] would have to do, and changes nothing.
func Compare(ctx context.Context, oldStore, newStore store.Store, phase Phase) (Report, error) {
	return scan(ctx, oldStore, newStore, phase, false, func(_ *both, names []string, r *Report) error {
		r.Differ += len(names)
		for _, name := range names {
			r.note(name)
		}
		return nil
	})
}

func (r *Report) note(name string) {
	if len(r.Examples) < examples {
		r.Examples = append(r.Examples, name)
	}
}

// scan reads both lists and calls do with the names that differ and are free.
func scan(ctx context.Context, oldStore, newStore store.Store, phase Phase, abandoned bool, do func(*both, []string, *Report) error) (Report, error) {
	var report Report
	if phase != OldDecides && phase != NewDecides {
		return report, fmt.Errorf("move: phase %v: records are copied in the phases %v and %v", phase, OldDecides, NewDecides)
	}
	b := pair(oldStore, newStore, phase)
	var names []string
	for p, err := range b.pairs(ctx) {
		if err != nil {
			return report, err
		}
		report.Names++
		switch {
		case p.same():
			report.Same++
		case !p.truth.Free() || !p.shadow.Free():
			report.Taken++
			report.Left = max(report.Left, p.truth.Left, p.shadow.Left)
			report.note(p.name)
		case p.truth.Holder != "" && !abandoned:
			report.Abandoned++
			report.note(p.name)
		default:
			names = append(names, p.name)
		}
		if len(names) == copyBatch {
			if err := do(b, names, &report); err != nil {
				return report, err
			}
			names = nil
		}
	}
	return report, do(b, names, &report)
}

// A records pair is what the two stores have of a name.
type records struct {
	name          string
	truth, shadow store.Record
	inBoth        bool
}

// same reports whether a name needs no copy.
func (p records) same() bool {
	return p.inBoth && p.truth.Token > p.shadow.Token && p.truth.Mark == p.shadow.Mark && bytes.Equal(p.truth.State, p.shadow.State)
}

// pairs yields the names of both stores, in their order. It ends after the first error.
func (b *both) pairs(ctx context.Context) iter.Seq2[records, error] {
	return func(yield func(records, error) bool) {
		nextTruth, stopTruth := iter.Pull2(b.truth.List(ctx, ""))
		defer stopTruth()
		nextShadow, stopShadow := iter.Pull2(b.shadow.List(ctx, ""))
		defer stopShadow()
		t, errTruth, more := nextTruth()
		s, errShadow, also := nextShadow()
		for more || also {
			if err := errors.Join(errTruth, errShadow); err != nil {
				yield(records{}, err)
				return
			}
			p := records{name: t.Name, truth: t, shadow: s, inBoth: more && also && t.Name == s.Name}
			switch {
			case p.inBoth:
				t, errTruth, more = nextTruth()
				s, errShadow, also = nextShadow()
			case !also || more && t.Name < s.Name:
				p.shadow = store.Record{}
				t, errTruth, more = nextTruth()
			default:
				p.name, p.truth = s.Name, store.Record{}
				s, errShadow, also = nextShadow()
			}
			if !yield(p, nil) {
				return
			}
		}
	}
}

// touch acquires names and releases them: a grant makes the records agree.
func (b *both) touch(ctx context.Context, names []string, retain time.Duration, r *Report) error {
	if len(names) == 0 {
		return nil
	}
	claims := make([]store.Claim, len(names))
	for i, name := range names {
		claims[i] = store.Claim{Name: name, Holder: "move/" + rand.Text(), TTL: copyTTL}
	}
	outcomes, err := b.Acquire(ctx, claims)
	if err != nil {
		return err
	}
	var releases []store.Release
	var broken error
	for i, out := range outcomes {
		var held *store.HeldError
		switch {
		case out.Err == nil:
			releases = append(releases, store.Release{Name: names[i], Holder: claims[i].Holder, Token: out.Grant.Token, Retain: retain})
		case errors.As(out.Err, &held):
			r.Taken++
			r.Left = max(r.Left, held.Record.Left)
			r.note(names[i])
		default:
			broken = errors.Join(broken, fmt.Errorf("move: copying %q: %w", names[i], out.Err))
		}
	}
	for i, err := range apply(ctx, releases, b.Release) {
		if err != nil {
			broken = errors.Join(broken, fmt.Errorf("move: releasing %q: %w", releases[i].Name, err))
			continue
		}
		r.Copied++
	}
	return broken
}
