package proof

import (
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// TestEventText shows how events read.
func TestEventText(t *testing.T) {
	for want, e := range map[string]Event{
		"0s…1s a acquire n by a, token 1, TTL 10s: granted":                                      acquire(0, s, "a", 1, Granted),
		"2s… a acquire n by a, TTL 10s: unknown":                                                 untold(acquire(2*s, 3*s, "a", 1, Granted)),
		"2s a release n by a, token 1: ok":                                                       release(2*s, 2*s, "a", 1, Okay),
		"2s  forced n, token 1":                                                                  forced(2*s, 1),
		"2s  fault  crash":                                                                       {Kind: Fault, At: 2 * s, Fault: "crash"},
		"1s…2s  run job, token 1, mark 10000, attempt 1, recorded at 3s: ok":                     run(10*s, s, 2*s, 1, Okay, 3*s),
		"1s…2s a release n by a, token 1, mark 5, linger 4s, state 7: ok":                        stated(marked(lingers(release(s, 2*s, "a", 1, Okay), 4*s), 5), 7<<48),
		"1s…2s r acquire n by -, mark -1, record's mark 5, TTL 1s: done":                         looked(s, 2*s, 5),
		"0s…2s a acquire n by a, token 1, TTL 10s: granted":                                      did(acquire(0, 2*s, "a", 1, Granted), Granted),
		"0s… a acquire n by a, TTL 10s: unknown (took effect at 1s: granted token 1)":            untold(did(acquire(0, 2*s, "a", 1, Granted), Granted)),
		"0s…2s a acquire n by a, token 2, TTL 10s: granted (took effect at 1s: granted token 1)": with(did(acquire(0, 2*s, "a", 1, Granted), Granted), func(e *Event) { e.Token = 2 }),
		"0s…2s a extend n by a, token 1, TTL 10s: lost (took effect at 1s: ok token 1)":          did(extend(0, 2*s, "a", 1, Lost), Okay),
		"0s…2s a acquire n by a, token 1, TTL 10s: held (took effect at 1s: done)":               with(did(acquire(0, 2*s, "a", 1, Held), Done), func(e *Event) { e.DidToken = 0 }),
	} {
		if got := e.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestOrder: what is at one instant stays in its order.
func TestOrder(t *testing.T) {
	h := History{acquire(2*s, 3*s, "a", 1, Granted), acquire(s, 3*s, "b", 1, Held), acquire(s, 3*s, "c", 1, Held), acquire(0, 3*s, "d", 1, Held), acquire(s, 3*s, "e", 1, Held), acquire(2*s, 3*s, "f", 1, Held)}
	of := func(h History) (holders string) {
		for _, e := range h {
			holders += e.Holder
		}
		return holders
	}
	if got := of(h.byBegin()); got != "dbceaf" || of(h) != "abcdef" {
		t.Errorf("%s, of %s", got, of(h))
	}
	if sorted := h.byBegin(); &sorted.byBegin()[0] != &sorted[0] {
		t.Error("what is in order is copied")
	}
}

// A fullDisk takes so many bytes.
type fullDisk int

var errFull = errors.New("no space left")

func (d *fullDisk) Write(p []byte) (int, error) {
	if *d -= fullDisk(len(p)); *d < 0 {
		return 0, errFull
	}
	return len(p), nil
}

// TestLines writes and reads histories as lines of JSON.
func TestLines(t *testing.T) {
	h := slices.Repeat(History{stated(did(acquire(s, 2*s, "a", 1, Granted), Granted), 7), untold(extend(2*s, 3*s, "a", 1, Okay)), forced(3*s, 1)}, 100)
	h = h.byBegin()
	var lines strings.Builder
	n, err := h.WriteTo(&lines)
	if err != nil || int(n) != lines.Len() || strings.Count(lines.String(), "\n") != len(h) {
		t.Fatalf("%d bytes, %v, and %d are there", n, err, lines.Len())
	}
	cut, _ := strings.CutSuffix(lines.String(), "\n")
	for text, want := range map[string]History{lines.String(): h, cut: h, cut[:len(cut)-1]: h[:len(h)-1], "": nil} {
		if got, err := Read(strings.NewReader(text)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%d events and %v, want %d", len(got), err, len(want))
		}
	}
	for _, room := range []fullDisk{0, fullDisk(n / 2), fullDisk(n - 1)} {
		if _, err := h.WriteTo(&room); !errors.Is(err, errFull) {
			t.Errorf("%v, and the disk was full", err)
		}
	}
	if _, err := h[:1].WriteTo(new(fullDisk)); !errors.Is(err, errFull) || !strings.HasPrefix(err.Error(), "writing a history: ") {
		t.Errorf("%v, and the disk was full from the beginning", err)
	}
	if got, err := Read(io.MultiReader(strings.NewReader(lines.String()), iotest.ErrReader(errFull))); got != nil || !errors.Is(err, errFull) {
		t.Errorf("%d events and %v, and the disk could not be read", len(got), err)
	}
}

// TestFigures counts what is in a history, and adds it up.
func TestFigures(t *testing.T) {
	other := func(k Kind, r Result) Event {
		return Event{Kind: k, Name: "x", At: s, Until: 2 * s, Token: 1, Result: r}
	}
	one := Check(History{
		acquire(0, s, "a", 1, Granted), acquire(2*s, 3*s, "b", 1, Held), marked(extend(2*s, 3*s, "a", 1, Okay), 5), with(marked(acquire(4*s, 5*s, "b", 0, Done), 5), func(e *Event) { e.Seen = 5 }), untold(release(5*s, 6*s, "a", 1, Okay)),
		belief(s, 2*s, "a", 1), other(Run, Okay), other(Run, Failed), other(Element, Okay), other(Write, Okay), other(Write, Stale), other(Write, Okay),
		{Kind: Fault, Fault: "crash"}, {Kind: Fault, Fault: "cut"}, {Kind: Fault, Fault: "crash"},
	}, Rules{})
	bad := Violation{FencedResource, "x", "token 1 was refused as stale, after 1", History{other(Write, Okay), other(Write, Stale)}}
	want := Verdict{Histories: 1, Operations: 5, Grants: 1, Refusals: 2, Unknowns: 1, Beliefs: 1, Runs: 2, Elements: 1, Writes: 3, Stale: 1,
		Faults: map[string]int{"crash": 2, "cut": 1}, Violations: []Violation{bad}}
	if !reflect.DeepEqual(one, want) {
		t.Errorf("%+v\nwant %+v", one, want)
	}
	one.Unchecked = 4
	var sum Verdict
	sum.Add(one)
	sum.Add(one)
	want = Verdict{Histories: 2, Operations: 10, Grants: 2, Refusals: 4, Unknowns: 2, Beliefs: 2, Runs: 4, Elements: 2, Writes: 6, Stale: 2,
		Faults: map[string]int{"crash": 4, "cut": 2}, Unchecked: 8, Violations: []Violation{bad, bad}}
	if !reflect.DeepEqual(sum, want) {
		t.Errorf("%+v\nwant %+v", sum, want)
	}
	const text = `2 histories, 10 operations: 2 grants, 4 refusals, 2 unknown outcomes
2 beliefs, 4 runs, 2 elements, 6 guarded writes of which 2 stale ones were refused
faults: crash 4; cut 2;
8 unchecked, 2 violations`
	if sum.String() != text {
		t.Errorf("%s\nwant %s", sum, text)
	}
	const found = `fenced resource: x: token 1 was refused as stale, after 1
    1s…2s  write x, token 1: ok
    1s…2s  write x, token 1: stale`
	if bad.String() != found {
		t.Errorf("%s\nwant %s", bad, found)
	}
	h := History{acquire(0, s, "a", 1, Held)}
	if v := Check(append(h, acquire(0, Never, "b", 0, Unknown)), Rules{Steps: 1}); v.Unchecked != 1 || len(v.Violations) > 0 {
		t.Errorf("%d unchecked, %v", v.Unchecked, v.Violations)
	}
}
