package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// A progress tells on standard error how far something long has come: with a bar on a terminal, with a line every now
// and then elsewhere.
type progress struct {
	out      io.Writer
	terminal bool
	whole    time.Duration
	begun    time.Time
	told     time.Duration
	width    int // of what stands on the terminal's line
}

// lineEvery is how often a line is written where there is no terminal.
const lineEvery = 10 * time.Second

// progress begins to report something that takes whole.
func (a *app) progress(whole time.Duration) *progress {
	p := &progress{out: a.errs, whole: whole, begun: time.Now()}
	if f, ok := a.errs.(*os.File); ok {
		info, err := f.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

// show records that at of the whole has passed.
func (p *progress) show(at time.Duration, text string) {
	if !p.terminal {
		if at-p.told >= lineEvery {
			p.told = at
			fmt.Fprintf(p.out, "%v of %v: %s\n", at.Round(time.Second), p.whole, text)
		}
		return
	}
	p.bar(float64(at)/float64(max(p.whole, 1)), fmt.Sprintf("%3.0f s  %s", at.Seconds(), text))
}

// count records that n of all things are done.
func (p *progress) count(n, all int, text string) {
	if p.terminal {
		p.bar(float64(n)/float64(max(all, 1)), text)
		return
	}
	if at := time.Since(p.begun); at-p.told >= lineEvery {
		p.told = at
		fmt.Fprintln(p.out, text)
	}
}

// bar draws the bar, full to a fraction.
func (p *progress) bar(fraction float64, text string) {
	const cells = 30
	full := int(cells * min(fraction, 1))
	line := strings.Repeat("█", full) + strings.Repeat("░", cells-full) + " " + text
	fmt.Fprintf(p.out, "\r%s%s", line, strings.Repeat(" ", max(0, p.width-len(line))))
	p.width = len(line)
}

// end takes the bar away.
func (p *progress) end() {
	if p.terminal && p.width > 0 {
		fmt.Fprintf(p.out, "\r%s\r", strings.Repeat(" ", p.width))
	}
}
