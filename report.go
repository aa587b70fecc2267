package soloist

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// A report is what a run leaves for people in its history, beside its outcome.
type report struct {
	output   string
	exitCode *int
}

// The bounds of outputs in the history of a job, in bytes: of one run, and of all together. Each claim of a job reads its history, so it has to be
// small.
const (
	mostOutput  = 2 << 10
	mostOutputs = 6 << 10
)

// Report leaves the end of the output of a run, and the exit code of the command that it ran, in the job's history: of the output at most its last
// 2 KiB, without control characters. The oldest outputs of a job are dropped first when all of them have more than 6 KiB. Another call replaces both.
func (r Run) Report(output string, exitCode int) {
	r.Lease.report.Store(&report{lastOf(output, mostOutput), &exitCode})
}

// lastOf returns the end of a text, at most so many bytes of it, as it may be kept and shown.
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

// reported adds what a run has reported to its record.
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
