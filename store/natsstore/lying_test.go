package natsstore_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/natsstore"
	"github.com/soloist-dev/soloist/test/servers"
)

// A liar passes on what a client and a server say to each other, and changes what the server says.
type liar struct {
	net.Listener
	lie atomic.Pointer[func(payload []byte) []byte] // of the same length, or nil to say nothing; no function to be honest
}

func newLiar(t *testing.T, server string) *liar {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &liar{Listener: listener}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", server)
			if err != nil {
				_ = client.Close()
				continue
			}
			go func() { _, _ = io.Copy(to, client); _ = to.Close() }()
			go func() { l.replies(client, to); _ = client.Close() }()
		}
	}()
	return l
}

// replies passes on the lines of the server, and what follows those of messages.
func (l *liar) replies(client io.Writer, server io.Reader) {
	for from := bufio.NewReader(server); ; {
		line, err := from.ReadBytes('\n')
		if err != nil {
			return
		}
		if fields := bytes.Fields(line); bytes.HasSuffix(fields[0], []byte("MSG")) {
			size, _ := strconv.Atoi(string(fields[len(fields)-1]))
			payload := make([]byte, size+len("\r\n"))
			if _, err := io.ReadFull(from, payload); err != nil {
				return
			}
			if lie := l.lie.Load(); lie != nil {
				if payload = (*lie)(payload); payload == nil {
					continue
				}
			}
			line = append(line, payload...)
		}
		if _, err := client.Write(line); err != nil {
			return
		}
	}
}

