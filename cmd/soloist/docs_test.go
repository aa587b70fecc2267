package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// pages are those about the command.
var pages = []string{"operate/command.md", "operate/run.md", "operate/cron.md", "operate/mend.md", "operate/check.md", "operate/move.md", "operate/metrics.md", "operate/service.md", "operate/configuration.md", "reference/command.md"}

// The pages name each subcommand and each of its flags, and no flag that is not there.
func TestPagesAndFlagsAgree(t *testing.T) {
	var text string
	for _, page := range pages {
		of, err := os.ReadFile("../../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		text += string(of)
	}
	flags := map[string]bool{"--help": true, "--version": true, "--fast": true, "--json": true, "--fail-with-body": true} // the last are of commands in examples
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		if c.Hidden || c.Name() == "help" || c.Name() == "completion" {
			return
		}
		if !regexp.MustCompile(`\b` + c.Name() + `\b`).MatchString(text) {
			t.Errorf("no page has %s", c.CommandPath())
		}
		see := func(f *pflag.Flag) {
			flags["--"+f.Name] = true
			if !strings.Contains(text, "--"+f.Name) && !f.Hidden && f.Name != "help" {
				t.Errorf("no page has --%s of %s", f.Name, c.CommandPath())
			}
		}
		c.LocalFlags().VisitAll(see)
		c.PersistentFlags().VisitAll(see)
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit((&app{}).root())
	for _, flag := range regexp.MustCompile(`[ \x60(\[|]--[a-z][a-z-]+`).FindAllString(text, -1) {
		if flag = flag[1:]; !flags[flag] {
			t.Errorf("no subcommand has %s, which a page has", flag)
		}
	}
}

// What --help shows as the default of a flag is its value, also after the flags of all other subcommands were made.
func TestDefaultsAreThoseOfHelp(t *testing.T) {
	flags := 0
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if flags++; f.Value.String() != f.DefValue {
				t.Errorf("--%s of %s is %q if it is not given, and its help shows %q", f.Name, c.CommandPath(), f.Value, f.DefValue)
			}
		})
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit((&app{}).root())
	if flags < 100 {
		t.Errorf("only %d flags were looked at", flags)
	}
}
