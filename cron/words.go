package cron

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// A run is a stretch of consecutive values of a set. If from is greater than to, it wraps.
type run struct{ from, to int }

// runs returns the stretches of a set of values from low to high; one that goes over the end comes last, in one piece.
func runs(set uint64, low, high int) (all []run) {
	for v := low; v <= high; v++ {
		if set>>v&1 == 0 {
			continue
		}
		r := run{from: v}
		for v < high && set>>(v+1)&1 != 0 {
			v++
		}
		r.to = v
		all = append(all, r)
	}
	if last := len(all) - 1; last > 0 && all[0].from == low && all[last].to == high {
		all[last].to = all[0].to
		all = all[1:]
	}
	return all
}

// spans tells a set as its stretches: "January and May to July".
func spans(set uint64, low, high int, name func(int) string) string {
	var words []string
	for _, r := range runs(set, low, high) {
		switch {
		case r.from == r.to:
			words = append(words, name(r.from))
		case r.to == r.from+1:
			words = append(words, name(r.from), name(r.to))
		default:
			words = append(words, name(r.from)+" to "+name(r.to))
		}
	}
	return list(words)
}

// numbered tells the numbers of a set, behind a noun in the number that fits.
func numbered(noun string, set uint64, high int) string {
	if bits.OnesCount64(set) > 1 {
		noun += "s"
	}
	if step, from, to := arithmetic(set); step > 1 && bits.OnesCount64(set) > fewNumbers {
		return fmt.Sprintf("%s %d, %d and so on by %d to %d", noun, from, from+step, step, to)
	}
	return noun + " " + spans(set, 0, high, strconv.Itoa)
}

// arithmetic returns the common difference of the values of a set, and the first and last of them; or a difference of
// 0 if they have none.
func arithmetic(set uint64) (step, from, to int) {
	from, to = bits.TrailingZeros64(set), 63-bits.LeadingZeros64(set)
	count := bits.OnesCount64(set)
	if count < 2 || (to-from)%(count-1) != 0 {
		return 0, from, to
	}
	step = (to - from) / (count - 1)
	for v := from; v <= to; v += step {
		if set>>v&1 == 0 {
			return 0, from, to
		}
	}
	return step, from, to
}

// pace returns n if the set is 0, n, 2n, … and starts again after period without a shorter or longer gap; else 0.
func pace(set uint64, period int) int {
	step, from, to := arithmetic(set)
	if step == 0 || from != 0 || to+step != period {
		return 0
	}
	return step
}

// list joins phrases as English does.
func list(words []string) string {
	last := len(words) - 1
	if last <= 0 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " and " + words[last]
}

// every tells a pace: "every minute", "every 5 minutes".
func every(n int, unit string) string {
	if n == 1 {
		return "every " + unit
	}
	return fmt.Sprintf("every %d %ss", n, unit)
}

// everyDuration tells a pace in the largest unit that divides it.
func everyDuration(d time.Duration) string {
	for _, u := range []struct {
		size time.Duration
		name string
	}{{time.Hour, "hour"}, {time.Minute, "minute"}, {time.Second, "second"}} {
		if d%u.size == 0 {
			return every(int(d/u.size), u.name)
		}
	}
	return "every " + d.String()
}
