package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/cmd/soloist/internal/nearest"
)

// right is what would be right for a flag, by the type of its value.
var right = map[string]string{
	"duration": "give a duration such as 30s, 5m or 1h30m",
	"int":      "give a whole number", "int64": "give a whole number", "uint64": "give a whole number from 0 on",
	"bool": "give true or false",
}

// badFlag explains what cobra says of the flags of c.
func badFlag(c *cobra.Command, err error) error {
	var value *pflag.InvalidValueError
	var unknown *pflag.NotExistError
	switch {
	case errors.As(err, &value):
		flag := value.GetFlag()
		return usage("--%s %q: %s; see %s --help", flag.Name, value.GetValue(), flagRule(flag, value.Unwrap()), c.CommandPath())
	case errors.As(err, &unknown) && c.Name() == "cron" && supercronic[givenFlag(unknown)] != "":
		return usage("-%s is a flag of supercronic: %s; see %s --help", givenFlag(unknown), supercronic[givenFlag(unknown)], c.CommandPath())
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		name := unknown.GetSpecifiedName()
		var known []string
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				known = append(known, f.Name)
			}
		})
		return usage("there is no flag --%s%s; see %s --help", name, meant("--", name, known), c.CommandPath())
	}
	return usage("%v; see %s --help", err, c.CommandPath())
}

// flagRule is what would be right for a flag that refused a value.
func flagRule(flag *pflag.Flag, err error) string {
	rule := right[flag.Value.Type()]
	if _, ours := flag.Value.(*waiting); ours || rule == "" {
		return err.Error()
	}
	return rule
}

// supercronic is what is to be done about flags of supercronic that mean something else here, or are called otherwise.
var supercronic = map[string]string{
	"inotify":                   "write --watch",
	"passthrough-logs":          "write --passthrough-logs",
	"split-logs":                "leave it out: messages go to standard error, and what commands write to standard output; --split-logs parts the latter",
	"json":                      "write --log-format json",
	"test":                      "write --check",
	"quiet":                     "write --log-level warn",
	"debug":                     "write --log-level debug",
	"prometheus-listen-address": "write --listen ADDRESS",
	"no-reap":                   "leave it out: nothing here has to be turned off for it",
	"sentry-dsn":                "leave it out: the logs, the metrics and --notify report failures",
}

// givenFlag returns the flag that was given, with one dash or two, without its value.
func givenFlag(unknown *pflag.NotExistError) string {
	if short := unknown.GetSpecifiedShortnames(); short != "" {
		name, _, _ := strings.Cut(short, "=")
		return name
	}
	return unknown.GetSpecifiedName()
}

// noSubcommand explains that c has no subcommand of a name.
func noSubcommand(c *cobra.Command, name string) error {
	var known []string
	for _, sub := range c.Commands() {
		if !sub.Hidden {
			known = append(known, sub.Name())
		}
	}
	return usage("there is no subcommand %q%s; see %s --help", name, meant("", name, known), c.CommandPath())
}

// meant asks whether the known name was meant that is least unlike what was given; it is "" if none is alike.
func meant(prefix, given string, known []string) string {
	best := nearest.Of(given, known)
	if best == "" {
		return ""
	}
	return ": did you mean " + prefix + best + "?"
}

// flagOf are the flags that set what the client calls otherwise.
var flagOf = map[string]string{
	"AtLeast": "--at-least", "AtMost": "--at-most", "TTL": "--ttl", "Retain": "--retain",
	"Retry.Attempts": "--attempts", "Retry.Backoff": "--backoff", "limit": "--limit",
}

// inWords is an error as people are told it, without the names that only programs have.
func inWords(err error) string {
	text := err.Error()
	var invalid *soloist.InvalidError
	if errors.As(err, &invalid) && flagOf[invalid.What] != "" {
		text = strings.Replace(text, invalid.What+" "+invalid.Value, flagOf[invalid.What]+" "+invalid.Value, 1)
	}
	return strings.NewReplacer("\n\t", " ", "context deadline exceeded", "no response in time", "context canceled", "interrupted").Replace(text)
}

// strictHelp makes help and completion refuse what they do not know, instead of writing help and ending with 0.
func strictHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Run, c.RunE = nil, func(_ *cobra.Command, args []string) error {
				about, rest, err := root.Find(args)
				if err != nil || len(rest) > 0 {
					return noSubcommand(about, slices.Concat(rest, args)[0])
				}
				return about.Help()
			}
		case "completion":
			c.Args = func(c *cobra.Command, args []string) error {
				if len(args) > 0 {
					return fmt.Errorf("there is no shell %q: give bash, zsh, fish or powershell", args[0])
				}
				return nil
			}
			c.RunE = needsSubcommand
		}
	}
}
