package zkstore

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

// TestWatchThatCannotBeSet: a watch that ZooKeeper refuses, or that is begun when the connection is closed, is lost at once, and does not keep its caller waiting until the context ends.
func TestWatchThatCannotBeSet(t *testing.T) {
	conn, _, err := zk.Connect([]string{"127.0.0.1:1"}, time.Second, zk.WithLogger(silent{}))
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	s, err := New(conn, Config{})
	if err != nil {
		t.Fatal(err)
	}
	one := &wake{ch: make(chan struct{}, 1), names: []string{"a"}}
	of := &watched{wakes: []*wake{one}, left: make(chan struct{}), set: make(chan struct{})}
	s.watches.names["a"] = of
	s.watches.follow(conn, "a", of)
	select {
	case <-of.set:
	default:
		t.Error("its caller waits still")
	}
	if _, open := <-one.ch; open || len(s.watches.names) > 0 {
		t.Errorf("a value: %v, and %d names are watched, want the end of the watch and of the name", open, len(s.watches.names))
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
