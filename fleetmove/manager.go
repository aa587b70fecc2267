package fleetmove

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/move"
)

// A Manager plans the move of a fleet, and leads it from phase to phase, while the replicas use what [Join] returns. It lets replicas be in one
// phase or in two neighboring ones, and goes on when no replica is known in the phase behind and the records are copied. Several managers may be
// used at once: only one of them changes the stage at a time, and the others get a *store.HeldError.
type Manager struct {
	oldStore, newStore store.Store
	before, after      *soloist.Client
}

// Manage returns a manager of the move between two stores. who is shown to others while it works. Close does not close the stores.
func Manage(oldStore, newStore store.Store, who string) (*Manager, error) {
	if oldStore == nil || newStore == nil {
		return nil, errors.New("fleetmove: give two stores, an old and a new one")
	}
	before, err := planClient(oldStore, who)
	if err != nil {
		return nil, err
	}
	after, err := planClient(newStore, who)
	if err != nil {
		return nil, errors.Join(err, before.Close())
	}
	return &Manager{oldStore, newStore, before, after}, nil
}

// Close ends the manager's own leases.
func (m *Manager) Close() error { return errors.Join(m.before.Close(), m.after.Close()) }

// A Replica is a replica that has announced its phase.
type Replica struct {
	Replica string        // its name
	Phase   move.Phase    // it is in
	Left    time.Duration // until its announcement ends, unless it is renewed
}

// A Status is where a move is, and which replicas are known.
type Status struct {
	Stage    Stage // zero without a plan
	Replicas []Replica

	// Interrupted reports that the move is over for the old store alone, because its last step was interrupted: it is over when that step is repeated, by
	// Advance, with back in OldOnly. Until then the new store cannot be in another move.
	Interrupted bool
}

// Behind returns the replicas that are not in a phase.
func (s Status) Behind(phase move.Phase) []Replica {
	return slices.DeleteFunc(slices.Clone(s.Replicas), func(r Replica) bool { return r.Phase == phase })
}

// Status returns where the move is. Replicas that use a store without Join are not known.
func (m *Manager) Status(ctx context.Context) (Status, error) {
	before, after, err := readPlans(ctx, m.oldStore, m.newStore)
	if err != nil {
		return Status{}, err
	}
	var s Status
	if before.ID != "" || after.ID != "" {
		if s.Stage, err = stageOf(before, after); err != nil {
			return Status{}, err
		}
		s.Interrupted = before.over() && after.under() // the old store is written first
	}
	s.Replicas, err = m.replicas(ctx)
	return s, err
}

// replicas lists the replicas that are announced in one of the stores.
func (m *Manager) replicas(ctx context.Context) ([]Replica, error) {
	var all []Replica
	for _, c := range []*soloist.Client{m.before, m.after} {
		for lock, err := range c.Admin().Locks(ctx) {
			if err != nil {
				return nil, fmt.Errorf("fleetmove: listing the replicas: %w", err)
			}
			text, _, _ := strings.Cut(lock.Name, "/")
			var phase move.Phase
			if phase.UnmarshalText([]byte(text)) == nil && lock.Holder != "" {
				all = append(all, Replica{Replica: lock.Replica(), Phase: phase, Left: lock.Left})
			}
		}
	}
	return all, nil
}

// Plan begins a move: replicas may then be in OldOnly and OldDecides. A move that is planned is not planned again. It returns an error that is
// store.ErrUnusable if one of the stores is in another move, if the two are the same store, if one of them cannot raise tokens, or if the new store was left behind by
// another move and still has records of then.
func (m *Manager) Plan(ctx context.Context) error {
	return m.alone(ctx, func(ctx context.Context, w *writer) error {
		before, after := &w.plans[0], &w.plans[1]
		switch planned := before.ID == after.ID && !before.New; {
		case before.under() && planned && after.under():
			return nil
		case before.under() && planned: // it was interrupted
			return w.write(ctx, Stage{move.OldOnly, move.OldDecides})
		case !before.New && before.over() && before.From == move.NewOnly:
			return notPlanned("the old store was left by a move that is finished, and has old records since: to go back, advance that move backwards")
		case before.under() || after.under():
			return notPlanned("one of the stores is in another move that is not over: finish that, or take it back")
		}
		replicas, err := m.replicas(ctx)
		if err != nil {
			return err
		}
		if behind := (Status{Replicas: replicas}).Behind(move.OldOnly); len(behind) > 0 {
			return &BehindError{Phase: move.OldOnly, Replicas: behind}
		}
		for _, s := range []store.Store{m.oldStore, m.newStore} {
			if err := raises(ctx, s); err != nil {
				return err
			}
		}
		if after.leftBehind() {
			if err := noRecords(ctx, m.newStore); err != nil {
				return err
			}
		}
		*before = plan{ID: rand.Text(), Stage: Stage{move.OldOnly, move.OldDecides}}
		*after = plan{ID: before.ID, New: true, Unused: true, Stage: Stage{move.OldOnly, move.OldOnly}}
		if err := w.save(ctx, 1); err != nil { // the old store has no plan before the new one has it
			return err
		}
		return w.write(ctx, before.Stage)
	})
}

