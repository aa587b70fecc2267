package etcdstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"
)

// A fate is what becomes of a transaction that writes, and is not one by which the store ends leases.
type fate struct {
	carried bool // it is carried out
	err     error
	then    func(carryOut func()) // called before the error is returned, with what carries out the transaction, late
}

// A fated client has a fate for its next write.
type fated struct {
	*clientv3.Client
	next     atomic.Pointer[fate]
	look     atomic.Pointer[fate] // of its next extension that has nothing to write
	last     atomic.Pointer[etcdserverpb.TxnRequest]
	broken   atomic.Bool                   // what ends leases that were not extended is not carried out
	full     atomic.Bool                   // nor is it, since the database is full
	refusals atomic.Int64                  // of such requests
	gate     atomic.Pointer[chan struct{}] // they wait until it is closed
	ended    atomic.Int64                  // those that were carried out
	reading  atomic.Pointer[func()]        // called before the next transaction that only reads
}

func (s *server) fated(t testing.TB) *fated {
	t.Helper()
	f := &fated{}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{s.URL}, DialTimeout: servers.Patience, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(f.intercept)},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	f.Client = client
	return f
}

func (f *fated) intercept(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	txn, is := request.(*etcdserverpb.TxnRequest)
	if is {
		f.last.Store(txn)
	}
	if is && f.broken.Load() && (endsLeases(txn) || !writes(txn)) {
		f.refusals.Add(1)
		return status.Error(codes.Unavailable, "transport is closing")
	}
	if is && f.full.Load() && endsLeases(txn) {
		f.refusals.Add(1)
		return rpctypes.ErrGRPCNoSpace
	}
	if is && endsLeases(txn) {
		if gate := f.gate.Load(); gate != nil {
			<-*gate
		}
		defer f.ended.Add(1)
	}
	if is && len(txn.Compare) == 0 && len(txn.Success) > 0 && txn.Success[0].GetRequestRange() != nil {
		if before := f.reading.Swap(nil); before != nil {
			(*before)()
		}
	}
	var fate *fate
	switch {
	case is && writes(txn) && !endsLeases(txn):
		fate = f.next.Swap(nil)
	case is && len(txn.Compare) > 0:
		fate = f.look.Swap(nil)
	}
	if fate == nil {
		return invoke(ctx, method, request, reply, conn, options...)
	}
	if fate.carried {
		if err := invoke(ctx, method, request, reply, conn, options...); err != nil {
			return err
		}
	}
	if fate.then != nil {
		fate.then(func() { _ = invoke(context.WithoutCancel(ctx), method, request, reply, conn, options...) })
	}
	return fate.err
}

// endsLeases reports whether a transaction is that which frees the names of leases that were not extended.
func endsLeases(txn *etcdserverpb.TxnRequest) bool {
	return slices.ContainsFunc(txn.Success, func(op *etcdserverpb.RequestOp) bool {
		if inside := op.GetRequestTxn(); inside != nil {
			return endsLeases(inside)
		}
		put := op.GetRequestPut()
		return put != nil && bytes.HasSuffix(put.Key, []byte("\trecord")) && !bytes.Contains(put.Value, []byte(`"session":`)) && !bytes.Contains(put.Value, []byte(`"released":`))
	})
}

// writes reports whether a transaction may change something.
func writes(txn *etcdserverpb.TxnRequest) bool {
	return slices.ContainsFunc(txn.Success, func(op *etcdserverpb.RequestOp) bool { return op.GetRequestRange() == nil })
}

