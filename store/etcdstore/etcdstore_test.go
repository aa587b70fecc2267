package etcdstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/etcdstore"
	"github.com/soloist-dev/soloist/store/storetest"
	"github.com/soloist-dev/soloist/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

// A server is a cluster of one member, with a client.
type server struct {
	*servers.EtcdServer
	client *clientv3.Client
}

var shared = servers.Shared(func(t servers.Test) *server {
	member := servers.Etcd(t, 1)[0]
	s := &server{EtcdServer: member, client: newClient(t, member.URL)}
	t.Cleanup(func() { _ = s.client.Close() })
	return s
})

var background = context.Background()

// newClient returns a client of some members.
func newClient(t servers.Test, urls ...string) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: urls, DialTimeout: servers.Patience, Logger: zap.NewNop()})
	if err != nil {
		t.Fatalf("making a client: %v", err)
	}
	return client
}

var prefixes atomic.Int64

// prefix returns a prefix that no other test has.
func prefix() string { return fmt.Sprintf("test/%d/", prefixes.Add(1)) }

func (s *server) open(t testing.TB, prefix string) *etcdstore.Store {
	t.Helper()
	return on(t, s.client, prefix)
}

func on(t testing.TB, client *clientv3.Client, prefix string) *etcdstore.Store {
	t.Helper()
	made, err := etcdstore.New(client, etcdstore.Config{Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = made.Close() })
	return made
}

// A handle is a store with its prefix.
type handle struct {
	*etcdstore.Store
	prefix string
}

// Unwrap is the convention of package store.
func (h handle) Unwrap() store.Store { return h.Store }

// written returns a number that another write below the prefix changes. The revision of the server would not do: leases of other tests may end just now.
func (s *server) written(t testing.TB, prefix string) int64 {
	t.Helper()
	all, err := s.client.Get(background, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	last := int64(0)
	for _, kv := range all.Kvs {
		last = max(last, kv.ModRevision)
	}
	return last<<20 + all.Count // what is deleted leaves no revision
}

func (s *server) harness() storetest.Harness {
	return storetest.Harness{
		Open: func(t testing.TB) store.Store {
			p := prefix()
			return handle{s.open(t, p), p}
		},
		Reopen: func(t testing.TB, of store.Store) store.Store {
			return handle{s.open(t, of.(handle).prefix), of.(handle).prefix}
		},
		Writes: func(t testing.TB, of store.Store) int64 { return s.written(t, of.(handle).prefix) },
		Corrupt: func(t testing.TB, of store.Store, name string, way int) string {
			return s.corrupt(t, of.(handle).prefix, name, way)
		},
		TTL: 500 * time.Millisecond,
	}
}

func TestConformance(t *testing.T) { storetest.Run(t, shared(t).harness()) }

func TestConformanceOfBatches(t *testing.T) {
	h := shared(t).harness()
	h.Batches = true
	storetest.Run(t, h)
}

// corrupt writes over the record of a name.
func (s *server) corrupt(t testing.TB, prefix, name string, way int) string {
	t.Helper()
	ways := []struct{ what, value string }{
		{"no JSON", "hello"},
		{"an empty value", ""},
		{"a negative token", `{"v":2,"holder":"a","token":-1,"ttl_ns":1,"granted":1}`},
		{"a token that was not granted yet", `{"v":2,"holder":"a","token":9223372036854775807,"ttl_ns":1,"granted":1}`},
		{"a negative mark", `{"v":2,"holder":"a","token":1,"mark":-1,"ttl_ns":1,"granted":1}`},
		{"no holder", `{"v":2,"token":1,"ttl_ns":1,"granted":1}`},
		{"a TTL that no store takes", `{"v":2,"holder":"a","token":1,"ttl_ns":9223372036854775807,"granted":1}`},
		{"a field that no store writes", `{"v":2,"holder":"a","token":1,"ttl_ns":1,"granted":1,"new":1}`},
		{"a session that is none", `{"v":2,"holder":"a","token":1,"ttl_ns":1,"granted":1,"session":"x"}`},
		{"another format", `{"v":3,"holder":"a","token":1,"ttl_ns":1,"granted":1}`},
		{"the format before there was a number", `{"holder":"a","token":1,"ttl_ns":1,"granted":1}`},
		{"two values", `{"v":2,"holder":"a","token":1,"ttl_ns":1,"granted":1}{}`},
	}
	if way >= len(ways) {
		return ""
	}
	s.put(t, prefix+"n/"+name+"\trecord", ways[way].value)
	return ways[way].what
}

func (s *server) put(t testing.TB, key, value string) {
	t.Helper()
	if _, err := s.client.Put(background, key, value); err != nil {
		t.Fatal(err)
	}
}

// says reports whether the text of an error has a part.
func says(err error, part string) bool { return err != nil && strings.Contains(err.Error(), part) }

// acquire claims one name for the holder x.
func acquire(ctx context.Context, s store.Store, name string, ttl time.Duration) (store.Grant, error) {
	outcomes, err := s.Acquire(ctx, []store.Claim{{Name: name, Holder: "x", TTL: ttl}})
	if err != nil {
		return store.Grant{}, err
	}
	return outcomes[0].Grant, outcomes[0].Err
}

// release releases one name of the holder x.
func release(ctx context.Context, s store.Store, name string, token int64) error {
	errs, err := s.Release(ctx, []store.Release{{Name: name, Holder: "x", Token: token, Retain: store.Forever}})
	return errors.Join(append(errs, err)...)
}

// extend extends one name of the holder x.
func extend(ctx context.Context, s store.Store, name string, token int64, ttl time.Duration) error {
	errs, err := s.Extend(ctx, []store.Extension{{Name: name, Holder: "x", Token: token, TTL: ttl}})
	return errors.Join(append(errs, err)...)
}
