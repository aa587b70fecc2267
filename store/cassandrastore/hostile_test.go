package cassandrastore_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/cassandrastore"
	"github.com/soloist-dev/soloist/test/servers"
)

// acquire claims one name for the holder x.
func acquire(ctx context.Context, s *cassandrastore.Store, name string) (store.Grant, error) {
	outcomes, err := s.Acquire(ctx, []store.Claim{{Name: name, Holder: "x", TTL: time.Hour}})
	if err != nil {
		return store.Grant{}, err
	}
	return outcomes[0].Grant, outcomes[0].Err
}

// again repeats what fails while the driver connects anew.
func again(t testing.TB, what string, do func() error) {
	t.Helper()
	servers.Wait(t, what, func() bool {
		err := do()
		if err != nil && !errors.Is(err, gocql.ErrNoConnections) && !errors.Is(err, store.ErrUnknown) {
			t.Fatalf("%s: %v", what, err)
		}
		return err == nil
	})
}

const (
	serial = uint16(gocql.Serial)
	quorum = uint16(gocql.Quorum)
)

// fates are what can become of a write, and whether its outcome is known then.
var fates = []struct {
	rule    string
	fate    fate
	unknown bool
	is      error
}{
	{"its connection breaks before it arrives", fate{}, true, nil},
	{"its connection breaks after it was carried out", fate{forward: true}, true, nil},
	{"it times out, and was carried out", fate{forward: true, reply: failure(gocql.ErrCodeWriteTimeout, serial, uint32(1), uint32(2), "CAS")}, true, nil},
	{"it times out, and was not carried out", fate{reply: failure(gocql.ErrCodeWriteTimeout, serial, uint32(0), uint32(2), "CAS")}, true, nil},
	{"it times out when it is acknowledged", fate{forward: true, reply: failure(gocql.ErrCodeWriteTimeout, quorum, uint32(1), uint32(2), "SIMPLE")}, true, nil},
	{"it times out when the row is read", fate{forward: true, reply: failure(gocql.ErrCodeReadTimeout, serial, uint32(1), uint32(2), uint8(0))}, true, nil},
	{"replicas fail", fate{forward: true, reply: failure(gocql.ErrCodeWriteFailure, serial, uint32(1), uint32(2), uint32(1), "CAS")}, true, nil},
	{"the server fails", fate{forward: true, reply: failure(gocql.ErrCodeServer)}, true, nil},
	{"the server is overloaded", fate{forward: true, reply: failure(gocql.ErrCodeOverloaded)}, true, nil},
	{"too few replicas are there when it is acknowledged", fate{forward: true, reply: failure(gocql.ErrCodeUnavailable, quorum, uint32(2), uint32(1))}, true, nil},
	{"the reply says nothing", fate{forward: true, op: opResult, reply: []byte{0, 0, 0, 1}}, true, nil},
	{"too few replicas are there to decide", fate{reply: failure(gocql.ErrCodeUnavailable, serial, uint32(2), uint32(1))}, false, nil},
	{"too few replicas are there when it is acknowledged in the datacenter", fate{forward: true, reply: failure(gocql.ErrCodeUnavailable, uint16(gocql.LocalQuorum), uint32(2), uint32(1))}, true, nil},
	{"too few replicas are there to decide in the datacenter", fate{reply: failure(gocql.ErrCodeUnavailable, uint16(gocql.LocalSerial), uint32(2), uint32(1))}, false, nil},
	{"the server is starting", fate{reply: failure(gocql.ErrCodeBootstrapping)}, false, nil},
	{"it is not allowed", fate{reply: failure(gocql.ErrCodeUnauthorized)}, false, fs.ErrPermission},
	{"it is refused as invalid", fate{reply: failure(gocql.ErrCodeInvalid)}, false, nil},
}

// TestWhatBecomesOfWrites: an error of a claim tells whether it may have been granted, and who asks again gets the grant
// that the first request made, if it made one.
func TestWhatBecomesOfWrites(t *testing.T) {
	s, p := throughProxy(t)
	for i, test := range fates {
		t.Run(test.rule, func(t *testing.T) {
			again(t, "the connection", func() error { return s.Ping(background) })
			name := fmt.Sprint(i)
			p.next.Store(&test.fate)
			_, err := acquire(background, s, name)
			if err == nil || errors.Is(err, store.ErrUnknown) != test.unknown || test.is != nil && !errors.Is(err, test.is) {
				t.Errorf("got %v, want an error that is unknown: %v, and %v", err, test.unknown, test.is)
			}
			again(t, "the second attempt", func() error {
				grant, err := acquire(background, s, name)
				if err == nil && grant.Token != 1 {
					t.Errorf("got token %d, want the first", grant.Token)
				}
				return err
			})
		})
	}
}

