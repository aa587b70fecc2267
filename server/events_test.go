package server

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
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

// A feed is a connection that receives events.
type feed struct {
	t     *testing.T
	lines *bufio.Scanner
	close func()
	first Event
	last  string // the ID of the last event
	beats int
}

// mustStream fails the test unless a response is a stream of a kind, which no proxy is to keep.
func mustStream(t *testing.T, response *http.Response, kind string) {
	t.Helper()
	if got, buffering := response.Header.Get("Content-Type"), response.Header.Get("X-Accel-Buffering"); response.StatusCode != http.StatusOK || got != kind || buffering != "no" {
		t.Fatalf("%s, Content-Type %q, X-Accel-Buffering %q", response.Status, got, buffering)
	}
}

// listen connects to the events; with the ID of an event, to those after it.
func (s *service) listen(after string) *feed {
	s.t.Helper()
	r := s.request("GET", "/v1/events", nil)
	if after != "" {
		r.Header.Set(eventHeader, after)
	}
	response, err := s.http.Client().Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { response.Body.Close() })
	mustStream(s.t, response, eventStream)
	f := readFeed(s.t, response.Body)
	f.close = func() { response.Body.Close() }
	if f.first = f.next(); f.first.Event != "store" {
		s.t.Fatalf("the first event is %+v", f.first)
	}
	return f
}

func readFeed(t *testing.T, body io.Reader) *feed {
	f := &feed{t: t, lines: bufio.NewScanner(body)}
	f.lines.Buffer(nil, 1<<20)
	return f
}

// next returns the next event; the zero Event at the end.
func (f *feed) next() Event {
	f.t.Helper()
	name := ""
	var e Event
	for f.lines.Scan() {
		field, text, _ := strings.Cut(f.lines.Text(), ": ")
		switch field {
		case "":
			if f.lines.Text() != "" {
				f.beats++
			} else if e.Event != "" {
				if name != e.Event {
					f.t.Errorf("event %s has the data of %s", name, e.Event)
				}
				return e
			}
		case "id":
			f.last = text
		case "event":
			name = text
		case "data":
			if err := json.Unmarshal([]byte(text), &e); err != nil {
				f.t.Fatal(err)
			}
		}
	}
	return Event{}
}

// until returns the next event that is wanted.
func (f *feed) until(what string, want func(Event) bool) Event {
	f.t.Helper()
	for e := f.next(); e.Event != ""; e = f.next() {
		if want(e) {
			return e
		}
	}
	f.t.Fatalf("the events ended before %s", what)
	return Event{}
}

func (f *feed) untilNamed(event, name string) Event {
	f.t.Helper()
	return f.until(event+" "+name, func(e Event) bool { return e.Event == event && e.Name == name })
}

// runJob runs a job on a replica of its own until stop is called.
func (s *service) runJob(name string, do func(context.Context, soloist.Run) error) (stop func()) {
	s.t.Helper()
	replica := soloisttest.NewReplica(s.t, s.store.Share(), soloist.Config{Replica: "runner"})
	ctx, cancel := context.WithCancel(s.t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- replica.Run(ctx, soloist.Job{Name: name, Schedule: soloist.Every(time.Hour), Do: do})
	}()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			<-ended
		}
	}
	s.t.Cleanup(stop)
	return stop
}

