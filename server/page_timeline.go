package server

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/soloist-dev/soloist"
)

// The drawing of a lane: its units are not pixels, for it is stretched to the width of the page.
const (
	laneWidth  = 1000.0
	laneHeight = 24
	leastWidth = 1.5 // of a bar, so that a short run can be seen
	laneJobs   = 20  // on a page
)

var zooms = []struct {
	Name string
	Span time.Duration
}{{"5 min", 5 * time.Minute}, {"15 min", 15 * time.Minute}, {"1 h", time.Hour}, {"6 h", 6 * time.Hour}, {"1 day", 24 * time.Hour}, {"7 days", 7 * 24 * time.Hour}}

// A Timeline is the lanes of a page of jobs.
type Timeline struct {
	Sheet[lane]
	From, To          time.Time
	Live              bool // it ends now
	Ticks             []string
	Zooms             []zoom
	Earlier, Later    string
	NowLink           string
	Span              string
	Width, LaneHeight int
}

// A zoom is a link to another span.
type zoom struct {
	Name, Link string
	Current    bool
}

// A lane is a job.
type lane struct {
	Job      string
	Height   int
	Replicas []subLane
	Doubles  []overlap
	Unkept   float64 // up to where older runs are not kept; 0 if nothing is missing
	Words    string
	NowX     float64
}

// A subLane is a replica in a lane.
type subLane struct {
	Name string
	Y    int
	Bars []bar
}

// A bar is a run, with its lease behind it.
type bar struct {
	X, Width           float64
	LeaseX, LeaseWidth float64
	Class, Title       string
	Doubled            []hatch
}

// A hatch is where a run overlaps another.
type hatch struct{ X, Width float64 }

// RunY and RunHeight are those of a bar in its sub-lane.
func (s subLane) RunY() int { return s.Y + 7 }

// LeaseY is that of the lease behind it.
func (s subLane) LeaseY() int { return s.Y + 3 }

func (v *visit) timeline() (any, error) {
	window, err := v.window()
	if err != nil {
		return nil, err
	}
	jobs := v.jobSheet("/timeline", laneJobs)
	t := &Timeline{From: window.from, To: window.to, Live: window.live, Span: window.name, Width: laneWidth, LaneHeight: laneHeight}
	var lanes []lane
	for _, j := range jobs.Rows {
		lanes = append(lanes, window.lane(j, v.now))
	}
	t.Sheet = sheetOf(jobs, lanes)
	width := window.to.Sub(window.from)
	format := "15:04:05"
	if width >= 24*time.Hour {
		format = "Jan 2 15:04"
	}
	for i := range 5 {
		t.Ticks = append(t.Ticks, window.from.Add(width*time.Duration(i)/4).UTC().Format(format))
	}
	at := func(end time.Time, name string) string {
		text := ""
		if !end.IsZero() && end.Before(v.now) {
			text = fmt.Sprint(end.UnixMilli())
		}
		return link("/timeline", "span", name, "end", text, "q", v.search(), "after", v.URL.Query().Get("after"))
	}
	end := window.to
	if window.live {
		end = time.Time{}
	}
	for _, z := range zooms {
		t.Zooms = append(t.Zooms, zoom{z.Name, at(end, z.Name), z.Name == window.name})
	}
	t.Earlier, t.NowLink = at(window.to.Add(-width/2), window.name), at(time.Time{}, window.name)
	if !window.live {
		t.Later = at(window.to.Add(width/2), window.name)
	}
	return t, nil
}

// A window is the time that a timeline shows.
type window struct {
	name     string
	from, to time.Time
	live     bool
}

