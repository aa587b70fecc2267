package verify

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

const ms = time.Millisecond

func grant(replica, holder string, token int64, at, until time.Duration) event {
	return event{Kind: kindAcquire, Replica: replica, Name: "x", Holder: holder, Token: token, TTL: 1000 * ms, At: at, Until: until, Result: granted}
}

func believed(replica string, token int64, at, until time.Duration) event {
	return event{Kind: kindBelief, Replica: replica, Name: "lock/x", Token: token, At: at, Until: until, Limit: 1}
}

// unsafe are the beliefs of the two clients that must be caught.
func unsafe() []event {
	a, b := believed("u1", 1, 0, 10*ms), believed("u2", 2, 5*ms, 15*ms)
	a.Name, b.Name = control, control
	return []event{a, b}
}

func run(events []event) *Report {
	r := &Report{events: append(unsafe(), events...)}
	r.check(Config{Namespace: "n"})
	r.Figures.Grants = 1
	r.judge(Config{})
	return r
}

func TestCheckersFindWhatIsWrong(t *testing.T) {
	release := func(token int64, at, until time.Duration) event {
		return event{Kind: kindRelease, Replica: "a", Name: "x", Holder: "a1", Token: token, At: at, Until: until, Result: okay}
	}
	extend := func(at, until time.Duration) event {
		return event{Kind: kindExtend, Replica: "a", Name: "x", Holder: "a1", Token: 5, TTL: 1000 * ms, At: at, Until: until, Result: okay}
	}
	done := func(token int64, at time.Duration) event {
		return event{Kind: kindDone, Name: "e", Token: token, At: at, Result: okay}
	}
	start := func(token, mark int64, at time.Duration) event {
		return event{Kind: kindStart, Name: "job", Token: token, Mark: mark, At: at}
	}
	end := func(token, mark int64, at time.Duration) event {
		return event{Kind: kindEnd, Name: "job", Token: token, Mark: mark, At: at}
	}
	record := func(token, mark int64, at time.Duration) event {
		return event{Kind: kindRelease, Name: "n/job/job", Token: token, Mark: mark, At: at, Until: at + ms, Result: okay}
	}
	permit := func(replica string, token int64, at, until time.Duration) event {
		e := believed(replica, token, at, until)
		e.Name, e.Limit = "semaphore/sem", 2
		return e
	}
	for name, c := range map[string]struct {
		events []event
		want   string // the checker that finds it, "" for none
	}{
		"nothing":                              {nil, ""},
		"one belief after the other":           {[]event{believed("a", 1, 0, 10*ms), believed("b", 2, 11*ms, 20*ms)}, ""},
		"two beliefs at once":                  {[]event{believed("a", 1, 0, 10*ms), believed("b", 2, 9*ms, 20*ms)}, "overlap"},
		"a belief that is told twice":          {[]event{believed("a", 1, 0, 10*ms), believed("a", 1, 0, 30*ms)}, ""},
		"one belief within another":            {[]event{believed("a", 1, 0, 50*ms), believed("b", 2, 9*ms, 20*ms)}, "overlap"},
		"two permits":                          {[]event{permit("a", 1, 0, 10*ms), permit("b", 2, 5*ms, 20*ms)}, ""},
		"three permits of two":                 {[]event{permit("a", 1, 0, 10*ms), permit("b", 2, 5*ms, 20*ms), permit("c", 3, 7*ms, 8*ms)}, "overlap"},
		"growing tokens":                       {[]event{grant("a", "a1", 5, 0, 5*ms), release(5, 6*ms, 7*ms), grant("b", "b1", 6, 8*ms, 9*ms)}, ""},
		"a token that shrinks":                 {[]event{grant("a", "a1", 5, 0, 5*ms), release(5, 6*ms, 7*ms), grant("b", "b1", 4, 8*ms, 9*ms)}, "token"},
		"a token of two holders":               {[]event{grant("a", "a1", 5, 0, 5*ms), release(5, 6*ms, 7*ms), grant("b", "b1", 5, 4*ms, 9*ms)}, "token"},
		"asking again":                         {[]event{grant("a", "a1", 5, 0, 5*ms), grant("a", "a1", 5, 8*ms, 9*ms)}, ""},
		"grants in flight together":            {[]event{grant("a", "a1", 6, 0, 50*ms), release(6, 20*ms, 30*ms), grant("b", "b1", 5, 10*ms, 19*ms)}, ""},
		"a grant while another's is live":      {[]event{grant("a", "a1", 5, 0, 5*ms), grant("b", "b1", 6, 100*ms, 110*ms)}, "early"},
		"a grant after the TTL":                {[]event{grant("a", "a1", 5, 0, 5*ms), grant("b", "b1", 6, 999*ms, 1010*ms)}, ""},
		"a grant after an extension":           {[]event{grant("a", "a1", 5, 0, 5*ms), extend(900*ms, 910*ms), grant("b", "b1", 6, 1500*ms, 1510*ms)}, "early"},
		"a grant after a release":              {[]event{grant("a", "a1", 5, 0, 5*ms), release(5, 50*ms, 400*ms), grant("b", "b1", 6, 100*ms, 110*ms)}, ""},
		"an element done once, told twice":     {[]event{done(3, 10*ms), done(3, 20*ms)}, ""},
		"an element done twice":                {[]event{done(3, 10*ms), done(4, 20*ms)}, "element"},
		"an element taken up again when done":  {[]event{done(3, 10*ms), {Kind: kindProcess, Name: "e", Token: 4, At: 20 * ms}}, "element"},
		"runs in order":                        {[]event{start(1, 500, 0), end(1, 500, ms), record(1, 500, 2*ms), start(2, 1000, 5*ms), end(2, 1000, 6*ms), record(2, 1000, 7*ms)}, ""},
		"a run that was not recorded is again": {[]event{start(1, 500, 0), end(1, 500, ms), start(2, 500, 5*ms), end(2, 500, 6*ms), record(2, 500, 7*ms)}, ""},
		"a recorded run is run again":          {[]event{start(1, 500, 0), end(1, 500, ms), record(1, 500, 2*ms), start(2, 500, 5*ms)}, "job"},
		"a scheduled time is left out":         {[]event{end(1, 500, ms), record(1, 500, 2*ms), end(2, 1500, 6*ms), record(2, 1500, 7*ms)}, "job"},
	} {
		t.Run(name, func(t *testing.T) {
			r := run(c.events)
			var found []string
			for _, v := range r.Violations {
				found = append(found, v.Checker)
				if len(v.Excerpt) == 0 || v.Text == "" {
					t.Errorf("a violation that says nothing: %+v", v)
				}
			}
			if got := strings.Join(found, ","); got != c.want {
				t.Errorf("found %q, want %q", got, c.want)
			}
			if want := map[bool]Verdict{true: Held, false: Violated}[c.want == ""]; r.Verdict != want {
				t.Errorf("the verdict is %s, want %s", r.Verdict, want)
			}
		})
	}
}

