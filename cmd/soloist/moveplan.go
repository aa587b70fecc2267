package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/move"
)

func (a *app) movePlanCommand() *cobra.Command {
	var dry bool
	var accepted []string
	c := &cobra.Command{
		Use: "plan [OLD NEW]", Short: "Check whether the fleet can move, and begin", Args: a.moveArgs(),
		Long: `plan checks what the new store lacks that the old one has, whether all names fit, and how much there is to copy. A capability
that the new store lacks is an error, unless it is named by --accept: shared, fencing, durable, waiting, transactions. If
nothing is in the way, the move begins: replicas may then be in old-only and old-decides.`,
		RunE: func(_ *cobra.Command, args []string) error {
			for _, name := range accepted {
				if !slices.Contains(movedCapabilities, name) {
					return usage("--accept %q: give some of %s, with commas in between", name, strings.Join(movedCapabilities, ", "))
				}
			}
			return a.moving(args, func(ctx context.Context, m *mover) error { return m.plan(ctx, dry, accepted) })
		},
	}
	c.Flags().BoolVar(&dry, "dry-run", false, "only check")
	c.Flags().StringSliceVar(&accepted, "accept", nil, "capabilities that the new store may lack, with commas in between")
	a.outputFlag(c)
	return c
}

var movedCapabilities = []string{"shared", "fencing", "durable", "waiting", "transactions"}

func (m *mover) plan(ctx context.Context, dry bool, accepted []string) error {
	findings, err := m.lacks(ctx, accepted)
	if err != nil {
		return err
	}
	names, err := m.misfits(ctx)
	if err != nil {
		return err
	}
	todo, err := move.Compare(ctx, m.oldStore, m.newStore, move.OldDecides, move.NewDecides)
	if err != nil {
		return err
	}
	findings = append(findings, names, store.Finding{Subject: "to copy", Level: store.LevelOK, Found: strings.ReplaceAll(strings.TrimSpace(tally(todo)), "\n", "; ")})
	if m.output == "table" {
		err = m.print(diagnosis(findings))
	} else {
		err = write(m.app, "", findings, nil)
	}
	if err != nil {
		return err
	}
	var wrong []string
	for _, f := range findings {
		if f.Level == store.LevelError {
			wrong = append(wrong, f.Subject)
		}
	}
	if len(wrong) > 0 {
		return badConfig(fmt.Errorf("the fleet cannot move: %s", strings.Join(wrong, ", ")))
	}
	if dry {
		return nil
	}
	if err := m.Plan(ctx); err != nil {
		return err
	}
	status, err := m.Status(ctx)
	if err != nil || m.output != "table" {
		return err
	}
	return m.print(fmt.Sprintf("stage: %v\nnext:  %s\n", status.Stage, next(status)))
}

// lacks compares what the stores promise.
func (m *mover) lacks(ctx context.Context, accepted []string) ([]store.Finding, error) {
	before, err := store.CapabilitiesOf(ctx, m.oldStore)
	if err != nil {
		return nil, fmt.Errorf("the old store: %w", err)
	}
	after, err := store.CapabilitiesOf(ctx, m.newStore)
	if err != nil {
		return nil, fmt.Errorf("the new store: %w", err)
	}
	findings := []store.Finding{
		{Subject: "old store", Level: store.LevelOK, Found: before.Backend},
		{Subject: "new store", Level: store.LevelOK, Found: after.Backend},
	}
	wider := map[store.Scope]int{store.ScopeProcess: 1, store.ScopeHost: 2, store.ScopeFleet: 3}
	for i, c := range []struct {
		had, has bool
		why      string
	}{
		{true, wider[after.Scope] >= wider[before.Scope], fmt.Sprintf("shared by: %s; the old store: %s", after.Scope, before.Scope)},
		{before.Fencing.Answer == store.Yes, after.Fencing.Answer == store.Yes, after.Fencing.Why},
		{before.Durable.Answer == store.Yes, after.Durable.Answer == store.Yes, after.Durable.Why},
		{before.Waiting.Answer == store.Yes, after.Waiting.Answer == store.Yes, after.Waiting.Why},
		{completes[*sql.Tx](m.oldStore) || completes[pgx.Tx](m.oldStore), sameTransactions(m.oldStore, m.newStore), "work and its record cannot be committed in the transactions that the old store takes"},
	} {
		f := store.Finding{Subject: movedCapabilities[i], Level: store.LevelOK, Found: "as in the old store"}
		switch {
		case !c.had:
			f.Found = "the old store does not promise it either"
		case c.has:
		case slices.Contains(accepted, f.Subject):
			f.Level, f.Found = store.LevelWarning, "the new store lacks it, which was accepted: "+c.why
		default:
			f.Level, f.Found = store.LevelError, "the new store lacks it: "+c.why
			f.Fix = "configure or choose the new store so that it has it, or give --accept " + f.Subject + " if no program needs it"
		}
		findings = append(findings, f)
	}
	if _, clockless := store.As[store.Clockless](m.newStore); clockless {
		findings = append(findings, store.Finding{Subject: "clock", Level: store.LevelWarning, Found: "the new store has no clock: a name whose holder died may be free a TTL later than in the old store"})
	}
	return findings, nil
}

func completes[Tx any](s store.Store) bool {
	_, ok := store.As[store.Completer[Tx]](s)
	return ok
}

// sameTransactions reports whether the new store takes all transactions that the old one does.
func sameTransactions(before, after store.Store) bool {
	return (!completes[*sql.Tx](before) || completes[*sql.Tx](after)) && (!completes[pgx.Tx](before) || completes[pgx.Tx](after))
}

// peekBatch is how many names are read at once.
const peekBatch = 500

// misfits looks for names that the new store refuses. It reads each of them there, which changes nothing.
func (m *mover) misfits(ctx context.Context) (store.Finding, error) {
	f := store.Finding{Subject: "names", Level: store.LevelOK, Found: "all fit"}
	var reads []store.Claim
	var bad []string
	wrong := 0
	var why error
	look := func() error {
		outcomes, err := m.newStore.Acquire(ctx, reads)
		if err != nil {
			return fmt.Errorf("reading names in the new store: %w", err)
		}
		for i, out := range outcomes {
			if errors.Is(out.Err, store.ErrDone) {
				continue
			}
			if wrong++; wrong == 1 {
				why = out.Err
			}
			bad = append(bad[:min(len(bad), 4)], reads[i].Name)
		}
		reads = nil
		return nil
	}
	for r, err := range m.oldStore.List(ctx, "") {
		if err != nil {
			return f, fmt.Errorf("listing the old store: %w", err)
		}
		reads = append(reads, store.Claim{Name: r.Name, Holder: "move", TTL: store.MinTTL, Mark: -1})
		if len(reads) == peekBatch {
			if err := look(); err != nil {
				return f, err
			}
		}
	}
	if err := look(); err != nil {
		return f, err
	}
	if wrong > 0 {
		f.Level, f.Found = store.LevelError, fmt.Sprintf("%d cannot be in the new store, such as %s: %v", wrong, strings.Join(quoted(bad), ", "), why)
		f.Fix = "rename or remove them, or choose another store"
	}
	return f, nil
}
