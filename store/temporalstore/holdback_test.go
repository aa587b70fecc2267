package temporalstore

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestWriteIsNotHeldBackForLong: while a run is being continued, a write waits for two seconds, or for half of the time that it has.
func TestWriteIsNotHeldBackForLong(t *testing.T) {
	for has, want := range map[time.Duration]time.Duration{time.Minute: holdBack, time.Second: 500 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			var r rolls
			_, end, ok := r.begin("name")
			if !ok {
				t.Fatal("the continuation does not begin")
			}
			defer end()
			ctx, cancel := context.WithTimeout(t.Context(), has)
			defer cancel()
			begin := time.Now()
			r.wait(ctx, "other")
			r.wait(ctx, "name")
			if waited := time.Since(begin); waited != want || ctx.Err() != nil {
				t.Errorf("of %v it has waited for %v, %v; want %v", has, waited, ctx.Err(), want)
			}
		})
	}
}
