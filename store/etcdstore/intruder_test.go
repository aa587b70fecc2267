package etcdstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
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

// lied returns a store whose server is honest until a lie is stored, which changes the replies to transactions and reads.
func (s *server) lied(t *testing.T, below string, lie *atomic.Pointer[func(reply any)]) *etcdstore.Store {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{s.URL}, DialTimeout: servers.Patience, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(
			func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
				err := invoke(ctx, method, request, reply, conn, options...)
				if told := lie.Load(); told != nil && err == nil {
					(*told)(reply)
				}
				return err
			})},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	made, err := etcdstore.New(client, etcdstore.Config{Prefix: below})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = made.Close() })
	return made
}

// parts calls a function with the parts of the reply to a transaction, and of those inside it.
func parts(reply any, change func(all *[]*etcdserverpb.ResponseOp)) {
	r, is := reply.(*etcdserverpb.TxnResponse)
	if !is {
		return
	}
	for _, one := range r.Responses {
		if inner := one.GetResponseTxn(); inner != nil {
			parts(inner, change)
		}
	}
	change(&r.Responses)
}

// ranges calls a function with what was read.
func ranges(reply any, change func(*etcdserverpb.RangeResponse)) {
	if r, is := reply.(*etcdserverpb.RangeResponse); is {
		change(r)
	}
	parts(reply, func(all *[]*etcdserverpb.ResponseOp) {
		for _, one := range *all {
			if r := one.GetResponseRange(); r != nil {
				change(r)
			}
		}
	})
}

