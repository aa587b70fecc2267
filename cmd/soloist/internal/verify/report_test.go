package verify

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/internal/proof"
	"github.com/soloist-dev/soloist/store"
)

// The text for people has each number of the report in its place.
func TestTextHasEachNumberInItsPlace(t *testing.T) {
	r := &Report{
		Verdict: Void, Void: []string{"the reason"}, Seed: 42, TTL: 3 * time.Second, FirstTTL: time.Second, MostErrors: 0.5,
		Store:   store.Capabilities{Backend: "A Store 1.2", Fencing: store.Promise{Answer: store.Yes, Why: "it grows"}},
		Minimum: []Amount{{"locks", 60, 50}, {"kill", 2, 3}},
		Figures: Figures{
			Seconds: 31.4, Replicas: 6, Errors: 5, ErrorShare: 0.12, OfHolders: 13, Left: 3,
			Faults:   map[Fault]int{Kill: 21, PauseShort: 22, PauseLong: 23, LoseRequest: 24, LoseReply: 25, Repeat: 26, Slow: 1},
			Acquire:  Spread{7, 1234567, 23456789, 345678912},
			Takeover: Spread{},
		},
		Verdicts: proof.Verdict{
			Operations: 101, Grants: 102, Refusals: 103, Unknowns: 104,
			Beliefs: 105, Runs: 106, Elements: 107, Writes: 108, Stale: 109, Unchecked: 4,
		},
	}
	const want = `store          A Store 1.2
fencing        yes: it grows
run            31 s with a TTL of 3s, 6 replicas, seed 42
               it began with 1s, which is less than ten times what the store took to answer
operations     101: 102 grants, 103 refusals, 104 unknown outcomes, 5 errors
work           105 beliefs, 106 runs of a job, 107 elements, 108 writes, 109 of them stale and refused
faults         21 kill (13 of holders), 22 pause-short, 23 pause-long, 24 lose-request, 25 lose-reply, 26 repeat, 1 slow
minimum        60 locks (of 50), 2 kill (of 3); errors 12 % (at most 50 %)
acquire        p50 1.23ms, p99 23ms, at most 346ms, of 7
take-over      none
unchecked      the order of the replies for 4 of the names: too many requests had none, so not all orders can be tried

VOID: the reason

void: this run shows nothing
`
	if text := r.Text(); text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
	r.Figures.Faults, r.FirstTTL, r.Verdicts.Unchecked = nil, r.TTL, 0
	r.Figures.Acquire, r.Figures.Takeover = r.Figures.Takeover, r.Figures.Acquire
	text := r.Text()
	for _, part := range []string{"\nfaults         none\n", "\nacquire        none\n", "\ntake-over      p50 1.23ms, "} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in\n%s", part, text)
		}
	}
	for _, part := range []string{"it began with", "unchecked"} {
		if strings.Contains(text, part) {
			t.Errorf("%q is in\n%s", part, text)
		}
	}
}

// The conclusion is that of the verdict, and counts the violations.
func TestConclusionIsThatOfTheVerdict(t *testing.T) {
	violations := make([]proof.Violation, 3)
	for want, r := range map[string]*Report{
		"held: no violation was found":      {Verdict: Held},
		"void: this run shows nothing":      {Verdict: Void, Void: []string{"it"}},
		"violated: 3 violations were found": {Verdict: Violated, Violations: violations, Void: []string{"it"}},
		"held: no violation was found; the order of the replies could not be checked for 2 of the names": {
			Verdict: Held, Verdicts: proof.Verdict{Unchecked: 2},
		},
	} {
		if text := r.Text(); !strings.HasSuffix(text, "\n\n"+want+"\n") {
			t.Errorf("want %q at the end of\n%s", want, text)
		}
	}
}

