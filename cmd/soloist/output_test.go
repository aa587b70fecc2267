package main

import (
	"math"
	"testing"
	"time"
)

// Times that are far away are shown in days, and those without an end as such.
func TestSpans(t *testing.T) {
	for d, want := range map[time.Duration]string{
		1500 * time.Microsecond: "2ms", 90 * time.Second: "1m30s", 47 * time.Hour: "47h0m0s", 50 * time.Hour: "2d2h", 3650 * 24 * time.Hour: "3650d0h",
		math.MaxInt64: "forever",
	} {
		if got := span(d); got != want {
			t.Errorf("%d ns: %s, want %s", int64(d), got, want)
		}
	}
}
