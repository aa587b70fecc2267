package etcdstore

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"
)

// A name that was handed over to a process whose lease of etcd has ended meanwhile is not granted, also if the process notices that only now.
func TestHandOverToAnEndedSession(t *testing.T) {
	client := clientOf(t, servers.Etcd(t, 1)[0].URL)
	s, ctx := handleOf(t, client), context.Background()
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
	for _, test := range []struct {
		what   string
		change func()
	}{
		{"after its end", func() {}},
		{"when its end is known", func() { of.keptUntil(time.Now().Add(time.Hour)); of.gone = true }},
		{"when it was forgotten after that", func() { delete(s.sessions, of.name) }},
	} {
		s.mu.Lock()
		test.change()
		s.mu.Unlock()
		var held *store.HeldError
		if grant, _, err := s.inherit(ctx, "ended", p); !errors.As(err, &held) || held.Record.Name != "ended" ||
			held.Record.Left <= 0 || errors.Is(err, store.ErrUnknown) || grant.Token != 0 {
			t.Errorf("%s: %+v, %v, want that the caller calls again", test.what, grant, err)
		}
	}
}

// Releases that hand over names with large states are sent in as many requests as etcd takes: each state is in the record and in the note.
func TestHandOversFitIntoTheirRequest(t *testing.T) {
	s := &Store{}
	s.size.Store(mostNames)
	heir := ticket{Holder: "heir", TTL: time.Hour, Inbox: "inbox", Session: "1.x", Lease: 1, Revision: 5}
	tasks := make([]*task, 20)
	for i := range tasks {
		next := record{Holder: heir.Holder, State: make([]byte, store.MaxState), TTL: heir.TTL, Session: heir.Session}
		tasks[i] = &task{name: "name", change: &change{record: &next, frees: true, line: []ticket{heir, heir}}}
	}
	n, size := s.fitting(tasks), 0
	for _, of := range tasks[:n] {
		value, err := of.change.record.encode()
		if err != nil {
			t.Fatal(err)
		}
		told, err := json.Marshal(note{*of.change.record, of.change.line[1:]})
		if err != nil {
			t.Fatal(err)
		}
		size += len(value) + len(told)
	}
	if n < 2 || size > mostBytes {
		t.Errorf("%d names with %d bytes go into one request, want some, with %d at most", n, size, mostBytes)
	}
}

