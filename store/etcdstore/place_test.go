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
	p := pair{record: record{Holder: "x", Token: 5, TTL: time.Minute}, revision: 5, taken: 5, lease: of.id}
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
