package etcdstore_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"
)

// TestDeadProcess: when a process is gone without a release, etcd frees its names, reports that to those who watch them, and the next grant reports that the lease
// expired.
func TestDeadProcess(t *testing.T) {
	server := shared(t)
	below := prefix()
	dead, s := server.open(t, below), server.open(t, below)
	first, err := acquire(background, dead, "a", time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := acquire(background, dead, "b", time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := dead.Close(); err != nil { // as a process that dies: nothing is sent
		t.Fatal(err)
	}
	freed, err := s.Watch(background, []string{"a"})
	if err != nil {
		t.Fatal(err)
	}
	outcomes, err := s.Acquire(background, []store.Claim{{Name: "a", Holder: "y", TTL: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	grant := outcomes[0].Grant
	if errors.Is(outcomes[0].Err, store.ErrHeld) { // else it has ended already
		select {
		case _, open := <-freed:
			if !open {
				t.Fatal("the watch has ended")
			}
		case <-time.After(servers.Patience):
			t.Fatal("those who watch the name are not told that it is free")
		}
		grant = await(t, s, "a")
	}
	if grant.Token <= first.Token || grant.ExpiredAge < time.Second {
		t.Errorf("got %+v, want a token above %d, after a lease that has expired", grant, first.Token)
	}
	if outcomes, err := s.Acquire(background, []store.Claim{{Name: "b", Holder: "y", TTL: time.Hour}}); err != nil || !errors.Is(outcomes[0].Err, store.ErrHeld) {
		t.Errorf("the longer lease of the dead process: %v, %v, want that it is held", outcomes, err)
	}
}

// TestRevokedLease: when somebody revokes the lease of etcd, the leases that share it are lost, and the next claim gets a new one.
func TestRevokedLease(t *testing.T) {
	server := shared(t)
	below := prefix()
	s := server.open(t, below)
	grant, err := acquire(background, s, "a", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	server.revoke(t, below, "a")
	if err := extend(background, s, "a", grant.Token, time.Hour); !errors.Is(err, store.ErrLost) {
		t.Errorf("extending it: %v, want that it is lost", err)
	}
	if err := release(background, s, "a", grant.Token); !errors.Is(err, store.ErrLost) {
		t.Errorf("releasing it: %v, want that it is lost", err)
	}
	again, err := acquire(background, s, "a", time.Hour)
	if err != nil || again.Token <= grant.Token || again.ExpiredAge == 0 {
		t.Errorf("acquiring it again: %+v, %v", again, err)
	}
	if err := extend(background, s, "a", again.Token, time.Hour); err != nil {
		t.Errorf("extending that: %v", err)
	}
}

// TestReleaseOfARevokedLease: a release that is made without a look at the name is lost, too, if the lease has ended, whether the name is to linger or not.
func TestReleaseOfARevokedLease(t *testing.T) {
	server := shared(t)
	for _, linger := range []time.Duration{0, time.Minute} {
		below := prefix()
		s := server.open(t, below)
		grant, err := acquire(background, s, "a", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		server.revoke(t, below, "a")
		errs, err := s.Release(background, []store.Release{{Name: "a", Holder: "x", Token: grant.Token, Linger: linger, Retain: store.Forever}})
		if err != nil || !errors.Is(errs[0], store.ErrLost) {
			t.Errorf("with a linger of %v: got %v, %v, want that it is lost", linger, errs, err)
		}
	}
}

// TestExtensionOfARevokedLease: an extension that needs another lease of etcd does not revive a lease whose own has ended.
func TestExtensionOfARevokedLease(t *testing.T) {
	server := shared(t)
	below := prefix()
	s := server.open(t, below)
	grant, err := acquire(background, s, "a", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	server.revoke(t, below, "a")
	if err := extend(background, s, "a", grant.Token, time.Hour); !errors.Is(err, store.ErrLost) {
		t.Errorf("got %v, want that it is lost", err)
	}
}

// TestLapsingSparesTheSuccessor: a process whose lease etcd has ended early, and that ends it itself when it is over, does not end that of the next holder.
func TestLapsingSparesTheSuccessor(t *testing.T) {
	server := shared(t)
	below := prefix()
	client, other := server.fated(t), server.open(t, below)
	s := on(t, client.Client, below)
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	defer open()
	client.gate.Store(&gate)
	if _, err := acquire(background, s, "a", time.Second); err != nil {
		t.Fatal(err)
	}
	server.revoke(t, below, "a")
	grant, err := acquire(background, other, "a", time.Hour)
	open()
	if err != nil {
		t.Fatal(err)
	}
	servers.Wait(t, "the process to end its lease", func() bool { return client.ended.Load() > 0 })
	if _, err := acquire(background, s, "b", 300*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	await(t, other, "b") // leases are ended one after the other: so nothing more comes for the first
	if err := extend(background, other, "a", grant.Token, time.Hour); err != nil {
		t.Errorf("the lease of the next holder: %v", err)
	}
}

// revoke ends the lease of etcd of the session that has a name.
func (s *server) revoke(t testing.TB, below, name string) {
	t.Helper()
	if _, err := s.client.Revoke(background, s.session(t, below, name).Lease()); err != nil {
		t.Fatal(err)
	}
}

// TestLeasesOutlastTheirEtcdLease: leases that are extended live for longer than any lease of etcd was granted for, and those that are not end.
func TestLeasesOutlastTheirEtcdLease(t *testing.T) {
	server := shared(t)
	below := prefix()
	s, other := server.open(t, below), server.open(t, below)
	const ttl = 4 * time.Second
	var kept store.Grant
	extended := func() bool { return extend(background, s, "kept", kept.Token, ttl) == nil }
	for tries := 0; ; tries++ { // a machine that stands still for longer than the TTL loses the lease: then it begins anew
		var err error
		if kept, err = acquire(background, s, "kept", ttl); err != nil {
			t.Fatal(err)
		}
		left, err := acquire(background, s, "left", ttl)
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		for extended() && time.Since(begun) < 3*ttl {
			time.Sleep(ttl / 8)
		}
		if extended() {
			if err := extend(background, s, "left", left.Token, ttl); !errors.Is(err, store.ErrLost) {
				t.Errorf("extending the one that was not: %v, want that it is lost", err)
			}
			break
		}
		if tries == 20 {
			t.Fatal("no lease was kept")
		}
	}
	if outcomes, err := other.Acquire(background, []store.Claim{{Name: "kept", Holder: "y", TTL: ttl}}); err != nil || !errors.Is(outcomes[0].Err, store.ErrHeld) {
		if extended() {
			t.Errorf("another process: %v, %v, want that it is held", outcomes, err)
		}
	}
	await(t, other, "left")
}

// TestLingerOutlivesItsProcess: a name lingers although the process that has released it is gone, and is free afterwards.
func TestLingerOutlivesItsProcess(t *testing.T) {
	server := shared(t)
	below := prefix()
	s, other := server.open(t, below), server.open(t, below)
	releases := make([]store.Release, 2)
	for i, name := range []string{"short", "long"} {
		grant, err := acquire(background, s, name, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		releases[i] = store.Release{Name: name, Holder: "x", Token: grant.Token, Linger: []time.Duration{time.Second, time.Hour}[i], Retain: store.Forever}
	}
	begun := time.Now()
	errs, err := s.Release(background, releases)
	if err := errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if grant := await(t, other, "short"); time.Since(begun) < time.Second || grant.ExpiredAge != 0 {
		t.Errorf("free after %v: %+v; want after a second, and no lease that has expired", time.Since(begun), grant)
	}
	outcomes, err := other.Acquire(background, []store.Claim{{Name: "long", Holder: "y", TTL: time.Hour}})
	if err != nil || !errors.Is(outcomes[0].Err, store.ErrHeld) {
		t.Errorf("the one that lingers longer: %v, %v, want that it is held", outcomes, err)
	}
}

// TestLapsingFails: while a store can write nothing, it keeps no lease of etcd alive for what it cannot end, so that etcd ends it.
func TestLapsingFails(t *testing.T) {
	server := shared(t)
	below := prefix()
	client, other := server.fated(t), server.open(t, below)
	s := on(t, client.Client, below)
	client.broken.Store(true)
	grant, err := acquire(background, s, "a", time.Second)
	if err != nil {
		t.Fatal(err)
	}
	servers.Wait(t, "the store to find that it cannot end the lease", func() bool { return client.refusals.Load() > 0 })
	if again := await(t, other, "a"); again.Token <= grant.Token || again.ExpiredAge == 0 {
		t.Errorf("got %+v, want a grant after a lease that has expired", again)
	}
}
