package hazelcaststore

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"net"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hazelcast/hazelcast-go-client"
	"github.com/hazelcast/hazelcast-go-client/cluster"
	"github.com/hazelcast/hazelcast-go-client/logger"
	"github.com/hazelcast/hazelcast-go-client/types"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/casstore"
	"github.com/soloist-dev/soloist/test/servers"
)

// An oddMember is a member with the CP Subsystem that a test makes up. It has one register for each name.
type oddMember struct {
	net.Listener
	connections atomic.Int64
	ended       atomic.Int64 // of these

	mu    sync.Mutex
	kept  map[string][]byte
	conns []net.Conn

	// meddle, if not nil, returns the bytes to send instead of a reply, and whether the connection ends then.
	meddle func(asked message, reply []byte) (instead []byte, ends bool)
}

func newOddMember(t *testing.T) *oddMember {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &oddMember{Listener: l, kept: map[string][]byte{}}
	var open sync.WaitGroup
	open.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			m.connections.Add(1)
			m.mu.Lock()
			m.conns = append(m.conns, conn)
			m.mu.Unlock()
			open.Go(func() { m.serve(conn); m.ended.Add(1) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		m.mu.Lock()
		for _, conn := range m.conns {
			_ = conn.Close() // a store that has left it open has failed its test
		}
		m.mu.Unlock()
		open.Wait()
	})
	return m
}

// open returns a store of the member. It is closed before the member is.
func (m *oddMember) open(t *testing.T) *Store {
	t.Helper()
	return m.openAs(t, 1)
}

// openAs is open for a cluster of n members, which the member is all of.
func (m *oddMember) openAs(t *testing.T, n int) *Store {
	t.Helper()
	var c hazelcast.Config
	c.Logger.Level = logger.OffLevel
	c.Cluster.Network.Addresses = slices.Repeat([]string{m.Addr().String()}, n)
	c.Cluster.ConnectionStrategy.Timeout = types.Duration(time.Hour)
	s, err := New(c, Config{CP: true})
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

func (m *oddMember) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	if _, err := in.Discard(len("CP2")); err != nil {
		return
	}
	for {
		asked, err := readMessage(in)
		if err != nil {
			return
		}
		reply, ends := m.reply(asked).bytes(asked.correlation()), false
		if m.meddle != nil {
			reply, ends = m.meddle(asked, reply)
		}
		if _, err := conn.Write(reply); err != nil || ends {
			return
		}
	}
}

// replying begins a reply to a request.
func replying(to message, fields ...byte) message {
	first := binary.LittleEndian.AppendUint32(nil, to.kind()+1)
	return message{{flagsWhole, append(append(first, make([]byte, atReply-len(first))...), fields...)}}
}

// refusing is a reply with an error of a class.
func refusing(class string) message {
	begin, end, code := frame{flagBegin, nil}, frame{flagEnd, nil}, frame{0, make([]byte, 4)}
	m := message{{flagsWhole, make([]byte, atReply)}, begin, begin, code}
	return append(m.text(class).text("refused"), end, end)
}

func (m *oddMember) reply(asked message) message {
	m.mu.Lock()
	defer m.mu.Unlock()
	group := groupID{groupName, 0, 7}
	switch asked.kind() {
	case typeAuthenticate:
		return append(replying(asked, 0), frame{flagNull, nil}).text("5.4.0")
	case typeCreateGroup:
		return replying(asked).group(group)
	case typeGroups:
		list := append(replying(asked), frame{flagBegin, nil})
		return append(list.group(groupID{"METADATA", 0, 0}).group(group), frame{flagEnd, nil})
	case typeGet:
		return replying(asked).data(m.kept[nameIn(asked)])
	case typeCompareAndSet:
		from, to := asked[len(asked)-2], asked[len(asked)-1]
		if !bytes.Equal(m.kept[nameIn(asked)], from.content) {
			return replying(asked, 0)
		}
		m.kept[nameIn(asked)] = to.content
		return replying(asked, 1)
	}
	return replying(asked)
}

// nameIn returns the name of the reference that a request is about. It follows the group.
func nameIn(asked message) string {
	r := asked.reply()
	r.group()
	return string(r.next().content)
}

// isFloor reports whether a request is about the floor of tokens.
func isFloor(asked message) bool { return strings.HasSuffix(nameIn(asked), casstore.FloorName) }

func claim(ctx context.Context, s *Store) (store.Grant, error) {
	outcomes, err := s.Acquire(ctx, []store.Claim{{Name: "a", Holder: "x", TTL: time.Hour}})
	if err != nil {
		return store.Grant{}, err
	}
	return outcomes[0].Grant, outcomes[0].Err
}