// clientOf returns a client of an etcd.
func clientOf(t *testing.T, url string, options ...grpc.DialOption) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{url}, DialTimeout: servers.Patience, Logger: zap.NewNop(), DialOptions: options})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// handleOf returns a handle on the records of an etcd, as a process has one.
func handleOf(t *testing.T, client *clientv3.Client) *Store {
	t.Helper()
	s, err := New(client, Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// twoHandles returns a client of an etcd, and two handles on its records, as two processes would have them.
func twoHandles(t *testing.T, url string, options ...grpc.DialOption) (client *clientv3.Client, a, b *Store) {
	t.Helper()
	client = clientOf(t, url, options...)
	return client, handleOf(t, client), handleOf(t, client)
}

// takenBy has a holder take the name that these tests are about.
func takenBy(t *testing.T, s *Store, holder string) store.Grant {
	t.Helper()
	out, err := s.Acquire(context.Background(), []store.Claim{{Name: "name", Holder: holder, TTL: time.Hour}})
	if err != nil || out[0].Err != nil {
		t.Fatal(out, err)
	}
	return out[0].Grant
}

// hasWaited calls Queue until a handle has a place, and no longer.
func hasWaited(t *testing.T, client *clientv3.Client, s *Store, c store.Claim) {
	t.Helper()
	ctx := context.Background()
	calling, leave := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { _, _, err := s.Queue(calling, c); ended <- err }()
	key := s.keys.ticket(c.Name, c.Holder)
	written := int64(0)
	servers.Wait(t, "a place", func() bool {
		reply, err := client.Get(ctx, key)
		if err != nil || reply.Count != 1 {
			return false
		}
		written = reply.Kvs[0].ModRevision
		return true
	})
	servers.Wait(t, "the reply of that", func() bool { return s.height.high.Load() >= written }) // not that of the request before it, which has seen the name, too
	leave()
	if err := <-ended; !errors.Is(err, store.ErrHeld) {
		t.Fatal(err)
	}
}

// A name that was handed over between two calls of a waiter, which no watch has reported, was had before the second one.
func TestHandedOverUnseen(t *testing.T) {
	client, a, b := twoHandles(t, servers.Etcd(t, 1)[0].URL)
	ctx := context.Background()
	claim := store.Claim{Name: "name", Holder: "b", TTL: time.Hour}
	first := takenBy(t, a, "a")
	hasWaited(t, client, b, claim)
	b.ticketGone(placeKey{"name", "b"}) // nobody hears the note
	if errs, err := a.Release(ctx, []store.Release{{Name: "name", Holder: "a", Token: first.Token}}); err != nil || errs[0] != nil {
		t.Fatal(errs, err)
	}
	grant, after, err := b.Queue(ctx, claim)
	if err != nil || grant.Token <= first.Token || after >= 0 {
		t.Errorf("granted %+v after %v, %v, want a lease that the holder had before", grant, after, err)
	}
}

// A release that hands over to the holder that releases, which waits still, ends the lease that was released, and not that which follows it: else nobody would end that.
func TestHandOverToTheSameHolder(t *testing.T) {
	var heard atomic.Pointer[func()]
	client, a, b := twoHandles(t, servers.Etcd(t, 1)[0].URL, grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		err := invoke(ctx, method, request, reply, conn, options...)
		if txn, is := request.(*etcdserverpb.TxnRequest); is && strings.Contains(txn.String(), "i/") && reply.(*etcdserverpb.TxnResponse).Succeeded { //nolint:forcetypeassert // of a transaction
			if wait := heard.Load(); wait != nil {
				(*wait)()
			}
		}
		return err
	}))
	ctx := context.Background()
	takenBy(t, a, "a")
	hasWaited(t, client, b, store.Claim{Name: "name", Holder: "b", TTL: time.Hour})
	a.mu.Lock()
	of := a.held["name"].session
	a.mu.Unlock()
	if _, err := client.Revoke(ctx, of.id); err != nil {
		t.Fatal(err)
	}
	grant := takenBy(t, b, "b") // it does not look at the queue
	next := func() *holding {
		b.mu.Lock()
		defer b.mu.Unlock()
		if h := b.held["name"]; h != nil && h.token > grant.Token {
			return h
		}
		return nil
	}
	wait := func() { servers.Wait(t, "the note", func() bool { return next() != nil }) }
	heard.Store(&wait)
	if errs, err := b.Release(ctx, []store.Release{{Name: "name", Holder: "b", Token: grant.Token}}); err != nil || errs[0] != nil {
		t.Fatal(errs, err)
	}
	if next() == nil {
		t.Error("nobody counts the time of the lease that was handed over")
	}
}

// A cut stream ends the watch of the inbox, which is its first, before it tells that the next one has begun.
type cutStream struct {
	grpc.ClientStream
	lost func() bool // what followed the end of the first is done

	next *etcdserverpb.WatchResponse
	cut  bool
}

func (s *cutStream) RecvMsg(reply any) error {
	r := reply.(*etcdserverpb.WatchResponse) //nolint:forcetypeassert // of the only stream
	if next := s.next; next != nil {
		for !s.lost() && s.Context().Err() == nil {
			time.Sleep(time.Millisecond)
		}
		s.next = nil
		r.Header, r.WatchId, r.Created = next.Header, next.WatchId, next.Created
		return nil
	}
	err := s.ClientStream.RecvMsg(reply)
	if err == nil && r.Created && r.WatchId != 0 && !s.cut {
		s.cut, s.next = true, &etcdserverpb.WatchResponse{Header: r.Header, WatchId: r.WatchId, Created: true}
		r.WatchId, r.Created, r.Canceled, r.CancelReason = 0, false, true, "a test"
	}
	return err
}

