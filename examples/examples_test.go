package examples

import (
	"bufio"
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/test/servers"
)

// Every program does what it says, in real processes, and ends.
func TestPrograms(t *testing.T) {
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", dir+"/", "./job", "./lock", "./elements", "./httpfence")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	file := filepath.Join(dir, "soloist.db")
	run := func(program string, args ...string) string {
		ctx, cancel := context.WithTimeout(t.Context(), servers.Patience)
		defer cancel()
		out, err := exec.CommandContext(ctx, filepath.Join(dir, program), args...).CombinedOutput()
		if err != nil {
			t.Errorf("%s %v: %v\n%s", program, args, err, out)
		}
		return string(out)
	}
	for _, c := range []struct {
		says    string
		program string
		args    []string
	}{
		{"the month is closed", "lock", []string{"-file", file, "-work", "10ms"}},
		{"4711: issued, with token", "elements", []string{"-file", file}},
		{"4711: issued before", "elements", []string{"-file", file, "4711"}},
		{"the first holder, late: 412", "httpfence", nil},
		{"the second holder: 200", "httpfence", nil},
	} {
		if out := run(c.program, c.args...); !strings.Contains(out, c.says) {
			t.Errorf("%s %v said:\n%s\nwant: %s", c.program, c.args, out, c.says)
		}
	}
	for span := 2500 * time.Millisecond; ; span *= 2 { // a slow machine needs longer to begin
		out := run("job", "-file", file, "-schedule", "* * * * * *", "-for", span.String())
		if strings.Contains(out, "runs it, attempt 1") {
			break
		}
		if span > time.Minute {
			t.Fatalf("in %v the job said:\n%s", span, out)
		}
	}
}

// Jobs of tenants come and go with the file that lists them.
func TestTenants(t *testing.T) {
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", dir+"/", "./tenants")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	list := filepath.Join(dir, "tenants.txt")
	write := func(tenants string) {
		if err := os.WriteFile(list+".new", []byte(tenants), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(list+".new", list); err != nil { // at once, so that no half of it is read
			t.Fatal(err)
		}
	}
	write("acme * * * * * *\nglobex * * * * * *\n")
	ctx, cancel := context.WithTimeout(t.Context(), servers.Patience)
	defer cancel()
	replica := exec.CommandContext(ctx, filepath.Join(dir, "tenants"), "-file", filepath.Join(dir, "soloist.db"), "-tenants", list)
	out, err := replica.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	replica.Stderr = t.Output()
	if err := replica.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cancel()
		_ = replica.Wait()
	}()
	lines := bufio.NewScanner(out)
	until := func(wanted ...string) {
		t.Helper()
		for len(wanted) > 0 && lines.Scan() {
			wanted = slices.DeleteFunc(wanted, func(line string) bool { return line == lines.Text() })
		}
		if len(wanted) > 0 {
			t.Fatalf("it ended without saying %q", wanted)
		}
	}
	until("added acme", "added globex", "report of acme", "report of globex")
	write("acme */2 * * * * *\ninitech * * * * * *\n")
	until("updated acme", "removed globex", "added initech")
	until("report of acme", "report of initech")
}

// A replica of the service applies the migrations once, serves, and ends without an error when it is told to.
func TestService(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", dir+"/", "./service").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for start, migrated := range []string{"applying 001-users applying 002-orders ", ""} {
		ctx, cancel := context.WithTimeout(t.Context(), servers.Patience)
		defer cancel()
		replica := exec.CommandContext(ctx, filepath.Join(dir, "service"), "-file", filepath.Join(dir, "soloist.db"), "-listen", "127.0.0.1:0")
		out, err := replica.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		replica.Stderr = t.Output()
		if err := replica.Start(); err != nil {
			t.Fatal(err)
		}
		said, address := "", ""
		lines := bufio.NewScanner(out)
		for address == "" && lines.Scan() {
			if on, ok := strings.CutPrefix(lines.Text(), "serving on "); ok {
				address = on
			} else {
				said += lines.Text() + " "
			}
		}
		if said != migrated {
			t.Errorf("start %d: it says %q before it serves, want %q", start+1, said, migrated)
		}
		response, err := http.Post("http://"+address+"/users/ann/orders", "", nil)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			t.Errorf("an order: %s", response.Status)
		}
		if err := replica.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() { // so that nothing is lost, and the pipe does not fill
		}
		if err := replica.Wait(); err != nil {
			t.Errorf("told to stop: %v", err)
		}
	}
}

