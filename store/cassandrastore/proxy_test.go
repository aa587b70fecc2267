package cassandrastore_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/soloist-dev/soloist/store/cassandrastore"
	"github.com/soloist-dev/soloist/store/storetest"
)

// A proxy stands between a session and a node, understands version 4 of the protocol, and breaks one request when told to.
type proxy struct {
	to   string
	addr string
	next atomic.Pointer[fate]
	each func() storetest.Fate // of every request to execute a statement, unless it is nil; set before there is one
	seen func(frame []byte)    // gets every request to execute a statement, unless it is nil; set before there is one

	nextWrite atomic.Pointer[fate] // as next, of a write
	pass      atomic.Int64         // writes that come before that one
	writes    atomic.Int64         // that were sent
}

// A fate is what becomes of a request to execute a statement.
type fate struct {
	forward bool   // the server carries it out
	reply   []byte // the body of what the client is sent instead of the server's reply
	op      byte   // the opcode of that: an error, unless it is set
	silent  bool   // nothing is sent instead; else, without reply, the connection breaks
	before  func() // runs before the client is sent anything; may be nil
}

// throughProxy returns a store on a keyspace of its own, and the proxy through which it reaches Cassandra.
func throughProxy(t testing.TB) (*cassandrastore.Store, *proxy) {
	t.Helper()
	server := shared(t)
	_, cfg := server.fresh(t)
	p := newProxy(t, server.Addr)
	return on(t, p.session(t), cfg), p
}

func newProxy(t testing.TB, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{to: to, addr: l.Addr().String()}
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() { p.serve(client) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); conns.Wait() })
	return p
}

// session returns a session by way of the proxy, and closes it before the proxy ends.
func (p *proxy) session(t testing.TB, more ...func(*gocql.ClusterConfig)) *gocql.Session {
	t.Helper()
	c := cluster(p.to, "cassandra", "cassandra")
	for _, configure := range more {
		configure(c)
	}
	c.ProtoVersion, c.Dialer, c.ReconnectInterval = 4, p, 50*time.Millisecond
	session, err := c.CreateSession()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(session.Close)
	return session
}

// DialContext connects to the proxy instead of the node.
func (p *proxy) DialContext(ctx context.Context, network, _ string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, network, p.addr)
}

// The header of a frame: version, flags, stream, opcode, length of the body.
const (
	headerSize  = 9
	opResult    = 0x08
	opExecute   = 0x0A
	fromServer  = 0x84
	atStream    = 2
	atOpcode    = 4
	atLength    = 5
	streamBytes = 2
)

func readFrame(r io.Reader) ([]byte, error) {
	header := make([]byte, headerSize)
	if _, err := io.ReadFull(r, header); err != nil {
		return nil, err
	}
	frame := make([]byte, headerSize+int(binary.BigEndian.Uint32(header[atLength:])))
	copy(frame, header)
	_, err := io.ReadFull(r, frame[headerSize:])
	return frame, err
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer server.Close()
	var fates sync.Map // by stream
	var mu sync.Mutex  // of what is written to client
	go func() {
		defer client.Close()
		for {
			frame, err := readFrame(server)
			if err != nil {
				return
			}
			if f, ok := fates.LoadAndDelete([streamBytes]byte(frame[atStream:])); ok && !p.answer(client, &mu, frame, f.(*fate)) {
				return
			} else if ok {
				continue
			}
			mu.Lock()
			_, err = client.Write(frame)
			mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	for {
		frame, err := readFrame(client)
		if err != nil {
			return
		}
		if frame[atOpcode] == opExecute {
			if p.seen != nil {
				p.seen(frame)
			}
			f := p.next.Swap(nil)
			if decided(frame) {
				if p.writes.Add(1); f == nil && p.pass.Add(-1) < 0 {
					f = p.nextWrite.Swap(nil)
				}
			}
			if f == nil && p.each != nil {
				f = fateOf(p.each())
			}
			if f != nil {
				if !f.forward {
					if !p.answer(client, &mu, frame, f) {
						return
					}
					continue
				}
				fates.Store([streamBytes]byte(frame[atStream:]), f)
			}
		}
		if _, err := server.Write(frame); err != nil {
			return
		}
	}
}

// decided reports whether a statement is a transaction.
func decided(frame []byte) bool { return strings.Contains(consistencies(frame), "decided") }

// fateOf is what becomes of a request in the conformance suite; nil is nothing.
func fateOf(f storetest.Fate) *fate {
	if f == storetest.Carried {
		return nil
	}
	return &fate{forward: f == storetest.Unanswered, reply: failure(gocql.ErrCodeServer)}
}

// answer does what the fate says, on the stream of a frame. It reports false if the connection is to break.
func (p *proxy) answer(client net.Conn, mu *sync.Mutex, frame []byte, f *fate) bool {
	if f.before != nil {
		f.before()
	}
	if f.reply == nil {
		return f.silent
	}
	reply := []byte{fromServer, 0, frame[atStream], frame[atStream+1], f.op}
	reply = binary.BigEndian.AppendUint32(reply, uint32(len(f.reply)))
	mu.Lock()
	defer mu.Unlock()
	_, err := client.Write(append(reply, f.reply...))
	return err == nil
}

// failure is the body of an error: its code, a message, and what else the error has: consistencies are uint16, counts are
// uint32, flags are bytes.
func failure(code uint32, more ...any) []byte {
	var b bytes.Buffer
	for _, part := range append([]any{code, "so it is"}, more...) {
		if text, ok := part.(string); ok {
			_ = binary.Write(&b, binary.BigEndian, uint16(len(text)))
			b.WriteString(text)
			continue
		}
		_ = binary.Write(&b, binary.BigEndian, part)
	}
	return b.Bytes()
}