// TestContention: a read or write whose outcome Cassandra cannot tell, for others had to do with the row, is settled by the store itself.
func TestContention(t *testing.T) {
	server := shared(t)
	_, cfg := server.fresh(t)
	p := newProxy(t, server.Addr)
	s := on(t, p.session(t), cfg)
	again(t, "the connection", func() error { return s.Ping(background) })
	const casUnknown = uint32(gocql.ErrCodeCASWriteUnknown)
	for i, f := range []fate{
		{reply: failure(casUnknown, serial, uint32(1), uint32(2))},
		{forward: true, reply: failure(casUnknown, serial, uint32(1), uint32(2))},
	} {
		name := fmt.Sprint(i)
		p.next.Store(&f)
		if grant, err := acquire(background, s, name); err != nil || grant.Token != 1 {
			t.Errorf("a write, carried out %v: got %+v, %v, want the first token", f.forward, grant, err)
		}
		other := on(t, p.session(t), cfg)
		if err := other.Ping(background); err != nil { // it looks at the table
			t.Fatal(err)
		}
		p.next.Store(&f)
		if grant, err := acquire(background, other, name); err != nil || grant.Token != 1 { // it meets the row
			t.Errorf("a claim that is repeated: got %+v, %v, want the first token", grant, err)
		}
		p.next.Store(&f)
		if err := other.Ping(background); err != nil || p.next.Load() != nil {
			t.Errorf("a read: got %v", err)
		}
	}
}

// TestContendedExtension: an extension that took effect, and whose outcome Cassandra cannot tell, does not undo what another process has written since
// with the same holder and token, however often that was.
func TestContendedExtension(t *testing.T) {
	server := shared(t)
	_, cfg := server.fresh(t)
	p := newProxy(t, server.Addr)
	s, other := on(t, p.session(t), cfg), server.open(t, cfg)
	grant, err := acquire(background, s, "a")
	if err != nil {
		t.Fatal(err)
	}
	extend := func(s *cassandrastore.Store, state string) error {
		errs, err := s.Extend(background, []store.Extension{{Name: "a", Holder: "x", Token: grant.Token, TTL: time.Hour, State: []byte(state)}})
		return errors.Join(append(errs, err)...)
	}
	var failed error
	p.next.Store(&fate{forward: true, reply: failure(uint32(gocql.ErrCodeCASWriteUnknown), serial, uint32(1), uint32(2)), before: func() {
		for i := range 10 {
			failed = errors.Join(failed, extend(other, fmt.Sprint("later ", i)))
		}
	}})
	if err := extend(s, "early"); !errors.Is(err, store.ErrUnknown) || failed != nil {
		t.Errorf("got %v, want an unknown outcome; the other process got %v", err, failed)
	}
	n := 0
	for r, err := range other.List(background, "a") {
		n++
		if err != nil || string(r.State) != "later 9" {
			t.Errorf("the state is %q, %v; want what was written last", r.State, err)
		}
	}
	if n != 1 {
		t.Errorf("%d records, want 1", n)
	}
}

