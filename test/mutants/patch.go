package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A hunk is one change: lines that are there, and those in their place.
type hunk struct{ before, after []string }

// parse reads a unified diff. Line numbers in it are not heeded: a hunk is found by its lines.
func parse(diff string) (map[string][]hunk, error) {
	files := map[string][]hunk{}
	name := ""
	for _, line := range strings.Split(strings.TrimSuffix(diff, "\n"), "\n") {
		hunks := files[name]
		switch {
		case strings.HasPrefix(line, "--- "):
		case strings.HasPrefix(line, "+++ b/"):
			name = strings.TrimPrefix(line, "+++ b/")
		case strings.HasPrefix(line, "@@ ") && name != "":
			files[name] = append(hunks, hunk{})
		case len(hunks) == 0:
			return nil, fmt.Errorf("the patch is not a unified diff: %q", line)
		default:
			h := &hunks[len(hunks)-1]
			kind, text := byte(' '), ""
			if line != "" {
				kind, text = line[0], line[1:]
			}
			if kind != '+' {
				h.before = append(h.before, text)
			}
			if kind != '-' {
				h.after = append(h.after, text)
			}
		}
	}
	if len(files) == 0 {
		return nil, errors.New("the patch changes nothing")
	}
	return files, nil
}

// patched returns a text with the hunks applied. Each has to fit in exactly one place.
func patched(text string, hunks []hunk) (string, error) {
	lines := strings.Split(text, "\n")
	for _, h := range hunks {
		var places []int
		for i := range len(lines) - len(h.before) + 1 {
			if slices.Equal(lines[i:i+len(h.before)], h.before) {
				places = append(places, i)
			}
		}
		if len(places) != 1 {
			return "", fmt.Errorf("the lines around %q are there %d times", strings.TrimSpace(h.before[len(h.before)/2]), len(places))
		}
		lines = slices.Replace(lines, places[0], places[0]+len(h.before), h.after...)
	}
	return strings.Join(lines, "\n"), nil
}
