package verify

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/soloist-dev/soloist/internal/proof"
)

//go:embed report.html
var reportText string

var reportPage = template.Must(template.New("report").Parse(reportText))

// The timeline shows a part of a run: nobody reads more, and a browser draws no more with ease.
const (
	timelineSpan = 20 * time.Second
	timelineBars = 4000
	timelineWide = 1200
	laneHigh     = 18
)

type lane struct {
	Name string
	Y    int
	Bars []bar
}

type bar struct {
	X, W  float64
	Color int
	Title string
}

type mark struct {
	X     float64
	Title string
	Text  string
}

// HTML writes the report as one page that needs nothing else, with a timeline of who believed to hold what.
func (r *Report) HTML(w io.Writer) error {
	from, until := r.window()
	lanes, marks := r.timeline(from, until)
	return reportPage.Execute(w, map[string]any{
		"Report": r, "Text": r.Text(), "Lanes": lanes, "Marks": marks, "Width": timelineWide + 220, "Height": len(lanes)*laneHigh + 40,
		"Inner": len(lanes) * laneHigh, "From": from.Seconds() - r.start().Seconds(), "Until": until.Seconds() - r.start().Seconds(),
	})
}

func (r *Report) start() time.Duration {
	if len(r.events) == 0 {
		return 0
	}
	return r.events[0].At
}

// window is the part of the run that the timeline shows: the end of its first half, where all is under way.
func (r *Report) window() (from, until time.Duration) {
	if len(r.events) == 0 {
		return 0, timelineSpan
	}
	first, last := r.events[0].At, r.events[len(r.events)-1].At
	from = max(first, first+(last-first)/2-timelineSpan/2)
	return from, min(last, from+timelineSpan) + 1
}

// timeline draws a lane for each thing that is held, but for elements, of which there are too many.
func (r *Report) timeline(from, until time.Duration) ([]lane, []mark) {
	x := func(at time.Duration) float64 {
		return float64(at-from) / float64(until-from) * timelineWide
	}
	colors := map[string]int{}
	lanes := map[string]*lane{}
	bars := 0
	for _, e := range r.events {
		if e.Kind != proof.Belief || e.Until < from || e.At > until || strings.Contains(e.Name, "/element/") || bars >= timelineBars {
			continue
		}
		if _, ok := colors[e.Replica]; !ok {
			colors[e.Replica] = len(colors) % 8
		}
		_, name, _ := strings.Cut(e.Name, "/") // after the namespace
		name, _, _ = strings.Cut(name, "@")
		if lanes[name] == nil {
			lanes[name] = &lane{Name: name}
		}
		bars++
		lanes[name].Bars = append(lanes[name].Bars, bar{
			X: x(max(e.At, from)), W: max(1, x(min(e.Until, until))-x(max(e.At, from))), Color: colors[e.Replica],
			Title: fmt.Sprintf("%s, token %d, for %v", e.Replica, e.Token, (e.Until - e.At).Round(time.Millisecond)),
		})
	}
	var all []lane
	for _, l := range lanes {
		all = append(all, *l)
	}
	slices.SortFunc(all, func(a, b lane) int { return strings.Compare(a.Name, b.Name) })
	for i := range all {
		all[i].Y = i * laneHigh
	}
	var marks []mark
	for _, e := range r.events {
		if e.Kind == proof.Fault && e.Until > 0 && e.Until >= from && e.At <= until {
			text := "‖"
			if Fault(e.Fault) == Kill {
				text = "✗"
			}
			marks = append(marks, mark{X: x(max(e.At, from)), Title: fmt.Sprintf("%s of %s", e.Fault, e.Replica), Text: text})
		}
	}
	return all, marks
}
