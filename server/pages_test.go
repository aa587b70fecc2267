package server

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
)

// visit returns a visit of a page by a caller with a prefix, at an instant, with what was read before it.
func (s *service) visit(path, prefix string, read *snapshot, now time.Time) *visit {
	s.t.Helper()
	return &visit{call: &call{Context: s.t.Context(), Request: s.request("GET", path, nil), server: s.server, caller: caller{prefix: prefix}}, snapshot: read, now: now}
}

// shown returns the data of a page.
func shown[T any](t *testing.T, page func() (any, error)) T {
	t.Helper()
	data, err := page()
	if err != nil {
		t.Fatal(err)
	}
	return data.(T)
}

// What the first page counts, and which few it shows: the jobs that run soonest, the newest runs, and of the troubles those first that are wrong now, the newest before the others.
func TestOverview(t *testing.T) {
	s := start(t, soloisttest.NewStore(), Config{})
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	alive := []soloist.Definition{{Replica: "a"}}
	var jobs []soloist.JobInfo
	for i := range 12 {
		n := i * 5 % 12 // in no order
		jobs = append(jobs, soloist.JobInfo{Name: fmt.Sprintf("due-%02d", n), Replicas: alive, Next: now.Add(time.Duration(n+1) * time.Minute),
			Runs: []soloist.RunRecord{{EndedAt: now.Add(-time.Duration(n+1) * time.Minute), Outcome: soloist.OutcomeOK, Token: 1}}})
	}
	lost := func(ago time.Duration) []soloist.RunRecord {
		return []soloist.RunRecord{{EndedAt: now.Add(-ago), Outcome: soloist.OutcomeLost, Token: 1}}
	}
	jobs = append(jobs,
		soloist.JobInfo{Name: "past", Replicas: alive, Next: now.Add(-time.Second)},
		soloist.JobInfo{Name: "failed", Replicas: alive, Runs: []soloist.RunRecord{{EndedAt: now.Add(-time.Hour), Outcome: soloist.OutcomeFailed}}},
		soloist.JobInfo{Name: "lost-first", Replicas: alive, Runs: lost(3 * time.Hour)},
		soloist.JobInfo{Name: "lost-last", Replicas: alive, Runs: lost(2 * time.Hour)},
		soloist.JobInfo{Name: "paused", Replicas: alive, Paused: &soloist.Pause{Reason: "holiday"}},
		soloist.JobInfo{Name: "running", Replicas: alive, Running: &soloist.RunInfo{Since: now}},
		soloist.JobInfo{Name: "team/x", Replicas: alive, Paused: &soloist.Pause{Reason: "all of them", All: true}},
	)
	for i := range mostTroubles {
		jobs = append(jobs, soloist.JobInfo{Name: fmt.Sprint("gone-", i), Next: now.Add(time.Second)})
	}
	read := newSnapshot()
	read.jobs = &listed[soloist.JobInfo]{at: now, items: jobs}
	read.leases = &listed[soloist.LeaseInfo]{at: now, items: []soloist.LeaseInfo{{Kind: soloist.KindLock, Name: "l1"}, {Kind: soloist.KindLock, Name: "team/l2"}, {Kind: soloist.KindLeader, Name: "team/m"}}}
	read.semaphores = &listed[soloist.SemaphoreInfo]{at: now, items: []soloist.SemaphoreInfo{{Name: "pdf"}}}
	read.replicas = &listed[soloist.ReplicaInfo]{at: now, items: []soloist.ReplicaInfo{{Alive: true}, {}, {}}}
	read.troubles = read.assess()

	o := shown[Overview](t, s.visit("/", "", read, now).overview)
	var next, last, troubles []string
	for _, j := range o.Next {
		next = append(next, j.Name)
	}
	for _, r := range o.Last {
		last = append(last, r.Job)
	}
	for _, tr := range o.Troubles[:3] {
		troubles = append(troubles, fmt.Sprint(tr.Job, " ", tr.Red))
	}
	soonest := []string{"due-00", "due-01", "due-02", "due-03", "due-04", "due-05", "due-06", "due-07"}
	if !slices.Equal(next, soonest) || !slices.Equal(last, soonest) {
		t.Errorf("next %q, and last %q; want %q", next, last, soonest)
	}
	if want := []string{"lost-last true", "lost-first true", "failed false"}; !slices.Equal(troubles, want) || len(o.Troubles) != mostTroubles || o.More != 3 || !o.Red {
		t.Errorf("%d troubles and %d more, first %q, red: %t; want first %q", len(o.Troubles), o.More, troubles, o.Red, want)
	}
	counts := fmt.Sprint(o.Jobs, o.Running, o.Locks, o.Leaders, o.Semaphores, o.Alive, o.Gone, o.Paused)
	if want := fmt.Sprint(len(jobs), 1, 2, 1, 1, 1, 2, 2); counts != want || o.AllPaused == nil || o.AllPaused.Reason != "all of them" {
		t.Errorf("counts %s, want %s; all paused: %+v", counts, want, o.AllPaused)
	}

	o = shown[Overview](t, s.visit("/", "team/", read, now).overview)
	if counts := fmt.Sprint(o.Jobs, o.Running, o.Locks, o.Leaders, o.Semaphores, o.Paused); counts != fmt.Sprint(1, 0, 1, 1, 0, 1) || o.Red || len(o.Troubles)+len(o.Next)+len(o.Last) != 0 {
		t.Errorf("with a prefix: counts %s, %+v", counts, o)
	}
	if counts := fmt.Sprint(shown[Overview](t, s.visit("/", "", newSnapshot(), now).overview).Jobs); counts != "…" {
		t.Errorf("jobs that were not read: %s", counts)
	}
	read.actions.err, read.actions.cut = errors.New("away"), true
	if o = shown[Overview](t, s.visit("/", "team/", read, now).overview); !o.Red {
		t.Error("all seems to be well although not all could be read")
	}
}

