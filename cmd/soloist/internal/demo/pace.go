package demo

import (
	"context"
	"time"
)

// How long things take. The demo is made of what it sees, not of these: they only give it a pace that eyes can follow,
// and the one that is behind it, on a busy machine, does without.
const (
	ttl        = 3 * time.Second
	request    = 2 * time.Second // the longest wait for the store
	drain      = 5 * time.Second
	runTime    = 200 * time.Millisecond // of a run, before it writes
	lateTime   = 20 * time.Millisecond  // of a run that begins more than lateAfter late: it makes haste
	lateAfter  = 1500 * time.Millisecond
	writeTime  = 50 * time.Millisecond  // of the service, for a line of the ledger
	issueEvery = 110 * time.Millisecond // the service issues no more invoices than one in that time
	pageTime   = 60 * time.Millisecond
	pages      = 10
	renderRest = 300 * time.Millisecond // between two documents of one replica: three want more than two permits
	lookAgain  = 200 * time.Millisecond // before another look at invoices that others have
	gateLook   = 20 * time.Millisecond
)

// sleep waits for d, and reports false when ctx ended instead.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
