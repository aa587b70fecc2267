package cron

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
)

// For returns e with every H replaced by the hash of a job's name, so that jobs with the same expression are spread
// evenly over the field, each always at the same times. Without an H in the expression it returns e itself. A soloist
// client calls it with Job.Name. Until For is called, H is the hash of the empty name. The error is a *[ParseError]:
// an expression such as "0 0 H(29-31) 2 *" never fires for some names.
func (e *Expression) For(name string) (*Expression, error) {
	if !e.hashed {
		return e, nil
	}
	return parse(e.text, e.location, name)
}

// isHash reports whether a piece of a field begins with H. No name of a month or weekday does.
func isHash(piece string) bool { return piece[0] == 'H' || piece[0] == 'h' }

// resolve replaces the H of a piece by numbers: H by a value of the field, H(10-20) by one of the range, H/15 by a
// step from one of the first 15 values on, and H(10-40)/15 by the same within the range.
func (f *field) resolve(piece, name string) (resolved, problem string) {
	base, step, stepped := strings.Cut(piece[1:], "/")
	from, to := f.min, f.min+f.hashes-1
	pick := func(n int) int { return from + int(hash(name, f.name, int64(n))) }
	if f.hashes == 0 {
		return "", "H has no place in a " + f.name + ": write it out"
	}
	if base != "" {
		low, high, ok := cutRange(base)
		if !ok {
			return "", fmt.Sprintf("H stands alone, or before a range or a step: use H, H(%d-%d), H/2", f.min, f.max)
		}
		if from, problem = f.parseValue(low); problem != "" {
			return "", problem
		}
		if to, problem = f.parseValue(high); problem != "" {
			return "", problem
		}
		if from > to {
			return "", fmt.Sprintf("the range of H runs backwards: write H(%d-%d)", to, from)
		}
	}
	count := to - from + 1
	if !stepped {
		return strconv.Itoa(pick(count)), ""
	}
	width, problem := f.parseStep(step)
	if problem != "" {
		return "", problem
	}
	first := pick(min(width, count))
	if base == "" {
		return fmt.Sprintf("%d/%d", first, width), ""
	}
	return fmt.Sprintf("%d-%d/%d", first, to, width), ""
}

// cutRange takes "(a-b)" apart.
func cutRange(text string) (low, high string, ok bool) {
	inner, opened := strings.CutPrefix(text, "(")
	inner, closed := strings.CutSuffix(inner, ")")
	low, high, ranged := strings.Cut(inner, "-")
	return low, high, opened && closed && ranged
}

// hash returns a number from 0 to n-1 that depends on the job's name and the field alone. It must never change: it
// decides when jobs run. It is FNV-1a of both, mixed by the finalizer of MurmurHash3, since FNV spreads similar short
// names unevenly.
func hash(name, field string, n int64) int64 {
	h := fnv.New64a()
	h.Write([]byte(field + "\x00" + name))
	sum := h.Sum64()
	sum = (sum ^ sum>>33) * 0xff51afd7ed558ccd
	sum = (sum ^ sum>>33) * 0xc4ceb9fe1a85ec53
	sum ^= sum >> 33
	return int64(sum % uint64(n)) //nolint:gosec // n > 0
}
