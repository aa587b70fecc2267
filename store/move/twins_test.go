package move

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// A copy that is to make the tokens of the new store the greater ones leaves none that is as great as the old one.
func TestEqualTokensAreRaised(t *testing.T) {
	for truth, want := range map[int64]bool{6: false, 7: false, 8: true} {
		p := twins{name: "x", inBoth: true, truth: store.Record{Token: truth}, shadow: store.Record{Token: 7}}
		if got := p.same(true); got != want {
			t.Errorf("with the tokens %d and 7 the name needs no copy: %t", truth, got)
		}
		if !p.same(false) {
			t.Errorf("with the tokens %d and 7, which do not matter, the name needs a copy", truth)
		}
	}
}

// Who is refused because the stores differ looks again when both are free.
func TestUndecidedLastsForTheLonger(t *testing.T) {
	for _, left := range []time.Duration{time.Second, time.Minute} {
		var held *store.HeldError
		if err := undecided(store.Record{Name: "x", Holder: "h", Token: 7, Mark: 3, Left: 30 * time.Second}, left, 5); !errors.As(err, &held) ||
			held.Record.Left != max(left, 30*time.Second) || held.Record.Name != "x" || held.Record.Mark != 3 || held.Record.Holder != "" || held.Record.Token != 0 || held.Overdue != 5 {
			t.Errorf("30 s are left in one store and %v in the other: %v", left, err)
		}
	}
}

// TestTwins: what a copy has to do for a name follows from what the two stores have of it.
func TestTwins(t *testing.T) {
	free := store.Record{Token: 7, Mark: 3, State: []byte("s")}
	with := func(change func(*store.Record)) store.Record {
		r := free
		change(&r)
		return r
	}
	held := with(func(r *store.Record) { r.Holder, r.Left = "x", time.Second })
	died := with(func(r *store.Record) { r.Holder = "x" })
	copied := with(func(r *store.Record) { r.Holder = copier("n") })
	other := with(func(r *store.Record) { r.Holder, r.Left = "y", time.Second })
	lingers := with(func(r *store.Record) { r.Left = time.Second })
	higher := with(func(r *store.Record) { r.Mark = 4 })
	changed := with(func(r *store.Record) { r.State = []byte("t") })
	behind := with(func(r *store.Record) { r.Holder, r.Left, r.Mark = "x", time.Second, 2 })
	late := with(func(r *store.Record) { r.Holder, r.Left, r.State = "x", time.Second, []byte("t") })
	plain, none := store.Record{Token: 7}, store.Record{}
	for name, row := range map[string]struct {
		truth, shadow store.Record
		is            string // all that is so, in the order of words
		do, doTokens  task   // for the marks and states alone, and for the tokens, too
	}{
		"the same":                            {free, free, "agree same", raise, raise},
		"the other has none":                  {free, none, "", fill, touch},
		"only the other has one":              {none, free, "", touch, touch},
		"a token alone":                       {plain, none, "plain", fill, touch},
		"a token alone, in the other":         {none, plain, "plain same", touch, touch},
		"a token alone, in both":              {plain, plain, "agree plain same", raise, raise},
		"the other is behind":                 {higher, free, "", fill, touch},
		"the other is ahead":                  {free, higher, "", touch, touch},
		"another state":                       {changed, free, "", fill, touch},
		"held in both":                        {held, held, "abandoned agree same swapped taken", touch, touch},
		"held in both, another state":         {held, late, "abandoned taken", touch, touch},
		"held in both, the other is behind":   {held, behind, "abandoned taken", touch, touch},
		"a token alone that lingers":          {none, store.Record{Token: 7, Left: time.Second}, "taken", touch, touch},
		"a token alone of a crash":            {none, store.Record{Token: 7, Holder: "x"}, "", touch, touch},
		"held by different ones":              {held, other, "abandoned agree half-held same taken", touch, touch},
		"held in one":                         {held, free, "abandoned agree half-held same taken", touch, touch},
		"held in the other":                   {free, held, "agree same taken", fill, touch},
		"the last holder died":                {died, died, "abandoned agree same", touch, touch},
		"the last holder died, and has one":   {died, free, "abandoned agree half-held same", touch, touch},
		"a copy was killed":                   {copied, free, "agree half-held interrupted", touch, touch},
		"a copy was killed in the other":      {free, copied, "agree interrupted", fill, touch},
		"it lingers":                          {lingers, free, "agree same taken", raise, raise},
		"it lingers in the other":             {free, lingers, "agree same taken", raise, raise},
		"it lingers in the one that is ahead": {free, with(func(r *store.Record) { r.Mark, r.Left = 4, time.Second }), "taken", touch, touch},
	} {
		t.Run(name, func(t *testing.T) {
			p := twins{name: "n", truth: row.truth, shadow: row.shadow, inBoth: row.truth.Token > 0 && row.shadow.Token > 0}
			var is []string
			for word, yes := range map[string]bool{
				"plain": p.plain(), "agree": p.agree(), "taken": p.taken(), "half-held": p.halfHeld(), "swapped": p.swapped(),
				"interrupted": p.interrupted(), "abandoned": p.abandoned(), "same": p.same(false),
			} {
				if yes {
					is = append(is, word)
				}
			}
			slices.Sort(is)
			if got := strings.Join(is, " "); got != row.is {
				t.Errorf("is %q, want %q", got, row.is)
			}
			if do, doTokens := p.task(false), p.task(true); do != row.do || doTokens != row.doTokens {
				t.Errorf("tasks %d and, for the tokens, %d; want %d and %d", do, doTokens, row.do, row.doTokens)
			}
			if p.same(true) { // the token of the one that decides is not the greater one
				t.Error("needs no copy for the tokens")
			}
			p.truth.Token++
			if want := p.agree() && !p.interrupted(); p.same(true) != want {
				t.Errorf("with a greater token it needs no copy: %t, want %t", !want, want)
			}
		})
	}
}
