package hazelcaststore_test

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hazelcast/hazelcast-go-client"

	"github.com/soloist-dev/soloist/store/storetest"
)

// The types of the messages that change an entry or a reference: Map.PutIfAbsent, Map.ReplaceIfSame, Map.RemoveIfSame and AtomicRef.CompareAndSet.
var changing = map[uint32]bool{0x010e00: true, 0x010500: true, 0x010800: true, 0x0a0200: true}

// The services of the messages about entries and references, in the third byte of their types.
const aboutMaps, aboutReferences = 0x01, 0x0a

// A fate is what becomes of one message that changes an entry.
type fate struct {
	forward bool   // to the member
	twice   func() // called after the member has replied; then the message is sent again, and only the second reply reaches the client
	silent  bool   // nothing reaches the client any more; without it and without twice, the connection breaks
	refuse  int32  // the error that the client gets as a reply, instead of the connection that breaks
	class   string // of that error
}

// A proxy passes one client's messages to a member.
type proxy struct {
	listener net.Listener
	next     atomic.Pointer[fate]  // of the next message that changes an entry
	nextRead atomic.Pointer[fate]  // of the next message about entries that changes none
	each     func() storetest.Fate // of every message about entries, unless it is nil; set before there is one

	refuseReads atomic.Int32 // the error that all reads get as a reply; 0 for none
	met         atomic.Int64 // messages that met a fate

	writes, reads atomic.Int64 // messages about entries
}

func newProxy(t testing.TB, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l}
	var open sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); open.Wait() })
	open.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			open.Go(func() { p.serve(client, to) })
		}
	})
	return p
}

// config returns how to connect through the proxy alone, for which the client library needs Unisocket.
func (p *proxy) config() hazelcast.Config {
	c := config(p.listener.Addr().String())
	c.Cluster.Unisocket = true
	return c
}

// A link is one connection through the proxy.
type link struct {
	client, member net.Conn

	mu     sync.Mutex
	silent bool
	drop   map[uint64]func() // by correlation: what to do instead of passing the reply on
}

func (p *proxy) serve(client net.Conn, to string) {
	defer client.Close()
	member, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer member.Close()
	l := &link{client: client, member: member, drop: map[uint64]func(){}}
	var replies sync.WaitGroup
	replies.Go(l.replies)
	in := bufio.NewReader(client)
	if _, err := io.CopyN(member, in, 3); err != nil { // the name of the protocol
		return
	}
	for {
		m, err := read(in)
		if err != nil || !p.pass(l, m) {
			break
		}
	}
	_, _ = client.Close(), member.Close()
	replies.Wait()
}

// pass sends a message on. It returns false if the connection is to break.
func (p *proxy) pass(l *link, m message) bool {
	f := (*fate)(nil)
	switch {
	case changing[m.kind]:
		p.writes.Add(1)
		f = p.next.Swap(nil)
	case m.kind>>16 == aboutMaps || m.kind>>16 == aboutReferences:
		p.reads.Add(1)
		if f = p.nextRead.Swap(nil); f == nil && p.refuseReads.Load() != 0 {
			f = &fate{refuse: p.refuseReads.Load()}
		}
	}
	if f == nil && p.each != nil && (changing[m.kind] || m.kind>>16 == aboutMaps || m.kind>>16 == aboutReferences) {
		return p.passTo(l, m, p.each())
	}
	if f == nil {
		return l.send(m)
	}
	defer p.met.Add(1)
	if f.refuse != 0 {
		_, err := l.client.Write(refusal(m.correlation, f.refuse, f.class))
		return err == nil
	}
	if !f.forward {
		return false
	}
	switch {
	case f.silent:
		l.mu.Lock()
		l.silent = true
		l.mu.Unlock()
		return l.send(m)
	case f.twice != nil:
		l.instead(m.correlation, func() {
			f.twice()
			l.send(m)
		})
		return l.send(m)
	}
	l.instead(m.correlation, func() { _ = l.client.Close() })
	return l.send(m)
}

// passTo does with a message what the conformance suite says.
func (p *proxy) passTo(l *link, m message, f storetest.Fate) bool {
	refuse := func() { _, _ = l.client.Write(refusal(m.correlation, 46, "")) }
	switch f {
	case storetest.Lost:
		refuse()
		return true
	case storetest.Unanswered:
		l.instead(m.correlation, refuse)
	}
	return l.send(m)
}

func (l *link) send(m message) bool {
	_, err := l.member.Write(m.bytes)
	return err == nil
}

func (l *link) instead(correlation uint64, do func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop[correlation] = do
}

func (l *link) replies() {
	in := bufio.NewReader(l.member)
	for {
		m, err := read(in)
		if err != nil {
			_ = l.client.Close()
			return
		}
		l.mu.Lock()
		do, silent := l.drop[m.correlation], l.silent
		if m.event {
			do = nil
		}
		delete(l.drop, m.correlation)
		l.mu.Unlock()
		switch {
		case do != nil:
			do()
		case !silent:
			_, _ = l.client.Write(m.bytes)
		}
	}
}

// refusal returns a message that replies with an error.
func refusal(correlation uint64, code int32, class string) (bytes []byte) {
	const begin, end, null = 1 << 12, 1 << 11, 1 << 10
	frame := func(flags uint16, content []byte) {
		bytes = binary.LittleEndian.AppendUint32(bytes, uint32(6+len(content)))
		bytes = append(binary.LittleEndian.AppendUint16(bytes, flags), content...)
	}
	head := make([]byte, 14) // the type 0, of an error; the correlation; and how many backups reply
	binary.LittleEndian.PutUint64(head[4:], correlation)
	frame(1<<15|1<<14, head) // a whole message
	frame(begin, nil)        // the causes
	frame(begin, nil)
	frame(0, binary.LittleEndian.AppendUint32(nil, uint32(code)))
	frame(0, []byte(cmp.Or(class, "com.hazelcast.Error")))
	frame(null, nil)
	frame(begin, nil) // the stack
	frame(end, nil)
	frame(end, nil)
	frame(end|lastFrame, nil)
	return bytes
}

// A message is one of the protocol: frames of a length, flags and content, up to the one that is marked as the last.
type message struct {
	bytes       []byte
	kind        uint32
	correlation uint64
	event       bool
}

const (
	lastFrame  = 1 << 13
	eventFrame = 1 << 9
)

func read(in io.Reader) (m message, err error) {
	for {
		head := make([]byte, 6)
		if _, err := io.ReadFull(in, head); err != nil {
			return message{}, err
		}
		frame := make([]byte, binary.LittleEndian.Uint32(head))
		copy(frame, head)
		if _, err := io.ReadFull(in, frame[len(head):]); err != nil {
			return message{}, err
		}
		flags := binary.LittleEndian.Uint16(head[4:])
		if m.bytes == nil && len(frame) >= 18 {
			m.kind, m.correlation = binary.LittleEndian.Uint32(frame[6:]), binary.LittleEndian.Uint64(frame[10:])
			m.event = flags&eventFrame != 0
		}
		if m.bytes = append(m.bytes, frame...); flags&lastFrame != 0 {
			return m, nil
		}
	}
}