// trigger asks for a run as soon as a replica has the job.
func (s *service) trigger(job string) {
	s.t.Helper()
	for s.client.Admin().Trigger(s.t.Context(), job) != nil {
		if s.t.Context().Err() != nil {
			s.t.Fatal("no replica has the job")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// What happens at one instance is told by another, and what happened while nobody was connected by the next.
func TestEvents(t *testing.T) {
	store := soloisttest.NewStore()
	one, two := start(t, store, Config{OpenActions: true}), start(t, store.Share(), Config{})
	f := two.listen("")
	lease := one.lease("/v1/locks/close-month/acquire", AcquireRequest{Replica: "printer"})
	if e := f.untilNamed("taken", "close-month"); e.Replica != "printer" || e.Token != lease.Token || e.Kind != "lock" || e.At == nil {
		t.Errorf("%+v", e)
	}
	one.want(204, "", "POST", "/v1/leases/"+lease.Lease+"/release", nil)
	if e := f.untilNamed("freed", "close-month"); e.Token != lease.Token {
		t.Errorf("%+v", e)
	}
	one.lease("/v1/semaphores/pdf/acquire?limit=2", nil)
	if e := f.untilNamed("taken", "pdf"); e.Permit == nil || e.Kind != "permit" {
		t.Errorf("%+v", e)
	}
	broken, end := errors.New("no paper"), make(chan struct{})
	one.runJob("report", func(ctx context.Context, _ soloist.Run) error {
		select {
		case <-end:
			return broken
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	if e := f.until("the replica", func(e Event) bool { return e.Event == "replica" && e.Replica == "runner" }); e.Process == nil || !e.Process.Alive {
		t.Errorf("%+v", e)
	}
	one.trigger("report")
	started := f.untilNamed("started", "report")
	if started.Replica != "runner" || started.Token == 0 || started.Attempt != 1 {
		t.Errorf("%+v", started)
	}
	one.want(204, "", "POST", "/v1/jobs/report/pause", ReasonRequest{Reason: "month end"})
	var paused, action Event // in any order
	f.until("the pause and the action", func(e Event) bool {
		switch {
		case e.Event == "job" && e.Job != nil && e.Job.Paused != nil:
			paused = e
		case e.Event == "action" && e.Action.Verb == "pause":
			action = e
		}
		return paused.Name != "" && action.Name != ""
	})
	if paused.Name != "report" || paused.Job.Paused.Reason != "month end" || action.Action.Name != "report" {
		t.Errorf("%+v and %+v", paused, action)
	}
	f.close()
	close(end)
	for ended := false; !ended; {
		job, err := one.client.Admin().Job(t.Context(), "report")
		if err != nil {
			t.Fatal(err)
		}
		if ended = len(job.Runs) > 0; !ended {
			time.Sleep(10 * time.Millisecond)
		}
	}
	f = start(t, store.Share(), Config{}).listen(f.last)
	if e := f.untilNamed("ended", "report"); e.Run == nil || e.Run.Outcome != soloist.OutcomeFailed || e.Run.Error != "no paper" || e.Token != started.Token {
		t.Errorf("%+v", e)
	}
	for _, wrong := range []string{"x", "-1", "99999999999999999999", "9999999999999999"} {
		one.want(400, codeInvalid, "GET", "/v1/events", nil, eventHeader, wrong)
	}
}

// Each event is as the description of the API has it.
func TestEventsAreAsDescribed(t *testing.T) {
	s := start(t, soloisttest.NewStore(), Config{})
	schema := s.description()["GET /v1/events 200 "+eventStream]
	if schema == nil {
		t.Fatal("they are not described")
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	now, n := time.Now(), 1
	lease := soloist.LeaseInfo{Kind: soloist.KindPermit, Name: "x", Holder: "a", Token: 1}
	for _, e := range []event{
		storeEvent(newSnapshot()), actionEvent(soloist.Action{}), startedEvent(soloist.JobInfo{Running: &soloist.RunInfo{}}), takenEvent(lease, now),
		endedEvent("x", soloist.RunRecord{ExitCode: &n}), jobChanges(nil, &soloist.JobInfo{Paused: &soloist.Pause{}})[0],
	} {
		var v any
		if err := json.Unmarshal(e.data, &v); err != nil {
			t.Fatal(err)
		}
		if err := resolved.Validate(v); err != nil {
			t.Errorf("%s: %v", e.data, err)
		}
	}
}

// A store that goes away is told, and so is its return; nothing seems to be freed meanwhile.
func TestEventsOfAStoreThatIsAway(t *testing.T) {
	s := start(t, soloisttest.NewStore(), Config{})
	l := s.lease("/v1/locks/x/acquire", AcquireRequest{TTL: 3600})
	f := s.listen("")
	s.store.Break(errors.New("away"))
	if e := f.next(); e.Event != "store" || e.Store.Reachable {
		t.Errorf("%+v", e)
	}
	s.store.Heal()
	if e := f.next(); e.Event != "store" || !e.Store.Reachable {
		t.Errorf("%+v", e)
	}
	s.want(204, "", "POST", "/v1/leases/"+l.Lease+"/release", nil)
	if e := f.next(); e.Event != "freed" {
		t.Errorf("%+v", e)
	}
}

// While an instance cannot read the store, nothing seems to be freed that its holder, which can, renews meanwhile; nor does it seem to be taken anew, or a run to
// begin, when the instance is back.
func TestEventsOfAStoreThatIsAwayForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := startInBubble(t, Config{OpenActions: true})
		holder := soloisttest.NewReplica(t, s.store.Share(), soloist.Config{})
		lock, err := holder.TryLock(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		passing, err := holder.TryLock(t.Context(), "passing")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := holder.Semaphore("pdf", 2).TryAcquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		began := make(chan struct{})
		stop := s.runJob("report", func(ctx context.Context, _ soloist.Run) error {
			close(began)
			<-ctx.Done()
			return nil
		})
		s.trigger("report")
		<-began
		conn, body := s.inBubble(p)
		f, told := readFeed(t, body), make(chan Event, 100)
		go func() {
			for e := f.next(); e.Event != ""; e = f.next() {
				told <- e
			}
		}()
		next := func() string {
			select {
			case e := <-told:
				if e.Event == "store" {
					return fmt.Sprint("store ", e.Store.Reachable)
				}
				return e.Event + " " + e.Name
			case <-time.After(time.Minute): // of the bubble, whose other goroutines would go on for ever
				return "nothing"
			}
		}
		want := func(what string) {
			t.Helper()
			if got := next(); got != what {
				t.Errorf("told %q, want %q", got, what)
			}
		}
		want("store true")
		s.store.Break(errors.New("away"))
		want("store false")
		time.Sleep(45 * time.Second)
		if err := passing.Release(); err != nil {
			t.Fatal(err)
		}
		s.store.Heal()
		lists := map[string]bool{next(): true, next(): true} // each list is read on its own
		if !lists["store true"] || !lists["freed passing"] {
			t.Errorf("told %v", lists)
		}
		time.Sleep(2 * pollAtLeast)
		if err := lock.Release(); err != nil {
			t.Fatal(err)
		}
		want("freed x")
		_ = conn.Close()
		stop()
	})
}

// A read that ended in the middle of a semaphore frees none of its permits, and what is kept for events of names that have ended has a bound.
func TestEventsOfAReadThatEndedEarly(t *testing.T) {
	at := time.UnixMilli(1000)
	permit := func(n int) soloist.LeaseInfo {
		return soloist.LeaseInfo{Kind: soloist.KindPermit, Name: "pdf", Permit: n, Holder: "a#1", Token: 1, Left: time.Second}
	}
	whole := newSnapshot()
	whole.semaphores = &listed[soloist.SemaphoreInfo]{at: at, items: []soloist.SemaphoreInfo{{Name: "pdf", Permits: []soloist.LeaseInfo{permit(0), permit(1)}}}}
	part := *whole
	part.semaphores = &listed[soloist.SemaphoreInfo]{at: at.Add(time.Minute), err: errors.New("away"), cut: true, items: []soloist.SemaphoreInfo{{Name: "pdf", Permits: []soloist.LeaseInfo{permit(0)}}}}
	agedSemaphores(part.semaphores, whole.semaphores)
	again := part
	again.semaphores = &listed[soloist.SemaphoreInfo]{at: at.Add(2 * time.Minute), items: []soloist.SemaphoreInfo{{Name: "pdf", Permits: []soloist.LeaseInfo{permit(1)}}}}
	for i, step := range []struct {
		before, now *snapshot
		want        string
	}{{whole, &part, "store "}, {&part, &again, "store freed "}} {
		got := ""
		for _, e := range changes(step.before, step.now) {
			got += e.name + " "
		}
		if got != step.want {
			t.Errorf("step %d: told %q, want %q", i, got, step.want)
		}
	}
	leases := &listed[soloist.LeaseInfo]{at: at}
	for i := range mostStood + 1 {
		leases.items = append(leases.items, soloist.LeaseInfo{Kind: soloist.KindLock, Name: fmt.Sprint(i), Holder: "a#1", Token: 1, Left: time.Second})
	}
	long := &listed[soloist.LeaseInfo]{at: at.Add(time.Minute), err: errors.New("away"), cut: true}
	agedLeases(long, leases)
	diff(leases, long, leaseKey, func(_, now *soloist.LeaseInfo) {
		if now == nil {
			t.Fatal("told as freed")
		}
	})
	if len(long.known()) != 0 {
		t.Errorf("%d are kept", len(long.known()))
	}
}

// An unlisted store does not list the names of a kind.
type unlisted struct {
	*soloisttest.Store
	kind        string
	from, until time.Time // for ever, if until is zero
}

func (s *unlisted) List(ctx context.Context, prefix string) iter.Seq2[store.Record, error] {
	return s.ListAfter(ctx, prefix, "")
}

func (s *unlisted) ListAfter(ctx context.Context, prefix, after string) iter.Seq2[store.Record, error] {
	if now := time.Now(); !strings.HasPrefix(prefix, s.kind) || now.Before(s.from) || !s.until.IsZero() && now.After(s.until) {
		return s.Store.ListAfter(ctx, prefix, after)
	}
	return func(yield func(store.Record, error) bool) { yield(store.Record{}, errors.New("too slow")) }
}

// eventsFor returns what a connection to the events of a store is told within a time, as it is sent, and the last ID of it.
func eventsFor(t *testing.T, s store.Store, after string, within time.Duration) (text, last string) {
	t.Helper()
	server, err := New(soloisttest.NewReplica(t, s, soloist.Config{}), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Drain()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, "GET", "http://localhost/v1/events", nil)
	if after != "" {
		r.Header.Set(eventHeader, after)
	}
	w := httptest.NewRecorder()
	server.ServeHTTP(w, r)
	for line := range strings.Lines(w.Body.String()) {
		if id, is := strings.CutPrefix(line, "id: "); is {
			last = strings.TrimSpace(id)
		}
	}
	return w.Body.String(), last
}

// What one instance could not read is told by the next one, whatever else the first has told meanwhile, and whether it could ever read it.
func TestEventsThatNoInstanceHasTold(t *testing.T) {
	for _, readable := range []time.Duration{2 * time.Second, 0} {
		synctest.Test(t, func(t *testing.T) {
			mem := soloisttest.NewStore()
			c := soloisttest.NewReplica(t, mem.Share(), soloist.Config{})
			running, stop := context.WithTimeout(t.Context(), 20*time.Second)
			defer stop()
			ended := make(chan error)
			go func() {
				ended <- c.Run(running, soloist.Job{Name: "report", Schedule: soloist.At(time.Now().Add(5 * time.Second)), Do: func(context.Context, soloist.Run) error { return nil }})
			}()
			time.AfterFunc(5*time.Minute, func() {
				if _, err := c.TryLock(t.Context(), "x"); err != nil {
					t.Error(err)
				}
			})
			text, last := eventsFor(t, &unlisted{Store: mem, kind: "job/", from: time.Now().Add(readable)}, "", 6*time.Minute)
			if !strings.Contains(text, "event: taken") || strings.Contains(text, "event: ended") {
				t.Fatalf("the first instance has told %s", text)
			}
			if text, _ := eventsFor(t, mem.Share(), last, time.Second); !strings.Contains(text, "event: ended") {
				t.Errorf("jobs could be read for %v; the next instance has told, after %s: %s", readable, last, text)
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
			time.Sleep(readWithin)
		})
	}
}

// What has been there all the time is not told as new by an instance whose first read failed, all of it or the locks alone.
func TestEventsAfterAFirstReadThatFailed(t *testing.T) {
	for _, part := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			mem := soloisttest.NewStore()
			c := soloisttest.NewReplica(t, mem.Share(), soloist.Config{})
			if _, err := c.TryLock(t.Context(), "x"); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Campaign(t.Context(), "x"); err != nil {
				t.Fatal(err)
			}
			var of store.Store = mem
			if part {
				of = &unlisted{Store: mem, kind: "lock/", until: time.Now().Add(10 * time.Second)}
			} else {
				mem.Break(errors.New("away"))
				time.AfterFunc(10*time.Second, mem.Heal)
			}
			time.AfterFunc(20*time.Second, func() {
				if _, err := c.TryLock(t.Context(), "y"); err != nil {
					t.Error(err)
				}
			})
			text, _ := eventsFor(t, of, "", 30*time.Second)
			if !strings.Contains(text, `"reachable":true`) || !strings.Contains(text, `"name":"y"`) || strings.Contains(text, `"name":"x"`) {
				t.Errorf("only the locks failed: %t; told %s", part, text)
			}
			time.Sleep(readWithin)
		})
	}
}

// A store that did not answer is asked again soon, however long the request to it took.
func TestEventsOfAStoreThatDidNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := soloisttest.NewStore()
		c := soloisttest.NewReplica(t, mem.Share(), soloist.Config{})
		time.AfterFunc(5*time.Second, mem.Stall)
		time.AfterFunc(time.Minute, mem.Heal)
		time.AfterFunc(70*time.Second, func() {
			if _, err := c.TryLock(t.Context(), "y"); err != nil {
				t.Error(err)
			}
		})
		if text, _ := eventsFor(t, mem, "", 2*time.Minute); !strings.Contains(text, `"name":"y"`) {
			t.Errorf("told %s", text)
		}
		time.Sleep(readWithin)
	})
}

