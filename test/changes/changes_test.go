package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestChanges: what the tests of a package notice is not listed, and what they do not is, unless those of another package do.
func TestChanges(t *testing.T) {
	for _, test := range []struct {
		packages []string
		tests    string
		want     string
	}{
		{[]string{"./testdata/sum"}, "", `
testdata/sum/sum.go:8:14: never: b < 0 (not reached)
testdata/sum/sum.go:8:5: other where equal: a < 0 (not noticed)
testdata/sum/sum.go:8:14: other where equal: b < 0 (not noticed)
testdata/sum/sum.go:15:39: always the first: min(a, b) (not reached)
testdata/sum/sum.go:15:39: always the second: min(a, b) (not reached)
10 changes: 5 noticed, 50 %; 2 not noticed, 3 not reached by a test
`},
		{[]string{"./testdata/sum", "./testdata/user"}, "", `
testdata/sum/sum.go:8:14: never: b < 0 (not reached)
testdata/sum/sum.go:8:5: other where equal: a < 0 (not noticed)
testdata/sum/sum.go:8:14: other where equal: b < 0 (not noticed)
testdata/sum/sum.go:15:39: always the first: min(a, b) (not noticed)
10 changes: 6 noticed, 60 %; 3 not noticed, 1 not reached by a test
`},
		{[]string{"./testdata/sum", "./testdata/user"}, "Forgotten$", `
testdata/sum/sum.go:8:5: never: a < 0 || b < 0 (not reached)
testdata/sum/sum.go:8:5: always: a < 0 || b < 0 (not reached)
testdata/sum/sum.go:8:5: never: a < 0 (not reached)
testdata/sum/sum.go:8:14: never: b < 0 (not reached)
testdata/sum/sum.go:8:5: other where equal: a < 0 (not reached)
testdata/sum/sum.go:8:14: other where equal: b < 0 (not reached)
testdata/sum/sum.go:9:13: nil: errors.New("below zero") (not reached)
testdata/sum/sum.go:11:9: minus: a + b (not reached)
testdata/sum/sum.go:15:39: always the first: min(a, b) (not noticed)
10 changes: 1 noticed, 10 %; 1 not noticed, 8 not reached by a test
`},
	} {
		var out bytes.Buffer
		if err := run(t.Context(), options{packages: test.packages, tests: test.tests, atOnce: 1}, &out); err != nil {
			t.Fatal(err)
		}
		if got, want := out.String(), strings.TrimLeft(test.want, "\n"); got != want {
			t.Errorf("%v\ngot:\n%s\nwant:\n%s", test.packages, got, want)
		}
	}
}

// TestBadInput: an error names what is wrong. Of a package that is not there it says what the go command says.
func TestBadInput(t *testing.T) {
	for _, test := range []struct {
		o    options
		says string
	}{
		{options{packages: []string{"./nowhere"}}, "nowhere"},
		{options{packages: []string{"../../internal/rand"}}, "../../internal/rand has no tests"},
		{options{packages: []string{"."}, files: "("}, "-files"},
		{options{packages: []string{"."}, tests: "("}, "-tests"},
	} {
		if err := run(t.Context(), test.o, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%+v: got %v, want an error that says %s", test.o, err, test.says)
		}
	}
}
