package casstore_test

import (
	"errors"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store/casstore"
)

// TestFreed: when a waiter that knows an item looks again.
func TestFreed(t *testing.T) {
	item := func(version string, token int64, ttl time.Duration, released bool) casstore.Item {
		return casstore.Item{Name: "x", Version: version, Record: casstore.Record{Token: token, TTL: ttl, Released: released}}
	}
	held := item("1", 7, time.Minute, false)
	for what, c := range map[string]struct {
		now  casstore.Item
		want bool
	}{
		"nothing has changed":                     {held, false},
		"a renewal":                               {item("2", 7, time.Hour, false), false},
		"a renewal that lasts for less":           {item("2", 7, time.Second, false), false},
		"a release":                               {item("2", 7, 0, true), true},
		"a release, with a linger":                {item("2", 7, time.Hour, true), true},
		"a release by the next holder":            {item("4", 8, 0, true), true},
		"somebody else has it":                    {item("3", 8, time.Minute, false), false},
		"somebody else has it for a shorter time": {item("3", 8, time.Second, false), true},
		"it was forgotten":                        {casstore.Item{Name: "x"}, true},
		"it cannot be read":                       {casstore.Item{Name: "x", Version: "2", Err: errors.New("broken")}, true},
	} {
		if got := casstore.Freed(held, c.now); got != c.want {
			t.Errorf("%s: %v, want %v", what, got, c.want)
		}
	}
	free := item("2", 7, 0, true)
	if casstore.Freed(free, free) || casstore.Freed(casstore.Item{Name: "x"}, casstore.Item{Name: "x"}) {
		t.Error("what is free is as it was: want no other look, for a waiter would look again and again")
	}
	if !casstore.Freed(free, casstore.Item{Name: "x"}) {
		t.Error("it was released and has been forgotten: want another look")
	}
}
