package main

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/soloist-dev/soloist/internal/load"
	"github.com/soloist-dev/soloist/test/servers"
)

// TestMain lets this binary be a waiting process of case C, or a service.
func TestMain(m *testing.M) {
	if isChild() {
		if err := runAsChild(context.Background()); err != nil {
			os.Exit(1)
		}
		return
	}
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// asProgram makes this binary be the program.
const asProgram = "SOLOIST_BENCH_TEST_PROGRAM"

// The program leaves nothing of the servers that it has started.
func TestNothingIsLeft(t *testing.T) {
	servers.Long(t)
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // servers run as somebody else if this runs as root
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-smoke", "-backend", "postgresql", "-case", "D", "-java=false", "-out", t.TempDir())
	cmd.Env = append(os.Environ(), asProgram+"=1", "SOLOIST_TEST_DIR="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// The smoke form measures every contender of a backend in every case, and writes what it found. SQLite needs no server.
func TestSmoke(t *testing.T) {
	servers.Long(t)
	dir := t.TempDir()
	if err := run(t.Context(), []string{"-smoke", "-backend", "sqlite", "-out", dir}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "bench.json"))
	if err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, row := range r.Rows {
		seen[row.Case] = true
		if row.Typical.Rate <= 0 && row.Case != "C" { // a slow machine may not hand over in so short a time
			t.Errorf("%s, case %s: %s was not measured", row.Backend, row.Case, row.Contender)
		}
		if row.Floor && row.Ratio.Median != 0 && row.Ratio.Median != 1 {
			t.Errorf("the floor's ratio to itself is %v", row.Ratio.Median)
		}
		if v, _ := row.Typical.more("HOLDS THAT OVERLAP"); v > 0 {
			t.Errorf("%s: %v holds overlapped", row.Contender, v)
		}
	}
	for letter := range about {
		if !seen[letter] {
			t.Errorf("case %s was not measured", letter)
		}
	}
	page, err := os.ReadFile(filepath.Join(dir, "bench.html"))
	if err != nil || !strings.Contains(string(page), "<svg") || strings.Contains(string(page), "<script") || strings.Contains(string(page), "ZgotmplZ") {
		t.Errorf("the page (%d bytes): %v", len(page), err)
	}
}

func TestScale(t *testing.T) {
	servers.Long(t)
	if err := run(t.Context(), []string{"-scale", "-smoke", "-backend", "memory"}); err != nil {
		t.Fatal(err)
	}
}

func TestArguments(t *testing.T) {
	for _, args := range [][]string{{"-case", "Z"}, {"-rounds", "0"}, {"-for", "0s"}, {"more"}, {"-backend", "nothing"}, {"-waiters", "0"}} {
		if err := run(t.Context(), args); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}

func TestSpreadsAndRatios(t *testing.T) {
	if got := spreadOf([]float64{3, 1, math.NaN(), 2, 10}); got != (spread{2.5, 1, 10}) {
		t.Errorf("spread %v", got)
	}
	if got := spreadOf(nil); got != (spread{}) {
		t.Errorf("spread of nothing %v", got)
	}
	if got := ratios([]float64{2, 9, 4}, []float64{1, 3}); len(got) != 2 || got[0] != 2 || got[1] != 3 {
		t.Errorf("ratios %v", got)
	}
}

func TestExponents(t *testing.T) {
	for want, f := range map[float64]func(float64) float64{
		0: func(float64) float64 { return 7 }, 1: func(x float64) float64 { return 3 * x }, 2: func(x float64) float64 { return x * x },
	} {
		s := series{sizes: []int{1, 10, 100, 1000}}
		for _, n := range s.sizes {
			s.values = append(s.values, f(float64(n)))
		}
		if got := s.exponent(); math.Abs(got-want) > 1e-9 {
			t.Errorf("exponent %v; want %v", got, want)
		}
	}
	if got := (series{sizes: []int{1, 2}, values: []float64{0, 1}}).exponent(); !math.IsNaN(got) {
		t.Errorf("exponent of one value: %v", got)
	}
}

func row1(contender, letter, what string, floor, ours bool, rates ...float64) *row {
	r := &row{Backend: "Redis", Case: letter, What: what, Contender: contender, Floor: floor, Ours: ours}
	for _, rate := range rates {
		r.Rounds = append(r.Rounds, figure{Result: load.Result{Rate: rate, P50: 100 / rate}, Commands: 2})
	}
	return r
}

// Ratios are taken within a round: a machine that is slow in one round is slow for both.
func TestRatiosAreOfTheSameRound(t *testing.T) {
	rows := []*row{row1("floor: bare", "A", oneCaller, true, false, 100, 10), row1(us, "A", oneCaller, false, true, 90, 9)}
	finish(rows)
	if got := rows[1].Ratio; math.Abs(got.Min-0.9) > 1e-9 || math.Abs(got.Max-0.9) > 1e-9 {
		t.Errorf("ratio %+v", got)
	}
	if got := rows[1].Median.Median; math.Abs(got-1/0.9) > 1e-9 {
		t.Errorf("ratio of the medians %v", got)
	}
	if got := rows[1].Typical.Rate; got != 49.5 {
		t.Errorf("typical rate %v", got)
	}
	var out strings.Builder
	if err := tables(&out, rows); err != nil || !strings.Contains(out.String(), "0.90 (0.90–0.90)") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func TestGoalsAreToldWhetherReachedOrNot(t *testing.T) {
	rows := []*row{
		row1("floor: bare", "A", oneCaller, true, false, 100), row1(us, "A", oneCaller, false, true, 50),
		row1("redsync", "B", "64 goroutines, a name each", false, false, 10), row1(us, "B", "64 goroutines, a name each", false, true, 40),
	}
	finish(rows)
	reached := map[string]bool{}
	for _, g := range goals(rows) {
		reached[g.Goal] = g.Reached
	}
	if got, ok := reached["≥ 2.8 × redsync"]; !ok || !got {
		t.Errorf("goals %v", reached)
	}
	if got, ok := reached["p50 of a pair ≤ 1.2 × the floor's"]; !ok || got {
		t.Errorf("goals %v", reached)
	}
	if _, ok := reached["≥ 1.6 × redislock"]; ok {
		t.Error("a goal of which a part was not measured is told")
	}
}

// The processor time of a process has that of its children in it.
func TestProcessCPU(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("there is no /proc here")
	}
	before := processCPU(os.Getpid())
	if err := exec.Command("sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done").Run(); err != nil {
		t.Fatal(err)
	}
	if after := processCPU(os.Getpid()); after <= before {
		t.Errorf("%v, then %v", before, after)
	}
}

func TestWhatCannotBeHadIsLeftOut(t *testing.T) {
	p := &program{}
	why, err := attempt(func() error { p.Skipf("no %s here", "server"); return nil })
	if why != "no server here" || err != nil {
		t.Errorf("%q, %v", why, err)
	}
	if _, err := attempt(func() error { p.Fatalf("broken"); return nil }); err == nil {
		t.Error("no error")
	}
	broken := errors.New("broken")
	if _, err := attempt(func() error { return broken }); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	var ended []int
	p.Cleanup(func() { ended = append(ended, 1) })
	p.Cleanup(func() { ended = append(ended, 2) })
	p.end()
	if len(ended) != 2 || ended[0] != 2 {
		t.Errorf("cleaned up in the order %v", ended)
	}
}

func TestEveryCommonContenderIsKnownToItsChildren(t *testing.T) {
	for _, b := range backends() {
		floors := 0
		for _, s := range b.specs {
			if got, err := childSpec(b.name, s.name); err != nil || got.cases != s.cases {
				t.Errorf("%s on %s: %v", s.name, b.name, err)
			}
			if s.floor {
				floors++
			}
		}
		if floors != 1 && b.name != "Memory" {
			t.Errorf("%s has %d floors", b.name, floors)
		}
	}
	if _, err := childSpec("Redis", "nobody"); err == nil {
		t.Error("no error")
	}
}