// fates are what can become of a write, and whether its outcome is known then.
var fates = []struct {
	rule    string
	fate    fate
	unknown bool
	is      error
}{
	{"its connection breaks before it arrives", fate{carried: false, err: status.Error(codes.Unavailable, "transport is closing")}, true, nil},
	{"its connection breaks after it was carried out", fate{carried: true, err: status.Error(codes.Unavailable, "transport is closing")}, true, nil},
	{"it times out, and was carried out", fate{carried: true, err: rpctypes.ErrGRPCTimeout}, true, nil},
	{"it times out, and was not carried out", fate{carried: false, err: rpctypes.ErrGRPCTimeout}, true, nil},
	{"the leader fails meanwhile", fate{carried: true, err: rpctypes.ErrGRPCTimeoutDueToLeaderFail}, true, nil},
	{"the leader is cut off meanwhile", fate{carried: true, err: rpctypes.ErrGRPCTimeoutDueToConnectionLost}, true, nil},
	{"the server stops", fate{carried: true, err: rpctypes.ErrGRPCStopped}, true, nil},
	{"there is no leader", fate{carried: false, err: rpctypes.ErrGRPCNoLeader}, true, nil},
	{"too many requests are under way", fate{carried: false, err: rpctypes.ErrGRPCRequestTooManyRequests}, false, nil},
	{"the database is full, and it was carried out", fate{carried: true, err: rpctypes.ErrGRPCNoSpace}, true, nil},
	{"it is not allowed", fate{carried: false, err: rpctypes.ErrGRPCPermissionDenied}, false, fs.ErrPermission},
	{"nothing was sent", fate{carried: false, err: status.Error(codes.Unavailable, `connection error: desc = "transport: Error while dialing: dial tcp"`)}, false, nil},
	{"its connection is cut", fate{carried: true, err: status.Error(codes.Unavailable, `connection error: desc = "error reading from server: EOF"`)}, true, nil},
	{"the server ends in order, and its connection is cut", fate{carried: true, err: status.Error(codes.Unavailable,
		`closing transport due to: connection error: desc = "error reading from server: EOF", received prior goaway: code: NO_ERROR`)}, true, nil},
}

// TestWhatBecomesOfWrites: an error of a claim tells whether it may have been granted, and a repeated claim returns the grant that the first one got, if it
// got one.
func TestWhatBecomesOfWrites(t *testing.T) {
	server := shared(t)
	below := prefix()
	client, direct := server.fated(t), server.open(t, below)
	s := on(t, client.Client, below)
	for _, test := range fates {
		t.Run(test.rule, func(t *testing.T) {
			if _, err := acquire(background, s, "before "+test.rule, time.Hour); err != nil { // the lease of etcd is there
				t.Fatal(err)
			}
			client.next.Store(&test.fate)
			_, err := acquire(background, s, test.rule, time.Hour)
			if err == nil || errors.Is(err, store.ErrUnknown) != test.unknown || test.is != nil && !errors.Is(err, test.is) {
				t.Errorf("got %v, want an error that is unknown: %v, and %v", err, test.unknown, test.is)
			}
			var first int64
			for r, err := range direct.List(background, test.rule) {
				if err != nil {
					t.Fatal(err)
				}
				first = r.Token
			}
			if carried := first > 0; carried != test.fate.carried {
				t.Fatalf("carried out: %v, want %v", carried, test.fate.carried)
			}
			grant, err := acquire(background, s, test.rule, time.Hour)
			if err != nil || first != 0 && grant.Token != first {
				t.Errorf("again: token %d, %v, want token %d", grant.Token, err, first)
			}
			if err := extend(background, s, test.rule, grant.Token, 2*time.Hour); err != nil {
				t.Errorf("extending it: %v", err)
			}
			if err := release(background, s, test.rule, grant.Token); err != nil {
				t.Errorf("releasing it: %v", err)
			}
		})
	}
}