// A request that waits goes on when a store is back that was away meanwhile. One that does not wait is told so.
func TestWaitingOutlastsTheStore(t *testing.T) {
	s := start(t, soloisttest.NewStore(), Config{})
	s.store.Break(errors.New("away"))
	if a := s.want(503, codeUnavailable, "POST", "/v1/locks/x/acquire", AcquireRequest{TTL: 60}); a.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	before, granted := s.store.Calls(), make(chan answer, 1)
	go func() { granted <- s.send("POST", "/v1/locks/x/acquire", AcquireRequest{TTL: 60, Wait: 600}) }()
	for s.store.Calls() < before+2 {
		runtime.Gosched()
	}
	s.store.Heal()
	if a := <-granted; a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// A token with a prefix receives no more than it may see.
func TestEventsOfAPrefix(t *testing.T) {
	s, secrets := withTokens(t)
	s.token = secrets["readteam/"]
	f := s.listen("")
	s.token = secrets["operate"]
	s.lease("/v1/locks/other/acquire", nil)
	s.lease("/v1/locks/team%2Fx/acquire", nil)
	if e := f.next(); e.Event != "taken" || e.Name != "team/x" {
		t.Errorf("%+v", e)
	}
	s.token = secrets["readteam/"]
	f = s.listen(f.last)
	if e := f.next(); e.Event != "taken" || e.Name != "team/x" {
		t.Errorf("%+v", e)
	}
	if err := s.client.Admin().By("ann").PauseAll(t.Context(), "of no job alone"); err != nil {
		t.Fatal(err)
	}
	s.token = secrets["operate"]
	s.listen("1").until("the pause of all", func(e Event) bool { return e.Event == "action" })
	s.lease("/v1/locks/team%2Fy/acquire", nil)
	if e := f.next(); e.Event != "taken" || e.Name != "team/y" {
		t.Errorf("%+v, which is not about its prefix", e)
	}
	s.token = ""
	s.want(401, codeUnauthenticated, "GET", "/v1/events", nil)
}

// Who asks for the headers of a stream alone takes no place, and the connection goes on.
func TestHeadersOfAStream(t *testing.T) {
	s := start(t, soloisttest.NewStore(), Config{MaxWaiting: 1})
	for range 3 {
		if a := s.send("HEAD", "/v1/events", nil); a.status != 200 || a.header.Get("Content-Type") != eventStream {
			t.Errorf("%d, %v", a.status, a.header)
		}
	}
	s.listen("")
}

// A shutdown ends the connections with an event. There are as many of them as requests that wait, and neither takes the places of the other: who may
// only read keeps nobody from a lease.
func TestEventsEnd(t *testing.T) {
	s := start(t, soloisttest.NewStore(), Config{MaxWaiting: 1})
	f := s.listen("")
	s.want(503, codeBusy, "GET", "/v1/events", nil)
	s.want(200, "", "POST", "/v1/elements/invoices/claim", BatchRequest{IDs: []string{"1"}})
	s.lease("/v1/locks/x/acquire", nil)
	f.next()
	s.server.Drain()
	if e := f.next(); e.Event != "end" || e.Why != "closing" {
		t.Errorf("%+v", e)
	}
	if e := f.next(); e.Event != "" {
		t.Errorf("%+v after the end", e)
	}
}

// inBubble connects to the events of a service in a bubble.
func (s *service) inBubble(p pipes) (net.Conn, io.Reader) {
	s.t.Helper()
	conn := p.dial()
	if _, err := io.WriteString(conn, "GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		s.t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { response.Body.Close() })
	return conn, response.Body
}

// The store is read as often for many connections as for one, and not at all for none.
func TestEventsShareTheirReads(t *testing.T) {
	calls := func(tabs int) (with, without int) {
		synctest.Test(t, func(t *testing.T) {
			s, p := startInBubble(t, Config{OpenActions: true})
			var conns []net.Conn
			for range tabs {
				conn, body := s.inBubble(p)
				go func() { _, _ = io.Copy(io.Discard, body) }()
				conns = append(conns, conn)
			}
			time.Sleep(2 * pollIdle) // nobody else looks
			before := s.store.Calls()
			time.Sleep(time.Minute)
			with = s.store.Calls() - before
			for _, conn := range conns {
				_ = conn.Close()
			}
			time.Sleep(2 * pollIdle)
			before = s.store.Calls()
			time.Sleep(time.Minute)
			without = s.store.Calls() - before
		})
		return with, without
	}
	one, none := calls(1)
	many, _ := calls(50)
	if one == 0 || many > 10*one { // what is asked at one instant may be one call, or a few
		t.Errorf("%d calls of the store in a minute for one connection, %d for 50", one, many)
	}
	if none != 0 {
		t.Errorf("%d calls of the store without a connection", none)
	}
}

// A connection without changes has heartbeats.
func TestEventsHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := startInBubble(t, Config{OpenActions: true})
		conn, body := s.inBubble(p)
		f := readFeed(t, body)
		f.next()
		go func() {
			time.Sleep(time.Minute)
			s.server.Drain()
		}()
		if e := f.next(); e.Event != "end" || f.beats < 3 {
			t.Errorf("%+v after %d heartbeats in a minute", e, f.beats)
		}
		_ = conn.Close()
	})
}

