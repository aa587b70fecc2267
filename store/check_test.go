package store_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/soloist-dev/soloist/store"
)

func TestCheckName(t *testing.T) {
	for name, rule := range map[string]string{
		"n":                                    "",
		" ":                                    "",
		"a/b:c{d} e":                           "",
		"日本語 😀 e\u0301 \u2028 \ufffd":          "",
		strings.Repeat("x", store.MaxName):     "",
		strings.Repeat("é", store.MaxName/2):   "",
		"":                                     "is empty",
		strings.Repeat("x", store.MaxName+1):   "has 256 bytes",
		strings.Repeat("é", store.MaxName/2+1): "has 256 bytes",
		strings.Repeat("x", 1<<20):             "has 1048576 bytes",
		"a\xff":                                "is not UTF-8",
		"\xed\xa0\x80":                         "is not UTF-8",
		"a\x00":                                "control character U+0000 at byte 1",
		"é\n":                                  "control character U+000A at byte 2",
		"\x7f":                                 "control character U+007F at byte 0",
		"\u0080":                               "control character U+0080 at byte 0",
		"\u009f":                               "control character U+009F at byte 0",
		strings.Repeat("é", 40) + "\t":         "control character U+0009 at byte 80",
		"\xff" + strings.Repeat("x", store.MaxName): "has 256 bytes",
	} {
		checks(t, "CheckName "+name, store.CheckName(name), "name", rule)
	}
}

// checks compares what a check answers with the rule that it must name; none if that is empty.
func checks(t *testing.T, call string, err error, what, rule string) {
	t.Helper()
	call = call[:min(len(call), 100)]
	if rule == "" {
		if err != nil {
			t.Errorf("%q: %v; want nil", call, err)
		}
		return
	}
	var invalid *store.InvalidError
	if !errors.As(err, &invalid) {
		t.Errorf("%q: %v; want an *InvalidError", call, err)
		return
	}
	if invalid.What != what || !strings.Contains(invalid.Rule, rule) {
		t.Errorf("%q: %q breaks %q; want %q to break %q", call, invalid.What, invalid.Rule, what, rule)
	}
	if len(err.Error()) > 500 {
		t.Errorf("%q: an error of %d bytes; want what was given to be shortened", call, len(err.Error()))
	}
}

func TestClaimCheck(t *testing.T) {
	good := store.Claim{Name: "n", Holder: "h", TTL: time.Second}
	for call, c := range map[string]struct {
		bend       func(*store.Claim)
		what, rule string
	}{
		"good":           {func(*store.Claim) {}, "", ""},
		"any mark":       {func(c *store.Claim) { c.Mark = math.MinInt64 }, "", ""},
		"shortest":       {func(c *store.Claim) { c.TTL = store.MinTTL }, "", ""},
		"longest":        {func(c *store.Claim) { c.TTL = store.MaxTTL }, "", ""},
		"no name":        {func(c *store.Claim) { c.Name = "" }, "name", "is empty"},
		"no holder":      {func(c *store.Claim) { c.Holder = "" }, "holder", "is empty"},
		"control holder": {func(c *store.Claim) { c.Holder = "a\nb" }, "holder", "control character"},
		"long holder":    {func(c *store.Claim) { c.Holder = strings.Repeat("h", 256) }, "holder", "has 256 bytes"},
		"any above":      {func(c *store.Claim) { c.Above = math.MaxInt64 }, "", ""},
		"negative above": {func(c *store.Claim) { c.Above = -1 }, "above", "must be a token, or 0"},
		"no TTL":         {func(c *store.Claim) { c.TTL = 0 }, "TTL", "between 1ms and"},
		"negative TTL":   {func(c *store.Claim) { c.TTL = -time.Second }, "TTL", "between"},
		"short TTL":      {func(c *store.Claim) { c.TTL = store.MinTTL - 1 }, "TTL", "between"},
		"long TTL":       {func(c *store.Claim) { c.TTL = store.MaxTTL + 1 }, "TTL", "between"},
	} {
		bent := good
		c.bend(&bent)
		checks(t, call, bent.Check(), c.what, c.rule)
	}
}

// A leaf is what extensions and releases have in common.
type leaf struct {
	name, holder string
	token, mark  int64
	state        []byte
}

