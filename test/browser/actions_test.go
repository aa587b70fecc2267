package browser

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

func awaiting(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }

// submit fills in and sends the form with a verb and a name.
func (b *tab) submit(verb, name, reason string) {
	b.t.Helper()
	script := fmt.Sprintf(`(() => {
		const form = [...document.querySelectorAll("form[action='/act']")].find((f) => f.elements.verb.value === %q && f.elements.name.value === %q);
		if (!form) return false;
		form.closest("details")?.setAttribute("open", "");
		if (form.elements.reason) form.elements.reason.value = %q;
		form.requestSubmit();
		return true;
	})()`, verb, name, reason)
	if !eval[bool](b, script) {
		b.t.Fatalf("no form to %s %s in %q", verb, name, b.text())
	}
}

// Every action works, is in the audit, and is shown.
func TestActions(t *testing.T) {
	s := open(t, false)
	s.fill()
	b := s.browse()
	shows := func(text string) {
		t.Helper()
		b.untilTrue("the page shows "+text, fmt.Sprintf(`document.body.innerText.includes(%q)`, text))
	}
	b.visit("/job?name=close-month")
	b.submit("trigger", "close-month", "")
	shows("by hand")
	b.visit("/job?name=close-month")
	b.submit("pause", "close-month", "the month is long")
	shows("the month is long")
	b.submit("resume", "close-month", "")
	b.untilTrue("it is resumed", `!document.body.innerText.includes("the month is long")`)
	b.visit("/job?name=import")
	b.submit("release", "import", "it hangs")
	shows("it hangs")
	for _, a := range []struct{ path, name string }{{"/locks", "lock-007"}, {"/leaders", "importer"}, {"/semaphores", "pdf"}, {"/elements?job=invoices", "4711"}} {
		b.visit(a.path)
		b.submit("release", a.name, "stuck at "+a.name)
		b.untilTrue(a.name+" is released", fmt.Sprintf(`![...document.querySelectorAll("input[name=name]")].some((i) => i.value === %q && i.form.elements.verb.value === "release")`, a.name))
	}
	b.visit("/elements?job=invoices")
	b.submit("retry", "4712", "")
	b.untilTrue("it can be tried again", `!document.body.innerText.includes("no paper")`)
	b.visit("/audit")
	text := b.text()
	for _, want := range []string{"the month is long", "it hangs", "stuck at lock-007", "stuck at importer", "stuck at pdf", "stuck at 4711", "resume job", "trigger job", "retry element"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in the audit: %s", want, text)
		}
	}
}

