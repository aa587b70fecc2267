package etcdstore

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"
)

// TestFullDatabaseEndsNoOtherLease: while the database of etcd is full, nobody can have another lease of etcd. So neither a lease that cannot be ended, nor a place that cannot be had,
// ends the lease of etcd that other names are attached to. When there is space again, the first of these is free.
func TestFullDatabaseEndsNoOtherLease(t *testing.T) {
	member := servers.Etcd(t, 1, "--quota-backend-bytes", "1000000")[0]
	client, s, other := twoHandles(t, member.URL)
	ctx := context.Background()
	acquire := func(by *Store, name, holder string) (store.Grant, error) {
		t.Helper()
		out, err := by.Acquire(ctx, []store.Claim{{Name: name, Holder: holder, TTL: time.Hour}})
		if err != nil {
			t.Fatal(err)
		}
		return out[0].Grant, out[0].Err
	}
	grants := map[string]store.Grant{}
	for name, by := range map[string]*Store{"kept": s, "over": s, "taken": other} {
		var err error
		if grants[name], err = acquire(by, name, "x"); err != nil {
			t.Fatal(err)
		}
	}
	servers.Wait(t, "the database to be full", func() bool {
		_, err := client.Put(ctx, "fill", strings.Repeat("x", 100_000))
		return err != nil
	})
	extends := func(when string) {
		t.Helper()
		errs, err := s.Extend(ctx, []store.Extension{{Name: "kept", Holder: "x", Token: grants["kept"].Token, TTL: time.Hour}})
		if err = errors.Join(append(errs, err)...); err != nil {
			t.Errorf("%s: an extension of another name: %v", when, err)
		}
	}

	short, stop := context.WithTimeout(ctx, servers.Patience)
	defer stop()
	if _, _, err := s.Queue(short, store.Claim{Name: "taken", Holder: "w", TTL: time.Hour}); !errors.Is(err, store.ErrUnknown) || !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Errorf("a place in a queue: %v, want that the database is full, and an unknown outcome", err)
	}
	extends("after a place could not be had")
	if left, err := s.Leave(ctx, "taken", "w"); left || err != nil {
		t.Errorf("leaving: %v, %v, want that there was no place", left, err)
	}
	extends("after that was left")

	s.mu.Lock()
	h := s.held["over"]
	h.until = time.Now()
	s.mu.Unlock()
	s.endLeases([]end{{h.until, "over", h}})
	extends("after a lease could not be ended")

	if _, err := client.Delete(ctx, "fill"); err != nil {
		t.Fatal(err)
	}
	now, err := client.Get(ctx, "fill")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Compact(ctx, now.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Defragment(ctx, member.URL); err != nil {
		t.Fatal(err)
	}
	if _, err := client.AlarmDisarm(ctx, &clientv3.AlarmMember{}); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.poke()
	s.mu.Unlock()
	servers.Wait(t, "the lease that is over to end", func() bool {
		grant, err := acquire(other, "over", "y")
		if err == nil && (grant.Token <= grants["over"].Token || grant.ExpiredAge == 0) {
			t.Errorf("got %+v after %+v, want a grant after a lease that has expired", grant, grants["over"])
		}
		return err == nil
	})
	extends("when there is space again")
}

// TestLeaseExtendedWhileItIsToBeEnded: a lease that is extended just before the store ends it goes on, with the lease of etcd that it has.
func TestLeaseExtendedWhileItIsToBeEnded(t *testing.T) {
	_, s, other := twoHandles(t, servers.Etcd(t, 1)[0].URL)
	ctx := context.Background()
	out, err := s.Acquire(ctx, []store.Claim{{Name: "a", Holder: "x", TTL: time.Hour}})
	if err == nil {
		err = out[0].Err
	}
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	h := s.held["a"]
	s.mu.Unlock()
	s.endLeases([]end{{h.until, "a", h}})
	s.mu.Lock()
	abandoned, ending, ends := h.session.abandoned, h.ending, len(s.ends)
	s.mu.Unlock()
	if abandoned || ending || ends != 2 {
		t.Errorf("abandoned %v, ending %v, and %d ends, want that the lease goes on, and is looked at again at its end", abandoned, ending, ends)
	}
	if out, err = other.Acquire(ctx, []store.Claim{{Name: "a", Holder: "y", TTL: time.Hour}}); err != nil || !errors.Is(out[0].Err, store.ErrHeld) {
		t.Errorf("another claim: %+v, %v, want that the name is held", out, err)
	}
}

// TestReplyAboutAnEarlierLease: what is heard late of a lease that was released does not replace what is known of the one after it.
func TestReplyAboutAnEarlierLease(t *testing.T) {
	_, s, _ := twoHandles(t, servers.Etcd(t, 1)[0].URL)
	out, err := s.Acquire(context.Background(), []store.Claim{{Name: "a", Holder: "x", TTL: time.Hour}})
	if err == nil {
		err = out[0].Err
	}
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	now := *s.held["a"]
	s.mu.Unlock()
	earlier := now
	earlier.holder, earlier.token, earlier.revision = "w", now.token-2, now.revision-1
	s.hold("a", &earlier)
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.held["a"]; h.holder != "x" || h.token != now.token || h.revision != now.revision || h.session.names != 1 {
		t.Errorf("%+v is held, want %+v", *h, now)
	}
}
