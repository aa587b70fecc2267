package move

import (
	"errors"
	"fmt"
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
		if err := undecided(store.Record{Name: "x", Left: 30 * time.Second}, left); !errors.As(err, &held) || held.Record.Left != max(left, 30*time.Second) {
			t.Errorf("30 s are left in one store and %v in the other: %v", left, err)
		}
	}
}

// TestTwins: what a copy makes of each pair of records of a name is what the file says.
func TestTwins(t *testing.T) {
	records := []struct {
		what string
		r    store.Record
	}{
		{"nothing", store.Record{}},
		{"free", store.Record{Token: 7}},
		{"free mark 3", store.Record{Token: 7, Mark: 3, State: []byte("s")}},
		{"free mark 3 other state", store.Record{Token: 7, Mark: 3, State: []byte("t")}},
		{"free state", store.Record{Token: 7, State: []byte("s")}},
		{"free mark 4", store.Record{Token: 7, Mark: 4, State: []byte("s")}},
		{"x", store.Record{Holder: "x", Token: 7, Mark: 3, State: []byte("s"), Left: time.Second}},
		{"x has left", store.Record{Holder: "x", Token: 7, Mark: 3, State: []byte("s")}},
		{"y", store.Record{Holder: "y", Token: 7, Mark: 3, State: []byte("s"), Left: time.Second}},
		{"a copy", store.Record{Holder: copier("n"), Token: 7, Mark: 3, State: []byte("s")}},
		{"lingers", store.Record{Token: 7, Mark: 3, State: []byte("s"), Left: time.Second}},
	}
	var lines []string
	for _, truth := range records {
		for _, shadow := range records {
			p := twins{name: "n", truth: truth.r, shadow: shadow.r, inBoth: truth.r.Token > 0 && shadow.r.Token > 0}
			var is []string
			for what, yes := range map[string]bool{"plain": p.plain(), "agree": p.agree(), "taken": p.taken(), "half held": p.halfHeld(), "swapped": p.swapped(),
				"interrupted": p.interrupted(), "abandoned": p.abandoned(), "same": p.same(false)} {
				if yes {
					is = append(is, what)
				}
			}
			slices.Sort(is)
			p.truth.Token++
			if p.same(true) {
				is = append(is, "same with a greater token")
			}
			do := []string{"touch", "fill", "raise"}
			lines = append(lines, fmt.Sprintf("%s | %s | %s | %s, for tokens %s", truth.what, shadow.what, strings.Join(is, ", "), do[p.task(false)], do[p.task(true)]))
		}
	}
	golden(t, "twins.txt", lines)
}
