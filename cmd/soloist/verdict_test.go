package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/cmd/soloist/internal/child"
	"github.com/soloist-dev/soloist/soloisttest"
	"github.com/soloist-dev/soloist/store/memstore"
)

// How a command has ended by itself is recorded also if its lease was lost in the moment after: released, the element would be
// done again, or its attempt would not count. One that was stopped, or not even started, is released.
func TestWhatHasEndedWellIsNotReleased(t *testing.T) {
	lost := errors.Join(soloist.ErrLost, errors.New("not confirmed"))
	for name, row := range map[string]struct {
		result child.Result
		again  error // of another claim
		code   int
		says   string
	}{
		"ended well":    {child.Result{Ran: true}, soloist.ErrDone, 0, ""},
		"failed":        {child.Result{Ran: true, Code: 3}, soloist.ErrFailed, exitLost, "the command had ended by itself, with 3"},
		"TERM ended it": {child.Result{Ran: true, Code: 143, Signal: syscall.SIGTERM, Passed: []os.Signal{syscall.SIGTERM}}, nil, exitLost, "the command had ended by itself, with 143"},
		"stopped":       {child.Result{Ran: true, Stopped: true, Code: 143}, nil, exitLost, "the command was stopped"},
		"never started": {child.Result{}, nil, exitLost, "the command was not started"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := soloist.New(memstore.New(), soloist.Config{})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			elements := c.Elements("invoices", soloist.ElementsOptions{Retry: soloist.Retry{Attempts: 1}})
			element, err := elements.Claim(t.Context(), "4711")
			if err != nil {
				t.Fatal(err)
			}
			g := &guarded{app: &app{errs: &bytes.Buffer{}}}
			ended := g.processed(verdict{result: row.result, lost: lost}, element)
			if code := exitCode(ended); code != row.code || !strings.HasSuffix(ended.Error(), row.says) {
				t.Errorf("%d: %v, want %d: …%s", code, ended, row.code, row.says)
			}
			if _, err := elements.Claim(context.Background(), "4711"); !errors.Is(err, row.again) {
				t.Errorf("claimed again: %v, want %v", err, row.again)
			}
		})
	}
}

// lead stands again if its command was stopped for the leadership, or not even begun, but not if that was lost after the command had ended by itself.
func TestLeadIsOverWhenItsCommandHasEnded(t *testing.T) {
	for name, row := range map[string]struct {
		v    verdict
		over bool
	}{
		"ended":                {verdict{result: child.Result{Ran: true, Code: 4}}, true},
		"ended, then lost":     {verdict{result: child.Result{Ran: true, Code: 4}, lost: soloist.ErrLost}, true},
		"stopped":              {verdict{result: child.Result{Ran: true, Stopped: true}, lost: soloist.ErrLost}, false},
		"told, and stopped":    {verdict{result: child.Result{Ran: true, Stopped: true, Told: true}, lost: soloist.ErrLost}, true},
		"lost before it began": {verdict{lost: soloist.ErrLost}, false},
		"cannot be started":    {verdict{err: errors.New("no such file")}, true},
	} {
		if row.v.over() != row.over {
			t.Errorf("%s: over %v", name, row.v.over())
		}
	}
}

// A command of once that a signal ended is not counted only if soloist passed that signal on, or the terminal sent it; so is one that answers with 128 and its number.
func TestWhatASignalEndedHasNotFailed(t *testing.T) {
	term := []os.Signal{syscall.SIGWINCH, syscall.SIGTERM}
	for name, row := range map[string]struct {
		result child.Result
		failed bool
	}{
		"TERM of its own":             {child.Result{Ran: true, Code: 143, Signal: syscall.SIGTERM}, true},
		"TERM that was passed on":     {child.Result{Ran: true, Code: 143, Signal: syscall.SIGTERM, Passed: term}, false},
		"INT after TERM":              {child.Result{Ran: true, Code: 130, Signal: syscall.SIGINT, Passed: term}, true},
		"USR1 that was passed on":     {child.Result{Ran: true, Code: 138, Signal: syscall.SIGUSR1, Passed: []os.Signal{syscall.SIGUSR1}}, false},
		"KILL":                        {child.Result{Ran: true, Code: 137, Signal: syscall.SIGKILL, Passed: term}, true},
		"answers TERM with 143":       {child.Result{Ran: true, Code: 143, Passed: term}, false},
		"143 by itself":               {child.Result{Ran: true, Code: 143}, true},
		"156, after one of no moment": {child.Result{Ran: true, Code: 128 + int(syscall.SIGWINCH), Passed: term}, true},
		"answers TERM with 1":         {child.Result{Ran: true, Code: 1, Passed: term}, true},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := soloisttest.NewClient(t)
			elements := c.Elements("invoices", soloist.ElementsOptions{Retry: soloist.Retry{Attempts: 1}})
			element, err := elements.Claim(t.Context(), "4711")
			if err != nil {
				t.Fatal(err)
			}
			g := &guarded{app: &app{errs: &bytes.Buffer{}}}
			ended := g.processed(verdict{result: row.result}, element)
			if _, err := elements.Claim(t.Context(), "4711"); exitCode(ended) != row.result.Code || errors.Is(err, soloist.ErrFailed) != row.failed {
				t.Errorf("exit code %d; claimed again: %v", exitCode(ended), err)
			}
		})
	}
}

