//go:build linux

package hazelcaststore_test

import (
	"bufio"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/soloist-dev/soloist/store/hazelcaststore"
	"github.com/soloist-dev/soloist/test/servers"
)

// A tap passes one connection to a member. Once it holds, nothing reaches the client any more, not even the end of the
// connection to the member.
type tap struct {
	addr   string
	client chan net.Conn
	held   atomic.Bool
}

func newTap(t *testing.T, to string) *tap {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &tap{addr: l.Addr().String(), client: make(chan net.Conn, 1)}
	go func() {
		client, err := l.Accept()
		_ = l.Close()
		if err != nil {
			return
		}
		p.client <- client
		member, err := net.Dial("tcp", to)
		if err != nil {
			_ = client.Close()
			return
		}
		go func() { _, _ = io.Copy(member, client); _ = member.Close() }()
		in := bufio.NewReader(member)
		for {
			m, err := read(in)
			if err != nil || p.held.Load() {
				return
			}
			if _, err := client.Write(m.bytes); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { _ = l.Close() })
	return p
}

// TestMemberThatWasStartedAgainCountsOnce: a client whose connection was silent while a member was started again learns
// of the new one, and never that the old one has left. The two count once: otherwise the smaller side of a cluster that
// is cut in two would have enough members.
func TestMemberThatWasStartedAgainCountsOnce(t *testing.T) {
	servers.Long(t)
	c := servers.NewHazelcastCluster(t, 2)
	servers.Wait(t, "a cluster of two", func() bool { return c.Members[1].Safe(2) })
	view := newTap(t, c.Members[0].Addr)
	s := open(t, config(view.addr), hazelcaststore.Config{Map: "plain", MinMembers: 1})
	seen := func() []string {
		all, err := hazelcaststore.Members(background, s)
		if err != nil {
			t.Log(err)
		}
		return all
	}
	servers.Wait(t, "a client of two members", func() bool { return len(seen()) == 2 })
	before := seen()
	view.held.Store(true)
	c.Members[0].Kill()
	c.Members[0].Start()
	servers.Wait(t, "the member to be back", func() bool { return c.Members[0].Safe(2) && c.Members[1].Safe(2) })
	if got := seen(); !slices.Equal(got, before) {
		t.Fatalf("the client knows already: it saw %v, and now %v", before, got)
	}
	_ = (<-view.client).Close()
	var now []string
	servers.Wait(t, "the client to see the new member", func() bool {
		now = seen()
		return slices.ContainsFunc(now, func(m string) bool { return !slices.Contains(before, m) })
	})
	if len(now) != 2 {
		t.Errorf("the client counts %d members, %v, of a cluster of two; before that %v", len(now), now, before)
	}
}