// TestStuckConnection: a request ends with its context, also if the connection takes no bytes. What was not sent has no
// unknown outcome.
func TestStuckConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe() // nobody reads from far
		defer far.Close()
		l := newLink(near, time.Hour)
		go l.write()
		ask := func(ctx context.Context) chan error {
			failed := make(chan error, 1)
			go func() { _, err := l.do(ctx, request(typePing)); failed <- err }()
			synctest.Wait()
			return failed
		}
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		first, second := ask(ctx), ask(ctx)
		if err := <-first; !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errUnsent) {
			t.Errorf("what the connection takes no byte of: %v, want that its time is over", err)
		}
		if err := <-second; !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errUnsent) {
			t.Errorf("what comes behind it: %v, want that it was not sent", err)
		}
		if took := time.Since(begin); took != time.Second {
			t.Errorf("requests for 1s took %v", took)
		}
		l.end(errEnded)
	})
}

// TestConnectionThatTakesNothing: a member that reads nothing any more is given up as one that says nothing is, and does not hold pings up for good.
func TestConnectionThatTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe() // nobody reads from far
		defer far.Close()
		l := newLink(near, time.Second)
		go l.write()
		go l.ping()
		select {
		case <-l.done:
		case <-time.After(time.Minute):
			t.Errorf("the connection is kept for a minute, although the member may be silent for %v", l.silence)
			l.end(errEnded)
		}
	})
}

// TestWriteWithoutAReplyTakesNoOthersAlong: requests that come after a member has not answered a write for a while go through another connection. The write goes on waiting.
func TestWriteWithoutAReplyTakesNoOthersAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		go func() { _, _ = io.Copy(io.Discard, far) }() // a member that reads, and does not reply
		l := newLink(near, time.Hour)
		go l.write()
		r := &references{links: &links{current: l, closed: make(chan struct{})}}
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := r.compareAndSet(ctx, "writing", "a", "", "b")
			failed <- err
		}()
		time.Sleep(slow - 1)
		if synctest.Wait(); !l.usable() {
			t.Error("the connection takes no requests any more, too early")
		}
		time.Sleep(time.Nanosecond)
		if synctest.Wait(); l.usable() || l.why() != nil {
			t.Errorf("the connection takes requests: %t, and has ended with %v; want neither", l.usable(), l.why())
		}
		cancel()
		if err := <-failed; !errors.Is(err, store.ErrUnknown) || !errors.Is(err, context.Canceled) {
			t.Errorf("the write: %v, want that it was cancelled and its outcome is unknown", err)
		}
	})
}

// TestConnectionOutlivesItsWrites: a write that was answered in time costs no connection later.
func TestConnectionOutlivesItsWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		m := &oddMember{kept: map[string][]byte{}}
		go m.serve(far)
		if _, err := near.Write([]byte("CP2")); err != nil {
			t.Fatal(err)
		}
		l := newLink(near, time.Hour)
		go l.write()
		go l.read()
		defer l.end(errEnded)
		r := &references{links: &links{current: l, closed: make(chan struct{})}}
		if done, err := r.compareAndSet(t.Context(), "writing", "a", "", "b"); !done || err != nil {
			t.Fatal(done, err)
		}
		time.Sleep(slow)
		if synctest.Wait(); !l.usable() {
			t.Errorf("the connection takes no requests any more: %v", l.why())
		}
	})
}

// TestReplyBeforeTheEnd: a reply that has arrived counts, also if the connection has ended before the one that waits for
// it has looked.
func TestReplyBeforeTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 1000 { // in many of them the one that waits meets both at once
			near, _ := net.Pipe()
			l := newLink(near, time.Hour)
			failed := make(chan error, 1)
			go func() { _, err := l.do(t.Context(), request(typePing)); failed <- err }()
			synctest.Wait()
			<-l.outbox
			l.mu.Lock()
			for _, replied := range l.waiting {
				replied <- replying(request(typePing))
			}
			l.mu.Unlock()
			l.end(errEnded)
			if err := <-failed; err != nil {
				t.Fatalf("got %v, want the reply", err)
			}
		}
	})
}

// TestLongReply: a member that sends a reply slowly is not silent, and one that sends nothing is.
func TestLongReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		const silence = 10 * time.Second
		l := newLink(near, silence)
		go l.write()
		go l.read()
		go l.ping()
		in := make(chan message, 1)
		go func() {
			for {
				m, err := readMessage(far)
				if err != nil {
					return
				}
				if m.kind() == typeGet {
					in <- m
				}
			}
		}()
		go func() {
			asked := <-in
			for _, b := range replying(asked).text("a long reply").bytes(asked.correlation()) {
				time.Sleep(silence / 2)
				if _, err := far.Write([]byte{b}); err != nil {
					return
				}
			}
		}()
		if _, err := l.do(t.Context(), request(typeGet)); err != nil {
			t.Errorf("a reply that arrives: %v", err)
		}
		begin := time.Now()
		<-l.done
		if silent := time.Since(begin); silent <= silence || silent > 2*silence {
			t.Errorf("a member that sends nothing was given up after %v, want after %v", silent, silence)
		}
	})
}

