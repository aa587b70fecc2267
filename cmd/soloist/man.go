package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// manCommand writes the manual pages. They are made of what --help is made of.
func (a *app) manCommand() *cobra.Command {
	return &cobra.Command{
		Use: "man DIRECTORY", Short: "Write the manual pages, one for each subcommand", GroupID: "see", Args: a.noChild(cobra.ExactArgs(1)),
		Long: `man writes the manual pages of soloist and of each subcommand into DIRECTORY, which is made if it is not there. Where that is named man1,
below a directory of MANPATH, man soloist-cron then shows the page of soloist cron.`,
		Example: `  soloist man ~/.local/share/man/man1`,
		RunE: func(c *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			root := c.Root()
			write := func(c *cobra.Command) error {
				return os.WriteFile(filepath.Join(args[0], pageName(c)+".1"), []byte(manPage(c)), 0o644) //nolint:gosec // everybody may read it
			}
			if err := write(root); err != nil {
				return err
			}
			for sub := range subcommands(root) {
				if err := write(sub); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manEnvironment are the variables that soloist reads.
var manEnvironment = [][2]string{
	{varStore, "The URL of the store, unless --store gives one."},
	{varStoreFile, "A file with the URL of the store."},
	{varConfig, "The configuration file, unless --config gives one."},
	{varNamespace, "The default of --namespace."},
	{varRequire, "What the store must have: some of fleet, fencing and durable, with commas in between."},
	{"NO_COLOR", "If it is set, the demo uses no colors."},
}

// A roff writes a manual page.
type roff struct{ strings.Builder }

// manPage returns the manual page of a command in roff, with the macros of man(7).
func manPage(c *cobra.Command) string {
	c.InitDefaultHelpFlag()
	var r roff
	fmt.Fprintf(&r, ".TH %s 1 \"\" %s %s\n", argument(strings.ToUpper(pageName(c))), argument(version()), argument("soloist"))
	r.section("NAME")
	r.text(pageName(c) + " - " + c.Short)
	r.section("SYNOPSIS")
	r.line(".B " + roffText(c.CommandPath()))
	r.text(strings.TrimSpace(strings.TrimPrefix(c.UseLine(), c.CommandPath())))
	r.section("DESCRIPTION")
	if c.Long == "" {
		r.text(c.Short + ".")
	}
	r.text(c.Long)
	if c.HasAvailableSubCommands() {
		r.section("COMMANDS")
		for _, sub := range c.Commands() {
			if !sub.Hidden {
				r.item(`\fB`+roffText(sub.CommandPath())+`\fR`, sub.Short+".")
			}
		}
	}
	r.flags("OPTIONS", c.NonInheritedFlags())
	r.flags("GLOBAL OPTIONS", c.InheritedFlags())
	if c.Example != "" {
		r.section("EXAMPLES")
		r.text(c.Example)
	}
	r.section("ENVIRONMENT")
	for _, v := range manEnvironment {
		r.item(`\fB`+roffText(v[0])+`\fR`, v[1])
	}
	r.section("EXIT STATUS")
	r.text("See soloist(1).")
	r.seeAlso(c)
	return r.String()
}

func (r *roff) seeAlso(c *cobra.Command) {
	var pages []string
	if c.HasParent() {
		pages = append(pages, pageName(c.Parent())+"(1)")
	}
	for _, sub := range c.Commands() {
		if !sub.Hidden && sub.Name() != "help" {
			pages = append(pages, pageName(sub)+"(1)")
		}
	}
	r.section("SEE ALSO")
	r.text(strings.Join(pages, ", "))
}

func (r *roff) flags(title string, flags *pflag.FlagSet) {
	begun := false
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		if !begun {
			r.section(title)
			begun = true
		}
		value, about := pflag.UnquoteUsage(f)
		name := `\fB` + roffText("--"+f.Name) + `\fR`
		if f.Shorthand != "" {
			name = `\fB` + roffText("-"+f.Shorthand) + `\fR, ` + name
		}
		if value != "" {
			name += ` \fI` + roffText(value) + `\fR`
		}
		if f.Name != "namespace" && f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" && f.DefValue != "0s" && !strings.Contains(about, "default") {
			about += " (default " + f.DefValue + ")"
		}
		r.item(name, about)
	})
}

func (r *roff) line(text string) { r.WriteString(text + "\n") }

func (r *roff) section(title string) { r.line(".SH " + argument(title)) }

// item is a word, in roff, and what is said of it.
func (r *roff) item(word, about string) {
	r.line(".TP")
	r.line(word)
	r.text(about)
}

// text writes paragraphs. Lines that are indented stay as they are.
func (r *roff) text(text string) {
	asIs := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		indented := strings.HasPrefix(line, "  ")
		switch {
		case indented && !asIs:
			r.line(".nf")
		case !indented && asIs:
			r.line(".fi")
		}
		if asIs = indented; line == "" {
			r.line(".PP")
			continue
		}
		r.line(roffText(line))
	}
	if asIs {
		r.line(".fi")
	}
}

// roffText is text as roff is to show it.
func roffText(text string) string {
	text = strings.NewReplacer(`\`, `\e`, `-`, `\-`).Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text // else it would be a macro
	}
	return text
}

// argument is one argument of a macro.
func argument(text string) string { return `"` + strings.ReplaceAll(roffText(text), `"`, `\(dq`) + `"` }