// A client that does not read for a while is told that events were dropped, and what waits for it is bounded.
func TestEventsOfASlowClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := startInBubble(t, Config{OpenActions: true})
		conn, body := s.inBubble(p)
		f := readFeed(t, body)
		f.next()
		for i := 0; time.Duration(i)*pollAtLeast < writeWithin-time.Second; i++ {
			if _, err := s.client.TryLock(t.Context(), fmt.Sprint("lock ", i)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(pollAtLeast)
		}
		defer time.AfterFunc(time.Minute, s.server.Drain).Stop() // so that the test ends also if the client is not dropped
		n := 0
		last := Event{}
		for e := f.next(); e.Event != ""; e = f.next() {
			last = e
			n++
		}
		if last.Event != "end" || last.Why != "slow" || n > 2*maxBatches+4 { // a batch can have the locks of two intervals
			t.Errorf("%+v after %d events", last, n)
		}
		_ = conn.Close()
	})
}

// A client may be as far behind in each list as in one: while all of them change it is dropped no sooner.
func TestAllListsForASlowClient(t *testing.T) {
	w := newWatcher(t.Context(), nil)
	r := newReader()
	w.readers[r] = struct{}{}
	change := batch{events: []event{{}}}
	for range maxBatches {
		for i := range lists {
			change.list = i
			w.tell(change)
		}
	}
	r.has(<-r.batches)
	change.list = 0
	w.tell(change)
	if len(w.readers) != 1 {
		t.Errorf("dropped before it has missed %d changes of each list", maxBatches)
	}
	if w.tell(change); len(w.readers) != 0 {
		t.Error("what waits for it has no bound")
	}
}

