package etcdstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/etcdstore"
	"github.com/soloist-dev/soloist/test/servers"
)

// inQueue returns how many wait for a name.
func (s *server) inQueue(t testing.TB, below, name string) int64 {
	t.Helper()
	reply, err := s.client.Get(background, below+"n/"+name+"\twaiting\t", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		t.Fatal(err)
	}
	return reply.Count
}

// waiting calls Queue until the name is granted.
func waiting(ctx context.Context, s *etcdstore.Store, name, holder string) <-chan store.Outcome {
	granted := make(chan store.Outcome, 1)
	go func() {
		var out store.Outcome
		for out.Err = store.ErrHeld; errors.Is(out.Err, store.ErrHeld) && ctx.Err() == nil; {
			out.Grant, _, out.Err = s.Queue(ctx, store.Claim{Name: name, Holder: holder, TTL: time.Hour})
		}
		granted <- out
	}()
	return granted
}

// served waits for a grant.
func served(t testing.TB, granted <-chan store.Outcome) store.Grant {
	t.Helper()
	select {
	case out := <-granted:
		if out.Err != nil {
			t.Fatal(out.Err)
		}
		return out.Grant
	case <-time.After(servers.Patience):
		t.Fatal("the name was not handed over")
	}
	panic("unreachable")
}

func releaseOf(t testing.TB, s *etcdstore.Store, name, holder string, token int64) {
	t.Helper()
	errs, err := s.Release(background, []store.Release{{Name: name, Holder: holder, Token: token}})
	if err = errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
}

