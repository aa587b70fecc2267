package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/fleetmove"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/move"
)

func (a *app) moveCommand() *cobra.Command {
	c := &cobra.Command{Use: "move", Short: "Move a fleet to another store while it runs", GroupID: "see", Args: a.noChild(cobra.NoArgs), RunE: needsSubcommand,
		Long: `A fleet moves from one store to another in four phases, and nothing stops: old-only, old-decides, new-decides, new-only.
Replicas name the phase in the URL of their store, "move:PHASE OLD NEW", and roll from each phase to the next:

  soloist move plan OLD NEW     check both stores and begin; then roll all replicas to old-decides
  soloist move copy OLD NEW     copy the records, and open the next phase; then roll all replicas to new-decides
  soloist move copy OLD NEW     again; then roll all replicas to new-only
  soloist move finish OLD NEW   nobody needs the old store any more

A subcommand does not go on while a replica is known in another phase (75), and a replica in a phase that is not open is
refused (78). With --back, copy goes one stage back.

OLD and NEW are URLs of stores; env:NAME and file:PATH name the variable or the file that has the URL, so that a password
is in no argument. Without them the two stores are those of the move: URL that --store or the variables name.`}
	c.AddCommand(a.movePlanCommand(), a.moveCopyCommand(), a.moveVerifyCommand(), a.moveStatusCommand(), a.moveFinishCommand())
	return c
}

// moveArgs takes both stores as arguments, or none.
func (a *app) moveArgs() cobra.PositionalArgs {
	return a.noChild(func(_ *cobra.Command, args []string) error {
		if len(args) != 0 && len(args) != 2 {
			return errors.New("give both stores, OLD and NEW, or none if the store is a move: URL")
		}
		return nil
	})
}

// A mover is a move that the command leads.
type mover struct {
	*app
	*fleetmove.Manager
	oldStore, newStore store.Store
}

// moving opens both stores and calls fn.
func (a *app) moving(args []string, fn func(context.Context, *mover) error) error {
	if err := a.checkOutput(); err != nil {
		return err
	}
	sources, err := a.movedStores(args)
	if err != nil {
		return err
	}
	before, err := sources[0].open()
	if err != nil {
		return err
	}
	defer before.Close()
	after, err := sources[1].open()
	if err != nil {
		return err
	}
	defer after.Close()
	m := &mover{app: a, oldStore: before, newStore: after}
	if m.Manager, err = fleetmove.Manage(before, after, a.replicaName()); err != nil {
		return err
	}
	ctx, stop := untilInterrupted("move")
	defer stop()
	if err = fn(ctx, m); err != nil && ctx.Err() != nil {
		err = context.Cause(ctx) // and not what that has led to
	}
	return errors.Join(err, m.Close())
}

// movedStores finds the URLs of both stores.
func (a *app) movedStores(args []string) ([2]source, error) {
	if len(args) == 0 {
		src, err := a.source()
		if err != nil {
			return [2]source{}, err
		}
		if src.scheme() != moveScheme {
			return [2]source{}, usage("%s names one store: give both stores as arguments, or a URL move:PHASE OLD NEW", src.from)
		}
		m, err := src.moving()
		return [2]source{m.oldStore, m.newStore}, err
	}
	var found [2]source
	for i, which := range []string{"OLD", "NEW"} {
		src, err := a.argumentSource(args[i], which)
		if err != nil {
			return found, err
		}
		if src.scheme() == moveScheme || src.scheme() == "memory" {
			return found, badConfig(fmt.Errorf("%s: a fleet moves between two stores that other processes find; give the URL of one", src.from))
		}
		found[i] = src
	}
	return found, nil
}

