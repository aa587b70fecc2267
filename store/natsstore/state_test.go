package natsstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"reflect"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/casstore"
	"github.com/soloist-dev/soloist/store/internal/jsonrecord"
)

// TestSettings: each setting of a stream that must be right is found when it is wrong, alone and by its name, and what Migrate changes about it makes it right and nothing else wrong.
func TestSettings(t *testing.T) {
	b := &backend{subjects: subjects{"b"}}
	wrong := func(c *jetstream.StreamConfig) (names []string) {
		for _, s := range b.settings() {
			if s.wrong(c) != "" {
				names = append(names, s.name)
			}
		}
		return names
	}
	type config = jetstream.StreamConfig
	for _, test := range []struct {
		name  string
		set   func(c *config)
		mends bool
	}{
		{"first_seq", func(c *config) { c.FirstSeq = leastSequence - 1 }, false},
		{"storage", func(c *config) { c.Storage = jetstream.MemoryStorage }, false},
		{"retention", func(c *config) { c.Retention = jetstream.WorkQueuePolicy }, false},
		{"retention", func(c *config) { c.Retention = jetstream.InterestPolicy }, false},
		{"persist_mode", func(c *config) { c.PersistMode = jetstream.AsyncPersistMode }, false},
		{"mirror", func(c *config) { c.Mirror = &jetstream.StreamSource{Name: "other"} }, false},
		{"allow_msg_counter", func(c *config) { c.AllowMsgCounter = true }, false},
		{"sealed", func(c *config) { c.Sealed = true }, false},
		{"max_age", func(c *config) { c.MaxAge = 1 }, true},
		{"discard", func(c *config) { c.Discard = jetstream.DiscardOld }, true},
		{"discard_new_per_subject", func(c *config) { c.DiscardNewPerSubject = true }, true},
		{"max_msgs_per_subject", func(c *config) { c.MaxMsgsPerSubject = 2 }, true},
		{"max_msgs_per_subject", func(c *config) { c.MaxMsgsPerSubject = -1 }, true},
		{"subjects", func(c *config) { c.Subjects = append(c.Subjects, "more") }, true},
		{"subjects", func(c *config) { c.Subjects = []string{"$KV.other.>"} }, true},
		{"sources", func(c *config) { c.Sources = []*jetstream.StreamSource{{Name: "other"}} }, true},
		{"subject_transform", func(c *config) { c.SubjectTransform = &jetstream.SubjectTransformConfig{} }, true},
		{"no_ack", func(c *config) { c.NoAck = true }, true},
		{"allow_rollup_hdrs", func(c *config) { c.AllowRollup = false }, true},
		{"allow_rollup_hdrs", func(c *config) { c.DenyPurge = true }, true},
		{"allow_msg_ttl", func(c *config) { c.AllowMsgTTL = false }, true},
		{"allow_direct", func(c *config) { c.AllowDirect = false }, true},
	} {
		c := b.wanted(1)
		if names := wrong(&c); names != nil || !b.wakes(&c) {
			t.Fatalf("of a new bucket: wrong %q, reports what is stored: %t", names, b.wakes(&c))
		}
		test.set(&c)
		if names := wrong(&c); !reflect.DeepEqual(names, []string{test.name}) {
			t.Errorf("%s: %q are wrong", test.name, names)
		}
		for _, s := range b.settings() {
			if s.name != test.name {
				continue
			}
			if (s.mend != nil) != test.mends {
				t.Errorf("%s can be changed: %t", s.name, s.mend != nil)
				continue
			}
			if s.mend != nil {
				s.mend(&c)
			}
			if names := wrong(&c); test.mends && names != nil {
				t.Errorf("%s: after it was changed %q are wrong", s.name, names)
			}
		}
	}
	for what, r := range map[string]*jetstream.RePublish{
		"nothing": nil, "others": {Source: "$KV.b.a", Destination: b.stored(">")}, "elsewhere": {Source: b.all(), Destination: "elsewhere.>"},
	} {
		c := b.wanted(1)
		c.RePublish = r
		if b.wakes(&c) {
			t.Errorf("a bucket that reports %s wakes those who wait", what)
		}
	}
}

