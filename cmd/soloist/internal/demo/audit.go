package demo

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// findings are what the audit is drawn from.
type findings struct {
	events   []event
	from, to int64 // the scheduled times that it is about, unix seconds, both included
	invoices []invoice
	ttl      time.Duration
	permits  int

	processed     int // invoices that the store has as processed
	processesLeft int
	leasesLeft    int
}

// A verdict is one line of the audit.
type verdict struct {
	ok      bool
	says    string   // the rule, and the figures
	against []string // what speaks against it
}

// audit returns a verdict for each rule.
func audit(f *findings) []verdict {
	return []verdict{
		scheduledTimesRanOnce(f),
		ledgerWrittenOnce(f),
		oneRunAtATime(f),
		invoicesIssuedOnce(f),
		permitsKept(f),
		takenOver(f, killed, "the kill"),
		takenOver(f, paused, "the pause"),
		staleWritesRejected(f),
		tokensGrew(f),
		nothingLeft(f),
	}
}

func failed(verdicts []verdict) bool {
	for _, v := range verdicts {
		if !v.ok {
			return true
		}
	}
	return false
}

// judge makes a verdict: the rule holds if there was something to judge and nothing speaks against it.
func judge(judged int, against []string, format string, args ...any) verdict {
	if judged == 0 {
		against = append(against, "there is nothing to judge by")
	}
	return verdict{len(against) == 0, fmt.Sprintf(format, args...), against}
}

// window is how many scheduled times the audit is about.
func (f *findings) window() int {
	if f.from == 0 { // it was never opened
		return 0
	}
	return int(max(0, f.to-f.from+1))
}

// eachOnce reports which scheduled times have not exactly one, and how many of the window have. Outside the window none
// may have more.
func (f *findings) eachOnce(counts map[int64]int, what string) (good int, against []string) {
	for at := f.from; f.window() > 0 && at <= f.to; at++ {
		switch counts[at] {
		case 0:
			against = append(against, fmt.Sprintf("%s has no %s", clock(at), what))
		case 1:
			good++
		}
	}
	for at, n := range counts {
		if n > 1 {
			against = append(against, fmt.Sprintf("%s has %d %ss", clock(at), n, what))
		}
	}
	slices.Sort(against)
	return good, against
}

func scheduledTimesRanOnce(f *findings) verdict {
	counts, attempts := map[int64]int{}, map[int64]int{}
	for _, r := range runsIn(f.events) {
		attempts[r.scheduled]++
		if r.completed() {
			counts[r.scheduled]++
		}
	}
	taken := 0
	for _, n := range attempts {
		if n > 1 {
			taken++
		}
	}
	good, against := f.eachOnce(counts, "completed run")
	return judge(f.window(), against, "each scheduled time ran once: %d of %d have exactly one completed run (%d of them taken over)", good, f.window(), taken)
}

func ledgerWrittenOnce(f *findings) verdict {
	counts := map[int64]int{}
	for _, e := range f.events {
		at, ok := strings.CutPrefix(e.Path, ledgerPaths)
		if t, err := time.Parse(time.RFC3339, at); ok && err == nil && e.accepted() {
			counts[t.Unix()]++
		}
	}
	good, against := f.eachOnce(counts, "line")
	return judge(f.window(), against, "each scheduled time is in the ledger once: %d of %d", good, f.window())
}

// accepted reports whether the service did what it was asked.
func (e event) accepted() bool { return e.Kind == write && e.Status == http.StatusCreated }

func oneRunAtATime(f *findings) verdict {
	runs := held(f.events, runStart, runEnd)
	most := mostAtOnce(runs)
	var against []string
	if most > 1 {
		against = []string{fmt.Sprintf("%d replicas ran the job at once", most)}
	}
	return judge(len(runs), against, "never two runs of the job at once: at most %d, in %d attempts", most, len(runs))
}

func invoicesIssuedOnce(f *findings) verdict {
	counts := map[string]int{}
	for _, e := range f.events {
		if e.accepted() && strings.HasPrefix(e.Path, invoicePaths) {
			counts[e.Path]++
		}
	}
	var against []string
	var sum int64
	good := 0
	for _, i := range f.invoices {
		n := counts[i.path()]
		sum += int64(n) * i.Cents
		if n == 1 {
			good++
		} else {
			against = append(against, fmt.Sprintf("%s was issued %d times", i.ID, n))
		}
	}
	if f.processed != len(f.invoices) {
		against = append(against, fmt.Sprintf("%d are recorded as processed", f.processed))
	}
	return judge(len(f.invoices), against, "each invoice was issued once: %d of %d, %s", good, len(f.invoices), euros(sum))
}