// TestHandOver counts what it costs that many processes wait for one name: each writes one ticket, and each release is one request; the first one, and one that meets
// a waiter who has left, read the queue. It has a server to itself.
func TestHandOver(t *testing.T) {
	member := servers.Etcd(t, 1)[0]
	server := &server{EtcdServer: member, client: newClient(t, member.URL)}
	t.Cleanup(func() { _ = server.client.Close() })
	below := prefix()
	const waiters, leaves = 6, 3
	handles := make([]*etcdstore.Store, waiters+1)
	for i := range handles {
		handles[i] = server.open(t, below)
	}
	grant, err := acquire(background, handles[0], "name", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	holder, token := "x", grant.Token
	granted := make([]<-chan store.Outcome, waiters+1)
	ctx, leave := context.WithCancel(background)
	defer leave()
	for i := 1; i <= waiters; i++ {
		of := background
		if i == leaves {
			of = ctx
		}
		granted[i] = waiting(of, handles[i], "name", fmt.Sprint("waiter ", i))
		servers.Wait(t, "a place in the queue", func() bool { return server.inQueue(t, below, "name") == int64(i) })
	}
	releasing := handles[0]
	for i := 1; i <= waiters; i++ {
		want := "map[Txn:1]"
		switch i {
		case 1:
			want = "map[Txn:2]"
		case leaves:
			leave()
			<-granted[i]
			if left, err := handles[i].Leave(background, "name", fmt.Sprint("waiter ", i)); !left || err != nil {
				t.Fatal(left, err)
			}
			continue
		case leaves + 1:
			want = "map[Txn:2]"
		}
		if i == 2 { // a state that was left meanwhile changes nothing of what the handle knows of the queue
			extendOf(t, releasing, "name", holder, token, "state")
		}
		var next store.Grant
		cost := server.costs(t, func() {
			releaseOf(t, releasing, "name", holder, token)
			next = served(t, granted[i])
		})
		delete(cost, "LeaseKeepAlive")
		delete(cost, "proposals")
		if fmt.Sprint(cost) != want || next.Token <= token {
			t.Errorf("the release before waiter %d costs %v and grants the token %d, want %s and a token above %d", i, cost, next.Token, want, token)
		}
		releasing, holder, token = handles[i], fmt.Sprint("waiter ", i), next.Token
	}
	extendOf(t, releasing, "name", holder, token, "another state")
	releaseOf(t, releasing, "name", holder, token)
	if n := server.inQueue(t, below, "name"); n != 0 {
		t.Errorf("%d wait", n)
	}
	left, err := server.client.Get(background, below+"i/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil || left.Count != 0 {
		t.Errorf("%d notes are left, %v", left.Count, err)
	}
}

// extendOf extends a lease by an hour, and leaves a state.
func extendOf(t testing.TB, s store.Store, name, holder string, token int64, state string) {
	t.Helper()
	errs, err := s.Extend(background, []store.Extension{{Name: name, Holder: holder, Token: token, TTL: time.Hour, State: []byte(state)}})
	if err = errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
}

// ticket writes the place of a process that is stopped, and returns its lease of etcd.
func (s *server) ticket(t testing.TB, below, name, value string) clientv3.LeaseID {
	t.Helper()
	lease, err := s.client.Grant(background, 3600)
	if err != nil {
		t.Fatal(err)
	}
	of := fmt.Sprintf("%x.stopped", lease.ID)
	for key, value := range map[string]string{below + "s/" + of: "", below + "n/" + name + "\twaiting\tstopped": strings.ReplaceAll(value, "SESSION", of)} {
		if _, err := s.client.Put(background, key, value, clientv3.WithLease(lease.ID)); err != nil {
			t.Fatal(err)
		}
	}
	return lease.ID
}

// TestStoppedWaiter: the first in the queue does nothing. A name that is free is left to it for a second. A name that was handed over to it is free when etcd has ended its lease.
func TestStoppedWaiter(t *testing.T) {
	server := shared(t)
	below := prefix()
	a, b := server.open(t, below), server.open(t, below)
	lease := server.ticket(t, below, "name", `{"ttl_ns":60000000000,"inbox":"stopped","session":"SESSION"}`)
	const ttl = 300 * time.Millisecond
	begin := time.Now()
	if _, err := acquire(background, a, "name", ttl); err != nil { // and it ends
		t.Fatal(err)
	}
	grant := served(t, waiting(background, b, "name", "b"))
	if took := time.Since(begin); took < ttl+time.Second {
		t.Errorf("the name was granted after %v, want that it is left to the first for a second after %v", took, ttl)
	}
	releaseOf(t, b, "name", "b", grant.Token)
	out, err := a.Acquire(background, []store.Claim{{Name: "name", Holder: "x", TTL: time.Hour}})
	if err != nil || !errors.Is(out[0].Err, store.ErrHeld) || server.inQueue(t, below, "name") != 0 {
		t.Fatalf("got %v, %v, want that the stopped process has the name", out, err)
	}
	next := waiting(background, a, "name", "a")
	servers.Wait(t, "a place in the queue", func() bool { return server.inQueue(t, below, "name") == 1 })
	if _, err := server.client.Revoke(background, lease); err != nil {
		t.Fatal(err)
	}
	if got := served(t, next); got.Token <= grant.Token || got.ExpiredAge == 0 {
		t.Errorf("got %+v, want a token above %d, after a lease that has expired", got, grant.Token)
	}
}

// TestKilledWaiters: of waiters that are killed before their turn and after it, nothing is left, neither places nor notes, and the name can be had again each time.
func TestKilledWaiters(t *testing.T) {
	server := shared(t)
	below := prefix()
	a := server.open(t, below)
	notes := func() int64 {
		t.Helper()
		reply, err := server.client.Get(background, below+"i/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil {
			t.Fatal(err)
		}
		return reply.Count
	}
	killed := func(lease clientv3.LeaseID) {
		t.Helper()
		if _, err := server.client.Revoke(background, lease); err != nil {
			t.Fatal(err)
		}
	}
	last := int64(0)
	for i := range 10 {
		grant := served(t, waiting(background, a, "name", "x"))
		if grant.Token <= last {
			t.Fatalf("the token %d after %d", grant.Token, last)
		}
		lease := server.ticket(t, below, "name", `{"ttl_ns":60000000000,"inbox":"killed","session":"SESSION"}`)
		if i%2 == 0 {
			killed(lease)
		}
		releaseOf(t, a, "name", "x", grant.Token)
		if got, want := notes(), int64(i%2); got != want {
			t.Fatalf("after the release %d there are %d notes, want %d", i, got, want)
		}
		if i%2 == 1 {
			killed(lease)
		}
		if got := notes() + server.inQueue(t, below, "name"); got != 0 {
			t.Fatalf("a killed waiter has left %d places and notes", got)
		}
		last = grant.Token
	}
}

// TestRecordDeletedWhileOthersWait: a record that somebody deletes by hand frees its name for those who wait, too, although the process that had it goes on; and who takes it
// then without waiting is followed by them, also if it dies.
func TestRecordDeletedWhileOthersWait(t *testing.T) {
	for _, taken := range []bool{false, true} {
		t.Run(fmt.Sprint("taken ", taken), func(t *testing.T) {
			server := shared(t)
			below := prefix()
			a, b, c := server.open(t, below), server.open(t, below), server.open(t, below)
			for _, name := range []string{"name", "another"} {
				if _, err := acquire(background, a, name, time.Hour); err != nil {
					t.Fatal(err)
				}
			}
			ctx, stop := context.WithCancel(background)
			waits := waiting(ctx, b, "name", "b")
			servers.Wait(t, "a place in the queue", func() bool { return server.inQueue(t, below, "name") == 1 })
			stop()
			<-waits
			if _, err := server.client.Delete(background, below+"n/name\trecord"); err != nil {
				t.Fatal(err)
			}
			if !taken {
				served(t, waiting(background, b, "name", "b"))
				return
			}
			if _, err := acquire(background, c, "name", time.Hour); err != nil {
				t.Fatal(err)
			}
			waits = waiting(background, b, "name", "b")
			server.revoke(t, below, "name") // as etcd does when its process has died
			served(t, waits)
		})
	}
}

// TestForeignTicket: what something else has written into a queue holds up nobody.
func TestForeignTicket(t *testing.T) {
	server := shared(t)
	below := prefix()
	s := server.open(t, below)
	server.ticket(t, below, "name", "{}")
	for range 2 {
		grant, err := acquire(background, s, "name", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if err := release(background, s, "name", grant.Token); err != nil {
			t.Fatal(err)
		}
	}
	if n := server.inQueue(t, below, "name"); n != 0 {
		t.Errorf("%d wait", n)
	}
}

// TestUnknownPlace: after a request to wait that was not answered, the holder has one place when it asks again, whatever has become of the request.
func TestUnknownPlace(t *testing.T) {
	for _, carried := range []bool{false, true} {
		t.Run(fmt.Sprint("carried out ", carried), func(t *testing.T) {
			server := shared(t)
			below := prefix()
			fated := server.fated(t)
			a, b := server.open(t, below), on(t, fated.Client, below)
			grant, err := acquire(background, a, "name", time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			fated.next.Store(&fate{carried: carried, err: status.Error(codes.Unavailable, "transport is closing")})
			if _, _, err := b.Queue(background, store.Claim{Name: "name", Holder: "b", TTL: time.Hour}); !errors.Is(err, store.ErrUnknown) {
				t.Fatalf("got %v, want that the outcome is unknown", err)
			}
			next := waiting(background, b, "name", "b")
			servers.Wait(t, "a place in the queue", func() bool { return server.inQueue(t, below, "name") == 1 })
			releaseOf(t, a, "name", "x", grant.Token)
			got := served(t, next)
			releaseOf(t, b, "name", "b", got.Token)
			if n := server.inQueue(t, below, "name"); n != 0 {
				t.Errorf("%d wait", n)
			}
			if _, err := acquire(background, a, "name", time.Hour); err != nil {
				t.Error(err)
			}
		})
	}
}

// A waiter whose store is closed meanwhile keeps its place until etcd ends that: what becomes of it is unknown, for the next release hands the name over to it.
func TestWaiterOfAClosedStore(t *testing.T) {
	server := shared(t)
	below := prefix()
	a, b := server.open(t, below), server.open(t, below)
	grant := served(t, waiting(background, a, "name", "x"))
	waits := waiting(background, b, "name", "y")
	servers.Wait(t, "a place in the queue", func() bool { return server.inQueue(t, below, "name") == 1 })
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if out := <-waits; !errors.Is(out.Err, store.ErrUnknown) || !errors.Is(out.Err, store.ErrClosed) {
		t.Errorf("the waiter got %+v, want that its outcome is unknown", out)
	}
	releaseOf(t, a, "name", "x", grant.Token)
	if outcomes, err := a.Acquire(background, []store.Claim{{Name: "name", Holder: "z", TTL: time.Hour}}); err != nil || !errors.Is(outcomes[0].Err, store.ErrHeld) {
		t.Errorf("the next claim got %+v, %v, want that the name was handed over", outcomes, err)
	}
}

// TestTicketThatIsWrittenAnew: a release that knows who is next from a note hands over for as long as the waiter has asked for meanwhile, with a new request, and not as before.
func TestTicketThatIsWrittenAnew(t *testing.T) {
	server := shared(t)
	below := prefix()
	a, b, c := server.open(t, below), server.open(t, below), server.open(t, below)
	grant := served(t, waiting(background, a, "name", "a"))
	ticket := func() int64 {
		t.Helper()
		reply, err := server.client.Get(background, below+"n/name\twaiting\tc")
		if err != nil || len(reply.Kvs) == 0 {
			return 0
		}
		return reply.Kvs[0].ModRevision
	}
	next := waiting(background, b, "name", "b")
	servers.Wait(t, "a place in the queue", func() bool { return server.inQueue(t, below, "name") == 1 })
	ctx, stop := context.WithCancel(background)
	defer stop()
	waited := make(chan error, 1)
	go func() {
		_, _, err := c.Queue(ctx, store.Claim{Name: "name", Holder: "c", TTL: 5 * time.Hour})
		waited <- err
	}()
	servers.Wait(t, "a second place", func() bool { return ticket() > 0 })
	releaseOf(t, a, "name", "a", grant.Token)
	grant = served(t, next) // with a note that c is next
	stop()
	if err := <-waited; err == nil {
		t.Fatal("the waiter that has stopped has the name")
	}
	first := ticket()
	last := waiting(background, c, "name", "c") // for an hour
	servers.Wait(t, "the new ticket", func() bool { return ticket() > first })
	releaseOf(t, b, "name", "b", grant.Token)
	if got := served(t, last); got.Token <= grant.Token {
		t.Errorf("the token %d after %d", got.Token, grant.Token)
	}
	outcomes, err := a.Acquire(background, []store.Claim{{Name: "name", Holder: "a", TTL: time.Hour}})
	var held *store.HeldError
	if err != nil || !errors.As(outcomes[0].Err, &held) || held.Record.Holder != "c" || held.Record.Left > 2*time.Hour {
		t.Errorf("got %+v, %v, want that c has the name for an hour", outcomes, err)
	}
}

// TestWaitingForOnesOwnLinger: who has released a name that lingers, and waits for it again, has a place in its queue
// as others have, and another lease of it when it does not linger any more.
func TestWaitingForOnesOwnLinger(t *testing.T) {
	server, below := shared(t), prefix()
	s := server.open(t, below)
	for _, by := range []*etcdstore.Store{s, server.open(t, below)} {
		grant, begun := await(t, s, "a"), time.Now()
		errs, err := s.Release(background, []store.Release{{Name: "a", Holder: "y", Token: grant.Token,
			Linger: time.Second, Retain: store.Forever}})
		if err = errors.Join(append(errs, err)...); err != nil {
			t.Fatal(err)
		}
		got := served(t, waiting(background, by, "a", "y"))
		if got.Token <= grant.Token || got.ExpiredAge != 0 || time.Since(begun) < time.Second {
			t.Errorf("got %+v after %v, want a token above %d after a second", got, time.Since(begun), grant.Token)
		}
		releaseOf(t, by, "a", "y", got.Token)
	}
	f := &field{T: t, server: server, below: prefix(), other: s}
	f.s = server.open(t, f.below)
	f.take()
	if err := errors.Join(f.releases(time.Hour), f.stand()); err != nil {
		t.Fatal(err)
	}
	if n := server.inQueue(t, f.below, "a"); n != 1 {
		t.Errorf("%d wait while the name lingers, want one", n)
	}
}

// TestNameThatChangesAllTheTime: who cannot get a place because somebody changes the record between any two requests is
// told that the name is held, and when to ask again.
func TestNameThatChangesAllTheTime(t *testing.T) {
	server, below := shared(t), prefix()
	client, other := server.fated(t), server.open(t, below)
	grant, err := acquire(background, other, "name", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	s := on(t, client.Client, below)
	if _, err := claimed(t, s, "another"); err != nil { // there is a session
		t.Fatal(err)
	}
	var conflict fate
	times := int64(0)
	conflict.then = func(carryOut func()) {
		times++
		client.next.Store(&conflict)
		errs, err := other.Extend(background, []store.Extension{{Name: "name", Holder: "x", Token: grant.Token,
			TTL: time.Hour, Mark: times}})
		if err = errors.Join(append(errs, err)...); err != nil {
			t.Error(err)
		}
		carryOut()
	}
	client.next.Store(&conflict)
	got, _, err := s.Queue(background, store.Claim{Name: "name", Holder: "b", TTL: time.Hour})
	if held := (*store.HeldError)(nil); !errors.As(err, &held) || held.Record.Name != "name" || held.Record.Left <= 0 ||
		errors.Is(err, store.ErrUnknown) || got.Token != 0 {
		t.Errorf("after %d changes: %+v, %v, want that it is held for a while", times, got, err)
	}
}

// TestTicketOfAHolderThatHasTheName: a ticket that a call has written for a holder that has got the name meanwhile is
// deleted: else the next release would hand over to one who does not wait.
func TestTicketOfAHolderThatHasTheName(t *testing.T) {
	server, below := shared(t), prefix()
	client, a, c := server.fated(t), server.open(t, below), server.open(t, below)
	s := on(t, client.Client, below)
	if _, err := claimed(t, s, "another"); err != nil { // there is a session
		t.Fatal(err)
	}
	f := &field{T: t, server: server, below: below, s: s, other: a}
	f.deleted(a) // so the first ticket is written, although nobody has the name
	var grant store.Grant
	client.next.Store(&fate{carried: true, then: func(func()) {
		client.next.Store(&fate{then: func(carryOut func()) {
			var err error
			if grant, err = acquire(background, c, "a", time.Hour); err != nil {
				t.Error(err)
			}
			carryOut()
		}})
	}})
	got, _, err := s.Queue(background, store.Claim{Name: "a", Holder: "x", TTL: time.Hour})
	if n := server.inQueue(t, below, "a"); err != nil || got.Token != grant.Token || grant.Token == 0 || n != 0 {
		t.Errorf("got %+v, %v, and %d wait, want the lease with the token %d, and that nobody waits", got, err, n,
			grant.Token)
	}
	if err := release(background, c, "a", grant.Token); err != nil {
		t.Fatal(err)
	}
	if _, err := claimed(t, c, "a"); err != nil {
		t.Errorf("after its release: %v", err)
	}
}

// TestTicketThatAFullDatabaseHas: a ticket that was written although the database of etcd is full, as far as it says,
// is kept, and not written once more.
func TestTicketThatAFullDatabaseHas(t *testing.T) {
	server, below := shared(t), prefix()
	client, a := server.fated(t), server.open(t, below)
	s := on(t, client.Client, below)
	grant, err := claimed(t, a, "a")
	if err == nil {
		_, err = claimed(t, s, "another") // there is a session
	}
	if err != nil {
		t.Fatal(err)
	}
	revision := func() int64 {
		t.Helper()
		reply, err := server.client.Get(background, below+"n/a\twaiting\tx")
		if err != nil || len(reply.Kvs) != 1 {
			t.Fatalf("%+v, %v, want a ticket", reply, err)
		}
		return reply.Kvs[0].ModRevision
	}
	if _, err := acquire(background, s, "a", time.Hour); !errors.Is(err, store.ErrHeld) { // it knows who has the name
		t.Fatal(err)
	}
	client.next.Store(&fate{carried: true, err: rpctypes.ErrGRPCNoSpace})
	if _, _, err := s.Queue(background, store.Claim{Name: "a", Holder: "x", TTL: time.Hour}); !errors.Is(err,
		store.ErrUnknown) {
		t.Fatalf("got %v, want an unknown outcome", err)
	}
	first := revision()
	if err := (&field{T: t, server: server, below: below, s: s, other: a}).stand(); err != nil {
		t.Fatal(err)
	}
	if now := revision(); now != first {
		t.Errorf("the ticket of the revision %d was written again, at the revision %d", first, now)
	}
	releaseOf(t, a, "a", "y", grant.Token)
	if got := served(t, waiting(background, s, "a", "x")); got.Token <= grant.Token || got.ExpiredAge != 0 {
		t.Errorf("got %+v, want a token above %d", got, grant.Token)
	}
}

// TestReleaseAfterTheWaitersHaveLeft: a release of a name for which somebody has waited, and nobody waits now, frees
// it, and nothing is left of them.
func TestReleaseAfterTheWaitersHaveLeft(t *testing.T) {
	server, below := shared(t), prefix()
	a, b := server.open(t, below), server.open(t, below)
	f := &field{T: t, server: server, below: below, s: b, other: a}
	for _, by := range []*etcdstore.Store{a, server.open(t, below)} { // who has the name, and another process
		grant, err := claimed(t, a, "a")
		if err != nil {
			t.Fatal(err)
		}
		if err := f.stand(); err != nil {
			t.Fatal(err)
		}
		if left, err := b.Leave(background, "a", "x"); !left || err != nil {
			t.Fatal(left, err)
		}
		releaseOf(t, by, "a", "y", grant.Token)
		all, err := server.client.Get(background, below+"n/a\twaiting", clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil || all.Count != 0 {
			t.Errorf("%d keys are left, %v", all.Count, err)
		}
	}
	if got, err := claimed(t, b, "a"); err != nil || got.ExpiredAge != 0 {
		t.Errorf("the next claim: %+v, %v", got, err)
	}
}
