package etcdstore

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/soloist-dev/soloist/store"
)

// sendingOf is a sending of a record.
func sendingOf(t *testing.T, r record) *sending {
	t.Helper()
	text, err := r.encode()
	if err != nil {
		t.Fatal(err)
	}
	return &sending{record: text, change: &change{record: &r}, session: &session{name: r.Session}, linger: &linger{}}
}

// TestWhichSendingWasMade: a record that is there is known as one that was sent, if it is that to the last byte, and its session is there: otherwise it has been ended since, or is another's.
func TestWhichSendingWasMade(t *testing.T) {
	fresh := record{Holder: "x", TTL: time.Hour, Session: "1.a"} // its token is the revision at which it is written
	kept := record{Holder: "x", TTL: time.Hour, Session: "2.b", Token: 5}
	freed := record{Holder: "x", TTL: time.Hour, Token: 5}
	sent := []*sending{{change: &change{}}, sendingOf(t, fresh), sendingOf(t, kept), sendingOf(t, freed)}
	at := func(r record, token int64) pair {
		r.Format, r.Token = format, token
		return pair{record: r, revision: 9, taken: r.Session != ""}
	}
	with := func(p pair, change func(*pair)) pair { change(&p); return p }
	for _, test := range []struct {
		what string
		p    pair
		sent []*sending
		want int // in sent; -1 for none
	}{
		{"a new lease", at(fresh, 9), sent, 1},
		{"a lease that goes on", at(kept, 5), sent, 2},
		{"a name that was freed", at(freed, 5), sent, 3},
		{"a lease with another token", at(kept, 6), sent, -1},
		{"a new lease from before", at(fresh, 8), sent, -1},
		{"a lease whose session has ended", with(at(fresh, 9), func(p *pair) { p.taken = false }), sent, -1},
		{"a lease of another holder", with(at(fresh, 9), func(p *pair) { p.record.Holder = "y" }), sent, -1},
		{"a record that cannot be read", with(at(fresh, 9), func(p *pair) { p.err = errors.New("foreign") }), sent, -1},
		{"no record", pair{}, sent, -1},
		{"what was not sent", at(fresh, 9), nil, -1},
	} {
		got := test.p.madeBy(test.sent)
		if want := test.want >= 0; (got != nil) != want || want && got != test.sent[test.want] {
			t.Errorf("%s: got %+v, want the sending %d", test.what, got, test.want)
		}
	}
}

// TestChangeThatWasMade: a task of which an earlier attempt was made counts as done by that: its lease is in the session of that attempt.
func TestChangeThatWasMade(t *testing.T) {
	s := bare()
	first := sendingOf(t, record{Holder: "x", TTL: time.Hour, Session: "1.a"})
	last := sendingOf(t, record{Holder: "x", TTL: time.Hour, Session: "2.b"})
	found := *first.change.record
	found.Format, found.Token = format, 9
	var wrote *change
	of := &task{
		name: "name", pair: pair{record: found, revision: 9, taken: true}, sent: []*sending{first, last}, err: store.ErrLost, change: last.change, session: last.session, linger: last.linger,
		wrote: func(c *change, _ pair) { wrote = c },
	}
	if !s.wasMade(of) || of.change != first.change || of.session != first.session || of.linger != first.linger || of.err != nil || wrote != first.change {
		t.Errorf("it counts as %+v, with %v, and %+v was written; want the first attempt", of, of.err, wrote)
	}
	if p, _ := s.sights.of("name"); p.revision != 9 || p.record.Token != 9 || !p.taken {
		t.Errorf("%+v is remembered", p)
	}
	of.pair.record.Holder, wrote = "y", nil
	if s.wasMade(of) || wrote != nil {
		t.Error("another's record counts as written by the task")
	}
}

// TestDoubt: a change that was refused beside others, and whose name could not be read since, may have been made: its outcome is unknown, and so is what is attached to its session.
func TestDoubt(t *testing.T) {
	failed := errors.New("down")
	unheard := &sending{change: &change{}, session: &session{name: "1.a"}}
	for _, test := range []struct {
		what    string
		err     error
		unheard *sending
		doubt   bool
	}{
		{"failed", failed, unheard, true},
		{"failed, and was read", failed, nil, false},
		{"done", nil, unheard, false},
		{"unknown already", store.AsUnknown(failed), unheard, false},
	} {
		var told []*change
		of := &task{err: test.err, unheard: test.unheard, unknown: func(c *change) { told = append(told, c) }}
		of.doubt()
		switch {
		case !test.doubt && (!errors.Is(of.err, test.err) || of.session != nil || told != nil):
			t.Errorf("%s: it is in doubt: %v", test.what, of.err)
		case test.doubt && (!errors.Is(of.err, store.ErrUnknown) || !errors.Is(of.err, failed) || of.session != unheard.session || len(told) != 1 || told[0] != unheard.change):
			t.Errorf("%s: %v in the session %+v, and %v is told as unknown", test.what, of.err, of.session, told)
		}
	}
	of := &task{err: failed, unheard: unheard} // nobody asked to hear of it
	if of.doubt(); !errors.Is(of.err, store.ErrUnknown) {
		t.Errorf("got %v", of.err)
	}
}

// TestWhoIsInTheWay: from the first of all sessions it is known which of those are there, and which come before the last of them; and of the others only if those were all there are.
func TestWhoIsInTheWay(t *testing.T) {
	for _, test := range []struct {
		session string // of the record
		more    bool   // there are other sessions than were read
		taken   bool
		unsure  bool
	}{
		{"3.c", false, true, false}, {"3.c", true, true, false},
		{"2.b", false, false, false}, {"2.b", true, false, false},
		{"5.e", false, false, false}, {"5.e", true, true, true},
	} {
		s := bare()
		kv := func(key, value string, lease int64) *mvccpb.KeyValue {
			return &mvccpb.KeyValue{Key: []byte(key), Value: []byte(value), ModRevision: 9, Lease: lease}
		}
		text, err := record{Holder: "x", TTL: time.Hour, Session: test.session}.encode()
		if err != nil {
			t.Fatal(err)
		}
		of := step{all: true, there: []string{"2.b", "3.c", "5.e"}}
		seen := []*etcdserverpb.ResponseOp{
			responseOf([]*mvccpb.KeyValue{kv("record", text, 0)}, false),
			responseOf([]*mvccpb.KeyValue{kv(s.keys.session("1.a"), "", 1), kv(s.keys.session("3.c"), "", 3)}, test.more),
		}
		what := fmt.Sprintf("%+v", test)
		p := s.inTheWay(&task{name: "name"}, of, seen)
		if p.err != nil || p.taken != test.taken || p.unsure != test.unsure {
			t.Errorf("%s: got %+v", what, p)
		}
		if !s.sights.gone("2.b") || s.sights.gone("3.c") || s.sights.gone("5.e") == test.more {
			t.Errorf("%s: of the sessions that it needs, it takes for ended: %v, %v, %v", what, s.sights.gone("2.b"), s.sights.gone("3.c"), s.sights.gone("5.e"))
		}
	}
}

func responseOf(kvs []*mvccpb.KeyValue, more bool) *etcdserverpb.ResponseOp {
	return &etcdserverpb.ResponseOp{Response: &etcdserverpb.ResponseOp_ResponseRange{ResponseRange: &etcdserverpb.RangeResponse{Kvs: kvs, Count: int64(len(kvs)), More: more}}}
}