// TestUnknownReleases: an extension and a release whose replies were lost can be repeated.
func TestUnknownReleases(t *testing.T) {
	server := shared(t)
	client := server.fated(t)
	s := on(t, client.Client, prefix())
	lost := fate{carried: true, err: rpctypes.ErrGRPCTimeout}
	grant, err := acquire(background, s, "a", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for what, do := range map[string]func() error{
		"extension": func() error { return extend(background, s, "a", grant.Token, 2*time.Hour) },
		"release":   func() error { return release(background, s, "a", grant.Token) },
	} {
		if grant, err = acquire(background, s, "a", time.Hour); err != nil {
			t.Fatal(err)
		}
		client.next.Store(&lost)
		if err := do(); !errors.Is(err, store.ErrUnknown) {
			t.Errorf("%s: got %v, want an unknown outcome", what, err)
		}
		if err := do(); err != nil {
			t.Errorf("%s again: %v", what, err)
		}
	}
}

// TestUnknownClaimEnds: a claim whose reply was lost, and which is not repeated, ends after its TTL.
func TestUnknownClaimEnds(t *testing.T) {
	server := shared(t)
	below := prefix()
	client, other := server.fated(t), server.open(t, below)
	s := on(t, client.Client, below)
	client.next.Store(&fate{carried: true, err: rpctypes.ErrGRPCTimeout})
	if _, err := acquire(background, s, "a", time.Second); !errors.Is(err, store.ErrUnknown) {
		t.Fatalf("got %v, want an unknown outcome", err)
	}
	if grant := await(t, other, "a"); grant.ExpiredAge == 0 {
		t.Error("the grant after it does not report that it expired")
	}
}

// TestUnknownClaimBesideALease: a claim whose outcome is unknown, and which was not carried out, keeps this handle from ending no other lease of the name: neither one that another
// caller was granted meanwhile, nor one that is over and could not be ended yet. Other names keep the session.
func TestUnknownClaimBesideALease(t *testing.T) {
	server := shared(t)
	begin := func(t *testing.T) (client *fated, s, other store.Store) {
		below := prefix()
		client = server.fated(t)
		return client, on(t, client.Client, below), server.open(t, below)
	}
	claim := func(s store.Store, ttl time.Duration) error {
		outs, err := s.Acquire(background, []store.Claim{{Name: "a", Holder: "claims", TTL: ttl}})
		if err == nil {
			err = outs[0].Err
		}
		return err
	}
	t.Run("granted meanwhile", func(t *testing.T) {
		client, s, other := begin(t)
		var granted error
		client.next.Store(&fate{err: rpctypes.ErrGRPCTimeout, then: func(func()) { _, granted = acquire(background, s, "a", time.Second) }})
		if err := claim(s, time.Hour); !errors.Is(err, store.ErrUnknown) || granted != nil {
			t.Fatalf("got %v, want an unknown outcome; and %v", err, granted)
		}
		keep(t, s, "b", time.Second)
		if next := await(t, other, "a"); next.ExpiredAge == 0 {
			t.Errorf("got %+v, want the grant after a lease that has expired", next)
		}
	})
	t.Run("over", func(t *testing.T) {
		client, s, other := begin(t)
		client.full.Store(true)
		if _, err := acquire(background, s, "a", time.Second); err != nil {
			t.Fatal(err)
		}
		servers.Wait(t, "an end that is refused", func() bool { return client.refusals.Load() > 0 })
		client.next.Store(&fate{err: rpctypes.ErrGRPCNoSpace})
		if err := claim(s, time.Second); !errors.Is(err, store.ErrUnknown) {
			t.Fatalf("got %v, want an unknown outcome", err)
		}
		keep(t, s, "b", time.Second)
		client.full.Store(false)
		if next := await(t, other, "a"); next.ExpiredAge == 0 {
			t.Errorf("got %+v, want the grant after a lease that has expired", next)
		}
	})
}

// await acquires a name for the holder y once it is free.
func await(t testing.TB, s store.Store, name string) (grant store.Grant) {
	t.Helper()
	servers.Wait(t, "the name to be free", func() bool {
		outcomes, err := s.Acquire(background, []store.Claim{{Name: name, Holder: "y", TTL: time.Hour}})
		if err != nil {
			t.Fatal(err)
		}
		if err := outcomes[0].Err; err != nil && !errors.Is(err, store.ErrHeld) {
			t.Fatal(err)
		}
		grant = outcomes[0].Grant
		return outcomes[0].Err == nil
	})
	return grant
}

// TestUnheardChangesEnd: a claim or an extension that was carried out, and which its holder is not told, does not keep the name: it ends with its TTL, also while other names keep the
// session.
func TestUnheardChangesEnd(t *testing.T) {
	server := shared(t)
	extension := func(ttl time.Duration) func(store.Store, func()) error {
		return func(s store.Store, lose func()) error {
			grant, err := acquire(background, s, "a", time.Second)
			if err != nil {
				return err
			}
			lose()
			errs, err := s.Extend(background, []store.Extension{{Name: "a", Holder: "x", Token: grant.Token, Mark: 1, TTL: ttl}})
			return errors.Join(append(errs, err)...)
		}
	}
	changes := map[string]func(s store.Store, lose func()) error{
		"a claim": func(s store.Store, lose func()) error {
			lose()
			_, err := acquire(background, s, "a", time.Second)
			return err
		},
		"an extension": extension(time.Second),
		"an extension that moves the lease to another session": extension(3 * time.Second),
	}
	for reply, lost := range map[string]error{"a timeout": rpctypes.ErrGRPCTimeout, "a full database": rpctypes.ErrGRPCNoSpace} {
		for what, change := range changes {
			t.Run(what+", "+reply, func(t *testing.T) {
				below := prefix()
				client, other := server.fated(t), server.open(t, below)
				s := on(t, client.Client, below)
				servers.Wait(t, "a change in time whose reply is lost", func() bool {
					err := change(s, func() { client.next.Store(&fate{carried: true, err: lost}) })
					return client.next.Swap(nil) == nil && errors.Is(err, store.ErrUnknown)
				})
				keep(t, s, "b", time.Second)
				keep(t, s, "c", 3*time.Second)
				if next := await(t, other, "a"); next.ExpiredAge == 0 {
					t.Errorf("got %+v, want the grant after a lease that has expired", next)
				}
			})
		}
	}
}

// TestChangesThatArriveLate: a claim that etcd carries out after its caller and the store have given it up does not keep the name either.
func TestChangesThatArriveLate(t *testing.T) {
	server := shared(t)
	below := prefix()
	client, other := server.fated(t), server.open(t, below)
	s := on(t, client.Client, below)
	var arrive func()
	looked := make(chan struct{})
	look := func() { close(looked) }
	client.next.Store(&fate{err: rpctypes.ErrGRPCTimeout, then: func(carryOut func()) {
		arrive = carryOut
		client.reading.Store(&look)
	}})
	if _, err := acquire(background, s, "a", time.Second); !errors.Is(err, store.ErrUnknown) {
		t.Fatalf("got %v, want an unknown outcome", err)
	}
	servers.Wait(t, "the store to look for what was claimed, when that is over", func() bool {
		select {
		case <-looked:
			return true
		default:
			return false
		}
	})
	if _, err := acquire(background, s, "next", time.Second); err != nil {
		t.Fatal(err)
	}
	servers.Wait(t, "the store to have ended the next lease", func() bool { return client.ended.Load() > 0 })
	keep(t, s, "b", time.Second)
	arrive()
	await(t, other, "a")
}

// TestExtensionWhoseReplyIsLate: a lease goes on that was extended in time, although it would have ended before etcd's reply has come: neither the store ends it, nor does a claim of
// the same handle, and it ends when the extension has.
func TestExtensionWhoseReplyIsLate(t *testing.T) {
	server := shared(t)
	below := prefix()
	client, other := server.fated(t), server.open(t, below)
	s := on(t, client.Client, below)
	taken := func(s store.Store) error {
		out, err := s.Acquire(background, []store.Claim{{Name: "a", Holder: "y", TTL: time.Second}})
		if err == nil {
			err = out[0].Err
		}
		return err
	}
	sent, reply, looked, ended := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan error)
	look := func() { close(looked) }
	if _, err := acquire(background, s, "session", time.Minute); err != nil { // so that the extension finds a session
		t.Fatal(err)
	}
	var grant store.Grant
	servers.Wait(t, "an extension in time", func() (carried bool) {
		var err error
		if grant, err = acquire(background, s, "a", time.Second); err != nil {
			return false
		}
		client.next.Store(&fate{carried: true, then: func(func()) {
			client.reading.Store(&look)
			close(sent)
			<-reply
		}})
		go func() {
			errs, err := s.Extend(background, []store.Extension{{Name: "a", Holder: "x", Token: grant.Token, TTL: time.Minute}})
			ended <- errors.Join(append(errs, err)...)
		}()
		select {
		case <-sent:
			return true
		case <-ended: // too late
			client.next.Store(nil)
			return false
		}
	})
	select {
	case <-looked: // the store is to end the lease, and reads how it is
	case <-time.After(servers.Patience):
		t.Fatal("the store does not look at the lease when it would have ended")
	}
	for of, s := range map[string]store.Store{"the same handle": s, "another": other} {
		if err := taken(s); !errors.Is(err, store.ErrHeld) {
			t.Errorf("before the reply, a claim of %s: %v, want that the name is held", of, err)
		}
	}
	close(reply)
	if err := <-ended; err != nil {
		t.Errorf("extending: %v", err)
	}
	for of, s := range map[string]store.Store{"the same handle": s, "another": other} {
		if err := taken(s); !errors.Is(err, store.ErrHeld) {
			t.Errorf("after the reply, a claim of %s: %v, want that the name is held", of, err)
		}
	}
	if errs, err := s.Release(background, []store.Release{{Name: "a", Holder: "x", Token: grant.Token}}); err != nil || errs[0] != nil {
		t.Errorf("releasing: %v, %v", errs, err)
	}
	if err := taken(other); err != nil {
		t.Errorf("a claim after the release: %v", err)
	}
}