// TestContendedWriteThatCannotBeRead: a write whose outcome Cassandra cannot tell is unknown if the row cannot be read,
// or has been written by something else. It is not sent again: the refusal of the second one would hide what became of
// the first one.
func TestContendedWriteThatCannotBeRead(t *testing.T) {
	server := shared(t)
	_, cfg := server.fresh(t)
	p := newProxy(t, server.Addr)
	s := on(t, p.session(t), cfg)
	used := func(name string) {
		t.Helper()
		grant, err := acquire(background, s, name)
		if err != nil {
			t.Fatal(err)
		}
		errs, err := s.Release(background, []store.Release{{Name: name, Holder: "x", Token: grant.Token}})
		if err := errors.Join(append(errs, err)...); err != nil {
			t.Fatal(err)
		}
	}
	for _, carried := range []bool{true, false} {
		for what, unreadable := range map[string]func(name string){
			"not read": func(string) { p.next.Store(&fate{reply: failure(gocql.ErrCodeServer)}) },
			"written by something else": func(name string) {
				server.do(t, `UPDATE `+cfg.Keyspace+`.soloist SET holder = null, version = 'edited' WHERE name = ?`, name)
			},
		} {
			name := fmt.Sprint(what, carried)
			contended := fate{
				forward: carried, reply: failure(uint32(gocql.ErrCodeCASWriteUnknown), serial, uint32(1), uint32(2)),
				before: func() { unreadable(name) },
			}
			once := func(verb string, pass int64, do func() error) {
				t.Helper()
				sent := p.writes.Load()
				p.pass.Store(pass)
				p.nextWrite.Store(&contended)
				if err := do(); !errors.Is(err, store.ErrUnknown) {
					t.Errorf("a contended %s, carried out: %t, whose row was %s: %v, want unknown", verb, carried, what, err)
				}
				if sent = p.writes.Load() - sent - pass; sent != 1 {
					t.Errorf("a contended %s, whose row was %s, was sent %d times", verb, what, sent)
				}
				server.do(t, `DELETE FROM `+cfg.Keyspace+`.soloist WHERE name = ?`, name) // no later sweep meets it
			}
			once("claim", 0, func() error { _, err := acquire(background, s, name); return err })
			name += " extended"
			grant, err := acquire(background, s, name)
			if err != nil {
				t.Fatal(err)
			}
			once("extension", 0, func() error {
				extension := store.Extension{Name: name, Holder: "x", Token: grant.Token, TTL: time.Hour}
				errs, err := s.Extend(background, []store.Extension{extension})
				return errors.Join(append(errs, err)...)
			})
			name += " and swept"
			used(name)
			once("removal", 1, func() error { // the floor of tokens is raised before it
				n, err := s.Sweep(background, 10)
				if n != 0 {
					t.Errorf("a contended removal, whose row was %s, is told as %d records that were forgotten", what, n)
				}
				return err
			})
		}
	}
}

// TestRemovalOfAChangedRow: a row that was written since it was read is not removed: what wrote it may hold the name.
// That is no error, and the row is what was written.
func TestRemovalOfAChangedRow(t *testing.T) {
	server := shared(t)
	_, cfg := server.fresh(t)
	p, other := newProxy(t, server.Addr), server.open(t, cfg)
	var sweeps atomic.Bool
	next := make(chan store.Outcome, 1)
	p.seen = func(frame []byte) {
		if !decided(frame) || !sweeps.CompareAndSwap(true, false) {
			return
		}
		outcomes, err := other.Acquire(background, []store.Claim{{Name: "a", Holder: "y", TTL: time.Hour}})
		if err != nil {
			outcomes = []store.Outcome{{Err: err}}
		}
		next <- outcomes[0]
	}
	s := on(t, p.session(t), cfg)
	grant, err := acquire(background, s, "a")
	if err != nil {
		t.Fatal(err)
	}
	errs, err := s.Release(background, []store.Release{{Name: "a", Holder: "x", Token: grant.Token}})
	if err := errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
	sweeps.Store(true)
	if n, err := s.Sweep(background, 10); n != 0 || err != nil {
		t.Errorf("%d records were forgotten, %v; want none, and no error", n, err)
	}
	if o := <-next; o.Err != nil || o.Grant.Token <= grant.Token {
		t.Errorf("the claim in between: %+v", o)
	}
	var held *store.HeldError
	if _, err := acquire(background, s, "a"); !errors.As(err, &held) || held.Record.Holder != "y" {
		t.Errorf("got %v, want that y holds the name", err)
	}
}

