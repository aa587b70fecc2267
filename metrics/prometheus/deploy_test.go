package prommetrics_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/soloist-dev/soloist"
	prommetrics "github.com/soloist-dev/soloist/metrics/prometheus"
	"github.com/soloist-dev/soloist/test/servers"
)

const (
	rulesFile     = "../../deploy/prometheus/soloist.rules.yml"
	rulesTests    = "../../deploy/prometheus/soloist.rules_test.yml"
	dashboardFile = "../../deploy/grafana/soloist.json"
)

// Each alert fires when it should and not otherwise, by the tests of rules beside them.
func TestAlertRules(t *testing.T) {
	promtool := servers.Program(t, "promtool", "promtool")
	for _, args := range [][]string{{"check", "rules", rulesFile}, {"test", "rules", rulesTests}} {
		if out, err := exec.Command(promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	tests := read(t, rulesTests)
	for _, alert := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(read(t, rulesFile), -1) {
		if strings.Count(tests, alert[1]) < 2 {
			t.Errorf("%s has no test for when it fires, or for when it does not", alert[1])
		}
	}
}

// Grafana itself cannot be had here: what is checked is that the queries are PromQL, of metrics and labels that exist, and that panels do not
// overlap.
func TestDashboard(t *testing.T) {
	var board struct {
		Panels []struct {
			ID      int
			Title   string
			Type    string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr, LegendFormat string }
		}
		Templating struct {
			List []struct{ Name, Definition string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, dashboardFile)), &board); err != nil {
		t.Fatal(err)
	}
	taken := map[[2]int]string{}
	ids := map[int]bool{}
	var queries []string
	for _, p := range board.Panels {
		if ids[p.ID] {
			t.Errorf("%s: another panel has the ID %d", p.Title, p.ID)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("%s: overlaps with %q, or with the edge", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("%s has no query", p.Title)
		}
		for _, target := range p.Targets {
			queries = append(queries, target.Expr)
			for _, label := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(target.LegendFormat, -1) {
				if !regexp.MustCompile(`by \([^)]*\b` + label[1] + `\b`).MatchString(target.Expr) {
					t.Errorf("%s: the legend has %s, and the query does not", p.Title, label[1])
				}
			}
		}
	}
	checkPromQL(t, queries)
	for _, v := range board.Templating.List {
		queries = append(queries, v.Definition)
	}
	checkSeries(t, "the dashboard", strings.Join(queries, "\n"))
	checkSeries(t, "the rules", read(t, rulesFile))
	checkSeries(t, "the tests of rules", read(t, rulesTests))
	checkSeries(t, "the page", read(t, "../../docs/operate/metrics.md"))
}

// checkPromQL checks the syntax of queries, with numbers in place of Grafana's variables.
func checkPromQL(t *testing.T, queries []string) {
	t.Helper()
	type rule struct {
		Record string `json:"record"`
		Expr   string `json:"expr"`
	}
	var rules []rule
	for _, query := range queries {
		rules = append(rules, rule{"a:b:c", strings.NewReplacer("$__rate_interval", "5m", "$__range", "6h", "$task", ".*").Replace(query)})
	}
	text, err := json.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}}) // JSON is YAML
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "dashboard.yml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(servers.Program(t, "promtool", "promtool"), "check", "rules", "--lint=none", file).CombinedOutput()
	if err != nil {
		t.Errorf("promtool: %v\n%s", err, out)
	}
}

var (
	named    = regexp.MustCompile(`\b(soloist_[a-z_]+)(?:\{([^}]*)\})?`)
	selected = regexp.MustCompile(`(\w+)(?:=~|!=|!~|=)"`)
)

// checkSeries checks that the metrics that text names exist, with the labels by which it selects them.
func checkSeries(t *testing.T, where, text string) {
	t.Helper()
	all := series(t)
	matches := named.FindAllStringSubmatch(text, -1)
	if len(matches) < 8 {
		t.Errorf("%s names only %d metrics", where, len(matches))
	}
	for _, m := range matches {
		labels, exists := all[m[1]]
		if !exists {
			t.Errorf("%s: there is no metric %s", where, m[1])
			continue
		}
		for _, label := range selected.FindAllStringSubmatch(m[2], -1) {
			if !slices.Contains(labels, label[1]) && label[1] != "instance" {
				t.Errorf("%s: %s has no label %s, only %v", where, m[1], label[1], labels)
			}
		}
	}
}

// ofCron are the metrics that soloist cron has beside those of its client. Its own test sees that it has them.
var ofCron = []string{"soloist_cron_waiting_runs", "soloist_cron_longest_wait_seconds"}

// series returns the labels of all series that a client or soloist cron can have.
func series(t *testing.T) map[string][]string {
	t.Helper()
	m := prommetrics.New(prommetrics.Options{})
	job := soloist.Subject{Kind: soloist.KindJob, Name: "x"}
	lock := soloist.Subject{Kind: soloist.KindLock, Name: "x"}
	for _, e := range []soloist.Event{
		{Kind: soloist.EventRequest, Verb: soloist.VerbAcquire, Outcome: "ok", Size: 1},
		{Kind: soloist.EventGranted, Subject: lock}, {Kind: soloist.EventMissed, Subject: job, Missed: 1},
		{Kind: soloist.EventRunStart, Subject: job, Attempt: 1}, {Kind: soloist.EventRunEnd, Subject: job, Outcome: soloist.OutcomeOK},
		{Kind: soloist.EventRunEnd, Subject: job, Outcome: soloist.OutcomeFailed},
	} {
		m.Observe(background, e)
	}
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(m)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for _, name := range ofCron {
		all[name] = nil
	}
	for _, f := range families {
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		all[f.GetName()] = labels
		if f.GetMetric()[0].GetHistogram() != nil {
			all[f.GetName()+"_count"], all[f.GetName()+"_sum"], all[f.GetName()+"_bucket"] = labels, labels, append(labels, "le")
		}
	}
	return all
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