// More changes than a client could show are one event.
func TestManyChanges(t *testing.T) {
	before, now := newSnapshot(), newSnapshot()
	before.leases.at = time.Now().Add(-time.Second)
	before.leases.whole = before.leases.at
	now.leases.at = time.Now()
	for i := range maxChanges + 1 {
		now.leases.items = append(now.leases.items, soloist.LeaseInfo{Kind: soloist.KindLock, Name: fmt.Sprint(i), Holder: "a", Token: 1})
	}
	for _, all := range [][]event{changes(before, now), now.since(now.leases.at.Add(-time.Hour))} {
		if len(all) != 1 || all[0].name != "many" {
			t.Errorf("%d events", len(all))
		}
	}
}

// The last event of a batch alone has its ID: a client that received a part of it, and gives the ID that it has, gets the whole again.
func TestOnlyTheLastOfABatchHasTheID(t *testing.T) {
	got := string((&call{}).batch(time.UnixMilli(7), []event{{name: "a", data: []byte("1")}, {name: "b", data: []byte("2")}}))
	if want := "event: a\ndata: 1\n\nid: 7\nevent: b\ndata: 2\n\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Who connects again is told what happened somewhat before the last event, too: the clock of who has recorded it may be behind, and the record of a run may have
// come later than its end.
func TestEventsOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := soloisttest.NewReplica(t, soloisttest.NewStore(), soloist.Config{})
		job := soloist.Job{Name: "report", Schedule: soloist.At(time.Now().Add(time.Second)), Do: func(context.Context, soloist.Run) error { return nil }}
		running, stop := context.WithTimeout(t.Context(), 3*time.Second)
		defer stop()
		if err := c.Run(running, job); err != nil {
			t.Fatal(err)
		}
		s, err := New(c, Config{})
		if err != nil {
			t.Fatal(err)
		}
		for ahead, told := range map[time.Duration]bool{eventOverlap / 2: true, eventOverlap/2 + lateRecord: true, 2 * (eventOverlap + lateRecord): false} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			r := httptest.NewRequestWithContext(ctx, "GET", "http://localhost/v1/events", nil)
			r.Header.Set(eventHeader, strconv.FormatInt(time.Now().Add(ahead).UnixMilli(), 10))
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			cancel()
			if strings.Contains(w.Body.String(), "event: ended") != told {
				t.Errorf("with an event of %v after the end of a run: %s", ahead, w.Body)
			}
		}
		s.Drain()
		time.Sleep(readWithin)
	})
}

