package redisstore

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/soloist-dev/soloist/store"
)

// tree makes a reply of bytes: whatever go-redis can make of what a server sends.
func tree(data string, depth int) (reply any, rest string) {
	if data == "" {
		return nil, ""
	}
	kind, data := data[0], data[1:]
	switch kind % 8 {
	case 0:
		return nil, data
	case 1, 2, 3:
		text, rest, _ := strings.Cut(data, "\x00")
		return text, rest
	case 4:
		if data == "" {
			return int64(-1), ""
		}
		return int64(data[0]) - 2, data[1:]
	case 5:
		return errors.New("ERR"), data
	case 6:
		return 1.5, data
	}
	var all []any
	for data != "" && data[0] != 0xff && depth < 4 {
		var one any
		one, data = tree(data, depth+1)
		all = append(all, one)
	}
	return all, strings.TrimPrefix(data, "\xff")
}

// FuzzReplies shows that whatever a server answers is read without a panic, and that nothing becomes a grant that cannot be one.
func FuzzReplies(f *testing.F) {
	for _, seed := range []string{
		"", "\x07\x01granted\x00\x015\x00\x010\x00\x01\x00\x010\x00\xff", "\x07\x01granted\x00\x01nan\x00\x010\x00\x01\x00\x010\x00\xff", "\x07\x01held\x00\x01h\x00\x015\x00\x010\x00\x011\x00\x010\x00\x01\x00\xff",
		"\x07\x01corrupt\x00\x01key\x00\x01why\x00\xff", "\x07\x01failed\x00\x01OOM no\x00\xff", "\x04\x01", "\x04\x03", "\x07\x04\x03\x04\x02\x07\xff\xff", "\x01OK\x00",
		"\x07\x07\x01name\x00\x01h\x00\x015\x00\x010\x00\x011\x00\x010\x00\x01\x00\xff\xff",
	} {
		f.Add(seed, "SECRET 5 0")
	}
	s := &Store{single: true}
	f.Fuzz(func(t *testing.T, data, message string) {
		reply, _ := tree(data, 0)
		out := s.outcome("name", reply)
		var held *store.HeldError
		switch {
		case out.Err == nil && (out.Grant.Token <= 0 || out.Grant.Token > exact || out.Grant.Mark < 0 || out.Grant.ExpiredAge < 0 || len(out.Grant.State) > store.MaxState):
			t.Errorf("%v is taken for the grant %+v", reply, out.Grant)
		case errors.As(out.Err, &held) && (held.Record.Left <= 0 || held.Record.Age < 0 || held.Record.Token < 0):
			t.Errorf("%v is taken for the refusal %+v", reply, held.Record)
		}
		if err := s.altered("name", reply); err == nil && reply != any(int64(1)) {
			t.Errorf("%v is taken for a yes", reply)
		}
		p := page{from: "["}
		_ = p.read(s, "", reply)
		for i, r := range p.records {
			if r.Token < 0 || r.Left < 0 || r.Age < 0 || i > 0 && r.Name <= p.records[i-1].Name {
				t.Errorf("%v is taken for the records %+v", reply, p.records)
			}
		}
		var left []error
		if n, _, err := s.swept(reply, 5, &left); err == nil && (n < 0 || n > 5) {
			t.Errorf("%v is taken for %d records that were forgotten", reply, n)
		}
		if said, err := tagged("tag", reply); err == nil {
			_ = s.outcome("name", said)
		}
		l := &lines{waiting: map[string]chan news{"SECRET": make(chan news, 1)}}
		told := l.waiting["SECRET"]
		l.heard(message)
		select {
		case n := <-told:
			if message != "" && !strings.HasPrefix(message, "SECRET") || n.granted && (n.after < 0 || n.ahead < 0) {
				t.Errorf("%q is taken for %+v", message, n)
			}
		default:
		}
	})
}