// argumentSource is the store that an argument names: by its URL, by the variable that has it, or by the file.
func (a *app) argumentSource(arg, which string) (source, error) {
	if name, ok := strings.CutPrefix(arg, "env:"); ok {
		text := a.env(name)
		if text == "" {
			return source{}, badConfig(fmt.Errorf("%s: $%s is not set or empty: put the URL of the store into it", which, name))
		}
		return checkSource(source{text: text, from: "$" + name})
	}
	if path, ok := strings.CutPrefix(arg, "file:"); ok {
		return readSource(path, which)
	}
	if hasPassword(arg) {
		return source{}, badConfig(fmt.Errorf("%s has a password in it, and everybody on this machine can see the arguments of a process: give env:NAME or file:PATH, the variable or the file that has the URL", which))
	}
	return checkSource(source{text: arg, from: which})
}

func (a *app) moveStatusCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "status [OLD NEW]", Short: "Show the stage, what to do next, and the replicas that are known", Args: a.moveArgs(),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.moving(args, func(ctx context.Context, m *mover) error {
				status, err := m.Status(ctx)
				if err != nil {
					return err
				}
				return m.show(status)
			})
		},
	}
	a.outputFlag(c)
	return c
}

// A movedReplica is a replica as it is shown.
type movedReplica struct {
	Replica string `json:"replica"`
	Phase   string `json:"phase"`
	LeftMS  int64  `json:"left_ms"`
	left    time.Duration
}

func (m *mover) show(status fleetmove.Status) error {
	rows := []movedReplica{}
	for _, r := range status.Replicas {
		rows = append(rows, movedReplica{r.Replica, r.Phase.String(), r.Left.Milliseconds(), r.Left})
	}
	if m.output != "table" {
		return m.encode(struct {
			Stage    string         `json:"stage"`
			Next     string         `json:"next"`
			Replicas []movedReplica `json:"replicas"`
		}{staged(status.Stage), next(status), rows})
	}
	if err := m.print(fmt.Sprintf("stage: %s\nnext:  %s\n", staged(status.Stage), next(status))); err != nil || len(rows) == 0 {
		return err
	}
	return table(m.out, "REPLICA|PHASE|LEFT", rows, func(r movedReplica) []string { return []string{r.Replica, r.Phase, span(r.left)} })
}

func staged(s fleetmove.Stage) string {
	if s == (fleetmove.Stage{}) {
		return "not planned"
	}
	return s.String()
}

// next returns what people do to go on.
func next(status fleetmove.Status) string {
	s := status.Stage
	switch {
	case status.Interrupted && s.To == move.NewOnly:
		return "soloist move finish, which was interrupted: the new store does not know yet that the move is finished"
	case status.Interrupted:
		return "soloist move copy --back, which was interrupted: the new store does not know yet that the plan was taken back"
	case s == fleetmove.Stage{}, s == fleetmove.Stage{From: move.OldOnly, To: move.OldOnly}:
		return "soloist move plan"
	case s == fleetmove.Stage{From: move.NewOnly, To: move.NewOnly}:
		return "nothing; the move is finished"
	case s.To == move.NewOnly:
		return "roll all replicas to new-only, then: soloist move finish"
	case s.From == s.To:
		return "soloist move copy, until all records are copied"
	}
	return fmt.Sprintf("roll all replicas to %v, then: soloist move copy", s.To)
}

func (a *app) moveFinishCommand() *cobra.Command {
	return &cobra.Command{
		Use: "finish [OLD NEW]", Short: "Leave the old store, when all replicas are in new-only", Args: a.moveArgs(),
		RunE: func(_ *cobra.Command, args []string) error {
			a.output = "table"
			return a.moving(args, func(ctx context.Context, m *mover) error {
				status, err := m.Status(ctx)
				if err != nil {
					return err
				}
				if status.Stage.To != move.NewOnly {
					return usage("the move is at the stage %s: %s", staged(status.Stage), next(status))
				}
				if _, _, err := m.Advance(ctx, false, move.Options{}); err != nil {
					return err
				}
				return m.print("the move is finished: nobody needs the old store any more, and replicas may have the URL of the new one alone\n")
			})
		},
	}
}

// Copying.

