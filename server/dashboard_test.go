package server

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
	"github.com/soloist-dev/soloist/store"
)

// page gets a page without following redirects.
func (s *service) page(method, path string, form url.Values, headers ...string) answer {
	s.t.Helper()
	body := ""
	if form != nil {
		body = form.Encode()
	}
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.http.URL+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		if r.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, text}
}

// Each page has a policy that loads nothing from elsewhere, and no page or form works for another host or site.
func TestPagesAreGuarded(t *testing.T) {
	s := start(t, soloisttest.NewStore(), Config{OpenActions: true})
	for _, p := range append(s.server.menu, &loginPage) {
		a := s.page("GET", p.path, nil)
		if p.path == "/job" {
			a = s.page("GET", "/job?name=x", nil)
		} else if a.status != http.StatusOK {
			t.Errorf("%s: %d", p.path, a.status)
		}
		if at := `<a href="` + p.path + `" aria-current="page">` + p.title + `</a>`; p.menu && !strings.Contains(string(a.body), at) {
			t.Errorf("%s has no menu with %s", p.path, at)
		}
		policy := a.header.Get("Content-Security-Policy")
		if !strings.HasPrefix(policy, "default-src 'none'; ") || strings.Contains(policy, "unsafe") || a.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", p.path, a.header)
		}
		if text := string(a.body); strings.Contains(text, " style=") || strings.Contains(text, "<script>") || strings.Contains(text, "http://") {
			t.Errorf("%s has what its policy forbids", p.path)
		}
		if a := s.page("GET", p.path, nil, "Host", "evil.example"); a.status != http.StatusMisdirectedRequest {
			t.Errorf("%s for another host: %d", p.path, a.status)
		}
	}
	for _, path := range []string{"/act", "/login", "/logout"} {
		for _, from := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "http://evil.example"}} {
			if a := s.page("POST", path, url.Values{"verb": {"pause"}, "name": {"x"}}, from...); a.status != http.StatusForbidden {
				t.Errorf("%s with %s: %d", path, from, a.status)
			}
		}
		if a := s.page("GET", path, nil); path != "/login" && a.status != http.StatusMethodNotAllowed {
			t.Errorf("GET %s: %d", path, a.status)
		}
	}
}

// Without a token that is known there is only the form that asks for one. A form leads to no other site, and its cookie is the browser's alone.
func TestLogin(t *testing.T) {
	s, secrets := withTokens(t)
	for _, p := range s.server.menu {
		a := s.page("GET", p.path+"?q=a", nil)
		if want := link("/login", "to", p.path+"?q=a"); a.status != http.StatusSeeOther || a.header.Get("Location") != want {
			t.Errorf("%s: %d to %q, want %q", p.path, a.status, a.header.Get("Location"), want)
		}
	}
	if a := s.page("POST", "/act", url.Values{"verb": {"pause"}}); a.status != http.StatusSeeOther {
		t.Errorf("an action: %d", a.status)
	}
	if a := s.page("POST", "/login", url.Values{"token": {"wrong"}}); a.status != http.StatusUnauthorized || a.header.Get("Set-Cookie") != "" {
		t.Errorf("%d %v", a.status, a.header)
	}
	for to, want := range map[string]string{
		"/locks?q=a": "/locks?q=a", "": "/", "//evil.example": "/", "https://evil.example/": "/", `/\evil.example`: "/", "javascript:alert(1)": "/", "locks": "/", "/%zz": "/",
	} {
		a := s.page("POST", "/login", url.Values{"token": {secrets["read"]}, "to": {to}})
		if a.status != http.StatusSeeOther || a.header.Get("Location") != want {
			t.Errorf("to %q: %d %q", to, a.status, a.header.Get("Location"))
		}
		if cookie := a.header.Get("Set-Cookie"); !strings.Contains(cookie, "; HttpOnly; SameSite=Strict") {
			t.Errorf("the cookie is %q", cookie)
		}
	}
	if a := s.page("POST", "/login", url.Values{"token": {" " + secrets["read"] + "\r\n"}}); a.status != http.StatusSeeOther {
		t.Errorf("a token that was copied with spaces around it: %d", a.status)
	}
	if strings.Contains(s.logged.String(), secrets["read"]) {
		t.Error("a secret is in the log")
	}
}

