package demo

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// The marks of the timeline. Of two in the same place the later one of these is shown.
const (
	markNone   = ' ' // no process
	markAlive  = '·'
	markRun    = '█'
	markTaken  = '▲'
	markPaused = '░'
	markStale  = '!'
	markKilled = '✗'
)

var marks = []rune{markNone, markAlive, markRun, markTaken, markPaused, markStale, markKilled}

// widest is how many columns the lanes may have, beside the names.
const widest = 90

// A timeline has a lane per replica, and a column per step.
type timeline struct {
	begin time.Duration
	step  time.Duration
	width int
	names []string
	lanes map[string][]rune
}

// draw makes the timeline of a history.
func draw(events []event) *timeline {
	t := &timeline{step: time.Second / 2, lanes: map[string][]rune{}}
	if len(events) == 0 {
		return t
	}
	t.begin = events[0].At
	length := endOf(events) - t.begin
	for t.width = widest + 1; t.width > widest; {
		if t.width = int(length/t.step) + 1; t.width > widest {
			t.step *= 2
		}
	}
	t.lives(events)
	t.runs(events)
	t.incidents(events)
	return t
}

// lives draws who is alive from when to when.
func (t *timeline) lives(events []event) {
	for _, e := range events {
		switch e.Kind {
		case started:
			t.names = append(t.names, e.Replica)
			t.lanes[e.Replica] = slices.Repeat([]rune{markNone}, t.width)
			t.mark(e.Replica, e.At, t.begin+time.Duration(t.width)*t.step, markAlive)
		case killed, bye:
			t.clear(e.Replica, e.At+t.step)
		}
	}
	slices.Sort(t.names)
}

func (t *timeline) runs(events []event) {
	ends := map[grant]time.Duration{}
	for _, e := range events {
		if e.Kind == runEnd {
			ends[grant{e.Replica, e.Token}] = e.At
		}
	}
	for _, e := range events {
		if e.Kind != runStart {
			continue
		}
		mark := markRun
		if e.Attempt > 1 {
			mark = markTaken
		}
		t.mark(e.Replica, e.At, max(e.At, ends[grant{e.Replica, e.Token}]), mark)
	}
}

func (t *timeline) incidents(events []event) {
	stopped := map[string]time.Duration{}
	for _, e := range events {
		switch {
		case e.Kind == killed:
			t.mark(e.Replica, e.At, e.At, markKilled)
		case e.Kind == paused:
			stopped[e.Replica] = e.At
		case e.Kind == resumed:
			t.mark(e.Replica, stopped[e.Replica], e.At, markPaused)
		case e.Kind == runEnd && e.Err != "":
			t.mark(e.Replica, e.At, e.At, markStale)
		}
	}
}

// mark puts a mark wherever no later one of marks is.
func (t *timeline) mark(name string, from, to time.Duration, mark rune) {
	lane := t.lanes[name]
	for i := t.column(from); i <= t.column(to) && i < len(lane); i++ {
		if slices.Index(marks, mark) > slices.Index(marks, lane[i]) {
			lane[i] = mark
		}
	}
}

// clear ends a lane.
func (t *timeline) clear(name string, from time.Duration) {
	lane := t.lanes[name]
	for i := max(0, t.column(from)); i < len(lane); i++ {
		lane[i] = markNone
	}
}

func (t *timeline) column(at time.Duration) int { return int((at - t.begin) / t.step) }

// ruler reports every ten columns how many seconds have passed.
func (t *timeline) ruler() string {
	var b strings.Builder
	for i := 0; i < t.width; i += 10 {
		fmt.Fprintf(&b, "%-10s", fmt.Sprintf("%.0fs", (time.Duration(i)*t.step).Seconds()))
	}
	return strings.TrimRight(b.String(), " ")
}