// noRecords returns an error if a store has records that a copy would take for those of the fleet, also of names that it has forgotten since.
func noRecords(ctx context.Context, s store.Store) error {
	for r, err := range s.List(ctx, "") {
		switch {
		case err != nil:
			return fmt.Errorf("fleetmove: looking for records of another move in the new store: %w", err)
		case !strings.HasPrefix(r.Name, move.Records):
			return notPlanned(fmt.Sprintf("the new store has records from another move, such as %q, and would bring back what was forgotten since: empty it, or use another file, table or prefix", r.Name))
		}
	}
	return nil
}

// probeTTL is the TTL of the lease that shows whether a store raises tokens.
const probeTTL = 30 * time.Second

// raises returns an error if a store cannot raise tokens.
func raises(ctx context.Context, s store.Store) error {
	probe := store.Claim{Name: move.Records + "lock/probe/" + rand.Text(), Holder: "move/" + rand.Text(), TTL: probeTTL, Above: 1}
	outcomes, err := s.Acquire(ctx, []store.Claim{probe})
	if err == nil {
		err = outcomes[0].Err
	}
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return notPlanned("a store whose backend chooses the tokens cannot take part in a move: its tokens would not grow")
	case err != nil:
		return fmt.Errorf("fleetmove: raising a token: %w", err)
	}
	errs, err := s.Release(ctx, []store.Release{{Name: probe.Name, Holder: probe.Holder, Token: outcomes[0].Grant.Token}})
	if err == nil {
		err = errs[0]
	}
	return err
}

// A BehindError refuses to go on because replicas are in another phase. It is store.ErrHeld: it ends when they do.
type BehindError struct {
	Phase    move.Phase // that all replicas must be in
	Replicas []Replica  // that are not
}

func (e *BehindError) Error() string {
	r := e.Replicas[0]
	return fmt.Sprintf("all replicas must be in the phase %v, and %d are not: %s is in %v (see: soloist move status)", e.Phase, len(e.Replicas), r.Replica, r.Phase)
}

// Is makes errors.Is(e, store.ErrHeld) true.
func (e *BehindError) Is(target error) bool { return target == store.ErrHeld }

// Advance brings a move one stage further, or with back one stage back. From a stage of two phases it leaves the one behind: replicas may no
// longer be in it. If a replica is known to be in it, that is a *BehindError, and nothing has changed. In a phase of both stores it then calls [move.Copy], and if
// the report is complete it opens the next phase. If it is not, or Copy was interrupted, call Advance again. In a phase of one store the move is over.
// A move that was taken back begins anew; as with Plan, the new store must have no records of then.
// o.Next is not used.
func (m *Manager) Advance(ctx context.Context, back bool, o move.Options) (Stage, move.Report, error) {
	var report move.Report
	var reached Stage
	err := m.alone(ctx, func(ctx context.Context, w *writer) (err error) {
		if reached, err = stageOf(w.plans[0], w.plans[1]); err != nil {
			return err
		}
		phase := reached.To
		if back {
			phase = reached.From
		}
		if reached.over() && phase == lastPhase(back) && w.plans[0].Stage == w.plans[1].Stage { // else the last step was interrupted
			return nil
		}
		if !back && w.plans[0].over() && reached.From == move.OldOnly { // the plan was taken back: this begins it anew
			if err := noRecords(ctx, m.newStore); err != nil {
				return err
			}
		}
		if err := m.leave(ctx, w, reached, phase); err != nil {
			return err
		}
		if err := m.bury(ctx); err != nil {
			return err
		}
		reached = Stage{phase, phase}
		if o.Next = phase + 1; back {
			o.Next = phase - 1
		}
		if phase == move.OldDecides || phase == move.NewDecides {
			if report, err = move.Copy(ctx, m.oldStore, m.newStore, phase, o); err != nil || !report.Complete() {
				return err
			}
		} else if phase == lastPhase(back) {
			return nil
		}
		next := Stage{min(phase, o.Next), max(phase, o.Next)}
		if err := w.write(ctx, next); err != nil {
			return err
		}
		reached = next
		return nil
	})
	return reached, report, err
}

