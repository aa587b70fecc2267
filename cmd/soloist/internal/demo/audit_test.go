package demo

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// A tale is a history made by hand. Its clock is that of its events, in milliseconds.
type tale struct {
	findings
	token int64
}

const noon = int64(1_800_000_000) // a scheduled time

func (s *tale) tell(at int, replica string, e event) {
	e.At, e.Replica = time.Duration(at)*time.Millisecond, replica
	if e.Kind == runEnd || e.Kind == permitEnd {
		e.Held = e.At
	}
	s.events = append(s.events, e)
}

func ledgerPath(scheduled int64) string {
	return ledgerPaths + time.Unix(scheduled, 0).UTC().Format(time.RFC3339)
}

// begin reports the beginning of a run, and returns its token.
func (s *tale) begin(at int, replica string, scheduled int64, attempt int) int64 {
	s.token++
	s.tell(at, replica, event{Kind: runStart, Scheduled: scheduled, Attempt: attempt, Token: s.token})
	s.tell(at, replica, event{Kind: claim, Path: ledgerPath(scheduled), Token: s.token, Status: http.StatusNoContent})
	return s.token
}

// run reports a run from its beginning to its record.
func (s *tale) run(at int, replica string, scheduled int64, attempt int) {
	token := s.begin(at, replica, scheduled, attempt)
	s.tell(at+200, replica, event{Kind: write, Path: ledgerPath(scheduled), Token: token, Status: http.StatusCreated})
	s.tell(at+210, replica, event{Kind: runEnd, Scheduled: scheduled, Attempt: attempt, Token: token})
	s.tell(at+220, replica, event{Kind: recorded, Token: token})
}

// halt reports a run that halts in the middle.
func (s *tale) halt(at int, replica string, scheduled int64) int64 {
	token := s.begin(at, replica, scheduled, 1)
	s.tell(at+100, replica, event{Kind: holding, Scheduled: scheduled, Attempt: 1, Token: token})
	return token
}

func (s *tale) document(from, to int, replica string, token int64) {
	s.tell(from, replica, event{Kind: permit, Token: token})
	s.tell(to, replica, event{Kind: permitEnd, Token: token})
}

// good is a short demo in which all went well: a is killed in the second run, b is paused in the third.
func good() *tale {
	s := &tale{findings: findings{from: noon, to: noon + 3, ttl: 3 * time.Second, permits: 2, processed: 2}}
	s.invoices = []invoice{{ID: "1", Cents: 100}, {ID: "2", Cents: 250}}
	for _, name := range []string{"a", "b", "c"} {
		s.tell(1, name, event{Kind: started})
	}
	s.run(1000, "a", noon, 1)
	s.halt(2000, "a", noon+1)
	s.tell(2200, "a", event{Kind: killed})
	s.run(5000, "c", noon+1, 2)
	late := s.halt(6000, "b", noon+2)
	s.tell(6200, "b", event{Kind: paused})
	s.run(9000, "c", noon+2, 2)
	s.tell(9500, "b", event{Kind: resumed})
	s.tell(9510, "b", event{Kind: write, Path: ledgerPath(noon + 2), Token: late, Status: http.StatusPreconditionFailed})
	s.tell(9520, "b", event{Kind: runEnd, Scheduled: noon + 2, Attempt: 1, Token: late, Err: "stale"})
	s.events[len(s.events)-1].Held = 8900 * time.Millisecond
	s.run(10000, "b", noon+3, 1)
	for i, v := range s.invoices {
		s.tell(10300, "b", event{Kind: write, Path: v.path(), Token: int64(90 + i), Status: http.StatusCreated})
	}
	s.document(10400, 10500, "b", 1)
	s.document(10450, 10550, "c", 2)
	s.document(10500, 10600, "b", 3)
	s.tell(11000, "b", event{Kind: bye})
	s.tell(11000, "c", event{Kind: bye})
	return s
}

func (s *tale) drop(unwanted func(event) bool) { s.events = slices.DeleteFunc(s.events, unwanted) }

func (s *tale) change(k kind, replica string, how func(*event)) {
	for i := range s.events {
		if s.events[i].Kind == k && s.events[i].Replica == replica {
			how(&s.events[i])
		}
	}
}