// Browsers keep the cookie of a token from connections without TLS: of the request itself, or of a proxy before the server.
func TestCookieIsSecure(t *testing.T) {
	tokens, secrets := newTokens(t)
	for _, c := range []struct{ proxy, tls, want bool }{{false, false, false}, {false, true, true}, {true, false, true}} {
		s := start(t, soloisttest.NewStore(), Config{Tokens: tokens, BehindProxy: c.proxy})
		for _, form := range []string{"/login", "/logout"} {
			r := httptest.NewRequest(http.MethodPost, "http://localhost"+form, strings.NewReader(url.Values{"token": {secrets["read"]}}.Encode()))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set("X-Forwarded-Proto", "https") // anybody can send it: it means nothing
			if c.tls {
				r.TLS = &tls.ConnectionState{}
			}
			w := httptest.NewRecorder()
			s.server.ServeHTTP(w, r)
			cookies := w.Result().Cookies()
			if len(cookies) != 1 || cookies[0].Secure != c.want || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteStrictMode {
				t.Errorf("%s, behind a proxy: %t, TLS: %t: %v; want it secure: %t", form, c.proxy, c.tls, cookies, c.want)
			}
		}
	}
}

// No route and no page shows what an error of the store has: it may name its host, or worse.
func TestErrorsOfTheStoreAreNotShown(t *testing.T) {
	s := start(t, soloisttest.NewStore(), Config{OpenActions: true})
	s.store.Break(errors.New("dial tcp db.internal:5432: password canary-secret refused"))
	refuse := func(what string, a answer) {
		t.Helper()
		if text := string(a.body); strings.Contains(text, "internal:") || strings.Contains(text, "canary") {
			t.Errorf("%s: %d %s", what, a.status, text)
		}
	}
	for _, p := range paths(s.server) {
		if p[1] == "/v1/events" {
			continue
		}
		refuse(p[0]+" "+p[1], s.send(p[0], p[1], nil))
	}
	for _, p := range s.server.menu {
		refuse("the page "+p.path, s.page("GET", link(p.path, "name", "x", "job", "x"), nil))
	}
	for verb := range formActions {
		refuse("the form "+verb, s.page("POST", "/act", url.Values{"verb": {verb}, "kind": {"job"}, "name": {"x"}, "reason": {"r"}, "token": {"1"}}))
	}
	refuse("the events", answer{body: []byte(s.listenBroken())})
}

// Whatever is asked for while the store fails is not told as done, and can be done after that.
func TestNothingIsToldAsDoneWhileTheStoreFails(t *testing.T) {
	s := start(t, soloisttest.NewStore(), Config{OpenActions: true})
	element := func(id string) LeaseResponse { return s.lease("/v1/elements/j/"+id+"/claim", ElementRequest{TTL: 600}) }
	lock := s.lease("/v1/locks/x/acquire", AcquireRequest{TTL: 600})
	done, fail, release := element("1"), element("2"), element("3")
	asked := [][2]string{
		{"/v1/leases/" + lock.Lease + "/renew", ""},
		{"/v1/leases/" + lock.Lease + "/release", ""},
		{"/v1/elements/j/1/done", done.Lease},
		{"/v1/elements/j/2/fail", fail.Lease},
		{"/v1/elements/j/3/release", release.Lease},
		{"/v1/locks/y/acquire", ""},
		{"/v1/elements/j/4/claim", ""},
	}
	send := func(path, lease string) answer {
		if lease == "" {
			return s.send("POST", path, nil)
		}
		return s.send("POST", path, EndRequest{Lease: lease, Reason: "r"})
	}
	s.store.Break(errors.New("away"))
	for _, a := range asked {
		if got := send(a[0], a[1]); got.status < 500 {
			t.Errorf("%s while the store fails: %d %s", a[0], got.status, got.body)
		}
	}
	if got := s.send("DELETE", "/v1/locks/x?reason=r&token="+strconv.FormatInt(lock.Token, 10), nil); got.status < 500 {
		t.Errorf("a release by force while the store fails: %d %s", got.status, got.body)
	}
	s.store.Heal()
	for _, a := range asked {
		if got := send(a[0], a[1]); got.status >= 300 {
			t.Errorf("%s after that: %d %s", a[0], got.status, got.body)
		}
	}
}

