package zkstore

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/casstore"
)

// offline is a backend that is not connected.
func offline() *backend { return &backend{tree: tree{"/p"}, lastVersion: 100} }

func record(state []byte) *casstore.Record {
	return &casstore.Record{Holder: "x", Token: 1, TTL: time.Hour, Write: "w", Granted: time.Now(), State: state}
}

// TestEachChangeHasItsCondition: whatever a change does with a node that is there, it does only if the node is the one that was read, by its child, and as it was then, by its version. One
// that makes a node fails if there is one.
func TestEachChangeHasItsCondition(t *testing.T) {
	b := offline()
	node, life := b.tree.node("a"), b.tree.life("a", "l")
	for what, test := range map[string]struct {
		change casstore.Change
		there  bool // a node is replaced, or deleted
		ops    int
	}{
		"making":           {casstore.Change{Name: "a", Record: record(nil)}, false, 2},
		"writing":          {casstore.Change{Name: "a", Version: "l.7", Record: record(nil)}, true, 2},
		"replacing a node": {casstore.Change{Name: "a", Version: "l.100", Record: record(nil)}, true, 4},
		"deleting":         {casstore.Change{Name: "a", Version: "l.7"}, true, 2},
		"deleting the 1st": {casstore.Change{Name: "a", Version: "l.0"}, true, 2},
	} {
		made, err := b.change(test.change)
		if err != nil || len(made.ops) != test.ops {
			t.Fatalf("%s: %d operations, %v, want %d", what, len(made.ops), err, test.ops)
		}
		var is version
		if test.there {
			if is, err = parseVersion(test.change.Version); err != nil {
				t.Fatal(err)
			}
		}
		same, as := !test.there, !test.there
		for _, op := range made.ops {
			switch op := op.(type) {
			case *zk.CheckVersionRequest:
				same = same || op.Path == life
			case *zk.SetDataRequest:
				as = as || op.Path == node && op.Version == is.number
			case *zk.DeleteRequest:
				same = same || op.Path == life
				as = as || op.Path == node && op.Version == is.number
			}
		}
		if !same || !as {
			t.Errorf("%s: if it is the same node: %t; as it was: %t; want both", what, same, as)
		}
	}
}

// TestRequestsAreNoLargerThanTaken: what does not fit into one request goes into others, and each change has the place for its own result.
func TestRequestsAreNoLargerThanTaken(t *testing.T) {
	const taken = 1<<20 - 1 // jute.maxbuffer
	for _, test := range []struct{ changes, state int }{{1200, 0}, {40, store.MaxState}, {1, store.MaxState}, {0, 0}} {
		changes := make([]casstore.Change, test.changes)
		for i := range changes {
			changes[i] = casstore.Change{Name: fmt.Sprint("n", i), Record: record(make([]byte, test.state))}
		}
		results, chunks := offline().divide(changes)
		n := 0
		for _, chunk := range chunks {
			size := 0
			for _, p := range chunk {
				if p.Name != changes[n].Name || p.result != &results[n] {
					t.Fatalf("the change %d of %d is that of %s, or has another result", n, test.changes, p.Name)
				}
				n++
				for _, op := range p.ops {
					if create, ok := op.(*zk.CreateRequest); ok {
						size += len(create.Path) + len(create.Data) + 100
					}
				}
			}
			if size > taken || len(chunk) > mostChanges {
				t.Errorf("a request has %d changes with %d bytes", len(chunk), size)
			}
		}
		if n != test.changes {
			t.Errorf("%d changes of %d are sent", n, test.changes)
		}
	}
}

// TestDenialsAreKnown: a write that ZooKeeper denies has surely had no effect.
func TestDenialsAreKnown(t *testing.T) {
	for _, denial := range []error{zk.ErrNoAuth, zk.ErrAuthFailed, zk.ErrInvalidACL} {
		if err := unsure("writing", denial); errors.Is(err, store.ErrUnknown) || !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%v: %v, want that it is denied", denial, err)
		}
	}
}

// TestObserversDoNotVote: how many servers vote is told by the configuration as ZooKeeper shows it, in which observers are, too. That of a server that runs alone has none.
func TestObserversDoNotVote(t *testing.T) {
	const voters = "server.1=a:2888:3888:participant;0.0.0.0:2181\nserver.2=b:2888:3888;2181\nserver.3=c:2888:3888:participant\n"
	for configuration, want := range map[string]int{
		"": 1, "version=0": 1, voters + "version=100000000": 3,
		voters + "server.4=d:2888:3888:observer;0.0.0.0:2181\nserver.5=e:2888:3888:observer\nversion=100000000": 3,
	} {
		if n := votersIn(configuration); n != want {
			t.Errorf("of %q %d vote, want %d", configuration, n, want)
		}
	}
}
