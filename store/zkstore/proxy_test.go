package zkstore_test

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/soloist-dev/soloist/store/storetest"
)

// What a request asks for, in the protocol of ZooKeeper.
const (
	opGet      = 4
	opSync     = 9
	opPing     = 11
	opChildren = 12
	opMulti    = 14
	opClose    = -11
)

// A fate is what becomes of one request that changes nodes.
type fate struct {
	forward bool // to the server
	silent  bool // nothing of the server reaches the client any more
	short   bool // the reply is cut short
	other   bool // the reply says that another write was carried out; without these three the connection breaks
}

// A proxy passes a client's requests to a server.
type proxy struct {
	to       string
	listener net.Listener
	next     atomic.Pointer[fate]  // of the next request that changes nodes
	met      atomic.Int64          // requests that met a fate
	away     atomic.Bool           // the server: each connection ends at once
	each     func() storetest.Fate // of every request about nodes, unless it is nil; set before there is one
	asks     func(request []byte)  // may change a request, unless it is nil; set before there is one

	mu      sync.Mutex
	session []byte // of the latest client: its id, and its password with the length
	links   map[net.Conn]bool
	asked   []int32 // what its clients have asked for, without pings
}

func newProxy(t testing.TB, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{to: to, listener: l, links: map[net.Conn]bool{}}
	var open sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); p.cut(); open.Wait() })
	open.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			open.Go(func() { p.serve(client) })
		}
	})
	return p
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

// cut breaks all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.links {
		_ = c.Close()
	}
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	if p.away.Load() {
		return
	}
	server, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer server.Close()
	p.mu.Lock()
	p.links[client] = true
	p.mu.Unlock()
	var broken, silent, short, other atomic.Bool
	var replies sync.WaitGroup
	replies.Go(func() {
		in := bufio.NewReader(server)
		for first := true; ; first = false {
			reply, err := packet(in)
			if err != nil {
				break
			}
			if first && len(reply) >= 40 {
				p.mu.Lock()
				p.session = append([]byte(nil), reply[12:40]...)
				p.mu.Unlock()
			}
			if broken.Load() && !first && int32(binary.BigEndian.Uint32(reply[4:])) > 0 {
				break // the reply to a request after which the connection is to break
			}
			if int32(binary.BigEndian.Uint32(reply[4:])) > 0 && short.CompareAndSwap(true, false) {
				reply = reply[:min(len(reply), 22)] // the header of a reply has 4 + 16 bytes
				binary.BigEndian.PutUint32(reply, uint32(len(reply)-4))
			}
			if int32(binary.BigEndian.Uint32(reply[4:])) > 0 && other.CompareAndSwap(true, false) {
				version := len(reply) - 9 - 68 + 32 // in the last Stat, of 68 bytes, which the end of a transaction, of 9 bytes, follows
				binary.BigEndian.PutUint32(reply[version:], binary.BigEndian.Uint32(reply[version:])+1)
			}
			if !silent.Load() {
				_, _ = client.Write(reply)
			}
		}
		_ = client.Close()
	})
	in := bufio.NewReader(client)
	for first := true; ; first = false {
		request, err := packet(in)
		if err != nil {
			break
		}
		if p.asks != nil {
			p.asks(request)
		}
		op := int32(0)
		if !first {
			op = int32(binary.BigEndian.Uint32(request[8:]))
			p.heard(op)
		}
		if op == opMulti {
			if f := p.next.Swap(nil); f != nil {
				p.met.Add(1)
				if !f.forward {
					break
				}
				silent.Store(f.silent)
				short.Store(f.short)
				other.Store(f.other)
				broken.Store(!f.silent && !f.short && !f.other)
			}
		}
		if p.each != nil && slices.Contains([]int32{opGet, opSync, opChildren, opMulti}, op) {
			f := p.each()
			if f == storetest.Lost {
				break
			}
			broken.Store(f == storetest.Unanswered)
		}
		if _, err := server.Write(request); err != nil {
			break
		}
	}
	_, _ = client.Close(), server.Close()
	replies.Wait()
	p.mu.Lock()
	delete(p.links, client)
	p.mu.Unlock()
}

func (p *proxy) heard(op int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if op != opPing {
		p.asked = append(p.asked, op)
	}
}

// heardLast is what has been asked for since it was called last, each thing once in a row.
func (p *proxy) heardLast() []int32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	asked := slices.Compact(p.asked)
	p.asked = nil
	return asked
}

// packet reads a packet with its length.
func packet(in io.Reader) ([]byte, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(in, head); err != nil {
		return nil, err
	}
	all := make([]byte, 4+binary.BigEndian.Uint32(head))
	copy(all, head)
	_, err := io.ReadFull(in, all[4:])
	return all, err
}

// expire ends the session of the latest client, as the server does when it has not heard of a client for the session timeout, and breaks its connection.
func (p *proxy) expire(t testing.TB) {
	t.Helper()
	p.mu.Lock()
	session := p.session
	p.mu.Unlock()
	server, err := net.Dial("tcp", p.to)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	connect := make([]byte, 16, 44) // protocol version, last zxid, timeout
	binary.BigEndian.PutUint32(connect[12:], 300_000)
	send := func(body []byte) {
		if _, err := server.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)); err != nil {
			t.Fatal(err)
		}
		if _, err := packet(server); err != nil {
			t.Fatal(err)
		}
	}
	send(append(connect, session...))
	var end [8]byte
	binary.BigEndian.PutUint32(end[:], 1)
	closing := int32(opClose)
	binary.BigEndian.PutUint32(end[4:], uint32(closing))
	send(end[:])
	p.cut()
}
