package etcdstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"
)

// TestFewOperations: a server that takes few operations in one transaction, or checks few things for one, is asked for no more. Leases of many TTLs are of many sessions, of which each is checked.
func TestFewOperations(t *testing.T) {
	const names = 60
	member := servers.Etcd(t, 1, "--max-txn-ops", "16")[0]
	client := newClient(t, member.URL)
	t.Cleanup(func() { _ = client.Close() })
	for what, ttl := range map[string]func(int) time.Duration{
		"one TTL":   func(int) time.Duration { return time.Hour },
		"many TTLs": func(i int) time.Duration { return time.Hour + time.Duration(i)*10*time.Minute },
	} {
		s := on(t, client, prefix())
		claims, extensions, releases := make([]store.Claim, names), make([]store.Extension, names), make([]store.Release, names)
		for i := range claims {
			claims[i] = store.Claim{Name: fmt.Sprint(what, i), Holder: "x", TTL: ttl(i)}
		}
		acquire := func(claims []store.Claim) (outcomes []store.Outcome) {
			t.Helper()
			outcomes, err := s.Acquire(background, claims)
			if err != nil {
				t.Fatal(err)
			}
			for i, o := range outcomes {
				if o.Err != nil {
					t.Fatalf("acquiring %s: %v", claims[i].Name, o.Err)
				}
			}
			return outcomes
		}
		for i := range claims { // one by one: so the extensions are the first of which too many are asked for
			grant := acquire(claims[i : i+1])[0].Grant
			extensions[i] = store.Extension{Name: claims[i].Name, Holder: "x", Token: grant.Token, TTL: ttl(i)}
			releases[i] = store.Release{Name: claims[i].Name, Holder: "x", Token: grant.Token}
		}
		for range 2 {
			errs, err := s.Extend(background, extensions)
			if err = errors.Join(append(errs, err)...); err != nil {
				t.Errorf("%s: extending: %v", what, err)
			}
		}
		errs, err := s.Release(background, releases)
		if err = errors.Join(append(errs, err)...); err != nil {
			t.Errorf("%s: releasing: %v", what, err)
		}
		acquire(claims)
	}
}

// TestFewOperationsAtFirst: a process finds out with whatever it does first that the server takes few operations: with
// claims, with a look at names, or with a look at the sessions of a list.
func TestFewOperationsAtFirst(t *testing.T) {
	const names = 60
	member := servers.Etcd(t, 1, "--max-txn-ops", "16")[0]
	client, below := newClient(t, member.URL), prefix()
	t.Cleanup(func() { _ = client.Close() })
	holds := on(t, client, below)
	releases := make([]store.Release, names)
	for i := range releases { // one by one, and each in a session of its own
		name := fmt.Sprintf("name %02d", i)
		grant, err := acquire(background, holds, name, time.Hour+time.Duration(i)*10*time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		releases[i] = store.Release{Name: name, Holder: "x", Token: grant.Token}
	}
	claims := make([]store.Claim, names)
	for i, r := range releases {
		claims[i] = store.Claim{Name: r.Name, Holder: "y", TTL: time.Hour}
	}
	claim := func(want error) {
		t.Helper()
		outcomes, err := on(t, client, below).Acquire(background, claims)
		if err != nil {
			t.Fatal(err)
		}
		for i, o := range outcomes {
			if !errors.Is(o.Err, want) || want == nil && o.Grant.Token <= releases[i].Token {
				t.Errorf("claiming %s: %+v, %v, want %v", claims[i].Name, o.Grant, o.Err, want)
			}
		}
	}
	claim(store.ErrHeld)
	n := 0
	for r, err := range on(t, client, below).List(background, "name") {
		if err != nil || r.Name != releases[n].Name || r.Holder != "x" || r.Free() {
			t.Fatalf("record %d: %+v, %v, want that x holds %s", n, r, err, releases[n].Name)
		}
		n++
	}
	if n != names {
		t.Errorf("%d records, want %d", n, names)
	}
	errs, err := on(t, client, below).Release(background, releases) // it reads them
	if err = errors.Join(append(errs, err)...); err != nil {
		t.Errorf("releasing: %v", err)
	}
	claim(nil)
}

// TestTooFewOperations: of a server that takes next to no operations at once it is said what is to be changed, and
// nothing that could not be read counts as free.
func TestTooFewOperations(t *testing.T) {
	server, below := shared(t), prefix()
	holds := server.open(t, below)
	claims := make([]store.Claim, 5)
	for i := range claims { // each in a session of its own
		claims[i] = store.Claim{Name: fmt.Sprint("name ", i), Holder: "y", TTL: time.Hour}
		if _, err := acquire(background, holds, claims[i].Name, time.Hour<<i); err != nil {
			t.Fatal(err)
		}
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{server.URL}, DialTimeout: servers.Patience, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(
			func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn,
				invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
				if txn, is := request.(*etcdserverpb.TxnRequest); is && len(txn.Success) > 1 {
					return rpctypes.ErrGRPCTooManyOps
				}
				return invoke(ctx, method, request, reply, conn, options...)
			})},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	const fix = "--max-txn-ops"
	for r, err := range on(t, client, below).List(background, "") {
		if !says(err, fix) {
			t.Errorf("a list has %+v, %v, want an error that says %s", r, err, fix)
		}
	}
	outcomes, err := on(t, client, below).Acquire(background, claims)
	if err != nil {
		t.Fatal(err)
	}
	for i, o := range outcomes {
		if o.Err == nil || errors.Is(o.Err, store.ErrHeld) || errors.Is(o.Err, store.ErrUnknown) || o.Grant.Token != 0 {
			t.Errorf("claim %d: %+v, %v, want an error by which nothing was sent", i, o.Grant, o.Err)
		}
	}
	if errs, err := on(t, client, below).Release(background, []store.Release{{Name: "name 0", Holder: "x", Token: 1},
		{Name: "name 1", Holder: "x", Token: 1}}); err != nil || !says(errs[0], fix) || !says(errs[1], fix) {
		t.Errorf("releases: %v, %v, want errors that say %s", errs, err, fix)
	}
}