// What a page says of one job.
func TestJobInWords(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	alive := []soloist.Definition{{Replica: "a"}}
	for want, j := range map[string]soloist.JobInfo{
		"running": {Running: &soloist.RunInfo{}, Paused: &soloist.Pause{}, Manual: true}, "paused": {Paused: &soloist.Pause{}, Manual: true, Replicas: alive}, "asked to run": {Manual: true},
		"no replica": {}, "waiting": {Replicas: alive},
	} {
		if got := (jobRow{j, now}).State(); got != want {
			t.Errorf("%+v is %s, want %s", j, got, want)
		}
	}
	row := jobRow{soloist.JobInfo{Name: "x", Schedule: "0 3 * * *"}, now}
	if at := time.Date(2026, 5, 5, 3, 0, 0, 0, time.UTC); len(row.Coming()) != 5 || !row.Coming()[0].Equal(at) || row.In(at) != "15h 00m" || row.InWords() == "" {
		t.Errorf("%v, in %s, %q", row.Coming(), row.In(at), row.InWords())
	}
	if row.Schedule = "the application's own"; row.InWords() != "" {
		t.Errorf("%q", row.InWords())
	}
	for i := range 20 { // 1 to 20 s late, and as long
		took := time.Duration(20-i) * time.Second
		row.Runs = append(row.Runs, soloist.RunRecord{ScheduledAt: now, StartedAt: now.Add(took), EndedAt: now.Add(2 * took), Attempt: 1, Token: int64(i)})
	}
	row.Runs = append(row.Runs, soloist.RunRecord{ScheduledAt: now, StartedAt: now.Add(time.Hour), EndedAt: now.Add(time.Hour), Manual: true},
		soloist.RunRecord{StartedAt: now, EndedAt: now}, soloist.RunRecord{ScheduledAt: now, StartedAt: now.Add(time.Hour), EndedAt: now.Add(time.Hour), Attempt: 2, Token: 99})
	if want := (percentiles{20, 10 * time.Second, 19 * time.Second}); row.Delays() != want {
		t.Errorf("delays %+v, want %+v", row.Delays(), want)
	}
	if want := (percentiles{23, 9 * time.Second, 19 * time.Second}); row.Durations() != want {
		t.Errorf("durations %+v, want %+v", row.Durations(), want)
	}
	if newest := row.Newest(); newest[0].Token != 99 || row.Runs[0].Token != 0 || percentilesOf(nil) != (percentiles{}) {
		t.Errorf("%+v", newest)
	}
}