// TestRepliesOfSomethingElse: a reply that is not one to the request is an error, and of a write an unknown outcome; never a grant, a refusal or a loss, and no panic.
func TestRepliesOfSomethingElse(t *testing.T) {
	server := shared(t)
	for what, told := range map[string]func(reply any){
		"without parts": func(reply any) { parts(reply, func(all *[]*etcdserverpb.ResponseOp) { *all = nil }) },
		"with a part less": func(reply any) {
			parts(reply, func(all *[]*etcdserverpb.ResponseOp) { *all = (*all)[:max(0, len(*all)-1)] })
		},
		"with a part more": func(reply any) {
			parts(reply, func(all *[]*etcdserverpb.ResponseOp) { *all = append(*all, &etcdserverpb.ResponseOp{}) })
		},
		"with empty parts": func(reply any) {
			parts(reply, func(all *[]*etcdserverpb.ResponseOp) {
				for i := range *all {
					(*all)[i] = &etcdserverpb.ResponseOp{}
				}
			})
		},
		"without parts of its parts": func(reply any) {
			parts(reply, func(all *[]*etcdserverpb.ResponseOp) { clear(*all) })
		},
		"without a header": func(reply any) {
			switch r := reply.(type) {
			case *etcdserverpb.TxnResponse:
				r.Header = nil
			case *etcdserverpb.RangeResponse:
				r.Header = nil
			}
		},
		"that says the opposite": func(reply any) {
			if r, is := reply.(*etcdserverpb.TxnResponse); is {
				r.Succeeded = !r.Succeeded
			}
		},
		"with the keys of other names": func(reply any) {
			ranges(reply, func(r *etcdserverpb.RangeResponse) {
				for _, kv := range r.Kvs {
					kv.Key = []byte(strings.Replace(string(kv.Key), "/n/a", "/n/b", 1) + "b")
				}
			})
		},
		"in another order": func(reply any) { ranges(reply, func(r *etcdserverpb.RangeResponse) { slices.Reverse(r.Kvs) }) },
		"that ends and goes on": func(reply any) {
			if r, is := reply.(*etcdserverpb.RangeResponse); is {
				r.Kvs, r.More = nil, true
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			below := prefix()
			var lie atomic.Pointer[func(reply any)]
			s := server.lied(t, below, &lie)
			grant, err := acquire(background, s, "a", time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			holder := server.open(t, below)
			if _, err := acquire(background, holder, "ab", time.Hour); err != nil {
				t.Fatal(err)
			}
			lie.Store(&told)
			ctx, cancel := context.WithTimeout(background, servers.Patience)
			defer cancel()
			if g, err := acquire(ctx, s, "new", time.Hour); errors.Is(err, store.ErrHeld) || err != nil && g.Token != 0 {
				t.Errorf("a claim of a new name: %+v, %v", g, err)
			}
			outcomes, err := s.Acquire(ctx, []store.Claim{{Name: "ab", Holder: "y", TTL: time.Hour}})
			if err == nil && outcomes[0].Err == nil {
				t.Errorf("a claim of a name that another one has: %+v", outcomes[0].Grant)
			}
			for range 2 {
				if err := extend(ctx, s, "a", grant.Token, time.Hour); errors.Is(err, store.ErrLost) {
					t.Errorf("an extension: %v", err)
				}
			}
			last := ""
			for r, err := range s.List(ctx, "") {
				if err == nil && r.Name <= last {
					t.Errorf("a list has %q after %q", r.Name, last)
				}
				last = max(last, r.Name)
			}
			_, _ = s.Sweep(ctx, 10)
			short, stop := context.WithTimeout(ctx, time.Second)
			defer stop()
			if _, _, err := s.Queue(short, store.Claim{Name: "ab", Holder: "y", TTL: time.Hour}); err == nil {
				t.Error("a place in the queue is a grant")
			}
			if err := release(ctx, s, "a", grant.Token); errors.Is(err, store.ErrLost) {
				t.Errorf("a release: %v", err)
			}
			if ctx.Err() != nil {
				t.Error(ctx.Err())
			}
		})
	}
}

// TestLongKeys: what something else has written, so that it would be a part of requests that are longer than etcd takes, harms its own name only: a session in a record, and an inbox in a queue.
func TestLongKeys(t *testing.T) {
	server := shared(t)
	below := prefix()
	s, other := server.open(t, below), server.open(t, below)
	long := strings.Repeat("x", 1_400_000)
	names := []string{"a", "b", "c", "d"}
	claims := make([]store.Claim, len(names))
	for i, name := range names {
		claims[i] = store.Claim{Name: name, Holder: "x", TTL: time.Hour}
	}
	for _, name := range []string{"b", "c"} {
		server.put(t, below+"n/"+name+"\trecord", `{"v":2,"holder":"a","token":1,"ttl_ns":3600000000000,"granted":1,"session":"1.`+name+long+`"}`)
	}
	for range 2 {
		outcomes, err := s.Acquire(background, claims)
		if err != nil {
			t.Fatal(err)
		}
		for i, o := range outcomes {
			if bad := i == 1 || i == 2; bad != (o.Err != nil) || bad && (!says(o.Err, `"`+names[i]+`"`) || len(o.Err.Error()) > 500) {
				t.Errorf("%s: %+v, %.500v", names[i], o.Grant, o.Err)
			}
		}
	}
	var releases []store.Release
	for i, name := range []string{"e", "f"} {
		grant, err := acquire(background, s, name, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			server.ticket(t, below, name, `{"ttl_ns":60000000000,"inbox":"`+long+`","session":"SESSION"}`)
		}
		releases = append(releases, store.Release{Name: name, Holder: "x", Token: grant.Token, Retain: store.Forever})
	}
	if errs, err := s.Release(background, releases); err != nil || errors.Join(errs...) != nil {
		t.Errorf("releases: %.500v, %v", errs, err)
	}
	for _, name := range []string{"e", "f"} {
		if _, err := acquire(background, other, name, time.Hour); err != nil {
			t.Errorf("%s, after its release: %v", name, err)
		}
	}
}

// TestRecordWithALease: a record that is attached to a lease of etcd, with which it would end though somebody has the name, is an error, and no other name is concerned.
func TestRecordWithALease(t *testing.T) {
	server := shared(t)
	below := prefix()
	s := server.open(t, below)
	grant, err := acquire(background, s, "a", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := acquire(background, s, "b", time.Hour); err != nil {
		t.Fatal(err)
	}
	key := below + "n/a\trecord"
	was, err := server.client.Get(background, key)
	if err != nil {
		t.Fatal(err)
	}
	lease, err := server.client.Grant(background, 600)
	if err != nil {
		t.Fatal(err)
	}
	value := strings.Replace(string(was.Kvs[0].Value), `"holder"`, fmt.Sprintf(`"token":%d,"holder"`, grant.Token), 1)
	if _, err := server.client.Put(background, key, value, clientv3.WithLease(lease.ID)); err != nil {
		t.Fatal(err)
	}
	for _, by := range []store.Store{s, server.open(t, below)} {
		if err := extend(background, by, "a", grant.Token, time.Hour); !says(err, `"a"`) || !says(err, "a lease of etcd") || errors.Is(err, store.ErrLost) {
			t.Errorf("an extension: %v", err)
		}
		if _, err := acquire(background, by, "b", time.Hour); err != nil {
			t.Errorf("the other name: %v", err)
		}
	}
}

// TestDeletedRecordOfMany: that something else has deleted the record of a lease, and another one was granted the name, is noticed also by extensions of more leases than are looked at one by one.
func TestDeletedRecordOfMany(t *testing.T) {
	server := shared(t)
	below := prefix()
	s := server.open(t, below)
	claims := make([]store.Claim, 120)
	for i := range claims {
		claims[i] = store.Claim{Name: fmt.Sprintf("n%03d", i), Holder: "x", TTL: time.Hour}
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
	const taken = 77
	if _, err := server.client.Delete(background, below+"n/"+claims[taken].Name+"\trecord"); err != nil {
		t.Fatal(err)
	}
	if _, err := server.open(t, below).Acquire(background, []store.Claim{{Name: claims[taken].Name, Holder: "y", TTL: time.Hour}}); err != nil {
		t.Fatal(err)
	}
	for times := 1; ; times++ {
		errs, err := s.Extend(background, extensions)
		if err != nil {
			t.Fatal(err)
		}
		lost := errs[taken]
		if others := slices.Delete(errs, taken, taken+1); errors.Join(others...) != nil {
			t.Fatalf("others: %v", errors.Join(others...))
		}
		if errors.Is(lost, store.ErrLost) {
			break
		}
		if times == 3 {
			t.Fatalf("after %d extensions: %v, want that the lease is lost", times, lost)
		}
	}
}

// TestLeasesOfSomethingElse: a reply about a lease of etcd, or about the key of its session, that is not one to the
// request is an error: nothing is attached to such a lease, or to none, which would have it forever.
func TestLeasesOfSomethingElse(t *testing.T) {
	server := shared(t)
	for what, told := range map[string]func(reply any){
		"a grant without a header": func(reply any) {
			if r, is := reply.(*etcdserverpb.LeaseGrantResponse); is {
				r.Header = nil
			}
		},
		"a grant of no lease": func(reply any) {
			if r, is := reply.(*etcdserverpb.LeaseGrantResponse); is {
				r.ID = 0
			}
		},
		"a write without a header": func(reply any) {
			if r, is := reply.(*etcdserverpb.PutResponse); is {
				r.Header = nil
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			below := prefix()
			var lie atomic.Pointer[func(reply any)]
			s := server.lied(t, below, &lie)
			lie.Store(&told)
			for verb, do := range map[string]func() error{
				"a claim": func() error { _, err := acquire(background, s, "a", time.Hour); return err },
				"a waiter": func() error {
					_, _, err := s.Queue(background, store.Claim{Name: "a", Holder: "x", TTL: time.Hour})
					return err
				},
			} {
				if err := do(); !says(err, "the reply is not one to the request") || errors.Is(err, store.ErrUnknown) ||
					errors.Is(err, store.ErrHeld) {
					t.Errorf("%s: %v, want that the reply is nonsense, and that nobody has the name", verb, err)
				}
			}
			all, err := server.client.Get(background, below, clientv3.WithPrefix())
			if err != nil {
				t.Fatal(err)
			}
			for _, kv := range all.Kvs {
				if kv.Lease == 0 || strings.Contains(string(kv.Key), "/n/") {
					t.Errorf("%s was written, with the lease %x", kv.Key, kv.Lease)
				}
			}
			lie.Store(nil)
			grant, err := acquire(background, s, "b", time.Hour)
			if err != nil {
				t.Fatalf("from an honest server: %v", err)
			}
			if !strings.Contains(what, "write") { // a linger has a lease of its own
				lie.Store(&told)
				errs, err := s.Release(background, []store.Release{{Name: "b", Holder: "x", Token: grant.Token,
					Linger: time.Hour}})
				if err != nil || !says(errs[0], "the reply is not one to the request") ||
					errors.Is(errs[0], store.ErrUnknown) || errors.Is(errs[0], store.ErrLost) {
					t.Errorf("a release that lingers: %v, %v, want that the reply is nonsense", errs, err)
				}
				lie.Store(nil)
				if err := extend(background, s, "b", grant.Token, time.Hour); err != nil {
					t.Errorf("an extension after that: %v", err)
				}
			}
		})
	}
}
