package hazelcaststore

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/casstore"
)

// textOfVersion returns an entry that a store has written.
func textOfVersion(t *testing.T, version string, past ...string) string {
	t.Helper()
	text, err := encode(&casstore.Record{Holder: "x", Token: 1, TTL: time.Hour, Write: version}, value{})
	if err != nil {
		t.Fatal(err)
	}
	if len(past) > 0 {
		text = strings.TrimSuffix(text, "}") + `,"past":["` + strings.Join(past, `","`) + `"]}`
	}
	return text
}

// versions returns n versions of others.
func versions(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprint("other ", i))
	}
	return all
}

// TestRefusedWrites: a write that was refused may have taken effect before, as the members repeat it among themselves. What is there now shows whether it has, or
// the outcome is unknown.
func TestRefusedWrites(t *testing.T) {
	before := textOfVersion(t, "before")
	lease := casstore.Record{Holder: "x", Token: 2, TTL: time.Hour, Write: "mine"} // another token than before
	extension := lease
	extension.Token = 1
	release := lease
	release.Released = true
	short := lease
	short.TTL = 0
	for what, c := range map[string]struct {
		replaces string // "" if it makes the entry
		record   casstore.Record
		now      string // "" if the entry is gone
		want     error  // nil if the write took effect
	}{
		"others have written after it":                        {before, extension, textOfVersion(t, "other", "mine", "before"), nil},
		"others have made the entry's past full after it":     {before, release, textOfVersion(t, "other", append(versions(7), "mine")...), nil},
		"another one came first":                              {before, extension, textOfVersion(t, "other", "before"), casstore.ErrConflict},
		"another one came first, and many since":              {before, release, textOfVersion(t, "other", append(versions(7), "before")...), casstore.ErrConflict},
		"what it replaces is there, as another text":          {before + " ", release, before, casstore.ErrConflict},
		"too many have written since an extension":            {before, extension, textOfVersion(t, "other", versions(8)...), store.ErrUnknown},
		"too many have written since a release":               {before, release, textOfVersion(t, "other", versions(8)...), store.ErrUnknown},
		"too many have written while a new lease would last":  {before, lease, textOfVersion(t, "other", versions(8)...), casstore.ErrConflict},
		"too many have written since a lease that is over":    {before, short, textOfVersion(t, "other", versions(8)...), store.ErrUnknown},
		"made anew since a release":                           {before, release, textOfVersion(t, "other"), store.ErrUnknown},
		"made by another one":                                 {"", short, textOfVersion(t, "other", versions(7)...), casstore.ErrConflict},
		"made by another one, and perhaps by this one before": {"", short, textOfVersion(t, "other", versions(8)...), store.ErrUnknown},
		"gone after a release":                                {before, release, "", store.ErrUnknown},
		"gone after an extension":                             {before, extension, "", casstore.ErrConflict},
		"written by something else":                           {before, release, "held", casstore.ErrConflict},
	} {
		w, err := newWrite(casstore.Change{Name: "a", Version: c.replaces, Record: &c.record})
		if err != nil {
			t.Fatal(err)
		}
		var now casstore.Item
		if now = itemOf("a", nil); c.now != "" {
			now = itemOf("a", c.now)
		}
		r := w.refused(now)
		switch {
		case !errors.Is(r.Err, c.want) || errors.Is(c.want, casstore.ErrConflict) && errors.Is(r.Err, store.ErrUnknown):
			t.Errorf("%s: got %v, want %v", what, r.Err, c.want)
		case c.want == nil && (r.Version != w.text || r.Current != nil):
			t.Errorf("%s: got %+v, want what was written", what, r)
		case c.want != nil && (r.Version != "" || r.Current == nil || r.Current.Version != now.Version):
			t.Errorf("%s: got %+v, want what is there now", what, r)
		}
	}
}

// TestRecordsOfEntries: an entry has all of a record, and of the versions before it the newest ones. Times are read as they were, whatever the zone of who has written them.
func TestRecordsOfEntries(t *testing.T) {
	zone := time.FixedZone("east", 3600)
	for _, r := range []casstore.Record{
		{Holder: "x", Token: 7, Mark: 3, State: []byte("state"), TTL: time.Minute, Unsure: true, Write: "w", Granted: time.Unix(5, 6).In(zone), Forget: time.Unix(9, 1).In(zone)},
		{Holder: "y", Token: 1 << 60, TTL: 1, Released: true, Write: "w", Granted: time.Unix(0, 1).In(zone)},
	} {
		past := versions(pastLimit)
		text, err := encode(&r, value{Version: "before", Past: past})
		if err != nil {
			t.Fatal(err)
		}
		item := itemOf("a", text)
		want := r
		want.Granted = r.Granted.UTC()
		if !r.Forget.IsZero() {
			want.Forget = r.Forget.UTC()
		}
		if item.Err != nil || item.Name != "a" || item.Version != text || !reflect.DeepEqual(item.Record, want) {
			t.Errorf("%s was read as %+v, want %+v", text, item, want)
		}
		v, err := parse(text)
		if err != nil || !slices.Equal(v.Past, append([]string{"before"}, past[:pastLimit-1]...)) {
			t.Errorf("the past is %q, %v", v.Past, err)
		}
	}
	for what, text := range map[string]string{
		"no version":                   `{"granted_at":"2026-01-02T03:04:05Z"}`,
		"an empty version in its past": textOfVersion(t, "v", ""),
		"its own version in its past":  textOfVersion(t, "v", "u", "v"),
		"no granted_at":                `{"version":"v"}`,
		"a field that is not known":    `{"version":"v","owner":"x","granted_at":"2026-01-02T03:04:05Z"}`,
		"something behind it":          textOfVersion(t, "v") + "{}",
		"a part of a text":             textOfVersion(t, "v")[:20],
	} {
		if item := itemOf("a", text); item.Err == nil || item.Version != "" || !strings.Contains(item.Err.Error(), `the entry of "a"`) {
			t.Errorf("%s: got %+v, want that something else has written it", what, item)
		}
	}
}