// listenBroken returns the first event of a service whose store cannot be read.
func (s *service) listenBroken() string {
	s.t.Helper()
	response, err := s.http.Client().Do(s.request("GET", "/v1/events", nil))
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	e := readFeed(s.t, response.Body).next()
	if e.Event != "store" || e.Store.Reachable {
		s.t.Errorf("%+v", e)
	}
	text, err := json.Marshal(e)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

// A form does what its role and prefix allow, and nothing else; wrong fields are named.
func TestForms(t *testing.T) {
	s, secrets := withTokens(t)
	cookie := func(name string) []string { return []string{"Cookie", cookieName + "=" + secrets[name]} }
	for _, c := range []struct {
		caller string
		form   string
		want   int
		says   string
	}{
		{"read", "verb=pause&kind=job&name=x&reason=r", 403, "role"},
		{"operate", "verb=forget&kind=job&name=x", 403, "role"},
		{"operateteam/", "verb=trigger&kind=job&name=x", 403, "begin with"},
		{"operateteam/", "verb=retry&kind=element&job=other&name=team/x", 403, "begin with"},
		{"operateteam/", "verb=retry&kind=element&name=team/x", 403, "begin with"},
		{"operateteam/", "verb=pause&kind=job&job=team/x&name=other&reason=r", 403, "begin with"},
		{"operateteam/", "verb=trigger&kind=element&job=team/x&name=other", 403, "begin with"},
		{"adminteam/", "verb=forget&job=team/x&name=other", 403, "begin with"},
		{"operateteam/", "verb=release&kind=lock&job=team/x&name=other&reason=r&token=1", 403, "begin with"},
		{"operateteam/", "verb=release&kind=element&job=other&name=team/x&reason=r&token=1", 403, "begin with"},
		{"operateteam/", "verb=release&kind=element&job=team/x&name=other&reason=r&token=1", 409, "free"},
		{"operate", "verb=trigger&kind=job&name=x", 404, "no such job"},
		{"operate", "verb=explode&name=x", 400, "no such action"},
		{"operate", "verb=pause&kind=job&name=x", 400, "reason"},
		{"operate", "verb=release&kind=lock&name=x&reason=r&token=x", 400, "token"},
		{"operate", "verb=release&kind=lock&name=x&reason=r&token=9223372036854775807", 400, "token"},
		{"operate", "verb=release&kind=permit&name=x&reason=r&token=1&permit=1000", 400, "permit"},
		{"operate", "verb=release&kind=permit&name=x&reason=r&token=1&permit=-1", 400, "permit"},
		{"operate", "verb=release&kind=permit&name=x&reason=r&token=1&permit=999", 409, "free"},
		{"operate", "verb=release&kind=lock&name=x&reason=r&token=0", 400, "token"},
		{"operate", "verb=release&kind=secret&name=x&reason=r&token=1", 400, "kind"},
		{"operate", "verb=release&kind=lock&name=x&reason=r&token=1", 409, "free"},
		{"operate", "verb=" + strings.Repeat("x", maxBody), 400, "form"},
	} {
		form, _ := url.ParseQuery(c.form)
		a := s.page("POST", "/act", form, cookie(c.caller)...)
		if a.status != c.want || !strings.Contains(string(a.body), c.says) {
			t.Errorf("%s by %s: %d, want %d: %s", c.form[:min(len(c.form), 80)], c.caller, a.status, c.want, a.body)
		}
	}
	s.token = secrets["admin"]
	s.lease("/v1/locks/other/acquire", nil)
	if a := s.page("GET", "/locks", nil, cookie("readteam/")...); strings.Contains(string(a.body), "other") {
		t.Error("a lock is shown to a token with another prefix")
	}
	for _, path := range []string{"/job?name=other", "/elements?job=other"} {
		if a := s.page("GET", path, nil, cookie("readteam/")...); a.status != http.StatusForbidden {
			t.Errorf("%s: %d", path, a.status)
		}
	}
}

// Queries that no page makes get an answer that names the field.
func TestPagesRefuse(t *testing.T) {
	s := start(t, soloisttest.NewStore(), Config{})
	for path, says := range map[string]string{"/timeline?span=2+min": "span", "/timeline?end=-1": "end", "/timeline?end=x": "end", "/elements?job=x&state=lost": "state"} {
		if a := s.page("GET", path, nil); a.status != 400 || !strings.Contains(string(a.body), says) {
			t.Errorf("%s: %d", path, a.status)
		}
	}
	if a := s.page("GET", "/job?name=x", nil); a.status != 404 {
		t.Errorf("%d", a.status)
	}
}

// A page does not wait for a store that does not respond: it says so, and shows the store as soon as it is there.
func TestPagesDoNotWait(t *testing.T) {
	about, err := os.ReadFile("../docs/operate/service.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("takes longer than %v s for a page", paintWithin.Seconds()); !strings.Contains(string(about), want) {
		t.Errorf("the page about the service does not have %q", want)
	}
	synctest.Test(t, func(t *testing.T) {
		s, _ := startInBubble(t, Config{OpenActions: true})
		get := func() string {
			w := httptest.NewRecorder()
			s.server.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "http://localhost/locks", nil))
			if w.Code != 200 {
				t.Errorf("%d", w.Code)
			}
			return w.Body.String()
		}
		s.store.Stall()
		begin := time.Now()
		if text := get(); !strings.Contains(text, "being read") || !strings.Contains(text, `http-equiv="refresh"`) {
			t.Errorf("%s", text)
		}
		if took := time.Since(begin); took > paintWithin {
			t.Errorf("it took %v", took)
		}
		s.store.Heal()
		if _, err := s.client.TryLock(t.Context(), "close-month"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * readWithin)
		if text := get(); !strings.Contains(text, "close-month") {
			t.Errorf("%s", text)
		}
	})
}