// A command that was stopped at --at-most has failed at its element: given back, that would be tried without an end. One that was stopped because the
// lease was lost has not.
func TestWhatWasStoppedAtMostHasFailed(t *testing.T) {
	for lost, want := range map[error]error{soloist.ErrOverran: soloist.ErrFailed, soloist.ErrLost: nil} {
		c, _ := soloisttest.NewClient(t)
		elements := c.Elements("invoices", soloist.ElementsOptions{Retry: soloist.Retry{Attempts: 1}})
		element, err := elements.Claim(t.Context(), "4711")
		if err != nil {
			t.Fatal(err)
		}
		g := &guarded{app: &app{errs: &bytes.Buffer{}}}
		ended := g.processed(verdict{result: child.Result{Ran: true, Stopped: true, Code: 143, Signal: syscall.SIGTERM}, lost: lost}, element)
		if _, err := elements.Claim(t.Context(), "4711"); exitCode(ended) != exitLost || !errors.Is(err, want) {
			t.Errorf("%v: %v; claimed again: %v, want %v", lost, ended, err, want)
		}
	}
}

// That an element is recorded is not told as long as the store has not responded.
func TestElementThatMayNotBeRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := soloisttest.NewClient(t)
		element, err := c.Elements("invoices", soloist.ElementsOptions{}).Claim(t.Context(), "4711")
		if err != nil {
			t.Fatal(err)
		}
		s.Break(errors.New("the store is away"))
		g := &guarded{app: &app{errs: &bytes.Buffer{}}}
		if err := g.processed(verdict{result: child.Result{Ran: true}}, element); exitCode(err) != exitUnavailable || !strings.Contains(err.Error(), "not sure to be recorded") {
			t.Errorf("exit code %d: %v", exitCode(err), err)
		}
		s.Break(nil)
	})
}

// A command that was stopped from the terminal may go on for as long as its lease is held.
func TestCommandMayContinueUnderItsLease(t *testing.T) {
	c, s := soloisttest.NewClient(t)
	lease, err := c.TryLock(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	g := &guarded{app: &app{}}
	may := g.command(lease, nil).MayContinue
	if err := may(); err != nil {
		t.Errorf("while it is held: %v", err)
	}
	soloisttest.LoseLease(t, s, lease)
	if err := may(); !errors.Is(err, soloist.ErrLost) {
		t.Errorf("when it is lost: %v", err)
	}
}

// A command that ended by itself just before --at-most was not stopped for it.
func TestFateOfWhatHasOverrun(t *testing.T) {
	g := &guarded{app: &app{errs: &bytes.Buffer{}}}
	for stopped, says := range map[bool]string{true: "the command was stopped, for it ran for longer", false: "the command had ended by itself, with 0"} {
		err := g.exit(verdict{result: child.Result{Ran: true, Stopped: stopped}, lost: soloist.ErrOverran}, "x", nil)
		if exitCode(err) != exitLost || !strings.Contains(err.Error(), says) {
			t.Errorf("stopped %v: %v", stopped, err)
		}
	}
}

// A command that has ended under a lease which its release finds lost has not run alone.
func TestLeaseThatWasLostUnnoticed(t *testing.T) {
	for released, code := range map[error]int{nil: 3, soloist.ErrUnknown: 3, fmt.Errorf("releasing: %w", soloist.ErrLost): exitLost} {
		g := &guarded{app: &app{errs: &bytes.Buffer{}}}
		if err := g.exit(verdict{result: child.Result{Ran: true, Code: 3}}, "x", released); exitCode(err) != code {
			t.Errorf("released with %v: exit code %d, want %d", released, exitCode(err), code)
		}
	}
}

// A message about a release of which nobody knows whether it took effect says for how long the name may be unavailable: until the lease would have ended, or
// for as long as the release keeps it so.
func TestReleaseThatIsUnknownTellsForHowLong(t *testing.T) {
	for name, row := range map[string]struct {
		g       guarded
		attempt int // of an element; 0 is a lock
		says    string
	}{
		"until the lease's end":      {guarded{}, 0, "the name stays unavailable for at most 30s"},
		"at least":                   {guarded{atLeast: time.Hour}, 0, "the name stays unavailable for at most 1h0m0s"},
		"at least, and less":         {guarded{atLeast: time.Second}, 0, "the name stays unavailable for at most 30s"},
		"an element":                 {guarded{}, 1, "the name stays unavailable for at most 30s"},
		"an element with a back-off": {guarded{retry: soloist.Retry{Attempts: 9, Backoff: 10 * time.Minute}}, 1, "the name stays unavailable for at most 10m0s"},
		"one that has doubled":       {guarded{retry: soloist.Retry{Attempts: 9, Backoff: 10 * time.Minute}}, 3, "the name stays unavailable for at most 40m0s"},
		"the last attempt":           {guarded{retry: soloist.Retry{Attempts: 3, Backoff: 10 * time.Minute}}, 3, "the element has failed for good, or stays unavailable for at most 30s"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var said bytes.Buffer
				g, v := row.g, verdict{result: child.Result{Ran: true, Code: 3}}
				g.app = &app{errs: &said, ttl: 30 * time.Second}
				c, s := soloisttest.NewClient(t)
				if row.attempt == 0 {
					lease, err := c.TryLock(t.Context(), "x")
					if err != nil {
						t.Fatal(err)
					}
					s.Break(errors.New("the store is away"))
					if err := g.exit(v, "x", lease.Release()); exitCode(err) != 3 {
						t.Errorf("exit code %d: %v", exitCode(err), err)
					}
				}
				elements := c.Elements("invoices", soloist.ElementsOptions{Retry: g.retry})
				for attempt := range row.attempt {
					time.Sleep(24 * time.Hour) // no pause is longer
					element, err := elements.Claim(t.Context(), "4711")
					if err != nil {
						t.Fatal(err)
					}
					if attempt == row.attempt-1 {
						s.Break(errors.New("the store is away"))
					}
					if err := g.processed(v, element); exitCode(err) != 3 {
						t.Errorf("exit code %d: %v", exitCode(err), err)
					}
				}
				s.Break(nil)
				g.flush()
				if !strings.HasSuffix(said.String(), "; "+row.says+"\n") {
					t.Errorf("it says %q", &said)
				}
			})
		})
	}
}