// TestOverIsLost: a lease that is over, and which the store has not ended in etcd yet, can neither be extended nor released.
func TestOverIsLost(t *testing.T) {
	server := shared(t)
	client := server.fated(t)
	s := on(t, client.Client, prefix())
	gate := make(chan struct{})
	client.gate.Store(&gate)
	grant, err := acquire(background, s, "a", time.Second)
	if err != nil {
		t.Fatal(err)
	}
	granted := time.Now()
	servers.Wait(t, "the lease to be over", func() bool { return time.Since(granted) > time.Second })
	if err := extend(background, s, "a", grant.Token, time.Hour); !errors.Is(err, store.ErrLost) {
		t.Errorf("extending it: %v, want that it is lost", err)
	}
	if err := release(background, s, "a", grant.Token); !errors.Is(err, store.ErrLost) {
		t.Errorf("releasing it: %v, want that it is lost", err)
	}
	close(gate)
}

// TestExtensionBesideUnknownRelease: a lease is not extended that was released while etcd was asked, although the reply to the release was lost.
func TestExtensionBesideUnknownRelease(t *testing.T) {
	client := shared(t).fated(t)
	s := on(t, client.Client, prefix())
	grant, err := acquire(background, s, "a", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	client.look.Store(&fate{then: func(carryOut func()) {
		carryOut()
		client.next.Store(&fate{carried: true, err: rpctypes.ErrGRPCTimeout})
		if err := release(background, s, "a", grant.Token); !errors.Is(err, store.ErrUnknown) {
			t.Errorf("releasing it: %v, want an unknown outcome", err)
		}
	}})
	if err := extend(background, s, "a", grant.Token, time.Hour); !errors.Is(err, store.ErrLost) {
		t.Errorf("extending it: %v, want that it is lost", err)
	}
	if client.look.Load() != nil {
		t.Error("the extension did not look at the lease")
	}
}

// keep holds a name until the end of the test.
func keep(t *testing.T, s store.Store, name string, ttl time.Duration) {
	end, ended := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() {
		close(end)
		<-ended
	})
	go func() {
		defer close(ended)
		for {
			if grant, err := acquire(background, s, name, ttl); err == nil {
				err = extend(background, s, name, grant.Token, ttl)
				if err != nil && !errors.Is(err, store.ErrLost) {
					t.Error(err)
				}
			}
			select {
			case <-end:
				return
			case <-time.After(ttl / 10):
			}
		}
	}()
}

