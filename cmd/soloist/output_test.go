package main

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
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

// A text with a tab or a newline in it begins no other cell or row, which could say anything.
func TestCellsStayInTheirColumns(t *testing.T) {
	var out bytes.Buffer
	cells := func(text string) []string { return []string{text, "held"} }
	if err := table(&out, "REASON|STATE", []string{"a\tfree\nb\tfree", ""}, cells); err != nil {
		t.Fatal(err)
	}
	if want := "REASON         STATE\na free b free  held\n-              held\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

// JSON in which characters are escaped means what it would mean without that: also one that takes two escapes.
func TestEscapedJSONMeansTheSame(t *testing.T) {
	for _, text := range []string{"plain", "line\nand\ttab", "\x1b[31m", "\u00ad\u202e\u2028\ufeff", "\U000e0001\U0001f600\U0010ffff", "a\U000e0020b"} {
		for _, output := range []string{"json", "jsonl"} {
			var out bytes.Buffer
			if err := (&app{out: &out, output: output}).encode([]string{text}); err != nil {
				t.Fatal(err)
			}
			var got []string
			if err := json.Unmarshal(out.Bytes(), &got); err != nil || len(got) != 1 || got[0] != text {
				t.Errorf("%s of %q: %s, which is %q, %v", output, text, out.String(), got, err)
			}
			if shown := strings.ReplaceAll(out.String(), "\n", ""); strings.ContainsFunc(shown, unprinted) {
				t.Errorf("%s of %q has unprinted characters: %q", output, text, shown)
			}
		}
	}
}