// TestWhatBecomesOfReleases is the same for extensions and releases: both can be repeated.
func TestWhatBecomesOfReleases(t *testing.T) {
	s, p := throughProxy(t)
	lost := fate{forward: true, reply: failure(gocql.ErrCodeWriteTimeout, serial, uint32(1), uint32(2), "CAS")}
	grant, err := acquire(background, s, "a")
	if err != nil {
		t.Fatal(err)
	}
	for what, do := range map[string]func() error{
		"extension": func() error {
			errs, err := s.Extend(background, []store.Extension{{Name: "a", Holder: "x", Token: grant.Token, TTL: time.Hour}})
			return errors.Join(append(errs, err)...)
		},
		"release": func() error {
			errs, err := s.Release(background, []store.Release{{Name: "a", Holder: "x", Token: grant.Token, Mark: 7, Retain: store.Forever}})
			return errors.Join(append(errs, err)...)
		},
	} {
		grant, err = acquire(background, s, "a")
		if err != nil {
			t.Fatal(err)
		}
		p.next.Store(&lost)
		if err := do(); !errors.Is(err, store.ErrUnknown) {
			t.Errorf("%s: got %v, want an unknown outcome", what, err)
		}
		if err := do(); err != nil {
			t.Errorf("%s again: %v", what, err)
		}
	}
}

// TestSilence: a request that nobody responds to ends with its context, and its outcome is unknown.
func TestSilence(t *testing.T) {
	server := shared(t)
	_, cfg := server.fresh(t)
	p := newProxy(t, server.Addr)
	s := on(t, p.session(t), cfg)
	if err := s.Ping(background); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	p.next.Store(&fate{forward: true, silent: true})
	failed := make(chan error, 1)
	go func() {
		_, err := acquire(ctx, s, "a")
		failed <- err
	}()
	direct := server.open(t, cfg)
	servers.Wait(t, "the write to be carried out", func() bool {
		for range direct.List(background, "a") {
			return true
		}
		return false
	})
	cancel()
	if err := <-failed; !errors.Is(err, store.ErrUnknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it was cancelled and the outcome is unknown", err)
	}
	if grant, err := acquire(background, s, "a"); err != nil || grant.Token != 1 {
		t.Errorf("got %+v, %v, want the grant that nobody responded with", grant, err)
	}
}

// TestSilentReads: reads that nobody responds to end with their context, too, and nothing is unknown of them.
func TestSilentReads(t *testing.T) {
	s, p := throughProxy(t)
	if err := s.Ping(background); err != nil {
		t.Fatal(err)
	}
	for what, do := range map[string]func(context.Context) error{
		"Ping": s.Ping,
		"Extend": func(ctx context.Context) error {
			errs, err := s.Extend(ctx, []store.Extension{{Name: "a", Holder: "x", Token: 1, TTL: time.Hour}})
			return errors.Join(append(errs, err)...)
		},
		"List": func(ctx context.Context) (err error) {
			for _, e := range s.List(ctx, "") {
				err = errors.Join(err, e)
			}
			return err
		},
		"Sweep":        func(ctx context.Context) error { _, err := s.Sweep(ctx, 10); return err },
		"Capabilities": func(ctx context.Context) error { _, err := s.Capabilities(ctx); return err },
		"Examine":      func(ctx context.Context) error { _, err := s.Examine(ctx); return err },
	} {
		ctx, cancel := context.WithCancel(background)
		p.next.Store(&fate{silent: true})
		failed := make(chan error, 1)
		go func() { failed <- do(ctx) }()
		servers.Wait(t, what+" to be sent", func() bool { return p.next.Load() == nil })
		cancel()
		select {
		case err := <-failed:
			if !errors.Is(err, context.Canceled) || errors.Is(err, store.ErrUnknown) || errors.Is(err, store.ErrLost) {
				t.Errorf("%s: got %v, want that it was cancelled", what, err)
			}
		case <-time.After(servers.Patience):
			t.Fatalf("%s does not end with its context", what)
		}
	}
}

// TestReadsThatFail: a row that could not be read is not taken for one that is not there, which would be a lease that is lost. Nothing was written.
func TestReadsThatFail(t *testing.T) {
	s, p := throughProxy(t)
	if err := s.Ping(background); err != nil {
		t.Fatal(err)
	}
	extend := func(names ...string) func() error {
		return func() error {
			extensions := make([]store.Extension, len(names))
			for i, name := range names {
				extensions[i] = store.Extension{Name: name, Holder: "x", Token: 1, TTL: time.Hour}
			}
			errs, err := s.Extend(background, extensions)
			return errors.Join(append(errs, err)...)
		}
	}
	for _, test := range []struct {
		what, says string
		do         func() error
	}{
		{"one", "cassandrastore: reading: ", extend("a")},
		{"one of two", "cassandrastore: reading: ", extend("a", "b")},
		{"a list", "cassandrastore: listing: ", func() (err error) {
			for _, e := range s.List(background, "") {
				err = errors.Join(err, e)
			}
			return err
		}},
		{"a sweep", "cassandrastore: looking for what may be forgotten: ", func() error { _, err := s.Sweep(background, 10); return err }},
	} {
		p.next.Store(&fate{reply: failure(gocql.ErrCodeServer)})
		if err := test.do(); !says(err, test.says) || !says(err, "so it is") || errors.Is(err, store.ErrLost) || errors.Is(err, store.ErrUnknown) {
			t.Errorf("%s: got %v, want an error that says %q, and not that anything is lost or unknown", test.what, err, test.says)
		}
	}
}