// TestExtensionsAfterUnknownRelease: a release whose reply was lost has ended the lease. An extension of many leases, which does not look at each, says so.
func TestExtensionsAfterUnknownRelease(t *testing.T) {
	server := shared(t)
	client := server.fated(t)
	s := on(t, client.Client, prefix())
	claims := make([]store.Claim, 60)
	for i := range claims {
		claims[i] = store.Claim{Name: fmt.Sprint(i), Holder: "x", TTL: time.Hour}
	}
	outcomes, err := s.Acquire(background, claims)
	if err != nil {
		t.Fatal(err)
	}
	extensions := make([]store.Extension, len(claims))
	for i, o := range outcomes {
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		extensions[i] = store.Extension{Name: claims[i].Name, Holder: "x", Token: o.Grant.Token, TTL: time.Hour}
	}
	client.next.Store(&fate{carried: true, err: rpctypes.ErrGRPCTimeout})
	if err := release(background, s, claims[0].Name, outcomes[0].Grant.Token); !errors.Is(err, store.ErrUnknown) {
		t.Fatalf("got %v, want an unknown outcome", err)
	}
	errs, err := s.Extend(background, extensions)
	if err != nil {
		t.Fatal(err)
	}
	for i, err := range errs {
		if released := i == 0; errors.Is(err, store.ErrLost) != released || !released && err != nil {
			t.Errorf("extending name %d: %v", i, err)
		}
	}
}