// A release with a token that is not the lease's any more is refused in words, and changes nothing.
func TestStaleRelease(t *testing.T) {
	s := open(t, false)
	l, err := s.client.TryLock(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	b := s.browse()
	b.visit("/locks")
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	if l, err = s.client.TryLock(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	b.run(chromedp.Evaluate(fmt.Sprintf(`(() => { const f = document.querySelector("form[action='/act']"); f.closest("details").open = true; f.elements.token.value = "%d"; f.elements.reason.value = "old"; f.requestSubmit(); })()`, l.Token()-1), nil))
	b.untilTrue("it is refused", `document.querySelector("[role=alert]")?.innerText.includes("is not held with token")`)
	if l.Err() != nil {
		t.Error("the lease is lost")
	}
}

// A change is shown without being asked for.
func TestLive(t *testing.T) {
	s := open(t, false)
	b := s.browse()
	b.visit("/locks")
	b.untilTrue("it is live", `document.querySelector("#live.on")`)
	l, err := s.client.TryLock(t.Context(), "close-month")
	if err != nil {
		t.Fatal(err)
	}
	b.untilTrue("the lock is shown", `document.querySelector("main").innerText.includes("close-month")`)
	b.run(chromedp.Click("details summary", chromedp.ByQuery), chromedp.SendKeys("input[name=reason]", "being typed", chromedp.ByQuery))
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	b.run(chromedp.Sleep(0))
	if got := eval[string](b, `document.querySelector("input[name=reason]").value`); got != "being typed" {
		t.Errorf("what was typed has become %q", got)
	}
	b.run(chromedp.Evaluate(`document.querySelector("input[name=reason]").blur(); document.querySelector("details").open = false`, nil))
	s.must(s.client.TryLock(t.Context(), "another"))
	b.untilTrue("the other lock is shown", `document.querySelector("main").innerText.includes("another") && !document.querySelector("main").innerText.includes("close-month")`)
}

// What somebody begins to type while the page is being read anew stays: the answer comes after the form was opened.
func TestTypedTextStays(t *testing.T) {
	s := open(t, false)
	s.must(s.client.TryLock(t.Context(), "close-month"))
	b := s.browse()
	b.visit("/locks")
	b.untilTrue("it is live", `document.querySelector("#live.on")`)
	b.untilTrue("the lock is shown", `document.querySelector("main").innerText.includes("close-month")`)
	b.run(chromedp.Evaluate(`(() => {
		const ask = window.fetch, parse = DOMParser.prototype.parseFromString;
		window.fetch = (...args) => new Promise((go) => { window.go = go; }).then(() => ask(...args));
		DOMParser.prototype.parseFromString = function (...args) { window.come = true; return parse.apply(this, args); };
	})()`, nil))
	s.must(s.client.TryLock(t.Context(), "another"))
	b.untilTrue("the page is being read anew", `window.go`)
	b.run(chromedp.Click("details summary", chromedp.ByQuery), chromedp.SendKeys("input[name=reason]", "being typed", chromedp.ByQuery))
	b.run(chromedp.Evaluate(`window.come = false; window.go()`, nil))
	b.untilTrue("the answer has come", `window.come`)
	if got := eval[string](b, `document.querySelector("input[name=reason]").value`); got != "being typed" {
		t.Errorf("what was typed has become %q", got)
	}
}

// A page has a connection for its changes only while it is seen, for a browser has no more than six to a service by HTTP/1.1: more tabs than that load, and each is
// live when it is looked at.
func TestManyTabs(t *testing.T) {
	s := open(t, false)
	tabs := []*tab{s.browse()}
	for len(tabs) < 8 {
		tabs = append(tabs, tabs[0].another())
	}
	live := func(b *tab) {
		t.Helper()
		b.toFront()
		b.untilTrue("it is live", `document.querySelector("#live.on")`)
	}
	for _, b := range tabs {
		b.toFront()
		b.visit("/locks")
		live(b)
	}
	s.must(s.client.TryLock(t.Context(), "close-month"))
	for _, b := range tabs {
		live(b)
		b.untilTrue("the lock is shown", `document.querySelector("main").innerText.includes("close-month")`)
	}
}

// Tab and Enter are enough: to skip to the content, to follow links, and to release a lock by force.
func TestKeyboard(t *testing.T) {
	s := open(t, false)
	l, err := s.client.TryLock(t.Context(), "only")
	if err != nil {
		t.Fatal(err)
	}
	b := s.browse()
	b.visit("/")
	b.run(chromedp.KeyEvent(kb.Tab))
	if got := eval[string](b, `document.activeElement.className`); got != "skip" {
		t.Errorf("the first is %q", got)
	}
	to := func(what, is string) {
		t.Helper()
		for range 60 {
			b.run(chromedp.KeyEvent(kb.Tab))
			if eval[bool](b, `!!(`+is+`)`) {
				if eval[string](b, `getComputedStyle(document.activeElement).outlineStyle`) == "none" {
					t.Errorf("%s has the focus, and does not show it", what)
				}
				return
			}
		}
		t.Fatalf("Tab does not reach %s", what)
	}
	to("the link to locks", `document.activeElement.matches("nav a[href='/locks']")`)
	b.run(chromedp.KeyEvent(kb.Enter))
	b.untilTrue("the locks are shown", `location.pathname === "/locks" && document.querySelector("summary")`)
	to("the release", `document.activeElement.matches("summary")`)
	b.run(chromedp.KeyEvent(kb.Enter))
	to("the reason", `document.activeElement.matches("input[name=reason]")`)
	b.run(chromedp.KeyEvent("stuck" + kb.Enter))
	b.untilTrue("it is released", `document.body.innerText.includes("No locks are taken")`)
	<-l.Context().Done()
}

// A browser logs in with a token; its cookie is kept from scripts and from other sites, and its role decides what there is to do.
func TestLogin(t *testing.T) {
	s := open(t, true)
	s.fill()
	b := s.browse()
	b.run(chromedp.Navigate(s.url + "/locks?q=lock-001"))
	b.untilTrue("it asks for a token", `location.pathname === "/login"`)
	log := func(secret string) {
		t.Helper()
		b.run(chromedp.SetValue("#token", secret, chromedp.ByQuery), chromedp.Submit("#token", chromedp.ByQuery))
	}
	log("soloist_wrong")
	b.untilTrue("it is refused", `document.querySelector("[role=alert]")?.innerText.includes("does not know")`)
	log(s.secrets["read"])
	b.untilTrue("the page that was asked for is shown", `location.search === "?q=lock-001" && document.body.innerText.includes("lock-001")`)
	if n := eval[int](b, `document.querySelectorAll("form[action='/act']").length`); n != 0 {
		t.Errorf("%d actions for a token that may read", n)
	}
	if seen := eval[string](b, `document.cookie`); seen != "" {
		t.Errorf("scripts see the cookie: %q", seen)
	}
	var cookies []*network.Cookie
	b.run(chromedp.ActionFunc(func(ctx context.Context) (err error) {
		cookies, err = network.GetCookies().Do(ctx)
		return err
	}))
	if len(cookies) != 1 || !cookies[0].HTTPOnly || cookies[0].SameSite != network.CookieSameSiteStrict {
		t.Errorf("%+v", cookies)
	}
	b.untilTrue("it is live", `document.querySelector("#live.on")`)
	b.run(chromedp.Click(".who button", chromedp.ByQuery))
	b.untilTrue("it has logged out", `location.pathname === "/login"`)
	log(s.secrets["operate"])
	b.untilTrue("it is shown", `document.body.innerText.includes("operateer")`)
	b.visit("/locks?q=lock-001")
	b.submit("release", "lock-001", "stuck")
	b.untilTrue("it is released", `document.body.innerText.includes("None has such a name")`)
	b.visit("/audit")
	if text := b.text(); !strings.Contains(text, "operateer") {
		t.Errorf("the audit does not say who: %s", text)
	}
}
