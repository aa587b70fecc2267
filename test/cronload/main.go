//go:build unix

// Command cronload shows what soloist cron does when very many commands are due at once: jobs "true" that are all due in one second, on several replicas
// and one store, for some minutes. It reads the replicas' messages and reports whether each scheduled time ran once, and how late, what the
// replicas cost, and how they ended after TERM.
//
//	go build -o bin/soloist ./cmd/soloist
//	SOLOIST_STORE=postgres://… go run ./test/cronload -jobs 10000 -replicas 3 -every 1m -for 3m
//
// Without a store it uses an SQLite file in a temporary directory. With -for 0 the jobs are due once, as for
// "seq 1000 | xargs -P 32 -n 1 true", which it then runs, and shows how many times as long soloist took. It ends with 1 if a time was lost or ran twice.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

type options struct {
	soloist  string
	jobs     int
	replicas int
	parallel int
	every    time.Duration
	span     time.Duration
}

func main() {
	o := options{}
	flag.StringVar(&o.soloist, "soloist", "bin/soloist", "the command to try")
	flag.IntVar(&o.jobs, "jobs", 1000, "how many jobs are due together")
	flag.IntVar(&o.replicas, "replicas", 1, "how many replicas share the store")
	flag.IntVar(&o.parallel, "parallel", 32, "--parallel of each")
	flag.DurationVar(&o.every, "every", time.Minute, "how often the jobs are due")
	flag.DurationVar(&o.span, "for", 0, "for how long; 0 runs each job once")
	flag.Parse()
	ok, err := measure(o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "cronload:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

func measure(o options) (ok bool, err error) {
	dir, err := os.MkdirTemp("", "cronload-")
	if err != nil {
		return false, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.WriteFile(filepath.Join(dir, "jobs.yaml"), []byte(jobsFile(o)), 0o600); err != nil {
		return false, err
	}
	env := os.Environ()
	if os.Getenv("SOLOIST_STORE") == "" {
		env = append(env, "SOLOIST_STORE=sqlite:"+filepath.Join(dir, "store.db"))
	}
	f := &fleet{options: o, runs: map[string]*run{}, namespace: "cronload-" + strconv.Itoa(os.Getpid())}
	begin := time.Now()
	for i := range o.replicas {
		if err := f.start(i, dir, env); err != nil {
			f.kill()
			return false, err
		}
	}
	f.await(begin)
	f.end()
	ok = f.report(os.Stdout)
	if o.span == 0 {
		compare(o, f.took())
	}
	return ok, nil
}

// jobsFile has the jobs, which are due at once: now, or at each multiple of o.every.
func jobsFile(o options) string {
	when := "at: 2020-01-01T00:00:00Z, missed: once"
	if o.span > 0 {
		when = "every: " + o.every.String()
	}
	var text strings.Builder
	text.WriteString("jobs:\n")
	for i := range o.jobs {
		fmt.Fprintf(&text, "  - {name: j%d, %s, command: [\"true\"]}\n", i, when)
	}
	return text.String()
}

// A run is what the messages report one scheduled time of a job.
type run struct {
	started, ok int
	late        time.Duration
}

type fleet struct {
	options
	namespace string
	commands  []*exec.Cmd
	readers   sync.WaitGroup

	mu      sync.Mutex
	runs    map[string]*run
	first   time.Time
	last    time.Time
	waiting int      // most at once, as a replica said
	strange []string // messages other than those of the normal course
	ended   int
}

func (f *fleet) start(i int, dir string, env []string) error {
	cmd := exec.Command(f.soloist, "--namespace", f.namespace, "--replica", "replica-"+strconv.Itoa(i), "cron", "--log-format", "json",
		"--parallel", strconv.Itoa(f.parallel), filepath.Join(dir, "jobs.yaml"))
	cmd.Env = env
	messages, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	f.commands = append(f.commands, cmd)
	f.readers.Go(func() {
		for in := bufio.NewScanner(messages); in.Scan(); {
			f.read(in.Bytes())
		}
	})
	return nil
}

// read takes a message of a replica.
func (f *fleet) read(line []byte) {
	var m struct {
		Time           time.Time
		Level, Msg     string
		Job, Scheduled string
		Outcome        string
		Waiting        int
	}
	if err := json.Unmarshal(line, &m); err != nil {
		m.Msg = string(line)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	key := m.Job + " " + m.Scheduled
	switch {
	case m.Msg == "started":
		r := f.run(key)
		r.started++
		if due, err := time.Parse(time.RFC3339Nano, m.Scheduled); err == nil {
			r.late = max(r.late, m.Time.Sub(due))
		}
		if f.first.IsZero() || m.Time.Before(f.first) {
			f.first = m.Time
		}
	case m.Msg == "ended" && m.Outcome == "ok":
		f.run(key).ok++
		f.ended++
		if m.Time.After(f.last) {
			f.last = m.Time
		}
	case m.Waiting > 0:
		f.waiting = max(f.waiting, m.Waiting)
	case m.Level != "INFO" && len(f.strange) < 10:
		f.strange = append(f.strange, string(line))
	}
}

func (f *fleet) run(key string) *run {
	if f.runs[key] == nil {
		f.runs[key] = &run{}
	}
	return f.runs[key]
}

// await waits until all that is due has run.
func (f *fleet) await(begin time.Time) {
	for {
		time.Sleep(100 * time.Millisecond)
		f.mu.Lock()
		ended, last := f.ended, f.last
		f.mu.Unlock()
		switch {
		case f.span == 0 && ended >= f.jobs:
			return
		case f.span > 0 && time.Since(begin) > f.span && time.Since(last) > f.every/4:
			return
		case time.Since(begin) > f.span+10*time.Minute:
			return
		}
	}
}

// end ends the replicas by TERM.
func (f *fleet) end() {
	begin := time.Now()
	for _, cmd := range f.commands {
		_ = cmd.Process.Signal(syscall.SIGTERM)
	}
	f.readers.Wait()
	for i, cmd := range f.commands {
		err := cmd.Wait()
		usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
		fmt.Printf("replica %d: ended %.1fs after TERM (%v); processor %.1fs with that of its commands, memory %d MB\n",
			i, time.Since(begin).Seconds(), err, (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds(), usage.Maxrss/1024)
	}
}

func (f *fleet) kill() {
	for _, cmd := range f.commands {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

// report prints what was seen, and whether each scheduled time ran once.
func (f *fleet) report(out *os.File) bool {
	times := map[string]int{}
	doubled, unended := 0, 0
	var late time.Duration
	for key, r := range f.runs {
		_, scheduled, _ := strings.Cut(key, " ")
		times[scheduled]++
		if r.started > 1 {
			doubled++
		}
		if r.ok == 0 {
			unended++
		}
		late = max(late, r.late)
	}
	lost := 0
	for _, n := range times {
		lost += f.jobs - n
	}
	fmt.Fprintf(out, "%d jobs on %d replicas, --parallel %d: %d scheduled times, %d runs; %d lost, %d doubled, %d not ended; at most %d waited at once\n",
		f.jobs, f.replicas, f.parallel, len(times), len(f.runs), lost, doubled, unended, f.waiting)
	if f.span > 0 {
		fmt.Fprintf(out, "the latest started %.1fs after its time\n", late.Seconds())
	} else {
		fmt.Fprintf(out, "from the first start to the last end: %.2fs\n", f.took().Seconds())
	}
	for _, line := range f.strange {
		fmt.Fprintln(out, line)
	}
	return lost == 0 && doubled == 0 && unended == 0
}

// took is the time from the first start to the last end.
func (f *fleet) took() time.Duration { return f.last.Sub(f.first) }

// compare runs as many commands by xargs.
func compare(o options, ours time.Duration) {
	begin := time.Now()
	cmd := exec.Command("sh", "-c", fmt.Sprintf("seq %d | xargs -P %d -n 1 true", o.jobs, o.parallel))
	if err := cmd.Run(); err == nil {
		theirs := time.Since(begin)
		fmt.Printf("xargs -P %d: %.2fs; soloist took %.2f times as long\n", o.parallel, theirs.Seconds(), ours.Seconds()/theirs.Seconds())
	}
}