// A waiter whose watch of what is handed over ends before it has its place hears of that all the same.
func TestInboxEndsBeforeThereIsAPlace(t *testing.T) {
	url := servers.Etcd(t, 1)[0].URL
	var b *Store
	a := handleOf(t, clientOf(t, url))
	b = handleOf(t, clientOf(t, url, grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, next grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) {
		stream, err := next(ctx, desc, conn, method, options...)
		if err != nil || method != "/etcdserverpb.Watch/Watch" {
			return stream, err
		}
		return &cutStream{ClientStream: stream, lost: func() bool { return !b.inbox.watch.isOpen() }}, nil
	})))
	ctx := t.Context()
	first := takenBy(t, a, "a")
	granted := make(chan error, 1)
	go func() {
		err := store.ErrHeld
		for errors.Is(err, store.ErrHeld) && ctx.Err() == nil {
			_, _, err = b.Queue(ctx, store.Claim{Name: "name", Holder: "b", TTL: time.Hour})
		}
		granted <- err
	}()
	key := b.keys.ticket("name", "b")
	servers.Wait(t, "a place", func() bool {
		reply, err := a.clients.(given).client.Get(ctx, key)
		return err == nil && reply.Count == 1
	})
	if errs, err := a.Release(ctx, []store.Release{{Name: "name", Holder: "a", Token: first.Token}}); err != nil || errs[0] != nil {
		t.Fatal(errs, err)
	}
	select {
	case err := <-granted:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(servers.Patience):
		t.Error("the waiter has not heard that it has the name")
	}
}

// TestPlaceThatIsAskedForAgain: a place whose ticket or session has ended is written again, one that sees the name taken counts anew for how long it is free, and who has the name needs none.
func TestPlaceThatIsAskedForAgain(t *testing.T) {
	client, a, b := twoHandles(t, servers.Etcd(t, 1)[0].URL)
	ctx := context.Background()
	claim := store.Claim{Name: "name", Holder: "b", TTL: time.Hour}
	first := takenBy(t, a, "a")
	at := b.enter(claim)
	key := b.keys.ticket("name", "b")
	stands := func(what string) {
		t.Helper()
		p, mine, _, err := b.stand(ctx, claim, at)
		if err != nil || mine || !p.taken {
			t.Errorf("%s: %+v, it is the waiter's: %v, %v", what, p, mine, err)
		}
		if reply, err := client.Get(ctx, key); err != nil || reply.Count != 1 || clientv3.LeaseID(reply.Kvs[0].Lease) != at.session.id {
			t.Errorf("%s: %+v, %v, want a ticket in the session of the place", what, reply, err)
		}
	}
	stands("at first")
	b.inbox.mu.Lock()
	at.freed = time.Now().Add(-grace)
	b.inbox.mu.Unlock()
	if stands("again"); !b.seenFree(at).IsZero() {
		t.Error("it counts for how long the name was free before it was taken")
	}
	if _, err := client.Delete(ctx, key); err != nil {
		t.Fatal(err)
	}
	stands("when its ticket is gone")
	ended := at.session
	if _, err := client.Revoke(ctx, ended.id); err != nil {
		t.Fatal(err)
	}
	if stands("when its session has ended"); at.session == ended || ended.names != 0 {
		t.Errorf("%d names are attached to the session that has ended", ended.names)
	}
	if errs, err := a.Release(ctx, []store.Release{{Name: "name", Holder: "a", Token: first.Token}}); err != nil || errs[0] != nil {
		t.Fatal(errs, err)
	}
	if _, err := b.read(ctx, []string{"name"}); err != nil {
		t.Fatal(err)
	}
	p, mine, _, err := b.stand(ctx, claim, at)
	if err != nil || !mine || p.record.Holder != "b" || at.session != nil {
		t.Errorf("when it was handed over: %+v, it is the waiter's: %v, %v; its place is in the session %+v", p, mine, err, at.session)
	}
}

// TestHandedOverToACallThatFails: what was handed over to a place while a call of it fails is granted by that call.
func TestHandedOverToACallThatFails(t *testing.T) {
	var fails atomic.Bool
	client, a, b := twoHandles(t, servers.Etcd(t, 1)[0].URL, grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		if txn, is := request.(*etcdserverpb.TxnRequest); is && fails.Load() && strings.Contains(txn.String(), "waiting") {
			return status.Error(codes.Unavailable, "a test")
		}
		return invoke(ctx, method, request, reply, conn, options...)
	}))
	ctx := context.Background()
	claim := store.Claim{Name: "name", Holder: "b", TTL: time.Hour}
	takenBy(t, a, "a")
	hasWaited(t, client, b, claim)
	b.inbox.mu.Lock()
	at := b.inbox.places[placeKey{"name", "b"}]
	handed := pair{record: record{Holder: "b", Token: 5, TTL: time.Hour, Session: at.session.name}, revision: 5, taken: true}
	at.handed = &handed
	b.inbox.mu.Unlock()
	fails.Store(true)
	grant, after, err := b.Queue(ctx, claim)
	if err != nil || grant.Token != 5 || after < 0 {
		t.Errorf("granted %+v after %v, %v, want what was handed over", grant, after, err)
	}
	if b.holdingOf("name", handed) == nil {
		t.Error("nobody counts the time of the lease")
	}
	if grant, _, err := b.Queue(ctx, claim); !errors.Is(err, store.ErrUnknown) {
		t.Errorf("the next call, to which nothing was handed over: %+v, %v", grant, err)
	}
}

