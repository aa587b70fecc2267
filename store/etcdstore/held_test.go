package etcdstore_test

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/etcdstore"
	"github.com/soloist-dev/soloist/test/servers"
)

// A sessionName is the name of a session, as it is in records.
type sessionName string

// Lease returns the lease of etcd of a session.
func (s sessionName) Lease() clientv3.LeaseID {
	id, _, _ := strings.Cut(string(s), ".")
	n, _ := strconv.ParseUint(id, 16, 64)
	return clientv3.LeaseID(n)
}

// session returns the session that the record of a name names.
func (s *server) session(t testing.TB, below, name string) sessionName {
	t.Helper()
	reply, err := s.client.Get(background, below+"n/"+name+"\trecord")
	if err != nil || len(reply.Kvs) != 1 {
		t.Fatal(reply, err)
	}
	var r struct{ Session sessionName }
	if err := json.Unmarshal(reply.Kvs[0].Value, &r); err != nil || r.Session == "" {
		t.Fatalf("%s: %v", reply.Kvs[0].Value, err)
	}
	return r.Session
}

// claimed claims a name for the holder y.
func claimed(t testing.TB, s store.Store, name string) (store.Grant, error) {
	t.Helper()
	out, err := s.Acquire(background, []store.Claim{{Name: name, Holder: "y", TTL: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	return out[0].Grant, out[0].Err
}

// TestClaimInASessionThatHasEnded: a process that has not noticed yet that etcd has ended its session is granted a name in another one: else the name would be free for all others.
func TestClaimInASessionThatHasEnded(t *testing.T) {
	server, below := shared(t), prefix()
	s, other := server.open(t, below), server.open(t, below)
	if _, err := acquire(background, s, "a", time.Hour); err != nil {
		t.Fatal(err)
	}
	server.revoke(t, below, "a")
	grant, err := acquire(background, s, "b", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := claimed(t, other, "b"); !errors.Is(err, store.ErrHeld) {
		t.Errorf("another process got %+v, %v while the name is held with the token %d", got, err, grant.Token)
	}
	if got, err := claimed(t, other, "a"); err != nil || got.ExpiredAge == 0 {
		t.Errorf("the name of the session that has ended: %+v, %v, want a grant after a lease that has expired", got, err)
	}
}

// TestSessionThatIsThereAgain: a name is not granted while its session is there, whatever a process remembers of that. Only a restored snapshot brings a session back.
func TestSessionThatIsThereAgain(t *testing.T) {
	server, below := shared(t), prefix()
	s, other := server.open(t, below), server.open(t, below)
	if _, err := acquire(background, s, "a", time.Hour); err != nil {
		t.Fatal(err)
	}
	key := below + "s/" + string(server.session(t, below, "a"))
	server.revoke(t, below, "a")
	n := 0
	for r, err := range other.List(background, "a") {
		n++
		if err != nil || !r.Free() {
			t.Errorf("%+v, %v, want that the name is free", r, err)
		}
	}
	if n != 1 {
		t.Errorf("%d records, want 1", n)
	}
	again := server.session(t, below, "a").Lease()
	if _, err := etcdserverpb.NewLeaseClient(server.client.ActiveConnection()).LeaseGrant(background, &etcdserverpb.LeaseGrantRequest{ID: int64(again), TTL: 600}); err != nil {
		t.Fatal(err)
	}
	if _, err := server.client.Put(background, key, "", clientv3.WithLease(again)); err != nil {
		t.Fatal(err)
	}
	if got, err := claimed(t, other, "a"); !errors.Is(err, store.ErrHeld) {
		t.Errorf("got %+v, %v while the session is there", got, err)
	}
	if _, err := server.client.Delete(background, key); err != nil {
		t.Fatal(err)
	}
	if _, err := claimed(t, other, "a"); err != nil {
		t.Error(err)
	}
}

// before returns a client that calls a function before each transaction that may write.
func (s *server) before(t testing.TB, do func()) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{s.URL}, DialTimeout: servers.Patience, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(
			func(ctx context.Context, method string, request, reply any, on *grpc.ClientConn, send grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				if txn, is := request.(*etcdserverpb.TxnRequest); is && len(txn.Compare) > 0 && writes(txn) {
					do()
				}
				return send(ctx, method, request, reply, on, opts...)
			})},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// TestSessionIsNotMadeAgain: a process that changes names of another one writes the key of its session, and never one that is not there: with it all the names that the session had would be
// held again.
func TestSessionIsNotMadeAgain(t *testing.T) {
	server, below := shared(t), prefix()
	s := server.open(t, below)
	var releases []store.Release
	for _, name := range []string{"a", "b"} {
		grant, err := acquire(background, s, name, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		releases = append(releases, store.Release{Name: name, Holder: "x", Token: grant.Token})
	}
	key := below + "s/" + string(server.session(t, below, "a"))
	remove := sync.OnceFunc(func() {
		if _, err := server.client.Delete(background, key); err != nil {
			t.Error(err)
		}
	})
	errs, err := on(t, server.before(t, remove), below).Release(background, releases)
	if err != nil || !errors.Is(errs[0], store.ErrLost) || !errors.Is(errs[1], store.ErrLost) {
		t.Errorf("the releases of leases whose session has ended: %v, %v, want that they are lost", errs, err)
	}
	if reply, err := server.client.Get(background, key); err != nil || reply.Count > 0 {
		t.Errorf("the session is there again: %v, %v", reply, err)
	}
	if err := extend(background, s, "a", releases[0].Token, time.Hour); !errors.Is(err, store.ErrLost) {
		t.Errorf("an extension: %v, want that the lease is lost", err)
	}
}

// TestReleasedMeanwhile: a grant says that the lease before it has expired only of the last one, also if the claim has seen the end of an earlier one first.
func TestReleasedMeanwhile(t *testing.T) {
	server, below := shared(t), prefix()
	s := server.open(t, below)
	if _, err := acquire(background, s, "name", time.Hour); err != nil {
		t.Fatal(err)
	}
	do := func() {}
	late := on(t, server.before(t, func() { do() }), below)
	if got, err := claimed(t, late, "name"); !errors.Is(err, store.ErrHeld) {
		t.Fatalf("got %+v, %v while the name is held", got, err)
	}
	server.revoke(t, below, "name")
	between := 0
	do = func() { // the name was read, and its lease had expired
		if between++; between > 1 {
			return
		}
		got, err := claimed(t, s, "name")
		if err != nil || got.ExpiredAge == 0 {
			t.Errorf("got %+v, %v, want a grant after a lease that has expired", got, err)
		}
		releaseOf(t, s, "name", "y", got.Token)
	}
	if got, err := claimed(t, late, "name"); err != nil || got.ExpiredAge != 0 || between == 0 {
		t.Errorf("got %+v, %v, want a grant after a release (of %d)", got, err, between)
	}
}

// TestHandOverPassesByAnEndedSession: a name is not handed over to a waiter whose session is not there, although its place is.
func TestHandOverPassesByAnEndedSession(t *testing.T) {
	server, below := shared(t), prefix()
	s := server.open(t, below)
	grant, err := acquire(background, s, "name", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	lease := server.ticket(t, below, "name", `{"ttl_ns":60000000000,"inbox":"stopped","session":"SESSION"}`)
	defer func() { _, _ = server.client.Revoke(background, lease) }()
	if _, err := server.client.Delete(background, below+"s/"+strconv.FormatInt(int64(lease), 16)+".stopped"); err != nil {
		t.Fatal(err)
	}
	releaseOf(t, s, "name", "x", grant.Token)
	if got, err := claimed(t, s, "name"); err != nil || got.ExpiredAge != 0 || server.inQueue(t, below, "name") != 0 {
		t.Errorf("got %+v, %v, want that the name was released, and that nobody waits", got, err)
	}
}

// TestWaiterOfADeadHolder: one who waits is granted the name when etcd ends the session that has it, however that came to have it.
func TestWaiterOfADeadHolder(t *testing.T) {
	server := shared(t)
	for how, hold := range map[string]func(t *testing.T, below string, a *etcdstore.Store, wait func()) int64{
		"that claimed it": func(t *testing.T, _ string, a *etcdstore.Store, wait func()) int64 {
			grant, err := acquire(background, a, "name", time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			wait()
			return grant.Token
		},
		"that was handed it": func(t *testing.T, below string, a *etcdstore.Store, wait func()) int64 {
			first, err := acquire(background, server.open(t, below), "name", time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			next := waiting(background, a, "name", "a")
			servers.Wait(t, "a place in the queue", func() bool { return server.inQueue(t, below, "name") == 1 })
			wait()
			releaseOf(t, server.open(t, below), "name", "x", first.Token)
			return served(t, next).Token
		},
		"that went on with it in another session": func(t *testing.T, below string, a *etcdstore.Store, wait func()) int64 {
			grant, err := acquire(background, a, "name", time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			wait()
			if err := extend(background, a, "name", grant.Token, 10*time.Hour); err != nil {
				t.Fatal(err)
			}
			servers.Wait(t, "the key by which waiters hear of the end of the other session", func() bool {
				reply, err := server.client.Get(background, below+"n/name\twaiting")
				return err == nil && reply.Count == 1 && clientv3.LeaseID(reply.Kvs[0].Lease) == server.session(t, below, "name").Lease()
			})
			return grant.Token
		},
	} {
		t.Run(how, func(t *testing.T) {
			below := prefix()
			a, b := server.open(t, below), server.open(t, below)
			var next <-chan store.Outcome
			token := hold(t, below, a, func() {
				before := server.inQueue(t, below, "name")
				next = waiting(background, b, "name", "b")
				servers.Wait(t, "a place in the queue", func() bool { return server.inQueue(t, below, "name") == before+1 })
			})
			server.revoke(t, below, "name")
			if got := served(t, next); got.Token <= token || got.ExpiredAge == 0 {
				t.Errorf("got %+v, want a token above %d, after a lease that has expired", got, token)
			}
		})
	}
}

// TestLargeStateOfADeadHolder: a name whose state is too large to be remembered is waited for, watched, and taken over, as others are.
func TestLargeStateOfADeadHolder(t *testing.T) {
	server, below := shared(t), prefix()
	s, other, third := server.open(t, below), server.open(t, below), server.open(t, below)
	grant, err := acquire(background, s, "name", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	errs, err := s.Extend(background, []store.Extension{{Name: "name", Holder: "x", Token: grant.Token, TTL: time.Hour, State: make([]byte, 2000)}})
	if err = errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got, err := claimed(t, other, "name"); !errors.Is(err, store.ErrHeld) {
			t.Errorf("got %+v, %v while the name is held", got, err)
		}
	}
	woken, err := other.Watch(t.Context(), []string{"name"})
	if err != nil {
		t.Fatal(err)
	}
	next := waiting(background, third, "name", "z")
	servers.Wait(t, "a place in the queue", func() bool { return server.inQueue(t, below, "name") == 1 })
	server.revoke(t, below, "name")
	servers.Wait(t, "who watches to be woken", func() bool { return len(woken) > 0 })
	if got := served(t, next); got.Token <= grant.Token || got.ExpiredAge == 0 || len(got.State) != 2000 {
		t.Errorf("got the token %d and %d bytes after a lease that began %v ago", got.Token, len(got.State), got.ExpiredAge)
	}
	server.revoke(t, below, "name")
	var read *store.DoneError // a claim with such a mark only reads
	out, err := other.Acquire(background, []store.Claim{{Name: "name", Holder: "y", TTL: time.Hour, Mark: -1}})
	if err != nil || !errors.As(out[0].Err, &read) || !read.Record.Free() {
		t.Errorf("the name of a dead holder is seen as %+v, %v, want that it is free", read, err)
	}
	if got, err := claimed(t, other, "name"); err != nil || got.ExpiredAge == 0 {
		t.Errorf("got the token %d, %v, want a grant after a lease that has expired", got.Token, err)
	}
}

// TestLingerInASessionThatHasEnded: a release does not let a name linger in a session that etcd has ended, which another release has begun.
func TestLingerInASessionThatHasEnded(t *testing.T) {
	server, below := shared(t), prefix()
	s, other := server.open(t, below), server.open(t, below)
	for _, name := range []string{"a", "b"} {
		grant, err := acquire(background, s, name, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		errs, err := s.Release(background, []store.Release{{Name: name, Holder: "x", Token: grant.Token, Linger: time.Hour}})
		if err = errors.Join(append(errs, err)...); err != nil {
			t.Fatal(err)
		}
		if got, err := claimed(t, other, name); !errors.Is(err, store.ErrHeld) {
			t.Errorf("%s: got %+v, %v while the name lingers", name, got, err)
		}
		server.revoke(t, below, name)
		if got, err := claimed(t, other, name); err != nil || got.ExpiredAge != 0 {
			t.Errorf("%s: got %+v, %v, want a grant after a release", name, got, err)
		}
	}
}

// TestAnotherFormat: a record of another version of this package is refused, and says why: such a version may hold the name.
func TestAnotherFormat(t *testing.T) {
	server, below := shared(t), prefix()
	s := server.open(t, below)
	for name, value := range map[string]string{
		"older": `{"holder":"a","ttl_ns":1,"granted":1}`,
		"newer": `{"v":3,"holder":"a","ttl_ns":1,"granted":1,"held":"in a way that is not known"}`,
	} {
		server.put(t, below+"n/"+name+"\trecord", value)
		if got, err := claimed(t, s, name); !errors.Is(err, store.ErrSchema) || !says(err, "another prefix") {
			t.Errorf("%s: got %+v, %v, want an error that names the version", name, got, err)
		}
	}
}

// TestNameThatOthersTakeAllTheTime: a claim that meets a conflict each time is refused, has nothing, and says when to ask again.
func TestNameThatOthersTakeAllTheTime(t *testing.T) {
	server, below := shared(t), prefix()
	client, other := server.fated(t), server.open(t, below)
	late, times := on(t, client.Client, below), 0
	var conflict fate
	conflict.then = func(carryOut func()) {
		times++
		client.next.Store(&conflict)
		if got, err := claimed(t, other, "name"); err != nil {
			t.Error(err)
		} else {
			releaseOf(t, other, "name", "y", got.Token)
		}
		carryOut()
	}
	client.next.Store(&conflict)
	got, err := acquire(background, late, "name", time.Hour)
	if held := (*store.HeldError)(nil); !errors.As(err, &held) || held.Record.Left <= 0 || held.Record.Name != "name" || got.Token != 0 {
		t.Errorf("after %d conflicts: %+v, %v, want that it is held for a while", times, got, err)
	}
	if _, err := claimed(t, other, "name"); err != nil {
		t.Error(err)
	}
}

// TestLingersOfOneBatch: names that are released with one request, and linger for as long, share a lease of etcd: none
// is free before, and all are afterwards. So do those of the next batch.
func TestLingersOfOneBatch(t *testing.T) {
	server, below := shared(t), prefix()
	s, other := server.open(t, below), server.open(t, below)
	const linger = time.Second
	names := []string{"a", "b", "c"}
	for batch := range 2 {
		begun := time.Now()
		releases := make([]store.Release, len(names))
		for i, name := range names {
			grant := await(t, s, name)
			releases[i] = store.Release{Name: name, Holder: "y", Token: grant.Token, Linger: linger,
				Retain: store.Forever}
		}
		sent := time.Now()
		errs, err := s.Release(background, releases)
		quick := time.Since(sent) < linger/16 // for which a lease of etcd is shared
		if err = errors.Join(append(errs, err)...); err != nil {
			t.Fatalf("batch %d: %v", batch, err)
		}
		lease := server.session(t, below, "a").Lease()
		for _, name := range names {
			if got := server.session(t, below, name).Lease(); quick && got != lease {
				t.Errorf("batch %d: %s lingers with the lease %x, want %x", batch, name, got, lease)
			}
		}
		for i, name := range names {
			if got := await(t, other, name); time.Since(begun) < linger || got.Token <= releases[i].Token ||
				got.ExpiredAge != 0 {
				t.Errorf("batch %d: got %+v for %s after %v, want it after %v", batch, got, name, time.Since(begun),
					linger)
			} else {
				releaseOf(t, other, name, "y", got.Token)
			}
		}
	}
}

// TestChoiceThatOthersTakeAllTheTime: a name that was seen free, and that somebody else has got by then, is not chosen;
// the next free one is. When that happens each time, the choice is refused for a while.
func TestChoiceThatOthersTakeAllTheTime(t *testing.T) {
	server := shared(t)
	for _, all := range []bool{false, true} {
		below := prefix()
		client, other := server.fated(t), server.open(t, below)
		s := on(t, client.Client, below)
		if _, err := acquire(background, s, "session", time.Hour); err != nil {
			t.Fatal(err)
		}
		names, times, token := []string{"a", "b", "c"}, 0, int64(0)
		var taken fate
		taken.then = func(carryOut func()) {
			name := names[times%2]
			if times++; all {
				client.next.Store(&taken)
				if token != 0 { // so that one is free each time
					releaseOf(t, other, names[times%2], "y", token)
				}
			}
			got, err := claimed(t, other, name)
			if err != nil {
				t.Errorf("taking %s: %v", name, err)
			}
			token = got.Token
			carryOut()
		}
		client.next.Store(&taken)
		of := names
		if all {
			of = names[:2]
		}
		i, got, err := s.Choose(background, of, store.Claim{Holder: "x", TTL: time.Hour})
		var held *store.HeldError
		switch {
		case all && (!errors.As(err, &held) || held.Record.Name != "a" || held.Record.Left <= 0 || got.Token != 0 ||
			times < 16):
			t.Errorf("after %d times: %d, %+v, %v, want that a is held for a while", times, i, got, err)
		case !all && (err != nil || of[i] != "b" || got.Token == 0 || times != 1):
			t.Errorf("after %d times: %d, %+v, %v, want b", times, i, got, err)
		}
	}
}
