package sqlshared

import (
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// A row that others have locked shows them as the holder until their lock ends, and is nobody's lease here.
func TestRecordsOfOthers(t *testing.T) {
	for what, c := range map[string]struct {
		record Record
		live   bool   // for "a"
		holder string // that is shown
	}{
		"held":               {Record{Holder: "a", LockedBy: "a", Left: 1}, true, "a"},
		"held by another":    {Record{Holder: "b", LockedBy: "b", Left: 1}, false, "b"},
		"expired":            {Record{Holder: "a", LockedBy: "a"}, false, "a"},
		"released, lingers":  {Record{Holder: "a", LockedBy: "a", Released: true, Left: 1}, false, ""},
		"locked by others":   {Record{Holder: "a", LockedBy: "jvm", Left: 1}, false, "jvm"},
		"unlocked by them":   {Record{Holder: "a", LockedBy: "jvm"}, false, ""},
		"expired long ago":   {Record{Holder: "a", LockedBy: "a", Left: -time.Hour, Age: -1}, false, "a"},
		"never held by us":   {Record{LockedBy: "jvm", Left: 1}, false, "jvm"},
		"released by nobody": {Record{}, false, ""},
	} {
		c.record.State = []byte("state")
		rec := c.record.Whole("name")
		if live := c.record.LiveFor("a"); live != c.live || rec.Holder != c.holder {
			t.Errorf("%s: live %v, holder %q; want %v, %q", what, live, rec.Holder, c.live, c.holder)
		}
		if rec.Left < 0 || rec.Age < 0 || rec.Name != "name" || string(rec.State) != "state" || c.record.Lease("name").State != nil {
			t.Errorf("%s: %+v", what, rec)
		}
	}
}

func TestMicrosRoundUp(t *testing.T) {
	for d, want := range map[time.Duration]int64{
		0: 0, 1: 1, time.Microsecond: 1, time.Microsecond + 1: 2, store.MinTTL: store.MinTTL.Microseconds(), store.Forever: int64(store.Forever/1000) + 1,
	} {
		if got := Micros(d); got != want {
			t.Errorf("%v: %d µs; want %d", d, got, want)
		}
	}
}