// A lease that is granted as a signal ends the wait for it is given back.
func TestLeaseThatComesWithTheSignal(t *testing.T) {
	c, err := soloist.New(memstore.New(), soloist.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	g := &guarded{app: &app{errs: &bytes.Buffer{}}, signals: make(chan os.Signal, 1)}
	_, err = g.taken(c, func(ctx context.Context, c *soloist.Client) (*soloist.Lease, error) {
		g.signals <- syscall.SIGTERM
		<-ctx.Done()
		return c.TryLock(context.Background(), "x")
	})
	if exitCode(err) != 128+int(syscall.SIGTERM) {
		t.Errorf("ended with %v", err)
	}
	if _, err := c.TryLock(t.Context(), "x"); err != nil {
		t.Errorf("taken again: %v", err)
	}
}

// Of two entries of the environment with one name the last counts, as for a shell.
func TestLastOfTheEnvironmentCounts(t *testing.T) {
	a := &app{environ: []string{"SOLOIST_NAMESPACE=first", "OTHER=x", "SOLOIST_NAMESPACE=last"}}
	if value := a.env("SOLOIST_NAMESPACE"); value != "last" {
		t.Errorf("%q", value)
	}
}

// The margin of a lease is the time in which its command is ended, and more: by then the command is gone.
func TestMarginOutlastsTheGrace(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, 30 * time.Second, time.Hour} {
		g := &guarded{app: &app{ttl: ttl}}
		opts, err := g.options()
		if err != nil || opts.TTL != ttl || g.grace <= 0 || opts.Margin < g.grace+ttl/10 {
			t.Errorf("of a lease of %v: %+v, %v, and a grace of %v", ttl, opts, err, g.grace)
		}
	}
}

// A command is stopped when it has run for --at-most: neither before that, by the time that ending it may take, nor for a lease that ends then.
func TestCommandMayRunForAtMost(t *testing.T) {
	for _, atMost := range []time.Duration{time.Second, 10 * time.Second, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			c, _ := soloisttest.NewClient(t)
			g := &guarded{app: &app{ttl: 30 * time.Second}, atMost: atMost}
			opts, err := g.options()
			if err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			lease, err := c.With(opts).TryLock(t.Context(), "x")
			if err != nil {
				t.Fatal(err)
			}
			<-lease.Context().Done()
			if ran, cause := time.Since(begun), context.Cause(lease.Context()); ran != atMost || !errors.Is(cause, soloist.ErrOverran) {
				t.Errorf("with --at-most %v it ended after %v: %v", atMost, ran, cause)
			}
			if opts.TTL > atMost {
				t.Errorf("the name stays unavailable for %v after the death of a process with --at-most %v", opts.TTL, atMost)
			}
		})
	}
}
