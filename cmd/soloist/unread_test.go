//go:build unix

package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/soloist-dev/soloist"

	"github.com/soloist-dev/soloist/cmd/soloist/internal/child"
	"github.com/soloist-dev/soloist/cmd/soloist/internal/crontab"
	"github.com/soloist-dev/soloist/soloisttest"
)

// Signals end soloist cron also when nobody reads its output and its messages, while a command that ignores TERM goes
// on to write. The job is then free.
func TestCronEndsWhateverReads(t *testing.T) {
	for name, again := range map[string]bool{"one TERM, and the drain is over": false, "TERM again and again": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := memoryDir(t)
			job := "# name: deaf\n* * * * * * * trap '' TERM; touch begun; while :; do seq 100000; done\n"
			if err := os.WriteFile(filepath.Join(dir, "crontab"), []byte(job), 0o600); err != nil {
				t.Fatal(err)
			}
			fifo := filepath.Join(dir, "fifo")
			if err := syscall.Mkfifo(fifo, 0o600); err != nil {
				t.Fatal(err)
			}
			unread, err := os.OpenFile(fifo, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer unread.Close()
			path, err := exec.LookPath("soloist")
			if err != nil {
				t.Fatal(err)
			}
			drain := "1s"
			if again {
				drain = "1h"
			}
			cmd := exec.Command(path, "cron", "--drain", drain, "--grace", "1s", "--log-level", "debug", "crontab")
			cmd.Dir, cmd.Stdout, cmd.Stderr = dir, unread, unread
			cmd.Env = append(os.Environ(), "SOLOIST_STORE=sqlite:"+filepath.Join(dir, "store.db"))
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			until(t, "the command has begun", func() bool { _, err := os.Stat(filepath.Join(dir, "begun")); return err == nil })
			begin := time.Now()
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			until(t, "soloist has ended", func() bool {
				select {
				case err := <-ended:
					slow := again && time.Since(begin) >= killedWithin && cmd.ProcessState.ExitCode() == exitUnavailable // it has not waited for the store
					if err != nil && !slow {
						t.Errorf("ended with %v", err)
					}
					return true
				default:
				}
				if again { // those that wait are one, so nobody knows how many arrive
					_ = cmd.Process.Signal(syscall.SIGTERM)
				}
				return false
			})
		})
	}
}

// The outcome of a run is that of its command, whatever became of the output and of what the command left behind.
func TestTheOutcomeIsTheCommands(t *testing.T) {
	left := errors.Join(&child.LeftError{Pids: []int{1}}, child.ErrOutputHeld, io.ErrShortWrite)
	log := slog.New(slog.DiscardHandler)
	e := &execution{}
	if err := e.ended(log, child.Result{Ran: true}, left, nil); err != nil {
		t.Errorf("exit code 0: %v", err)
	}
	if err := e.ended(log, child.Result{Ran: true}, left, errors.New("told to end, too late")); err != nil {
		t.Errorf("ended before it was told: %v", err)
	}
	if err := e.ended(log, child.Result{Ran: true, Code: 3}, left, nil); err == nil || err.Error() != "exit status 3" {
		t.Errorf("exit code 3: %v", err)
	}
	for _, cause := range []error{soloist.ErrInterrupted, soloist.ErrOverran, soloist.ErrLost} { // a command that is told to end may exit with 0 before its work is done
		if err := e.ended(log, child.Result{Ran: true, Stopped: true}, nil, cause); !errors.Is(err, cause) {
			t.Errorf("exit code 0, when it was stopped because %q: %v", cause, err)
		}
	}
	missing := &child.StartError{File: "x", Code: 127, Reason: "why"}
	if err := e.ended(log, child.Result{Code: 127}, missing, nil); !errors.Is(err, missing) {
		t.Errorf("not started: %v", err)
	}
}

// An element whose command has exited with 0 is processed, although the command left something behind that could not be
// ended.
func TestOnceRecordsWhatTheCommandSays(t *testing.T) {
	c, _ := soloisttest.NewClient(t)
	element, err := c.Elements("invoices", soloist.ElementsOptions{}).Claim(t.Context(), "4711")
	if err != nil {
		t.Fatal(err)
	}
	g := &guarded{app: &app{errs: io.Discard}}
	v := verdict{result: child.Result{Ran: true}, err: &child.LeftError{Pids: []int{1}}}
	var ended *exit
	if err := g.processed(v, element); !errors.As(err, &ended) || ended.code != 0 {
		t.Errorf("exit: %v", err)
	}
	if _, err := c.Elements("invoices", soloist.ElementsOptions{}).Claim(t.Context(), "4711"); err == nil || exitCode(err) == exitHeld {
		t.Errorf("it is not processed: %v", err)
	}
}

