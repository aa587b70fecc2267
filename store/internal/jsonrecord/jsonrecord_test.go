package jsonrecord

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store/casstore"
)

// What was written is read as it was, with every field and with those alone that must be there.
func TestRecordsAreReadAsWritten(t *testing.T) {
	granted := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	for _, r := range []casstore.Record{
		{
			Holder: "h", Token: 1<<62 + 1, Mark: 7, State: []byte("s\x00"), TTL: time.Minute, Released: true, Write: "w",
			Granted: granted, Forget: granted.Add(time.Hour),
		},
		{Holder: "h", Write: "w", Granted: granted},
	} {
		text, err := Encode(&r)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Decode(text); err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, r)
		}
	}
}

// What is no record of ours is an error: it is never read in part.
func TestWhatIsNoRecord(t *testing.T) {
	const good = `{"holder":"h","mark":0,"ttl_ns":1,"released":false,"write":"w","granted_at":"2026-01-02T03:04:05Z"}`
	if _, err := Decode([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{
		"nothing":            "",
		"cut off":            good[:len(good)-1],
		"two records":        good + good,
		"text behind it":     good + " x",
		"a field of others":  strings.Replace(good, `"mark"`, `"extra":1,"mark"`, 1),
		"no write":           strings.Replace(good, `"write":"w",`, "", 1),
		"no time of a grant": strings.Replace(good, `,"granted_at":"2026-01-02T03:04:05Z"`, "", 1),
		"a long write":       strings.Replace(good, `"write":"w"`, `"write":"`+strings.Repeat("w", 256)+`"`, 1),
		"a long field":       strings.Replace(good, `"mark"`, `"`+strings.Repeat("x", 1<<20)+`":1,"mark"`, 1),
		"a mark as text":     strings.Replace(good, `"mark":0`, `"mark":"0"`, 1),
	} {
		if r, err := Decode([]byte(text)); err == nil {
			t.Errorf("%s: %.500q is read as %.500v", what, text, r)
		} else if n := len(err.Error()); n > 200 {
			t.Errorf("%s: the error has %d bytes", what, n)
		}
	}
}
