package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestChanges: what the tests of a package notice is not listed, and what they do not is.
func TestChanges(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), options{pkg: "./testdata/sum", atOnce: 1}, &out); err != nil {
		t.Fatal(err)
	}
	want := strings.TrimLeft(`
testdata/sum/sum.go:8:14: never: b < 0 (not reached)
testdata/sum/sum.go:8:5: other where equal: a < 0 (not noticed)
testdata/sum/sum.go:8:14: other where equal: b < 0 (not noticed)
testdata/sum/sum.go:15:39: always the first: min(a, b) (not reached)
testdata/sum/sum.go:15:39: always the second: min(a, b) (not reached)
10 changes: 5 noticed, 50 %; 2 not noticed, 3 not reached by a test
`, "\n")
	if got := out.String(); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// TestUnknownPackage: an error says what the go command says.
func TestUnknownPackage(t *testing.T) {
	if err := run(t.Context(), options{pkg: "./nowhere"}, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("got %v", err)
	}
	if err := run(t.Context(), options{pkg: ".", files: "("}, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "-files") {
		t.Errorf("got %v", err)
	}
}
