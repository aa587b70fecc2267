package etcdstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/soloist-dev/soloist/store"
)

// TestRecords: a record is believed up to the limits of what a store writes, and not beyond them.
func TestRecords(t *testing.T) {
	const revision = 9
	good := map[string]any{"v": 2, "holder": "h", "ttl_ns": int64(time.Hour), "granted": 1, "session": "1.a"}
	for what, test := range map[string]struct {
		with  map[string]any
		wrong string // "" if it is believed
	}{
		"one without a token":           {nil, ""},
		"the greatest token":            {map[string]any{"token": revision}, ""},
		"a token of the future":         {map[string]any{"token": revision + 1}, "the token 10"},
		"a token below 0":               {map[string]any{"token": -1}, "the token -1"},
		"a mark below 0":                {map[string]any{"mark": -1}, "the mark -1"},
		"the greatest mark":             {map[string]any{"mark": int64(math.MaxInt64)}, ""},
		"the longest TTL":               {map[string]any{"ttl_ns": int64(store.MaxTTL)}, ""},
		"a longer TTL":                  {map[string]any{"ttl_ns": int64(store.MaxTTL) + 1}, "the TTL"},
		"a TTL below 0":                 {map[string]any{"ttl_ns": -1}, "the TTL"},
		"the shortest TTL":              {map[string]any{"ttl_ns": int64(store.MinTTL)}, ""},
		"a shorter TTL":                 {map[string]any{"ttl_ns": int64(store.MinTTL) - 1}, "a lease with the TTL"},
		"a shorter TTL without a lease": {map[string]any{"ttl_ns": 0, "session": ""}, ""},
		"a shorter linger":              {map[string]any{"ttl_ns": 1, "released": true}, ""},
		"a session that is none":        {map[string]any{"session": "a"}, "the session"},
		"no holder":                     {map[string]any{"holder": ""}, "no holder"},
		"the longest holder":            {map[string]any{"holder": strings.Repeat("h", store.MaxName)}, ""},
		"a longer holder":               {map[string]any{"holder": strings.Repeat("h", store.MaxName+1)}, "the holder"},
		"the largest state":             {map[string]any{"state": make([]byte, store.MaxState)}, ""},
		"a larger state":                {map[string]any{"state": make([]byte, store.MaxState+1)}, "a state of"},
		"a field of something else":     {map[string]any{"owner": "o"}, "no record"},
		"another format":                {map[string]any{"v": 3}, "of a version of this package"},
	} {
		value := maps.Clone(good)
		maps.Copy(value, test.with)
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		r, err := decode("name", text, revision)
		if test.wrong == "" && (err != nil || r.Token != revision) || test.wrong != "" && (err == nil || !strings.Contains(err.Error(), test.wrong) || !strings.Contains(err.Error(), `"name"`)) {
			t.Errorf("%s: token %d, %v, want an error that says %q", what, r.Token, err, test.wrong)
		}
		if errors.Is(err, store.ErrSchema) != (what == "another format") {
			t.Errorf("%s: %v", what, err)
		}
		p := pairOf("name", []*mvccpb.KeyValue{{Value: text, ModRevision: revision, Lease: 1}}, presence{})
		if p.err == nil || p.record.Session != "" || p.taken {
			t.Errorf("%s, which would end with a lease: %+v", what, p)
		}
	}
}