// What one batch tells: a name that has passed on was freed and taken, a manual run that was asked for is a change of its job, and what began before an instant is
// not told after it.
func TestWhatIsAChange(t *testing.T) {
	at := time.UnixMilli(1000)
	names := func(events []event) (all string) {
		for _, e := range events {
			all += e.name + " "
		}
		return all
	}
	lease := func(token int64) *soloist.LeaseInfo {
		return &soloist.LeaseInfo{Kind: soloist.KindLock, Name: "x", Holder: "a#1", Token: token}
	}
	if got := names(leaseChanges(lease(1), lease(2), at)); got != "freed taken " {
		t.Errorf("a lock that has passed on: %q", got)
	}
	if got := names(leaseChanges(lease(1), lease(1), at)); got != "" {
		t.Errorf("a lock that is still held: %q", got)
	}
	old := soloist.JobInfo{Name: "tick"}
	asked := old
	asked.Manual = !old.Manual
	if got := names(jobChanges(&old, &asked)); got != "job " {
		t.Errorf("a manual run that was asked for: %q", got)
	}
	first := soloist.RunRecord{Token: 1, StartedAt: at, EndedAt: at, Attempt: 1}
	second := first
	second.Attempt = 2
	old.Runs, asked = []soloist.RunRecord{first}, soloist.JobInfo{Name: "tick", Runs: []soloist.RunRecord{first, second}}
	if got := jobChanges(&old, &asked); names(got) != "ended " || !strings.Contains(string(got[0].data), `"attempt":2`) {
		t.Errorf("a run that was attempted again: %q", names(got))
	}
	run := func(token int64) *soloist.RunInfo {
		return &soloist.RunInfo{Since: at, LeaseInfo: soloist.LeaseInfo{Token: token}}
	}
	old.Runs, asked.Runs = nil, nil
	for what, c := range map[string]struct {
		old, now *soloist.RunInfo
		want     string
	}{"began": {nil, run(1), "started "}, "goes on": {run(1), run(1), ""}, "was followed by another": {run(1), run(2), "started "}, "ended": {run(1), nil, ""}} {
		if old.Running, asked.Running = c.old, c.now; names(jobChanges(&old, &asked)) != c.want {
			t.Errorf("a run that %s: %q, want %q", what, names(jobChanges(&old, &asked)), c.want)
		}
	}
	for what, c := range map[string]struct {
		change func(*soloist.JobInfo)
		want   string
	}{
		"nothing":                   {func(*soloist.JobInfo) {}, ""},
		"the schedule":              {func(j *soloist.JobInfo) { j.Schedule = "@daily" }, "job "},
		"the description":           {func(j *soloist.JobInfo) { j.About = "writes" }, "job "},
		"a pause":                   {func(j *soloist.JobInfo) { j.Paused = &soloist.Pause{Reason: "holiday"} }, "job "},
		"the replicas":              {func(j *soloist.JobInfo) { j.Replicas = j.Replicas[:1] }, "job "},
		"the order of the replicas": {func(j *soloist.JobInfo) { slices.Reverse(j.Replicas) }, ""},
	} {
		replicas := func() []soloist.Definition { return []soloist.Definition{{Replica: "a"}, {Replica: "b"}} }
		before, now := soloist.JobInfo{Name: "tick", Replicas: replicas()}, soloist.JobInfo{Name: "tick", Replicas: replicas()}
		if c.change(&now); names(jobChanges(&before, &now)) != c.want {
			t.Errorf("a change of %s: %q, want %q", what, names(jobChanges(&before, &now)), c.want)
		}
	}
	if got := jobChanges(nil, &soloist.JobInfo{Name: "tick", Runs: []soloist.RunRecord{{Replica: "a"}}}); names(got) != "job ended " || !strings.Contains(string(got[1].data), `"replica":"a"`) {
		t.Errorf("a job that has run already: %q %s", names(got), got[1].data)
	}
	if got := jobChanges(&old, nil); names(got) != "job " || strings.Contains(string(got[0].data), `"job":{`) {
		t.Errorf("a job that was forgotten: %s", got[0].data)
	}
	// What cannot be written, for its year has five digits, is told in short.
	if got := endedEvent("tick", soloist.RunRecord{Token: 7, EndedAt: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}); string(got.data) != `{"event":"ended","name":"tick","token":7}` {
		t.Errorf("a run that ended in the year 10000: %s", got.data)
	}
	s := newSnapshot()
	lived := s.with(func(next *snapshot) {
		next.replicas = &listed[soloist.ReplicaInfo]{at: at, items: []soloist.ReplicaInfo{{Replica: "a", Alive: true}}}
	})
	gone := lived.with(func(next *snapshot) { next.replicas = &listed[soloist.ReplicaInfo]{at: at.Add(time.Second)} })
	if got := changes(lived, gone); names(got) != "replica " || string(got[0].data) != `{"event":"replica","replica":"a"}` {
		t.Errorf("a replica that has gone: %q", names(got))
	}
	s.actions = &listed[soloist.Action]{at: at, items: []soloist.Action{{At: at}}}
	if got := names(s.since(at)) + names(s.since(at.Add(-time.Millisecond))); got != "action " {
		t.Errorf("an action at an instant, of those after it and after an earlier one: %q", got)
	}
	s.actions.items = nil
	s.leases = &listed[soloist.LeaseInfo]{at: at, items: []soloist.LeaseInfo{*lease(1), {Kind: soloist.KindLock, Name: "lingers", Token: 1}}}
	if got := names(s.since(at)) + names(s.since(at.Add(-time.Millisecond))); got != "taken " {
		t.Errorf("a lock that was taken at an instant, and one that lingers, of those after it and after an earlier one: %q", got)
	}
	s.leases.items = nil
	running := &soloist.RunInfo{Since: at}
	s.jobs = &listed[soloist.JobInfo]{at: at, items: []soloist.JobInfo{{Name: "tick", Running: running}}}
	if got := names(s.since(at)) + names(s.since(at.Add(-time.Millisecond))); got != "started " {
		t.Errorf("a run that began at an instant, of those after it and after an earlier one: %q", got)
	}
}

// Who has changed something and looks sees it: of what is shown then, all was read after that.
func TestWhatIsShownWasReadSince(t *testing.T) {
	inSlowBubble(t, func(t *testing.T, s *Server, _ *soloist.Client) {
		for range 3 {
			at := time.Now()
			read, ok := s.watch.since(t.Context(), at)
			for i, list := range lists {
				if !ok || list.at(read).Before(at) {
					t.Errorf("list %d was read %v before", i, at.Sub(list.at(read)))
				}
			}
			time.Sleep(time.Millisecond)
		}
	})
}
