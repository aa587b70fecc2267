package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// A page of another site changes nothing and reads nothing, by a form or by a script, also under its own name that resolves to the address of the service.
func TestOtherSitesInABrowser(t *testing.T) {
	s := open(t, false)
	s.fill()
	own, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	form := fmt.Sprintf(`<title>evil</title><form method="post" action="%s/act"><input name="verb" value="pause"><input name="kind" value="job">
		<input name="name" value="import"><input name="reason" value="evil"></form>`, s.url)
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(form))
	}))
	defer evil.Close()
	elsewhere, err := url.Parse(evil.URL)
	if err != nil {
		t.Fatal(err)
	}
	paused := func() bool {
		job, err := s.client.Admin().Job(t.Context(), "import")
		s.must(nil, err)
		return job.Paused != nil
	}
	pause := fmt.Sprintf(`fetch("%s/act", {method: "POST", mode: "no-cors", credentials: "include",
		body: new URLSearchParams({verb: "pause", kind: "job", name: "import", reason: "script"})}).then(() => "sent")`, s.url)
	act := func(b *tab, script string) (got string) {
		t.Helper()
		b.run(chromedp.Evaluate(script, &got, awaiting))
		return got
	}
	b := s.browse(chromedp.Flag("host-resolver-rules", "MAP *.example 127.0.0.1"))

	b.run(chromedp.Navigate("http://evil.example:" + elsewhere.Port()))
	if got := act(b, pause); got != "sent" || paused() {
		t.Errorf("a script of another site: %s, paused: %t", got, paused())
	}
	for _, path := range []string{"/v1/locks", "/locks", "/metrics"} {
		if got := act(b, fmt.Sprintf(`fetch("%s%s").then((r) => r.text(), () => "refused")`, s.url, path)); got != "refused" {
			t.Errorf("another site reads %s: %s", path, got)
		}
	}
	b.run(chromedp.Submit("form", chromedp.ByQuery))
	b.untilTrue("the form of another site is refused", `document.body.innerText.includes("cross-site")`)
	if paused() {
		t.Error("a form of another site has paused a job")
	}

	b.run(chromedp.Navigate("http://rebound.example:" + own.Port() + "/locks"))
	if text := b.text(); !strings.Contains(text, `"code":"host"`) {
		t.Errorf("a name of another site: %s", text)
	}

	b.visit("/job?name=import")
	if got := act(b, pause); got != "sent" || !paused() {
		t.Errorf("the same script on a page of the service: %s, paused: %t", got, paused())
	}
}