// TestTimesOfRecords: a clock that was set back makes no age below 0, and no time that is too far away becomes one in the past.
func TestTimesOfRecords(t *testing.T) {
	now := time.Unix(1000, 0)
	for granted, want := range map[int64]time.Duration{1000: 0, 999: time.Second, 1001: 0} {
		if got := (record{Granted: granted * 1e9}).age(now); got != want {
			t.Errorf("what was granted at %d is %v old at 1000, want %v", granted, got, want)
		}
	}
	for d, want := range map[time.Duration]int64{0: 1000e9, time.Second: 1001e9, store.Forever: 0, math.MaxInt64 - 1000e9: math.MaxInt64, math.MaxInt64 - 1000e9 + 1: 0} {
		if got := after(now, d); got != want {
			t.Errorf("%v after 1000 is %d, want %d", d, got, want)
		}
	}
	released := record{Released: true, Forget: now.UnixNano()}
	for what, test := range map[string]struct {
		p    pair
		want bool
	}{
		"its time has come":   {pair{revision: 5, record: released}, true},
		"a moment before":     {pair{revision: 5, record: record{Released: true, Forget: now.UnixNano() + 1}}, false},
		"never":               {pair{revision: 5, record: record{Released: true}}, false},
		"it was not released": {pair{revision: 5, record: record{Forget: 1}}, false},
		"it lingers":          {pair{revision: 5, record: released, taken: true}, false},
		"there is none":       {pair{record: released}, false},
	} {
		if got := forgettable(test.p, now); got != test.want {
			t.Errorf("%s: it may be forgotten: %v", what, got)
		}
	}
}

// TestWhatIsRemembered: of many names and sessions those that were seen last are remembered, not all forgotten at once, and no large states.
func TestWhatIsRemembered(t *testing.T) {
	var s sights
	name := func(i int) string { return fmt.Sprint(i) }
	for i := range 2*remembered + 1 {
		s.see(name(i), pair{revision: 1})
		s.end(name(i))
	}
	for i, want := range map[int]bool{0: false, remembered - 1: false, remembered: true, 2*remembered - 1: true, 2 * remembered: true} {
		if _, known := s.of(name(i)); known != want || s.gone(name(i)) != want {
			t.Errorf("of %d names the one with the number %d is known: %v, and its session: %v; want %v", 2*remembered+1, i, known, s.gone(name(i)), want)
		}
	}
	for size, want := range map[int]bool{rememberedState: true, rememberedState + 1: false} {
		for _, of := range []string{name(remembered), name(2 * remembered), "new"} { // of each map, and of none
			s.see(of, pair{revision: 1})
			s.see(of, pair{revision: 2, record: record{State: make([]byte, size)}})
			if p, known := s.of(of); known != want || known && p.revision != 2 {
				t.Errorf("a name with %d bytes of state is known: %v, at the revision %d", size, known, p.revision)
			}
		}
	}
}

// TestSinceWhenItIsSeen: a record is counted from when it was first seen as it is, and one whose session has ended from when that was known.
func TestSinceWhenItIsSeen(t *testing.T) {
	var s sights
	first, later := time.Now().Add(-time.Hour), time.Now().Add(-time.Minute)
	of := record{Session: "1.a"}
	see := func(p pair) pair { p.record = of; return s.see("name", p) }
	see(pair{revision: 5, taken: true, at: first})
	if p := see(pair{revision: 5, taken: true, at: later}); !p.at.Equal(first) {
		t.Errorf("as it was: %v, want since %v", p.at, first)
	}
	if p := see(pair{revision: 6, taken: true, at: later}); !p.at.Equal(later) {
		t.Errorf("extended: %v, want since %v", p.at, later)
	}
	s.end("1.a")
	if p, _ := s.of("name"); p.taken || !p.at.After(later) {
		t.Errorf("after its end: %+v", p)
	}
	if p := see(pair{revision: 7, taken: true, unsure: true, at: later}); p.taken || p.unsure || !p.at.Equal(later) {
		t.Errorf("a reply from before that: %+v", p)
	}
}

// TestWhichSessionsAreThere: a reply with the first sessions has nothing of those that come after them, unless there are no more.
func TestWhichSessionsAreThere(t *testing.T) {
	p := presence{there: map[string]bool{"b": true, "d": false}, upTo: "c"}
	for _, all := range []bool{false, true} {
		p.all = all
		for session, want := range map[string][2]bool{"a": {false, true}, "b": {true, true}, "c": {false, true}, "d": {false, true}, "e": {false, all}} {
			if there, known := p.of(session); there != want[0] || known != want[1] {
				t.Errorf("%s is there: %v, and that is known: %v, want %v", session, there, known, want)
			}
		}
	}
}

