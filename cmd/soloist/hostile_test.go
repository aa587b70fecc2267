package main

import (
	"bufio"
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/soloist-dev/soloist/cmd/soloist/internal/verify"
	"github.com/soloist-dev/soloist/internal/proof"
)

// hostile is text that a terminal obeys, and that people see as another.
const hostile = "\x1b]0;owned\x07\x1b[2J\x1b[31m\x9b31m\u202egnp.exe\u200b\x00\x07\rok"

// invoked runs the command, and returns what it wrote. It is its own process, for the command reaps all children of its
// process: those of other tests too.
func invoked(t *testing.T, store string, args ...string) (out, errs string) {
	t.Helper()
	path, err := exec.LookPath("soloist")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Env = []string{"SOLOIST_STORE=" + store, "PATH=" + os.Getenv("PATH")}
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return o.String(), e.String()
}

// mustBePlain wants nothing in a text that a terminal obeys.
func mustBePlain(t *testing.T, what, text string) {
	t.Helper()
	for _, r := range text {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
			t.Errorf("%s: %U in %q", what, r, text)
			return
		}
	}
}

// hostileServer speaks enough of Redis' protocol to answer each command with an error.
func hostileServer(t *testing.T) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	answer := "-ERR " + strings.NewReplacer("\r", "", "\n", "").Replace(hostile) + "\r\n"
	serve := func(conn net.Conn) {
		defer conn.Close()
		for in := bufio.NewScanner(conn); in.Scan(); {
			if strings.HasPrefix(in.Text(), "*") { // the beginning of a command
				if _, err := conn.Write([]byte(answer)); err != nil {
					return
				}
			}
		}
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go serve(conn)
		}
	}()
	return "redis://" + l.Addr().String()
}

func TestWhatAServerSaysReachesNoTerminal(t *testing.T) {
	url := hostileServer(t)
	for _, args := range [][]string{
		{"lock", "x", "--", "true"}, {"once", "x", "y", "--", "true"}, {"sem", "x", "--limit", "2", "--", "true"},
		{"jobs", "list"}, {"jobs", "show", "x"}, {"jobs", "history", "x"}, {"jobs", "trigger", "x"}, {"jobs", "pause", "x", "--reason", "y"}, {"jobs", "resume", "x"},
		{"locks", "list"}, {"locks", "release", "x", "--token", "1", "--reason", "y"}, {"elements", "list"}, {"elements", "retry", "x", "y"}, {"sems", "list"},
		{"doctor"}, {"doctor", "-o", "json"}, {"migrate", "up"}, {"verify"}, {"bench", "--case", "A", "--for", "100ms"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			out, errs := invoked(t, url, args...)
			mustBePlain(t, "standard output", out)
			mustBePlain(t, "standard error", errs)
			if !strings.Contains(out+errs, "gnp.exe") && args[0] != "migrate" { // Redis needs no schema
				t.Errorf("what the server said is not told at all:\n%s%s", out, errs)
			}
		})
	}
}

// A caller that can write to the store's tables has put these there.
func TestWhatIsInARecordReachesNoTerminal(t *testing.T) {
	path := filepath.Join(memoryDir(t), "store.db")
	for _, args := range [][]string{{"lock", "x", "--", "true"}, {"once", "job", "x", "--", "true"}, {"sem", "x", "--limit", "1", "--", "true"}} {
		if out, errs := invoked(t, "sqlite:"+path, args...); errs != "" {
			t.Fatalf("%v: %s%s", args, out, errs)
		}
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, name := range []string{"lock/", "leader/", "job/", "element/job/", "semaphore/1/"} {
		if _, err := db.Exec(`INSERT INTO records SELECT ? || name, ?, 0, token, 1, ?, since, until + 1000000000000000, retain FROM records WHERE name = 'lock/x'`,
			name+hostile, hostile, []byte(`{"last":"`+hostile+`","error":"\u001b[31m"}`)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := db.Exec(`UPDATE records SET holder = ?, released = 0, until = until + 1000000000000000 WHERE name NOT LIKE '%'||char(27)||'%'`, hostile); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"lock", "x", "--", "true"}, {"once", "job", "x", "--", "true"}, {"sem", "x", "--limit", "1", "--", "true"},
		{"jobs", "list"}, {"locks", "list"}, {"elements", "list"}, {"elements", "list", "job"}, {"sems", "list"}, {"locks", "list", "-o", "json"}, {"elements", "list", "-o", "jsonl"}, {"jobs", "show", "x", "-o", "json"}, {"locks", "release", "x", "--token", "1", "--reason", "y"}, {"doctor"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			out, errs := invoked(t, "sqlite:"+path, args...)
			mustBePlain(t, "standard output", out)
			mustBePlain(t, "standard error", errs)
		})
	}
}