func TestLeaseChecks(t *testing.T) {
	good := leaf{"n", "h", 1, 0, nil}
	for call, c := range map[string]struct {
		bend       func(*leaf)
		what, rule string
	}{
		"good":          {func(*leaf) {}, "", ""},
		"greatest":      {func(l *leaf) { l.token, l.mark = math.MaxInt64, math.MaxInt64 }, "", ""},
		"longest state": {func(l *leaf) { l.state = make([]byte, store.MaxState) }, "", ""},
		"no name":       {func(l *leaf) { l.name = "" }, "name", "is empty"},
		"no holder":     {func(l *leaf) { l.holder = "" }, "holder", "is empty"},
		"no token":      {func(l *leaf) { l.token = 0 }, "token", "> 0"},
		"below 0":       {func(l *leaf) { l.token = -1 }, "token", "> 0"},
		"negative mark": {func(l *leaf) { l.mark = -1 }, "mark", ">= 0"},
		"long state":    {func(l *leaf) { l.state = make([]byte, store.MaxState+1) }, "state", "at most 65536 bytes"},
	} {
		l := good
		c.bend(&l)
		e := store.Extension{Name: l.name, Holder: l.holder, Token: l.token, Mark: l.mark, State: l.state, TTL: time.Second}
		checks(t, "Extension: "+call, e.Check(), c.what, c.rule)
		r := store.Release{Name: l.name, Holder: l.holder, Token: l.token, Mark: l.mark, State: l.state}
		checks(t, "Release: "+call, r.Check(), c.what, c.rule)
		done := store.Completion{Name: l.name, Holder: l.holder, Token: l.token, Mark: l.mark, State: l.state}
		checks(t, "Completion: "+call, done.Check(), c.what, c.rule)
		if c.what != "holder" && c.what != "token" {
			f := store.Filling{Name: l.name, Mark: l.mark, State: l.state}
			checks(t, "Filling: "+call, f.Check(), c.what, c.rule)
		}
	}
}

func TestDurationChecks(t *testing.T) {
	for ttl, rule := range map[time.Duration]string{
		store.MinTTL: "", store.MaxTTL: "", 0: "between", -1: "between", store.MinTTL - 1: "between", store.MaxTTL + 1: "between",
	} {
		e := store.Extension{Name: "n", Holder: "h", Token: 1, TTL: ttl}
		checks(t, "Extension: TTL "+ttl.String(), e.Check(), "TTL", rule)
	}
	for linger, rule := range map[time.Duration]string{
		0: "", 1: "", store.MaxTTL: "", -1: "between 0 and", store.MaxTTL + 1: "between 0 and", store.Forever: "between 0 and",
	} {
		r := store.Release{Name: "n", Holder: "h", Token: 1, Linger: linger}
		checks(t, "Release: linger "+linger.String(), r.Check(), "linger", rule)
	}
	for retain, rule := range map[time.Duration]string{0: "", 1: "", store.Forever - 1: "", store.Forever: "", -1: ">= 0"} {
		r := store.Release{Name: "n", Holder: "h", Token: 1, Retain: retain}
		checks(t, "Release: retain "+retain.String(), r.Check(), "retain", rule)
		checks(t, "Filling: retain "+retain.String(), store.Filling{Name: "n", Retain: retain}.Check(), "retain", rule)
	}
}

func TestCheckChoice(t *testing.T) {
	good := store.Claim{Holder: "h", TTL: time.Second}
	marked, unheld := good, good
	marked.Mark = -1
	unheld.Holder = ""
	checks(t, "good", store.CheckChoice([]string{"a", "b", "a"}, good), "", "")
	checks(t, "no names", store.CheckChoice(nil, good), "names", "at least one")
	checks(t, "a bad name", store.CheckChoice([]string{"a", "\x00"}, good), "name", "control character")
	checks(t, "a mark", store.CheckChoice([]string{"a"}, marked), "mark", "must be 0")
	checks(t, "no holder", store.CheckChoice([]string{"a"}, unheld), "holder", "is empty")
}

// FuzzCheckName compares CheckName with the rule spelled out, and looks at how it words what it refuses.
func FuzzCheckName(f *testing.F) {
	for _, name := range []string{"", "n", " ", "a\x00", "\x7f", "\u0085", "é", "e\u0301", "\xff", "a\xc3", "\xed\xa0\x80", "😀", "\u2028",
		strings.Repeat("x", 255), strings.Repeat("x", 256), strings.Repeat("é", 59) + "\n", strings.Repeat("x", 59) + "é\n"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		err := store.CheckName(name)
		if good := isName(name); good != (err == nil) {
			t.Fatalf("CheckName(%q) = %v; want an error: %t", name, err, !good)
		}
		if err == nil {
			return
		}
		if _, ok := errors.AsType[*store.InvalidError](err); !ok {
			t.Errorf("%T; want an *InvalidError", err)
		}
		if msg := err.Error(); len(msg) > 600 || !utf8.ValidString(msg) || strings.ContainsFunc(msg, isControl) {
			t.Errorf("the error of %q is not fit to be shown: %q", name, msg)
		}
	})
}

func isName(s string) bool {
	return len(s) >= 1 && len(s) <= 255 && utf8.ValidString(s) && !strings.ContainsFunc(s, isControl)
}

func isControl(r rune) bool { return r < 0x20 || r >= 0x7f && r <= 0x9f }

func TestAClaimThatWaitsOrChoosesHasNoAbove(t *testing.T) {
	c := store.Claim{Name: "n", Holder: "h", TTL: time.Second, Above: 7}
	checks(t, "queued", store.CheckQueued(c), "above", "must be 0")
	checks(t, "queued with a mark", store.CheckQueued(store.Claim{Name: "n", Holder: "h", TTL: time.Second, Mark: -1}), "mark", "must be 0")
	checks(t, "queued without a name", store.CheckQueued(store.Claim{Holder: "h", TTL: time.Second}), "name", "is empty")
	checks(t, "queued, good", store.CheckQueued(store.Claim{Name: "n", Holder: "h", TTL: time.Second}), "", "")
	checks(t, "a choice", store.CheckChoice([]string{"a"}, c), "above", "must be 0")
}
