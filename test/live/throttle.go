package live

import (
	"encoding/binary"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// A throttler stands between the clients and a server that is asked too much: it refuses most requests, in the words of the server, and passes the others on.
type throttler struct {
	listener net.Listener
	refused  atomic.Int64
}

// refusals is the part of the requests that a throttler refuses.
const refusals = 0.7

// refuses decides about a request.
func (t *throttler) refuses() bool {
	if rand.Float64() >= refusals {
		return false
	}
	t.refused.Add(1)
	return true
}

func (t *throttler) addr() string { return t.listener.Addr().String() }

func newThrottler() (*throttler, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	return &throttler{listener: l}, err
}

// newHTTPThrottler starts a throttler of a server that speaks HTTP, version 1 or 2 without TLS. refuse writes a refusal. Connections are led to it for as long as requests
// are to be refused.
func newHTTPThrottler(target string, two bool, refuse http.HandlerFunc) (*throttler, func(), error) {
	t, err := newThrottler()
	if err != nil {
		return nil, nil, err
	}
	var protocols http.Protocols
	protocols.SetHTTP1(!two)
	protocols.SetUnencryptedHTTP2(two)
	onward := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: target})
	onward.Transport, onward.FlushInterval = &http.Transport{Protocols: &protocols}, -1
	onward.ErrorLog = log.New(io.Discard, "", 0) // clients that go away are what the tests are about
	server := &http.Server{Protocols: &protocols, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if t.refuses() {
			refuse(w, r)
			return
		}
		onward.ServeHTTP(w, r)
	})}
	go func() { _ = server.Serve(t.listener) }()
	return t, func() { _ = server.Close() }, nil
}

// refuseAsDynamoDB writes one of the errors of the service that has too many requests: of a table with provisioned capacity, or of an account.
func refuseAsDynamoDB(w http.ResponseWriter, _ *http.Request) {
	kinds := []string{"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException", "com.amazon.coral.availability#ThrottlingException"}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.WriteHeader(http.StatusBadRequest)
	_, _ = io.WriteString(w, `{"__type":"`+kinds[rand.IntN(len(kinds))]+`","message":"too many requests"}`)
}

// refuseAsTemporal writes RESOURCE_EXHAUSTED.
func refuseAsTemporal(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Set("Grpc-Status", "8")
	w.Header().Set("Grpc-Message", "namespace rate limit exceeded")
}

// The protocol of Cassandra, version 4: a frame has a header with version, flags, stream, opcode and the length of the body.
const (
	cqlHeader     = 9
	cqlVersion    = 4
	cqlResponse   = 0x80
	cqlAtStream   = 2
	cqlAtOpcode   = 4
	cqlAtLength   = 5
	cqlError      = 0x00
	cqlExecute    = 0x0A
	cqlProtocol   = 0x000A // the code of an error
	cqlOverloaded = 0x1001 // the code of an error
)

func readCQL(r io.Reader) ([]byte, error) {
	header := make([]byte, cqlHeader)
	if _, err := io.ReadFull(r, header); err != nil {
		return nil, err
	}
	frame := slices.Concat(header, make([]byte, binary.BigEndian.Uint32(header[cqlAtLength:])))
	_, err := io.ReadFull(r, frame[cqlHeader:])
	return frame, err
}

// cqlFrame returns a frame on a stream.
func cqlFrame(version, opcode byte, stream, body []byte) []byte {
	frame := append([]byte{version, 0, stream[0], stream[1], opcode}, binary.BigEndian.AppendUint32(nil, uint32(len(body)))...)
	return append(frame, body...)
}

// cqlString returns a string with its length before it.
func cqlString(text string) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(text))), text...)
}

// cqlRefusal returns the error that answers a request on a stream.
func cqlRefusal(stream []byte, code uint32, message string) []byte {
	body := append(binary.BigEndian.AppendUint32(nil, code), cqlString(message)...)
	return cqlFrame(cqlResponse|cqlVersion, cqlError, stream, body)
}

// A cassandraThrottler is a throttler that all connections to a node of Cassandra lead through. It lets the driver speak version 4, whose frames can be told apart.
type cassandraThrottler struct {
	*throttler
	to string
	on atomic.Bool // requests are refused
}

func newCassandraThrottler(to string) (*cassandraThrottler, error) {
	t, err := newThrottler()
	if err != nil {
		return nil, err
	}
	c := &cassandraThrottler{throttler: t, to: to}
	go func() {
		for {
			client, err := c.listener.Accept()
			if err != nil {
				return
			}
			go c.serve(client)
		}
	}()
	return c, nil
}

// serve passes the frames of a connection on, and answers some of them itself.
func (c *cassandraThrottler) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", c.to)
	if err != nil {
		return
	}
	defer server.Close()
	var mu sync.Mutex // of what is written to client
	answer := func(frame []byte) error {
		mu.Lock()
		defer mu.Unlock()
		_, err := client.Write(frame)
		return err
	}
	go func() {
		defer client.Close()
		for frame, err := readCQL(server); err == nil && answer(frame) == nil; frame, err = readCQL(server) {
		}
	}()
	for {
		frame, err := readCQL(client)
		switch {
		case err != nil:
			return
		case frame[0] > cqlVersion: // a node answers so on stream 0, for it does not understand the frame
			err = answer(cqlRefusal([]byte{0, 0}, cqlProtocol, "Invalid or unsupported protocol version (5); the lowest supported version is 3 and the greatest is 4"))
		case frame[cqlAtOpcode] == cqlExecute && c.on.Load() && c.refuses():
			err = answer(cqlRefusal(frame[cqlAtStream:], cqlOverloaded, "request rate limit exceeded"))
		default:
			_, err = server.Write(frame)
		}
		if err != nil {
			return
		}
	}
}

// cql carries out a statement on a node whose superuser is cassandra, and returns false if the node refuses it.
func cql(addr, statement string) (done bool, err error) {
	const startup, ready, authenticate, query, authResponse, authSuccess = 0x01, 0x02, 0x03, 0x07, 0x0F, 0x10
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	ask := func(opcode byte, body []byte) (byte, error) {
		if _, err := conn.Write(cqlFrame(cqlVersion, opcode, []byte{0, 0}, body)); err != nil {
			return 0, err
		}
		frame, err := readCQL(conn)
		if err != nil {
			return 0, err
		}
		return frame[cqlAtOpcode], nil
	}
	long := func(text string) []byte {
		return append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
	}
	steps := []struct {
		opcode byte
		body   []byte
		wants  []byte
	}{
		{startup, append(append([]byte{0, 1}, cqlString("CQL_VERSION")...), cqlString("3.0.0")...), []byte{ready, authenticate}},
		{authResponse, long(strings.Join([]string{"", "cassandra", "cassandra"}, "\x00")), []byte{authSuccess}},
		{query, append(long(statement), 0, 1, 0), []byte{0x08}}, // at ONE, without flags
	}
	for _, step := range steps {
		got, err := ask(step.opcode, step.body)
		if err != nil || !strings.Contains(string(step.wants), string([]byte{got})) {
			return false, err
		}
	}
	return true, nil
}
