package etcdstore

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/soloist-dev/soloist/store"
)

// TestTickets: a ticket is believed only if it is one of a store: attached to the lease of etcd of its session, with a TTL that a claim can have. Others have no TTL, and nothing is handed over to them.
func TestTickets(t *testing.T) {
	k := keys{"p/"}
	value := func(ttl time.Duration, inbox, session string) string {
		text, err := json.Marshal(ticketValue{ttl, inbox, session})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	good := value(time.Hour, "in", "1.a")
	for what, test := range map[string]struct {
		holder, value string
		lease         int64
		want          bool
	}{
		"one of a store":        {"h", good, 1, true},
		"of another lease":      {"h", good, 2, false},
		"without a lease":       {"h", value(time.Hour, "in", "0.a"), 0, false},
		"of no session":         {"h", value(time.Hour, "in", "x"), 1, false},
		"the longest inbox":     {"h", value(time.Hour, strings.Repeat("i", mostOfID), "1.a"), 1, true},
		"a longer inbox":        {"h", value(time.Hour, strings.Repeat("i", mostOfID+1), "1.a"), 1, false},
		"the longest TTL":       {"h", value(store.MaxTTL, "in", "1.a"), 1, true},
		"a longer TTL":          {"h", value(store.MaxTTL+1, "in", "1.a"), 1, false},
		"no TTL":                {"h", value(0, "in", "1.a"), 1, false},
		"a holder that is none": {"h\x00", good, 1, false},
		"no JSON":               {"h", "hello", 1, false},
	} {
		got := k.ticketOf("name", &mvccpb.KeyValue{Key: []byte(k.ticket("name", test.holder)), Value: []byte(test.value), Lease: test.lease, ModRevision: 7})
		if got.Holder != test.holder || got.Revision != 7 || int64(got.Lease) != test.lease || (got.TTL > 0) != test.want || (got.Inbox != "") != test.want || (got.Session != "") != test.want {
			t.Errorf("%s: %+v", what, got)
		}
	}
}

// TestWhoIsNext: who is next is what was read with the name, else what the note said with which the name came. One whose session has ended is passed by; what this handle remembers stays as it was.
func TestWhoIsNext(t *testing.T) {
	s := bare("1.a")
	noted, read := []ticket{{Holder: "noted", TTL: time.Hour, Session: "3.c"}}, []ticket{{Holder: "read", TTL: time.Hour, Session: "2.b"}}
	s.hold("name", &holding{holder: "x", token: 5, revision: 5, session: s.sessions["1.a"], until: time.Now().Add(time.Hour), line: noted})
	own := pair{revision: 5, taken: true, record: record{Holder: "x", Token: 5, TTL: time.Hour, Session: "1.a"}}
	check := func(what string, p pair, holder string, ttl time.Duration) {
		t.Helper()
		line := s.lineOf("name", p)
		if holder == "" && len(line) > 0 || holder != "" && (len(line) != 1 || line[0].Holder != holder || line[0].TTL != ttl) {
			t.Errorf("%s: %+v, want %s with %v", what, line, holder, ttl)
		}
	}
	check("as the note said", own, "noted", time.Hour)
	asked := own
	asked.asked, asked.line = true, read
	check("as was read", asked, "read", time.Hour)
	asked.line = nil
	check("as was read, and nobody waits", asked, "", 0)
	other := asked
	other.revision, other.record.Holder, other.line = 6, "y", read
	check("of another's lease", other, "read", time.Hour)
	s.sights.end("3.c")
	check("one that has ended", own, "noted", 0)
	if noted[0].TTL != time.Hour {
		t.Error("what is remembered was changed")
	}
}

// TestNotes: a note begins a lease only for one who waits for the name, has not had it by another reply, and if it is one that a store has written.
func TestNotes(t *testing.T) {
	const since = 10
	text := func(n note) string {
		value, err := json.Marshal(n)
		if err != nil {
			t.Fatal(err)
		}
		return string(value)
	}
	good := record{Format: format, Holder: "x", TTL: time.Hour, Granted: 1, Session: "1.a"}
	with := func(do func(*record)) string { r := good; do(&r); return text(note{Record: r}) }
	for what, test := range map[string]struct {
		name, value string
		revision    int64
		want        bool
	}{
		"one of a store":             {"name", text(note{Record: good}), since + 1, true},
		"that was had by a reply":    {"name", text(note{Record: good}), since, false},
		"of another name":            {"other", text(note{Record: good}), since + 1, false},
		"of another holder":          {"name", with(func(r *record) { r.Holder = "y" }), since + 1, false},
		"of a TTL that no store has": {"name", with(func(r *record) { r.TTL = store.MaxTTL + 1 }), since + 1, false},
		"that is no JSON":            {"name", "hello", since + 1, false},
	} {
		for _, calls := range []bool{true, false} {
			s := bare("1.a")
			s.height.high.Store(since)
			claim := store.Claim{Name: "name", Holder: "x", TTL: time.Hour}
			at := s.enter(claim)
			s.writes(claim, at, s.sessions["1.a"])
			woken := at.woken
			if !calls {
				s.exit(at, false)
			}
			s.heard(test.name, &mvccpb.KeyValue{Value: []byte(test.value), ModRevision: test.revision})
			handed, _, _ := s.took(at)
			h := s.held["name"]
			if (handed != nil) != (test.want && calls) || (h != nil) != (test.want && !calls) {
				t.Errorf("%s, while it waits: %v: %+v is handed over, and %+v is held", what, calls, handed, h)
			}
			if h != nil && (h.token != since+1 || !h.noted || s.inbox.places[at.placeKey] != nil) || handed != nil && (handed.record.Token != since+1 || !handed.taken) {
				t.Errorf("%s: %+v is handed over, and %+v is held", what, handed, h)
			}
			select {
			case <-woken:
			default:
				if handed != nil {
					t.Errorf("%s: who waits is not woken", what)
				}
			}
			if at.idle != nil {
				at.idle.Stop()
			}
		}
	}
}

// TestNoteOfWhatAnotherCallHad: a call that goes on after another one of the same holder was granted the name is not granted it once more by a late note of that lease.
func TestNoteOfWhatAnotherCallHad(t *testing.T) {
	s := bare("1.a")
	claim := store.Claim{Name: "name", Holder: "x", TTL: time.Hour}
	at := s.enter(claim)
	s.enter(claim)
	s.height.high.Store(12) // the revision of the reply by which the first was granted the name
	s.exit(at, true)
	value, err := json.Marshal(note{Record: record{Format: format, Holder: "x", TTL: time.Hour, Granted: 1, Session: "1.a"}})
	if err != nil {
		t.Fatal(err)
	}
	for revision, want := range map[int64]bool{12: false, 13: true} {
		s.heard("name", &mvccpb.KeyValue{Value: value, ModRevision: revision})
		if handed, _, _ := s.took(at); (handed != nil) != want {
			t.Errorf("by the note of the revision %d %+v is handed over", revision, handed)
		}
	}
}

// TestTurns: a name that is free is left to those who came first, for a while from when it was seen free. Then, and when nobody is before it, a place takes it.
func TestTurns(t *testing.T) {
	s := bare()
	at := s.enter(store.Claim{Name: "name", Holder: "x", TTL: time.Hour})
	first := pair{line: []ticket{{Holder: "y"}, {Holder: "x"}}}
	if s.turn(at, first) || at.freed.IsZero() {
		t.Error("it does not leave the name to the first")
	}
	if at.freed = time.Now().Add(-grace / 2); s.turn(at, first) {
		t.Error("it does not leave the name to the first for long enough")
	}
	if at.freed = time.Now().Add(-grace); !s.turn(at, first) {
		t.Error("it leaves the name to the first forever")
	}
	if s.seenTaken(at); s.turn(at, first) {
		t.Error("it counts from before the name was taken again")
	}
	for _, line := range [][]ticket{nil, {{Holder: "x"}, {Holder: "y"}}} {
		if !s.turn(at, pair{line: line}) {
			t.Errorf("it does not take the name although it is first of %v", line)
		}
	}
}

// TestIdleNames: so many names are watched at most for which nobody waits.
func TestIdleNames(t *testing.T) {
	w := &watches{names: map[string]*watched{}, idle: time.Hour}
	ended := 0
	var all []*wake
	for i := range mostIdle + 2 {
		one := &wake{ch: make(chan struct{}, 1), names: []string{strings.Repeat("n", i+1)}}
		w.names[one.names[0]] = &watched{wakes: []*wake{one}, cancel: func() { ended++ }}
		all = append(all, one)
	}
	for _, one := range all {
		w.end(one)
		w.end(one) // a second time nothing happens
	}
	if ended != 2 || len(w.names) != mostIdle || w.idling != mostIdle {
		t.Errorf("%d watches have ended, %d go on, and %d are idle, want 2, %d and %d", ended, len(w.names), w.idling, mostIdle, mostIdle)
	}
	for _, of := range w.names {
		w.resume(of)
	}
	if w.idling != 0 {
		t.Errorf("%d are idle", w.idling)
	}
}

// TestFewerOperations: a server that refuses a transaction is sent half as much, and never more again. One that takes next to nothing is an error.
func TestFewerOperations(t *testing.T) {
	s := &Store{clients: given{}}
	s.size.Store(100)
	for _, test := range []struct {
		refused, want int
		fails         bool
	}{{100, 50, false}, {200, 50, false}, {21, 10, false}, {5, 2, false}, {4, 2, true}} {
		if err := s.shrink(test.refused); (err != nil) != test.fails || s.chunk() != test.want {
			t.Errorf("after %d were refused %d are sent, %v, want %d", test.refused, s.chunk(), err, test.want)
		}
	}
}

// TestWhenATicketIsWritten: a place needs a ticket for its session and its TTL, once, unless its holder has the name.
func TestWhenATicketIsWritten(t *testing.T) {
	s := bare("1.a", "1.b")
	a, b := s.sessions["1.a"], s.sessions["1.b"]
	claim := store.Claim{Name: "name", Holder: "x", TTL: time.Minute}
	at := s.enter(claim)
	check := func(what string, of *session, want bool) {
		t.Helper()
		if got := s.writes(claim, at, of); got != want {
			t.Errorf("%s: a ticket is written: %v", what, got)
		}
	}
	check("at first", a, true)
	check("again", a, false)
	claim.TTL = time.Hour
	check("for another TTL", a, true)
	check("again", a, false)
	if check("in another session", b, true); a.names != 0 || b.names != 1 {
		t.Errorf("%d and %d names are attached to the sessions", a.names, b.names)
	}
	s.ticketGone(at.placeKey)
	check("when it is gone", b, true)
	s.held["name"] = &holding{holder: "y"}
	s.ticketGone(at.placeKey)
	check("of a name that another one has", b, true)
	s.held["name"] = &holding{holder: "x"}
	s.ticketGone(at.placeKey)
	check("of a name that its holder has", b, false)
}

// TestLostInbox: all who wait for what is handed over are told when nothing reports that any more.
func TestLostInbox(t *testing.T) {
	s := bare()
	s.inbox.watch.set(true)
	var woken []chan struct{}
	var places []*place
	for _, name := range []string{"a", "b"} {
		at := s.enter(store.Claim{Name: name, Holder: "x", TTL: time.Hour})
		_, lost, w := s.took(at)
		if lost {
			t.Errorf("%s is lost at once", name)
		}
		places, woken = append(places, at), append(woken, w)
	}
	s.inbox.watch.set(false)
	s.inbox.lost()
	for i, at := range places {
		select {
		case <-woken[i]:
		default:
			t.Errorf("%s: who waits is not woken", at.name)
		}
		if handed, lost, _ := s.took(at); handed != nil || !lost {
			t.Errorf("%s: %+v is handed over, and the watch was lost: %v", at.name, handed, lost)
		}
	}
}
