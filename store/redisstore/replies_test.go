package redisstore

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/internal/shedlock"
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

// A page of a list is read strictly: in the order of names, of those that were asked for alone, and each with what
// becomes of it. What follows begins behind its last.
func TestPagesAreReadStrictly(t *testing.T) {
	s := &Store{cfg: Config{Prefix: "p"}, single: true}
	row := func(name string) any { return []any{name, "h", int64(5), "0", int64(0), int64(1), ""} }
	rows := func(n int) (all []any) {
		for i := range n {
			all = append(all, row(fmt.Sprintf("n%03d", i)))
		}
		return all
	}
	odd := func(name string, fields ...any) any { return append([]any{name}, fields...) }
	longest, unborn := strings.Repeat("n", store.MaxName), odd("a", "h", int64(0), "0", int64(0), int64(1), "")
	all := func(rows ...any) any { return rows }
	const wrong = "" // the page is malformed
	for what, c := range map[string]struct {
		from, prefix string
		reply        any
		next         string // where the next page begins
		records      int
		last         bool
		trouble      string
	}{
		"nothing":            {"[", "", []any{}, "[", 0, true, ""},
		"two":                {"[", "", all(row("a"), row("b")), "(b", 2, true, ""},
		"those behind a":     {"(a", "", all(row("a\x00"), row("b")), "(b", 2, true, ""},
		"a again":            {"(a", "", all(row("a")), wrong, 0, false, ""},
		"one before":         {"(b", "", all(row("a")), wrong, 0, false, ""},
		"out of order":       {"[", "", all(row("b"), row("a")), wrong, 0, false, ""},
		"twice":              {"[", "", all(row("a"), row("a")), wrong, 0, false, ""},
		"of the prefix":      {"[x", "x", all(row("x"), row("xa")), "(xa", 2, true, ""},
		"of another prefix":  {"[x", "x", all(row("ya")), wrong, 0, false, ""},
		"gone":               {"[", "", all(odd("a"), row("b")), "(b", 1, true, ""},
		"the last is gone":   {"[", "", all(row("a"), odd("b")), "(b", 1, true, ""},
		"corrupt":            {"[", "", all(odd("a", "corrupt", "key", "why"), row("b")), "(b", 1, true, "why"},
		"refused":            {"[", "", all(row("a"), odd("b", "failed", "LOADING it")), "(b", 1, true, "LOADING"},
		"the longest name":   {"[", "", all(row(longest)), "(" + longest, 1, true, ""},
		"a longer name":      {"[", "", all(row(longest+"n"), row("o")), "(o", 1, true, ""},
		"only a longer name": {"[", "", all(row(longest + "n")), "(" + longest + "n", 0, true, ""},
		"no token":           {"[", "", all(unborn), wrong, 0, false, ""},
		"a field too few":    {"[", "", all(odd("a", "h", int64(5), "0", int64(0), int64(1))), wrong, 0, false, ""},
		"a field too many":   {"[", "", all(append(row("a").([]any), "")), wrong, 0, false, ""},
		"another word":       {"[", "", all(odd("a", "what", "ever")), wrong, 0, false, ""},
		"no rows":            {"[", "", all("a"), wrong, 0, false, ""},
		"no array":           {"[", "", "a", wrong, 0, false, ""},
		"almost full":        {"[", "", rows(pageSize - 1), "(n198", pageSize - 1, true, ""},
		"full":               {"[", "", rows(pageSize), "(n199", pageSize, false, ""},
		"more than full":     {"[", "", rows(pageSize + 1), wrong, 0, false, ""},
	} {
		p := page{from: c.from}
		err := p.read(s, c.prefix, c.reply)
		if (err != nil) != (c.next == wrong) {
			t.Errorf("%s: %v", what, err)
		}
		if err != nil || c.next == wrong {
			continue
		}
		if len(p.records) != c.records || p.from != c.next || p.last != c.last {
			t.Errorf("%s: %d records, the next from %.10q, the last %t", what, len(p.records), p.from, p.last)
		}
		told := errors.Join(p.troubles...)
		if (told != nil) != (c.trouble != "") || !strings.Contains(fmt.Sprint(told), c.trouble) {
			t.Errorf("%s: trouble %v, want %q", what, told, c.trouble)
		}
	}
}

