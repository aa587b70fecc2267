package zkstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/casstore"
)

// A written is a connection that keeps what is written, and from which replies are read.
type written struct {
	net.Conn
	out     bytes.Buffer
	replies io.Reader
}

func (w *written) Write(b []byte) (int, error) { return w.out.Write(b) }
func (w *written) Read(b []byte) (int, error)  { return w.replies.Read(b) }

// TestTransactionsAreKept: what a server has replied with last is in the request for the next session, however the bytes come, and an earlier transaction does not replace a later one. Without that
// a server that has lost its data would take the client, and grant tokens again.
func TestTransactionsAreKept(t *testing.T) {
	seen := &seen{}
	if text := seen.explain(); text != "" {
		t.Errorf("before there was a transaction: %q", text)
	}
	reply := func(transaction uint64) []byte {
		p := append([]byte{0, 0, 0, 18, 0, 0, 0, 1}, binary.BigEndian.AppendUint64(nil, transaction)...)
		return append(p, "errr!!"...)
	}
	first := append([]byte{0, 0, 0, 20}, bytes.Repeat([]byte{0xff}, 20)...) // it has no transaction
	const last = uint64(0x1234_5678_9abc_def0)
	for _, transaction := range []uint64{last - 1, last, 3} {
		l := &link{Conn: &written{replies: bytes.NewReader(append(bytes.Clone(first), reply(transaction)...))}, seen: seen, greeted: func(error) {}}
		if _, err := io.ReadAll(l); err != nil {
			t.Fatal(err)
		}
	}
	if got := seen.last.Load(); uint64(got) != last || !strings.Contains(seen.explain(), "0x123456789abcdef0") {
		t.Errorf("got %#x, %q, want %#x", got, seen.explain(), last)
	}
	request := []byte("lengvers--------time and more")
	want := slices.Concat(request[:8], binary.BigEndian.AppendUint64(nil, last), request[16:], request)
	for _, chunk := range []int{1, 3, 8, 16, 100} {
		to := &written{}
		l := &link{Conn: to, seen: seen}
		for _, all := range [][]byte{request, request} { // the second is no request for a session
			for some := range slices.Chunk(all, chunk) {
				before := bytes.Clone(some)
				if n, err := l.Write(some); n != len(some) || err != nil || !bytes.Equal(some, before) {
					t.Fatalf("%d, %v of %q, which is %q now", n, err, before, some)
				}
			}
		}
		if !bytes.Equal(to.out.Bytes(), want) {
			t.Errorf("%d bytes at once: %q, want %q", chunk, to.out.Bytes(), want)
		}
	}
}

// TestRepliesThatCannotBe: a reply whose length is less than that of its header, of which the client would read more
// than there is and panic, and one whose length is below 0, for which it would reserve memory, end the connection.
func TestRepliesThatCannotBe(t *testing.T) {
	greeting := append([]byte{0, 0, 0, 20}, bytes.Repeat([]byte{0xff}, 20)...)
	for _, test := range []struct {
		length uint32
		good   bool
	}{
		{0, false}, {1, false}, {15, false}, {16, true}, {1 << 20, true},
		{math.MaxInt32, true}, {1 << 31, false}, {math.MaxUint32, false},
	} {
		reply := append(binary.BigEndian.AppendUint32(nil, test.length), 0, 0, 0, 1)
		for _, chunk := range []int{1, 4, 100} {
			all := bytes.NewReader(append(bytes.Clone(greeting), reply...))
			l := &link{Conn: &written{replies: all}, seen: &seen{}, greeted: func(error) {}}
			var got []byte
			var err error
			for err == nil {
				var n int
				b := make([]byte, chunk)
				n, err = l.Read(b)
				got = append(got, b[:n]...)
			}
			if good := errors.Is(err, io.EOF); good != test.good {
				t.Errorf("%d bytes, %d at once: %v after %d bytes", test.length, chunk, err, len(got))
			}
		}
	}
}

