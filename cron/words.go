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

// spans describes a set as its stretches: "January and May to July".
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

// numbered describes the numbers of a set, behind a noun in the number that fits.
func numbered(noun string, set uint64, high int) string {
	if step, from, to := arithmetic(set); step > 1 && bits.OnesCount64(set) > fewClocks {
		preposition, unit, _ := strings.Cut(strings.TrimLeft(noun, " "), " ")
		return fmt.Sprintf("%s%s every %s %s from %d to %d", noun[:len(noun)-len(preposition)-len(unit)-1], preposition, nth(step), unit, from, to)
	}
	if bits.OnesCount64(set) > 1 {
		noun += "s"
	}
	return noun + " " + spans(set, 0, high, strconv.Itoa)
}

// nth writes an ordinal number: 2nd, 3rd, 11th.
func nth(n int) string {
	suffix := "th"
	if n/10%10 != 1 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return strconv.Itoa(n) + suffix
}

// arithmetic returns the common difference of the values of a set, and the first and last of them; the difference is 0
// if they have none.
func arithmetic(set uint64) (step, from, to int) {
	var values []int
	for rest := set; rest != 0; rest &= rest - 1 {
		values = append(values, bits.TrailingZeros64(rest))
	}
	return difference(values), bits.TrailingZeros64(set), 63 - bits.LeadingZeros64(set)
}

// difference returns the common difference of rising numbers, or 0 if there is none.
func difference(numbers []int) int {
	if len(numbers) < 2 {
		return 0
	}
	step := numbers[1] - numbers[0]
	for i := range numbers[1:] {
		if numbers[i+1]-numbers[i] != step {
			return 0
		}
	}
	return step
}

// pace returns n if the set is 0, n, 2n, … and starts again after period without a shorter or longer gap; else 0.
func pace(set uint64, period int) int {
	step, from, to := arithmetic(set)
	if step == 0 || from != 0 || to+step != period {
		return 0
	}
	return step
}

// list joins phrases as English does, with "and" before the last.
func list(words []string) string { return join(words, " and ") }

// alternatives joins phrases with "or" before the last.
func alternatives(words []string) string { return join(words, " or ") }

func join(words []string, conjunction string) string {
	last := len(words) - 1
	if last <= 0 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + conjunction + words[last]
}

// every describes a pace: "every minute", "every 5 minutes".
func every(n int, unit string) string {
	if n == 1 {
		return "every " + unit
	}
	return fmt.Sprintf("every %d %ss", n, unit)
}

// everyDuration describes a pace in the largest unit that divides it.
func everyDuration(d time.Duration) string {
	if size, name, found := wholeUnit(d); found {
		return every(int(d/size), name)
	}
	return "every " + d.String()
}

// durationWords describes a duration in the largest unit that divides it.
func durationWords(d time.Duration) string {
	size, name, found := wholeUnit(d)
	switch n := int(d / max(size, 1)); {
	case !found:
		return d.String()
	case n == 1:
		return "1 " + name
	default:
		return fmt.Sprintf("%d %ss", n, name)
	}
}

// wholeUnit returns the largest unit that divides a duration.
func wholeUnit(d time.Duration) (size time.Duration, name string, found bool) {
	for _, u := range []struct {
		size time.Duration
		name string
	}{{dayLength, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}, {time.Second, "second"}} {
		if d%u.size == 0 {
			return u.size, u.name, true
		}
	}
	return 0, "", false
}