func TestAuditPasses(t *testing.T) {
	for _, v := range audit(&good().findings) {
		if !v.ok {
			t.Errorf("%s, but %v", v.says, v.against)
		}
	}
}

// Each line of the audit goes red for what it is there for, and only lines that are concerned do.
func TestAuditFails(t *testing.T) {
	const (
		once     = "each scheduled time ran once"
		ledger   = "each scheduled time is in the ledger once"
		overlap  = "never two runs of the job at once"
		invoices = "each invoice was issued once"
		pdf      = "never more than 2 permits at once"
		stale    = "stale writes were rejected"
		tokens   = "tokens only grew"
		left     = "nothing is left"
	)
	tests := []struct {
		name   string
		damage func(*tale)
		red    []string // how the lines begin, or what is in them
	}{
		{"nothing happened", func(s *tale) { *s = tale{findings: findings{permits: 2}} },
			[]string{once, ledger, overlap, invoices, pdf, "after the kill", "after the pause", stale, tokens, left}},
		{"a scheduled time ran twice, one after the other", func(s *tale) { s.run(11000, "c", noon+3, 2) }, []string{once, ledger}},
		{"a scheduled time ran on two replicas at once", func(s *tale) { s.run(10100, "c", noon+3, 1) }, []string{once, ledger, overlap}},
		{"a scheduled time outside the window ran twice", func(s *tale) {
			s.run(11000, "c", noon+9, 1)
			s.run(12000, "b", noon+9, 2)
		}, []string{once, ledger}},
		{"a second is missing", func(s *tale) { s.to++ }, []string{once, ledger}},
		{"the window is empty", func(s *tale) { s.to = s.from - 1 }, []string{once, ledger}},
		{"the window was never opened", func(s *tale) { s.from, s.to = 0, 0 }, []string{once, ledger}},
		{"a run failed", func(s *tale) {
			s.change(runEnd, "a", func(e *event) { e.Err = "no" })
		}, []string{once}},
		{"a run was not recorded", func(s *tale) {
			s.change(recorded, "a", func(e *event) { e.Err = "lease lost" })
		}, []string{once}},
		{"a run wrote nothing", func(s *tale) {
			s.drop(func(e event) bool { return e.Kind == write && e.Path == ledgerPath(noon) })
		}, []string{ledger}},
		{"a run wrote twice", func(s *tale) {
			s.tell(1205, "a", event{Kind: write, Path: ledgerPath(noon), Token: 99, Status: http.StatusCreated})
		}, []string{ledger}},
		{"the paused replica believed in its lease for too long", func(s *tale) {
			s.change(runEnd, "b", func(e *event) { e.Held = e.At })
		}, []string{overlap}},
		{"an invoice was issued twice", func(s *tale) {
			s.tell(10350, "c", event{Kind: write, Path: invoicePaths + "1", Token: 95, Status: http.StatusCreated})
		}, []string{invoices}},
		{"an invoice was not issued", func(s *tale) { s.invoices = append(s.invoices, invoice{ID: "3"}); s.processed++ }, []string{invoices}},
		{"an issued invoice is not recorded", func(s *tale) { s.processed-- }, []string{invoices}},
		{"three permits at once", func(s *tale) { s.document(10460, 10490, "b", 4) }, []string{pdf}},
		{"a third permit while two replicas have hung", func(s *tale) {
			s.tell(10950, "b", event{Kind: permit, Token: 7})
			s.tell(10951, "c", event{Kind: permit, Token: 8})
			s.document(10960, 10970, "b", 9)
		}, []string{pdf}},
		{"nobody took over after the kill", func(s *tale) {
			s.drop(func(e event) bool { return e.Kind == runStart && e.Attempt == 2 && e.Scheduled == noon+1 })
		}, []string{once, "after the kill"}},
		{"the takeover came late", func(s *tale) {
			s.change(killed, "a", func(e *event) { e.At = -8 * time.Second })
			s.change(holding, "a", func(e *event) { e.At = -9 * time.Second })
		}, []string{"after the kill"}},
		{"the same replica began again", func(s *tale) {
			for i := range s.events {
				if e := &s.events[i]; e.Attempt == 2 && e.Scheduled == noon+2 {
					e.Replica = "b"
				}
			}
		}, []string{once, "after the pause"}},
		{"a replica was never paused", func(s *tale) {
			s.drop(func(e event) bool { return e.Kind == paused })
		}, []string{"after the pause", stale}},
		{"a stale write was accepted", func(s *tale) {
			s.change(write, "b", func(e *event) { e.Status = http.StatusCreated })
		}, []string{ledger, stale}},
		{"a stale claim was accepted", func(s *tale) {
			s.tell(9515, "b", event{Kind: claim, Path: ledgerPath(noon + 2), Token: 3, Status: http.StatusNoContent})
		}, []string{stale}},
		{"the paused run did not write", func(s *tale) {
			s.change(write, "b", func(e *event) {
				if e.Status == http.StatusPreconditionFailed {
					e.Path = invoicePaths + "9"
				}
			})
		}, []string{stale}},
		{"a token came again", func(s *tale) {
			s.token--
			s.run(11000, "c", noon+4, 1)
		}, []string{tokens}},
		{"a process is left", func(s *tale) { s.processesLeft = 1 }, []string{left}},
		{"a process never said goodbye", func(s *tale) {
			s.drop(func(e event) bool { return e.Kind == bye && e.Replica == "c" })
		}, []string{left}},
		{"a lease is left", func(s *tale) { s.leasesLeft = 1 }, []string{left}},
		{"a goroutine is left", func(s *tale) { s.change(bye, "b", func(e *event) { e.Left = 1 }) }, []string{left}},
		{"a replica ended with an error", func(s *tale) { s.change(bye, "b", func(e *event) { e.Err = "no" }) }, []string{left}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := good()
			test.damage(s)
			verdicts := audit(&s.findings)
			if !failed(verdicts) {
				t.Fatal("all is green")
			}
			var found []string
			for _, v := range verdicts {
				if v.ok {
					continue
				}
				found = append(found, fmt.Sprintf("%s, but %v", v.says, v.against))
				if len(v.against) == 0 {
					t.Errorf("%q gives no reason", v.says)
				}
			}
			if len(found) != len(test.red) {
				t.Errorf("%d lines are red instead of %d:\n%s", len(found), len(test.red), strings.Join(found, "\n"))
			}
			for _, want := range test.red {
				if !slices.ContainsFunc(found, func(line string) bool { return strings.Contains(line, want) }) {
					t.Errorf("%q is not among the red lines:\n%s", want, strings.Join(found, "\n"))
				}
			}
		})
	}
}

