package zkstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/storetest"
	"github.com/soloist-dev/soloist/store/zkstore"
	"github.com/soloist-dev/soloist/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

var background = context.Background()

// A server runs alone, with a connection that looks at its nodes as others do.
type server struct {
	*servers.ZooKeeperServer
	conn *zk.Conn
}

var shared = servers.Shared(func(t servers.Test) *server {
	s := &server{ZooKeeperServer: servers.ZooKeeper(t, 1)[0]}
	s.conn = newConn(t, s.Addr)
	return s
})

// newConn returns a connection with the patience that a slow machine needs.
func newConn(t servers.Test, addrs ...string) *zk.Conn {
	conn, _, err := zk.Connect(addrs, servers.Patience, zk.WithLogInfo(false))
	if err != nil {
		t.Fatalf("connecting to ZooKeeper: %v", err)
	}
	t.Cleanup(conn.Close)
	return conn
}

var paths atomic.Int64

// fresh returns a path that is not there.
func fresh() string { return fmt.Sprintf("/test/store-%d", paths.Add(1)) }

func on(t testing.TB, conn *zk.Conn, path string) *zkstore.Store {
	t.Helper()
	s, err := zkstore.New(conn, zkstore.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// openURL opens a store by a URL, which is waited for long.
func openURL(t testing.TB, authority, path string) *zkstore.Store {
	t.Helper()
	s, err := zkstore.OpenURL(background, "zk://"+authority+path+"?sessiontimeout=5m&dialtimeout=5m")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// A handle is a store with its path.
type handle struct {
	*zkstore.Store
	path string
}

// Unwrap is the convention of package store.
func (h handle) Unwrap() store.Store { return h.Store }

func (s *server) harness() storetest.Harness {
	return storetest.Harness{
		Open: func(t testing.TB) store.Store {
			path := fresh()
			return handle{on(t, s.conn, path), path}
		},
		Reopen: func(t testing.TB, of store.Store) store.Store {
			path := of.(handle).path
			return handle{openURL(t, s.Addr, path), path}
		},
		Writes: func(t testing.TB, of store.Store) int64 { return s.lastWrite(t, of.(handle).path) },
		Corrupt: func(t testing.TB, of store.Store, name string, way int) string {
			return s.corrupt(t, of.(handle).path, name, way)
		},
		Fail: func(t testing.TB, of store.Store, fate func() storetest.Fate) store.Store {
			p, path := newProxy(t, s.Addr), of.(handle).path
			p.each = fate
			return handle{on(t, newConn(t, p.addr(), p.addr()), path), path} // twice: a client that has tried all addresses waits for a second
		},
		TTL:   500 * time.Millisecond,
		Names: 3000,
	}
}

func TestConformance(t *testing.T) { storetest.Run(t, shared(t).harness()) }

func TestConformanceOfBatches(t *testing.T) {
	h := shared(t).harness()
	h.Batches = true
	storetest.Run(t, h)
}

// lastWrite returns ZooKeeper's number of the last change of a node below a path.
func (s *server) lastWrite(t testing.TB, path string) int64 {
	t.Helper()
	children, stat, err := s.conn.Children(path)
	if errors.Is(err, zk.ErrNoNode) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	last := max(stat.Mzxid, stat.Pzxid)
	for _, child := range children {
		last = max(last, s.lastWrite(t, path+"/"+child))
	}
	return last
}

// node returns the path of the node of a name of letters, digits and slashes.
func (s *server) node(t testing.TB, path, name string) string {
	t.Helper()
	buckets, _, err := s.conn.Children(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, bucket := range buckets {
		node := path + "/" + bucket + "/" + strings.ReplaceAll(name, "/", "%2F")
		if there, _, err := s.conn.Exists(node); err != nil {
			t.Fatal(err)
		} else if there {
			return node
		}
	}
	t.Fatalf("%q has no node below %s", name, path)
	return ""
}

// corrupt writes over the data of a node.
func (s *server) corrupt(t testing.TB, path, name string, way int) string {
	t.Helper()
	node := s.node(t, path, name)
	data, _, err := s.conn.Get(node)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	ways := []struct{ what, text string }{
		{"no JSON", "held"},
		{"no data", ""},
		{"something after the record", text + text},
		{"a field that is not known", strings.Replace(text, `{"holder"`, `{"owner":"x","holder"`, 1)},
		{"no holder", strings.Replace(text, `"holder":"`, `"holder":"","state":"`, 1)},
		{"no write", strings.Replace(text, `"write":"`, `"write":"","holder":"`, 1)},
		{"no life", strings.Replace(text, `"life":"`, `"life":"","holder":"`, 1)},
		{"a token that is no number", strings.Replace(text, `"token":`, `"token":"x","mark":`, 1)},
		{"a token of 0", strings.Replace(text, `"token":`, `"token":0,"mark":`, 1)},
		{"a TTL that no store takes", strings.Replace(text, `"ttl_ns":`, `"ttl_ns":9223372036854775807,"mark":`, 1)},
		{"a lease without a TTL", strings.Replace(text, `"ttl_ns":`, `"ttl_ns":0,"mark":`, 1)},
		{"a time of its grant that cannot be written again", strings.Replace(text, `"granted_at":`, `"granted_at":"9999-12-31T23:59:59-01:00","forget_at":`, 1)},
		{"a holder that no store takes", strings.Replace(text, `"holder":"`, `"holder":"`+strings.Repeat("x", 1000), 1)},
		{"no time of its grant", strings.Replace(text, `"granted_at":`, `"forget_at":`, 1)},
	}
	if way >= len(ways) {
		return ""
	}
	if ways[way].text == text {
		t.Fatalf("%s: nothing was changed in %s", ways[way].what, text)
	}
	if _, err := s.conn.Set(node, []byte(ways[way].text), -1); err != nil {
		t.Fatal(err)
	}
	return ways[way].what
}

// claim acquires a name for a holder.
func claim(ctx context.Context, s store.Store, name, holder string, ttl time.Duration) (store.Grant, error) {
	outcomes, err := s.Acquire(ctx, []store.Claim{{Name: name, Holder: holder, TTL: ttl}})
	if err != nil {
		return store.Grant{}, err
	}
	return outcomes[0].Grant, outcomes[0].Err
}

// extend extends one name of the holder x.
func extend(ctx context.Context, s store.Store, name string, token int64, ttl time.Duration) error {
	errs, err := s.Extend(ctx, []store.Extension{{Name: name, Holder: "x", Token: token, TTL: ttl}})
	return errors.Join(append(errs, err)...)
}

// release releases one name of the holder x.
func release(ctx context.Context, s store.Store, name string, token int64) error {
	errs, err := s.Release(ctx, []store.Release{{Name: name, Holder: "x", Token: token, Retain: store.Forever}})
	return errors.Join(append(errs, err)...)
}

// says reports whether the text of an error has a part.
func says(err error, part string) bool { return err != nil && strings.Contains(err.Error(), part) }
