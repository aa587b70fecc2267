package storetest

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/soloist-dev/soloist/store"
)

var textLaws = []law{
	{name: "name-bytes", check: nameBytes,
		rule: "Names are bytes: two that differ in a byte are two names, and each comes back as it was given."},
	{name: "name-invalid", check: nameInvalid,
		rule: "A name that is empty, too long, not UTF-8, or has control characters is an *InvalidError and makes no record."},
	{name: "holder-bytes", check: holderBytes,
		rule: "Holders are bytes: two that differ in a byte are two holders."},
	{name: "holder-invalid", check: holderInvalid,
		rule: "A holder is checked as a name is."},
	{name: "limits-hold", check: limitsHold,
		rule: "What is at the limits of TTL, linger, retain, mark and holder is good."},
	{name: "limits-refuse", check: limitsRefuse,
		rule: "What is beyond the limits is an *InvalidError and changes nothing."},
}

// texts returns names and holders that some backend might confuse with each other, or change.
func texts() []string {
	texts := []string{
		// Spaces at the ends, and inside.
		"a", "a ", " a", " a ", "a  ", "  ", "a b", "a\u00a0", "a\u3000", "a\u2028", "a\u200b", "a\u200d", "\ufeffa",
		// Case, in and beyond ASCII.
		"Name", "name", "NAME", "é", "É", "ß", "ẞ", "ss", "SS", "ı", "İ", "i\u0307", "σ", "ς", "Σ", "ǆ", "ǅ", "K", "\u212a",
		// Composed and decomposed, and what normal forms fold.
		"e\u0301", "E\u0301", "Å", "\u212b", "A\u030a", "ﬁ", "fi", "한", "\u1112\u1161\u11ab", "ａ", "①", "ö", "o\u0308",
		// Order by bytes is not that of UTF-16: U+FFFD and U+FFFF come before U+10000.
		"\ufffd", "\uffff", "\ue000", "\U00010000", "\U0010ffff", "😀", "😀b", "👩\u200d👩\u200d👧", "🇩🇪", "日本語",
		// Wildcards and escapes of LIKE, GLOB, KEYS and regular expressions.
		"a%", "a_", "ab", "a%b", "a*", "a?", "a[b]", "a[^b]", "[a-z]", "a{b,c}", "a.b", "a.*", "a\\", "a\\%", "a\\_", "a\\\\", "a\\b",
		"%%", "__", "a!", "!%",
		// Separators of keys, paths and subjects.
		"a/b", "a//b", "a/", "/a", "//", "../a", "a/..", "..", "a:b", "a::b", "{a}b", "{}", "{a", "a}", "a>b", "a.>", "a,b", "a|b", "a#b",
		"a;b", "a=b", "a&b", "a+b", "a%20b", "a%2Fb", "a b+c",
		// Quotes, comments and placeholders.
		"'a'", "\"a\"", "`a`", "a''b", "a\"\"b", "';--", "a--b", "/*a*/", "$1", "?1", ":name", "@name", "$$a$$", "%s", "%d", "\\x00", "\\u0000",
		// What looks like a value of another type.
		"01", "1.0", "1e3", "0x10", "-1", "NULL", "null", "nil", "true", "NaN", "2006-01-02", "00000000-0000-0000-0000-000000000000",
		// As long as it may be, and alike to the last byte.
		strings.Repeat("x", store.MaxName), strings.Repeat("x", store.MaxName-1) + "y", strings.Repeat("x", store.MaxName-1),
		strings.Repeat("é", 127) + "x", strings.Repeat("😀", 63) + "xyz", strings.Repeat(" ", store.MaxName),
		strings.Repeat("%", store.MaxName), strings.Repeat("'", store.MaxName), strings.Repeat("\\", store.MaxName),
	}
	for c := ' '; c <= '~'; c++ {
		if one := string(c); one != "a" && one != "K" {
			texts = append(texts, one)
		}
	}
	return texts
}

// invalidTexts returns texts that are valid neither as a name nor as a holder, each with what is wrong with it.
func invalidTexts() map[string]string {
	invalid := map[string]string{
		"":                                       "an empty text",
		strings.Repeat("x", store.MaxName+1):     "a text of 256 bytes",
		strings.Repeat("é", store.MaxName/2+1):   "a text of 128 runes of two bytes",
		"a\xff":                                  "a byte that is never UTF-8",
		"a\xc3":                                  "a rune cut short",
		"\xed\xa0\x80":                           "a surrogate half",
		"\xc0\xafa":                              "an overlong rune",
		"a\u0085":                                "the control character U+0085",
		"\u009fa":                                "the control character U+009F",
		"a\x7f":                                  "the control character U+007F",
		strings.Repeat("x", store.MaxName) + " ": "a text of 255 bytes and a space",
	}
	for c := range ' ' {
		invalid["a"+string(c)] = fmt.Sprintf("the control character %U", c)
	}
	return invalid
}

