package demo

import (
	"context"
	"time"

	"github.com/soloist-dev/soloist"
)

// writeLedger is the job: it claims the ledger, works, and writes a line. It does not look at its context, as if the
// ledger's library knew nothing of contexts: what keeps it from harm is the guard alone.
func (r *replica) writeLedger(_ context.Context, run soloist.Run) error {
	belief := believe(run.Lease)
	e := event{Scheduled: run.ScheduledAt.Unix(), Attempt: run.Attempt, Token: run.Lease.Token()}
	tell := func(k kind) {
		e.Kind, e.At = k, 0
		r.emit(e)
	}
	tell(runStart)
	err := r.service.once(run.Lease, ledgerPaths+run.ScheduledAt.Format(time.RFC3339), func() {
		if time.Since(run.ScheduledAt) < lateAfter {
			sleep(r.ctx, runTime)
		} else {
			sleep(r.ctx, lateTime)
		}
		r.gate.pass(r.ctx, func() { tell(holding) }, func() { belief.look() })
		belief.look()
	})
	e.Kind, e.Err = runEnd, errText(err)
	e.At, e.Held = belief.end()
	r.emit(e)
	return err
}
