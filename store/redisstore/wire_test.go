package redisstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// A request that nobody answers is given up when its context ends, by its end and by its deadline, and so is what comes after it; the
// others on the same handle go on.
func TestRequestsAreGivenUp(t *testing.T) {
	server := shared(t)
	for name, end := range map[string]func() (context.Context, context.CancelFunc){
		"by a deadline": func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(context.Background(), 100*time.Millisecond)
		},
		"by its end": func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(100*time.Millisecond, cancel)
			return ctx, cancel
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStrait(t, server.Addr)
			silent := open(t, fresh(t, "redis://"+s.listener.Addr().String()))
			take(t, silent, "warm", "h")
			s.silence()
			ctx, cancel := end()
			defer cancel()
			begin := time.Now()
			_, err := silent.Acquire(ctx, []store.Claim{{Name: "x", Holder: "h", TTL: time.Minute}})
			if took := time.Since(begin); took > 2*time.Second {
				t.Errorf("it came back after %v", took)
			}
			if !errors.Is(err, store.ErrUnknown) || !errors.Is(err, ctx.Err()) {
				t.Errorf("a request that was given up answered %v, want an unknown outcome because of %v", err, ctx.Err())
			}
			take(t, silent, "y", "h") // on a connection that is let through
			if n := silent.GivenUp(); n != 0 {
				t.Errorf("%d requests are still noted as given up", n)
			}
		})
	}
}

// Many requests, of which some are given up at any moment, disturb no others.
func TestGivingUpDisturbsNobody(t *testing.T) {
	s := open(t, fresh(t, shared(t).URL))
	stop := make(chan struct{})
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			ctx, cancel := context.WithCancel(context.Background())
			timer := time.AfterFunc(time.Duration(i%200)*time.Microsecond, cancel)
			_, _ = s.Acquire(ctx, []store.Claim{{Name: "given up", Holder: "h", TTL: time.Second}})
			timer.Stop()
			cancel()
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second) // one that could end, and does not
	defer cancel()
	for range 3000 {
		if outs, err := s.Acquire(ctx, []store.Claim{{Name: "x", Holder: "h", TTL: time.Minute}}); err != nil || outs[0].Err != nil {
			t.Fatal(err, outs)
		}
	}
	close(stop)
	<-gone
	if n := s.GivenUp(); n != 0 {
		t.Errorf("%d requests are still noted as given up", n)
	}
}
