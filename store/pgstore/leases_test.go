package pgstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// An error concerns what was not decided before: extensions of one lease take a statement each, and what the first has done is told.
func TestErrorAfterOthersAreDecided(t *testing.T) {
	s := fresh(t, server(t).URL)
	lease := take(t, s, "bad", "a", time.Minute)
	meddle(t, s, "UPDATE", "IF NEW.mark = 7 THEN RAISE EXCEPTION 'injected'; END IF; RETURN NEW")
	extension := func(mark int64) store.Extension {
		return store.Extension{Name: "bad", Holder: "a", Token: lease.Token, TTL: time.Hour, Mark: mark}
	}
	errs, err := s.Extend(background, []store.Extension{extension(1), extension(7), extension(8)})
	if err != nil || errs[0] != nil {
		t.Fatalf("%v, %v", errs, err)
	}
	says(t, errs[1], "injected")
	says(t, errs[2], "injected")
	if _, err := s.Extend(background, []store.Extension{extension(7), extension(8)}); err == nil {
		t.Error("no error of the whole batch, of which nothing was decided")
	}
	if r := recordOf(t, s, "bad"); r.Mark != 1 {
		t.Errorf("%+v", r)
	}
}

// Leases of one row are decided in their order, also where a statement has no room for the first of them.
func TestLeasesOfOneRowKeepTheirOrder(t *testing.T) {
	s := &Store{}
	for what, c := range map[string]struct {
		names       []string
		states      []int
		asked, rest []int
	}{
		"all":                      {[]string{"a", "b"}, []int{1, 1}, []int{0, 1}, nil},
		"one twice":                {[]string{"a", "a", "b"}, []int{1, 1, 1}, []int{0, 2}, []int{1}},
		"no room":                  {[]string{"a", "b", "b", "c"}, []int{chunkState, 1, 0, 0}, []int{0, 3}, []int{1, 2}},
		"one that is long for all": {[]string{"a", "b"}, []int{2 * chunkState, 1}, []int{0}, []int{1}},
	} {
		asked, rest := s.next(len(c.names), func(k int) (string, int) { return c.names[k], c.states[k] })
		if fmt.Sprint(asked, rest) != fmt.Sprint(c.asked, c.rest) {
			t.Errorf("%s: %v, then %v; want %v, then %v", what, asked, rest, c.asked, c.rest)
		}
	}
}