// TestExtensionByAnotherHandle: an extension by a handle that has seen a lease long ago does not end it before what the
// handle that has it may have promised meanwhile, which is not written.
func TestExtensionByAnotherHandle(t *testing.T) {
	_, a, b := twoHandles(t, servers.Etcd(t, 1)[0].URL)
	grant := takenBy(t, a, "a")
	ctx := context.Background()
	if out, err := b.Acquire(ctx, []store.Claim{{Name: "name", Holder: "b", TTL: time.Hour}}); err != nil || !errors.Is(out[0].Err, store.ErrHeld) {
		t.Fatal(out, err)
	}
	seen, _ := b.sights.of("name")
	seen.at = seen.at.Add(-seen.record.TTL) // long ago
	b.sights.mu.Lock()
	b.sights.put("name", seen)
	b.sights.mu.Unlock()
	before := time.Now()
	extension := []store.Extension{{Name: "name", Holder: "a", Token: grant.Token, TTL: store.MinTTL}}
	if errs, err := b.Extend(ctx, extension); err != nil || errs[0] != nil {
		t.Fatal(errs, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if until := b.held["name"].until; until.Before(before.Add(seen.record.TTL)) {
		t.Errorf("it ends after %v, want at least %v", until.Sub(before), seen.record.TTL)
	}
}

// TestPlaceThatCannotBeAskedForAgain: a place whose call has seen that another session has the name, and has failed
// before it asked again, has its ticket still. If its holder cannot leave, the session of that ends: else the name
// would be handed over to the ticket, and nobody would end that lease while other names keep the session.
func TestPlaceThatCannotBeAskedForAgain(t *testing.T) {
	var b *Store
	var asked, cut atomic.Bool
	calling, giveUp := context.WithCancel(context.Background())
	url := servers.Etcd(t, 1)[0].URL
	client := clientOf(t, url)
	a, c := handleOf(t, client), handleOf(t, client)
	b = handleOf(t, clientOf(t, url, grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		if cut.Load() {
			return status.Error(codes.Unavailable, "a test")
		}
		err := invoke(ctx, method, request, reply, conn, options...)
		if txn, is := request.(*etcdserverpb.TxnRequest); is && asked.Load() && strings.Contains(txn.String(), "waiting") {
			asked.Store(false)
			b.Suspend() // the session has to be renewed first,
			giveUp()    // and the caller does not wait for that
		}
		return err
	})))
	ctx, claim := context.Background(), store.Claim{Name: "name", Holder: "b", TTL: time.Hour}
	takenBy(t, a, "a")
	if out, err := b.Acquire(ctx, []store.Claim{{Name: "keeps the session", Holder: "b", TTL: time.Hour}}); err != nil || out[0].Err != nil {
		t.Fatal(out, err)
	}
	hasWaited(t, client, b, claim)
	b.mu.Lock()
	of := b.held["keeps the session"].session
	b.mu.Unlock()
	a.mu.Lock()
	ended := a.held["name"].session.id
	a.mu.Unlock()
	if _, err := client.Revoke(ctx, ended); err != nil {
		t.Fatal(err)
	}
	grant := takenBy(t, c, "c")
	asked.Store(true)
	if _, _, err := b.Queue(calling, claim); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	cut.Store(true)
	if _, err := b.Leave(ctx, "name", "b"); err == nil {
		t.Fatal("it could leave")
	}
	cut.Store(false)
	if errs, err := c.Release(ctx, []store.Release{{Name: "name", Holder: "c", Token: grant.Token}}); err != nil || errs[0] != nil {
		t.Fatal(errs, err)
	}
	now, err := c.read(ctx, []string{"name"})
	if err != nil || now[0].record.Holder != "b" || now[0].record.Session != of.name {
		t.Fatalf("%+v, %v, want that the name was handed over to the ticket", now, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !of.abandoned {
		t.Error("the name was handed over to a place that is forgotten, and its session does not end")
	}
}