// TestOutcomes: what an error means for a message that was to be stored: nothing is certain but what the server has refused, or what never left this process.
func TestOutcomes(t *testing.T) {
	failure := func(code jetstream.ErrorCode) error { return &jetstream.APIError{ErrorCode: code, Description: "text"} }
	for _, test := range []struct {
		err              error
		known, conflicts bool
		is               error
	}{
		{failure(jetstream.JSErrCodeStreamWrongLastSequence), true, true, nil},
		{failure(jetstream.JSErrCodeStreamWrongLastSequenceConstant), true, true, nil},
		{failure(jetstream.JSErrCodeStreamNotFound), true, false, store.ErrSchema},
		{failure(codeInsufficient), true, false, nil},
		{failure(codeStoreFailed), false, false, nil},
		{&deniedError{err: nats.ErrPermissionViolation}, true, false, fs.ErrPermission},
		{&deniedError{err: nats.ErrPermissionViolation, sent: true}, false, false, fs.ErrPermission},
		{errNotConnected, true, false, nil},
		{errors.Join(errNotSent, context.Canceled), true, false, context.Canceled},
		{nats.ErrNoResponders, true, false, nats.ErrNoResponders},
		{nats.ErrReconnectBufExceeded, true, false, nil},
		{nats.ErrMaxPayload, true, false, nil},
		{nats.ErrHeadersNotSupported, true, false, nil},
		{context.DeadlineExceeded, false, false, context.DeadlineExceeded},
		{context.Canceled, false, false, context.Canceled},
		{errDisconnected, false, false, nil},
		{store.ErrClosed, false, false, store.ErrClosed},
		{nats.ErrConnectionClosed, false, false, nil},
		{nats.ErrTimeout, false, false, nil},
		{nats.ErrAuthorization, false, false, fs.ErrPermission},
		{nats.ErrAuthExpired, false, false, fs.ErrPermission},
		{nats.ErrAuthRevoked, false, false, fs.ErrPermission},
		{nats.ErrAccountAuthExpired, false, false, fs.ErrPermission},
		{&fellError{bucket: "b"}, false, false, store.ErrUnusable},
		{errors.New("the reply cannot be read"), false, false, nil},
	} {
		for _, err := range []error{test.err, fmt.Errorf("with more: %w", test.err)} {
			told := unsure("writing", err)
			if known := !errors.Is(told, store.ErrUnknown); known != test.known || conflicts(err) != test.conflicts || test.is != nil && !errors.Is(told, test.is) {
				t.Errorf("%v: known %t, a conflict %t, told as %v; want %t, %t, and one that is %v", err, known, conflicts(err), told, test.known, test.conflicts, test.is)
			}
		}
	}
	if err := wrap("reading", nil); err != nil {
		t.Errorf("of no error: %v", err)
	}
}

// TestFallIsKept: what has fallen stays so until the bucket is one that was made anew above all that was granted; one sequence that a server has shown too low does not settle another.
func TestFallIsKept(t *testing.T) {
	b := &backend{subjects: subjects{"b"}, checked: true}
	for _, sequence := range []uint64{5, 3, 9, 8} {
		b.raise(sequence)
	}
	if before := b.known(); before.high != 9 || before.low != nil {
		t.Errorf("known: %+v, want 9", before)
	}
	first, second := &lowSequence{from: 9, to: 4}, &lowSequence{from: 9, to: 5}
	b.suspect(first)
	b.suspect(second)
	b.settle(first, false)
	if b.known().low != second || b.checked {
		t.Error("that one has not fallen has settled the other")
	}
	b.settle(second, false)
	if err := b.above(1); b.known().low != nil || err != nil {
		t.Errorf("after neither has fallen: %v", err)
	}
	b.checked = true
	b.settle(first, true)
	_ = b.fallen(20, 10)
	if b.checked {
		t.Error("a bucket that has fallen is not looked at again")
	}
	for _, at := range []uint64{1, 9} {
		if err := b.above(at); !errors.Is(err, store.ErrUnusable) || !errors.As(err, new(*fellError)) || b.fell.from != 9 || b.fell.to != 4 {
			t.Errorf("a bucket that begins at %d: %v, want that of the first fall, from 9 to 4", at, err)
		}
	}
	if err := b.above(10); err != nil {
		t.Errorf("a bucket that begins above what was granted: %v", err)
	}
	if err := b.above(1); err != nil {
		t.Errorf("after that: %v", err)
	}
}

