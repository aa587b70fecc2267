package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/soloist-dev/soloist/cmd/soloist/internal/child"
	"github.com/soloist-dev/soloist/internal/records"
	"github.com/soloist-dev/soloist/store"
)

func (a *app) doctorCommand() *cobra.Command {
	within := 30 * time.Second
	c := &cobra.Command{
		Use: "doctor [URL]", Short: "Look at the store and say what to change", GroupID: "see", Args: a.noChild(cobra.MaximumNArgs(1)),
		Long: `doctor connects to the store, says what it promises as it is set up now and why, looks at its settings, privileges and schema,
and takes, extends and gives back a lease of its own to see that all of it works and how long it takes. It changes no settings.

It ends with 0 when the store can be used, though there may be warnings, and with 1 when it cannot.`,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := a.checkOutput(); err != nil {
				return err
			}
			if len(args) > 0 {
				a.storeURL = args[0]
			}
			ctx, cancel := context.WithTimeout(context.Background(), within)
			defer cancel()
			findings, err := a.examine(ctx)
			if err != nil {
				return err
			}
			return a.tell(findings)
		},
	}
	a.outputFlag(c)
	c.Flags().DurationVar(&within, "within", within, "give up after this time")
	return c
}

// examine looks at the store. Its error is that of a configuration that names no store; all else is a finding.
func (a *app) examine(ctx context.Context) ([]store.Finding, error) {
	begin := time.Now()
	s, err := a.openStore()
	if err != nil {
		if exitCode(err) == exitUnavailable || exitCode(err) == exitDenied {
			return []store.Finding{unusable("connection", err)}, nil
		}
		return nil, err
	}
	defer s.Close()
	if p, ok := s.(store.Pinger); ok {
		if err := p.Ping(ctx); err != nil {
			return []store.Finding{unusable("connection", err)}, nil
		}
	}
	findings := []store.Finding{{Subject: "connection", Found: "answers after " + span(time.Since(begin)), Level: store.LevelOK}}
	findings = append(findings, promises(ctx, s)...)
	if e, ok := s.(store.Examiner); ok {
		found, err := e.Examine(ctx)
		findings = append(findings, found...)
		if err != nil {
			findings = append(findings, unusable("settings", err))
		}
	}
	return append(findings, trial(ctx, s, a.namespace)...), nil
}

func unusable(subject string, err error) store.Finding {
	return store.Finding{Subject: subject, Found: err.Error(), Level: store.LevelError}
}

// promises are the store's capabilities as findings. That a promise is not made is a warning: the store can be used all the same.
func promises(ctx context.Context, s store.Store) []store.Finding {
	caps, err := store.CapabilitiesOf(ctx, s)
	if err != nil {
		return []store.Finding{unusable("capabilities", err)}
	}
	findings := []store.Finding{{Subject: "backend", Found: fmt.Sprintf("%s; shared by: %s", caps.Backend, caps.Scope), Level: store.LevelOK}}
	for _, p := range []struct {
		name    string
		promise store.Promise
	}{{"fencing", caps.Fencing}, {"durable", caps.Durable}, {"waiting", caps.Waiting}} {
		level := map[store.Answer]store.Level{store.Yes: store.LevelOK, store.No: store.LevelWarning, store.Unknown: store.LevelUnknown}[p.promise.Answer]
		findings = append(findings, store.Finding{Subject: p.name, Found: p.promise.Answer.String() + ": " + p.promise.Why, Level: level})
	}
	return findings
}

// trial goes through the life of a lease, and tells of the first step that fails, or of how long they took.
func trial(ctx context.Context, s store.Store, namespace string) []store.Finding {
	claim := store.Claim{Name: records.In(namespace) + "doctor/" + rand.Text(), Holder: "doctor#" + rand.Text(), TTL: 10 * time.Second}
	failed := func(verb string, err error) []store.Finding {
		return []store.Finding{unusable("trial", fmt.Errorf("%s a lease: %w", verb, err))}
	}
	var took [3]time.Duration
	begin := time.Now()
	lap := func(i int) { took[i], begin = time.Since(begin), time.Now() }
	outs, err := s.Acquire(ctx, []store.Claim{claim})
	if err == nil {
		err = outs[0].Err
	}
	if err != nil {
		return failed("taking", err)
	}
	lap(0)
	token := outs[0].Grant.Token
	errs, err := s.Extend(ctx, []store.Extension{{Name: claim.Name, Holder: claim.Holder, Token: token, TTL: claim.TTL}})
	if err = errors.Join(append(errs, err)...); err != nil {
		return failed("extending", err)
	}
	lap(1)
	errs, err = s.Release(ctx, []store.Release{{Name: claim.Name, Holder: claim.Holder, Token: token}})
	if err = errors.Join(append(errs, err)...); err != nil {
		return failed("giving back", err)
	}
	lap(2)
	if sweeper, ok := s.(store.Sweeper); ok { // the record of the trial with what else may go
		if _, err := sweeper.Sweep(ctx, 1000); err != nil {
			return failed("forgetting", err)
		}
	}
	return []store.Finding{{Subject: "trial", Level: store.LevelOK, Found: fmt.Sprintf("a lease was taken in %s, extended in %s, given back in %s",
		brief(took[0]), brief(took[1]), brief(took[2]))}}
}

func brief(d time.Duration) string { return d.Round(10 * time.Microsecond).String() }

// tell writes the findings and ends the command with 1 when one of them is an error.
func (a *app) tell(findings []store.Finding) error {
	if a.output != "table" {
		if err := write(a, "", findings, nil); err != nil {
			return err
		}
	} else {
		diagnose(a.out, findings)
	}
	bad := slices.ContainsFunc(findings, func(f store.Finding) bool { return f.Level == store.LevelError })
	if bad {
		return &exit{code: 1}
	}
	return nil
}

func diagnose(out io.Writer, findings []store.Finding) {
	width := 0
	for _, f := range findings {
		width = max(width, len(f.Subject))
	}
	line := func(level, subject, text string) {
		text = string(child.Clean([]byte(strings.ReplaceAll(text, "\n", "; ")))) // some of it is what a server said
		fmt.Fprintln(out, strings.TrimRight(fmt.Sprintf("%-8s %-*s  %s", level, width, subject, text), " "))
	}
	count := map[store.Level]int{}
	for _, f := range findings {
		count[f.Level]++
		line(string(f.Level), f.Subject, f.Found)
		if f.Mend != "" {
			line("", "", "→ "+f.Mend)
		}
	}
	fmt.Fprintf(out, "\n%d ok, %d warnings, %d errors, %d unknown\n",
		count[store.LevelOK], count[store.LevelWarning], count[store.LevelError], count[store.LevelUnknown])
}
