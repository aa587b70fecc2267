package pgstore

import (
	"errors"
	"fmt"
	"strings"
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

// Of each row of a batch there is one answer, and another if it was changed. What does not fit is unknown, of that
// row or, if it is about another one, of all.
func TestAnswersAboutLeases(t *testing.T) {
	s := &Store{}
	seen, changed := left{row: "a", live: true}, left{row: "a", changed: true, live: true, mark: 7}
	null, overwritten := left{row: "a", null: true}, left{row: "a", changed: true}
	other := left{row: "b", before: true}
	for what, c := range map[string]struct {
		answers []left
		want    left   // about a
		says    string // what is wrong with that
	}{
		"not changed":                 {[]left{seen, other}, seen, ""},
		"changed":                     {[]left{other, changed}, changed, ""},
		"seen and changed":            {[]left{seen, other, changed}, changed, ""},
		"nothing":                     {[]left{other}, left{}, "no row"},
		"seen twice":                  {[]left{seen, other, seen}, seen, "too many rows"},
		"changed twice":               {[]left{other, changed, changed}, changed, "too many rows"},
		"seen after it was changed":   {[]left{changed, seen, other}, seen, "too many rows"},
		"NULL":                        {[]left{null, other}, null, "NULL"},
		"NULL, and changed":           {[]left{null, other, changed}, changed, "NULL"},
		"changed, and not as written": {[]left{seen, other, overwritten}, overwritten, "not as it was written"},
	} {
		found, err := s.lefts(c.answers, map[string]int{"a": 0, "b": 1})
		if err != nil || len(found) != 2 || found["b"] != other {
			t.Errorf("%s: %+v, %v", what, found, err)
			continue
		}
		got := found["a"]
		if (got.wrong != nil) != (c.says != "") || got.wrong != nil && (!errors.Is(got.wrong, store.ErrUnknown) ||
			!strings.Contains(got.wrong.Error(), c.says)) {
			t.Errorf("%s: %v; want an unknown outcome that says %q", what, got.wrong, c.says)
		}
		if got.wrong = nil; got != c.want {
			t.Errorf("%s: %+v; want %+v", what, got, c.want)
		}
	}
	if found, err := s.lefts([]left{seen, other}, map[string]int{"a": 0}); !errors.Is(err, store.ErrUnknown) {
		t.Errorf("a row that was not asked for: %+v, %v", found, err)
	}
}