// A page of a large store has as many rows as one of a small one, and tells where the rest is.
func TestPagesOfALargeStore(t *testing.T) {
	s := start(t, soloisttest.NewStore(), Config{})
	large := newSnapshot()
	now := time.Now()
	large.leases, large.jobs = &listed[soloist.LeaseInfo]{at: now}, &listed[soloist.JobInfo]{at: now}
	for i := range 100_000 {
		large.leases.items = append(large.leases.items, soloist.LeaseInfo{Kind: soloist.KindLock, Name: fmt.Sprintf("lock-%06d", i), Holder: "a#b", Token: 1, Left: time.Minute})
	}
	for i := range 10_000 {
		large.jobs.items = append(large.jobs.items, soloist.JobInfo{Name: fmt.Sprintf("job-%05d", i), Schedule: "0 3 * * *"})
	}
	large.troubles = large.assess()
	s.server.watch.mu.Lock()
	s.server.watch.last = large // it is not read anew
	s.server.watch.mu.Unlock()
	s.store.Break(nil) // so that pages show what was read
	for path, want := range map[string]string{
		"/": "100000", "/locks": "100 here, 100000 in all", "/locks?after=lock-099899": "lock-099999", "/locks?q=lock-0777": "lock-077799", "/jobs": "100 here, 10000 in all", "/timeline": "20 here, 10000 in all",
	} {
		a := s.page("GET", path, nil)
		if text := string(a.body); !strings.Contains(text, want) || len(text) > 200<<10 {
			t.Errorf("%s: no %q in %d bytes", path, want, len(text))
		}
	}
}

