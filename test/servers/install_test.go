//go:build unix

package servers_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// An installation is tools/servers.sh in its own directory, with stand-ins for what it would change the machine by.
type installation struct {
	dir    string
	policy string // what keeps the packages' own servers from being started
}

const (
	// What apt-get prints to one that comes while another program has its lock.
	lockHeld = `echo "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 4711 (apt)" >&2; exit 100`

	// It makes the programs of the packages, and shows what it was asked for.
	installs = `echo "apt-get $*" >>apt.log
for last in "$@"; do :; done
case $last in
alpha) printf '#!/bin/sh\n' >bin/alpha-program; chmod +x bin/alpha-program ;;
beta) touch beta-file ;;
esac`
)

// newInstallation has the packages alpha and beta, of which nothing is here, and root's rights.
func newInstallation(t *testing.T, aptGet string) *installation {
	t.Helper()
	script, err := os.ReadFile("../../tools/servers.sh")
	if err != nil {
		t.Fatal(err)
	}
	in := &installation{dir: t.TempDir()}
	in.policy = in.path("policy-rc.d")
	for _, dir := range []string{"bin", "tools"} {
		if err := os.Mkdir(in.path(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	in.write(t, "tools/servers.sh", string(script))
	in.write(t, "tools/packages.txt", "# A comment.\nalpha alpha-program\nbeta "+in.path("beta-file")+"\n")
	in.program(t, "apt-get", aptGet)
	in.program(t, "id", "echo 0")
	in.program(t, "sleep", `echo "$*" >>sleep.log`)
	return in
}

func (in *installation) path(name string) string { return filepath.Join(in.dir, name) }

func (in *installation) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(in.path(name), []byte(text), 0o755); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
}

// program is a stand-in for a program.
func (in *installation) program(t *testing.T, name, script string) {
	t.Helper()
	in.write(t, filepath.Join("bin", name), "#!/bin/sh\n"+script+"\n")
}

// log returns the lines of a file that a stand-in has written.
func (in *installation) log(name string) []string {
	text, _ := os.ReadFile(in.path(name))
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
}

// run runs the script, where every test must run if require, and returns how it ended and what it printed.
func (in *installation) run(t *testing.T, require bool) (code int, out, errs string) {
	t.Helper()
	cmd := exec.Command("bash", in.path("tools/servers.sh"))
	cmd.Dir = in.dir
	cmd.Env = append(os.Environ(), "PATH="+in.path("bin")+":"+os.Getenv("PATH"), "POLICY_RC_D="+in.policy, "SOLOIST_TEST_REQUIRE=")
	if require {
		cmd.Env = append(cmd.Env, "SOLOIST_TEST_REQUIRE=1")
	}
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), o.String(), e.String()
}

func TestInstallsWhatIsMissing(t *testing.T) {
	in := newInstallation(t, `[ -x policy-rc.d ] || { echo "servers would be started" >&2; exit 1; }`+"\n"+installs)
	if code, out, errs := in.run(t, true); code != 0 || errs != "" || out != "installing alpha\ninstalling beta\n" {
		t.Errorf("exit code %d; it printed %q and %q", code, out, errs)
	}
	asked := in.log("apt.log")
	if len(asked) != 3 || !strings.HasSuffix(asked[0], " update") || !strings.HasSuffix(asked[1], " alpha") || !strings.HasSuffix(asked[2], " beta") {
		t.Errorf("apt-get was called as %q", asked)
	}
	if _, err := os.Stat(in.policy); err == nil {
		t.Error("the policy against starting servers is left behind")
	}
	if code, out, errs := in.run(t, true); code != 0 || out+errs != "" || len(in.log("apt.log")) != 3 {
		t.Errorf("with nothing to do: exit code %d, it printed %q and %q; apt-get was called as %q", code, out, errs, in.log("apt.log"))
	}
}

// A policy that somebody else has made stays.
func TestInstallingKeepsThePolicyOfTheMachine(t *testing.T) {
	in := newInstallation(t, installs)
	in.write(t, "policy-rc.d", "mine")
	in.run(t, true)
	if got := in.log("policy-rc.d"); len(got) != 1 || got[0] != "mine" {
		t.Errorf("the policy is %q", got)
	}
}

// Another program has apt's lock for some time, during the update and during an installation.
func TestInstallingWaitsForTheLock(t *testing.T) {
	in := newInstallation(t, `n=$(($(cat calls 2>/dev/null || echo 0) + 1)); echo $n >calls
case $n in 1|2|4) `+lockHeld+` ;; esac
`+installs)
	code, out, errs := in.run(t, true)
	if code != 0 || errs != "" || strings.Count(out, "waiting for another program that has its lock") != 2 || !strings.Contains(out, "apt-get update: waiting") {
		t.Errorf("exit code %d; it printed %q and %q", code, out, errs)
	}
	if waits := in.log("sleep.log"); len(waits) != 3 {
		t.Errorf("it waited %d times; want 3", len(waits))
	}
}

// The lock is never free.
func TestInstallingDoesNotWaitForTheLockForEver(t *testing.T) {
	in := newInstallation(t, lockHeld)
	code, _, errs := in.run(t, true)
	if code != 1 || !strings.Contains(errs, "It is held by process 4711") || !strings.Contains(errs, "alpha alpha-program\n") {
		t.Errorf("exit code %d; it printed %q", code, errs)
	}
}

func TestInstallingRepeatsAnUpdateThatFailed(t *testing.T) {
	in := newInstallation(t, `case "$*" in *update) echo x >>updates; [ $(wc -l <updates) = 3 ] || { echo "E: no network" >&2; exit 100; } ;; esac
`+installs)
	if code, out, errs := in.run(t, true); code != 0 || errs != "" {
		t.Errorf("exit code %d; it printed %q and %q", code, out, errs)
	}
	if updates := in.log("updates"); len(updates) != 3 {
		t.Errorf("%d updates; want 3", len(updates))
	}
}

// What cannot be installed is reported with apt-get's own words. Where every test must run that is a failure, and elsewhere it is not. The other
// packages are installed.
func TestInstallingFails(t *testing.T) {
	for _, require := range []bool{true, false} {
		in := newInstallation(t, `case "$*" in *alpha) echo "E: Unable to locate package alpha" >&2; exit 100 ;; esac
`+installs)
		code, out, errs := in.run(t, require)
		if !strings.Contains(errs, "E: Unable to locate package alpha") {
			t.Errorf("required %t: it printed %q, which does not say what apt-get said", require, errs)
		}
		told := out
		if require {
			told = errs
		}
		if (code != 0) != require || !strings.Contains(told, "\nalpha alpha-program\n") || strings.Contains(told, "\nbeta") {
			t.Errorf("required %t: exit code %d; it printed %q and %q", require, code, out, errs)
		}
		if _, err := os.Stat(in.path("beta-file")); err != nil {
			t.Errorf("required %t: the other package was not installed: %v", require, err)
		}
	}
}

// Who may not install is told what is missing, and nothing is tried.
func TestInstallingNeedsRoot(t *testing.T) {
	for _, require := range []bool{true, false} {
		in := newInstallation(t, installs)
		in.program(t, "id", "echo 1000")
		code, out, errs := in.run(t, require)
		if (code != 0) != require || !strings.Contains(out+errs, "alpha alpha-program\nbeta "+in.path("beta-file")) {
			t.Errorf("required %t: exit code %d; it printed %q and %q", require, code, out, errs)
		}
		if calls := in.log("apt.log"); len(calls) != 0 {
			t.Errorf("required %t: apt-get was called: %q", require, calls)
		}
	}
}
