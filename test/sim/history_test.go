package sim

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/internal/proof"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

// What the record of a job must report a run whose end was recorded, and what it need not.
func TestHistoriesThatTellTooLittle(t *testing.T) {
	run := proof.Event{Kind: proof.Run, Name: "tick", Token: 7, Attempt: 1, Mark: 60_000, Recorded: time.Second, Result: proof.Okay}
	with := func(result proof.Result) proof.Event {
		e := run
		e.Result = result
		return e
	}
	lost := proof.Event{Kind: proof.Loss, Name: recordOfJob("tick"), Token: 7}
	told := soloist.RunRecord{ScheduledAt: time.UnixMilli(60_000), Token: 7, Attempt: 1, Outcome: soloist.OutcomeOK}
	full := []soloist.RunRecord{{Token: 5, Outcome: soloist.OutcomeAbandoned}}
	for token := range int64(kept - 1) {
		full = append(full, soloist.RunRecord{Token: 8 + token, Outcome: soloist.OutcomeOK})
	}
	for name, row := range map[string]struct {
		run     proof.Event
		told    []soloist.RunRecord
		commits int // as in Plan
		want    string
		also    proof.History
	}{
		"told":      {run, []soloist.RunRecord{told}, 50, "", nil},
		"not told":  {run, nil, 50, "does not show a run", nil},
		"otherwise": {with(proof.Failed), []soloist.RunRecord{told}, 50, "something else", nil},
		"failed, and not told, where there are transactions":        {with(proof.Failed), nil, 50, "does not show a run", nil},
		"failed, and lost when it was to be recorded":               {with(proof.Failed), nil, 50, "", proof.History{lost}},
		"failed, and lost, without a transaction":                   {with(proof.Failed), nil, 0, "does not show a run", proof.History{lost}},
		"succeeded, and lost when it was to be recorded":            {run, nil, 50, "does not show a run", proof.History{lost}},
		"not told any more, behind one that was abandoned":          {run, full, 50, "", nil},
		"lost, and not told":                                        {with(proof.Lost), nil, 0, "does not show a run", nil},
		"lost, with a transaction that may have been committed too": {with(proof.Lost), nil, 50, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{plan: &Plan{Work: Jobs, Job: JobPlan{Name: "tick"}, Commits: row.commits}, mem: memstore.New()}
			state, err := json.Marshal(map[string]any{"runs": row.told})
			if err != nil {
				t.Fatal(err)
			}
			claim := store.Claim{Name: recordOfJob("tick"), Holder: "a", TTL: time.Second}
			outs, err := w.mem.Acquire(context.Background(), []store.Claim{claim})
			if err != nil || outs[0].Err != nil {
				t.Fatal(outs, err)
			}
			errs, err := w.mem.Release(context.Background(), []store.Release{{Name: claim.Name, Holder: "a", Token: outs[0].Grant.Token, State: state, Retain: store.Forever}})
			if err != nil || errs[0] != nil {
				t.Fatal(errs, err)
			}
			w.histories(append(row.also, row.run))
			if found := len(w.found) > 0; found != (row.want != "") || found && !strings.Contains(w.found[0].Text, row.want) {
				t.Errorf("found %v, want %q", w.found, row.want)
			}
		})
	}
}