func (a *app) moveCopyCommand() *cobra.Command {
	var o move.Options
	var back, dry bool
	var wait time.Duration
	c := &cobra.Command{
		Use: "copy [OLD NEW]", Short: "Copy the records, and open the next phase when all are copied", Args: a.moveArgs(),
		Long: `copy leaves the phase behind, in which no replica may be known any more, and brings the records of both stores to agree. Then
it opens the next phase. It can be interrupted and repeated: what has been copied is not copied again.

Names that are held by a holder of an earlier phase, or linger, cannot be copied yet: copy again later (75), or wait for them
by --wait. Names whose last holder died are left to a replica that takes them over; --abandoned copies them, and the crash
is then not known any more.`,
		RunE: func(_ *cobra.Command, args []string) error {
			a.output = "table"
			if wait < 0 {
				return usage("--wait %v: give 0 or more", wait)
			}
			if o.Retain < 0 {
				return usage("--retain %v: give how long to remember, or 0 forever", o.Retain)
			}
			return a.moving(args, func(ctx context.Context, m *mover) error {
				return m.copy(ctx, back, dry, wait, o)
			})
		},
	}
	flags := c.Flags()
	flags.BoolVar(&back, "back", false, "open the phase before, instead of the next one")
	flags.BoolVar(&dry, "dry-run", false, "only show what would be done")
	flags.DurationVar(&wait, "wait", 0, "how long to wait for replicas in the phase behind, and for names that are held")
	flags.BoolVar(&o.Abandoned, "abandoned", false, "also copy names whose last holder died")
	flags.DurationVar(&o.Retain, "retain", 0, "how long the stores must remember what is copied (default forever)")
	return c
}

// againEvery is how long copy waits before it looks again.
const againEvery = 2 * time.Second

func (m *mover) copy(ctx context.Context, back, dry bool, wait time.Duration, o move.Options) error {
	status, err := m.Status(ctx)
	if err != nil {
		return err
	}
	phase := status.Stage.To
	if back {
		phase = status.Stage.From
	}
	if phase == 0 || !back && phase == move.NewOnly {
		return usage("the move is at the stage %s: %s", staged(status.Stage), next(status))
	}
	todo := move.Report{}
	if phase == move.OldDecides || phase == move.NewDecides {
		next := phase + 1
		if back {
			next = phase - 1
		}
		if todo, err = move.Compare(ctx, m.oldStore, m.newStore, phase, next); err != nil {
			return err
		}
	}
	if dry {
		return m.dryRun(status, phase, todo)
	}
	for deadline := time.Now().Add(wait); ; {
		reached, report, err := m.advance(ctx, back, todo.Names, o)
		waits := errors.Is(err, soloist.ErrHeld) || err == nil && !report.Complete()
		if waits && time.Now().Before(deadline) {
			select {
			case <-time.After(min(againEvery, time.Until(deadline))):
				continue
			case <-ctx.Done():
			}
		}
		if err != nil {
			return err
		}
		if report.Names > 0 {
			if err := m.print(tally(report)); err != nil {
				return err
			}
		}
		if !report.Complete() {
			return &exit{exitHeld, fmt.Errorf("%d names are not copied yet, such as %s; copy again, see soloist move copy --help", report.Taken+report.Abandoned, strings.Join(quoted(report.Examples), ", "))}
		}
		return m.print(fmt.Sprintf("stage: %v\nnext:  %s\n", reached, next(fleetmove.Status{Stage: reached})))
	}
}

// advance goes one stage on, with a bar.
func (m *mover) advance(ctx context.Context, back bool, all int, o move.Options) (fleetmove.Stage, move.Report, error) {
	bar := m.progress(0)
	defer bar.end()
	begun := time.Now()
	o.Progress = func(r move.Report) {
		bar.count(r.Names, all, fmt.Sprintf("%d of %d names, %d copied, %.0f a second", r.Names, all, r.Copied, float64(r.Names)/time.Since(begun).Seconds()))
	}
	return m.Advance(ctx, back, o)
}