func TestMostAtOnce(t *testing.T) {
	tests := []struct {
		intervals []interval
		want      int
	}{
		{nil, 0},
		{[]interval{{1, 2}}, 1},
		{[]interval{{1, 2}, {2, 3}}, 1},
		{[]interval{{2, 3}, {1, 2}, {1, 3}}, 2},
		{[]interval{{1, 9}, {2, 8}, {3, 7}, {8, 9}}, 3},
		{[]interval{{1, 1}, {1, 1}, {1, 2}, {5, 4}}, 1}, // a lease that was lost before it was looked at was not held
	}
	for _, test := range tests {
		if got := mostAtOnce(test.intervals); got != test.want {
			t.Errorf("%v: %d instead of %d", test.intervals, got, test.want)
		}
	}
}

func TestHeldEndsWithTheKill(t *testing.T) {
	got := held([]event{
		{At: 1, Replica: "a", Kind: permit, Token: 1},
		{At: 2, Replica: "b", Kind: permit, Token: 1},
		{At: 3, Replica: "a", Kind: killed},
		{At: 6, Replica: "b", Kind: permitEnd, Token: 1, Held: 5},
		{At: 7, Replica: "c", Kind: permit, Token: 2},
		{At: 9, Replica: "c", Kind: bye},
	}, permit, permitEnd)
	if want := []interval{{1, 3}, {2, 5}, {7, 9}}; !slices.Equal(got, want) {
		t.Errorf("%v instead of %v", got, want)
	}
}
