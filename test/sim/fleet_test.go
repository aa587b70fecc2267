package sim

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/internal/proof"
)

// workerVariable makes a process run a part of the seeds: "0/2" is the first of two parts.
const workerVariable = "SOLOIST_SIM_WORKER"

// A report is what a worker tells, a line of JSON at a time. It begins with a mark, for the testing package writes lines too.
type report struct {
	Seed    uint64        `json:"seed"` // that was run last
	Verdict proof.Verdict `json:"verdict"`
	Failed  []uint64      `json:"failed,omitempty"`
	Caught  []string      `json:"caught,omitempty"` // by which checkers, the first failure of all
}

const reportMark = "sim: "

// work runs a part of the seeds and reports four times a second.
func work(t *testing.T, draw func(uint64) Plan, runs uint64) {
	t.Helper()
	var part, parts uint64
	if _, err := fmt.Sscanf(os.Getenv(workerVariable), "%d/%d", &part, &parts); err != nil {
		t.Fatal(err)
	}
	told := time.Now()
	r := report{}
	send := func() {
		line, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("%s%s\n", reportMark, line)
		r, told = report{}, time.Now()
	}
	for seed := *simFrom + part; seed < *simFrom+runs; seed += parts {
		v := verdict(t, draw(seed))
		r.Seed = seed
		if len(v.Violations) > 0 {
			r.Failed = append(r.Failed, seed)
			for _, found := range v.Violations {
				r.Caught = append(r.Caught, found.Checker)
			}
		}
		v.Violations = nil
		r.Verdict.Add(v)
		if *simStop && len(r.Failed) > 0 {
			break
		}
		if time.Since(told) > time.Second/4 {
			send()
		}
	}
	send()
}

// A tally is what all workers have told.
type tally struct {
	mu     sync.Mutex
	sum    proof.Verdict
	failed []uint64
	caught []string
	broken []string // what a worker that did not end well has written last
}

// fleet runs the seeds in several processes.
func fleet(t *testing.T, draw func(uint64) Plan, runs uint64, procs int) {
	t.Helper()
	var all tally
	var workers sync.WaitGroup
	begin := time.Now()
	for part := range procs {
		workers.Go(func() { all.follow(t, part, procs) })
	}
	done := make(chan struct{})
	go func() {
		workers.Wait()
		close(done)
	}()
	progress(&all, runs, begin, done)
	all.mu.Lock()
	defer all.mu.Unlock()
	took := time.Since(begin)
	for _, checker := range all.caught {
		all.sum.Violations = append(all.sum.Violations, proof.Violation{Checker: checker})
	}
	fmt.Printf("%v\nin %v: %.0f histories a second, in %d processes\n", all.sum, took.Round(100*time.Millisecond), float64(all.sum.Histories)/took.Seconds(), procs)
	for _, text := range all.broken {
		t.Errorf("a worker did not end well:\n%s", text)
	}
	if *simOut != "" {
		writeFigures(t, &all, took)
	}
	if len(all.failed) > 0 {
		t.Errorf("%d seeds failed: %v", len(all.failed), all.failed[:min(20, len(all.failed))])
		if !*simStop {
			tell(t, draw, all.failed[0])
		}
	}
}

// follow runs one worker and reads what it tells.
func (all *tally) follow(t *testing.T, part, procs int) {
	args := []string{"-test.run=^" + t.Name() + "$", "-test.timeout=0", fmt.Sprint("-sim.runs=", *simRuns), fmt.Sprint("-sim.from=", *simFrom), fmt.Sprint("-sim.stop=", *simStop)}
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d/%d", workerVariable, part, procs), "GOMAXPROCS=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Error(err)
		return
	}
	var last []string // lines that are not reports: why it failed
	errs := &strings.Builder{}
	cmd.Stderr = errs
	if err := cmd.Start(); err != nil {
		t.Error(err)
		return
	}
	seen := uint64(0)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		line, ok := strings.CutPrefix(lines.Text(), reportMark)
		if !ok {
			last = append(last, lines.Text())
			continue
		}
		var r report
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Error(err)
			continue
		}
		seen = max(seen, r.Seed)
		all.mu.Lock()
		all.sum.Add(r.Verdict)
		all.failed, all.caught = append(all.failed, r.Failed...), append(all.caught, r.Caught...)
		all.mu.Unlock()
	}
	if err := cmd.Wait(); err != nil {
		text := strings.Join(last, "\n") + errs.String()
		all.mu.Lock()
		all.broken = append(all.broken, fmt.Sprintf("some seeds after %d: %v\n%s", seen, err, text[:min(len(text), 4000)]))
		all.mu.Unlock()
	}
}

// progress prints how far it is: on a terminal in one line, else every ten seconds.
func progress(all *tally, runs uint64, begin time.Time, done <-chan struct{}) {
	info, err := os.Stdout.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0
	pace := 10 * time.Second
	if terminal {
		pace = time.Second / 4
	}
	ticks := time.NewTicker(pace)
	defer ticks.Stop()
	for {
		select {
		case <-done:
			if terminal {
				fmt.Print("\r\033[K")
			}
			return
		case <-ticks.C:
		}
		all.mu.Lock()
		n, bad := all.sum.Histories, len(all.failed)
		first := slices.Clone(all.failed[:min(bad, 5)])
		all.mu.Unlock()
		part := float64(n) / float64(runs)
		text := fmt.Sprintf("%d of %d histories, %.0f a second, %d failed", n, runs, float64(n)/time.Since(begin).Seconds(), bad)
		if bad > 0 {
			text += fmt.Sprintf(": %v", first)
		}
		if terminal {
			const width = 30
			full := int(part * width)
			fmt.Printf("\r\033[K[%s%s] %s", strings.Repeat("#", full), strings.Repeat(".", width-full), text)
		} else {
			fmt.Println(text)
		}
	}
}

// figures are what -sim.json writes.
type figures struct {
	proof.Verdict
	Seconds float64  `json:"seconds"`
	Failed  []uint64 `json:"failed"`
	Caught  []string `json:"caught"` // the checkers that found something, a name for each finding
	Broken  []string `json:"broken"` // processes that did not end well: a deadlock, a panic
}

func writeFigures(t *testing.T, all *tally, took time.Duration) {
	text, err := json.Marshal(figures{all.sum, took.Seconds(), all.failed, all.caught, all.broken})
	if err == nil {
		err = os.WriteFile(*simOut, append(text, '\n'), 0o666)
	}
	if err != nil {
		t.Error(err)
	}
}
