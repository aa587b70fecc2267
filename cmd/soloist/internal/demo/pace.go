package demo

import (
	"context"
	"time"
)

// How long things take. The demo is made of what it sees, not of these: they only give it a pace that eyes can follow.
const (
	ttl        = 3 * time.Second
	drain      = 5 * time.Second
	runTime    = 200 * time.Millisecond // of a run, before it writes
	writeTime  = 50 * time.Millisecond  // of the service, for a line of the ledger
	issueTime  = 290 * time.Millisecond // of the service, for an invoice
	pageTime   = 30 * time.Millisecond
	pages      = 5
	renderRest = 350 * time.Millisecond // between two documents of one replica
	lookAgain  = 200 * time.Millisecond // before another look at invoices that others have
	gateLook   = 20 * time.Millisecond
)

// sleep waits for d, and says false when ctx ended instead.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
