package model

import (
	"embed"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/soloist-dev/soloist/test/servers"
)

//go:embed lease.pml
var files embed.FS

// A search is what spin found out about the model with some of its names defined.
type search struct {
	states    string
	violation string   // "" for none
	how       string   // the steps to it
	unreached []string // statements that no behaviour gets to
}

var (
	ended     = regexp.MustCompile(`State-vector \d+ byte, depth reached \d+, errors: (\d+)\n\s*(\S+) states, stored`)
	asserted  = regexp.MustCompile(`pan:\d+: (assertion violated .*) \(at depth`)
	unreached = regexp.MustCompile(`lease\.pml:\d+, state \d+, "(.*)"`)
)

// look has spin look at all states, in the order of how far they are from the first. It stops at a violation.
func look(t *testing.T, defines ...string) search {
	t.Helper()
	spin, cc := servers.Program(t, "Spin", "spin"), servers.Program(t, "a C compiler", "cc")
	dir := t.TempDir()
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	if err := os.CopyFS(dir, files); err != nil { // spin writes beside it
		t.Fatal(err)
	}
	options := make([]string, len(defines))
	for i, name := range defines {
		options[i] = "-D" + name
	}
	run(spin, append(options, "-a", "lease.pml")...)
	run(cc, "-O1", "-w", "-DSAFETY", "-DBFS", "-DMEMLIM=4000", "-o", "pan", "pan.c")
	out := run("./pan")
	found := ended.FindStringSubmatch(out)
	if found == nil || found[1] == "0" && strings.Contains(out, "Search not completed") {
		t.Fatalf("the search is not complete:\n%s", out)
	}
	s := search{states: found[2]}
	if found[1] != "0" {
		s.violation = "of another kind:\n" + out
		if assertion := asserted.FindStringSubmatch(out); assertion != nil {
			s.violation = assertion[1]
		}
		s.how = run(spin, append(options, "-t", "-p", "-g", "lease.pml")...)
	}
	for _, statement := range unreached.FindAllStringSubmatch(out, -1) {
		if statement[1] != "-end-" { // nothing in the model ends
			s.unreached = append(s.unreached, statement[1])
		}
	}
	return s
}

func TestNoTwoBelieve(t *testing.T) {
	for _, defines := range []string{"TTL=3", "TTL=5", "TTL=3 LINE", "TTL=5 LINE", "TTL=4 DRIFT=2 MARGIN=2 LINE"} {
		t.Run(defines, func(t *testing.T) {
			s := look(t, strings.Fields(defines)...)
			if s.violation != "" {
				t.Fatalf("%s\n%s", s.violation, s.how)
			}
			if len(s.unreached) > 0 {
				t.Errorf("no behaviour gets to: %s", strings.Join(s.unreached, "; "))
			}
			t.Logf("%s states", s.states)
		})
	}
}

// A model that could not find these would show nothing.
func TestDefectsAreFound(t *testing.T) {
	for _, defect := range []struct{ defines, what string }{
		{"DEADLINE_FROM_REPLY", "a lease is counted from the reply"},
		{"DEADLINE_FROM_REPLY LINE", "a lease is counted from the reply"},
		{"DEADLINE_MOVES", "asking again moves the instant from which a lease is counted"},
		{"RENEWED_FROM_REPLY", "an extension is counted from the reply"},
		{"RENEWED_FROM_REPLY LINE", "an extension is counted from the reply"},
		{"MARGIN=0", "a clock falls behind, and nothing is subtracted for it"},
		{"DRIFT=2 LINE", "a clock falls behind by more than the margin covers"},
		{"RELEASE_FIRST", "a lease is released before its holder has stopped believing"},
		{"RELEASE_FIRST LINE", "a lease is released before its holder has stopped believing"},
		{"RELEASE_BY_NAME", "the store releases the one that has the name"},
		{"GRANTS_HELD", "the store grants what somebody has"},
		{"ANY_NEWS LINE", "what was handed over for an earlier request is taken for the answer to this one"},
		{"FORGETS", "the store forgets leases"},
	} {
		t.Run(defect.defines, func(t *testing.T) {
			s := look(t, strings.Fields(defect.defines)...)
			if s.violation == "" {
				t.Errorf("nothing was found in %s states, though %s", s.states, defect.what)
			}
			t.Logf("%s: found after %s states", defect.what, s.states)
		})
	}
}