// TestGreetedOnce: the end of a connection after the first reply is not reported as the reason why no server can be reached.
func TestGreetedOnce(t *testing.T) {
	for what, test := range map[string]struct {
		replies string
		want    error
	}{
		"a reply, and the end":   {"\x00\x00\x00\x02ok", nil},
		"two replies":            {"\x00\x00\x00\x02ok\x00\x00\x00\x02ok", nil},
		"the end":                {"", io.EOF},
		"half a reply":           {"\x00\x00\x00\x02o", io.EOF},
		"a reply of no server's": {"HTTP/1.1 200 OK", &strangerError{"HTTP"}},
		"the largest first one":  {"\x00\x00\x04\x00" + strings.Repeat("x", longestGreeting), nil},
		"one that is larger":     {"\x00\x00\x04\x01" + strings.Repeat("x", longestGreeting+1), &strangerError{"\x00\x00\x04\x01"}},
	} {
		var told []error
		l := &link{Conn: &written{replies: iotest.DataErrReader(strings.NewReader(test.replies))}, seen: &seen{}, greeted: func(err error) { told = append(told, err) }}
		_, _ = io.ReadAll(l)
		if _, err := l.Read(make([]byte, 1)); err == nil {
			t.Errorf("%s: a read after the end", what)
		}
		if !reflect.DeepEqual(told, []error{test.want}) {
			t.Errorf("%s: told %v, want %v, once", what, told, test.want)
		}
	}
}

// TestHosts: all servers are tried in turn until there is a connection, and the client pauses when it has tried them all. When the connection was lost that is reported once, and no other server is tried.
func TestHosts(t *testing.T) {
	lost := 0
	h := &hosts{lost: func() { lost++ }}
	if err := h.Init([]string{"a", "b", "c"}); err != nil || h.Len() != 3 {
		t.Fatal(h.Len(), err)
	}
	for i, want := range []string{"a", "b", "c", "a", "b", "c", "a"} {
		if server, all := h.Next(); server != want || all != (i > 0 && want == "a") {
			t.Errorf("%d: %s, all were tried: %t", i, server, all)
		}
	}
	if h.connected() || lost != 0 {
		t.Errorf("before there is a connection: %t, lost %d times", h.connected(), lost)
	}
	h.Connected()
	for range 2 {
		if server, all := h.Next(); server != "a" || !all || !h.connected() || lost != 1 {
			t.Errorf("after the connection was lost: %s, %t, told %d times", server, all, lost)
		}
	}
}

// TestNodesAreReadAsWritten: a record is what was written, whatever is in it, and a node with something else is none.
func TestNodesAreReadAsWritten(t *testing.T) {
	full := casstore.Record{
		Holder: "x", Token: 7, Mark: 3, State: []byte("s\x00"), TTL: time.Minute, Unsure: true, Write: "w-1-2",
		Granted: time.Unix(5, 7).In(time.FixedZone("", 3600)),
	}
	released := casstore.Record{Holder: "y", Token: 1, Released: true, Write: "w", Granted: time.Unix(5, 0), Forget: time.Unix(9, 1)}
	for _, r := range []casstore.Record{full, released} {
		data, err := encode(&r, "life")
		if err != nil {
			t.Fatal(err)
		}
		item := itemOf("a", data, &zk.Stat{Version: 4})
		r.Granted = r.Granted.UTC()
		if !r.Forget.IsZero() {
			r.Forget = r.Forget.UTC()
		}
		if item.Name != "a" || item.Version != "life.4" || item.Err != nil || !reflect.DeepEqual(item.Record, r) {
			t.Errorf("%+v is read as %+v", r, item)
		}
		if v, err := parseVersion(item.Version); v != (version{"life", 4}) || err != nil {
			t.Errorf("its version is %+v, %v", v, err)
		}
		for _, life := range []string{"", "a.b", "a/b", "../b", strings.Repeat("l", store.MaxName+1)} {
			data, err := encode(&r, life)
			if item := itemOf("a", data, &zk.Stat{}); err != nil || item.Err == nil || item.Version != "" {
				t.Errorf("with the life %q: version %q, %v", life, item.Version, err)
			}
		}
		long := r
		long.Write = strings.Repeat("w", store.MaxName+1)
		if data, err = encode(&long, "life"); err != nil || itemOf("a", data, &zk.Stat{}).Err == nil {
			t.Errorf("with a write that is too long: %v", err)
		}
		if long.Write = long.Write[1:]; true {
			if data, err = encode(&long, long.Write); err != nil || itemOf("a", data, &zk.Stat{}).Err != nil {
				t.Errorf("with the longest write and life: %v, %v", err, itemOf("a", data, &zk.Stat{}).Err)
			}
		}
	}
	for _, text := range []string{"", "life", ".4", "life.", "life.x", "life.2147483648", "life.4.4"} {
		if v, err := parseVersion(text); err == nil {
			t.Errorf("the version %q is %+v", text, v)
		}
		if text != "" {
			if results, chunks := offline().divide([]casstore.Change{{Name: "a", Version: text}, {Name: "b", Record: record(nil)}}); results[0].Err == nil || errors.Is(results[0].Err, store.ErrUnknown) ||
				len(chunks) != 1 || len(chunks[0]) != 1 || chunks[0][0].Name != "b" || chunks[0][0].result != &results[1] {
				t.Errorf("a change of the version %q: %v, and %d requests; want an error, and the other change alone", text, results[0].Err, len(chunks))
			}
		}
	}
}