// lastPhase returns the phase in which a move is over that goes forward, or back.
func lastPhase(back bool) move.Phase {
	if back {
		return move.OldOnly
	}
	return move.NewOnly
}

// leave narrows a stage to one of its phases, unless a replica is in the other one.
func (m *Manager) leave(ctx context.Context, w *writer, stage Stage, phase move.Phase) error {
	look := func() error {
		replicas, err := m.replicas(ctx)
		if err != nil {
			return err
		}
		if behind := (Status{Replicas: replicas}).Behind(phase); len(behind) > 0 {
			return &BehindError{Phase: phase, Replicas: behind}
		}
		return nil
	}
	if err := look(); err != nil {
		return err
	}
	// A replica announces itself, and then asks whether it may be in its phase. So it is refused, or seen here.
	if err := w.write(ctx, Stage{phase, phase}); err != nil {
		return err
	}
	if err := look(); err != nil {
		return errors.Join(err, w.write(ctx, stage))
	}
	return nil
}

// bury lets the stores forget the announcements of replicas that died: nobody else would release them.
func (m *Manager) bury(ctx context.Context) error {
	for _, s := range []store.Store{m.oldStore, m.newStore} {
		var dead []store.Claim
		for r, err := range s.List(ctx, announcements) {
			if err != nil {
				return fmt.Errorf("fleetmove: listing the announcements: %w", err)
			}
			if r.Free() && r.Holder != "" && r.Name != planRecord {
				dead = append(dead, store.Claim{Name: r.Name, Holder: "fleetmove/" + rand.Text(), TTL: probeTTL})
			}
		}
		if len(dead) == 0 {
			continue
		}
		outcomes, err := s.Acquire(ctx, dead)
		if err != nil {
			return fmt.Errorf("fleetmove: burying the announcements of the dead: %w", err)
		}
		var releases []store.Release
		for i, out := range outcomes {
			if out.Err == nil {
				releases = append(releases, store.Release{Name: dead[i].Name, Holder: dead[i].Holder, Token: out.Grant.Token})
			}
		}
		if _, err := s.Release(ctx, releases); err != nil {
			return fmt.Errorf("fleetmove: burying the announcements of the dead: %w", err)
		}
	}
	return nil
}

// A writer holds the plans of both stores.
type writer struct {
	plans  [2]plan
	leases [2]*soloist.Lease
}

// write changes the stage in both stores.
func (w *writer) write(ctx context.Context, stage Stage) error {
	for i := range w.plans {
		w.plans[i].Stage, w.plans[i].Unused = stage, false
		if err := w.save(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// save writes the plan of one store.
func (w *writer) save(ctx context.Context, i int) error {
	state, _ := json.Marshal(w.plans[i]) // of strings and numbers; it cannot fail
	if err := w.leases[i].SetState(ctx, state); err != nil {
		return fmt.Errorf("fleetmove: writing the stage %v: %w", w.plans[i].Stage, err)
	}
	return nil
}

// alone calls fn while no other manager changes the plan.
func (m *Manager) alone(ctx context.Context, fn func(context.Context, *writer) error) error {
	before, err := m.before.TryLock(ctx, planLock)
	if err != nil {
		return fmt.Errorf("fleetmove: taking the plan: %w", err)
	}
	after, err := m.after.TryLock(ctx, planLock)
	if held := (*soloist.HeldError)(nil); errors.As(err, &held) && held.Holder == before.Holder() {
		return errors.Join(notPlanned("the old and the new store are the same one"), before.Release())
	}
	if err != nil {
		return errors.Join(fmt.Errorf("fleetmove: taking the plan: %w", err), before.Release())
	}
	w := &writer{leases: [2]*soloist.Lease{before, after}}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for i, lease := range w.leases {
		if w.plans[i], err = parsePlan(lease.State()); err != nil {
			break
		}
		stop := context.AfterFunc(lease.Context(), func() { cancel(context.Cause(lease.Context())) })
		defer stop()
	}
	if err == nil {
		err = fn(ctx, w)
	}
	for _, lease := range w.leases {
		if lost := lease.Err(); errors.Is(err, context.Canceled) && lost != nil { // that is why
			err = fmt.Errorf("fleetmove: the plan was lost meanwhile: %w", lost)
		}
	}
	return errors.Join(err, after.Release(), before.Release())
}
