package etcdstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"
)

// TestNamesInTheWayOfABatch: names of which a process does not know that others have them meanwhile are refused, or lost, and the rest of the batch is
// granted, extended and released. They cost the batch one request more.
func TestNamesInTheWayOfABatch(t *testing.T) {
	member := servers.Etcd(t, 1)[0]
	server := &server{EtcdServer: member, client: newClient(t, member.URL)}
	t.Cleanup(func() { _ = server.client.Close() })
	below := prefix()
	a, b := server.open(t, below), server.open(t, below)
	const ttl = time.Hour
	if _, err := acquire(background, a, "first", ttl); err != nil { // grants the lease of etcd
		t.Fatal(err)
	}
	for _, names := range []int{2, 20, 60, 100} { // of 60 releases and 100 claims some share conditions and others do not
		t.Run(fmt.Sprint(names), func(t *testing.T) {
			claims, releases := make([]store.Claim, names), make([]store.Release, names)
			for i := range claims {
				claims[i] = store.Claim{Name: fmt.Sprintf("%d/%d", names, i), Holder: "y", TTL: ttl}
			}
			inTheWay := map[int]int64{0: 0, names / 2: 0, names - 2: 0} // the tokens of those that b takes
			costs := func(what string, most int, do func()) {
				t.Helper()
				if got := server.costs(t, do)["Txn"]; got > most {
					t.Errorf("%s costs %d transactions, want at most %d", what, got, most)
				}
			}
			acquired := func(refused map[int]int64) {
				t.Helper()
				outcomes, err := a.Acquire(background, claims)
				if err != nil {
					t.Fatal(err)
				}
				for i, o := range outcomes {
					if _, held := refused[i]; held != errors.Is(o.Err, store.ErrHeld) || !held && o.Err != nil {
						t.Errorf("%s: %v", claims[i].Name, o.Err)
					}
					if o.Err != nil {
						continue
					}
					if o.Grant.Token <= releases[i].Token {
						t.Errorf("%s: granted with token %d after %d", claims[i].Name, o.Grant.Token, releases[i].Token)
					}
					releases[i] = store.Release{Name: claims[i].Name, Holder: "y", Token: o.Grant.Token, Retain: store.Forever}
				}
			}
			released := func(lost map[int]int64) {
				t.Helper()
				errs, err := a.Release(background, releases)
				if err != nil {
					t.Fatal(err)
				}
				for i, err := range errs {
					if _, is := lost[i]; is != errors.Is(err, store.ErrLost) || !is && err != nil {
						t.Errorf("release of %s: %v", releases[i].Name, err)
					}
				}
			}
			costs("acquiring new names", 1, func() { acquired(nil) })
			costs("releasing them", 1+names/100, func() { released(nil) })
			for i := range inTheWay {
				grant, err := acquire(background, b, claims[i].Name, ttl)
				if err != nil {
					t.Fatal(err)
				}
				inTheWay[i] = grant.Token
			}
			costs("acquiring those that are free", 2, func() { acquired(inTheWay) })
			released(inTheWay)
			for i, token := range inTheWay { // what b has is untouched
				if err := release(background, b, claims[i].Name, token); err != nil {
					t.Errorf("release of %s: %v", claims[i].Name, err)
				}
			}
			acquired(nil)
			for i := range inTheWay { // b ends leases of a by force
				releaseOf(t, b, claims[i].Name, "y", releases[i].Token)
				if _, err := acquire(background, b, claims[i].Name, ttl); err != nil {
					t.Fatal(err)
				}
			}
			costs("releasing those that are left", 2+names/100, func() { released(inTheWay) })
			acquired(inTheWay)
		})
	}
}

// TestBusyNameBesideOthers: a name that somebody changes between any two requests keeps nobody from getting the other names of a batch.
func TestBusyNameBesideOthers(t *testing.T) {
	server, below := shared(t), prefix()
	b := server.open(t, below)
	const ttl = time.Hour
	changes := false
	busy := func(ctx context.Context, method string, request, reply any, on *grpc.ClientConn, send grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if changes && strings.HasSuffix(method, "/Txn") {
			grant, err := acquire(background, b, "busy", ttl)
			if err != nil {
				return err
			}
			if err := release(background, b, "busy", grant.Token); err != nil {
				return err
			}
		}
		return send(ctx, method, request, reply, on, opts...)
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{server.URL}, DialTimeout: servers.Patience, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(busy)},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	a := on(t, client, below)
	if _, err := acquire(background, a, "first", ttl); err != nil { // grants the lease of etcd
		t.Fatal(err)
	}
	changes = true
	names := []string{"a", "b", "busy", "c"}
	claims := make([]store.Claim, len(names))
	for i, name := range names {
		claims[i] = store.Claim{Name: name, Holder: "y", TTL: ttl}
	}
	outcomes, err := a.Acquire(background, claims)
	if err != nil {
		t.Fatal(err)
	}
	for i, o := range outcomes {
		if busy := names[i] == "busy"; busy != errors.Is(o.Err, store.ErrHeld) || !busy && o.Err != nil {
			t.Errorf("%s: %v", names[i], o.Err)
		}
	}
}
