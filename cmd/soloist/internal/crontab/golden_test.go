package crontab

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files")

func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.*")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if filepath.Ext(file) == ".golden" {
			continue
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := shown(Parse(filepath.Base(file), data, Dialect{}))
			if *update {
				if err := os.WriteFile(file+".golden", []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file + ".golden")
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

func shown(f *File, err error) string {
	if err != nil {
		return err.Error() + "\n"
	}
	var b strings.Builder
	for _, w := range f.Warnings {
		_, _ = fmt.Fprintf(&b, "warning: %v\n", w)
	}
	for _, j := range f.Jobs {
		_, _ = fmt.Fprintf(&b, "\n%d: %s (derived: %v)\n", j.Line, j.Name, j.Derived)
		switch {
		case j.Expression != nil:
			next := j.Expression.Next(time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC))
			_, _ = fmt.Fprintf(&b, "  schedule %s, next %s\n", j.Schedule, next.UTC().Format(time.RFC3339))
		case j.Delay > 0:
			_, _ = fmt.Fprintf(&b, "  delay %v\n", j.Delay)
		default:
			_, _ = fmt.Fprintf(&b, "  at %v\n", j.At.UTC().Format(time.RFC3339))
		}
		_, _ = fmt.Fprintf(&b, "  argv %q\n  env %q\n  stdin %q dir %q\n  %+v\n", j.Argv(), j.Env, j.Stdin, j.Dir, j.Options)
	}
	return b.String()
}