// TestChoices: the name that the holder has is chosen, else the first that is free, else the one that is free first. One that cannot be read is an error only if there is no other.
func TestChoices(t *testing.T) {
	now := time.Now()
	held := func(holder string, ttl time.Duration) pair {
		return pair{revision: 5, taken: true, at: now, record: record{Holder: holder, TTL: ttl, Session: "2.b"}}
	}
	found := map[string]pair{
		"free": {}, "free2": {}, "mine": held("x", time.Hour), "late": held("y", time.Hour), "soon": held("y", time.Minute), "broken": {err: errReply},
		"lingers": {revision: 5, taken: true, at: now, record: record{Holder: "x", TTL: 30 * time.Minute, Session: "2.b", Released: true}},
	}
	s := bare()
	for names, want := range map[string]string{
		"free mine": "mine", "late free soon free2": "free", "late soon": "soon", "soon late": "soon", "broken late soon": "soon", "broken free": "free", "late lingers": "lingers", "lingers soon": "soon", "broken": "",
	} {
		all := strings.Fields(names)
		i, free, err := s.choose(all, found, "x")
		if err == nil && (all[i] != want || free != strings.HasPrefix(want, "free")) || err != nil && want != "" {
			t.Errorf("of %s %s is chosen, %v, want %s", names, all[i], err, want)
		}
	}
}

// TestVersions: versions of etcd in which what a store relies on is there.
func TestVersions(t *testing.T) {
	for version, want := range map[string]bool{
		"3.4.0": true, "3.4": true, "3.6.1": true, "3.10.0": true, "4.0.0": true, "10.1.0": true, "3.3.27": false, "2.9.0": false, "2.3": false, "": false, "3": false, "x.9.0": false, "3.x": false, "3.5.0-rc.1": true,
	} {
		if supported(version) != want {
			t.Errorf("%q: %v", version, !want)
		}
	}
}

// TestKeysOfNames: what is below the prefix of a store and no key of a name is not taken for one.
func TestKeysOfNames(t *testing.T) {
	k := keys{"p/"}
	for _, name := range []string{"a", "a/b", "s/a"} {
		for _, kind := range []string{recordKey, queuedKey, waitingKey + "holder"} {
			if got, of, ok := k.name([]byte(k.names() + name + kind)); got != name || of != kind || !ok {
				t.Errorf("the key of %q and %q is that of %q and %q, %v", name, kind, got, of, ok)
			}
		}
	}
	for _, key := range []string{"p/n/a", "p/s/a\trecord", "q/n/a\trecord", "a\trecord"} {
		if name, _, ok := k.name([]byte(key)); ok {
			t.Errorf("%q is a key of %q", key, name)
		}
	}
}

// TestExpiredOfAClockAhead: a grant after a lease that has expired says so, also if the clock of its holder was ahead. One after a release, or of a new name, does not.
func TestExpiredOfAClockAhead(t *testing.T) {
	ahead := time.Now().Add(time.Hour).UnixNano()
	for what, test := range map[string]struct {
		p    pair
		want time.Duration
	}{
		"a lease that has expired": {pair{revision: 5, record: record{Holder: "y", Granted: ahead, Session: "2.b"}}, 1},
		"a release":                {pair{revision: 5, record: record{Holder: "y", Granted: ahead, Released: true}}, 0},
		"a new name":               {pair{}, 0},
	} {
		out := store.Outcome{Grant: store.Grant{ExpiredAge: time.Minute}} // of an earlier decision
		c, err := bare().claim(store.Claim{Name: "name", Holder: "x", TTL: time.Hour}, &out).decide(test.p)
		if c == nil || err != nil || out.Grant.ExpiredAge != test.want {
			t.Errorf("%s: %+v, %v, and the age %v, want %v", what, c, err, out.Grant.ExpiredAge, test.want)
		}
	}
}