func (m *mover) dryRun(status fleetmove.Status, phase move.Phase, todo move.Report) error {
	text := fmt.Sprintf("the stage is %v; copy would let replicas be in %v only\n", status.Stage, phase)
	if behind := status.Behind(phase); len(behind) > 0 {
		text += fmt.Sprintf("it would be refused: %d replicas are in another phase, such as %s in %v\n", len(behind), behind[0].Replica, behind[0].Phase)
	}
	return m.print(text + tally(todo))
}

// tally returns what was found, in words.
func tally(r move.Report) string {
	text := fmt.Sprintf("%d names: %d the same, %d copied, %d to copy, %d held or lingering, %d whose last holder died\n", r.Names, r.Same, r.Copied, r.Differ, r.Taken, r.Abandoned)
	if r.Left > 0 {
		text += fmt.Sprintf("the last of those that are held ends in %s, unless it is renewed\n", span(r.Left))
	}
	return text
}

func quoted(names []string) []string {
	var all []string
	for _, name := range names[:min(len(names), 5)] {
		all = append(all, fmt.Sprintf("%q", name))
	}
	return all
}

func (a *app) moveVerifyCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "verify [OLD NEW]", Short: "Compare the records of both stores, and change nothing", Args: a.moveArgs(),
		Long: `verify compares all records: whether each is in both stores, with the same mark and state, and, unless replicas roll between
the two middle phases, with the greater token in the store that decides. The exit code is 0 if nothing has to be copied and no replica is known in another phase, else 75.`,
		RunE: func(_ *cobra.Command, args []string) error {
			return a.moving(args, func(ctx context.Context, m *mover) error { return m.verify(ctx) })
		},
	}
	a.outputFlag(c)
	return c
}

func (m *mover) verify(ctx context.Context) error {
	status, err := m.Status(ctx)
	if err != nil {
		return err
	}
	phase := status.Stage.From
	if slices.ContainsFunc(status.Replicas, func(r fleetmove.Replica) bool { return r.Phase == status.Stage.To }) {
		phase = status.Stage.To
	}
	phase = min(max(phase, move.OldDecides), move.NewDecides)
	var next move.Phase
	if status.Stage == (fleetmove.Stage{From: move.OldDecides, To: move.NewDecides}) {
		next = move.OldDecides + move.NewDecides - phase // these two link the tokens
	}
	report, err := move.Compare(ctx, m.oldStore, m.newStore, phase, next)
	if err != nil {
		return err
	}
	behind := len(status.Behind(status.Stage.To))
	if m.output == "table" {
		err = m.print(fmt.Sprintf("stage: %s; compared as in the phase %v\n%s", staged(status.Stage), phase, tally(report)))
	} else {
		err = m.encode(struct {
			Stage     string   `json:"stage"`
			Phase     string   `json:"phase"` // as in which the records were compared
			Names     int      `json:"names"`
			Same      int      `json:"same"`
			ToCopy    int      `json:"to_copy"`
			Taken     int      `json:"taken"`
			Abandoned int      `json:"abandoned"`
			LeftMS    int64    `json:"left_ms"`
			Examples  []string `json:"examples"`
			Behind    int      `json:"behind"` // replicas that are in another phase
		}{staged(status.Stage), phase.String(), report.Names, report.Same, report.Differ, report.Taken, report.Abandoned, report.Left.Milliseconds(), report.Examples, behind})
	}
	switch {
	case err != nil:
		return err
	case !report.Complete():
		return &exit{exitHeld, fmt.Errorf("%d names differ, such as %s", report.Differ+report.Taken+report.Abandoned, strings.Join(quoted(report.Examples), ", "))}
	case behind > 0:
		return &exit{exitHeld, fmt.Errorf("%d replicas are in another phase than %v: see soloist move status", behind, status.Stage.To)}
	}
	return nil
}
