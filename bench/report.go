package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// A report is all that a run found out.
type report struct {
	Begun    time.Time `json:"begun"`
	Took     string    `json:"took"`
	Machine  string    `json:"machine"`
	Versions []string  `json:"versions"` // of the servers and the modules
	Rounds   int       `json:"rounds"`
	Rows     []*row    `json:"rows"`
	Goals    []goal    `json:"goals"`
	Skipped  []string  `json:"skipped,omitempty"`
}

func machine() string {
	return fmt.Sprintf("%s, %s/%s, %d processors", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
}

// moduleVersions returns the versions of the modules that the contenders come from.
func moduleVersions(backends []backend) []string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	used := map[string]bool{}
	for _, b := range backends {
		for _, s := range b.specs {
			used[s.module] = true
		}
	}
	var all []string
	for _, m := range info.Deps {
		if used[m.Path] {
			all = append(all, m.Path+" "+m.Version)
		}
	}
	slices.Sort(all)
	return all
}

// write puts the report into a directory, as JSON and as a page.
func (r *report) write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "bench.json"), append(text, '\n'), 0o644); err != nil {
		return err
	}
	page, err := os.Create(filepath.Join(dir, "bench.html"))
	if err != nil {
		return err
	}
	defer page.Close()
	if err := pageTemplate.Execute(page, struct {
		*report
		Charts []chart
	}{r, charts(r.Rows)}); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return page.Sync()
}

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{"digits": digits}).Parse(pageText))

// A chart has a bar for each contender.
type chart struct {
	Title, Unit string
	Bars        []bar
	Height      int
}

// A bar has its value, and a whisker from the least to the greatest of the rounds. Places are in px.
type bar struct {
	Label, Text     string
	Ours, Floor     bool
	Y               int
	Width, From, To float64
}

const (
	barHeight = 22
	barsWidth = 520
)

// charts are those of the cases whose ratios or counts say most.
func charts(rows []*row) []chart {
	var all []chart
	for _, group := range groups(rows) {
		first := group[0]
		c := chart{Title: fmt.Sprintf("%s, case %s: %s (%s)", first.Backend, first.Case, about[first.Case], first.What)}
		var values []spread
		for _, r := range group {
			v := spread{Median: r.Typical.Commands}
			switch first.Case {
			case "A", "B", "D":
				v, c.Unit = r.Ratio, "rate ÷ the floor's; longer is better"
			case "C":
				c.Unit = "commands for each change of the owner; shorter is better"
			case "E":
				v.Median, _ = r.Typical.more(perSecond10k)
				c.Unit = "commands a second for 10,000 leases, logarithmic; shorter is better"
			case "H":
				v.Median, _ = r.Typical.more(perReplica)
				c.Unit = "commands for each replica and tick, logarithmic; shorter is better"
			case "M":
				v, c.Unit = spread{Median: r.Typical.Rate}, "elements a second, logarithmic; longer is better"
			}
			values = append(values, v)
			label := r.Contender
			if first.Case == "M" {
				label = r.What
			}
			c.Bars = append(c.Bars, bar{Label: label, Text: digits(v.Median), Ours: r.Ours, Floor: r.Floor})
		}
		c.draw(values)
		all = append(all, c)
	}
	return all
}

// draw places the bars. Those of cases E, H and M differ by orders of magnitude.
func (c *chart) draw(values []spread) {
	scale := func(v float64) float64 { return v }
	if strings.Contains(c.Unit, "logarithmic") {
		scale = func(v float64) float64 { return math.Log10(1 + max(0, v)) }
	}
	longest := 1e-9
	for _, v := range values {
		longest = max(longest, scale(v.Median), scale(v.Max))
	}
	for i := range c.Bars {
		b, v := &c.Bars[i], values[i]
		b.Y = i * barHeight
		b.Width = scale(v.Median) / longest * barsWidth
		b.From, b.To = scale(v.Min)/longest*barsWidth, scale(v.Max)/longest*barsWidth
	}
	c.Height = len(c.Bars) * barHeight
}