// window returns what the query asks for.
func (v *visit) window() (window, error) {
	q := v.URL.Query()
	w := window{name: "15 min", to: v.now}
	if q.Has("span") {
		w.name = q.Get("span")
	}
	length := time.Duration(0)
	for _, z := range zooms {
		if z.Name == w.name {
			length = z.Span
		}
	}
	if length == 0 {
		return w, bad("span", "give one of the links of the page")
	}
	end, err := parameter{name: "end", most: v.now.Add(time.Hour).UnixMilli()}.number(q, 0)
	if err != nil {
		return w, err
	}
	if end > 0 && v.now.Sub(time.UnixMilli(end)) > 0 {
		w.to = time.UnixMilli(end)
	} else {
		w.live = true
		w.to = v.now.Add(length / 20)
	}
	w.from = w.to.Add(-length)
	return w, nil
}

// x returns where an instant is, from 0 to laneWidth.
func (w window) x(t time.Time) float64 {
	x := float64(t.Sub(w.from)) / float64(w.to.Sub(w.from)) * laneWidth
	return min(max(x, 0), laneWidth)
}

// extent returns where a time is drawn, and false if it is outside of the window.
func (w window) extent(from, to time.Time) (x, width float64, shown bool) {
	if !to.After(w.from) || !from.Before(w.to) {
		return 0, 0, false
	}
	x = w.x(from)
	width = max(w.x(to)-x, leastWidth)
	return min(x, laneWidth-leastWidth), width, true
}

func (w window) lane(j soloist.JobInfo, now time.Time) lane {
	l := lane{Job: j.Name}
	if w.live {
		l.NowX = w.x(now)
	}
	all := overlaps(j, now)
	for _, o := range all {
		if _, _, shown := w.extent(o.At, o.At.Add(o.Took)); shown {
			l.Doubles = append(l.Doubles, o)
		}
	}
	bars := map[string][]bar{}
	count := 0
	add := func(replica string, b bar, shown bool) {
		if shown {
			bars[replica] = append(bars[replica], b)
			count++
		}
	}
	for _, r := range j.Runs {
		b, shown := w.bar(r, r.EndedAt, all)
		b.Title = fmt.Sprintf("%s: %s, from %s, took %s, token %d, attempt %d %s", r.Replica, r.Outcome, instant(r.StartedAt), span(r.EndedAt.Sub(r.StartedAt)), r.Token, r.Attempt, r.Error)
		add(r.Replica, b, shown)
	}
	if r := j.Running; r != nil {
		run := soloist.RunRecord{StartedAt: r.Since, EndedAt: now, Token: r.Token, Outcome: "running"}
		b, shown := w.bar(run, now.Add(r.Left), all)
		b.Title = fmt.Sprintf("%s: running since %s, token %d, attempt %d; its lease lasts %s, unless it is renewed", r.Replica(), instant(r.Since), r.Token, r.Attempt, span(r.Left))
		add(r.Replica(), b, shown)
	}
	names := make([]string, 0, len(bars))
	for name := range bars {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		l.Replicas = append(l.Replicas, subLane{name, i * laneHeight, bars[name]})
	}
	l.Height = max(1, len(names)) * laneHeight
	if len(j.Runs) >= 20 {
		l.Unkept = w.x(j.Runs[0].StartedAt)
	}
	l.Words = fmt.Sprintf("%s: %s", j.Name, plural(count, "run"))
	if len(names) > 0 {
		l.Words += " on " + strings.Join(names, ", ")
	}
	return l
}

// bar returns a run whose lease ended, or ends, at leaseEnd.
func (w window) bar(r soloist.RunRecord, leaseEnd time.Time, all []overlap) (b bar, shown bool) {
	b.Class = r.Outcome
	if b.X, b.Width, shown = w.extent(r.StartedAt, r.EndedAt); !shown {
		return b, false
	}
	b.LeaseX, b.LeaseWidth, _ = w.extent(r.StartedAt, leaseEnd)
	for _, o := range all {
		if o.First.Token == r.Token || o.Second.Token == r.Token {
			if x, width, in := w.extent(o.At, o.At.Add(o.Took)); in {
				b.Doubled = append(b.Doubled, hatch{x, width})
			}
		}
	}
	return b, true
}
