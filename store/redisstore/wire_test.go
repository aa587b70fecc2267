package redisstore_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/redisstore"
)

// ends are the ways in which a context ends, after half a second: it must not have ended before the request begins.
var ends = map[string]func() (context.Context, context.CancelFunc){
	"by a deadline": func() (context.Context, context.CancelFunc) {
		return context.WithTimeout(context.Background(), 500*time.Millisecond)
	},
	"by its end": func() (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(500*time.Millisecond, cancel)
		return ctx, cancel
	},
}

// unbounded are options of a client whose own bounds are out of reach: its requests end with their context, or not before the test does.
const unbounded = "timeout=1h&dialtimeout=1h"

// givenUp makes a request that nobody answers.
func givenUp(t *testing.T, s *redisstore.Store, end func() (context.Context, context.CancelFunc)) {
	t.Helper()
	ctx, cancel := end()
	defer cancel()
	_, err := s.Acquire(ctx, []store.Claim{{Name: "x", Holder: "h", TTL: time.Minute}})
	if !errors.Is(err, store.ErrUnknown) || !errors.Is(err, ctx.Err()) {
		t.Errorf("a request that was given up answered %v, want an unknown outcome because of %v", err, ctx.Err())
	}
}

// A request that nobody answers is given up when its context ends, by its end and by its deadline, and so is what comes after it; the
// others on the same handle go on.
func TestRequestsAreGivenUp(t *testing.T) {
	server := shared(t)
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			s := newStrait(t, server.Addr)
			silent := open(t, fresh(t, "redis://"+s.listener.Addr().String(), unbounded))
			take(t, silent, "warm", "h")
			s.silence()
			givenUp(t, silent, end)
			take(t, silent, "y", "h") // on a connection that is let through
			if n := silent.GivenUp(); n != 0 {
				t.Errorf("%d requests are still noted as given up", n)
			}
		})
	}
}

// So is one on a connection that has not got as far as its greeting, its password or its handshake.
func TestRequestsToTheSilentAreGivenUp(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // whose connections nobody accepts
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, url := range []string{"redis://", "redis://u:p@", "rediss://"} {
		for name, end := range ends {
			t.Run(url+" "+name, func(t *testing.T) { givenUp(t, open(t, fresh(t, url+l.Addr().String(), unbounded)), end) })
		}
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
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour) // one that could end, and does not
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
