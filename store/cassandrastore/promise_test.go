package cassandrastore

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/soloist-dev/soloist/store"
)

// TestPromises: clusters that no test can start here are judged by what they would say of themselves.
func TestPromises(t *testing.T) {
	const nts = "org.apache.cassandra.locator.NetworkTopologyStrategy"
	for _, test := range []struct {
		rule        string
		replication map[string]string
		version     string
		local       bool
		fencing     store.Answer
		why         string
	}{
		{"two datacenters decide together", map[string]string{"class": nts, "a": "3", "b": "3"}, "5.0.9", false, store.Yes, "majority of 6"},
		{"one of two datacenters decides", map[string]string{"class": nts, "a": "3", "b": "3"}, "5.0.9", true, store.No, "LOCAL_SERIAL"},
		{"the other datacenter has no copies", map[string]string{"class": nts, "a": "3", "b": "0"}, "5.0.9", true, store.Yes, "majority of 3"},
		{"transient replication", map[string]string{"class": nts, "a": "3/1"}, "5.0.9", false, store.Unknown, "3/1"},
		{"another strategy", map[string]string{"class": "org.apache.cassandra.locator.EverywhereStrategy"}, "5.0.9", false, store.Unknown, "EverywhereStrategy"},
		{"an old server, or ScyllaDB", map[string]string{"class": nts, "a": "3"}, "3.0.8", false, store.Unknown, "3.0.8"},
		{"a server without a version", map[string]string{"class": nts, "a": "3"}, "", false, store.Unknown, "version"},
	} {
		s := sight{version: test.version, replication: test.replication, durableWrites: true, grace: leastGrace}
		if got := s.fencing(test.local); got.Answer != test.fencing || !strings.Contains(got.Why, test.why) {
			t.Errorf("%s: got %+v, want %v because of %q", test.rule, got, test.fencing, test.why)
		}
	}
}

// TestCallsShareAnAttempt: calls that come while the store connects wait for the same attempt, one that failed is
// followed by another one, and after the end of the store there is none.
func TestCallsShareAnAttempt(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	begun, fail := make(chan struct{}, 100), make(chan struct{})
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			begun <- struct{}{}
			go func() { <-fail; _ = conn.Close() }()
		}
	}()
	target, err := parseURL("cassandra://" + l.Addr().String() + "/k?timeout=5m&dialtimeout=5m")
	if err != nil {
		t.Fatal(err)
	}
	c := &connector{cluster: target.cluster()}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.get(over); !errors.Is(err, context.Canceled) {
		t.Errorf("a call whose context has ended: %v", err)
	}
	<-begun
	first, err := c.begin()
	if err != nil {
		t.Fatal(err)
	}
	if second, err := c.begin(); second != first || err != nil {
		t.Errorf("a call during an attempt begins another one, %v", err)
	}
	close(fail)
	<-first.done
	if second, err := c.begin(); second == first || err != nil || first.err == nil || first.session != nil {
		t.Errorf("after an attempt that failed with %v there is no other one: %v", first.err, err)
	}
	if err := c.close(); err != nil {
		t.Error(err)
	}
	if _, err := c.get(t.Context()); !errors.Is(err, store.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}

// TestRequestsStayInTheDatacenter: with the option datacenter a node of another one is no node to send requests to first, and without it every node is.
func TestRequestsStayInTheDatacenter(t *testing.T) {
	elsewhere := &gocql.HostInfo{}
	for url, local := range map[string]bool{"cassandra://host/k?datacenter=dc1": false, "cassandra://host/k": true} {
		target, err := parseURL(url)
		if err != nil {
			t.Fatal(err)
		}
		c := &connector{cluster: target.cluster(), datacenter: target.datacenter}
		for range 2 { // each attempt to connect has a policy of its own
			if got := c.configured(&observer{}).PoolConfig.HostSelectionPolicy.IsLocal(elsewhere); got != local {
				t.Errorf("%s: that a node elsewhere is one to ask first is %v, want %v", url, got, local)
			}
		}
	}
}
