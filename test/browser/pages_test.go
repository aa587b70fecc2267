package browser

import (
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/soloist-dev/soloist/test/servers"
)

// pages are all pages, and what each must show of a store that was filled.
var pages = []struct{ path, shows string }{
	{"/", "What to look at"},
	{"/timeline", "worker-1"},
	{"/timeline?span=7+days", "close-month"},
	{"/jobs", "Closes the books"},
	{"/job?name=close-month", "at 03:00"},
	{"/job?name=import", "running"},
	{"/job?name=" + url.QueryEscape(hostile), "failed at " + hostile},
	{"/locks", "lock-000"},
	{"/locks?after=lock-099", "lock-149"},
	{"/semaphores", "permit 0"},
	{"/elements", "invoices"},
	{"/elements?job=invoices", "no paper"},
	{"/elements?job=invoices&state=claimed", "4711"},
	{"/leaders", "importer"},
	{"/replicas", "1.4.2"},
	{"/store", "fencing"},
	{"/audit", "trigger"},
}

// Each page shows what it is for, in light and dark, wide and narrow; no script of a name runs, no page is wider than the screen, nothing is asked
// of another host, the browser does not complain, and axe finds nothing serious.
func TestPages(t *testing.T) {
	s := open(t, false)
	s.fill()
	axe := string(servers.AxeCore(t))
	b := s.browse()
	for scheme, width := range map[string]int64{"light": 1200, "dark": 360} {
		b.scheme(scheme)
		b.size(width, 800)
		for _, p := range pages {
			b.visit(p.path)
			if text := b.text(); !strings.Contains(text, p.shows) {
				t.Errorf("%s: no %q in %q", p.path, p.shows, text)
			}
			if wide := eval[int64](b, `document.documentElement.scrollWidth`); wide > width {
				t.Errorf("%s: %d wide on a screen of %d", p.path, wide, width)
			}
			if title := eval[string](b, `document.title`); strings.Contains(title, "pwned") && !strings.Contains(title, "<script>") {
				t.Errorf("%s: a script in a name has run: %q", p.path, title)
			}
			if found := b.serious(axe); len(found) > 0 {
				t.Errorf("%s, %s, %d wide: %s", p.path, scheme, width, strings.Join(found, "\n"))
			}
		}
	}
	// Not within main, which is replaced when something changes.
	b.run(chromedp.Evaluate(`document.body.append(document.createElement("img"))`, nil))
	if len(b.serious(axe)) == 0 {
		t.Error("axe does not find an image without words")
	}
	complaints, hosts := b.faults.report()
	if len(complaints) > 0 {
		t.Errorf("the browser complains: %q", complaints)
	}
	if len(hosts) != 1 || !strings.HasSuffix(s.url, hosts[0]) {
		t.Errorf("requests to %q", hosts)
	}
	b.scheme("dark")
	b.visit("/")
	dark := eval[string](b, `getComputedStyle(document.body).backgroundColor`)
	b.scheme("light")
	if light := eval[string](b, `getComputedStyle(document.body).backgroundColor`); light == dark {
		t.Errorf("light and dark are the same: %s", light)
	}
}

// serious returns what axe finds that is serious or critical.
func (b *tab) serious(axe string) (found []string) {
	b.t.Helper()
	b.run(chromedp.Evaluate(axe+";null", nil))
	script := `axe.run(document, {resultTypes: ["violations"]}).then((r) => r.violations.filter((v) => v.impact === "serious" || v.impact === "critical")
		.map((v) => v.id + ": " + v.help + ": " + v.nodes.slice(0, 3).map((n) => n.html + " " + n.failureSummary).join(" | ")))`
	b.run(chromedp.Evaluate(script, &found, awaiting))
	return found
}

// Without JavaScript all pages show the same, and their links lead on.
func TestWithoutJavaScript(t *testing.T) {
	s := open(t, false)
	s.fill()
	b := s.browse()
	b.run(emulation.SetScriptExecutionDisabled(true))
	for _, p := range pages {
		b.run(chromedp.Navigate(s.url + p.path))
		s.until(p.path+" shows "+p.shows, func() bool {
			text := ""
			err := b.try(chromedp.Text("body", &text, chromedp.ByQuery))
			return err == nil && strings.Contains(text, p.shows)
		})
	}
	b.run(chromedp.Navigate(s.url+"/"), chromedp.Click(`nav a[href="/locks"]`, chromedp.ByQuery), chromedp.WaitVisible(`a[rel=next]`, chromedp.ByQuery),
		chromedp.Click(`a[rel=next]`, chromedp.ByQuery), chromedp.WaitVisible(`a[rel=first]`, chromedp.ByQuery))
}
