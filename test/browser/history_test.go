package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/cron"
	"github.com/soloist-dev/soloist/store"
)

// A past is a job with its runs, each of which began some seconds ago.
type past struct {
	name, schedule, about string
	runs                  []pastRun
}

type pastRun struct {
	ago, took float64
	replica   string
	outcome   string
	reason    string
}

// record writes the record of a job as replicas write it.
func (s *site) record(p past) {
	s.t.Helper()
	var runs []soloist.RunRecord
	now := time.Now().UTC()
	for i, r := range p.runs {
		begin := now.Add(-time.Duration(r.ago * float64(time.Second)))
		runs = append(runs, soloist.RunRecord{ScheduledAt: begin.Truncate(time.Second), StartedAt: begin, EndedAt: begin.Add(time.Duration(r.took * float64(time.Second))),
			Replica: r.replica, Attempt: 1, Token: int64(1041 + i), Outcome: r.outcome, Error: r.reason})
	}
	state, err := json.Marshal(map[string]any{"schedule": p.schedule, "about": p.about, "since": now.Add(-time.Hour).UnixMilli(), "runs": runs})
	if err != nil {
		s.t.Fatal(err)
	}
	const holder = "worker-1#0"
	outs, err := s.store.Acquire(s.t.Context(), []store.Claim{{Name: "job/" + p.name, Holder: holder, TTL: time.Minute, Mark: now.UnixMilli()}})
	if err == nil {
		err = outs[0].Err
	}
	if err != nil {
		s.t.Fatal(err)
	}
	release := store.Release{Name: "job/" + p.name, Holder: holder, Token: outs[0].Grant.Token, Mark: now.UnixMilli(), State: state, Retain: store.Forever}
	errs, err := s.store.Release(s.t.Context(), []store.Release{release})
	if err = errors.Join(append(errs, err)...); err != nil {
		s.t.Fatal(err)
	}
}

// busy records some busy minutes, with one double run.
func (s *site) busy() {
	s.t.Helper()
	var news, orders, mail []pastRun
	for i := range 18 {
		ago := float64(270 - 15*i)
		news = append(news, pastRun{ago, 6 + float64(i*7%5), fmt.Sprint("worker-", 1+i/6), soloist.OutcomeOK, ""})
		outcome, reason := soloist.OutcomeOK, ""
		if i == 11 {
			outcome, reason = soloist.OutcomeFailed, "exit status 3: the mail server is full"
		}
		mail = append(mail, pastRun{ago + 4, 2 + float64(i*5%4), fmt.Sprint("worker-", 1+(i+1)%3), outcome, reason})
	}
	for i := range 6 {
		orders = append(orders, pastRun{float64(260 - 45*i), 21 + float64(i*3%7), fmt.Sprint("worker-", 1+(i+1)%2), soloist.OutcomeOK, ""})
	}
	orders = append(orders, pastRun{72, 24, "worker-3", soloist.OutcomeOK, ""})
	orders[4].outcome, orders[4].took = soloist.OutcomeLost, 22
	orders[4].reason = "its lease was lost: the process was stopped for 40s"
	s.record(past{"publish-news", "0/15 * * * * ?", "Sends what is new to the site", news})
	s.record(past{"import-orders", "0/45 * * * * ?", "Fetches the orders of the shops", orders})
	s.record(past{"send-mail", "0/15 * * * * ?", "", mail})
	s.record(past{"close-day", "0 3 * * 1-5", "Closes the books of the day", []pastRun{{3600 * 9, 312, "worker-2", soloist.OutcomeOK, ""}}})
	for i := range 3 {
		s.replica(fmt.Sprint("worker-", i+1), s.idle("publish-news", "0/15 * * * * ?", "Sends what is new to the site"),
			s.idle("import-orders", "0/45 * * * * ?", "Fetches the orders of the shops"), s.idle("send-mail", "0/15 * * * * ?", ""),
			s.idle("close-day", "0 3 * * 1-5", "Closes the books of the day"))
	}
	s.hold()
}

// idle returns a job whose runs do nothing.
func (s *site) idle(name, schedule, about string) soloist.Job {
	return soloist.Job{Name: name, Description: about, Schedule: cron.MustParse(schedule), Do: func(context.Context, soloist.Run) error { return nil }}
}

// A double run is red on the overview, hatched on the timeline, and said in words on both and on the page of its job.
func TestDoubleRun(t *testing.T) {
	s := open(t, false)
	s.record(past{"report", "@every 1m", "", []pastRun{{100, 30, "one", soloist.OutcomeOK, ""}, {90, 10, "two", soloist.OutcomeOK, ""}, {50, 5, "one", soloist.OutcomeOK, ""}}})
	b := s.browse()
	for path, want := range map[string]string{"/": "Something is wrong", "/timeline": "doubled: one (token 1041) and two (token 1042) both ran for 10.0s", "/job?name=report": "doubled:", "/jobs": "doubled"} {
		b.visit(path)
		if text := b.text(); !strings.Contains(text, want) {
			t.Errorf("%s: no %q in %s", path, want, text)
		}
	}
	b.visit("/timeline?span=5+min")
	if n := eval[int](b, `document.querySelectorAll("section svg g rect.hatch").length`); n != 2 {
		t.Errorf("%d bars are hatched", n)
	}
}