func TestRunThatShowsNothingIsVoid(t *testing.T) {
	r := &Report{}
	r.check(Config{})
	r.Figures.Grants = 1
	if r.judge(Config{}); r.Verdict != Void {
		t.Errorf("the unsafe clients were not caught, and the verdict is %s", r.Verdict)
	}
	r = run(nil)
	r.Figures.Faults = map[Fault]int{Kill: 1}
	if r.judge(Config{Faults: []Fault{Kill, Slow}}); r.Verdict != Void {
		t.Errorf("a fault did not happen, and the verdict is %s", r.Verdict)
	}
}

func TestReportTellsOfViolations(t *testing.T) {
	r := run([]event{believed("a", 1, 0, 10*ms), believed("<script>", 2, 9*ms, 20*ms)})
	if text := r.Text(); !strings.Contains(text, "VIOLATION of overlap") || !strings.Contains(text, "token 2") {
		t.Errorf("the text does not tell of it:\n%s", text)
	}
	var page bytes.Buffer
	if err := r.HTML(&page); err != nil {
		t.Fatal(err)
	}
	if text := page.String(); !strings.Contains(text, "lock/x") || strings.Contains(text, "<script>") {
		t.Errorf("the page lacks the lane or has markup of others in it:\n%s", text)
	}
}

func TestTakeOver(t *testing.T) {
	kill := event{Kind: kindFault, Fault: Kill, Replica: "a", At: 50 * ms, Until: 51 * ms}
	f := figuresOf([]event{grant("a", "a1", 5, 0, 5*ms), kill, grant("b", "b1", 6, 1100*ms, 1200*ms)})
	if f.OfHolders != 1 || f.Takeover.Count != 1 || f.Takeover.Max != 1150*ms {
		t.Errorf("take-over: %+v, kills of holders: %d", f.Takeover, f.OfHolders)
	}
}

func TestParseFaults(t *testing.T) {
	all, err := ParseFaults("all")
	if err != nil || len(all) != 7 {
		t.Errorf("all: %v, %v", all, err)
	}
	if some, err := ParseFaults("pause, kill,pause"); err != nil || len(some) != 3 {
		t.Errorf("pause, kill: %v, %v", some, err)
	}
	if none, err := ParseFaults("none"); err != nil || len(none) != 0 {
		t.Errorf("none: %v, %v", none, err)
	}
	if _, err := ParseFaults("meteor"); err == nil || !strings.Contains(err.Error(), "meteor") {
		t.Errorf("meteor: %v", err)
	}
}