// Runs and requests are counted.
func TestMetrics(t *testing.T) {
	program := filepath.Join(t.TempDir(), "metrics")
	if out, err := exec.Command("go", "build", "-o", program, "./metrics").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for span := 3 * time.Second; ; span *= 2 { // a slow machine needs longer to begin
		out, err := exec.CommandContext(t.Context(), program, "-for", span.String()).Output()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		missing := slices.DeleteFunc([]string{
			`soloist_runs_total{task="import",outcome="failed"}`, `soloist_runs_total{task="import",outcome="ok"}`,
			`soloist_run_seconds_total{task="import"}`, `soloist_requests_total{verb="acquire",outcome="ok"}`,
		}, func(line string) bool { return strings.Contains(string(out), line+" ") })
		if len(missing) == 0 {
			return
		}
		if span > time.Minute {
			t.Fatalf("in %v it has not counted %q:\n%s", span, missing, out)
		}
	}
}

// Two replicas on one file run each scheduled time once.
func TestTwoReplicas(t *testing.T) {
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", dir+"/", "./job")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	said := make(chan string)
	runs := map[string]int{}
	for span := 4500 * time.Millisecond; len(runs) < 3; span *= 2 { // a slow machine needs longer to begin
		if span > servers.Patience {
			t.Fatalf("%d scheduled times in %v", len(runs), span/2)
		}
		for range 2 {
			go func() {
				replica := exec.CommandContext(t.Context(), filepath.Join(dir, "job"),
					"-file", filepath.Join(dir, "soloist.db"), "-schedule", "* * * * * *", "-for", span.String())
				out, err := replica.CombinedOutput()
				if err != nil {
					t.Errorf("%v\n%s", err, out)
				}
				said <- string(out)
			}()
		}
		for line := range strings.Lines(<-said + <-said) {
			due, _, _ := strings.Cut(line, " ")
			runs[due]++
		}
	}
	for due, n := range runs {
		if n != 1 {
			t.Errorf("%s was run %d times", due, n)
		}
	}
}

// The files of jobs are what the command takes them for, and those of deploy/ start it with arguments that it knows and let it end.
func TestJobFiles(t *testing.T) {
	soloist := filepath.Join(t.TempDir(), "soloist")
	if out, err := exec.Command("go", "-C", "../cmd/soloist", "build", "-o", soloist, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for file, jobs := range map[string][]string{
		"crontab":   {"nightly-report", "refresh-cache", "publish-news"},
		"jobs.yaml": {"nightly-report", "publish-news", "charge-cards", "poll-mailbox"},
	} {
		out, err := exec.Command(soloist, "cron", "--check", file).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", file, err, out)
		}
		for _, job := range jobs {
			if !strings.Contains(string(out), job) {
				t.Errorf("%s: no job %s in\n%s", file, job, out)
			}
		}
	}
	for file, pattern := range map[string]string{
		"../deploy/soloist-cron.service": `(?m)^ExecStart=/usr/bin/soloist (.*)$`,
		"../deploy/kubernetes.yaml":      `(?m)^ +args: \[(.*)\]$`,
	} {
		text := readFile(t, file)
		args := strings.FieldsFunc(found(t, file, text, pattern), func(r rune) bool { return r == ' ' || r == ',' })
		for i, arg := range args {
			if arg == "/etc/soloist/crontab" {
				args[i] = "crontab"
			}
		}
		if out, err := exec.Command(soloist, append(args, "--check")...).CombinedOutput(); err != nil || !slices.Contains(args, "crontab") {
			t.Errorf("%s: %q: %v\n%s", file, args, err, out)
		}
		const shortest = 20 + 5 + 5 // to drain, the grace of a command, and a request that times out
		seconds := found(t, file, text, `(?:TimeoutStopSec=|terminationGracePeriodSeconds: )([0-9]+)`)
		if n, err := strconv.Atoi(seconds); err != nil || n < shortest {
			t.Errorf("%s: soloist has %s s to stop; want at least %d", file, seconds, shortest)
		}
	}
}

func readFile(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// found returns what the group of a pattern matches in a file.
func found(t *testing.T, file, text, pattern string) string {
	t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("%s: nothing matches %s", file, pattern)
	}
	return m[1]
}
