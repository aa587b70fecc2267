package crontab

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// A setting is a key of Options that both formats have, with a scalar value.
type setting struct {
	key string
	set func(o *Options, value string) error
}

// settings are the scalar options. Those of a retry have other names here; YAML has them under "retry".
var settings = []setting{
	{"ttl", func(o *Options, v string) (err error) { o.TTL, err = ttl(v); return }},
	{"at-least", func(o *Options, v string) (err error) { o.AtLeast, err = duration(v, 0); return }},
	{"at-most", func(o *Options, v string) (err error) { o.AtMost, err = duration(v, 1); return }},
	{"jitter", func(o *Options, v string) (err error) { o.Jitter, err = duration(v, 0); return }},
	{"missed", func(o *Options, v string) (err error) {
		o.Missed, err = oneOf(v, MissedSkip, MissedOnce, MissedAll)
		return
	}},
	{"missed-cap", func(o *Options, v string) (err error) { o.MissedCap, err = count(v); return }},
	{"grace", func(o *Options, v string) (err error) { o.Grace, err = duration(v, 1); return }},
	{"crash", func(o *Options, v string) (err error) { o.Crash, err = oneOf(v, CrashTakeOver, CrashGiveUp); return }},
	{"nice", func(o *Options, v string) (err error) { o.Nice, err = niceness(v); return }},
}

var retrySettings = []setting{
	{"attempts", func(o *Options, v string) (err error) { o.Retry.Attempts, err = count(v); return }},
	{"backoff", func(o *Options, v string) (err error) { o.Retry.Backoff, err = duration(v, 1); return }},
	{"max-backoff", func(o *Options, v string) (err error) { o.Retry.MaxBackoff, err = duration(v, 1); return }},
}

func settingOf(list []setting, key string) (setting, bool) {
	i := slices.IndexFunc(list, func(s setting) bool { return s.key == key })
	if i < 0 {
		return setting{}, false
	}
	return list[i], true
}

// maxDuration is the longest time that a lease can last, and enough for everything else.
const maxDuration = store.MaxTTL

// duration reads a duration that is at least atLeast.
func duration(v string, atLeast time.Duration) (time.Duration, error) {
	d, err := time.ParseDuration(v)
	switch {
	case err != nil:
		if _, number := strconv.ParseFloat(v, 64); number == nil {
			return 0, fmt.Errorf("%q has no unit; write %ss, %sm or %sh", v, v, v, v)
		}
		return 0, fmt.Errorf("%q is no duration; write one such as 30s, 5m or 1h30m", v)
	case d < 0, d < atLeast:
		return 0, fmt.Errorf("%s is too short; write a time such as 30s", v)
	case d > maxDuration:
		return 0, fmt.Errorf("%s is too long; at most %v", v, maxDuration)
	}
	return d, nil
}

func ttl(v string) (time.Duration, error) {
	d, err := duration(v, 1)
	if err == nil && d < store.MinTTL {
		return 0, fmt.Errorf("%s is too short; at least %v", v, store.MinTTL)
	}
	return d, err
}

// maxCount bounds attempts and missed runs.
const maxCount = 1_000_000

func count(v string) (int, error) {
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 || n > maxCount {
		return 0, fmt.Errorf("%q is no number from 1 to %d", v, maxCount)
	}
	return n, nil
}

// maxNice is the highest niceness of Unix.
const maxNice = 19

func niceness(v string) (int, error) {
	n, err := strconv.Atoi(v)
	if err != nil || n < 0 || n > maxNice {
		return 0, fmt.Errorf("%q is no niceness from 0 to %d", v, maxNice)
	}
	return n, nil
}

func oneOf[T ~string](v string, values ...T) (T, error) {
	if slices.Contains(values, T(v)) {
		return T(v), nil
	}
	return "", fmt.Errorf("%q is none of %s", v, quoted(values))
}

func quoted[T ~string](values []T) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = string(v)
	}
	return strings.Join(texts, ", ")
}

// agree checks what options mean together; at tells the line of a key.
func (r *report) agree(j *Job, at func(key string) int) {
	if j.AtMost > 0 && j.AtLeast > j.AtMost {
		r.Fail(at("at-least"), "at-least", "%v is longer than at-most, %v; make it shorter or equal", j.AtLeast, j.AtMost)
	}
	if j.MissedCap > 0 && j.Missed != MissedAll {
		r.Fail(at("missed-cap"), "missed-cap", "it means something with missed: all only; remove it, or set that")
	}
	if j.Retry.Attempts == 0 && (j.Retry.Backoff > 0 || j.Retry.MaxBackoff > 0) {
		r.Fail(at("backoff"), "backoff", "it means something with attempts only; set that too")
	}
	if j.Retry.Attempts > 0 && j.Retry.MaxBackoff > 0 && j.Retry.Backoff == 0 {
		r.Fail(at("max-backoff"), "max-backoff", "it means something with backoff only; set that too")
	}
	if j.Retry.MaxBackoff > 0 && j.Retry.Backoff > j.Retry.MaxBackoff {
		r.Fail(at("backoff"), "backoff", "%v is longer than max-backoff, %v; make it shorter or equal", j.Retry.Backoff, j.Retry.MaxBackoff)
	}
	if j.Delay > 0 && j.Missed != "" {
		r.Fail(at("missed"), "missed", "a job with delay misses no times; remove it")
	}
}
