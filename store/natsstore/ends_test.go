package natsstore_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/natsstore"
	"github.com/soloist-dev/soloist/test/servers"
)

// TestConnectionLostBeforeAReply: what waits for a reply when the connection is lost ends, since none will come, and not as if its caller had given up. It leaves no subscription behind.
func TestConnectionLostBeforeAReply(t *testing.T) {
	for what, test := range map[string]struct {
		reply   string // a part of the one that does not come
		unknown bool
		do      func(s *natsstore.Store) error
	}{
		"a claim": {`"stream":"KV`, true, func(s *natsstore.Store) error { _, err := acquire(background, s, "b", "x", time.Hour); return err }},
		"a read":  {"stream_msg_get_response", false, func(s *natsstore.Store) error { return s.Ping(background) }},
		"a list": {"Nats-Num-Pending", false, func(s *natsstore.Store) (err error) {
			for _, err = range s.List(background, "") {
			}
			return err
		}},
	} {
		t.Run(what, func(t *testing.T) {
			l := newLiar(t, shared(t).Addr)
			js := connect(t, l.Addr().String())
			s := made(t, js, natsstore.Config{Bucket: fresh()})
			if _, err := acquire(background, s, "a", "x", time.Hour); err != nil {
				t.Fatal(err)
			}
			before := js.Conn().NumSubscriptions()
			var lost sync.Once
			silent := func(payload []byte) []byte {
				if !bytes.Contains(payload, []byte(test.reply)) {
					return payload
				}
				lost.Do(func() { go func() { _ = js.Conn().ForceReconnect() }() })
				return nil
			}
			l.lie.Store(&silent)
			ended := make(chan error, 1)
			go func() { ended <- test.do(s) }()
			select {
			case err := <-ended:
				if err == nil || errors.Is(err, store.ErrUnknown) != test.unknown || errors.Is(err, context.Canceled) {
					t.Errorf("got %v, want that the connection was lost; unknown: %t", err, test.unknown)
				}
			case <-time.After(servers.Patience):
				t.Fatal("it waits still")
			}
			if n := js.Conn().NumSubscriptions() - before; n != 0 {
				t.Errorf("there are %d subscriptions more", n)
			}
		})
	}
}

// TestCloseEndsWhatWaits: Close ends what waits for a reply, and the connection unless it was given; it does not look after that any more.
func TestCloseEndsWhatWaits(t *testing.T) {
	for what, given := range map[string]bool{"a connection that was given": true, "one of its own": false} {
		t.Run(what, func(t *testing.T) {
			l, bucket := newLiar(t, shared(t).Addr), fresh()
			var s *natsstore.Store
			if given {
				s = open(t, connect(t, l.Addr().String()), natsstore.Config{Bucket: bucket})
			} else {
				s = byURL(t, "nats://"+l.Addr().String()+"/"+bucket+"?dialtimeout=1m")
			}
			if _, err := s.Migrate(background); err != nil {
				t.Fatal(err)
			}
			nc, ended, err := natsstore.Connection(background, s)
			if err != nil {
				t.Fatal(err)
			}
			waits := make(chan struct{}, 1)
			silent := func(payload []byte) []byte {
				if !isAck(payload) {
					return payload
				}
				waits <- struct{}{}
				return nil
			}
			l.lie.Store(&silent)
			claimed := make(chan error, 1)
			go func() { _, err := acquire(background, s, "a", "x", time.Hour); claimed <- err }()
			<-waits
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			select {
			case err := <-claimed:
				if !errors.Is(err, store.ErrUnknown) {
					t.Errorf("the claim: %v, want that its outcome is unknown", err)
				}
			case <-time.After(servers.Patience):
				t.Error("the claim waits still")
			}
			select {
			case <-ended:
			default:
				t.Error("the store looks after its connection still")
			}
			if nc.IsClosed() == given {
				t.Errorf("the connection is closed: %t", nc.IsClosed())
			}
		})
	}
}

// A kept context tells by a weak pointer to it whether anything of its call is kept.
type kept struct{ context.Context }

// TestCallsAreForgotten: nothing of a call is kept with the connection when the call has returned: a store that runs for weeks makes millions of them.
func TestCallsAreForgotten(t *testing.T) {
	s := made(t, connect(t, shared(t).Addr), natsstore.Config{Bucket: fresh()})
	for what, do := range map[string]func(ctx context.Context) error{
		"a claim": func(ctx context.Context) error { _, err := acquire(ctx, s, "a", "x", time.Hour); return err },
		"a list": func(ctx context.Context) (err error) {
			for _, err = range s.List(ctx, "") {
			}
			return err
		},
		"a watch": func(ctx context.Context) error {
			ctx, cancel := context.WithCancel(ctx)
			wake, err := s.Watch(ctx, []string{"a"})
			cancel()
			for range wake { // until it is closed
			}
			return err
		},
	} {
		call := &kept{background}
		if err := do(call); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		left := weak.Make(call)
		servers.Wait(t, what+" to be forgotten", func() bool { runtime.GC(); return left.Value() == nil })
	}
}
