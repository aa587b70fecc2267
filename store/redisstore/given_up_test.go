package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/redisstore"
	"github.com/soloist-dev/soloist/test/servers"
)

// unbounded are options of a client whose own bounds are out of reach: its requests end with their context, or not before the test does.
const unbounded = "timeout=1h&dialtimeout=1h"

// givenUp makes a request that nobody answers.
func givenUp(t *testing.T, s *redisstore.Store) {
	t.Helper()
	for span := 500 * time.Millisecond; ; span *= 2 { // a slow machine needs longer to begin
		ctx, cancel := context.WithTimeout(background, span)
		_, err := s.Acquire(ctx, []store.Claim{{Name: "x", Holder: "h", TTL: time.Minute}})
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("a request past its deadline returned %v", err)
		}
		if errors.Is(err, store.ErrUnknown) {
			return
		}
		if span > servers.Patience {
			t.Fatalf("a request past its deadline returned %v, want an unknown outcome", err)
		}
	}
}

// A request that nobody answers ends at its context's deadline, on a client of the store and on one that it was given, although their own bounds
// are far away. Others on the same handle go on.
func TestRequestsEndAtTheirDeadline(t *testing.T) {
	server := shared(t)
	for what, openAt := range map[string]func(addr string) *redisstore.Store{
		"OpenURL": func(addr string) *redisstore.Store { return open(t, fresh(t, "redis://"+addr, unbounded)) },
		"New": func(addr string) *redisstore.Store {
			return newStore(t, plainClient(t, "redis://"+addr+"?read_timeout=1h&write_timeout=1h"))
		},
	} {
		t.Run(what, func(t *testing.T) {
			s := newStrait(t, server.Addr)
			silent := openAt(s.listener.Addr().String())
			take(t, silent, "warm", "h")
			s.silence()
			givenUp(t, silent)
			take(t, silent, "y", "h") // on a connection that is let through
		})
	}
}

// So does one on a connection that has not got as far as its greeting, its password or its handshake.
func TestRequestsToTheSilentEndAtTheirDeadline(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // whose connections nobody accepts
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, url := range []string{"redis://", "redis://u:p@", "rediss://"} {
		t.Run(url, func(t *testing.T) { givenUp(t, open(t, fresh(t, url+l.Addr().String(), unbounded))) })
	}
}

// A request whose context is cancelled while it is under way returns what the server replies, or ends at its deadline with an unknown outcome. After
// that nothing is sent.
func TestCancelledRequestsEndAtTheirDeadline(t *testing.T) {
	s := newStrait(t, shared(t).Addr)
	silent := open(t, fresh(t, "redis://"+s.listener.Addr().String(), unbounded))
	var ctx context.Context
	var err error
	for span, underWay := 5*time.Second, false; !underWay; span *= 2 { // a slow machine needs longer to begin
		if span > 2*servers.Patience {
			t.Fatalf("no request gets under way within %v", span/2)
		}
		take(t, silent, fmt.Sprint("warm for ", span), "h")
		s.silence()
		within, end := context.WithTimeout(background, span)
		defer end()
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(within)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			defer cancel()
			select {
			case <-s.lost:
				underWay = within.Err() == nil
			case <-within.Done():
			}
		}()
		_, err = silent.Acquire(ctx, []store.Claim{{Name: "x", Holder: "h", TTL: time.Minute}})
		<-ended
	}
	if !errors.Is(err, store.ErrUnknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled request returned %v, want an unknown outcome because of the cancellation", err)
	}
	if _, err := silent.Acquire(ctx, []store.Claim{{Name: "x", Holder: "h", TTL: time.Minute}}); !errors.Is(err, context.Canceled) || errors.Is(err, store.ErrUnknown) {
		t.Errorf("with a context that has ended: %v", err)
	}
}

// Many requests, some of which are past their deadlines at any moment, disturb no others.
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
			ctx, cancel := context.WithTimeout(background, time.Duration(i%200)*time.Microsecond)
			_, _ = s.Acquire(ctx, []store.Claim{{Name: "given up", Holder: "h", TTL: time.Second}})
			cancel()
		}
	}()
	ctx, cancel := context.WithTimeout(background, time.Hour) // one that could end, and does not
	defer cancel()
	for range 3000 {
		if outs, err := s.Acquire(ctx, []store.Claim{{Name: "x", Holder: "h", TTL: time.Minute}}); err != nil || outs[0].Err != nil {
			t.Fatal(err, outs)
		}
	}
	close(stop)
	<-gone
}