// TestBreakingConnections: a member that breaks each connection as soon as it is ready is asked some times, and not
// without end.
func TestBreakingConnections(t *testing.T) {
	m := newOddMember(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	m.meddle = func(asked message, reply []byte) ([]byte, bool) {
		if m.connections.Load() > 10*tries {
			cancel()
		}
		ready := asked.kind() == typeGroups
		if ready {
			reply = append(reply, make([]byte, 6)...) // a frame whose length is less than that of its head
		}
		return reply, ready
	}
	r := m.open(t).references
	_, err := r.compareAndSet(ctx, "writing", "a", "", "b")
	if err == nil || ctx.Err() != nil {
		t.Errorf("got %v after %d connections, want an error after a few", err, m.connections.Load())
	}
}

// TestOneConnectionStays: of members that are ready at the same moment one keeps its connection. Those to the others do not stay open, beside it or after the end of the store.
func TestOneConnectionStays(t *testing.T) {
	const n, rounds = 16, 100 // two are ready at the same moment in some of them
	m := newOddMember(t)
	var asked sync.WaitGroup
	var left atomic.Int64
	m.meddle = func(to message, reply []byte) ([]byte, bool) {
		if to.kind() == typeGroups && left.Add(-1) >= 0 {
			asked.Done()
			asked.Wait()
		}
		return reply, false
	}
	for range rounds {
		asked.Add(n)
		left.Store(n)
		s := m.openAs(t, n)
		if _, err := s.references.links.get(t.Context()); err != nil {
			t.Fatal(err)
		}
		servers.Wait(t, "the other connections to end", func() bool { return m.connections.Load()-m.ended.Load() == 1 })
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCallsShareAConnection: calls that come while the store connects to the CP Subsystem wait for the same attempt,
// and those after it use its connection, until that takes no more requests.
func TestCallsShareAConnection(t *testing.T) {
	m := newOddMember(t)
	asked, goOn := make(chan struct{}, 9), make(chan struct{})
	m.meddle = func(to message, reply []byte) ([]byte, bool) {
		if to.kind() == typeGroups {
			asked <- struct{}{}
			<-goOn
		}
		return reply, false
	}
	ls := m.open(t).references.links
	over, cancel := context.WithCancel(t.Context())
	cancel()
	attempt := func() *opening {
		t.Helper()
		if _, err := ls.get(over); !errors.Is(err, context.Canceled) || errors.Is(err, store.ErrUnknown) {
			t.Errorf("a call whose context has ended: %v", err)
		}
		ls.mu.Lock()
		defer ls.mu.Unlock()
		return ls.opening
	}
	first := attempt()
	<-asked
	if attempt() != first {
		t.Error("a call during an attempt begins another one")
	}
	close(goOn)
	l, err := ls.get(t.Context())
	if err != nil || l != first.link {
		t.Fatalf("got another connection than that of the attempt, %v", err)
	}
	if again, err := ls.get(over); again != l || err != nil {
		t.Errorf("a later call has another connection, %v", err)
	}
	l.retire()
	if again, err := ls.get(t.Context()); again == l || err != nil || !again.usable() {
		t.Errorf("after its connection was retired a call has the same one, %v", err)
	}
	servers.Wait(t, "the end of the one before", func() bool { return m.connections.Load()-m.ended.Load() == 1 })
}

// TestCallsShareAnAttempt: calls that come while the store connects to a cluster wait for the same attempt, as long as
// it may take. Another one takes the place of one that takes longer, or has failed, and after the end of the store
// there is none.
func TestCallsShareAnAttempt(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // which accepts connections, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var config hazelcast.Config
	config.Logger.Level = logger.OffLevel
	config.Cluster.Network.Addresses = []string{l.Addr().String()}
	config.Cluster.Network.ConnectionTimeout = types.Duration(time.Hour)
	config.Cluster.ConnectionStrategy.Timeout = types.Duration(time.Hour)
	s, err := New(config, Config{})
	if err != nil {
		t.Fatal(err)
	}
	c := s.backend.connector
	begin := func() *attempt {
		t.Helper()
		a, err := c.begin()
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	first := begin()
	if begin() != first {
		t.Error("a call during an attempt begins another one")
	}
	c.mu.Lock()
	first.until = time.Now().Add(-time.Second)
	c.mu.Unlock()
	second := begin()
	if second == first || begin() != second {
		t.Error("an attempt that takes too long is not followed by one other")
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.get(over); !errors.Is(err, context.Canceled) || errors.Is(err, store.ErrUnknown) {
		t.Errorf("a call whose context has ended: %v", err)
	}
	failed := &attempt{until: time.Now().Add(time.Hour), done: make(chan struct{}), err: errEnded}
	close(failed.done)
	c.mu.Lock()
	c.attempt = failed
	c.mu.Unlock()
	if third := begin(); third == failed || begin() != third {
		t.Error("an attempt that has failed is not followed by one other")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if a, err := c.begin(); a != nil || !errors.Is(err, store.ErrClosed) {
		t.Errorf("after the end: %v, %v", a, err)
	}
}

// TestRetiredConnection: a connection that takes no more requests has the replies to those that it has taken, and ends
// after the last one. What comes later is not sent.
func TestRetiredConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		in := make(chan message, 9)
		go func() {
			for {
				m, err := readMessage(far)
				if err != nil {
					close(in)
					return
				}
				in <- m
			}
		}()
		l := newLink(near, time.Hour)
		go l.write()
		go l.read()
		failed := make(chan error, 2)
		for range 2 {
			go func() { _, err := l.do(t.Context(), request(typeGet)); failed <- err }()
		}
		asked := []message{<-in, <-in}
		l.retire()
		if _, err := l.do(t.Context(), request(typeGet)); !errors.Is(err, errUnsent) {
			t.Errorf("a request after that: %v, want that it was not sent", err)
		}
		for i, m := range asked {
			synctest.Wait()
			if l.why() != nil || l.usable() {
				t.Errorf("after %d replies it has ended with %v, and takes requests: %t", i, l.why(), l.usable())
			}
			if _, err := far.Write(replying(m).data(nil).bytes(m.correlation())); err != nil {
				t.Fatal(err)
			}
			if err := <-failed; err != nil {
				t.Errorf("a request before that: %v", err)
			}
		}
		if m, more := <-in; more {
			t.Errorf("the member got %v, too", m)
		}
		if !errors.Is(l.why(), errEnded) {
			t.Errorf("it has ended with %v", l.why())
		}
	})
}

// TestFloorIsRefused: the error of the first write of all, that of the floor of tokens, has its reason.
func TestFloorIsRefused(t *testing.T) {
	m := newOddMember(t)
	m.meddle = func(asked message, reply []byte) ([]byte, bool) {
		if asked.kind() == typeCompareAndSet {
			reply = refusing("java.security.AccessControlException").bytes(asked.correlation())
		}
		return reply, false
	}
	if _, err := claim(t.Context(), m.open(t)); !errors.Is(err, fs.ErrPermission) || errors.Is(err, store.ErrUnknown) {
		t.Errorf("got %v, want that it is not permitted", err)
	}
}

// TestGroupsOfMembers: a member is used whose CP Subsystem has the group of all groups, METADATA, and the one that is asked for. Another one has made a group up.
func TestGroupsOfMembers(t *testing.T) {
	metadata, ours := groupID{"METADATA", 0, 0}, groupID{groupName, 0, 7}
	for what, c := range map[string]struct {
		groups []groupID
		want   error
	}{
		"both":                   {[]groupID{metadata, ours}, nil},
		"no METADATA":            {[]groupID{ours}, store.ErrUnusable},
		"METADATA alone":         {[]groupID{metadata}, store.ErrUnusable},
		"one of the same name":   {[]groupID{metadata, {groupName, 0, 8}}, store.ErrUnusable},
		"one of the same number": {[]groupID{metadata, {"other", 0, 7}}, store.ErrUnusable},
	} {
		m := newOddMember(t)
		m.meddle = func(asked message, reply []byte) ([]byte, bool) {
			if asked.kind() == typeGroups {
				list := append(replying(asked), frame{flagBegin, nil})
				for _, g := range c.groups {
					list = list.group(g)
				}
				reply = append(list, frame{flagEnd, nil}).bytes(asked.correlation())
			}
			return reply, false
		}
		if _, err := claim(t.Context(), m.open(t)); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", what, err, c.want)
		}
	}
}

// TestWhatAMemberIsTold: a member learns the cluster's name, the user and the password, or that there are none, and who the client is.
func TestWhatAMemberIsTold(t *testing.T) {
	frameOf := func(text string) frame { return frame{0, []byte(text)} }
	null, begin, end := frame{flagNull, []byte{}}, frame{flagBegin, []byte{}}, frame{flagEnd | flagFinal, []byte{}}
	for user, want := range map[string][]frame{
		"u": {frameOf("prod"), frameOf("u"), frameOf("p"), frameOf("GOO"), frameOf("1.4.2"), frameOf("billing"), begin, frameOf("one"), frameOf("two"), end},
		"":  {frameOf("prod"), null, null, frameOf("GOO"), frameOf("1.4.2"), frameOf("billing"), begin, frameOf("one"), frameOf("two"), end},
	} {
		m := newOddMember(t)
		asked := make(chan message, 1)
		m.meddle = func(to message, reply []byte) ([]byte, bool) {
			if to.kind() == typeAuthenticate {
				select {
				case asked <- to:
				default: // another attempt
				}
				address := append(replying(to, 0), frame{flagBegin, nil}).text("127.0.0.1") // of a member that has sent its address
				reply = append(address, frame{flagEnd, nil}).text("5.4.1").bytes(to.correlation())
			}
			return reply, false
		}
		var c hazelcast.Config
		c.Logger.Level = logger.OffLevel
		c.ClientName = "billing"
		c.SetLabels("one", "two")
		c.Cluster.Name = "prod"
		c.Cluster.Network.Addresses = []string{m.Addr().String()}
		c.Cluster.Security.Credentials.Username, c.Cluster.Security.Credentials.Password = user, "p"
		c.Cluster.ConnectionStrategy.Timeout = types.Duration(time.Hour)
		s, err := New(c, Config{CP: true})
		if err != nil {
			t.Fatal(err)
		}
		l, err := s.references.links.get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if l.version != "5.4.1" || l.group != (groupID{groupName, 0, 7}) {
			t.Errorf("the member has the version %q and the group %v", l.version, l.group)
		}
		told := <-asked
		if id := told[0].content[atFields:]; len(id) != 18 || id[0] != 0 || id[17] != 1 || bytes.Equal(id[1:17], make([]byte, 16)) {
			t.Errorf("the identity is %v, want a new one and the version of the serialization", id)
		}
		if got := told[1:]; !reflect.DeepEqual([]frame(got), want) {
			t.Errorf("the member was told %v, want %v", got, want)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestMembersThatRefuseTheClient: a member that refuses the client, or sends nothing about that, is not used.
func TestMembersThatRefuseTheClient(t *testing.T) {
	for what, c := range map[string]struct {
		fields []byte
		denies bool
		says   string
	}{
		"its user, or the cluster's name":  {[]byte{1}, true, "refuses the user, the password or the name of the cluster"},
		"its version":                      {[]byte{2}, true, "with the status 2"},
		"a client that may not connect":    {[]byte{3}, true, "with the status 3"},
		"a reply without what it is about": {nil, false, errProtocol.Error()},
	} {
		m := newOddMember(t)
		m.meddle = func(asked message, reply []byte) ([]byte, bool) {
			if asked.kind() == typeAuthenticate {
				reply = append(replying(asked, c.fields...), frame{flagNull, nil}).text("5.4.0").bytes(asked.correlation())
			}
			return reply, false
		}
		_, err := claim(t.Context(), m.open(t))
		if err == nil || errors.Is(err, store.ErrUnknown) || errors.Is(err, fs.ErrPermission) != c.denies || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want an error with %q", what, err, c.says)
			continue
		}
		servers.Wait(t, "the connection to end", func() bool { return m.ended.Load() == m.connections.Load() })
	}
}

// TestAddressesOfMembers: an address without a port has the port of Hazelcast.
func TestAddressesOfMembers(t *testing.T) {
	var c hazelcast.Config
	given := []string{"a", "b:1", "::1", "[::2]", "[::3]:5"}
	c.Cluster.Network.Addresses = given
	c.Cluster.Network.ConnectionTimeout, c.Cluster.ConnectionStrategy.Timeout, c.Cluster.HeartbeatTimeout = 1, 2, 3
	d := newDialer(c)
	if want := []string{"a:5701", "b:1", "[::1]:5701", "[::2]:5701", "[::3]:5"}; !slices.Equal(d.addrs, want) || given[0] != "a" {
		t.Errorf("the addresses are %q, want %q; what was given is %q", d.addrs, want, given)
	}
	if d.dialing != 1 || d.within != 2 || d.heartbeat != 3 || d.tls != nil {
		t.Errorf("got %+v", d)
	}
}

// TestReadThatIsDenied: a read that a member refuses for want of a right is not sent again.
func TestReadThatIsDenied(t *testing.T) {
	m := newOddMember(t)
	var reads atomic.Int64
	m.meddle = func(asked message, reply []byte) ([]byte, bool) {
		if asked.kind() == typeGet {
			reads.Add(1)
			reply = refusing("java.security.AccessControlException").bytes(asked.correlation())
		}
		return reply, false
	}
	if _, err := claim(t.Context(), m.open(t)); !errors.Is(err, fs.ErrPermission) || errors.Is(err, store.ErrUnknown) || reads.Load() != 1 {
		t.Errorf("got %v after %d reads, want that it is not permitted after one", err, reads.Load())
	}
}

// TestRepliesToReads: what is no record is reported by its name, what is not there is no error, and what a member
// cannot answer is asked for again, through another connection.
func TestRepliesToReads(t *testing.T) {
	with := func(data []byte) func(message) message {
		return func(asked message) message { return replying(asked).data(data) }
	}
	refused := func(message) message { return refusing("com.hazelcast.RetryableHazelcastException") }
	for what, c := range map[string]struct {
		reply       func(asked message) message // to the first read
		connections int64
		says        string // of the record, or of the read
		fails       bool
	}{
		"a text":   {with(textData("held")), 1, "something else", false},
		"nothing":  {with(nil), 1, "", false},
		"a number": {with([]byte("1234567")), 1, "it is no text", false},
		"no value": {func(asked message) message { return replying(asked) }, 1, errProtocol.Error(), true},
		"an error": {refused, 2, "", false},
	} {
		m := newOddMember(t)
		var reads atomic.Int64
		m.meddle = func(asked message, reply []byte) ([]byte, bool) {
			if asked.kind() == typeGet && reads.Add(1) == 1 {
				reply = c.reply(asked).bytes(asked.correlation())
			}
			return reply, false
		}
		item, err := m.open(t).references.get(t.Context(), "a")
		told := item.Err
		if c.fails {
			told = err
		}
		if (err != nil) != c.fails || errors.Is(err, store.ErrUnknown) || item.Version != "" ||
			!c.fails && item.Name != "a" || (told == nil) != (c.says == "") ||
			told != nil && !strings.Contains(told.Error(), c.says) {
			t.Errorf("%s: got %+v, %v; want that it says %q", what, item, err, c.says)
		}
		if n := m.connections.Load(); n != c.connections {
			t.Errorf("%s: it took %d connections, want %d", what, n, c.connections)
		}
	}
}

// TestRemovals: what is removed as it was read is gone, what has changed since stays, and of a removal that is not
// answered nothing is known.
func TestRemovals(t *testing.T) {
	m := newOddMember(t)
	var breaks atomic.Bool
	m.meddle = func(asked message, reply []byte) ([]byte, bool) {
		if asked.kind() == typeCompareAndSet && breaks.Load() {
			return nil, true
		}
		return reply, false
	}
	r := m.open(t).references
	key := r.prefix + "a"
	for _, c := range []struct {
		what, there, version string
		breaks               bool
		err                  error
		left                 bool
	}{
		{"as it was read", "v", "v", false, nil, false},
		{"changed since", "w", "v", false, casstore.ErrConflict, true},
		{"not answered", "v", "v", true, store.ErrUnknown, false},
	} {
		m.mu.Lock()
		m.kept[key] = textData(c.there)
		m.mu.Unlock()
		breaks.Store(c.breaks)
		results, err := r.Write(t.Context(), []casstore.Change{{Name: "a", Version: c.version}})
		if err != nil {
			t.Fatal(err)
		}
		m.mu.Lock()
		left := len(m.kept[key]) > 0
		m.mu.Unlock()
		got := results[0]
		unknown := errors.Is(got.Err, store.ErrUnknown)
		if !errors.Is(got.Err, c.err) || unknown != c.breaks || got.Version != "" || left != c.left {
			t.Errorf("%s: got %+v, and it is left: %t; want %v, %t", c.what, got, left, c.err, c.left)
		}
	}
}

// TestWriteThatWasCarriedOutAndCannotBeRead: a write may have taken effect before it was refused. If nobody can read what is there, for whatever reason, the outcome is unknown.
func TestWriteThatWasCarriedOutAndCannotBeRead(t *testing.T) {
	m := newOddMember(t)
	var deny atomic.Bool
	m.meddle = func(asked message, reply []byte) ([]byte, bool) {
		switch {
		case asked.kind() == typeCompareAndSet && !isFloor(asked):
			deny.Store(true)
			reply = m.reply(asked).bytes(asked.correlation()) // the members have carried it out before
		case asked.kind() == typeGet && deny.Load():
			reply = refusing("java.security.AccessControlException").bytes(asked.correlation())
		}
		return reply, false
	}
	if _, err := claim(t.Context(), m.open(t)); !errors.Is(err, store.ErrUnknown) || !errors.Is(err, fs.ErrPermission) {
		t.Errorf("got %v, want that it is unknown, and why it cannot be read", err)
	}
}

// TestCloseWhileMembersAreAsked: Close ends attempts to connect, and leaves no connection. Who waited for one learns that the store is closed.
func TestCloseWhileMembersAreAsked(t *testing.T) {
	m := newOddMember(t)
	asked, last := make(chan struct{}), make(chan struct{})
	begins := sync.OnceFunc(func() { close(asked) })
	m.meddle = func(to message, reply []byte) ([]byte, bool) {
		if to.kind() == typeGroups {
			begins()
			<-last
		}
		return reply, false
	}
	s := m.open(t)
	failed := make(chan error, 1)
	go func() { failed <- s.Ping(t.Context()) }()
	<-asked
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	close(last)
	if err := <-failed; !errors.Is(err, store.ErrClosed) || errors.Is(err, store.ErrUnknown) {
		t.Errorf("who waited: %v, want that the store is closed", err)
	}
	servers.Wait(t, "the connection to end", func() bool { return m.ended.Load() == m.connections.Load() })
}

// TestNamesOfAGroup: of the references of a group a store lists those of its own map, in order, each once.
func TestNamesOfAGroup(t *testing.T) {
	m := newOddMember(t)
	m.meddle = func(asked message, reply []byte) ([]byte, bool) {
		if asked.kind() == typeObjects {
			list := append(replying(asked), frame{flagBegin, nil})
			for _, name := range []string{"soloist:b", "soloist2:c", "soloist:a2", "soloist:a", "other", "soloist:x:y"} {
				list = list.text(name)
			}
			reply = append(list, frame{flagEnd, nil}).bytes(asked.correlation())
		}
		return reply, false
	}
	r := m.open(t).references
	for prefix, want := range map[string][]string{"": {"a", "a2", "b", "x:y"}, "a": {"a", "a2"}, "c": {"c"}} {
		if names, err := r.objects(t.Context(), prefix); !slices.Equal(names, want) || err != nil {
			t.Errorf("with %q: %q, %v; want %q", prefix, names, err, want)
		}
	}
}

// TestMembersWithData: only members that have data count, each once, until they leave or another one has their address.
func TestMembersWithData(t *testing.T) {
	seen := newMembers(2)
	for i, step := range []struct {
		id    uint64
		at    cluster.Address
		lite  bool
		state cluster.MembershipState
		count int
	}{
		{1, "a", false, cluster.MembershipStateAdded, 1},
		{2, "b", true, cluster.MembershipStateAdded, 1},
		{1, "a", false, cluster.MembershipStateAdded, 1},
		{3, "c", false, cluster.MembershipStateAdded, 2},
		{2, "b", true, cluster.MembershipStateRemoved, 2},
		{1, "a", false, cluster.MembershipStateRemoved, 1},
		{4, "c", false, cluster.MembershipStateAdded, 1},
		{3, "c", false, cluster.MembershipStateRemoved, 1},
		{5, "a", false, cluster.MembershipStateAdded, 2},
		{6, "a", true, cluster.MembershipStateAdded, 1},
	} {
		member := cluster.MemberInfo{UUID: types.NewUUIDWith(0, step.id), Address: step.at, LiteMember: step.lite}
		if seen.change(cluster.MembershipStateChanged{Member: member, State: step.state}); seen.count() != step.count {
			t.Errorf("after step %d there are %d, want %d", i, seen.count(), step.count)
		}
	}
}

// TestNeededMembers: an operator is warned of a MinMembers that both halves of a split cluster have, and of one that no cluster has.
func TestNeededMembers(t *testing.T) {
	for _, test := range []struct {
		few, count int
		level      store.Level
		fix        string
	}{
		{0, 3, store.LevelWarning, "set it to 2,"},
		{1, 2, store.LevelWarning, "set it to 2,"},
		{1, 3, store.LevelWarning, "set it to 2,"},
		{2, 3, store.LevelOK, ""},
		{3, 3, store.LevelOK, ""},
		{4, 3, store.LevelError, "missing"},
		{2, 4, store.LevelWarning, "set it to 3,"},
		{3, 4, store.LevelOK, ""},
	} {
		if f := needed(test.few, test.count); f.Subject != "minmembers" || f.Level != test.level || !strings.Contains(f.Fix, test.fix) {
			t.Errorf("%d of %d: %+v, want the level %v and %q", test.few, test.count, f, test.level, test.fix)
		}
	}
}

// TestListOfALeaderThatLagsBehind: a list of one name has its record also if the leader does not know the name yet, as one that is cut off from the others.
func TestListOfALeaderThatLagsBehind(t *testing.T) {
	m := newOddMember(t)
	m.meddle = func(asked message, reply []byte) ([]byte, bool) {
		if asked.kind() == typeObjects {
			reply = append(replying(asked), frame{flagBegin, nil}, frame{flagEnd, nil}).bytes(asked.correlation())
		}
		return reply, false
	}
	s := m.open(t)
	if _, err := claim(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	var found []string
	for r, err := range s.List(t.Context(), "a") {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, r.Name)
	}
	if len(found) != 1 || found[0] != "a" {
		t.Errorf("the list has %q, want the name", found)
	}
}

// TestShortHeartbeat: however short the time is that a member may be silent, it ends a connection, and not the process.
func TestShortHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		l := newLink(near, 1)
		go l.write()
		l.ping()
		if err := l.why(); err == nil || !strings.Contains(err.Error(), "silent for 1ns") {
			t.Errorf("the connection ended with %v, want that the member was silent", err)
		}
	})
}

// TestFloorWithoutAReply: whether the floor of tokens was made is seen by reading it. Nothing of the claim is unknown by
// that.
func TestFloorWithoutAReply(t *testing.T) {
	for what, made := range map[string]bool{"it was made": true, "it was not made": false} {
		t.Run(what, func(t *testing.T) {
			m := newOddMember(t)
			var met atomic.Int64
			m.meddle = func(asked message, reply []byte) ([]byte, bool) {
				if asked.kind() != typeCompareAndSet || !isFloor(asked) {
					return reply, false
				}
				met.Add(1)
				if !made {
					m.mu.Lock()
					delete(m.kept, nameIn(asked))
					m.mu.Unlock()
				}
				return nil, true
			}
			grant, err := claim(t.Context(), m.open(t))
			switch {
			case made && (err != nil || grant.Token == 0):
				t.Errorf("got %+v, %v, want a grant", grant, err)
			case !made && (err == nil || errors.Is(err, store.ErrUnknown)):
				t.Errorf("got %+v, %v, want an error of a read", grant, err)
			}
			if met.Load() != 1 {
				t.Errorf("the floor was written %d times, want once", met.Load())
			}
		})
	}
}

// TestOddReplies: a reply is for one request, and has to be whole. Otherwise it says nothing of a write.
func TestOddReplies(t *testing.T) {
	// What is sent to a write that is refused, and what is sent for it instead.
	type odd func(asked message, refused []byte) []byte
	set := func(asked message) message { return replying(asked, 1) }
	event := func(asked message) message {
		m := set(asked)
		m[0].flags |= flagEvent
		return m
	}
	instead := func(what func(asked message) message) odd {
		return func(asked message, _ []byte) []byte { return what(asked).bytes(asked.correlation()) }
	}
	always := func(bytes ...byte) odd { return func(message, []byte) []byte { return bytes } }
	for what, c := range map[string]struct {
		reply odd
		err   error // that the client gets; nil if it learns that nothing was set
	}{
		"a reply to another request before it": {func(asked message, refused []byte) []byte {
			return append(set(asked).bytes(asked.correlation()+1000), refused...)
		}, nil},
		"an event with its number before it": {func(asked message, refused []byte) []byte {
			return append(event(asked).bytes(asked.correlation()), refused...)
		}, nil},
		"another reply behind it": {func(asked message, refused []byte) []byte {
			return append(refused, set(asked).bytes(asked.correlation())...)
		}, nil},
		"a reply to another kind of request": {instead(func(message) message { return set(request(typeGet)) }), store.ErrUnknown},
		"a reply without what it says":       {instead(func(asked message) message { return replying(asked) }), store.ErrUnknown},
		"an error without what it is":        {instead(func(message) message { return refusing("")[:1] }), store.ErrUnknown},
		"a frame shorter than its head":      {always(5, 0, 0, 0, 0, 0), store.ErrUnknown},
		"a frame longer than a message":      {always(0xff, 0xff, 0xff, 0xff, 0, 0), store.ErrUnknown},
	} {
		t.Run(what, func(t *testing.T) {
			m := newOddMember(t)
			s := m.open(t)
			m.kept[s.references.prefix+"a"] = textData("held")
			m.meddle = func(asked message, reply []byte) ([]byte, bool) {
				if asked.kind() == typeCompareAndSet {
					reply = c.reply(asked, reply)
				}
				return reply, false
			}
			set, err := s.references.compareAndSet(t.Context(), "writing", "a", "something else", "b")
			if set || !errors.Is(err, c.err) {
				t.Errorf("got %t, %v, want false, %v", set, err, c.err)
			}
		})
	}
}

// TestSmallFrames: what a message takes in memory is bounded by what arrives, also if it is many small frames.
func TestSmallFrames(t *testing.T) {
	m := request(typeGroups)
	for range 100_000 {
		m = m.text("a")
	}
	data := m.bytes(1)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := readMessage(bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if took, most := after.TotalAlloc-before.TotalAlloc, uint64(4*frameCost*len(m)); took > most {
		t.Errorf("a message of %d frames took %d bytes, want %d at most", len(m), took, most)
	}
	for length, want := range map[uint32]error{maxMessage - frameCost + 6: io.ErrUnexpectedEOF, maxMessage - frameCost + 7: errProtocol} {
		head := binary.LittleEndian.AppendUint32(nil, length)
		if _, err := readMessage(bytes.NewReader(append(head, 0, 0))); !errors.Is(err, want) {
			t.Errorf("a frame with the length %d: %v, want %v", length, err, want)
		}
	}
}

// FuzzReplies: whatever a member puts into its replies, the client reads it or refuses it.
func FuzzReplies(f *testing.F) {
	asked := request(typeGet)
	group := groupID{groupName, 0, 7}
	f.Add(replying(asked, 0).data(nil).text("5.4.0").bytes(1))
	f.Add(replying(asked).group(group).bytes(1))
	f.Add(append(append(replying(asked), frame{flagBegin, nil}).group(group), frame{flagEnd, nil}).bytes(1))
	f.Add(replying(asked).data(textData("{}")).bytes(1))
	f.Add(append(append(replying(asked), frame{flagBegin, nil}).text("m:a").text("m:"), frame{flagEnd, nil}).bytes(1))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := readMessage(bytes.NewReader(data))
		if err != nil {
			return
		}
		near, far := net.Pipe()
		defer far.Close()
		l := newLink(near, time.Hour)
		defer l.end(errEnded)
		go l.write()
		go l.read()
		go func() {
			for {
				asked, err := readMessage(far)
				if err != nil {
					return
				}
				reply := append(replying(asked, m[0].content[atReply:]...), m[1:]...)
				if _, err := far.Write(reply.bytes(asked.correlation())); err != nil {
					return
				}
			}
		}()
		_ = (&dialer{}).authenticate(t.Context(), l)
		_ = (&dialer{}).open(t.Context(), l)
		r := &references{links: newLinks(nil), prefix: "m:"}
		r.links.current = l
		if item, err := r.get(t.Context(), "a"); err == nil && item.Err == nil && item.Version != "" && item.Record.Write == "" {
			t.Errorf("got %+v", item)
		}
		names, err := r.objects(t.Context(), "")
		if err == nil && !slices.IsSorted(names) {
			t.Errorf("got %q", names)
		}
		_, err = r.compareAndSet(t.Context(), "writing", "a", "", "b") // which ends the connection if it is not told
		if says := len(m[0].content) > atReply; says != (err == nil) || !says && !errors.Is(err, store.ErrUnknown) {
			t.Errorf("a write that was told: %t: %v", says, err)
		}
	})
}
