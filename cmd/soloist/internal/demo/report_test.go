package demo

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

const goodReport = `Timeline, a column is 0.5 s
   0s        5s        10s
a  ·███✗
b  ···········█░░░░░░░!█·
c  ·········▲▲······▲▲···
   █ run  ▲ run taken over  ✗ killed  ░ paused  ! stale, refused  · no run

replica  runs  taken over  invoices  documents
a           2           0         0          0
b           2           0         2          2
c           2           2         0          1

Audit
✓ each scheduled time ran once: 4 of 4 have exactly one completed run (2 of them taken over)
✓ each scheduled time is in the ledger once: 4 of 4
✓ never two runs of the job at once: at most 1, in 6 attempts
✓ each invoice was issued once: 2 of 2, 3.50 EUR
✓ never more than 2 permits at once: at most 2, for 3 documents
✓ the run was taken over 2.8 s after the kill, a by c (TTL 3s)
✓ the run was taken over 2.8 s after the pause, b by c (TTL 3s)
✓ stale writes were rejected by the guard: 1 of 1
✓ tokens only grew: over 6 attempts
✓ nothing is left of 3 processes: no process, no lease, no goroutine
`

func TestReport(t *testing.T) {
	s := good()
	var out strings.Builder
	if err := report(&out, &s.findings, audit(&s.findings), false); err != nil {
		t.Fatal(err)
	}
	if out.String() != goodReport {
		t.Errorf("got\n%s\ninstead of\n%s", out.String(), goodReport)
	}
}

// Colours add nothing that could not be read without them.
func TestReportInColour(t *testing.T) {
	s := good()
	var out strings.Builder
	if err := report(&out, &s.findings, audit(&s.findings), true); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), green+"✓"+plain) {
		t.Error("there is no green mark")
	}
	if got := regexp.MustCompile("\x1b\\[[0-9]+m").ReplaceAllString(out.String(), ""); got != goodReport {
		t.Errorf("without the colours it is\n%s", got)
	}
}

func TestReportOfAFailure(t *testing.T) {
	s := good()
	s.to += 20
	var out strings.Builder
	if err := report(&out, &s.findings, audit(&s.findings), false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\n✗ each scheduled time ran once: 4 of 24", "\n    but " + clock(noon+4) + " has no completed run\n", "\n    and 10 more\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("nothing says %q:\n%s", want, out.String())
		}
	}
}

func TestReportThatCannotBeWritten(t *testing.T) {
	s := good()
	if err := report(broken{}, &s.findings, nil, false); !errors.Is(err, os.ErrClosed) {
		t.Errorf("it answers %v", err)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestTimelineFits(t *testing.T) {
	for _, length := range []time.Duration{0, time.Second, 45 * time.Second, 46 * time.Second, 3 * time.Minute, time.Hour} {
		drawn := draw([]event{{At: time.Second, Replica: "a", Kind: started}, {At: time.Second + length, Replica: "a", Kind: bye}})
		if n := len(drawn.lanes["a"]); n == 0 || n > widest {
			t.Errorf("%v takes %d columns of %v", length, n, drawn.step)
		}
	}
	if empty := draw(nil); len(empty.names) != 0 {
		t.Error("nothing has lanes")
	}
}

func TestNoColorOutranksColor(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	if c, err := (Config{Color: true}).filled(); err != nil || c.Color {
		t.Errorf("%v, %v", c.Color, err)
	}
}
