package fleetmove

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/move"
)

// The records of a move are those of a client in a separate namespace. They are not copied.
const (
	planLock      = "plan" // its state is the plan; a manager that changes the plan holds it in both stores
	announcements = move.Records + "lock/"
	planRecord    = announcements + planLock
)

// A Stage is where a move is: the phases that replicas may be in. They are the same one while records are copied, and else two neighbors, between
// which the replicas roll.
type Stage struct {
	From move.Phase `json:"from"`
	To   move.Phase `json:"to"`
}

// String returns "old-decides", or "old-decides to new-decides".
func (s Stage) String() string {
	if s.From == s.To {
		return s.From.String()
	}
	return s.From.String() + " to " + s.To.String()
}

func (s Stage) allows(p move.Phase) bool { return s.From <= p && p <= s.To }

// over reports whether a move at this stage has ended: it is finished, or was taken back.
func (s Stage) over() bool {
	return s.From == s.To && (s.From == move.OldOnly || s.From == move.NewOnly)
}

// A plan is what each of the two stores knows of a move. If they differ, a change was interrupted, and only what both allow is allowed.
type plan struct {
	ID     string `json:"id"`               // of the move; "" without a plan
	New    bool   `json:"new"`              // this store is the new one
	Unused bool   `json:"unused,omitempty"` // the old store does not have the plan yet: no replica has used the new one
	Stage
}

// under reports whether the store is part of a move that is not over.
func (p plan) under() bool { return p.ID != "" && !p.over() }

// leftBehind reports whether the fleet has gone on, or stayed, in the other store of a move that is over: what records the store has are of then.
func (p plan) leftBehind() bool {
	return p.ID != "" && p.over() && !p.Unused && p.New == (p.From == move.OldOnly)
}

// isOldStore reports whether replicas may use the store alone, as the old one.
func (p plan) isOldStore() bool {
	switch {
	case p.ID == "":
		return true
	case p.New:
		return p.over() && p.From == move.NewOnly // of an earlier move
	}
	return p.allows(move.OldOnly)
}

// readPlan reads the plan of a store, by a claim that is always refused.
func readPlan(ctx context.Context, s store.Store) (plan, error) {
	outcomes, err := s.Acquire(ctx, []store.Claim{{Name: planRecord, Holder: "move/" + rand.Text(), TTL: store.MinTTL, Mark: -1}})
	if err == nil {
		err = outcomes[0].Err
	}
	var done *store.DoneError
	if !errors.As(err, &done) {
		return plan{}, fmt.Errorf("fleetmove: reading the plan: %w", err)
	}
	return parsePlan(done.Record.State)
}

func parsePlan(state []byte) (p plan, err error) {
	if len(state) == 0 {
		return plan{}, nil
	}
	if err := json.Unmarshal(state, &p); err != nil {
		return plan{}, fmt.Errorf("%w: the record %q is no plan: %w", store.ErrUnusable, planRecord, err)
	}
	return p, nil
}

// readPlans reads the plans of both stores.
func readPlans(ctx context.Context, oldStore, newStore store.Store) (before, after plan, err error) {
	before, errBefore := readPlan(ctx, oldStore)
	after, errAfter := readPlan(ctx, newStore)
	return before, after, errors.Join(errBefore, errAfter)
}

// stageOf returns the stage of the move from one store to another one. It returns an error that is store.ErrUnusable if the stores have no
// plan, or another one.
func stageOf(before, after plan) (Stage, error) {
	switch {
	case before.ID == "" && after.ID == "":
		return Stage{}, notPlanned("the move is not planned; run: soloist move plan")
	case before.ID != after.ID:
		return Stage{}, notPlanned("the two stores are not those of one move: one of them is in a move with another store, or the plan was interrupted; run: soloist move plan")
	case before.New:
		return Stage{}, notPlanned("the move goes the other way: exchange the old store and the new one")
	}
	return Stage{max(before.From, after.From), min(before.To, after.To)}, nil
}

func notPlanned(why string) error { return fmt.Errorf("%w: %s", store.ErrUnusable, why) }

// admit returns nil if a replica may be in a phase. It asks the stores that a replica in that phase uses.
func admit(ctx context.Context, oldStore, newStore store.Store, phase move.Phase) error {
	switch phase {
	case move.OldOnly:
		p, err := readPlan(ctx, oldStore)
		if err == nil && !p.isOldStore() {
			err = notNow(phase, p.Stage)
		}
		return err
	case move.NewOnly:
		p, err := readPlan(ctx, newStore)
		switch {
		case err != nil:
			return err
		case !p.New || !p.allows(move.NewOnly):
			return notNow(phase, p.Stage)
		}
		return nil
	}
	before, after, err := readPlans(ctx, oldStore, newStore)
	if err != nil {
		return err
	}
	stage, err := stageOf(before, after)
	if err == nil && !stage.allows(phase) {
		err = notNow(phase, stage)
	}
	return err
}

// near returns nil if no replica may be two phases away from one in a phase, so that this may release what it has. In a
// phase of one store a release is in that one alone, which decides about it.
func near(ctx context.Context, oldStore, newStore store.Store, phase move.Phase) error {
	if phase != move.OldDecides && phase != move.NewDecides {
		return nil
	}
	before, after, err := readPlans(ctx, oldStore, newStore)
	if err != nil {
		return err
	}
	stage, err := stageOf(before, after)
	if err == nil && (stage.From < phase-1 || stage.To > phase+1) {
		err = notNow(phase, stage)
	}
	return err
}

func notNow(phase move.Phase, stage Stage) error {
	if stage == (Stage{}) {
		return notPlanned(fmt.Sprintf("no replica may be in the phase %v, for the move is not planned; run: soloist move plan", phase))
	}
	return notPlanned(fmt.Sprintf("no replica may be in the phase %v now: the move is at the stage %v; start the replica in a phase of that stage, "+
		"or start it again when the phase is open (see: soloist move status)", phase, stage))
}
