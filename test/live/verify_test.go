//go:build unix

package live

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/test/servers"
)

var (
	span   = flag.Duration("live.for", 10*time.Second, "how long the first attempt of each run takes")
	ttl    = flag.Duration("live.ttl", time.Second, "the TTL of the leases")
	gap    = flag.Duration("live.gap", 300*time.Millisecond, "the longest time between two faults of a server")
	seed   = flag.Uint64("live.seed", 0, "draw the same faults as a run that has told this seed (default: a new one)")
	report = flag.String("live.report", "", "append a line of JSON about each run to this file")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if *seed == 0 {
		*seed = uint64(rand.Uint32()) | 1
	}
	servers.Main(m)
}

// command builds soloist, once.
var command = servers.Shared(func(t servers.Test) string {
	path := filepath.Join(servers.Directory(t), "soloist")
	build := exec.Command("go", "build", "-o", path, ".")
	build.Dir = filepath.Join("..", "..", "cmd", "soloist")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building soloist: %v\n%s", err, out)
	}
	return path
})

func soloist(t *testing.T, url string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(command(t), args...)
	cmd.Env = append(os.Environ(), "SOLOIST_STORE="+url, "AWS_ACCESS_KEY_ID=any", "AWS_SECRET_ACCESS_KEY=any") // for the emulator of DynamoDB, which takes any
	return cmd
}

func migrate(t *testing.T, url string) {
	t.Helper()
	if out, err := soloist(t, url, "migrate", "up").CombinedOutput(); err != nil {
		t.Fatalf("migrating: %v\n%s", err, out)
	}
}

// A verdict is what `soloist verify -o json` answers, as far as it is looked at here.
type verdict struct {
	Verdict    string        `json:"verdict"`
	TTL        time.Duration `json:"ttl_ns"` // at the end: verify makes it longer if the store is slow
	Void       []string      `json:"void"`
	Violations []violation   `json:"violations"`
	Store      struct {
		Backend string `json:"backend"`
		Fencing struct {
			Answer string `json:"answer"`
		} `json:"fencing"`
	} `json:"store"`
	Checked struct {
		Operations int `json:"operations"`
		Grants     int `json:"grants"`
		Unknowns   int `json:"unknowns"`
		Unchecked  int `json:"unchecked"`
	} `json:"checked"`
	Figures struct {
		Seconds    float64        `json:"seconds"`
		Errors     int            `json:"errors"`
		ErrorShare float64        `json:"error_share"`
		Faults     map[string]int `json:"faults"`
		Acquire    spread         `json:"acquire"`
		Takeover   spread         `json:"take_over"`
	} `json:"figures"`
}

type violation struct {
	Checker string          `json:"checker"`
	Name    string          `json:"name"`
	Text    string          `json:"text"`
	Excerpt json.RawMessage `json:"excerpt"`
}

type spread struct {
	Count int           `json:"count"`
	P50   time.Duration `json:"p50_ns"`
	P99   time.Duration `json:"p99_ns"`
}

func (s spread) String() string {
	return fmt.Sprintf("p50 %v, p99 %v of %d", s.P50.Round(time.Millisecond), s.P99.Round(time.Millisecond), s.Count)
}

// checkers are those that found something.
func (v verdict) checkers() string {
	found := map[string]int{}
	for _, violation := range v.Violations {
		found[violation.Checker]++
	}
	return fmt.Sprint(found)
}

// A run is one of soloist verify.
type run struct {
	url       string
	span, ttl time.Duration
	faults    string                               // of the clients
	unfenced  bool                                 // the store promises no fencing, and holds nevertheless
	meanwhile func(context.Context) map[string]int // happens until the context ends, and returns what took effect by kind
	start     func(*exec.Cmd) error                // nil means (*exec.Cmd).Start
}