// repeats repeats whatever has failed three times, at the same node.
type repeats struct{}

func (repeats) Attempt(q gocql.RetryableQuery) bool { return q.Attempts() <= 3 }

func (repeats) GetRetryType(error) gocql.RetryType { return gocql.Retry }

// TestRepeatsOfASessionAreNotUsed: a session that would repeat what has failed repeats no write: the refusal of a second attempt would hide that the first may have taken effect.
func TestRepeatsOfASessionAreNotUsed(t *testing.T) {
	server := shared(t)
	_, cfg := server.fresh(t)
	p := newProxy(t, server.Addr)
	var sent atomic.Int64
	p.seen = func([]byte) { sent.Add(1) }
	s := on(t, p.session(t, func(c *gocql.ClusterConfig) {
		c.DefaultIdempotence, c.RetryPolicy = true, repeats{}
	}), cfg)
	grant, err := acquire(background, s, "a")
	if err != nil {
		t.Fatal(err)
	}
	sent.Store(0)
	p.next.Store(&fate{reply: failure(gocql.ErrCodeServer)})
	errs, err := s.Extend(background, []store.Extension{{Name: "a", Holder: "x", Token: grant.Token, TTL: time.Hour}})
	if err = errors.Join(append(errs, err)...); !errors.Is(err, store.ErrUnknown) || sent.Load() != 1 {
		t.Errorf("got %v after %d requests, want an unknown outcome of one", err, sent.Load())
	}
}

// TestConsistencies: rows are read, written and listed at the consistencies that make the copies of all datacenters decide, or those of one.
func TestConsistencies(t *testing.T) {
	server := shared(t)
	for local, want := range map[bool]struct{ read, write, list string }{
		false: {"SERIAL", "QUORUM, decided at SERIAL", "QUORUM"},
		true:  {"LOCAL_SERIAL", "LOCAL_QUORUM, decided at LOCAL_SERIAL", "LOCAL_QUORUM"},
	} {
		_, cfg := server.fresh(t)
		cfg.Local = local
		p := newProxy(t, server.Addr)
		var mu sync.Mutex
		var seen []string
		p.seen = func(frame []byte) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, consistencies(frame))
		}
		s := on(t, p.session(t), cfg)
		if err := s.Ping(background); err != nil { // it looks at the table
			t.Fatal(err)
		}
		var token int64
		for _, step := range []struct {
			what string
			do   func() error
			want []string
		}{
			{"read", func() error { return s.Ping(background) }, []string{want.read}},
			{"insert", func() error {
				grant, err := acquire(background, s, "a")
				token = grant.Token
				return err
			}, []string{want.read, want.write}}, // the floor is read
			{"update", func() error {
				errs, err := s.Release(background, []store.Release{{Name: "a", Holder: "x", Token: token}})
				return errors.Join(append(errs, err)...)
			}, []string{want.write}},
			{"list", func() error {
				for _, err := range s.List(background, "") {
					return err
				}
				return errors.New("no record")
			}, []string{want.list}},
			{"delete", func() error {
				if n, err := s.Sweep(background, 10); n != 1 || err != nil {
					return fmt.Errorf("%d were forgotten, %w", n, err)
				}
				return nil
			}, []string{want.list, want.read, want.write}}, // it is found, and the floor is raised
		} {
			mu.Lock()
			seen = nil
			mu.Unlock()
			if err := step.do(); err != nil {
				t.Errorf("%s: %v", step.what, err)
			}
			mu.Lock()
			slices.Sort(seen)
			slices.Sort(step.want)
			if got := slices.Compact(seen); !slices.Equal(got, step.want) {
				t.Errorf("local %t: to %s was sent at %q, want %q", local, step.what, got, step.want)
			}
			mu.Unlock()
		}
	}
}