// Records that cannot be read end a list as unreadable, for it lacks nothing else. What may be read later is told as
// it is. Of many, five are named.
func TestTroublesOfAList(t *testing.T) {
	corrupt := func(n int) (p page) {
		for i := range n {
			p.troubles = append(p.troubles, &CorruptError{Name: fmt.Sprint("name", i), Key: "key", Wrong: "why"})
		}
		return p
	}
	refused := page{troubles: []error{scriptError("LOADING it is")}}
	for what, c := range map[string]struct {
		pages      []page
		unreadable bool
		names      int
		more       string
	}{
		"none":             {[]page{{}, {}}, false, 0, ""},
		"one":              {[]page{{}, corrupt(1)}, true, 1, ""},
		"five":             {[]page{corrupt(3), corrupt(2)}, true, 5, ""},
		"six":              {[]page{corrupt(6)}, true, 5, "and 1 more"},
		"seven":            {[]page{corrupt(5), corrupt(2)}, true, 5, "and 2 more"},
		"one, and refused": {[]page{corrupt(1), refused}, false, 1, "LOADING"},
		"refused":          {[]page{refused}, false, 0, "LOADING"},
	} {
		err := troubles(c.pages)
		unreadable := errors.As(err, new(*store.UnreadableError))
		if (err != nil) != (c.names > 0 || c.more != "") || unreadable != c.unreadable {
			t.Errorf("%s: %v; want unreadable %t", what, err, c.unreadable)
		}
		text := fmt.Sprint(err)
		n := strings.Count(text, `"name`)
		if n != c.names || !strings.Contains(text, c.more) || strings.Contains(text, " more") && c.more == "" {
			t.Errorf("%s: %d names in %q, want %d and %q", what, n, text, c.names, c.more)
		}
	}
}

// A sweep's answer is read strictly: nobody is told of more than was asked for, or of something else than what became
// of the names.
func TestSweepsAreReadStrictly(t *testing.T) {
	s := &Store{cfg: Config{Prefix: "p"}, single: true}
	corrupt := []any{"corrupt", "{p:0}:r:a", "why"}
	const limit = 2
	for what, c := range map[string]struct {
		reply any
		n     int // -1 if it is malformed
		more  bool
		left  int
	}{
		"nothing":         {[]any{int64(0), int64(0), []any{}}, 0, false, 0},
		"one, and more":   {[]any{int64(1), int64(1), []any{}}, 1, true, 0},
		"all":             {[]any{int64(2), int64(0), []any{}}, 2, false, 0},
		"one is left":     {[]any{int64(1), int64(0), []any{corrupt}}, 1, false, 1},
		"two are left":    {[]any{int64(0), int64(1), []any{corrupt, corrupt}}, 0, true, 2},
		"three are left":  {[]any{int64(0), int64(1), []any{corrupt, corrupt, corrupt}}, -1, false, 0},
		"too many":        {[]any{int64(3), int64(0), []any{}}, -1, false, 0},
		"too few":         {[]any{int64(-1), int64(0), []any{}}, -1, false, 0},
		"perhaps more":    {[]any{int64(0), int64(2), []any{}}, -1, false, 0},
		"less":            {[]any{int64(0), int64(-1), []any{}}, -1, false, 0},
		"no number":       {[]any{"0", int64(0), []any{}}, -1, false, 0},
		"no flag":         {[]any{int64(0), "0", []any{}}, -1, false, 0},
		"no list":         {[]any{int64(0), int64(0), "x"}, -1, false, 0},
		"no list in it":   {[]any{int64(0), int64(0), []any{"x"}}, -1, false, 0},
		"another word":    {[]any{int64(0), int64(0), []any{[]any{"what"}}}, -1, false, 0},
		"a field too few": {[]any{int64(0), int64(0)}, -1, false, 0},
		"no array":        {int64(1), -1, false, 0},
	} {
		var left []error
		n, more, err := s.swept(c.reply, limit, &left)
		if c.n < 0 {
			if err == nil || n != 0 {
				t.Errorf("%s: %d, %v; want that it is malformed", what, n, err)
			}
			continue
		}
		if n != c.n || more != c.more || len(left) != c.left || err != nil {
			t.Errorf("%s: %d, more %t, left %v, %v", what, n, more, left, err)
		}
		for _, one := range left {
			if told := new(*CorruptError); !errors.As(one, told) || (*told).Key != "{p:0}:r:a" {
				t.Errorf("%s: left is %v", what, one)
			}
		}
	}
}

