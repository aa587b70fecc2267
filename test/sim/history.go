package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/internal/proof"
)

// kept is how many runs a job's record keeps.
const kept = 20

// histories checks that the records of jobs report the newest of the runs whose end a replica was told is recorded, and how they ended.
func (w *world) histories(h proof.History) {
	for _, j := range w.plan.jobs() {
		var state struct {
			Runs []soloist.RunRecord `json:"runs"`
		}
		for r, err := range w.engine().List(context.Background(), recordOfJob(j.Name)) {
			if err == nil && r.Name == recordOfJob(j.Name) && len(r.State) > 0 && json.Unmarshal(r.State, &state) != nil {
				w.found = append(w.found, proof.Violation{Checker: historyChecker, Name: j.Name, Text: "its state cannot be read"})
			}
		}
		if len(state.Runs) > kept {
			w.wrong(j.Name, proof.Event{}, "its record reports too many runs")
		}
		oldest := int64(0) // token of which all is told
		for _, r := range state.Runs {
			if len(state.Runs) == kept && oldest == 0 && r.Outcome != soloist.OutcomeAbandoned { // of those others can only guess the token
				oldest = r.Token + 1
			}
		}
		for at := range h {
			if e := &h[at]; e.Kind != proof.Run || e.Name != j.Name || e.Recorded == 0 || e.Token < oldest || w.doubted(h, *e) {
				continue
			}
			e := h[at]
			i := slices.IndexFunc(state.Runs, func(r soloist.RunRecord) bool { return r.Token == e.Token && r.Attempt == e.Attempt })
			switch {
			case i < 0:
				w.wrong(j.Name, e, "its record does not show a run that was recorded; it shows those of the tokens "+tokens(state.Runs))
			case (state.Runs[i].Outcome == soloist.OutcomeOK) != (e.Result == proof.Okay) && !committed(h, e) || state.Runs[i].ScheduledAt.UnixMilli() != e.Mark || state.Runs[i].Manual != e.Manual:
				w.wrong(j.Name, e, "its record tells something else of a run: "+state.Runs[i].Outcome)
			}
		}
	}
}

// committed reports whether a transaction has recorded the run, whose function may not know it.
func committed(h proof.History, run proof.Event) bool {
	return slices.ContainsFunc(h, func(e proof.Event) bool { return e.Kind == proof.Commit && e.Name == run.Name && e.Token == run.Token })
}

func tokens(runs []soloist.RunRecord) string {
	var all []int64
	for _, r := range runs {
		all = append(all, r.Token)
	}
	return fmt.Sprint(all)
}

const historyChecker = "history"

func (w *world) wrong(job string, e proof.Event, text string) {
	w.found = append(w.found, proof.Violation{Checker: historyChecker, Name: job, Text: text, Excerpt: proof.History{e}})
}

// doubted reports whether the record need not report a run: it was lost, at the latest when it was to be recorded, or released with the state as it was, and nobody
// could say until then whether a transaction of it had been committed, which would have recorded the run in another way.
func (w *world) doubted(h proof.History, run proof.Event) bool {
	lost := run.Result == proof.Lost || run.Result == proof.Failed && slices.ContainsFunc(h, func(e proof.Event) bool {
		return (e.Kind == proof.Loss || e.Kind == proof.Release && e.State == 0) && e.Name == recordOfJob(run.Name) && e.Token == run.Token
	})
	return lost && w.plan.Commits > 0
}