// consistencies returns at what consistency a statement is executed, and at what it is decided, if it has one.
func consistencies(frame []byte) string {
	const decided, timed, timestamp = 0x10, 0x20, 8
	rest := frame[headerSize:]
	rest = rest[2+int(binary.BigEndian.Uint16(rest)):] // the statement
	text, flags, end := gocql.Consistency(binary.BigEndian.Uint16(rest)).String(), rest[2], len(rest)
	if flags&timed != 0 {
		end -= timestamp
	}
	if flags&decided != 0 {
		text += ", decided at " + gocql.Consistency(binary.BigEndian.Uint16(rest[end-2:])).String()
	}
	return text
}

// TestNoRightToLook: where the table may not be looked at a store works, and promises nothing. After any other failure it looks again.
func TestNoRightToLook(t *testing.T) {
	server := shared(t)
	_, cfg := server.fresh(t)
	p := newProxy(t, server.Addr)
	session := p.session(t)
	denied, failed := &fate{reply: failure(gocql.ErrCodeUnauthorized)}, &fate{reply: failure(gocql.ErrCodeServer)}
	p.next.Store(denied)
	if _, err := acquire(background, on(t, session, cfg), "a"); err != nil || p.next.Load() != nil {
		t.Errorf("without the right to look: %v", err)
	}
	s := on(t, session, cfg)
	p.next.Store(failed)
	if _, err := acquire(background, s, "b"); !says(err, "looking at the keyspace and the table") || errors.Is(err, store.ErrUnknown) {
		t.Errorf("a look that failed: %v", err)
	}
	if _, err := acquire(background, s, "b"); err != nil {
		t.Errorf("after a look that failed: %v", err)
	}
	p.next.Store(denied)
	if c, err := s.Capabilities(background); err != nil || c.Fencing.Answer != store.Unknown || c.Durable.Answer != store.Unknown || !strings.Contains(c.Fencing.Why, "may not read system_schema") {
		t.Errorf("without the right to look: %+v, %v", c, err)
	}
	p.next.Store(denied)
	if findings, err := s.Examine(background); err != nil || len(findings) != 1 || findings[0].Level != store.LevelUnknown || findings[0].Fix == "" {
		t.Errorf("without the right to look: %+v, %v", findings, err)
	}
	p.next.Store(failed)
	if c, err := s.Capabilities(background); err == nil {
		t.Errorf("a look that failed promises %+v", c)
	}
	p.next.Store(failed)
	if findings, err := s.Examine(background); err == nil {
		t.Errorf("a look that failed finds %+v", findings)
	}
}

// TestLookThatHangs: the first request looks at the table, and others wait for that no longer than their own time.
func TestLookThatHangs(t *testing.T) {
	s, p := throughProxy(t)
	p.next.Store(&fate{silent: true})
	looking, cancel := context.WithCancel(background)
	defer cancel()
	looked := make(chan error, 1)
	go func() { looked <- s.Ping(looking) }()
	servers.Wait(t, "the look to be sent", func() bool { return p.next.Load() == nil })
	ctx, cancelled := context.WithTimeout(background, time.Millisecond)
	defer cancelled()
	failed := make(chan error, 1)
	go func() {
		_, err := acquire(ctx, s, "a")
		failed <- err
	}()
	select {
	case err := <-failed:
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, store.ErrUnknown) {
			t.Errorf("got %v, want that its time is over", err)
		}
	case <-time.After(servers.Patience):
		t.Error("a request whose time was over still waits for the look of another one")
	}
	cancel()
	if err := <-looked; !errors.Is(err, context.Canceled) {
		t.Errorf("the look itself: %v", err)
	}
	if _, err := acquire(background, s, "a"); err != nil {
		t.Errorf("after that: %v", err)
	}
}