// The text behind all that begin with a prefix is the least one that is greater.
func TestEndOfAPrefix(t *testing.T) {
	for prefix, want := range map[string]string{
		"": "", "a": "b", "ab": "ac", "\x00": "\x01",
		"a\xfe": "a\xff", "a\xff": "b", "a\xff\xff": "b", "\xff": "", "\xff\xff": "",
	} {
		if got := after(prefix); got != want {
			t.Errorf("behind %q is %q, want %q", prefix, got, want)
		}
	}
}

// ShedLock runs a scheduled time if it has taken its lock for it, a little before it at the earliest. No other lock
// tells of a run, and no other claim is of one.
func TestLockOfShedLockIsARun(t *testing.T) {
	begun := time.Date(2020, 1, 1, 0, 0, 0, 500_000_000, time.UTC)
	const holder = "ADDED:2020-01-01T00:00:00.500Z@host:uuid"
	last := begun.Add(shedlock.Early).UnixMilli() // the latest time that it can be a run of
	held := func(holder string, token int64) error {
		return &store.HeldError{Record: store.Record{Name: "job/x", Holder: holder, Token: token, Left: time.Hour}}
	}
	for what, c := range map[string]struct {
		mark int64
		err  error
		done bool
	}{
		"the time at which it began": {begun.UnixMilli(), held(holder, 7), true},
		"one long before":            {1, held(holder, 7), true},
		"the latest":                 {last, held(holder, 7), true},
		"a later one":                {last + 1, held(holder, 7), false},
		"no time":                    {0, held(holder, 7), false},
		"a look":                     {-1, held(holder, 7), false},
		"the greatest identity":      {last, held(holder, mostIdentity), true},
		"a lease of soloist's":       {last, held(holder, mostIdentity+1), false},
		"a linger":                   {last, held("", 7), false},
		"another library":            {last, held("0123456789", 7), false},
		"another beginning":          {last, held("TAKEN:2020-01-01T00:00:00.500Z@host:uuid", 7), false},
		"another refusal":            {last, store.ErrTokens, false},
	} {
		out := ranByShedLock(store.Claim{Name: "job/x", Mark: c.mark}, store.Outcome{Err: c.err})
		var done *store.DoneError
		if errors.As(out.Err, &done) != c.done || !c.done && !errors.Is(out.Err, c.err) {
			t.Errorf("%s: %v; want done %t", what, out.Err, c.done)
		}
		if c.done && (done.Record.Mark != last || done.Record.Holder != holder || done.Record.Left != time.Hour) {
			t.Errorf("%s: %+v", what, done.Record)
		}
	}
	granted := store.Outcome{Grant: store.Grant{Token: 7}}
	if out := ranByShedLock(store.Claim{Name: "job/x", Mark: last}, granted); out.Err != nil || out.Grant.Token != 7 {
		t.Errorf("a grant becomes %+v", out)
	}
}
