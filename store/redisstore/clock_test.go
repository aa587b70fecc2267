package redisstore_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"
)

// What is documented about a server's clock that is set: a lease ends early when it is put forward and late when it is set back, and tokens
// grow whatever it does, also those of a name that was forgotten meanwhile.
func TestServerClockIsSet(t *testing.T) {
	server, clock := servers.RedisWithClock(t)
	s := open(t, server.URL)
	first := take(t, s, "name", "a")
	clock.Set(2 * time.Minute)
	second := take(t, s, "name", "b") // a's lease of a minute has ended early
	if second.Token <= first.Token {
		t.Errorf("token %d after %d", second.Token, first.Token)
	}
	if err := extend(s, first); !errors.Is(err, store.ErrLost) {
		t.Errorf("the first holder was not told: %v", err)
	}
	second.Retain = 0
	if err := release(s, second); err != nil {
		t.Fatal(err)
	}
	clock.Set(time.Hour)
	if n, err := s.Sweep(t.Context(), 10); n != 1 || err != nil {
		t.Fatalf("forgotten %d, %v", n, err)
	}
	clock.Set(-time.Hour)
	third := take(t, s, "name", "c")
	if third.Token <= second.Token {
		t.Errorf("token %d after %d, of a name that was forgotten before the clock was set back", third.Token, second.Token)
	}
	clock.Set(-2 * time.Hour)
	var held *store.HeldError
	if err := tried(t.Context(), s, "name", "d"); !errors.As(err, &held) || held.Record.Left < time.Hour || held.Record.Left > 62*time.Minute {
		t.Errorf("a lease of a minute when the clock is set back by an hour: %v", err)
	}
	f := finding(t, s)["clock set back"]
	if f.Level != store.LevelError || !strings.Contains(f.Found, "behind") || !strings.Contains(f.Fix, "slewed") {
		t.Errorf("Examine: %+v", f)
	}
}
