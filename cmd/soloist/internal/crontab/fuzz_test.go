package crontab

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func FuzzParseCrontab(f *testing.F) { fuzz(f, "jobs", "testdata/*.crontab") }

func FuzzParseYAML(f *testing.F) { fuzz(f, "jobs.yaml", "testdata/*.yaml") }

// fuzz asks of any input: no panic, jobs that are complete, and the same answer again.
func fuzz(f *testing.F, name, seeds string) {
	files, err := filepath.Glob(seeds)
	if err != nil || len(files) == 0 {
		f.Fatal(err, "no seeds")
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data), false, false)
		for part := range strings.SplitSeq(string(data), "\n\n") {
			f.Add(part, true, true)
		}
	}
	f.Fuzz(func(t *testing.T, text string, users, literal bool) {
		d := Dialect{SystemUsers: users, User: "root", LiteralPercent: literal}
		file, err := Parse(name, []byte(text), d)
		again, err2 := Parse(name, []byte(text), d)
		if shown(file, err) != shown(again, err2) {
			t.Errorf("twice is not the same")
		}
		if err != nil {
			return
		}
		names := make(map[string]bool)
		for _, j := range file.Jobs {
			if checkName(j.Name) != nil || names[j.Name] {
				t.Errorf("name %q", j.Name)
			}
			names[j.Name] = true
			times := 0
			for _, set := range []bool{j.Expression != nil, j.Delay > 0, !j.At.IsZero()} {
				if set {
					times++
				}
			}
			if argv := j.Argv(); times != 1 || len(argv) == 0 || argv[0] == "" || strings.Contains(strings.Join(argv, ""), "\x00") {
				t.Errorf("%+v", j)
			}
			if j.Line < 1 || j.Line > 1+strings.Count(text, "\n") {
				t.Errorf("line %d", j.Line)
			}
		}
	})
}