// TestUnansweredExtensions: an extension that only looks whether the lease is live is unknown if etcd does not reply, and can be repeated.
func TestUnansweredExtensions(t *testing.T) {
	client := shared(t).fated(t)
	s := on(t, client.Client, prefix())
	grant, err := acquire(background, s, "a", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for _, carried := range []bool{false, true} {
		client.look.Store(&fate{carried: carried, err: rpctypes.ErrGRPCTimeout})
		if err := extend(background, s, "a", grant.Token, time.Hour); !errors.Is(err, store.ErrUnknown) {
			t.Errorf("got %v, want an unknown outcome", err)
		}
		if client.look.Load() != nil {
			t.Error("the extension did not look at the lease")
		}
		if err := extend(background, s, "a", grant.Token, time.Hour); err != nil {
			t.Errorf("again: %v", err)
		}
	}
}

// TestExtensionsAreCheckedByAMajority: a transaction without an operation would be decided by what one member has, however old that is.
func TestExtensionsAreCheckedByAMajority(t *testing.T) {
	server := shared(t)
	client := server.fated(t)
	s := on(t, client.Client, prefix())
	grant, err := acquire(background, s, "a", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	client.last.Store(nil)
	if err := extend(background, s, "a", grant.Token, time.Hour); err != nil {
		t.Fatal(err)
	}
	txn := client.last.Load()
	if txn == nil || len(txn.Success) != 1 || len(txn.Success) > 0 && (txn.Success[0].GetRequestRange() == nil || txn.Success[0].GetRequestRange().Serializable) {
		t.Errorf("the transaction is %v, want one with a linearizable read", txn)
	}
}

// TestLostOnlyByWhatWasRead: what a process remembers of a lease may end while another name of the batch is read. Somebody else may have extended it, and
// only its keys say so.
func TestLostOnlyByWhatWasRead(t *testing.T) {
	server := shared(t)
	for verb, do := range map[string]func(store.Store, int64) ([]error, error){
		"extend": func(s store.Store, token int64) ([]error, error) {
			return s.Extend(background, []store.Extension{{Name: "other", Holder: "x", Token: 1, TTL: time.Hour}, {Name: "a", Holder: "x", Token: token, Mark: 1, TTL: time.Hour}})
		},
		"release": func(s store.Store, token int64) ([]error, error) {
			return s.Release(background, []store.Release{{Name: "other", Holder: "x", Token: 1}, {Name: "a", Holder: "x", Token: token}})
		},
	} {
		t.Run(verb, func(t *testing.T) {
			below := prefix()
			client, other := server.fated(t), server.open(t, below)
			s := on(t, client.Client, below)
			gate := make(chan struct{})
			defer close(gate)
			client.gate.Store(&gate) // what the process would do when the lease is over
			const ttl = time.Second
			grant, err := acquire(background, s, "a", ttl)
			if err != nil {
				t.Fatal(err)
			}
			granted := time.Now()
			before := func() {
				if err := extend(background, other, "a", grant.Token, time.Hour); err != nil {
					t.Error(err)
				}
				servers.Wait(t, "the lease to be over, as far as its process knows", func() bool { return time.Since(granted) > ttl })
			}
			client.reading.Store(&before)
			if errs, err := do(s, grant.Token); err != nil || !errors.Is(errs[0], store.ErrLost) || errs[1] != nil {
				t.Errorf("got %v, %v, want that only the name that nobody holds is lost", errs, err)
			}
		})
	}
}

// twice is the fate of a transaction that etcd's client sends again although it was carried out. before and after are called then.
func twice(before, after func()) *fate {
	return &fate{then: func(carryOut func()) {
		before()
		carryOut()
		carryOut()
		after()
	}}
}

// both claims the names a and b for the holder x with one request.
func both(ctx context.Context, s store.Store, ttl time.Duration) ([]store.Outcome, error) {
	return s.Acquire(ctx, []store.Claim{{Name: "a", Holder: "x", TTL: ttl}, {Name: "b", Holder: "x", TTL: ttl}})
}

// TestSentTwiceBesideAnUnknownOutcome: names of a batch that etcd's client has sent twice are held by the lease of etcd that they are attached to, and not by the one that the handle used when it
// found them: else another process could be granted what is extended.
func TestSentTwiceBesideAnUnknownOutcome(t *testing.T) {
	server := shared(t)
	below := prefix()
	client, other := server.fated(t), server.open(t, below)
	s := on(t, client.Client, below)
	client.next.Store(twice(func() { // another request makes the handle use another lease of etcd
		client.next.Store(&fate{err: rpctypes.ErrGRPCTimeout})
		if _, err := acquire(background, s, "c", time.Hour); !errors.Is(err, store.ErrUnknown) {
			t.Errorf("got %v, want an unknown outcome", err)
		}
		if _, err := acquire(background, s, "d", time.Hour); err != nil {
			t.Error(err)
		}
	}, func() {}))
	outcomes, err := both(background, s, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	first := server.session(t, below, "a").Lease()
	for i, name := range []string{"a", "b"} {
		if err := errors.Join(outcomes[i].Err, extend(background, s, name, outcomes[i].Grant.Token, time.Hour)); err != nil {
			t.Fatal(name, err)
		}
	}
	if _, err := server.client.Revoke(background, first); err != nil { // as etcd does when it is over
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		if grant, err := claimed(t, other, name); err == nil {
			t.Errorf("%s was granted to another one, with the token %d, while it is held", name, grant.Token)
		}
	}
}

// TestSentTwiceAndNotRead: a batch that etcd's client has sent twice, and which fails before the store could read whether it was carried out, is unknown. What was granted ends with its TTL, and
// a release can be repeated.
func TestSentTwiceAndNotRead(t *testing.T) {
	server := shared(t)
	ways := []struct {
		how     string
		then    func(client *fated, cancel func())
		unknown bool
	}{
		{"its time is over", func(_ *fated, cancel func()) { cancel() }, true},
		{"no more is sent", func(client *fated, _ func()) {
			client.next.Store(&fate{err: status.Error(codes.Unavailable, `connection error: desc = "transport: Error while dialing: dial tcp"`)})
		}, true},
		{"it is read without a change", func(client *fated, _ func()) { client.next.Store(&fate{err: rpctypes.ErrGRPCLeaseNotFound}) }, false},
	}
	for _, way := range ways {
		begin := func(t *testing.T) (s, other store.Store, ctx context.Context, doom func()) {
			below := prefix()
			client := server.fated(t)
			ctx, cancel := context.WithCancel(background)
			t.Cleanup(cancel)
			return on(t, client.Client, below), server.open(t, below), ctx, func() { client.next.Store(twice(func() {}, func() { way.then(client, cancel) })) }
		}
		check := func(t *testing.T, err error) {
			t.Helper()
			if way.unknown != errors.Is(err, store.ErrUnknown) || !way.unknown && err != nil {
				t.Fatalf("got %v, want an unknown outcome: %v", err, way.unknown)
			}
		}
		t.Run("claims, "+way.how, func(t *testing.T) {
			s, other, ctx, doom := begin(t)
			doom()
			outcomes, err := both(ctx, s, time.Second)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range outcomes {
				check(t, o.Err)
			}
			keep(t, s, "c", time.Second)
			for _, name := range []string{"a", "b"} {
				if next := await(t, other, name); next.ExpiredAge == 0 {
					t.Errorf("%s: got %+v, want the grant after a lease that has expired", name, next)
				}
			}
		})
		t.Run("releases, "+way.how, func(t *testing.T) {
			s, other, ctx, doom := begin(t)
			outcomes, err := both(ctx, s, time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			doom()
			errs, err := s.Release(ctx, []store.Release{{Name: "a", Holder: "x", Token: outcomes[0].Grant.Token}, {Name: "b", Holder: "x", Token: outcomes[1].Grant.Token}})
			if err != nil {
				t.Fatal(err)
			}
			for i, name := range []string{"a", "b"} {
				check(t, errs[i])
				if err := release(background, s, name, outcomes[i].Grant.Token); err != nil {
					t.Errorf("releasing %s again: %v", name, err)
				}
				if _, err := claimed(t, other, name); err != nil {
					t.Errorf("%s, which was released: %v", name, err)
				}
			}
		})
	}
}