// TestLeaderships: a server alone is known by that nobody else has the stream. Servers before 2.12 do not report since when one leads.
func TestLeaderships(t *testing.T) {
	since := time.Now()
	others := []*jetstream.PeerInfo{{Name: "n1"}}
	for _, test := range []struct {
		cluster *jetstream.ClusterInfo
		want    leadership
	}{
		{nil, leadership{alone: true}},
		{&jetstream.ClusterInfo{Leader: "n0", LeaderSince: &since}, leadership{alone: true}},
		{&jetstream.ClusterInfo{Leader: "n0", LeaderSince: &since, Replicas: others}, leadership{server: "n0", since: since}},
		{&jetstream.ClusterInfo{Leader: "n0", Replicas: others}, leadership{server: "n0"}},
		{&jetstream.ClusterInfo{Replicas: others}, leadership{}},
	} {
		if got := leadershipOf(&jetstream.StreamInfo{Cluster: test.cluster}); got != test.want {
			t.Errorf("%+v: %+v, want %+v", test.cluster, got, test.want)
		}
	}
}

// TestMessages: what is published names the last message that it replaces, and what those who watch need; and a record is read as it was written, unless it cannot have been granted yet or would
// not stay.
func TestMessages(t *testing.T) {
	b, l := &backend{subjects: subjects{"b"}}, &link{puts: "$JS.hub.API."}
	lease := &casstore.Record{Holder: "x", Token: 7, Mark: 2, State: []byte("s"), TTL: time.Minute, Write: "w", Granted: time.Unix(1, 5).UTC()}
	released := *lease
	released.Released, released.TTL, released.Forget = true, 0, time.Unix(9, 0).UTC()
	for what, test := range map[string]struct {
		record   *casstore.Record
		expected string
		want     nats.Header
	}{
		"a lease":    {lease, "6", nats.Header{headerExpected: {"6"}, headerLease: {"60000000000"}}},
		"a new one":  {lease, "", nats.Header{headerExpected: {"0"}, headerLease: {"60000000000"}}},
		"a release":  {&released, "6", nats.Header{headerExpected: {"6"}, headerReleased: {"1"}}},
		"a deletion": {nil, "6", nats.Header{headerExpected: {"6"}, headerOperation: {"PURGE"}, headerRollup: {"sub"}, headerTTL: {markerTTL}}},
	} {
		m, err := b.message(l, casstore.Change{Name: "a.b", Record: test.record}, test.expected)
		if err != nil || m.Subject != "$JS.hub.API.$KV.b.a=2Eb" || !reflect.DeepEqual(m.Header, test.want) {
			t.Errorf("%s: %+v, %v, want the headers %v", what, m, err, test.want)
		}
		item := message{Sequence: 8, Header: m.Header, Data: m.Data}.item("a.b")
		if test.record == nil {
			if item.Version != "" || item.Err != nil {
				t.Errorf("%s is read as %+v", what, item)
			}
		} else if item.Version != "8" || item.Err != nil || !reflect.DeepEqual(item.Record, *test.record) {
			t.Errorf("%s is read as %+v", what, item)
		}
	}
	data, err := jsonrecord.Encode(lease)
	if err != nil {
		t.Fatal(err)
	}
	for what, test := range map[string]struct {
		m    message
		good bool
	}{
		"its own token":          {message{Sequence: 7, Data: data}, true},
		"a token of the future":  {message{Sequence: 6, Data: data}, false},
		"the last sequence":      {message{Sequence: math.MaxInt64, Data: data}, true},
		"too great a sequence":   {message{Sequence: math.MaxInt64 + 1, Data: data}, false},
		"an end":                 {message{Sequence: 8, Data: data, Header: nats.Header{headerTTL: {"1h"}}}, false},
		"headers of another":     {message{Sequence: 8, Data: data, bad: errors.New("bad")}, false},
		"no record":              {message{Sequence: 8}, false},
		"something else as well": {message{Sequence: 8, Data: append(data[:len(data):len(data)], "{}"...)}, false},
	} {
		if item := test.m.item("a"); (item.Err == nil) != test.good || (item.Version != "") != test.good {
			t.Errorf("%s: version %q, %v; good: %t", what, item.Version, item.Err, test.good)
		}
	}
	if item := (message{}).item("a"); item.Version != "" || item.Err != nil {
		t.Errorf("no message is read as %+v", item)
	}
}

