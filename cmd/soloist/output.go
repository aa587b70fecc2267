package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/soloist-dev/soloist/cmd/soloist/internal/child"
	"github.com/soloist-dev/soloist/store"
)

// outputFlag lets a subcommand write its data as people or programs want it.
func (a *app) outputFlag(c *cobra.Command) {
	c.Flags().StringVarP(&a.output, "output", "o", "table", "table, json, or jsonl (one object a line)")
}

// checkOutput is to be called before the store is opened.
func (a *app) checkOutput() error {
	switch a.output {
	case "table", "json", "jsonl":
		return nil
	}
	return usage("--output %q: give table, json or jsonl", a.output)
}

// write writes rows: as a table with a heading, whose columns cells gives, or as JSON.
func write[T any](a *app, heading string, rows []T, cells func(T) []string) error {
	switch a.output {
	case "json":
		if rows == nil {
			rows = []T{}
		}
		return a.encode(rows)
	case "jsonl":
		for _, row := range rows {
			if err := a.encode(row); err != nil {
				return err
			}
		}
		return nil
	}
	return table(a.out, heading, rows, cells)
}

// list writes the rows of what a list yields, as write does. Its error comes after those rows that it yielded.
func list[I, T any](a *app, heading string, infos iter.Seq2[I, error], row func(I) T, cells func(T) []string) error {
	var rows []T
	var unread error
	for info, err := range infos {
		if err != nil {
			unread = err
			break
		}
		rows = append(rows, row(info))
	}
	return errors.Join(unread, write(a, heading, rows, cells))
}

// say writes a message for people to standard error. All that the command writes for people goes through say, print and
// table: names, states and errors are others' text, and a terminal does what it is told.
func (a *app) say(format string, args ...any) {
	fmt.Fprintln(a.stderr(), plain("soloist: "+fmt.Sprintf(format, args...)))
}

// print writes text for people to standard output.
func (a *app) print(text string) error {
	_, err := io.WriteString(a.out, plain(text))
	return err
}

// encode writes a value as JSON, indented if the output is json and in one line if it is jsonl. A terminal that it is
// read on obeys nothing in it: what encoding/json leaves of control and format characters is escaped, too.
func (a *app) encode(value any) error {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false) // no browser reads it
	if a.output == "json" {
		enc.SetIndent("", "  ")
	}
	if err := enc.Encode(value); err != nil {
		return err
	}
	_, err := a.out.Write(plainJSON(text.Bytes()))
	return err
}

// plainJSON returns JSON that means the same, in which what encoding/json leaves of unprinted characters is escaped,
// too.
func plainJSON(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for _, r := range string(text) {
		if r != '\n' && unprinted(r) {
			for _, unit := range utf16.Encode([]rune{r}) {
				out = fmt.Appendf(out, "\\u%04x", unit)
			}
			continue
		}
		out = utf8.AppendRune(out, r)
	}
	return out
}

// unprinted reports whether a character is one that a terminal obeys, that people do not see, or that looks like a
// space and is none.
func unprinted(r rune) bool { return !unicode.IsPrint(r) }

// plain returns text with everything that is unprinted escaped as in Go, as \x1b or \u202e, except newlines and tabs:
// so a terminal obeys nothing in it, and names that differ look different.
func plain(text string) string {
	out := make([]byte, 0, len(text))
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && n == 1:
			out = fmt.Appendf(out, "\\x%02x", text[0])
		case r != '\n' && r != '\t' && unprinted(r):
			quoted := strconv.QuoteRune(r)
			out = append(out, quoted[1:len(quoted)-1]...)
		default:
			out = append(out, text[:n]...)
		}
		text = text[n:]
	}
	return string(out)
}

// cleaned returns what a command has written without control characters, escape sequences such as colors, and
// characters that change the order of others.
func cleaned(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = string(child.Clean([]byte(line)))
	}
	return strings.Join(lines, "\n")
}

// oneCell replaces what would begin another row or column.
var oneCell = strings.NewReplacer("\n", " ", "\t", " ")

func table[T any](out io.Writer, heading string, rows []T, cells func(T) []string) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.ReplaceAll(heading, "|", "\t"))
	for _, row := range rows {
		line := cells(row)
		for i, cell := range line {
			line[i] = plain(oneCell.Replace(cell))
			if cell == "" {
				line[i] = "-"
			}
		}
		fmt.Fprintln(w, strings.Join(line, "\t"))
	}
	return w.Flush()
}

// The texts of cells.

func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.999Z")
}

func optional(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.Format(time.RFC3339)
}

// span shows how long something lasts. Longer than any lease can be is forever: a record that something else has
// parked.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d > store.MaxTTL+day:
		return "forever"
	case d >= 2*day:
		return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(time.Second / 10).String()
}
