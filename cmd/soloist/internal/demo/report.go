package demo

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// The colours, as terminals know them.
const (
	plain  = "\x1b[0m"
	bold   = "\x1b[1m"
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	cyan   = "\x1b[36m"
)

var markColors = map[rune]string{markRun: green, markTaken: cyan, markPaused: yellow, markStale: red, markKilled: red}

// A paper is what a report is written on. Nothing on it needs colours to be understood.
type paper struct {
	*bufio.Writer
	color bool
}

func (p paper) in(color, text string) string {
	if !p.color || color == "" {
		return text
	}
	return color + text + plain
}

// report writes the timeline, what each replica did, and the audit.
func report(to io.Writer, f *findings, verdicts []verdict, color bool) error {
	p := paper{bufio.NewWriter(to), color}
	p.timeline(draw(f.events))
	p.shares(f.events)
	p.audit(verdicts)
	if err := p.Flush(); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

func (p paper) timeline(t *timeline) {
	fmt.Fprintf(p, "%s\n", p.in(bold, fmt.Sprintf("Timeline, a column is %.1f s", t.step.Seconds())))
	fmt.Fprintf(p, "   %s\n", t.ruler())
	for _, name := range t.names {
		fmt.Fprintf(p, "%-2s %s\n", name, p.lane(t.lanes[name]))
	}
	fmt.Fprintf(p, "   %c run  %c run taken over  %c killed  %c paused  %c stale, refused  %c no run\n\n",
		markRun, markTaken, markKilled, markPaused, markStale, markAlive)
}

// lane colours the stretches of a lane.
func (p paper) lane(lane []rune) string {
	var b strings.Builder
	for begin, i := 0, 0; i <= len(lane); i++ {
		if i == len(lane) || lane[i] != lane[begin] {
			b.WriteString(p.in(markColors[lane[begin]], string(lane[begin:i])))
			begin = i
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// shares reports what each replica did.
func (p paper) shares(events []event) {
	fmt.Fprintf(p, "%s\n", p.in(bold, "replica  runs  taken over  invoices  documents"))
	for _, name := range draw(events).names {
		by := func(wanted func(event) bool) int {
			return count(events, func(e event) bool { return e.Replica == name && wanted(e) })
		}
		fmt.Fprintf(p, "%-7s  %4d  %10d  %8d  %9d\n", name,
			by(ofKind(runStart)),
			by(func(e event) bool { return e.Kind == runStart && e.Attempt > 1 }),
			by(func(e event) bool { return e.accepted() && strings.HasPrefix(e.Path, invoicePaths) }),
			by(ofKind(permitEnd)))
	}
	fmt.Fprintln(p)
}

// shown is how many reasons a failed verdict is given.
const shown = 10

func (p paper) audit(verdicts []verdict) {
	fmt.Fprintln(p, p.in(bold, "Audit"))
	for _, v := range verdicts {
		if v.ok {
			fmt.Fprintf(p, "%s %s\n", p.in(green, "✓"), v.says)
			continue
		}
		fmt.Fprintf(p, "%s %s\n", p.in(red, "✗"), p.in(red, v.says))
		for _, why := range v.against[:min(shown, len(v.against))] {
			fmt.Fprintf(p, "    but %s\n", why)
		}
		if more := len(v.against) - shown; more > 0 {
			fmt.Fprintf(p, "    and %d more\n", more)
		}
	}
}
