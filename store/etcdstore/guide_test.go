package etcdstore_test

import (
	"context"
	"errors"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/soloist-dev/soloist"
)

// The code of docs/guides/from-etcd.md: a mutex of etcd's own package, and the lock instead of it.

func withMutex(ctx context.Context, etcd *clientv3.Client, closeMonth func(context.Context) error) error {
	session, err := concurrency.NewSession(etcd, concurrency.WithTTL(30))
	if err != nil {
		return err
	}
	defer session.Close()
	mutex := concurrency.NewMutex(session, "/locks/close-month")
	if err := mutex.Lock(ctx); err != nil {
		return err
	}
	defer mutex.Unlock(context.WithoutCancel(ctx))
	return closeMonth(ctx) // nobody ends ctx if the session ends: watch session.Done
}

func insteadOfMutex(ctx context.Context, locks *soloist.Client, closeMonth func(context.Context) error) error {
	return locks.Do(ctx, "close-month", func(ctx context.Context, lease *soloist.Lease) error {
		return closeMonth(ctx) // ctx ends if the lease is lost; lease.Token() goes with the writes
	})
}

// TestGuideFromEtcd runs the code of the guide against a server.
func TestGuideFromEtcd(t *testing.T) {
	s := shared(t)
	locks, err := soloist.New(s.open(t, prefix()), soloist.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	ran := 0
	closeMonth := func(context.Context) error { ran++; return nil }
	if err := errors.Join(withMutex(background, s.client, closeMonth), insteadOfMutex(background, locks, closeMonth)); err != nil || ran != 2 {
		t.Errorf("%d of 2 ran: %v", ran, err)
	}
}
