//go:build unix

package servers

import (
	"strings"
	"testing"
	"time"
)

// What the server says of its clock follows what was set, there and back.
func TestClock(t *testing.T) {
	s, clock := RedisWithClock(t)
	off := func() time.Duration {
		// The answer is an array of two texts: seconds and microseconds. That of ask is its head, so a script makes one text of it.
		seconds, err := time.ParseDuration(strings.TrimSpace(ask(s.Addr, `EVAL "return redis.call('TIME')[1]" 0`)) + "s")
		if err != nil {
			t.Fatal(err)
		}
		return seconds - time.Duration(time.Now().Unix())*time.Second
	}
	for _, want := range []time.Duration{0, time.Minute, -time.Hour, 0} {
		clock.Set(want)
		if got := off(); (got - want).Abs() > 2*time.Second {
			t.Errorf("the server's clock is %v off; want %v", got, want)
		}
	}
}