// A run has at-most from the start of its first attempt on, and the next run has it anew.
func TestAtMostCountsFromTheFirstAttempt(t *testing.T) {
	c, _ := soloisttest.NewClient(t)
	r := &cronRun{
		app: &app{environ: os.Environ()}, log: slog.New(slog.DiscardHandler), slots: newSlots(1), stdout: child.NewFunnel(io.Discard, nil),
		draining: t.Context(), stop: t.Context(), hurry: make(chan struct{}), noOutput: true,
	}
	e := &execution{cronRun: r, job: crontab.Job{Name: "x", Args: []string{"false"}, Options: crontab.Options{AtMost: time.Hour}}}
	over := map[int64][]time.Time{} // by the tokens of the leases
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	job := soloist.Job{Name: "x", Schedule: soloist.Every(10 * time.Millisecond), Retry: soloist.Retry{Attempts: 3}, Do: func(ctx context.Context, run soloist.Run) error {
		err := e.run(ctx, run)
		if over[run.Lease.Token()] = append(over[run.Lease.Token()], e.over); len(over) == 2 && len(over[run.Lease.Token()]) == 3 {
			cancel()
		}
		return err
	}}
	if err := c.Run(ctx, job); err != nil {
		t.Fatal(err)
	}
	if err := r.stdout.Close(flushWithin); err != nil {
		t.Error(err)
	}
	var ends []time.Time
	for token, all := range over {
		if len(all) != 3 || !all[0].Equal(all[1]) || !all[0].Equal(all[2]) {
			t.Errorf("the run %d, of attempts: %v", token, all)
		}
		ends = append(ends, all[0])
	}
	if len(ends) != 2 || ends[0].Equal(ends[1]) {
		t.Errorf("the runs end at %v", ends)
	}
}

// at-most bounds the pauses between attempts too: where the next one would begin after it, the run has failed at once. None begins when it is over.
func TestNoAttemptBeginsAfterAtMost(t *testing.T) {
	began := filepath.Join(t.TempDir(), "began")
	r := &cronRun{
		app: &app{environ: os.Environ()}, log: slog.New(slog.DiscardHandler), slots: newSlots(1), stdout: child.NewFunnel(io.Discard, nil),
		draining: t.Context(), stop: t.Context(), hurry: make(chan struct{}), noOutput: true,
	}
	for name, row := range map[string]struct {
		retry   crontab.Retry
		attempt int
		over    bool
	}{
		"one attempt":                {crontab.Retry{}, 1, false},
		"the last attempt":           {crontab.Retry{Attempts: 2, Backoff: 2 * time.Hour}, 2, false},
		"the next in time":           {crontab.Retry{Attempts: 3, Backoff: 29 * time.Minute}, 1, false},
		"the next too late":          {crontab.Retry{Attempts: 3, Backoff: time.Hour}, 1, true},
		"the pause has doubled":      {crontab.Retry{Attempts: 3, Backoff: 30 * time.Minute}, 2, true},
		"it doubles up to its bound": {crontab.Retry{Attempts: 9, Backoff: time.Minute, MaxBackoff: 50 * time.Minute}, 8, false},
		"it doubles beyond it":       {crontab.Retry{Attempts: 9, Backoff: time.Minute}, 8, true},
		"its bound is an hour":       {crontab.Retry{Attempts: 99, Backoff: time.Millisecond}, 90, true},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := soloisttest.NewClient(t)
			lease, err := c.TryLock(t.Context(), "x")
			if err != nil {
				t.Fatal(err)
			}
			e := &execution{cronRun: r, job: crontab.Job{
				Name: "x", Args: []string{"sh", "-c", `echo >>"$0"; exit 3`, began}, Options: crontab.Options{AtMost: time.Hour, Retry: row.retry},
			}}
			run := soloist.Run{Job: "x", Attempt: row.attempt, Lease: lease}
			want := "exit status 3"
			if row.over {
				want += "; the next attempt would begin after at-most, 1h0m0s"
			}
			if err := e.run(t.Context(), run); errors.Is(err, soloist.ErrOverran) != row.over || err.Error() != want {
				t.Errorf("ended with %v; want %s", err, want)
			}
			if err := os.Truncate(began, 0); err != nil {
				t.Fatal(err)
			}
			e.over = time.Now() // also if the pause took longer than it should
			if err := e.run(t.Context(), run); !errors.Is(err, soloist.ErrOverran) || err.Error() != "not started: it ran for longer than at-most, 1h0m0s" {
				t.Errorf("an attempt after at-most ended with %v", err)
			}
			if info, err := os.Stat(began); err != nil || info.Size() > 0 {
				t.Errorf("it has begun: %v", err)
			}
		})
	}
}