// TestSchemas: what is missing is named, with what mends it, and nothing is made by half.
func TestSchemas(t *testing.T) {
	server := shared(t)
	missing := server.open(t, cassandrastore.Config{Keyspace: "nowhere"})
	keyspace := server.keyspace(t, oneCopy)
	server.do(t, `CREATE TABLE `+keyspace+`.other (id int PRIMARY KEY, note text)`)
	server.do(t, `CREATE TABLE `+keyspace+`.wide (name text, version text, holder text, fencing_token bigint, mark bigint, state blob, ttl_ns bigint,
		released boolean, unsure boolean, granted_at timestamp, forget_at timestamp, PRIMARY KEY (name, version))`)
	empty := server.open(t, cassandrastore.Config{Keyspace: keyspace})
	for _, test := range []struct {
		rule        string
		store       *cassandrastore.Store
		says        string
		canMigrate  bool
		migrateSays string
	}{
		{"no keyspace", missing, "CREATE KEYSPACE nowhere", false, "CREATE KEYSPACE nowhere"},
		{"another table", server.open(t, cassandrastore.Config{Keyspace: keyspace, Table: "other"}), "fencing_token is missing, not bigint", false, "not soloist's"},
		{"another key", server.open(t, cassandrastore.Config{Keyspace: keyspace, Table: "wide"}), "its key is (name, version), not (name)", false, "not soloist's"},
		{"no table", empty, "soloist migrate up", true, ""},
	} {
		t.Run(test.rule, func(t *testing.T) {
			if _, err := acquire(background, test.store, "a"); !says(err, test.says) || !errors.Is(err, store.ErrSchema) || errors.Is(err, store.ErrUnknown) {
				t.Errorf("got %v, want an error about the schema that says %q", err, test.says)
			}
			if _, err := test.store.Capabilities(background); !says(err, test.says) {
				t.Errorf("capabilities: got %v", err)
			}
			did, err := test.store.Migrate(background)
			if test.canMigrate != (err == nil) || !test.canMigrate && !says(err, test.migrateSays) || test.canMigrate && len(did) != 1 {
				t.Errorf("migrating: got %v, %v", did, err)
			}
		})
	}
	if did, err := empty.Migrate(background); err != nil || len(did) != 0 {
		t.Errorf("a second migration did %v, %v, want nothing", did, err)
	}
	if _, err := acquire(background, empty, "a"); err != nil {
		t.Errorf("after the migration: %v", err)
	}
	server.do(t, `DROP TABLE `+keyspace+`.soloist`)
	if _, err := acquire(background, empty, "b"); !errors.Is(err, store.ErrSchema) || errors.Is(err, store.ErrUnknown) {
		t.Errorf("after the table was dropped: %v", err)
	}
}

// An unlike dialer makes connections on which nobody learns the server's version of the schema any more once a table was made.
type unlike struct{ made atomic.Bool }

func (u *unlike) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, addr)
	return unlikeConn{conn, u}, err
}

type unlikeConn struct {
	net.Conn
	of *unlike
}

func (c unlikeConn) Write(sent []byte) (int, error) {
	if bytes.Contains(sent, []byte("CREATE TABLE")) {
		c.of.made.Store(true)
	}
	if c.of.made.Load() {
		sent = bytes.ReplaceAll(sent, []byte("SELECT schema_version"), []byte("SELECT schema_no_such"))
	}
	return c.Conn.Write(sent)
}

// TestMigrateThatSeesNoAgreement: a migration after which it cannot be seen that all nodes know the table has not succeeded.
func TestMigrateThatSeesNoAgreement(t *testing.T) {
	server := shared(t)
	cfg := cassandrastore.Config{Keyspace: server.keyspace(t, oneCopy)}
	c, through := cluster(server.Addr, "cassandra", "cassandra"), &unlike{}
	c.ProtoVersion, c.Dialer, c.MaxWaitSchemaAgreement = 4, through, time.Millisecond // the driver looks at least once
	session, err := c.CreateSession()
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if did, err := on(t, session, cfg).Migrate(background); !says(err, "waiting until all nodes know the table") || !through.made.Load() {
		t.Errorf("it did %v, %v; want a table made, and an error that the nodes may not know it", did, err)
	}
}