// The timeline shows the middle of a long run: who believed what then, and who was killed and paused.
func TestTimelineShowsTheMiddleOfTheRun(t *testing.T) {
	const begin = 100 * time.Second // of the run, which lasts 100 s; from 140 s to 160 s is shown
	second := func(n float64) time.Duration { return begin + time.Duration(n*float64(time.Second)) }
	r := reportOf([]event{
		believed("a", "@n/lock/first", 1, begin, second(1)),
		believed("a", "@n/lock/z@7", 5, second(30), second(45)),
		believed("b", "@n/lock/z@8", 6, second(50), second(70)),
		believed("b", "@n/lock/z@8", 7, second(45.001), second(45.002)),
		believed("a", "@n/element/elements/1", 8, second(50), second(51)),
		asked(proof.Acquire, "a", "@n/lock/asked", 9, second(50), second(51), proof.Granted),
		believed("c", "@n/leader/leader", 10, second(55), second(55.5)),
		believed("a", "@n/lock/last", 11, second(99), second(100)),
		faulted(Kill, "a", second(46), second(46)), faulted(PauseLong, "b", second(39), second(41)),
		faulted(Kill, "c", second(20), second(21)), faulted(PauseShort, "c", second(80), second(81)),
		{Event: proof.Event{Kind: proof.Fault, Fault: string(Slow), Replica: "a", At: second(50)}}, // of one request
		believed("a", "@n/lock/end", 12, second(100), second(100)),
	})
	from, until := r.window()
	if from != second(40) || until != second(60)+1 {
		t.Errorf("it shows from %v to %v", from-begin, until-begin)
	}
	until = second(60)
	lanes, marks := r.timeline(from, until)
	var got []string
	for _, l := range lanes {
		got = append(got, fmt.Sprintf("lane %s at %d", l.Name, l.Y))
		for _, b := range l.Bars {
			got = append(got, fmt.Sprintf("%.1f wide %.1f colour %d: %s", b.X, b.W, b.Color, b.Title))
		}
	}
	for _, m := range marks {
		got = append(got, fmt.Sprintf("%s at %.1f: %s", m.Text, m.X, m.Title))
	}
	want := []string{
		"lane leader/leader at 0", "900.0 wide 30.0 colour 2: c, token 10, for 500ms",
		"lane lock/z at 18",
		"0.0 wide 300.0 colour 0: a, token 5, for 15s",
		"300.1 wide 1.0 colour 1: b, token 7, for 1ms",
		"600.0 wide 600.0 colour 1: b, token 6, for 20s",
		"‖ at 0.0: pause-long of b", "✗ at 360.0: kill of a",
	}
	if !slices.Equal(got, want) {
		t.Errorf("it shows\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	var page bytes.Buffer
	if err := r.HTML(&page); err != nil || !strings.Contains(page.String(), "from 40.0 s to 60.0 s") {
		t.Errorf("the page does not count from the beginning of the run: %v\n%s", err, page.String())
	}
}

// A page draws no more bars than a browser can show with ease, in the colours that it has; a run in which nothing was told has a page, too.
func TestTimelineHasAnEnd(t *testing.T) {
	var events []event
	for i := range 2 * timelineBars {
		events = append(events, believed(fmt.Sprint("r", i), "@n/lock/x", 1, ms, 2*ms))
	}
	lanes, _ := reportOf(events).timeline(0, time.Second)
	if len(lanes) != 1 || len(lanes[0].Bars) != timelineBars {
		t.Errorf("%d lanes, or not %d bars", len(lanes), timelineBars)
	}
	for _, b := range lanes[0].Bars {
		if b.Color < 0 || b.Color > 7 {
			t.Fatalf("there is no colour %d", b.Color)
		}
	}
	r := reportOf(events[:1]) // of a moment
	if from, until := r.window(); from != ms || until != ms+1 {
		t.Errorf("a run of a moment is shown from %v to %v", from, until)
	}
	if err := reportOf(nil).HTML(&bytes.Buffer{}); err != nil {
		t.Errorf("without an event: %v", err)
	}
}

// A full device takes nothing.
type fullDevice struct{}

var errFull = errors.New("no space left on device")

func (fullDevice) Write([]byte) (int, error) { return 0, errFull }

// A history that cannot be written is an error, also if it is short.
func TestHistoryThatCannotBeWritten(t *testing.T) {
	if err := judged().History(fullDevice{}); !errors.Is(err, errFull) {
		t.Errorf("a long history: %v", err)
	}
	if err := reportOf([]event{believed("a", "x", 1, 0, ms)}).History(fullDevice{}); !errors.Is(err, errFull) {
		t.Errorf("a short history: %v", err)
	}
	if err := judged().HTML(fullDevice{}); !errors.Is(err, errFull) {
		t.Errorf("a page: %v", err)
	}
}