// What was seen of servers that are no Redis: an error that says what is wrong, of an unknown outcome, and for one name of a batch alone.
func TestMalformedAnswersAreExplained(t *testing.T) {
	s := &Store{single: true}
	for want, reply := range map[string]any{
		"-1 instead of an array":                     int64(-1),
		"0 instead of an array":                      int64(0),
		"9007199254740992 instead of an array":       int64(exact + 1),
		`"OK" instead of an array`:                   "OK",
		"nothing instead of an array":                nil,
		"the word is missing":                        []any{},
		`"nothing" is no word of the scripts`:        []any{"nothing"},
		`the token is "nan"; want a number`:          []any{"granted", "nan", "0", "", int64(0)},
		`the token is 0; want a number from 1`:       []any{"granted", int64(0), "0", "", int64(0)},
		`the token is "5"; want a number from 1`:     []any{"granted", "5", "0", "", int64(0)},
		`the token is 9007199254740992`:              []any{"granted", int64(exact + 1), "0", "", int64(0)},
		`the mark is "-1"`:                           []any{"granted", int64(5), "-1", "", int64(0)},
		`the mark is "nan"`:                          []any{"granted", int64(5), "nan", "", int64(0)},
		`the mark is 5; want at most 20 bytes`:       []any{"granted", int64(5), int64(5), "", int64(0)},
		"the time since the lease before is missing": []any{"granted", int64(5), "0", ""},
		"1 fields too many":                          []any{"granted", int64(5), "0", "", int64(0), "0"},
		`the time that is left is -5`:                []any{"held", "h", int64(5), "0", int64(-5), int64(0), ""},
		"it is held for no time":                     []any{"held", "h", int64(5), "0", int64(0), int64(0), ""},
		`the age is 9007199254740992`:                []any{"done", "h", int64(5), "0", int64(0), int64(exact + 1), ""},
	} {
		out := s.outcome("the name", reply)
		if !errors.Is(out.Err, store.ErrUnknown) || !strings.Contains(out.Err.Error(), want) || !strings.Contains(out.Err.Error(), `"the name"`) {
			t.Errorf("%v: %v; want an unknown outcome that says %q", reply, out.Err, want)
		}
	}
	for _, reply := range []any{nil, int64(-1), int64(2), "1", true, []any{}, []any{int64(1)}} {
		if err := s.altered("name", reply); !errors.Is(err, store.ErrUnknown) || errors.Is(err, store.ErrLost) {
			t.Errorf("%v: %v", reply, err)
		}
	}
}

// An answer that refers to another one of its batch is that one's refusal. One that refers to a grant, to what is not there or to what comes later is malformed: two would have one
// grant.
func TestAnswersThatReferToOthers(t *testing.T) {
	s := &Store{single: true}
	held := []any{"held", "h", int64(5), "0", int64(1), int64(1), ""}
	for _, c := range []struct {
		replies []any // of which the last refers to another one
		refused bool
	}{
		{[]any{held, int64(-1)}, true},
		{[]any{int64(5), held, int64(-2)}, true},
		{[]any{int64(5), int64(-1)}, false},
		{[]any{[]any{"granted", int64(5), "1", "", int64(0)}, int64(-1)}, false},
		{[]any{[]any{"done", "h", int64(5), "9", int64(0), int64(1), ""}, int64(-1)}, false},
		{[]any{held, int64(-1), int64(-2)}, false},
		{[]any{held, int64(-2)}, false},
		{[]any{held, int64(-3)}, false},
		{[]any{[]any{}, int64(-1)}, false},
	} {
		at := len(c.replies) - 1
		out := s.outcome("name", referred(c.replies, at))
		if !errors.Is(out.Err, map[bool]error{true: store.ErrHeld, false: store.ErrUnknown}[c.refused]) {
			t.Errorf("the last of %v: %+v, want refused %t, otherwise unknown", c.replies, out, c.refused)
		}
	}
}

