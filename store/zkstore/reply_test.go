package zkstore

import (
	"context"
	"errors"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/casstore"
	"github.com/soloist-dev/soloist/test/servers"
)

// TestRepliesOfTransactions: a reply that cannot be that to a transaction is neither its success nor a refusal.
func TestRepliesOfTransactions(t *testing.T) {
	ops := []any{&zk.CheckVersionRequest{Path: "/a/l"}, &zk.SetDataRequest{Path: "/a", Version: 4}}
	at := func(version int32) zk.MultiResponse { return zk.MultiResponse{Stat: &zk.Stat{Version: version}} }
	refusal := zk.MultiResponse{Error: zk.ErrBadVersion}
	for name, test := range map[string]struct {
		replies []zk.MultiResponse
		success bool
		refused int
	}{
		"as it is to be":                  {[]zk.MultiResponse{{}, at(5)}, true, -1},
		"nothing":                         {nil, false, -1},
		"of another transaction, shorter": {[]zk.MultiResponse{at(5)}, false, -1},
		"of another transaction, longer":  {[]zk.MultiResponse{{}, at(5), {}}, false, -1},
		"of another write":                {[]zk.MultiResponse{{}, at(4)}, false, -1},
		"of a later write":                {[]zk.MultiResponse{{}, at(6)}, false, -1},
		"without what was written":        {[]zk.MultiResponse{{}, {}}, false, -1},
		"refused":                         {[]zk.MultiResponse{{}, refusal}, false, 1},
		"refused, of another transaction": {[]zk.MultiResponse{refusal}, false, -1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := credible(ops, test.replies); got != test.success {
				t.Errorf("it is taken for a success: %v", got)
			}
			if got := refused(test.replies, len(ops)); got != test.refused {
				t.Errorf("it is taken for a refusal of the operation %d, want %d", got, test.refused)
			}
		})
	}
	if err := unsure("writing", nil); !errors.Is(err, store.ErrUnknown) {
		t.Errorf("a reply that is none: %v, want an unknown outcome", err)
	}
}

// TestVersionBelowZero: ZooKeeper's version of a node wraps around to numbers below 0, and a write of -1 would be on no condition.
func TestVersionBelowZero(t *testing.T) {
	data, err := encode(&casstore.Record{Holder: "x", Token: 1, TTL: time.Hour, Write: "w", Granted: time.Now()}, "l")
	if err != nil {
		t.Fatal(err)
	}
	for version, good := range map[int32]bool{0: true, -1: false, math.MinInt32: false} {
		if item := itemOf("a", data, &zk.Stat{Version: version}); (item.Err == nil) != good {
			t.Errorf("version %d: %v, %v", version, item.Version, item.Err)
		}
	}
}

// TestWhyStaysUntilThereIsAReply: what a server has said is told until one has replied as ZooKeeper does, also while the next attempt is under way.
func TestWhyStaysUntilThereIsAReply(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := newConnector(&target{dial: servers.Patience, session: servers.Patience})
	defer c.close()
	dialled := func(want string) {
		t.Helper()
		conn, err := c.dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for _, err := range []error{zk.ErrNoServer, context.DeadlineExceeded} {
			if told := c.explain(err); !errors.Is(told, err) || !strings.Contains(told.Error(), want) {
				t.Errorf("got %v, want %q", told, want)
			}
		}
		if err := c.explain(zk.ErrNoAuth); err != zk.ErrNoAuth { //nolint:errorlint // it has another reason
			t.Errorf("got %v, want that it is left alone", err)
		}
	}
	dialled("has not replied yet")
	c.greeted("a:2281", &strangerError{"\x15\x03\x01\x00"})
	dialled("a:2281 wants TLS")
	c.greeted("b:2181", nil)
	dialled("has not replied yet")
}

// TestLateLoss: that an earlier connection was lost, which is reported late or for the second time, ends only that one: the one that has replaced it stays, and is closed with the store.
func TestLateLoss(t *testing.T) {
	c := newConnector(&target{hosts: []string{"127.0.0.1:1"}, dial: servers.Patience, session: servers.Patience})
	begun := func() *attempt {
		t.Helper()
		a, err := c.begin()
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	first := begun()
	c.drop(first)
	second := begun()
	c.drop(first)
	if second == first || begun() != second {
		t.Fatal("an earlier connection was lost, and the one that has replaced it is not used any more")
	}
	c.close()
	for range second.events { // until it is closed
	}
}

// TestNothingBeginsAfterTheEnd: with a context that has ended, or after Close, nothing is sent and no connection is made, and what was not sent is not unknown.
func TestNothingBeginsAfterTheEnd(t *testing.T) {
	conn, _, err := zk.Connect([]string{"127.0.0.1:1"}, time.Second, zk.WithLogger(silent{}))
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	b := offline()
	b.conns = given{conn}
	asked := false
	_, err = call(over, b, func(*zk.Conn) (int, error) { asked = true; return 0, nil })
	if b.calls.Wait(); asked || !errors.Is(err, context.Canceled) {
		t.Errorf("a request was made: %t, %v", asked, err)
	}
	rest := func() ([]casstore.Result, []pending) {
		results, chunks := b.divide([]casstore.Change{{Name: "a", Version: "l.1", Record: record(nil)}, {Name: "b", Version: "l.1", Record: record(nil)}})
		return results, chunks[0]
	}
	results, changes := rest()
	b.write(over, conn, changes)
	for _, r := range results {
		if !errors.Is(r.Err, context.Canceled) || errors.Is(r.Err, store.ErrUnknown) {
			t.Errorf("a write: %v, want that it was not sent", r.Err)
		}
	}
	results, changes = rest()
	if others := b.conflicts(over, conn, conn.SessionID(), changes, 0); len(others) != 0 {
		t.Errorf("%d changes are sent again without a look at their nodes", len(others))
	}
	if r := results[0]; !errors.Is(r.Err, casstore.ErrConflict) || r.Current != nil {
		t.Errorf("the change that was refused: %+v, want a conflict with a node that is not known", r)
	}
	if r := results[1]; !errors.Is(r.Err, context.Canceled) || errors.Is(r.Err, casstore.ErrConflict) || r.Current != nil {
		t.Errorf("the other change: %+v, want that its node could not be read", r)
	}

	c := newConnector(&target{hosts: []string{"127.0.0.1:1"}, dial: servers.Patience, session: servers.Patience})
	defer c.close()
	if _, err := c.get(over); !errors.Is(err, context.Canceled) || c.attempt != nil {
		t.Errorf("a connection is begun: %t, %v", c.attempt != nil, err)
	}
	c.close()
	if _, err := c.get(t.Context()); !errors.Is(err, store.ErrClosed) || c.attempt != nil {
		t.Errorf("after Close a connection is begun: %t, %v", c.attempt != nil, err)
	}
}
