package redisstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// A choice may be of more names than Lua passes to one command.
func TestChoiceOfVeryManyNames(t *testing.T) {
	s := open(t, fresh(t, shared(t).URL))
	names := make([]string, 10_000)
	for i := range names {
		names[i] = fmt.Sprint("name/", i)
	}
	last := len(names) - 1
	take(t, s, names[last], "h")
	i, _, err := s.Choose(background, names, store.Claim{Holder: "h", TTL: time.Minute})
	if err != nil || i != last {
		t.Errorf("chose %d, %v; want %d, which the holder has", i, err, last)
	}
}