// TestRights: a user with the rights of docs/stores/cassandra.md can do all that a client does, and one without them is told so.
func TestRights(t *testing.T) {
	server := shared(t)
	_, cfg := server.fresh(t)
	user := func(name string, grants ...string) *cassandrastore.Store {
		role := cfg.Keyspace + "_" + name
		server.do(t, fmt.Sprintf(`CREATE ROLE %s WITH PASSWORD = 'p@ss:w/ord' AND LOGIN = true`, role))
		t.Cleanup(func() { server.do(t, `DROP ROLE `+role) })
		for _, grant := range grants {
			server.do(t, fmt.Sprintf(`GRANT %s ON %s.soloist TO %s`, grant, cfg.Keyspace, role))
		}
		s, err := cassandrastore.OpenURL(background, fmt.Sprintf("cassandra://%s:p%%40ss%%3Aw%%2Ford@%s/%s?timeout=5m&dialtimeout=5m", role, server.Addr, cfg.Keyspace))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	app := user("app", "SELECT", "MODIFY")
	grant, err := acquire(background, app, "a")
	if err != nil {
		t.Fatal(err)
	}
	if errs, err := app.Release(background, []store.Release{{Name: "a", Holder: "x", Token: grant.Token}}); err != nil || errs[0] != nil {
		t.Error(errs, err)
	}
	if n, err := app.Sweep(background, 10); n != 1 || err != nil {
		t.Errorf("swept %d, %v, want 1", n, err)
	}
	if c, err := app.Capabilities(background); err != nil || c.Fencing.Answer != store.No {
		t.Errorf("got %+v, %v", c, err)
	}
	if _, err := app.Examine(background); err != nil {
		t.Error(err)
	}
	if _, err := acquire(background, user("reader", "SELECT"), "b"); !errors.Is(err, fs.ErrPermission) || errors.Is(err, store.ErrUnknown) || !says(err, "GRANT SELECT, MODIFY") {
		t.Errorf("without MODIFY: got %v, want that it is not allowed", err)
	}
	if _, err := acquire(background, user("nobody"), "b"); !errors.Is(err, fs.ErrPermission) || errors.Is(err, store.ErrUnknown) {
		t.Errorf("without any right: got %v, want that it is not allowed", err)
	}
	maker := user("maker")
	server.do(t, `DROP TABLE `+cfg.Keyspace+`.soloist`)
	if _, err := maker.Migrate(background); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("migrating without CREATE: got %v, want that it is not allowed", err)
	}
	server.do(t, fmt.Sprintf(`GRANT CREATE ON KEYSPACE %s TO %s_maker`, cfg.Keyspace, cfg.Keyspace))
	servers.Wait(t, "the right to migrate", func() bool {
		_, err := maker.Migrate(background)
		if err != nil && !errors.Is(err, fs.ErrPermission) {
			t.Fatal(err)
		}
		return err == nil
	})
	nameless, err := cassandrastore.OpenURL(background, "cassandra://"+server.Addr+"/"+cfg.Keyspace+"?dialtimeout=5m")
	if err != nil {
		t.Fatal(err)
	}
	defer nameless.Close()
	if _, err := acquire(background, nameless, "b"); !errors.Is(err, fs.ErrPermission) || errors.Is(err, store.ErrUnknown) || !says(err, "USER:PASSWORD@") {
		t.Errorf("without a user: got %v, want that it is not allowed, and how to write a user", err)
	}
	wrong, err := cassandrastore.OpenURL(background, "cassandra://cassandra:canary@"+server.Addr+"/"+cfg.Keyspace+"?dialtimeout=5m")
	if err != nil {
		t.Fatal(err)
	}
	defer wrong.Close()
	if _, err := acquire(background, wrong, "b"); !errors.Is(err, fs.ErrPermission) || errors.Is(err, store.ErrUnknown) || says(err, "canary") {
		t.Errorf("with a wrong password: got %v, want that it is not allowed", err)
	}
}

// TestRaisedFloor: the statement of docs/stores/cassandra.md makes new names begin above a token.
func TestRaisedFloor(t *testing.T) {
	server := shared(t)
	s, cfg := server.fresh(t)
	text, err := os.ReadFile("../../docs/stores/cassandra.md")
	if err != nil {
		t.Fatal(err)
	}
	_, statement, _ := strings.Cut(string(text), "INSERT INTO app.soloist")
	statement, _, found := strings.Cut(statement, ";")
	if !found {
		t.Fatal("the page has no such statement")
	}
	server.do(t, "INSERT INTO "+cfg.Keyspace+".soloist"+statement)
	if grant, err := acquire(background, s, "a"); err != nil || grant.Token != 1_000_001 {
		t.Errorf("got %+v, %v, want the token 1000001", grant, err)
	}
}