// Durations, instants and links as they are shown.
func TestTexts(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "-1.0s", 0: "0ms", 999 * time.Millisecond: "999ms", time.Second: "1.0s", time.Minute: "1m 00s", time.Hour: "1h 00m", 47*time.Hour + 59*time.Minute: "47h 59m",
		48 * time.Hour: "2d 0h", soloist.Forever: "forever",
	} {
		if got := span(d); got != want {
			t.Errorf("%v is shown as %s, want %s", d, got, want)
		}
	}
	for got, want := range map[string]string{
		link("/locks", "q", ""): "/locks", link("/locks", "q", "a b", "after", ""): "/locks?q=a+b", instant(time.Time{}): "", plural(1, "run"): "1 run", plural(0, "run"): "0 runs",
		markOf(soloist.OutcomeOK) + markOf(soloist.OutcomeFailed) + markOf(soloist.OutcomePanicked) + markOf(soloist.OutcomeInterrupted) + markOf(soloist.OutcomeLost): "✓✗!↷?",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A lane has a bar for each run, where it was, and its lease behind it; runs that are short can be seen, and two at once are hatched.
func TestLanes(t *testing.T) {
	end := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	w := window{from: end.Add(-laneWidth * time.Second), to: end, live: true} // one unit a second
	at := func(x float64) time.Time { return w.from.Add(time.Duration(x * float64(time.Second))) }
	run := func(replica string, token int64, from, to float64) soloist.RunRecord {
		return soloist.RunRecord{Replica: replica, Token: token, StartedAt: at(from), EndedAt: at(to), Outcome: soloist.OutcomeOK}
	}
	j := soloist.JobInfo{Name: "tick", Runs: []soloist.RunRecord{
		run("b", 1, -100, 0), run("b", 2, -50, 10), run("a", 3, 100, 100.1), run("a", 4, 200, 300), run("b", 5, 250, 350), run("a", 6, 999.9, 1100), run("b", 7, 1000, 1100),
	}, Running: &soloist.RunInfo{Since: at(900), LeaseInfo: soloist.LeaseInfo{Token: 8, Holder: "b#1", Left: 30 * time.Second}}}
	l := w.lane(j, at(950))
	var got []string
	for _, sub := range l.Replicas {
		for _, b := range sub.Bars {
			got = append(got, fmt.Sprint(sub.Name, sub.Y, " ", b.X, "+", b.Width, " ", b.LeaseX, "+", b.LeaseWidth, b.Doubled, b.Class))
		}
	}
	want := []string{
		"a0 100+1.5 100+1.5 []ok", "a0 200+100 200+100 [{250 50}]ok", "a0 998.5+1.5 998.5+1.5 []ok",
		"b24 0+10 0+10 []ok", "b24 250+100 250+100 [{250 50}]ok", "b24 900+50 900+80 []running",
	}
	if !slices.Equal(got, want) {
		t.Errorf("bars\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if l.Words != "tick: 6 runs on a, b" || len(l.Doubles) != 1 || l.NowX != 950 || l.Height != 2*laneHeight || l.Unkept != 0 {
		t.Errorf("%+v", l)
	}
	if none := w.lane(soloist.JobInfo{Name: "x"}, end); none.Words != "x: 0 runs" || none.Height != laneHeight {
		t.Errorf("%+v", none)
	}
	w.live = false
	j.Runs = nil
	for i := range 20 {
		j.Runs = append(j.Runs, run("a", int64(i), 100+float64(i), 100.5+float64(i)))
	}
	if l := w.lane(j, end); l.NowX != 0 || l.Unkept != 100 {
		t.Errorf("of old runs that are not kept: %+v", l)
	}
	j.Runs[0].StartedAt = w.from
	if l := w.lane(j, end); l.Unkept != 0 {
		t.Errorf("all runs since the beginning are kept: %+v", l)
	}
	if l := w.lane(soloist.JobInfo{Runs: j.Runs[1:]}, end); l.Unkept != 0 {
		t.Errorf("fewer runs than are kept: %+v", l)
	}
}

// A timeline ends now unless it is of an earlier time, and leads to those before and after it.
func TestTimeline(t *testing.T) {
	s := start(t, soloisttest.NewStore(), Config{})
	now := time.UnixMilli(1_800_000_000_000)
	ms := func(t time.Time) string { return fmt.Sprint(t.UnixMilli()) }
	past, quarter := now.Add(-time.Hour), 15*time.Minute
	for query, c := range map[string]struct {
		name           string
		from, to       time.Time
		live           bool
		earlier, later string
	}{
		"": {"15 min", now.Add(quarter/20 - quarter), now.Add(quarter / 20), true, link("/timeline", "span", "15 min", "end", ms(now.Add(quarter/20-quarter/2))), ""},
		"?span=1+h&q=a&end=" + ms(past): {"1 h", past.Add(-time.Hour), past, false, link("/timeline", "span", "1 h", "q", "a", "end", ms(past.Add(-time.Hour/2))),
			link("/timeline", "span", "1 h", "q", "a", "end", ms(past.Add(time.Hour/2)))},
		"?span=6+h&end=" + ms(past):  {"6 h", past.Add(-6 * time.Hour), past, false, link("/timeline", "span", "6 h", "end", ms(past.Add(-3*time.Hour))), link("/timeline", "span", "6 h")},
		"?span=5+min&end=" + ms(now): {"5 min", now.Add(-5*time.Minute + 15*time.Second), now.Add(15 * time.Second), true, link("/timeline", "span", "5 min", "end", ms(now.Add(-135*time.Second))), ""},
	} {
		v := s.visit("/timeline"+query, "", newSnapshot(), now)
		page := shown[*Timeline](t, v.timeline)
		if !page.From.Equal(c.from) || !page.To.Equal(c.to) || page.Live != c.live || page.Earlier != c.earlier || page.Later != c.later {
			t.Errorf("%q: %v to %v, live %t, earlier %q, later %q; want %+v", query, page.From, page.To, page.Live, page.Earlier, page.Later, c)
		}
		for _, z := range page.Zooms {
			if z.Current != (z.Name == c.name) || strings.Contains(z.Link, "end=") == c.live {
				t.Errorf("%q: zoom %+v", query, z)
			}
		}
		if now := link("/timeline", "span", c.name, "q", v.search()); page.NowLink != now {
			t.Errorf("%q: now is %q, want %q", query, page.NowLink, now)
		}
		if first := c.from.UTC().Format("15:04:05"); len(page.Ticks) != 5 || page.Ticks[0] != first {
			t.Errorf("%q: ticks %q, want first %s", query, page.Ticks, first)
		}
	}
}

// The elements of a job, and the jobs that have some, come in pages of those that are searched.
func TestPagesOfElements(t *testing.T) {
	s := start(t, soloisttest.NewStore(), Config{OpenActions: true})
	claim := func(job, id string) soloist.DetachedElement {
		el, err := s.client.Elements(job, soloist.ElementsOptions{}).ClaimDetached(t.Context(), id, "printer#1", false)
		if err != nil {
			t.Fatal(err)
		}
		return el
	}
	for i := range pageRows + 2 {
		el := claim("many", fmt.Sprintf("a%03d", i))
		if i%2 == 0 {
			if err := s.client.Elements("many", soloist.ElementsOptions{}).DoneDetached(t.Context(), el.Detached); err != nil {
				t.Fatal(err)
			}
		}
		claim(fmt.Sprintf("job-%03d", i), "1")
	}
	for query, c := range map[string]struct{ rows, next string }{
		"?job=many": {"a000-a099 100", "a099"}, "?job=many&after=a099": {"a100-a101 2", ""}, "?job=many&state=claimed": {"a001-a101 51", ""}, "?job=many&q=A09": {"a090-a099 10", ""},
		"": {"job-000-job-099 100", "job-099"}, "?after=job-099": {"job-100-many 3", ""}, "?q=JOB-00": {"job-000-job-009 10", ""},
	} {
		page := shown[*ElementsPage](t, s.visit("/elements"+query, "", nil, time.Now()).elementList)
		names := page.Jobs
		for _, e := range page.Elements {
			names = append(names, e.ID)
		}
		if rows := fmt.Sprintf("%s-%s %d", names[0], names[len(names)-1], len(names)); rows != c.rows || page.Next != c.next || page.Cut {
			t.Errorf("%q: %s, next %q, cut %t; want %+v", query, rows, page.Next, page.Cut, c)
		}
	}
	if text := string(s.page("GET", "/elements?job=many&state=claimed", nil).body); !strings.Contains(text, `data-label="Holder">printer<`) {
		t.Error("the page does not show who has claimed an element")
	}
}

// A page that reads the store itself says that the store has not told all in time, or cannot be read.
func TestPagesOfAStoreThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := startInBubble(t, Config{})
		get := func(path string) (int, string) {
			w := httptest.NewRecorder()
			s.server.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "http://localhost"+path, nil))
			return w.Code, w.Body.String()
		}
		s.store.Stall()
		for _, path := range []string{"/elements", "/elements?job=x"} {
			begin := time.Now()
			if code, text := get(path); code != 200 || !strings.Contains(text, "has not told all in time") || time.Since(begin) > directWithin {
				t.Errorf("%s: %d after %v: %s", path, code, time.Since(begin), text)
			}
		}
		s.store.Heal()
		s.store.Break(errors.New("away"))
		for path, want := range map[string]int{"/elements": 503, "/elements?job=x": 503, "/job?name=x": 503, "/store": 200} {
			code, text := get(path)
			if code != want || path == "/store" && !strings.Contains(text, "cannot be told: connection") {
				t.Errorf("%s: %d, want %d: %s", path, code, want, text)
			}
		}
		s.store.Heal()
		if _, text := get("/store"); !strings.Contains(text, "<dt>Responds after</dt>") || !strings.Contains(text, `<th scope="row">fencing</th>`) || !strings.Contains(text, "memory") {
			t.Errorf("%s", text)
		}
		time.Sleep(2 * pollAtLeast)
		code, text := get("/")
		if code != 200 || strings.Contains(text, `http-equiv="refresh"`) || !strings.Contains(text, "As the store was at") || !strings.Contains(text, "All is well") {
			t.Errorf("when all has been read: %d %s", code, text)
		}
		if _, text := get("/store"); !strings.Contains(text, "<dt>Reading all lists</dt>") {
			t.Errorf("%s", text)
		}
	})
}

