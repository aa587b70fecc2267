package soloist

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// A report is what Run.Report adds to a run's entry in the history.
type report struct {
	output   string
	exitCode *int
}

// The bounds of outputs in the history of a job, in bytes: of one run, and of all together. Each claim of a job reads
// its history, so it must be small.
const (
	mostOutput  = 2 << 10
	mostOutputs = 6 << 10
)

// Report adds the end of the output of a run, and the exit code of the command that it ran, to the run's entry in the
// job's history. It keeps at most the last 2 KiB of output, without control characters. If the outputs of all runs of a
// job exceed 6 KiB, the oldest ones are dropped. Another call replaces both values.
func (r Run) Report(output string, exitCode int) {
	r.Lease.report.Store(&report{lastOf(output, mostOutput), &exitCode})
}

// lastOf returns the end of a text, at most so many bytes, without control characters.
func lastOf(s string, most int) string {
	cut := len(s) > most
	if cut {
		s = strings.TrimLeftFunc(s[len(s)-most:], func(r rune) bool { return r == utf8.RuneError })
	}
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	if cut {
		s = "…" + s
	}
	return s
}

// reported returns r with what its run passed to Report.
func (r RunRecord) reported(lease *Lease) RunRecord {
	if told := lease.report.Load(); told != nil {
		r.Output, r.ExitCode = told.output, told.exitCode
	}
	return r
}

// dropOutputs drops the oldest outputs when there are too many.
func (s *jobState) dropOutputs() {
	room := mostOutputs
	for i := len(s.Runs) - 1; i >= 0; i-- {
		if room -= len(s.Runs[i].Output); room < 0 {
			s.Runs[i].Output = ""
		}
	}
}