func permitsKept(f *findings) verdict {
	documents := held(f.events, permit, permitEnd)
	most := mostAtOnce(documents)
	var against []string
	if most > f.permits {
		against = []string{fmt.Sprintf("%d were believed to be held at once", most)}
	}
	return judge(len(documents), against, "never more than %d permits at once: at most %d, for %d documents", f.permits, most, len(documents))
}

// takenOver judges how soon the run in which a replica was killed, or paused, was begun by another. A lease ends with
// its TTL; a busy machine may be late, and the line says how late.
func takenOver(f *findings, how kind, after string) verdict {
	what := "a run was taken over after " + after
	hit, ok := find(f.events, ofKind(how))
	if !ok {
		return judge(0, nil, "%s", what)
	}
	var halted event
	for _, e := range f.events {
		if e.Kind == holding && e.Replica == hit.Replica && e.At <= hit.At {
			halted = e
		}
	}
	successor, ok := takeover(f.events, halted)
	if !ok {
		return judge(1, []string{"nobody took over the run of " + clock(halted.Scheduled)}, "%s", what)
	}
	took := successor.At - hit.At
	var against []string
	if took > latest*f.ttl {
		against = append(against, fmt.Sprintf("it took more than %v", latest*f.ttl))
	}
	return judge(1, against, "the run was taken over %.1f s after %s, %s by %s (TTL %v)", took.Seconds(), after, hit.Replica, successor.Replica, f.ttl)
}

// latest is after how many TTLs a takeover is no takeover any more.
const latest = 4

func staleWritesRejected(f *findings) verdict {
	pausedRun, _ := find(f.events, func(e event) bool {
		hit, ok := find(f.events, ofKind(paused))
		return ok && e.Kind == holding && e.Replica == hit.Replica
	})
	seen := map[string]int64{} // the greatest token that was let in, by resource
	var against []string
	stale, rejected, late := 0, 0, false
	for _, e := range f.events {
		if e.Kind != claim && e.Kind != write {
			continue
		}
		resource := resourceOf(e.Path)
		isStale := e.Token < seen[resource]
		switch {
		case e.Status == http.StatusPreconditionFailed:
			rejected++
			stale++
			late = late || e.Kind == write && e.Token == pausedRun.Token && resource == ledgerPaths
		case isStale:
			stale++
			against = append(against, fmt.Sprintf("%s was accepted from %s with token %d after token %d", e.Path, e.Replica, e.Token, seen[resource]))
		case e.Status < 300:
			seen[resource] = e.Token
		}
	}
	if !late {
		against = append(against, "the write of the paused run is not among them")
	}
	return judge(stale, against, "stale writes were rejected by the guard: %d of %d", rejected, stale)
}

func tokensGrew(f *findings) verdict {
	runs := inOrder(runsIn(f.events))
	var against []string
	for i := 1; i < len(runs); i++ {
		if a, b := runs[i-1], runs[i]; a.token >= b.token {
			against = append(against, fmt.Sprintf("attempt %d at %s had token %d, and after it attempt %d at %s had %d",
				a.attempt, clock(a.scheduled), a.token, b.attempt, clock(b.scheduled), b.token))
		}
	}
	return judge(len(runs), against, "tokens only grew: over %d attempts", len(runs))
}

func nothingLeft(f *findings) verdict {
	goroutines, processes, drained := 0, 0, 0
	var against []string
	for _, e := range f.events {
		switch e.Kind {
		case started:
			processes++
		case killed:
			drained++
		case bye:
			drained++
			goroutines += e.Left
			if e.Err != "" {
				against = append(against, fmt.Sprintf("replica %s ended with: %s", e.Replica, e.Err))
			}
		}
	}
	if left := max(f.processesLeft, processes-drained); left+f.leasesLeft+goroutines > 0 {
		against = append(against, fmt.Sprintf("left: %d processes, %d leases, %d goroutines", left, f.leasesLeft, goroutines))
	}
	return judge(processes, against, "nothing is left of %d processes: no process, no lease, no goroutine", processes)
}