// A page of replicas shows what each holds, as far as the caller may see it, and how many more.
func TestReplicasOnAPage(t *testing.T) {
	s := start(t, soloisttest.NewStore(), Config{})
	now := time.Now()
	read := newSnapshot()
	read.replicas = &listed[soloist.ReplicaInfo]{at: now, items: []soloist.ReplicaInfo{{Replica: "Alpha"}, {Replica: "beta"}}}
	read.jobs = &listed[soloist.JobInfo]{at: now, items: []soloist.JobInfo{{Name: "team/job"}, {Name: "team/run", Running: &soloist.RunInfo{LeaseInfo: soloist.LeaseInfo{Name: "team/run", Holder: "Alpha#1"}}}}}
	read.leases = &listed[soloist.LeaseInfo]{at: now, items: []soloist.LeaseInfo{{Name: "other", Holder: "Alpha#2"}}}
	var permits []soloist.LeaseInfo
	for i := range fewRows + 1 {
		permits = append(permits, soloist.LeaseInfo{Name: "team/pdf", Permit: i, Holder: "Alpha#3"})
	}
	read.semaphores = &listed[soloist.SemaphoreInfo]{at: now, items: []soloist.SemaphoreInfo{{Name: "team/pdf", Permits: permits}}}
	read.actions.at = now
	for prefix, more := range map[string]int{"": 3, "team/": 2} {
		page := shown[Replicas](t, s.visit("/replicas", prefix, read, now).replicaList)
		if len(page.Rows) != 2 || !page.Held || len(page.Rows[0].Holds) != fewRows || page.Rows[0].More != more || page.Rows[0].Holds[0].Name != "team/run" || len(page.Rows[1].Holds) != 0 {
			t.Errorf("prefix %q: %+v %+v", prefix, page, page.Rows)
		}
	}
	if page := shown[Replicas](t, s.visit("/replicas?q=ALPHA", "", read, now).replicaList); len(page.Rows) != 1 {
		t.Errorf("%+v", page)
	}
	v := s.visit("/replicas", "", newSnapshot(), now)
	if page := shown[Replicas](t, v.replicaList); page.Held || !v.reading {
		t.Errorf("%+v, being read: %t", page, v.reading)
	}
	read.actions = &listed[soloist.Action]{at: now, items: []soloist.Action{
		{Verb: "pause", Kind: soloist.KindJob, Name: "team/x"}, {Verb: "retry", Kind: soloist.KindElement, Job: "other", Name: "team/x"}, {Verb: "pause", Kind: soloist.KindJob, Name: "other"},
		{Verb: "retry", Kind: soloist.KindElement, Job: "team/x", Name: "1"}, {Verb: "release", Kind: soloist.KindLock, Job: "team/x", Name: "other"},
	}}
	v = s.visit("/audit", "team/", read, now)
	audit, err := v.audit()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, a := range reflect.ValueOf(audit).Field(0).Interface().([]soloist.Action) {
		names = append(names, a.Job+" "+a.Name)
	}
	if want := []string{"team/x 1", " team/x"}; !slices.Equal(names, want) || v.reading {
		t.Errorf("%q, want %q", names, want)
	}
}

// What is wrong with jobs is found anew when they have been read, and the replicas of a job are shown in the order of their names.
func TestJobsAreReadAnew(t *testing.T) {
	job := soloist.JobInfo{Name: "x", Replicas: []soloist.Definition{{Replica: "b", Digest: "1"}, {Replica: "a", Digest: "2"}}}
	read := newSnapshot().with(func(next *snapshot) {
		next.jobs = &listed[soloist.JobInfo]{at: time.Now(), items: []soloist.JobInfo{job}}
	})
	if all := read.troubles(); len(all) != 1 || all[0].What != "definitions differ" {
		t.Errorf("troubles %+v", all)
	}
	if all := read.with(func(next *snapshot) { next.jobs = &listed[soloist.JobInfo]{at: time.Now()} }).troubles(); len(all) != 0 {
		t.Errorf("troubles of a job that has gone: %+v", all)
	}
	if got := jobOf(job).Replicas; !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("replicas %q", got)
	}
}
