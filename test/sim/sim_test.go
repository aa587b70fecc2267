package sim

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/soloist-dev/soloist/internal/proof"
)

var (
	simSeed  = flag.Uint64("sim.seed", 0, "run the history of this seed alone, and tell it")
	simRuns  = flag.Uint64("sim.runs", 200, "how many seeds to run")
	simFrom  = flag.Uint64("sim.from", 1, "the first of them")
	simProcs = flag.Int("sim.procs", 0, "how many processes to run them in; 0 is this one alone")
	simOut   = flag.String("sim.json", "", "write the figures to this file")
	simStop  = flag.Bool("sim.stop", false, "stop at the first violation")
)

// judge runs a plan in a bubble and asks the checkers.
func judge(t *testing.T, plan Plan) (Result, proof.Verdict) {
	var r Result
	synctest.Test(t, func(*testing.T) { r = Run(plan) })
	v := proof.Check(r.History, r.Rules)
	v.Violations = append(v.Violations, r.Found...)
	return r, v
}

// verdict is that of judge, for who does not need the history.
func verdict(t *testing.T, plan Plan) proof.Verdict {
	r, v := judge(t, plan)
	if len(v.Violations) == 0 { // else it may show a part of it
		room.Put(new(r.History[:0]))
	}
	return v
}

// alone makes this process run one thread at a time, which is what makes the same history of the same seed.
func alone(t *testing.T) {
	procs, percent := runtime.GOMAXPROCS(1), debug.SetGCPercent(800)
	t.Cleanup(func() {
		runtime.GOMAXPROCS(procs)
		debug.SetGCPercent(percent)
	})
}

// TestSimulation runs fleets of the real client on a store behind a bad network and gives their histories to all checkers. A
// violation prints its seed, which can be run again with -sim.seed.
func TestSimulation(t *testing.T) { simulate(t, Draw, *simRuns) }

// TestSimulationWithoutAClock is TestSimulation on a store without a clock, whose leases each replica observes for itself; a quarter as often.
func TestSimulationWithoutAClock(t *testing.T) { simulate(t, DrawClockless, (*simRuns+3)/4) }

func simulate(t *testing.T, draw func(uint64) Plan, runs uint64) {
	t.Helper()
	alone(t)
	switch {
	case os.Getenv(workerVariable) != "":
		work(t, draw, runs)
	case *simSeed != 0:
		r, v := judge(t, draw(*simSeed))
		for _, e := range r.History {
			t.Log(e)
		}
		t.Log(v)
		if len(v.Violations) > 0 {
			tell(t, draw, *simSeed)
		}
	case *simProcs > 0:
		fleet(t, draw, runs, *simProcs)
	default:
		var sum proof.Verdict
		for seed := *simFrom; seed < *simFrom+runs; seed++ {
			v := verdict(t, draw(seed))
			if sum.Add(v); len(v.Violations) > 0 {
				tell(t, draw, seed)
				break
			}
		}
		t.Log(sum)
	}
}

// TestSeedsThatOnceFailed runs the seeds of testdata/seeds.txt.
func TestSeedsThatOnceFailed(t *testing.T) {
	alone(t)
	file, err := os.Open("testdata/seeds.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	n := 0
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var seed uint64
		if strings.HasPrefix(lines.Text(), "#") || lines.Text() == "" {
			continue
		}
		if _, err := fmt.Sscan(lines.Text(), &seed); err != nil {
			t.Fatalf("testdata/seeds.txt: %q: begin with the seed", lines.Text())
		}
		n++
		draw := Draw
		if strings.Contains(lines.Text(), " -clockless ") {
			draw = DrawClockless
		}
		if v := verdict(t, draw(seed)); len(v.Violations) > 0 {
			tell(t, draw, seed)
		}
	}
	if n == 0 {
		t.Error("testdata/seeds.txt lists no seed")
	}
}

// tell shrinks the plan of a seed that fails, and tells what is left of it.
func tell(t *testing.T, draw func(uint64) Plan, seed uint64) {
	t.Helper()
	_, first := judge(t, draw(seed))
	for tries := 0; len(first.Violations) == 0; tries++ { // see TestSameSeedSameHistory
		if tries == 10 {
			t.Errorf("seed %d failed, and then did not ten times: its history was not the same", seed)
			return
		}
		_, first = judge(t, draw(seed))
	}
	checker := first.Violations[0].Checker
	small := Shrink(draw(seed), func(p Plan) ([]string, bool) {
		r, v := judge(t, p)
		for _, found := range v.Violations {
			if found.Checker == checker {
				return r.Fired, true
			}
		}
		return nil, false
	})
	r, v := judge(t, small)
	plan := small
	plan.Without = nil
	text, _ := json.Marshal(plan)
	var b strings.Builder
	again := fmt.Sprint("make sim SEED=", seed)
	if small.Clockless {
		again += " CLOCKLESS=1"
	}
	fmt.Fprintf(&b, "seed %d (%s); again: %s\n", seed, small.Work, again)
	for _, found := range first.Violations {
		fmt.Fprintf(&b, "%v\n", found)
	}
	fmt.Fprintf(&b, "the smallest history of it has %d events, %d replicas, and the faults %q; its plan: %s\n", len(r.History), small.Replicas, r.Fired, text)
	for i, found := range v.Violations {
		if i < 3 {
			fmt.Fprintf(&b, "%v\n", found)
		}
	}
	t.Error(b.String())
}

