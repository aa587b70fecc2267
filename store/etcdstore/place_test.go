package etcdstore

import (
	"context"
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"
)

// A name that was handed over to a process whose lease of etcd has ended meanwhile is not granted, also if the process notices that only now.
func TestHandOverToAnEndedSession(t *testing.T) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{servers.Etcd(t, 1)[0].URL}, DialTimeout: servers.Patience, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	s, err := New(client, Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	ctx := context.Background()
	of, err := s.session(ctx, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	p := pair{record: record{Holder: "x", Token: 5, TTL: time.Minute, Session: of.name}, revision: 5, taken: true}
	if _, _, err := s.inherit(ctx, "kept", p); err != nil {
		t.Errorf("while the session lasts: %v", err)
	}
	if _, err := client.Revoke(ctx, of.id); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	of.keptUntil(time.Now()) // as far as this process knows
	s.mu.Unlock()
	if grant, _, err := s.inherit(ctx, "ended", p); !errors.Is(err, store.ErrHeld) {
		t.Errorf("after its end: %+v, %v, want that the caller calls again", grant, err)
	}
}

// A name that was handed over between two calls of a waiter, which no watch has reported, was had before the second one.
func TestHandedOverUnseen(t *testing.T) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{servers.Etcd(t, 1)[0].URL}, DialTimeout: servers.Patience, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	var both [2]*Store
	for i := range both {
		if both[i], err = New(client, Config{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = both[i].Close() })
	}
	a, b, ctx := both[0], both[1], context.Background()
	claim := store.Claim{Name: "name", Holder: "b", TTL: time.Hour}
	out, err := a.Acquire(ctx, []store.Claim{{Name: "name", Holder: "a", TTL: time.Hour}})
	if err != nil || out[0].Err != nil {
		t.Fatal(out, err)
	}
	calling, leave := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { _, _, err := b.Queue(calling, claim); ended <- err }()
	key := b.keys.ticket("name", "b")
	servers.Wait(t, "a place", func() bool { reply, err := client.Get(ctx, key); return err == nil && reply.Count == 1 })
	leave()
	if err := <-ended; !errors.Is(err, store.ErrHeld) {
		t.Fatal(err)
	}
	b.ticketGone(placeKey{"name", "b"}) // nobody hears the note
	if errs, err := a.Release(ctx, []store.Release{{Name: "name", Holder: "a", Token: out[0].Grant.Token}}); err != nil || errs[0] != nil {
		t.Fatal(errs, err)
	}
	grant, after, err := b.Queue(ctx, claim)
	if err != nil || grant.Token <= out[0].Grant.Token || after >= 0 {
		t.Errorf("granted %+v after %v, %v, want a lease that the holder had before", grant, after, err)
	}
}
