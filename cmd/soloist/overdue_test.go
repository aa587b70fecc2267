//go:build unix

package main

import (
	"testing"
	"time"

	"github.com/soloist-dev/soloist/test/servers"
)

// On a store without a clock, a process that has just begun gets a name that has lingered for long enough, and an element whose back-off is over.
func TestNextInvocationWithoutAClock(t *testing.T) {
	store := "nats://" + servers.NATS(t, 1)[0].Addr + "/invocations"
	if code, text := ended(t, store, "migrate", "up"); code != 0 {
		t.Fatal(code, text)
	}
	for _, row := range []struct {
		first, next []string
		quick       []string // does not wait, and so is refused
		code        int      // of the first
	}{
		{[]string{"lock", "a", "--at-least", "1s", "--", "true"}, []string{"lock", "a", "--", "true"}, []string{"lock", "a", "-n", "--", "true"}, 0},
		{[]string{"once", "job", "1", "--backoff", "1s", "--", "false"}, []string{"once", "job", "1", "--", "true"}, nil, 1},
	} {
		if code, text := ended(t, store, row.first...); code != row.code {
			t.Fatalf("%v: %d %s", row.first, code, text)
		}
		over := time.Now().Add(time.Second)
		for begun := time.Now(); row.quick != nil && !begun.After(over); {
			begun = time.Now()
			if code, text := ended(t, store, row.quick...); code != exitHeld {
				t.Fatalf("%v: %d %s", row.quick, code, text)
			}
		}
		for code := exitHeld; code != 0; {
			begun, text := time.Now(), ""
			if code, text = ended(t, store, row.next...); code != 0 && (code != exitHeld || begun.After(over)) {
				t.Fatalf("%v: %d %s", row.next, code, text)
			}
		}
		if code, text := ended(t, store, row.next...); code != 0 {
			t.Fatalf("%v again: %d %s", row.next, code, text)
		}
	}
}