// verify runs soloist verify and returns its verdict. What happens meanwhile ends a little before the clients do.
func (r run) verify(t *testing.T) verdict {
	t.Helper()
	cmd := soloist(t, r.url, "verify", "-o", "json", "--for", r.span.String(), "--ttl", r.ttl.String(), "--faults", r.faults,
		"--seed", strconv.FormatUint(*seed, 10))
	var out bytes.Buffer
	errs := &told{any: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &out, errs
	start := r.start
	if start == nil {
		start = (*exec.Cmd).Start
	}
	if err := start(cmd); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	waited := false
	defer func() {
		if !waited { // the test has failed meanwhile: the clients end when their director is told to
			_ = cmd.Process.Signal(syscall.SIGTERM)
			<-ended
		}
	}()
	var effective map[string]int
	var err error
	select {
	case err = <-ended:
	case <-errs.any: // the replicas are at work, however long it took to start them, and the store was looked at
		ctx, stop := context.WithTimeout(context.Background(), r.span-r.span/10)
		defer stop()
		if r.meanwhile != nil && wait(ctx, r.ttl) {
			effective = r.meanwhile(ctx)
		}
		err = <-ended
	}
	waited = true
	var v verdict
	if json.Unmarshal(out.Bytes(), &v) != nil {
		v.Verdict, v.Void = "void", []string{fmt.Sprintf("soloist verify ended with %v and no verdict: %s%s", err, errs.text(), out.Bytes())}
		return v
	}
	t.Logf("%s after %.0f s with seed %d on %s: %d operations, %d grants, %d unknown, %d errors (%.0f %%), faults of the clients %v, of the server and its "+
		"connections %v, acquire %v, take-over %v, unchecked %d, violations %s", v.Verdict, v.Figures.Seconds, *seed, v.Store.Backend,
		v.Checked.Operations, v.Checked.Grants, v.Checked.Unknowns, v.Figures.Errors, 100*v.Figures.ErrorShare, v.Figures.Faults, effective, v.Figures.Acquire,
		v.Figures.Takeover, v.Checked.Unchecked, v.checkers())
	r.note(t, v, effective)
	return v
}

// A told is what a program writes to its standard error. It is safe for concurrent use.
type told struct {
	any chan struct{} // closed when there is something

	mu  sync.Mutex
	all bytes.Buffer
}

// Write implements io.Writer.
func (t *told) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all.Len() == 0 && len(b) > 0 {
		close(t.any)
	}
	return t.all.Write(b)
}

func (t *told) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all.String()
}

// note appends a line about a run to the report.
func (r run) note(t *testing.T, v verdict, effective map[string]int) {
	t.Helper()
	if *report == "" {
		return
	}
	line, err := json.Marshal(map[string]any{
		"test": t.Name(), "seed": *seed, "store": v.Store.Backend, "fencing": v.Store.Fencing.Answer, "verdict": v.Verdict, "void": v.Void,
		"seconds": v.Figures.Seconds, "ttl": r.ttl.String(), "checked": v.Checked, "figures": v.Figures, "server_faults": effective,
		"violations": v.checkers(),
	})
	must(t, err)
	f, err := os.OpenFile(*report, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	must(t, err)
	_, err = f.Write(append(line, '\n'))
	must(t, errors.Join(err, f.Close()))
}

// attempts is how often a run is made that shows nothing, each time for twice as long. One or two do, but on a slow machine: there a server
// may take so long to start again that not each of the faults has its turn.
const attempts = 6

// mustHold wants a verdict that everything held, of a run in which everything happened that should. Each attempt has its own servers;
// prepare returns with the run what tells, after it, which faults were not seen to take effect.
func mustHold(t *testing.T, prepare func(*testing.T) (r run, missing func() []string)) verdict {
	t.Helper()
	for attempt := 1; ; attempt++ {
		r, missing := prepare(t)
		r.span *= time.Duration(1 << (attempt - 1))
		v := r.verify(t)
		if v.Verdict == "violated" {
			tell(t, v)
			t.Fatalf("a promise did not hold: %d violations", len(v.Violations))
		}
		if answer := v.Store.Fencing.Answer; answer != "yes" && answer != "" && !r.unfenced {
			t.Fatalf("the store %s does not promise fencing", v.Store.Backend)
		}
		void := v.Void
		if missing != nil {
			for _, kind := range missing() {
				void = append(void, "not seen to take effect: "+kind)
			}
		}
		if len(void) == 0 {
			return v
		}
		if attempt == attempts {
			t.Fatalf("void after %d attempts: %s", attempt, strings.Join(void, "; "))
		}
		t.Logf("VOID: %s; again, for longer", strings.Join(void, "; "))
	}
}

// mustBeCaught wants a verdict that something did not hold. Each attempt has its own servers.
func mustBeCaught(t *testing.T, control func(*testing.T) run) {
	t.Helper()
	for attempt := 1; ; attempt++ {
		r := control(t)
		r.faults = "none"
		if r.ttl == 0 {
			r.ttl = *ttl
		}
		if r.span == 0 {
			r.span = 10 * time.Second
		}
		if r.verify(t).Verdict == "violated" {
			return
		}
		if attempt == attempts {
			t.Fatalf("not caught in %d attempts: what holds elsewhere shows nothing either", attempt)
		}
		t.Log("VOID: not caught; again")
	}
}

// tell prints the first violation of each checker.
func tell(t *testing.T, v verdict) {
	t.Helper()
	told := map[string]bool{}
	for _, violation := range v.Violations {
		if !told[violation.Checker] {
			told[violation.Checker] = true
			t.Logf("%s: %s: %s\n%s", violation.Checker, violation.Name, violation.Text, violation.Excerpt)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