// Runs that overlap by more than clocks differ are double runs; a job whose time has passed is overdue unless it runs or is paused.
func TestTroubles(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	run := func(token int64, from, to time.Duration, outcome string) soloist.RunRecord {
		return soloist.RunRecord{Replica: fmt.Sprint("r", token), Token: token, StartedAt: now.Add(from), EndedAt: now.Add(to), Outcome: outcome}
	}
	const s = time.Second
	alive := []soloist.Definition{{Replica: "a", Digest: "1"}}
	for name, c := range map[string]struct {
		job  soloist.JobInfo
		want string
	}{
		"one after the other": {soloist.JobInfo{Runs: []soloist.RunRecord{run(1, -20*s, -10*s, "ok"), run(2, -10*s, -5*s, "ok")}}, ""},
		"clocks differ":       {soloist.JobInfo{Runs: []soloist.RunRecord{run(1, -20*s, -9*s, "ok"), run(2, -10*s, -5*s, "ok")}}, ""},
		"both":                {soloist.JobInfo{Runs: []soloist.RunRecord{run(1, -20*s, -8*s, "ok"), run(2, -10*s, -5*s, "ok")}}, "doubled"},
		"one in the other":    {soloist.JobInfo{Runs: []soloist.RunRecord{run(2, -18*s, -16*s, "ok"), run(1, -20*s, -8*s, "ok")}}, "doubled"},
		"attempts of one":     {soloist.JobInfo{Runs: []soloist.RunRecord{run(1, -20*s, -8*s, "ok"), run(1, -10*s, -5*s, "ok")}}, ""},
		"the one that runs":   {soloist.JobInfo{Running: &soloist.RunInfo{Since: now.Add(-4 * s), LeaseInfo: soloist.LeaseInfo{Token: 2}}, Runs: []soloist.RunRecord{run(1, -20*s, -2*s, "ok")}}, "doubled"},
		"abandoned":           {soloist.JobInfo{Runs: []soloist.RunRecord{run(1, -20*s, -2*s, "abandoned"), run(2, -10*s, -5*s, "ok")}}, "lease lost"},
		"lost":                {soloist.JobInfo{Runs: []soloist.RunRecord{run(1, -20*s, -15*s, "lost")}}, "lease lost"},
		"lost long ago":       {soloist.JobInfo{Runs: []soloist.RunRecord{run(1, -50*time.Hour, -49*time.Hour, "lost")}}, ""},
		"failed":              {soloist.JobInfo{Runs: []soloist.RunRecord{run(1, -20*s, -15*s, "failed")}}, "failed"},
		"panicked":            {soloist.JobInfo{Runs: []soloist.RunRecord{run(1, -20*s, -15*s, "panicked")}}, "panicked"},
		"and then well":       {soloist.JobInfo{Runs: []soloist.RunRecord{run(1, -20*s, -15*s, "panicked"), run(2, -10*s, -5*s, "ok")}}, ""},
		"overdue":             {soloist.JobInfo{Schedule: "* * * * *", DoneUpTo: now.Add(-3 * time.Minute)}, "overdue"},
		"within its grace":    {soloist.JobInfo{Schedule: "* * * * *", DoneUpTo: now.Add(-3 * time.Minute), Grace: 5 * time.Minute}, ""},
		"after its grace":     {soloist.JobInfo{Schedule: "* * * * *", DoneUpTo: now.Add(-8 * time.Minute), Grace: 5 * time.Minute}, "overdue"},
		"due just now":        {soloist.JobInfo{Schedule: "* * * * *", DoneUpTo: now.Add(-time.Minute)}, ""},
		"paused":              {soloist.JobInfo{Schedule: "* * * * *", DoneUpTo: now.Add(-3 * time.Minute), Paused: &soloist.Pause{}}, ""},
		"running":             {soloist.JobInfo{Schedule: "* * * * *", DoneUpTo: now.Add(-3 * time.Minute), Running: &soloist.RunInfo{}}, ""},
		"replicas agree":      {soloist.JobInfo{Replicas: []soloist.Definition{{Replica: "a", Digest: "1"}, {Replica: "b", Digest: "1"}}}, ""},
		"replicas differ":     {soloist.JobInfo{Replicas: []soloist.Definition{{Replica: "a", Digest: "1"}, {Replica: "b", Digest: "2"}}}, "definitions differ"},
	} {
		if c.job.Name = "x"; c.job.Replicas == nil {
			c.job.Replicas = alive
		}
		got := ""
		for _, tr := range troublesOf(c.job, now) {
			got += tr.What
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if all := troublesOf(soloist.JobInfo{}, now); len(all) != 1 || all[0].What != "no replica" {
		t.Errorf("%+v", all)
	}
}

// What a list lacks because the store could not be read is as it was, for as long as its lease lasts. It has less time left, and is older.
func TestSnapshotKeeps(t *testing.T) {
	lease := func(name string, left time.Duration) soloist.LeaseInfo {
		return soloist.LeaseInfo{Kind: soloist.KindLock, Name: name, Holder: "a", Token: 1, Left: left, Age: time.Minute}
	}
	asOld := func(l soloist.LeaseInfo) bool { return l.Left == 50*time.Second && l.Age == 70*time.Second }
	now := time.Now()
	before := &listed[soloist.LeaseInfo]{at: now.Add(-10 * time.Second), items: []soloist.LeaseInfo{lease("a", time.Minute), lease("b", 5*time.Second), lease("c", time.Minute)}}
	after := &listed[soloist.LeaseInfo]{at: now, items: []soloist.LeaseInfo{lease("a", time.Hour)}}
	jobs := &listed[soloist.JobInfo]{at: now, items: []soloist.JobInfo{{Name: "read"}}}
	agedJobs(jobs, &listed[soloist.JobInfo]{at: now.Add(-10 * time.Second), items: []soloist.JobInfo{
		{Name: "read", Manual: true}, {Name: "runs", Running: &soloist.RunInfo{LeaseInfo: lease("x", time.Minute)}}, {Name: "ran", Running: &soloist.RunInfo{LeaseInfo: lease("x", 5*time.Second)}},
	}})
	if got := jobs.items; len(got) != 3 || got[0].Manual || got[1].Running == nil || !asOld(got[1].Running.LeaseInfo) || got[2].Running != nil {
		t.Errorf("%+v", got)
	}
	semaphores := &listed[soloist.SemaphoreInfo]{at: now}
	agedSemaphores(semaphores, &listed[soloist.SemaphoreInfo]{at: now.Add(-10 * time.Second), items: []soloist.SemaphoreInfo{{Name: "pdf", Permits: []soloist.LeaseInfo{lease("a", time.Minute), lease("b", 5*time.Second)}}}})
	if got := semaphores.items; len(got) != 1 || len(got[0].Permits) != 1 || got[0].Permits[0].Name != "a" || !asOld(got[0].Permits[0]) {
		t.Errorf("%+v", got)
	}
	replicas := &listed[soloist.ReplicaInfo]{at: now}
	agedReplicas(replicas, &listed[soloist.ReplicaInfo]{at: now.Add(-10 * time.Second), items: []soloist.ReplicaInfo{{Replica: "a", Left: time.Minute, Silent: time.Second}, {Replica: "b", Left: 5 * time.Second}}})
	if got := replicas.items; len(got) != 2 || got[0].Left != 50*time.Second || got[0].Silent != 11*time.Second || got[1].Left != 0 || got[1].Silent != 10*time.Second {
		t.Errorf("%+v", got)
	}
	agedLeases(after, before)
	if got := after.items; len(got) != 2 || got[0].Left != time.Hour || got[0].Age != time.Minute || got[1].Name != "c" || !asOld(got[1]) {
		t.Errorf("%+v", got)
	}
}

// A slow store takes a while for each page of records that it lists.
type slow struct {
	*soloisttest.Store
	delay time.Duration
}

func (s *slow) List(ctx context.Context, prefix string) iter.Seq2[store.Record, error] {
	return s.ListAfter(ctx, prefix, "")
}

func (s *slow) ListAfter(ctx context.Context, prefix, after string) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		n := 0
		for r, err := range s.Store.ListAfter(ctx, prefix, after) {
			if n++; n%200 == 0 {
				time.Sleep(s.delay)
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// inSlowBubble calls test with a server on a store that takes 10 s to list its locks.
func inSlowBubble(t *testing.T, test func(t *testing.T, s *Server, c *soloist.Client)) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{soloisttest.NewStore(), 400 * time.Millisecond}
		var claims []store.Claim
		for i := range 5000 {
			claims = append(claims, store.Claim{Name: fmt.Sprintf("lock/lock-%05d", i), Holder: "a#b", TTL: time.Hour})
		}
		if _, err := s.Acquire(t.Context(), claims); err != nil {
			t.Fatal(err)
		}
		c := soloisttest.NewReplica(t, s, soloist.Config{Replica: "a"})
		server, err := New(c, Config{})
		if err != nil {
			t.Fatal(err)
		}
		test(t, server, c)
		server.Drain()
		time.Sleep(readWithin)
	})
}

// The first page of an instance has its rows, or what it knows, before the store has been scanned.
func TestAPageWaitsForNoScan(t *testing.T) {
	inSlowBubble(t, func(t *testing.T, s *Server, _ *soloist.Client) {
		for path, want := range map[string]string{"/locks": "lock-00000", "/locks?after=lock-03000": "lock-03001", "/": "replicas alive"} {
			begin := time.Now()
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "http://localhost"+path, nil))
			if took := time.Since(begin); took > paintWithin || !strings.Contains(w.Body.String(), want) {
				t.Errorf("%s took %v, and has no %q:\n%s", path, took, want, w.Body)
			}
		}
	})
}

// An event of a short list does not wait until a long one has been read.
func TestALongListDelaysNoOther(t *testing.T) {
	inSlowBubble(t, func(t *testing.T, s *Server, c *soloist.Client) {
		r, _, there := s.watch.subscribe(t.Context())
		if !there {
			t.Fatal("nothing was read")
		}
		defer s.watch.leave(r)
		if _, err := c.Semaphore("pdf", 2).TryAcquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		for b := range r.batches {
			if slices.ContainsFunc(b.events, func(e event) bool { return e.name == "taken" && e.subject == "pdf" }) {
				break
			}
		}
		if took := time.Since(begin); took > time.Second {
			t.Errorf("it was told after %v", took)
		}
	})
}