// TestNodesOfNoNames: a node that no name has is not taken for that of another name, whose record would be listed twice.
func TestNodesOfNoNames(t *testing.T) {
	for _, node := range []string{"%", "a%", "a%2", "%2f", "%41", "%zz", "a b", ".a", "a/b", "%2F%"} {
		if name, ok := unescape(node); ok {
			t.Errorf("the node %q is taken for that of %q", node, name)
		}
	}
	for _, name := range []string{"a.b", ".a", "é/%", "A-z_09:", "~ \x00"} {
		if got, ok := unescape(escape(name)); got != name || !ok {
			t.Errorf("the node of %q is that of %q, %t", name, got, ok)
		}
	}
}

// TestErrors: an error of ZooKeeper has what was being done, once, and what to do; only what was not sent, or was denied, is known not to have been written.
func TestErrors(t *testing.T) {
	for _, test := range []struct {
		err           error
		known, denied bool
		text          string
	}{
		{zk.ErrNoServer, true, false, "none of the servers could be reached"},
		{zk.ErrNoAuth, true, true, "the ACL of the nodes"},
		{zk.ErrAuthFailed, true, true, "this way of naming a user"},
		{zk.ErrInvalidACL, true, true, "the connection needs a user"},
		{zk.ErrShortBuffer, false, false, "WithMaxConnBufferSize"},
		{zk.ErrConnectionClosed, false, false, ""},
		{zk.ErrSessionExpired, false, false, ""},
		{zk.ErrSessionMoved, false, false, ""},
		{zk.ErrClosing, false, false, ""},
		{errCutOff, false, false, ""},
	} {
		for _, err := range []error{test.err, fmt.Errorf("%w: more", test.err), wrap("doing", test.err)} {
			told := unsure("doing", err)
			if known := !errors.Is(told, store.ErrUnknown); known != test.known || errors.Is(told, fs.ErrPermission) != test.denied || !errors.Is(told, test.err) ||
				strings.Count(told.Error(), "zkstore: doing: ") != 1 || !strings.Contains(told.Error(), test.text) {
				t.Errorf("%v: %v, want one that says %q; known %t, denied %t", err, told, test.text, test.known, test.denied)
			}
		}
	}
	if err := wrap("doing", nil); err != nil {
		t.Errorf("of no error: %v", err)
	}
	if err := wrap("doing", store.ErrClosed); err != store.ErrClosed { //nolint:errorlint // it is not wrapped
		t.Errorf("of a closed store: %v", err)
	}
}
