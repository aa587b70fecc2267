package live

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/test/servers"
)

var span = flag.Duration("live.for", 8*time.Second, "how long each run takes")

func TestMain(m *testing.M) {
	flag.Parse()
	servers.Main(m)
}

// command builds soloist, once.
var command = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "soloist-live-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "soloist")
	build := exec.Command("go", "build", "-o", path, ".")
	build.Dir = filepath.Join("..", "..", "cmd", "soloist")
	if out, err := build.CombinedOutput(); err != nil {
		return "", errors.New(string(out))
	}
	return path, nil
})

// A verdict is what `soloist verify -o json` answers, as far as it is looked at here.
type verdict struct {
	Verdict    string           `json:"verdict"`
	Void       []string         `json:"void"`
	Violations []map[string]any `json:"violations"`
	Checked    struct {
		Operations, Grants, Unknowns, Unchecked int
	} `json:"checked"`
	Figures struct {
		Seconds  float64        `json:"seconds"`
		Errors   int            `json:"errors"`
		Faults   map[string]int `json:"faults"`
		Acquire  spread         `json:"acquire"`
		Takeover spread         `json:"take_over"`
	} `json:"figures"`
}

type spread struct {
	Count int   `json:"count"`
	P99   int64 `json:"p99_ns"`
}

func soloist(t *testing.T, url string, args ...string) *exec.Cmd {
	t.Helper()
	path, err := command()
	if err != nil {
		t.Fatalf("building soloist: %v", err)
	}
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), "SOLOIST_STORE="+url)
	return cmd
}

// verified runs soloist verify, and meanwhile what happens to the server until ctx ends, which is a little before the clients end.
func verified(t *testing.T, url string, meanwhile func(ctx context.Context), args ...string) verdict {
	t.Helper()
	cmd := soloist(t, url, append([]string{"verify", "--for", span.String(), "-o", "json"}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(context.Background(), *span-*span/8)
	defer stop()
	meanwhile(ctx)
	err := cmd.Wait()
	var v verdict
	if decoded := json.Unmarshal(out.Bytes(), &v); decoded != nil {
		t.Fatalf("soloist verify ended with %v and no verdict: %v\n%s%s", err, decoded, errs.Bytes(), out.Bytes())
	}
	t.Logf("%s after %.0f s: %d operations, %d grants, %d unknown, %d errors, client faults %v, acquire p99 %v, take-over p99 %v, unchecked %d",
		v.Verdict, v.Figures.Seconds, v.Checked.Operations, v.Checked.Grants, v.Checked.Unknowns, v.Figures.Errors, v.Figures.Faults,
		time.Duration(v.Figures.Acquire.P99).Round(time.Millisecond), time.Duration(v.Figures.Takeover.P99).Round(time.Millisecond), v.Checked.Unchecked)
	if len(v.Violations) > 0 {
		first, _ := json.MarshalIndent(v.Violations[0], "", " ")
		t.Logf("%d violations, first: %s", len(v.Violations), first)
	}
	return v
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