// Names that differ by characters which nobody sees look different.
func TestInvisibleCharactersAreShown(t *testing.T) {
	at := "sqlite:" + filepath.Join(memoryDir(t), "store.db")
	const name = "back\u200bup\u202egnp"
	if out, errs := invoked(t, at, "lock", name, "--at-least", "1h", "--", "true"); errs != "" {
		t.Fatalf("%s%s", out, errs)
	}
	for _, format := range []string{"table", "json", "jsonl"} {
		out, errs := invoked(t, at, "locks", "list", "-o", format)
		if mustBePlain(t, format, out); !strings.Contains(out, `back\u200bup\u202egnp`) || errs != "" {
			t.Errorf("%s: %s%s", format, out, errs)
		}
	}
}

func TestVerdictReachesTheTerminalPlain(t *testing.T) {
	r := &verify.Report{Verdict: verify.Violated, Void: []string{hostile}, Violations: []proof.Violation{{Checker: "c", Name: hostile, Text: hostile,
		Excerpt: proof.History{{Kind: proof.Acquire, Name: hostile, Holder: hostile}}}}}
	r.Store.Backend, r.Store.Fencing.Why = hostile, hostile
	var out bytes.Buffer
	a := &app{out: &out, output: "table"}
	if err := a.conclude(r, nil, nil); exitCode(err) != exitViolated {
		t.Error(err)
	}
	mustBePlain(t, "verify", out.String())
	out.Reset()
	a.output = "jsonl"
	if err := a.conclude(r, nil, nil); exitCode(err) != exitViolated {
		t.Error(err)
	}
	mustBePlain(t, "verify -o jsonl", out.String())
	var again struct{ Violations []proof.Violation }
	if err := json.Unmarshal(out.Bytes(), &again); err != nil || again.Violations[0].Name != strings.ToValidUTF8(hostile, "\ufffd") {
		t.Errorf("the JSON does not mean what it did: %v, %q", err, again.Violations)
	}
}

// Text for people is written in one place, output.go. What is written elsewhere would be raw.
func TestTextForPeopleIsWrittenInOnePlace(t *testing.T) {
	raw := regexp.MustCompile(`(Fprint\w*|WriteString)\(\w+\.(errs|out)\b`)
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if file == "output.go" || strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			if raw.MatchString(line) && !strings.Contains(line, "p.out") { // progress tells what it has counted itself
				t.Errorf("%s:%d: say, print or table: %s", file, i+1, strings.TrimSpace(line))
			}
		}
	}
}

// A log line quotes what is not printed.
func TestLogLinesArePlain(t *testing.T) {
	for _, format := range []string{logText, logJSON} {
		var errs bytes.Buffer
		a := &app{errs: &errs}
		log, err := (&logs{format, "info"}).logger(a.stderr(), "job")
		if err != nil {
			t.Fatal(err)
		}
		log.Warn(hostile, "err", fmt.Errorf("server: %s", hostile), "job", hostile)
		a.flush()
		mustBePlain(t, "log", errs.String())
		if n := strings.Count(errs.String(), `\u202egnp.exe\u200b`); n != 3 {
			t.Errorf("%d of 3 texts with what nobody sees show it: %s", n, errs.String())
		}
	}
}
