package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/soloist-dev/soloist/test/servers"
)

// A tap stands between the clients and a server that does not count its requests, and counts them. It passes on what it has read.
type tap struct {
	listener net.Listener
	requests atomic.Int64
}

// A protocol reads what a client sends, until it ends, and calls request for each request.
type protocol func(from *bufio.Reader, request func()) error

// newTap starts a tap before a server. It ends with the test.
func newTap(t servers.Test, to string, read protocol) (*tap, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = l.Close() })
	p := &tap{listener: l}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(client, to, read)
		}
	}()
	return p, nil
}

func (p *tap) addr() string { return p.listener.Addr().String() }

func (p *tap) count(context.Context) (counts, error) { return counts{commands: p.requests.Load()}, nil }

func (p *tap) serve(client net.Conn, to string, read protocol) {
	defer client.Close()
	server, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer server.Close()
	go func() { _, _ = io.Copy(client, server); _ = client.Close() }()
	_ = read(bufio.NewReaderSize(io.TeeReader(client, server), 64<<10), func() { p.requests.Add(1) })
}

// http1 counts the requests of HTTP/1.1.
func http1(from *bufio.Reader, request func()) error {
	for {
		r, err := http.ReadRequest(from)
		if err != nil {
			return err
		}
		request()
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return err
		}
	}
}

// http2 counts the streams of HTTP/2 without TLS, which for gRPC are requests.
func http2(from *bufio.Reader, request func()) error {
	const preface, headers = 24, 1
	if _, err := from.Discard(preface); err != nil {
		return err
	}
	for frame := make([]byte, 9); ; {
		if _, err := io.ReadFull(from, frame); err != nil {
			return err
		}
		if frame[3] == headers {
			request()
		}
		if _, err := from.Discard(int(frame[0])<<16 | int(frame[1])<<8 | int(frame[2])); err != nil {
			return err
		}
	}
}

// hazelcastMessages counts the messages of a client of Hazelcast.
func hazelcastMessages(from *bufio.Reader, request func()) error {
	const version, begins = 3, 1 << 15
	if _, err := from.Discard(version); err != nil {
		return err
	}
	for frame := make([]byte, 6); ; {
		if _, err := io.ReadFull(from, frame); err != nil {
			return err
		}
		if binary.LittleEndian.Uint16(frame[4:])&begins != 0 {
			request()
		}
		if _, err := from.Discard(int(binary.LittleEndian.Uint32(frame)) - len(frame)); err != nil {
			return err
		}
	}
}

// cql counts the statements that a driver of Cassandra has carried out, in version 5 of the protocol: frames at first, and then segments with frames in them.
func cql(from *bufio.Reader, request func()) error {
	const startup, query, execute, batch, headerSize = 0x01, 0x07, 0x0A, 0x0D, 9
	frame := func(r *bufio.Reader) (opcode byte, err error) {
		header := make([]byte, headerSize)
		if _, err := io.ReadFull(r, header); err != nil {
			return 0, err
		}
		_, err = r.Discard(int(binary.BigEndian.Uint32(header[5:])))
		return header[4], err
	}
	for opcode := byte(0); opcode != startup; {
		var err error
		if opcode, err = frame(from); err != nil {
			return err
		}
	}
	const segmentHeader, trailer = 6, 4
	for {
		header := make([]byte, segmentHeader)
		if _, err := io.ReadFull(from, header); err != nil {
			return err
		}
		length := int64(header[0]) | int64(header[1])<<8 | int64(header[2]&1)<<16
		for frames := bufio.NewReader(io.LimitReader(from, length)); ; {
			opcode, err := frame(frames)
			if err != nil {
				break // the end of the segment
			}
			if opcode == query || opcode == execute || opcode == batch {
				request()
			}
		}
		if _, err := from.Discard(trailer); err != nil {
			return err
		}
	}
}