// TestListOfAReplicaThatLags: the leader says where a list ends. A replica that has not got the newest records yet reports that there are no more, and
// its list would lack what the caller itself has just written.
func TestListOfAReplicaThatLags(t *testing.T) {
	l := newLiar(t, shared(t).Addr)
	s := made(t, connect(t, l.Addr().String()), natsstore.Config{Bucket: fresh(), Synced: true})
	names := []string{"a", "b", "c", "d"}
	for _, name := range names {
		if _, err := acquire(background, s, name, "x", time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	var lies atomic.Int32
	lie := func(payload []byte) []byte { // instead of c and d: there is nothing. The first header, whichever it is, gets as much shorter as the first line longer
		for _, name := range names[2:] {
			if honest, empty := "NATS/1.0\r\n", "NATS/1.0 404\r\n"; bytes.HasPrefix(payload, []byte(honest)) && bytes.Contains(payload, []byte("."+name+"\r\n")) {
				lies.Add(1)
				return append([]byte(empty), payload[len(empty):]...)
			}
		}
		return payload
	}
	l.lie.Store(&lie)
	var listed []string
	for r, err := range s.List(background, "") {
		if err != nil {
			t.Fatal(err)
		}
		listed = append(listed, r.Name)
	}
	if lies.Load() == 0 || !slices.Equal(listed, names) {
		t.Errorf("listed %q after %d lies, want %q", listed, lies.Load(), names)
	}
}

// TestFullPageOfAReplicaThatLags: that a replica has no more than a full page is no end either: the leader may have more.
func TestFullPageOfAReplicaThatLags(t *testing.T) {
	const page = 500
	l := newLiar(t, shared(t).Addr)
	s := made(t, connect(t, l.Addr().String()), natsstore.Config{Bucket: fresh(), Synced: true})
	claims := make([]store.Claim, page+1)
	for i := range claims {
		claims[i] = store.Claim{Name: fmt.Sprint(i), Holder: "x", TTL: time.Hour}
	}
	outcomes, err := s.Acquire(background, claims)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range outcomes {
		if o.Err != nil {
			t.Fatal(o.Err)
		}
	}
	var lies atomic.Int32
	lie := func(payload []byte) []byte { // at the end of the page: there is not one more
		const honest, none = "Nats-Num-Pending: 1\r\n", "Nats-Num-Pending: 0\r\n"
		if bytes.HasPrefix(payload, []byte("NATS/1.0 204")) && bytes.Contains(payload, []byte(honest)) {
			lies.Add(1)
			return bytes.Replace(payload, []byte(honest), []byte(none), 1)
		}
		return payload
	}
	l.lie.Store(&lie)
	listed := 0
	for _, err := range s.List(background, "") {
		if err != nil {
			t.Fatal(err)
		}
		listed++
	}
	if lies.Load() != 1 || listed != len(claims) {
		t.Errorf("listed %d names after %d lies, want %d after one", listed, lies.Load(), len(claims))
	}
}

// TestQuestionsAreAskedAgain: what the servers do not reply to, as while a stream has no leader, is asked again: what the settings of the bucket are, and what a record is.
func TestQuestionsAreAskedAgain(t *testing.T) {
	bucket := fresh()
	made(t, connect(t, shared(t).Addr), natsstore.Config{Bucket: bucket})
	l := newLiar(t, shared(t).Addr)
	s := open(t, connect(t, l.Addr().String()), natsstore.Config{Bucket: bucket})
	var infos, records atomic.Int32
	ignore := func(payload []byte) []byte {
		if bytes.Contains(payload, []byte("stream_info_response")) && infos.Add(1) == 1 || bytes.Contains(payload, []byte("stream_msg_get_response")) && records.Add(1) == 1 {
			return nil
		}
		return payload
	}
	l.lie.Store(&ignore)
	ctx, cancel := context.WithTimeout(background, servers.Patience)
	defer cancel()
	if _, err := acquire(ctx, s, "a", "x", time.Hour); err != nil {
		t.Error(err)
	}
	if infos.Load() < 2 || records.Load() < 2 {
		t.Errorf("there were %d replies about the bucket and %d about the record, of which one each was lost", infos.Load(), records.Load())
	}
}

// TestLeaderThatWasCutOff: a leader that is cut off does not know yet that another one has confirmed more. What it reports does not mean that the
// sequence has fallen, which the store would keep to until its process ends. That is asked with a message, which only the leader of a majority confirms.
func TestLeaderThatWasCutOff(t *testing.T) {
	for name, confirms := range map[string]bool{"alone": false, "beside the new one": true} {
		t.Run(name, func(t *testing.T) {
			l := newLiar(t, shared(t).Addr)
			s := made(t, connect(t, l.Addr().String()), natsstore.Config{Bucket: fresh()})
			if _, err := acquire(background, s, "a", "x", time.Hour); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Migrate(background); err != nil { // after which it looks at the bucket again
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(background)
			defer cancel()
			var lies, confirmations atomic.Int32
			before := func(payload []byte) []byte {
				switch {
				case bytes.Contains(payload, []byte("stream_info_response")):
					lies.Add(1)
					return bytes.Replace(payload, []byte(`"last_seq":1`), []byte(`"past_seq":1`), 1)
				case bytes.Contains(payload, []byte(`"stream":"KV`)) && !confirms:
					confirmations.Add(1)
					cancel() // it would wait
					return nil
				}
				return payload
			}
			l.lie.Store(&before)
			_, err := acquire(ctx, s, "b", "x", time.Hour)
			l.lie.Store(nil)
			switch {
			case lies.Load() == 0:
				t.Fatal("the bucket was not looked at")
			case confirms && err != nil:
				t.Errorf("although a message was confirmed: %v", err)
			case !confirms && (!errors.Is(err, context.Canceled) || errors.Is(err, store.ErrUnknown) || errors.Is(err, store.ErrUnusable) || confirmations.Load() != 1):
				t.Errorf("got %v after %d confirmations that were lost, want that the context has ended, after one", err, confirmations.Load())
			}
			if _, err := acquire(background, s, "c", "x", time.Hour); err != nil {
				t.Errorf("by the new leader: %v", err)
			}
		})
	}
}

// TestLyingReplies: a reply that is not that to what was written confirms nothing. What it was is unknown.
func TestLyingReplies(t *testing.T) {
	l := newLiar(t, shared(t).Addr)
	s := made(t, connect(t, l.Addr().String()), natsstore.Config{Bucket: fresh(), Synced: true})
	var extensions []store.Extension
	for _, name := range []string{"a", "b", "c"} {
		g, err := acquire(background, s, name, "x", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		extensions = append(extensions, store.Extension{Name: name, Holder: "x", Token: g.Token, TTL: time.Hour})
	}
	for what, c := range map[string]struct {
		leases   int
		from, to string
	}{
		"of another stream":        {1, `"stream":"KV`, `"stream":"OF`},
		"without a sequence":       {1, `"seq":`, `"sea":`},
		"of a batch of fewer":      {3, `"count":3`, `"count":2`},
		"of a batch of more":       {3, `"count":3`, `"count":4`},
		"of no batch":              {3, `"batch":`, `"patch":`},
		"of another stream, batch": {3, `"stream":"KV`, `"stream":"OF`},
	} {
		t.Run(what, func(t *testing.T) {
			var lies atomic.Int32
			lie := func(payload []byte) []byte {
				told := bytes.Replace(payload, []byte(c.from), []byte(c.to), 1)
				if !bytes.Equal(told, payload) {
					lies.Add(1)
				}
				return told
			}
			l.lie.Store(&lie)
			errs, err := s.Extend(background, extensions[:c.leases])
			l.lie.Store(nil)
			if lies.Load() == 0 {
				t.Fatal("no reply has been changed")
			}
			for i := range errs {
				if !errors.Is(errs[i], store.ErrUnknown) {
					t.Errorf("lease %d: %v, want ErrUnknown", i, errs[i])
				}
			}
			if err != nil && !errors.Is(err, store.ErrUnknown) {
				t.Error(err)
			}
			if errs, err := s.Extend(background, extensions); err != nil || errors.Join(errs...) != nil {
				t.Errorf("after that: %v", fmt.Sprint(errs, err))
			}
		})
	}
}
