package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/soloist-dev/soloist/store"
)

func (a *app) doctorCommand() *cobra.Command {
	within := 30 * time.Second
	c := &cobra.Command{
		Use: "doctor [URL]", Short: "Check the store, and show what to change", GroupID: "see", Args: a.noChild(cobra.MaximumNArgs(1)),
		Long: `doctor connects to the store, reports what it promises as it is configured now and why, and checks its settings,
privileges and schema. Then it acquires, extends and releases leases over several connections at the same time, which
shows whether that works, how long it takes, and whether all connections lead to the same data. It changes no settings.

The exit code is 0 if the store can be used, perhaps with warnings, and 1 if it cannot.`,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := a.checkOutput(); err != nil {
				return err
			}
			if within <= 0 {
				return usage("--within %v: give more than 0", within)
			}
			if len(args) > 0 {
				if args[0] == "" { // as by a variable that is not set
					return badConfig(errors.New("the URL is empty: give one, or leave it out"))
				}
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
	src, err := a.source()
	if err != nil {
		return nil, err
	}
	named := store.Finding{Subject: "store", Found: src.scheme() + ", named by " + src.from, Level: store.LevelOK}
	s, err := src.open()
	refused := errors.Is(err, store.ErrUnusable) // the file, not what the URL says
	switch {
	case err != nil && (refused || exitCode(err) == exitUnavailable || exitCode(err) == exitDenied):
		return []store.Finding{named, unusable("connection", err)}, nil
	case err != nil:
		return nil, err
	}
	defer s.Close()
	if p, ok := store.As[store.Pinger](s); ok {
		if err := p.Ping(ctx); err != nil {
			return []store.Finding{named, unusable("connection", err)}, nil
		}
	}
	findings := []store.Finding{named, {Subject: "connection", Found: "responds after " + span(time.Since(begin)), Level: store.LevelOK}}
	caps, err := store.CapabilitiesOf(ctx, s)
	if err != nil {
		findings = append(findings, unusable("capabilities", err))
	} else {
		findings = append(findings, promises(caps)...)
	}
	if e, ok := store.As[store.Examiner](s); ok {
		found, err := e.Examine(ctx)
		findings = append(findings, found...)
		if err != nil {
			findings = append(findings, unusable("settings", err))
		}
	}
	t := trial{first: s, open: src.open, namespace: a.namespace}
	if caps.Scope == store.ScopeProcess {
		t.open = nil // another would be another store
	}
	return append(findings, t.findings(ctx)...), nil
}

func unusable(subject string, err error) store.Finding {
	return store.Finding{Subject: subject, Found: err.Error(), Level: store.LevelError}
}

// promises are the store's capabilities as findings. That a promise is not made is a warning: the store can be used all
// the same.
func promises(caps store.Capabilities) []store.Finding {
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

// A summary counts the findings of each level, and says what follows from them.
type summary struct {
	OK       int    `json:"ok"`
	Warnings int    `json:"warnings"`
	Errors   int    `json:"errors"`
	Unknown  int    `json:"unknown"`
	Verdict  string `json:"verdict"`
	Exit     int    `json:"exit"` // the command's exit code
}

func summed(findings []store.Finding) summary {
	count := map[store.Level]int{}
	for _, f := range findings {
		count[f.Level]++
	}
	s := summary{OK: count[store.LevelOK], Warnings: count[store.LevelWarning], Errors: count[store.LevelError], Unknown: count[store.LevelUnknown]}
	switch {
	case s.Errors > 0:
		s.Verdict, s.Exit = "the store cannot be used, or not relied on", 1
	case s.Warnings+s.Unknown > 0:
		s.Verdict = "the store can be used, with less than could be promised"
	default:
		s.Verdict = "the store can be used"
	}
	return s
}

func (s summary) String() string {
	return fmt.Sprintf("%d ok, %d warnings, %d errors, %d unknown: %s (exit code %d)", s.OK, s.Warnings, s.Errors, s.Unknown, s.Verdict, s.Exit)
}

// tell writes the findings and their summary, and ends the command with 1 when one of them is an error.
func (a *app) tell(findings []store.Finding) error {
	sum := summed(findings)
	var err error
	switch a.output {
	case "json":
		err = a.encode(struct {
			Findings []store.Finding `json:"findings"`
			Summary  summary         `json:"summary"`
		}{findings, sum})
	case "jsonl":
		err = errors.Join(write(a, "", findings, nil), a.encode(map[string]summary{"summary": sum}))
	default:
		err = a.print(diagnosis(findings) + "\n" + sum.String() + "\n")
	}
	if err == nil && sum.Exit != 0 {
		err = &exit{code: sum.Exit}
	}
	return err
}

// diagnosis is the findings for people, each in one line, with a line of what to change.
func diagnosis(findings []store.Finding) string {
	width := 0
	for _, f := range findings {
		width = max(width, len(f.Subject))
	}
	var b strings.Builder
	line := func(level, subject, text string) {
		text = strings.ReplaceAll(text, "\n", "; ")
		b.WriteString(strings.TrimRight(fmt.Sprintf("%-8s %-*s  %s", level, width, subject, text), " ") + "\n")
	}
	for _, f := range findings {
		line(string(f.Level), f.Subject, f.Found)
		if f.Fix != "" {
			line("", "", "→ "+f.Fix)
		}
	}
	return b.String()
}
