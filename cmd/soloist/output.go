package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/soloist-dev/soloist/cmd/soloist/internal/child"
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
		encoder := json.NewEncoder(a.out)
		encoder.SetIndent("", "  ")
		if rows == nil {
			rows = []T{}
		}
		return encoder.Encode(rows)
	case "jsonl":
		encoder := json.NewEncoder(a.out)
		for _, row := range rows {
			if err := encoder.Encode(row); err != nil {
				return err
			}
		}
		return nil
	}
	return table(a.out, heading, rows, cells)
}

func table[T any](out io.Writer, heading string, rows []T, cells func(T) []string) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.ReplaceAll(heading, "|", "\t"))
	for _, row := range rows {
		line := cells(row)
		for i, cell := range line {
			line[i] = string(child.Clean([]byte(strings.ReplaceAll(cell, "\n", " ")))) // names and errors are others' text
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

func span(d time.Duration) string {
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(time.Second / 10).String()
}