func nameBytes(s *subject) {
	names := texts()
	leases := make([]lease, len(names))
	for i, name := range names {
		leases[i] = s.take(name, fmt.Sprintf("holder %d", i), hour)
	}
	for i, name := range names {
		if r := s.held(claim(name, "other", hour)); r.Name != name || r.Holder != leases[i].holder || r.Token != leases[i].Token {
			s.fail(fmt.Sprintf("a refusal about %q with %s", r.Name, sketch(r)), "one about %q held by %q", name, leases[i].holder)
		}
		s.extended(leases[i].extension(2 * hour))
		s.released(leases[i].leaving(int64(i+1), []byte(name)))
	}
	records := map[string]store.Record{}
	for _, r := range s.records("") {
		records[r.Name] = r
	}
	for i, name := range names {
		if r, ok := records[name]; !ok || r.Mark != int64(i+1) || string(r.State) != name || !r.Free() {
			s.fail(fmt.Sprintf("in List, a record of %.60q: %t, %s", name, ok, sketch(r)), "a free one, mark %d", i+1)
		}
	}
	if len(records) != len(names) {
		s.fail(fmt.Sprintf("%d records", len(records)), "%d", len(names))
	}
}

func nameInvalid(s *subject) {
	for name, what := range invalidTexts() {
		s.invalid(s.acquire(claim(name, "a", hour)).Err, "a name that is "+what)
		l := lease{store.Grant{Token: 1}, name, "a"}
		s.invalid(s.extend(l.extension(hour)), "a name that is "+what)
		s.invalid(s.release(l.ending()), "a name that is "+what)
	}
	s.unchanged(nil)
}

func holderBytes(s *subject) {
	holders := texts()
	leases := make([]lease, len(holders))
	for i, holder := range holders {
		leases[i] = s.take(s.name(), holder, hour)
		if r := s.held(claim(leases[i].name, "other", hour)); r.Holder != holder {
			s.fail(fmt.Sprintf("a refusal about holder %q", r.Holder), "%q", holder)
		}
	}
	// Each asks for the name of the one before it, which is often the one most like it.
	for i, holder := range holders[1:] {
		l := leases[i]
		s.held(claim(l.name, holder, hour))
		l.holder = holder
		s.lost(s.extend(l.extension(hour)))
		s.lost(s.release(l.ending()))
	}
	for _, l := range leases {
		if again := s.take(l.name, l.holder, hour); again.Token != l.Token {
			s.fail(fmt.Sprintf("token %d", again.Token), "%d again for %q", l.Token, l.holder)
		}
		s.released(l.ending())
	}
}

func holderInvalid(s *subject) {
	l := s.take(s.name(), "a", hour)
	before := s.records("")
	for holder, what := range invalidTexts() {
		s.invalid(s.acquire(claim(s.name(), holder, hour)).Err, "a holder that is "+what)
		bent := lease{l.Grant, l.name, holder}
		s.invalid(s.extend(bent.extension(hour)), "a holder that is "+what)
		s.invalid(s.release(bent.ending()), "a holder that is "+what)
	}
	s.unchanged(before)
}

func limitsHold(s *subject) {
	const day = 24 * time.Hour
	l := s.granted(store.Claim{Name: s.name(), Holder: "a", TTL: store.MaxTTL, Mark: math.MaxInt64})
	if left := s.record(l.name).Left; left < store.MaxTTL-day || left > store.MaxTTL+day {
		s.fail(fmt.Sprintf("left %v", left), "about %v", store.MaxTTL)
	}
	s.extended(l.extension(store.MaxTTL))
	r := l.leaving(math.MaxInt64, make([]byte, store.MaxState))
	r.Linger = store.MaxTTL
	s.released(r)
	if left := s.held(claim(l.name, "b", hour)).Left; left < store.MaxTTL-day || left > store.MaxTTL+day {
		s.fail(fmt.Sprintf("left %v", left), "about %v", store.MaxTTL)
	}
	for _, retain := range []time.Duration{store.Forever, store.Forever - 1, store.MaxTTL, 1} {
		r := s.take(s.name(), "a", hour).ending()
		r.Retain, r.Linger = retain, time.Millisecond
		s.released(r)
	}
	short := s.take(s.name(), "a", store.MinTTL)
	s.free(short.name)
	s.take(short.name, "b", hour)
}

func limitsRefuse(s *subject) {
	l := s.take(s.name(), "a", hour)
	before := s.records("")
	for _, ttl := range []time.Duration{0, -1, -hour, store.MinTTL - 1, store.MaxTTL + 1, math.MaxInt64, math.MinInt64} {
		s.invalid(s.acquire(claim(s.name(), "a", ttl)).Err, fmt.Sprintf("a TTL of %v", ttl))
		s.invalid(s.extend(l.extension(ttl)), fmt.Sprintf("a TTL of %v", ttl))
	}
	for _, token := range []int64{0, -1, math.MinInt64} {
		bent := l
		bent.Token = token
		s.invalid(s.extend(bent.extension(hour)), fmt.Sprintf("a token of %d", token))
		s.invalid(s.release(bent.ending()), fmt.Sprintf("a token of %d", token))
	}
	big := make([]byte, store.MaxState+1)
	for _, bent := range []struct {
		what  string
		mark  int64
		state []byte
	}{{"a mark of -1", -1, nil}, {"a mark of MinInt64", math.MinInt64, nil}, {"a state of 64 KiB and a byte", 0, big}} {
		e := l.extension(hour)
		e.Mark, e.State = bent.mark, bent.state
		s.invalid(s.extend(e), bent.what)
		s.invalid(s.release(l.leaving(bent.mark, bent.state)), bent.what)
	}
	for _, linger := range []time.Duration{-1, store.MaxTTL + 1, math.MaxInt64} {
		r := l.ending()
		r.Linger = linger
		s.invalid(s.release(r), fmt.Sprintf("a linger of %v", linger))
	}
	r := l.ending()
	r.Retain = -1
	s.invalid(s.release(r), "a retain of -1")
	s.unchanged(before)
	s.held(claim(l.name, "b", hour))
}
