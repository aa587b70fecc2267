package natsstore_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/casstore"
	"github.com/soloist-dev/soloist/store/natsstore"
	"github.com/soloist-dev/soloist/test/servers"
)

// A liar passes on what a client and a server say to each other, and changes what the server says.
type liar struct {
	net.Listener
	// nil to say nothing; headers keep their length; no function to be honest
	lie atomic.Pointer[func(payload []byte) []byte]
	// with what the server tells about itself; no function to be honest
	greet atomic.Pointer[func(line []byte) []byte]
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
		if greet := l.greet.Load(); greet != nil && bytes.HasPrefix(line, []byte("INFO ")) {
			line = (*greet)(line)
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
				fields[len(fields)-1] = strconv.AppendInt(nil, int64(len(payload)-len("\r\n")), 10)
				line = append(bytes.Join(fields, []byte(" ")), "\r\n"...)
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

// TestListWithoutEnd: a server that has more messages, and sends none of them, is not asked for them again and again.
func TestListWithoutEnd(t *testing.T) {
	l := newLiar(t, shared(t).Addr)
	s := made(t, connect(t, l.Addr().String()), natsstore.Config{Bucket: fresh(), Synced: true})
	claims := make([]store.Claim, 501) // more than a page
	for i := range claims {
		claims[i] = store.Claim{Name: fmt.Sprint(i), Holder: "x", TTL: time.Hour}
	}
	if _, err := s.Acquire(background, claims); err != nil {
		t.Fatal(err)
	}
	var ends atomic.Int32
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	lie := func(payload []byte) []byte {
		switch {
		case bytes.HasPrefix(payload, []byte("NATS/1.0 204")):
			if ends.Add(1) == 3 {
				cancel()
			}
		case bytes.HasPrefix(payload, []byte("NATS/1.0\r\n")):
			return nil // a message
		}
		return payload
	}
	l.lie.Store(&lie)
	for _, err := range s.List(ctx, "") {
		if err == nil || ctx.Err() != nil {
			t.Errorf("%v after %d replies with nothing, want an error after one", err, ends.Load())
		}
	}
	if ends.Load() == 0 {
		t.Error("no reply was without messages")
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

// isInfo reports whether a payload is a reply about a bucket.
func isInfo(payload []byte) bool { return bytes.Contains(payload, []byte("stream_info_response")) }

// isAck reports whether a payload confirms a message.
func isAck(payload []byte) bool { return bytes.Contains(payload, []byte(`"stream":"KV`)) }

// led is a reply about a bucket as one of three servers gives it that leads since then.
func led(info []byte, leader string, since time.Time) []byte {
	const before = `"ts":"`
	return bytes.Replace(info, []byte(before), fmt.Appendf(nil, `"cluster":{"leader":%q,"leader_since":%q,"replicas":[{"name":"n8"},{"name":"n9"}]},%s`, leader, since.Format(time.RFC3339Nano), before), 1)
}

// TestLeaderThatWasCutOff: a leader that is cut off does not know yet that another one has confirmed more. What it reports does not mean that the
// sequence has fallen, which the store would keep to until its process ends. That is asked with a message, which only the leader of a majority confirms.
func TestLeaderThatWasCutOff(t *testing.T) {
	began := time.Now()
	type leadership struct {
		server string
		since  time.Time
	}
	old := leadership{"n0", began}
	for name, c := range map[string]struct {
		confirms bool
		lies     int32 // so many replies about the bucket show an earlier sequence
		was, is  leadership
	}{
		"alone":                      {false, 1, old, old},
		"beside the new one":         {true, 2, old, old},
		"before the new one":         {true, 1, old, leadership{"n1", began}},
		"before it leads once more":  {true, 1, old, leadership{"n0", began.Add(time.Nanosecond)}},
		"before nobody leads":        {true, 1, old, leadership{}},
		"one that does not lead now": {true, 1, leadership{}, leadership{}},
	} {
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
			var infos, confirmations atomic.Int32
			before := func(payload []byte) []byte {
				switch {
				case isInfo(payload) && infos.Add(1) <= c.lies:
					return led(bytes.Replace(payload, []byte(`"last_seq":1`), []byte(`"past_seq":1`), 1), c.was.server, c.was.since)
				case isInfo(payload):
					return led(payload, c.is.server, c.is.since)
				case isAck(payload) && !c.confirms:
					confirmations.Add(1)
					cancel() // it would wait
					return nil
				}
				return payload
			}
			l.lie.Store(&before)
			_, err := acquire(ctx, s, "b", "x", time.Hour)
			switch {
			case infos.Load() < c.lies:
				t.Fatal("the bucket was not looked at")
			case c.confirms && err != nil:
				t.Errorf("although a message was confirmed: %v", err)
			case !c.confirms && (!errors.Is(err, context.Canceled) || errors.Is(err, store.ErrUnknown) || errors.Is(err, store.ErrUnusable) || confirmations.Load() != 1):
				t.Errorf("got %v after %d confirmations that were lost, want that the context has ended, after one", err, confirmations.Load())
			}
			l.lie.Store(nil)
			if _, err := acquire(background, s, "c", "x", time.Hour); err != nil {
				t.Errorf("by the new leader: %v", err)
			}
		})
	}
}

// TestCapabilitiesWhileItWrites: what a store itself has written after a server was asked for the state of the bucket does not mean that the sequence has fallen.
func TestCapabilitiesWhileItWrites(t *testing.T) {
	l := newLiar(t, shared(t).Addr)
	s := made(t, connect(t, l.Addr().String()), natsstore.Config{Bucket: fresh(), Synced: true})
	if _, err := acquire(background, s, "a", "x", time.Hour); err != nil {
		t.Fatal(err)
	}
	var before []byte
	written := make(chan error, 1)
	late := func(payload []byte) []byte { // the state comes after what was written since
		switch {
		case !isInfo(payload):
			return payload
		case before == nil:
			before = bytes.Clone(payload)
			go func() { _, err := acquire(background, s, "b", "x", time.Hour); written <- err }()
			return nil
		case len(written) == 0:
			return nil // it is asked again
		}
		return before
	}
	l.lie.Store(&late)
	if c, err := s.Capabilities(background); err != nil || c.Fencing.Answer != store.Yes {
		t.Errorf("fencing: %+v, %v", c.Fencing, err)
	}
	l.lie.Store(nil)
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	if _, err := acquire(background, s, "c", "x", time.Hour); err != nil {
		t.Errorf("after that: %v", err)
	}
}

// TestFallenSequenceThatCatchesUp: that a sequence has fallen is noticed also if others have written so much that it has caught up: before the message is confirmed
// with which that is asked, or when its confirmation was lost. Of a cluster, the leader that showed an earlier sequence is the one that shows a later one then.
func TestFallenSequenceThatCatchesUp(t *testing.T) {
	began := time.Now()
	for name, cluster := range map[string]bool{"one server": false, "three servers": true} {
		for then, lost := range map[string]bool{"before a confirmation": false, "after a confirmation was lost": true} {
			t.Run(name+" "+then, func(t *testing.T) {
				server := shared(t).Addr
				s := catchesUp{direct: connect(t, server), liar: newLiar(t, server), lost: lost, info: func(payload []byte) []byte {
					if cluster {
						return led(payload, "n0", began)
					}
					return payload
				}}
				bucket := fresh()
				made(t, s.direct, natsstore.Config{Bucket: bucket})
				first, later := s.claims(t, bucket)
				if lost && cluster {
					if !errors.Is(first, context.Canceled) || errors.Is(first, store.ErrUnusable) {
						t.Errorf("without a confirmation: %v", first)
					}
					first = later
				}
				for _, err := range []error{first, later} {
					if !errors.Is(err, store.ErrUnusable) || !says(err, "has fallen") || errors.Is(err, store.ErrUnknown) {
						t.Errorf("got %v, want that the sequence has fallen", err)
					}
				}
			})
		}
	}
}

// TestFallenSequenceInACluster: servers show who leads, and since when, so that the same leadership is known again.
func TestFallenSequenceInACluster(t *testing.T) {
	c := three(t)
	for _, lost := range []bool{false, true} {
		servers.Wait(t, "a leader that leads all the time", func() bool {
			s := catchesUp{direct: connect(t, c[0].Addr), liar: newLiar(t, c[1].Addr), lost: lost}
			var mu sync.Mutex
			var leaderships []string
			s.info = func(payload []byte) []byte {
				var reply struct {
					Cluster struct {
						Leader string
						Since  string `json:"leader_since"`
					}
				}
				_ = json.Unmarshal(payload, &reply)
				mu.Lock()
				defer mu.Unlock()
				leaderships = append(leaderships, reply.Cluster.Leader+" "+reply.Cluster.Since)
				return payload
			}
			_, later := s.claims(t, c.bucket(t))
			if errors.Is(later, store.ErrUnusable) && says(later, "has fallen") {
				return true
			}
			mu.Lock()
			defer mu.Unlock()
			if leaderships = slices.Compact(leaderships); later == nil && len(leaderships) == 1 {
				t.Fatalf("granted under one leader (%q), want that the sequence has fallen", leaderships)
			}
			return false
		})
	}
}

// catchesUp is how a store looks at a bucket whose sequence has fallen and catches up.
type catchesUp struct {
	direct jetstream.JetStream
	liar   *liar
	lost   bool                        // it catches up after the confirmation of the store was lost, otherwise before that
	info   func(payload []byte) []byte // what becomes of replies about the bucket
}

// claims returns what becomes of a claim while the sequence catches up, and of one after that.
func (c catchesUp) claims(t *testing.T, bucket string) (first, later error) {
	t.Helper()
	s := open(t, connect(t, c.liar.Addr().String()), natsstore.Config{Bucket: bucket})
	before, err := acquire(background, s, "a", "x", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Migrate(background); err != nil { // after which it looks at the bucket again
		t.Fatal(err)
	}
	anew(t, c.direct, bucket, uint64(before.Token), func() {})
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	var infos atomic.Int32
	looked, caughtUp := make(chan struct{}), make(chan struct{})
	lie := func(payload []byte) []byte {
		switch {
		case isInfo(payload):
			if infos.Add(1) == 1 {
				close(looked)
				<-caughtUp
			}
			return c.info(payload)
		case isAck(payload) && c.lost:
			cancel() // it would wait
			return nil
		}
		return payload
	}
	c.liar.lie.Store(&lie)
	claimed := make(chan error, 1)
	go func() { _, err := acquire(ctx, s, "b", "x", time.Hour); claimed <- err }()
	<-looked
	if !c.lost {
		catchUp(t, c.direct, bucket, before.Token)
	}
	close(caughtUp)
	first = <-claimed
	if c.lost {
		catchUp(t, c.direct, bucket, before.Token)
		honest := func(payload []byte) []byte {
			if isInfo(payload) {
				return c.info(payload)
			}
			return payload
		}
		c.liar.lie.Store(&honest)
	}
	_, later = acquire(background, s, "c", "x", time.Hour)
	return first, later
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

// during makes a call, does something when the first reply of a kind is there, and passes the reply on then.
func (l *liar) during(t *testing.T, is func(payload []byte) bool, call, do func()) {
	t.Helper()
	there, pass, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var once sync.Once
	lie := func(payload []byte) []byte {
		if is(payload) {
			once.Do(func() { close(there); <-pass })
		}
		return payload
	}
	l.lie.Store(&lie)
	defer l.lie.Store(nil)
	go func() { defer close(done); call() }()
	select {
	case <-there:
	case <-done:
		t.Fatal("there was no such reply")
	}
	func() { defer close(pass); do() }()
	<-done
}

// isRecord reports whether a payload is a reply of the leader about a record.
func isRecord(payload []byte) bool { return bytes.Contains(payload, []byte("stream_msg_get_response")) }

// TestReadsThatCannotBe: a reply that cannot be that to a question says nothing of a record: neither what another name
// has, nor that there is none.
func TestReadsThatCannotBe(t *testing.T) {
	l, bucket := newLiar(t, shared(t).Addr), fresh()
	s := made(t, connect(t, l.Addr().String()), natsstore.Config{Bucket: bucket})
	g, err := acquire(background, s, "a", "x", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := acquire(background, s, "b", "y", time.Hour); err != nil {
		t.Fatal(err)
	}
	records := natsstore.Backend(s)
	read := func() error {
		items, err := records.Read(background, []string{"a"})
		if err == nil && items[0].Err == nil {
			t.Errorf("read %+v", items[0])
		}
		return err
	}
	walk := func(cursor string) func() error {
		return func() error {
			items, next, err := records.Walk(background, cursor, 1)
			if err == nil {
				t.Errorf("read %+v, and then from %q", items, next)
			}
			return err
		}
	}
	_, second, err := records.Walk(background, "", 1)
	if err != nil || second == "" {
		t.Fatal(second, err)
	}
	for what, test := range map[string]struct {
		do       func() error
		from, to string
	}{
		"of another name":           {read, "$KV." + bucket + ".a", "$KV." + bucket + ".b"},
		"without a sequence":        {read, `"seq":`, `"sea":`},
		"without a message":         {read, `"message":`, `"massage":`},
		"no JSON":                   {read, `{"type"`, `["type"`},
		"listed without a sequence": {walk(""), "Nats-Sequence:", "Nats-Sequenco:"},
		"listed with a text":        {walk(""), "Nats-Sequence: 1", "Nats-Sequence: x"},
		"listed before its page":    {walk(second), "Nats-Sequence: 1", "Nats-Sequence: 0"},
		"the end is a refusal":      {walk(""), "NATS/1.0 204", "NATS/1.0 408"},
		"the end is that of nobody": {walk(""), "NATS/1.0 204", "NATS/1.0 503"},
	} {
		t.Run(what, func(t *testing.T) {
			var lies atomic.Int32
			lie := func(payload []byte) []byte {
				told := bytes.Replace(payload, []byte(test.from), []byte(test.to), 1)
				if !bytes.Equal(told, payload) {
					lies.Add(1)
				}
				return told
			}
			l.lie.Store(&lie)
			err := test.do()
			l.lie.Store(nil)
			if lies.Load() == 0 {
				t.Fatal("no reply has been changed")
			}
			if err == nil || errors.Is(err, store.ErrUnknown) {
				t.Errorf("got %v, want an error that is not unknown", err)
			}
			if err := extend(background, s, "a", "x", g.Token, time.Hour); err != nil {
				t.Errorf("after that: %v", err)
			}
		})
	}
}

// TestWritesWhereThereIsNoRecord: what a process has read before a record was removed does not come back, and of those
// who make a record anew one succeeds, also where the message still stays that says that there is none. What became of
// a refused write is known, even if the record cannot be read then.
func TestWritesWhereThereIsNoRecord(t *testing.T) {
	l, bucket := newLiar(t, shared(t).Addr), fresh()
	other := made(t, connect(t, shared(t).Addr), natsstore.Config{Bucket: bucket})
	records := natsstore.Backend(open(t, connect(t, l.Addr().String()), natsstore.Config{Bucket: bucket}))
	g, err := acquire(background, other, "a", "x", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	items, err := records.Read(background, []string{"a"})
	if err != nil {
		t.Fatal(err)
	}
	before := items[0]
	errs, err := other.Release(background, []store.Release{{Name: "a", Holder: "x", Token: g.Token}})
	if err != nil || errs[0] != nil {
		t.Fatal(errs, err)
	}
	if n, err := other.Sweep(background, 10); n != 1 || err != nil {
		t.Fatalf("forgotten: %d, %v", n, err)
	}
	write := func(ctx context.Context, version string) casstore.Result {
		record := before.Record
		record.Token = 0
		results, err := records.Write(ctx, []casstore.Change{{Name: "a", Version: version, Record: &record}})
		if err != nil {
			return casstore.Result{Err: err}
		}
		return results[0]
	}
	if r := write(background, before.Version); !errors.Is(r.Err, casstore.ErrConflict) || r.Current == nil ||
		r.Current.Version != "" {
		t.Errorf("a write over what was removed: %+v, want a conflict with no record", r)
	}

	ctx, cancel := context.WithCancel(background)
	defer cancel()
	silent := func(payload []byte) []byte {
		if !isRecord(payload) {
			return payload
		}
		cancel()
		return nil
	}
	l.lie.Store(&silent)
	if r := write(ctx, before.Version); !errors.Is(r.Err, casstore.ErrConflict) ||
		errors.Is(r.Err, store.ErrUnknown) || r.Current != nil {
		t.Errorf("a write over what was removed and cannot be read: %+v, want a conflict with what is not known", r)
	}

	var r casstore.Result
	var taken store.Grant
	// the other one makes the record after this one has found that there is none
	begun := time.Now()
	l.during(t, isRecord, func() { r = write(background, "") }, func() {
		taken, err = acquire(background, other, "a", "y", time.Hour)
	})
	quick := time.Since(begun) < natsstore.AskAgain // else it has asked again, and may know the record
	if err != nil || taken.Token <= g.Token {
		t.Fatalf("the other one: %+v, %v", taken, err)
	}
	if !errors.Is(r.Err, casstore.ErrConflict) || errors.Is(r.Err, store.ErrUnknown) || r.Version != "" ||
		r.Current != nil && (quick || r.Current.Record.Holder != "y") {
		t.Errorf("the one that was later: %+v, want a conflict with what is not known", r)
	}
	if err := extend(background, other, "a", "y", taken.Token, time.Hour); err != nil {
		t.Errorf("who has made it: %v", err)
	}
	if r := write(background, ""); !errors.Is(r.Err, casstore.ErrConflict) || r.Current == nil ||
		r.Current.Record.Holder != "y" {
		t.Errorf("where there is a record: %+v, want a conflict with it", r)
	}
}

// TestBucketMadeMeanwhile: of two processes that make a bucket one makes it; the other one looks at it then, and mends
// it if it must.
func TestBucketMadeMeanwhile(t *testing.T) {
	direct := connect(t, shared(t).Addr)
	for what, test := range map[string]struct {
		spoil func(c *jetstream.StreamConfig)
		want  string
	}{
		"by soloist":              {func(*jetstream.StreamConfig) {}, ""},
		"by soloist, and changed": {func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }, "max_age"},
		"by soloist, and cannot be": {func(c *jetstream.StreamConfig) {
			c.FirstSeq, c.Storage = 0, jetstream.MemoryStorage
		}, "!"},
	} {
		t.Run(what, func(t *testing.T) {
			l, bucket := newLiar(t, shared(t).Addr), fresh()
			s := open(t, connect(t, l.Addr().String()), natsstore.Config{Bucket: bucket})
			var lines []string
			var err error
			var first uint64
			l.during(t, isInfo, func() { lines, err = s.Migrate(background) }, func() {
				made(t, direct, natsstore.Config{Bucket: bucket})
				cfg := streamOf(t, direct, bucket)
				first = cfg.FirstSeq
				if test.spoil(&cfg); test.want == "" {
					return
				}
				if err := direct.DeleteStream(background, cfg.Name); err != nil {
					t.Fatal(err)
				}
				if _, err := direct.CreateStream(background, cfg); err != nil {
					t.Fatal(err)
				}
			})
			if test.want == "!" {
				if !errors.Is(err, store.ErrUnusable) || len(lines) != 0 {
					t.Errorf("migrated %q, %v, want that it is refused", lines, err)
				}
				return
			}
			if err != nil || len(lines) != min(len(test.want), 1) || len(lines) == 1 &&
				!strings.Contains(lines[0], test.want) {
				t.Errorf("migrated %q, %v, want %q", lines, err, test.want)
			}
			if now := streamOf(t, direct, bucket); now.FirstSeq != first || now.MaxAge != 0 {
				t.Errorf("it begins at %d, want %d, and forgets after %v", now.FirstSeq, first, now.MaxAge)
			}
			if _, err := acquire(background, s, "a", "x", time.Hour); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestGrantsWhileItLooks: what another process was granted after a server was asked for the state of the bucket does
// not mean that the sequence has fallen, if this one has seen it in the meantime.
func TestGrantsWhileItLooks(t *testing.T) {
	l, bucket := newLiar(t, shared(t).Addr), fresh()
	other := made(t, connect(t, shared(t).Addr), natsstore.Config{Bucket: bucket})
	s := open(t, connect(t, l.Addr().String()), natsstore.Config{Bucket: bucket})
	var err error
	l.during(t, isInfo, func() { _, err = acquire(background, s, "b", "x", time.Hour) }, func() {
		g, err := acquire(background, other, "a", "x", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		natsstore.Raise(s, g.Token)
	})
	if err != nil {
		t.Error(err)
	}
}

// TestSuspicionWhileItLooks: that the sequence may have fallen, which another request has found while this one looked
// at the bucket, is found out before anything else is granted.
func TestSuspicionWhileItLooks(t *testing.T) {
	l := newLiar(t, shared(t).Addr)
	s := made(t, connect(t, l.Addr().String()), natsstore.Config{Bucket: fresh()})
	var infos atomic.Int32
	lie := func(payload []byte) []byte {
		if isInfo(payload) && infos.Add(1) == 1 {
			natsstore.Suspect(s)
		}
		return payload
	}
	l.lie.Store(&lie)
	// the second request asks twice: it looks at the bucket, and again when a message was confirmed
	begun := time.Now()
	for i, want := range []int32{1, 3, 3} {
		err := s.Ping(background)
		n := infos.Load()
		if quick := time.Since(begun) < natsstore.AskAgain; err != nil || n != want && quick {
			t.Errorf("request %d: %v after %d looks at the bucket, want %d", i, err, n, want)
		}
	}
}

// TestOldServers: a server that is too old is refused before anything is made, and one before NATS 2.12 is not asked
// for batches.
func TestOldServers(t *testing.T) {
	direct := connect(t, shared(t).Addr)
	of := func(version, bucket string) *natsstore.Store {
		l := newLiar(t, shared(t).Addr)
		greet := func(line []byte) []byte {
			return regexp.MustCompile(`"version":"[^"]*"`).ReplaceAll(line, []byte(`"version":"`+version+`"`))
		}
		l.greet.Store(&greet)
		return open(t, connect(t, l.Addr().String()), natsstore.Config{Bucket: bucket})
	}
	bucket := fresh()
	old := of("2.10.29", bucket)
	if lines, err := old.Migrate(background); !errors.Is(err, store.ErrUnusable) || !says(err, "2.10.29") ||
		len(lines) != 0 {
		t.Errorf("migrated %q, %v, want that the server is too old", lines, err)
	}
	if _, err := direct.Stream(background, "KV_"+bucket); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("the bucket: %v, want that it is not there", err)
	}
	made(t, direct, natsstore.Config{Bucket: bucket})
	if findings, err := old.Examine(background); err != nil || findings[0].Subject != "server" ||
		findings[0].Level != store.LevelError || !strings.Contains(findings[0].Found, "2.10.29") {
		t.Errorf("%+v, %v, want first that the server is too old", findings, err)
	}
	cfg := streamOf(t, direct, bucket)
	cfg.AllowAtomicPublish = false
	if _, err := direct.UpdateStream(background, cfg); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		version string
		lines   int
	}{{"2.11.9", 0}, {"2.12.0", 1}, {"2.12.0", 0}} {
		lines, err := of(test.version, bucket).Migrate(background)
		accepts := streamOf(t, direct, bucket).AllowAtomicPublish
		if err != nil || len(lines) != test.lines || accepts != (test.version == "2.12.0") {
			t.Errorf("migrated by %s: %q, %v; it accepts batches: %t", test.version, lines, err, accepts)
		}
	}
}