// TestKeysOfNoNames: a key that no name has is not taken for that of another name, whose record it would hide.
func TestKeysOfNoNames(t *testing.T) {
	for _, key := range []string{"=", "a=", "a=2", "=2e", "=41", "=zz", "a.b", "a b", "=2E="} {
		if name, ok := nameOf(key); ok {
			t.Errorf("the key %q is taken for that of %q", key, name)
		}
	}
}

// TestWatchesThatHaveEnded: a release ends the watches of its name whose context has ended, and no others; nothing is kept of one that was removed.
func TestWatchesThatHaveEnded(t *testing.T) {
	var all watches
	over, cancel := context.WithCancel(t.Context())
	cancel()
	one := func(ctx context.Context, subjects ...string) *watch {
		w := &watch{ctx: ctx, names: map[string]*watched{}}
		for _, s := range subjects {
			w.names[s] = &watched{}
		}
		all.add(w)
		return w
	}
	lives, ended, elsewhere := one(t.Context(), "a"), one(over, "a", "b"), one(over, "c")
	if got := all.ended("a"); len(got) != 1 || got[0] != ended {
		t.Errorf("%d watches of a have ended, want one", len(got))
	}
	all.remove(ended)
	if got := all.ended("b"); got != nil {
		t.Errorf("%d watches of b after it was removed", len(got))
	}
	all.remove(lives)
	all.remove(elsewhere)
	if len(all.of) != 0 {
		t.Errorf("%d names are kept of watches that were removed", len(all.of))
	}
}

// TestForward: values that nobody has received yet are one, and the end of the context, of the connection or of the store is that of the watch.
func TestForward(t *testing.T) {
	for _, what := range []string{"the context", "the connection", "the store"} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &Store{closed: make(chan struct{})}
				ctx, cancel := context.WithCancel(t.Context())
				life, lose := context.WithCancel(t.Context())
				defer cancel()
				defer lose()
				wake, out, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
				go func() { defer close(done); s.forward(ctx, life, wake, out) }()
				for range 2 {
					wake <- struct{}{}
					wake <- struct{}{}
					<-out
				}
				synctest.Wait()
				select {
				case <-out:
					t.Error("a value that was received is sent again")
				default:
				}
				map[string]func(){"the context": cancel, "the connection": lose, "the store": func() { close(s.closed) }}[what]()
				<-done
			})
		})
	}
}

// TestDenialsAreLookedForUntilTheReply: a request that has its reply does not look any more at whether it is denied, however long the reply took.
func TestDenialsAreLookedForUntilTheReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, took := range []time.Duration{0, 5 * look / 2} {
			l := &link{}
			left := weak.Make(l)
			stop := l.whenDenied("a", nil, func(error) {})
			time.Sleep(took)
			stop()
			time.Sleep(2 * look)
			if runtime.GC(); left.Value() != nil {
				t.Errorf("after a reply that took %v it looks still", took)
			}
		}
	})
}
