package child

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// calls remembers each write.
type calls struct{ got []string }

func (c *calls) Write(p []byte) (int, error) { c.got = append(c.got, string(p)); return len(p), nil }

func TestLines(t *testing.T) {
	long := strings.Repeat("x", MaxLine)
	cut := strings.Repeat("x", MaxLine-1) + "é"
	for name, row := range map[string]struct {
		writes []string
		want   []string
	}{
		"pieces":             {[]string{"a", "b\nc", "\n", "\nd"}, []string{"ab\n", "c\n", "\n", "d\n"}},
		"unfinished":         {[]string{"a"}, []string{"a\n"}},
		"nothing":            {nil, nil},
		"longest":            {[]string{long + "\n"}, []string{long + "\n"}},
		"too long":           {[]string{long + "y\n"}, []string{long + "\n", "y\n"}},
		"twice as long":      {[]string{long[1:], "x" + long + "z"}, []string{long + "\n", long + "\n", "z\n"}},
		"whole runes":        {[]string{cut + "\n"}, []string{long[1:] + "\n", "é\n"}},
		"one byte of a rune": {[]string{long[1:] + "😀\n"}, []string{long[1:] + "\n", "😀\n"}},
		"three bytes of one": {[]string{long[3:] + "😀\n"}, []string{long[3:] + "\n", "😀\n"}},
		"all bytes of one":   {[]string{long[4:] + "😀y\n"}, []string{long[4:] + "😀\n", "y\n"}},
		"binary":             {[]string{"\x00\xff\n"}, []string{"\x00\xff\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			var c calls
			f := NewFunnel(&c, nil)
			s := f.Stream(nil)
			for _, w := range row.writes {
				if n, err := s.Write([]byte(w)); n != len(w) || err != nil {
					t.Fatal(n, err)
				}
			}
			s.Close()
			if err := f.Close(time.Minute); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(c.got, row.want) {
				t.Errorf("got %d writes %.100q, want %.100q", len(c.got), c.got, row.want)
			}
		})
	}
}

func TestLinesOfManyStreams(t *testing.T) {
	var out bytes.Buffer
	f := NewFunnel(&out, nil)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			s := f.Stream(func(line []byte) []byte { return fmt.Appendf(nil, "[%d] %s", i, line) })
			text := []byte(strings.Repeat(fmt.Sprint(i), 100) + "\n")
			for range 100 {
				for _, b := range text {
					_, _ = s.Write([]byte{b})
				}
			}
		})
	}
	all.Wait()
	if err := f.Close(time.Minute); err != nil {
		t.Fatal(err)
	}
	count := 0
	for line := range strings.Lines(out.String()) {
		count++
		if i := line[1:2]; line != "["+i+"] "+strings.Repeat(i, 100)+"\n" {
			t.Fatalf("mixed: %q", line)
		}
	}
	if count != 800 {
		t.Errorf("%d lines", count)
	}
}

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain\ttext é":               "plain\ttext é",
		"\x1b[1;31mred\x1b[0m":        "red",
		"\x1b]0;title\x07a":           "a",
		"\x1b]0;title\x1b\\a":         "a",
		"\x1b[":                       "",
		"\x1b]open":                   "",
		"a\rb\bc\x00\x7f\u0085\u2028": "abc",
		"\u202eevil":                  "evil",
		"\xff":                        "\ufffd",
		"\x1b[1\x1b[2Kx":              "x",
	} {
		if got := string(Clean([]byte(in))); got != want {
			t.Errorf("Clean(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzLines(f *testing.F) {
	f.Add([]byte("a\nb"), uint(1), true)
	f.Fuzz(func(t *testing.T, in []byte, step uint, clean bool) {
		var out bytes.Buffer
		funnel := NewFunnel(&out, nil)
		var format func([]byte) []byte
		if clean {
			format = Clean
		}
		s := funnel.Stream(format)
		for rest := in; len(rest) > 0; {
			n := int(min(uint(len(rest)), max(step, 1)))
			_, _ = s.Write(rest[:n])
			rest = rest[n:]
		}
		s.Close()
		if err := funnel.Close(time.Minute); err != nil {
			t.Fatal(err)
		}
		want := string(in)
		if want != "" && !strings.HasSuffix(want, "\n") {
			want += "\n"
		}
		if !clean && len(in) < MaxLine && out.String() != want {
			t.Errorf("got %q, want %q", out.String(), want)
		}
		if clean && strings.ContainsAny(out.String(), "\x1b\x00\r") {
			t.Errorf("not clean: %q", out.String())
		}
	})
}