// TestSameSeedSameHistory replays seeds and compares their histories. The runtime may stop a goroutine between any two instructions, the more
// often the busier the machine is, and two goroutines then change places: so a seed has several tries to repeat itself. Those in which many
// goroutines act at one instant may never do.
func TestSameSeedSameHistory(t *testing.T) {
	if raced {
		t.Skip("go test ./test/sim runs it, without the race detector, on a machine that does little else")
	}
	alone(t)
	const seeds, tries = 200, 5
	never, again := 0, 0
	for seed := uint64(1); seed <= seeds; seed++ {
		first, _ := judge(t, Draw(seed))
		seen := map[uint64]bool{Fingerprint(first.History): true}
		next := first
		for try := 0; try < tries && len(seen) == try+1; try++ {
			next, _ = judge(t, Draw(seed))
			seen[Fingerprint(next.History)] = true
		}
		again += len(seen) - 1
		if len(seen) == tries+1 {
			never++
			t.Logf("seed %d: %d runs gave as many histories, two of which differ in: %s", seed, tries+1, firstDifference(first.History, next.History))
		}
	}
	t.Logf("%d of %d seeds repeated themselves; %d runs gave another history", seeds-never, seeds, again)
	if never > seeds/10 {
		t.Errorf("%d of %d seeds never gave the same history twice", never, seeds)
	}
}

// firstDifference returns the first events in which two histories differ.
func firstDifference(one, two proof.History) string {
	for i := range min(len(one), len(two)) {
		if a, b := fmt.Sprintf("%+v", one[i]), fmt.Sprintf("%+v", two[i]); a != b {
			return fmt.Sprintf("event %d: %s, then %s", i, one[i], two[i])
		}
	}
	return "their lengths"
}

// TestPositiveControls breaks what the checkers must catch. If they do not, what they say of everything else is void.
func TestPositiveControls(t *testing.T) {
	if raced {
		t.Skip("make sim runs it, without the race detector")
	}
	alone(t)
	t.Run("with a clock", func(t *testing.T) {
		mustCatch(t, Draw, map[Control][]string{
			Forgets:   {proof.BeliefOverlap, proof.Linearizability},
			FastClock: {proof.BeliefOverlap, proof.BeliefInLease},
			Unfenced:  {proof.FencedResource},
			Stateless: {proof.Linearizability},
			Silent:    {"client"},
			Unled:     {"client"},
			Untrue:    {proof.ToldTruth},
			FarClocks: {proof.JobsChecker},
			Unmarked:  {proof.JobsChecker},
		})
	})
	t.Run("without a clock", func(t *testing.T) { // it takes part in no transactions
		mustCatch(t, DrawClockless, map[Control][]string{
			Forgets:   {proof.BeliefOverlap, proof.Linearizability},
			FastClock: {proof.BeliefOverlap, proof.BeliefInLease},
			Unfenced:  {proof.FencedResource},
			Stateless: {proof.Linearizability},
			Silent:    {"client"},
			Unled:     {"client"},
			Untrue:    {proof.ToldTruth},
			FarClocks: {proof.JobsChecker},
		})
	})
}

// mustCatch wants that each control is caught by some checkers. One that shows in transactions only has all runs and elements recorded in them.
func mustCatch(t *testing.T, draw func(uint64) Plan, controls map[Control][]string) {
	t.Helper()
	for control, wanted := range controls {
		caught := map[string]int{}
		missing := func(checker string) bool { return caught[checker] == 0 }
		for seed := uint64(1); seed <= 600 && slices.ContainsFunc(wanted, missing); seed++ {
			plan := draw(seed)
			if plan.Control = control; control == Unmarked {
				plan.Commits = 100
			}
			v := verdict(t, plan)
			for _, found := range v.Violations {
				caught[found.Checker]++
			}
		}
		t.Logf("%s: %v", control, caught)
		for _, checker := range wanted {
			if caught[checker] == 0 {
				t.Errorf("%s was not caught by the checker of %s", control, checker)
			}
		}
	}
}