// When a subscription is there again on another connection, which may be to another server, those who wait ask again and the mark is renewed at once: until then
// releases may be published to nobody.
func TestSubscriptionOnAnotherConnectionRenewsTheMark(t *testing.T) {
	ready := make(chan struct{})
	w := &watch{wake: make(chan struct{}, 1)}
	ws := &watches{
		store: &Store{lines: lines{inbox: "inbox"}}, moved: make(chan struct{}, 1),
		topics: map[string]*topic{"c:name": {ready: ready, watches: map[*watch]bool{w: true}}},
	}
	confirmed := &redis.Subscription{Kind: "subscribe", Channel: "c:name"}
	ws.heard(confirmed)
	select {
	case <-ready:
	default:
		t.Error("who waits for the subscription is not told that it is there")
	}
	if len(ws.moved) != 0 || len(w.wake) != 0 {
		t.Error("the first confirmation counts as one of another connection")
	}
	for range 2 {
		if ws.heard(confirmed); len(ws.moved) != 1 || len(w.wake) != 1 {
			t.Errorf("the mark is renewed: %v, and who waits is woken: %v", len(ws.moved) == 1, len(w.wake) == 1)
		}
	}
}

// A batch is refused as a whole if the server has refused all of its steps alike. If it has refused them in different
// ways, or some alone, each name is told what became of it: what is unknown of one is not known because it is of
// another.
func TestRefusalOfAllSteps(t *testing.T) {
	s := &Store{single: true}
	failed := func(text any) any { return []any{"failed", text} }
	const full, odd = "OOM command not allowed when used memory > 'maxmemory'.", "ERR what"
	for _, c := range []struct {
		replies []any
		refused string
		unknown bool
	}{
		{[]any{failed(full)}, full, false},
		{[]any{failed(full), failed(full), failed(full)}, full, false},
		{[]any{failed(odd), failed(odd)}, odd, true},
		{[]any{failed(full), failed(odd)}, "", false},
		{[]any{failed(odd), failed(full)}, "", false},
		{[]any{failed(full), failed(full), failed(odd)}, "", false},
		{[]any{failed(full), int64(1)}, "", false},
		{[]any{int64(1), failed(full)}, "", false},
		{[]any{failed(""), failed("")}, "", false},
		{[]any{failed(int64(5))}, "", false},
		{[]any{[]any{"corrupt", full}}, "", false},
		{[]any{[]any{"failed", full, "more"}}, "", false},
		{[]any{[]any{"failed"}}, "", false},
	} {
		err := s.refusedAll(c.replies)
		told := (err != nil) == (c.refused != "") && strings.Contains(fmt.Sprint(err), c.refused)
		if !told || errors.Is(err, store.ErrUnknown) != c.unknown {
			t.Errorf("%v: %v; want %q, unknown %t", c.replies, err, c.refused, c.unknown)
		}
	}
}

// A secret is good for one message, whatever follows it, and who was told to look again is told nothing more: who
// waits receives once.
func TestNewsAreHeardOnce(t *testing.T) {
	for message, want := range map[string]news{
		"SECRET 5 7":                {granted: true, after: 5, ahead: 7},
		"SECRET 0 0":                {granted: true},
		"SECRET 5 7 1":              {granted: true, after: 5, ahead: 7, more: true},
		"":                          {},
		"SECRET":                    {},
		"SECRET ":                   {},
		"SECRET 5":                  {},
		"SECRET 5 ":                 {},
		"SECRET 5 7 ":               {},
		"SECRET 5 7 2":              {},
		"SECRET 5 7 1 1":            {},
		"SECRET -5 7":               {},
		"SECRET 5 -7":               {},
		"SECRET 05 7":               {},
		"SECRET 5  7":               {},
		"SECRET 1e3 7":              {},
		"SECRET 5 9007199254740992": {},
	} {
		told, other := make(chan news, 4), make(chan news, 4) // more than one is not to be received
		l := &lines{waiting: map[string]chan news{"SECRET": told, "OTHER": other}}
		for _, heard := range []string{"NOBODY 5 7", message, message, "SECRET 5 8", "", ""} {
			l.heard(heard)
		}
		if n := len(told); n != 1 {
			t.Fatalf("%q: told %d times", message, n)
		}
		if got := <-told; got != want {
			t.Errorf("%q is taken for %+v, want %+v", message, got, want)
		}
		if n := len(other); n != 1 {
			t.Fatalf("%q: another is told %d times", message, n)
		}
		if got := <-other; got != (news{}) {
			t.Errorf("%q: another is told %+v, want to look again", message, got)
		}
	}
}
