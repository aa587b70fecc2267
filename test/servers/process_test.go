//go:build unix

package servers

import (
	"context"
	"testing"
	"testing/synctest"
)

// TestReadyIsAskedAgain: what a server never responds to, since it was starting then, is not waited for.
func TestReadyIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		p := &Process{t: t, name: "server", ready: func(ctx context.Context) error {
			if asked++; asked <= 3 {
				<-ctx.Done()
			}
			return ctx.Err()
		}}
		p.waitReady(make(chan struct{}))
		if asked != 4 {
			t.Errorf("asked %d times, want 4", asked)
		}
	})
}
