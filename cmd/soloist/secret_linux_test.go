package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// nobody is the ID of a user without rights. Root can look into any process, so that what is tested here is another
// user's.
const nobody = 65534

// asUser runs the command soloist as a user without rights, if this test is run by root, in a directory of that user.
func asUser(t *testing.T, dir string, env []string, args ...string) (out string, err error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "soloist") // the test binary is the command when it is called so
	if _, err := os.Stat(program); err != nil {
		copyFile(t, self, program)
	}
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Env = dir, append(env, "PATH="+os.Getenv("PATH"), "HOME="+dir)
	if os.Geteuid() == 0 {
		if err := os.Chown(dir, nobody, nobody); err != nil {
			t.Fatal(err)
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	text, err := cmd.CombinedOutput()
	return string(text), err
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

func userDir(t *testing.T) string {
	t.Helper()
	dir := memoryDir(t)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A command of the same user finds the URL of the store neither in its own environment nor in that of soloist. What is
// not soloist's stays.
func TestCommandsCannotReadTheStoresURL(t *testing.T) {
	dir := userDir(t)
	crontab := filepath.Join(dir, "crontab")
	const look = `cat /proc/$PPID/environ /proc/$PPID/mem >leak 2>&1; env >>leak; echo looked`
	if err := os.WriteFile(crontab, []byte("@every 1s "+look+"; kill -TERM $PPID\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"lock", "x", "--", "sh", "-c", look}, {"once", "job", "x", "--", "sh", "-c", look}, {"sem", "x", "--limit", "2", "--", "sh", "-c", look},
		{"cron", "--any-file", crontab},
	} {
		t.Run(args[0], func(t *testing.T) {
			out, _ := asUser(t, dir, []string{"SOLOIST_STORE=sqlite:" + filepath.Join(dir, "canary.db"), "PGPASSWORD=mine", "SOLOIST_STORE_FILE=/canary"}, args...)
			leak, err := os.ReadFile(filepath.Join(dir, "leak"))
			if err != nil || !strings.Contains(out, "looked") {
				t.Fatalf("the command has not looked: %v\n%s", err, out)
			}
			if strings.Contains(string(leak), "canary") {
				t.Errorf("the command has found the store's URL:\n%q", leak)
			}
			if !strings.Contains(string(leak), "PGPASSWORD=mine") {
				t.Errorf("the command lacks a variable of its user's own:\n%s", leak)
			}
			_ = os.Remove(filepath.Join(dir, "leak"))
		})
	}
}

func TestFilesOfOthersAreRefused(t *testing.T) {
	dir := userDir(t)
	crontab := filepath.Join(dir, "crontab")
	if err := os.WriteFile(crontab, []byte("@daily true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	own := os.Geteuid()
	if own == 0 {
		own = nobody
	}
	for name, c := range map[string]struct {
		mode  os.FileMode
		owner int
		want  string // of what is said; "" for a file that is taken
		args  []string
	}{
		"mine":                     {0o644, own, "", nil},
		"others may write":         {0o666, own, "its mode 0666 lets others write to it", nil},
		"a group may write":        {0o664, own, "its mode 0664 lets others write to it", nil},
		"others may write, wanted": {0o666, own, "", []string{"--any-file"}},
		"root's":                   {0o644, 0, "", nil},
		"another user's":           {0o644, 12345, "it belongs to the user with ID 12345", nil},
		"another user's, wanted":   {0o644, 12345, "", []string{"--any-file"}},
	} {
		t.Run(name, func(t *testing.T) {
			if os.Geteuid() == 0 {
				if err := os.Chown(crontab, c.owner, c.owner); err != nil {
					t.Fatal(err)
				}
			} else if c.owner != own {
				t.Skip("only root can give a file to another user")
			}
			if err := os.Chmod(crontab, c.mode); err != nil {
				t.Fatal(err)
			}
			out, err := asUser(t, dir, []string{"SOLOIST_STORE=memory:"}, append([]string{"cron", "--check", crontab}, c.args...)...)
			if (err == nil) != (c.want == "") || !strings.Contains(out, c.want) {
				t.Errorf("want %q, got %v: %s", c.want, err, out)
			}
			if err != nil && exitStatus(err) != exitConfig {
				t.Errorf("exit code %d, want %d", exitStatus(err), exitConfig)
			}
		})
	}
}

func exitStatus(err error) int {
	if ended, ok := err.(*exec.ExitError); ok { //nolint:errorlint // os/exec does not wrap it
		return ended.ExitCode()
	}
	return -1
}

func TestStateDirectoryOfOthersIsRefused(t *testing.T) {
	home := userDir(t)
	out, err := asUser(t, home, nil, "lock", "x", "--", "true")
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	dir := filepath.Join(home, ".local", "state", "soloist")
	refused := func(what, want string) {
		t.Helper()
		out, err := asUser(t, home, nil, "lock", "x", "--", "true")
		if exitStatus(err) != exitConfig || !strings.Contains(out, want) {
			t.Errorf("%s: want %q, got %v: %s", what, want, err, out)
		}
		if out, err := asUser(t, home, nil, "--store", "sqlite:"+filepath.Join(home, "named.db"), "lock", "x", "--", "true"); err != nil {
			t.Errorf("%s, and the store is named: %v: %s", what, err, out)
		}
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	refused("a directory that others may write to", "its mode 0777 lets others write to it")
	if os.Geteuid() != 0 {
		t.Skip("only root can give a directory to another user")
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	refused("another user's directory", "it belongs to the user with ID 12345")
}

// What may not be read is denied, and no mistake of the configuration.
func TestUnreadableFilesAreDenied(t *testing.T) {
	dir := userDir(t)
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("sqlite:x.db\n"), 0); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(file, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	private := filepath.Join(dir, "private") // of the user that runs this test
	if err := os.Mkdir(private, 0o700); err != nil {
		t.Fatal(err)
	}
	written := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if os.Geteuid() == 0 {
			if err := os.Chown(path, nobody, nobody); err != nil {
				t.Fatal(err)
			}
		}
		return path
	}
	crontab := written("crontab", "@daily true\n")
	target := "- {name: chat, on: [failed], "
	for _, c := range []struct {
		env  []string
		args []string
	}{
		{[]string{"SOLOIST_STORE=memory:"}, []string{"cron", "--notify", written("url.yaml", target+"url-file: "+file+"}\n"), crontab}},
		{[]string{"SOLOIST_STORE=memory:"}, []string{"cron", "--notify", written("secret.yaml", target+`url: "http://127.0.0.1:1/", secret-file: `+file+"}\n"), crontab}},
		{[]string{"SOLOIST_STORE=rediss://127.0.0.1:1/?cafile=" + file}, []string{"lock", "x", "--", "true"}},
		{[]string{"SOLOIST_STORE=nats://127.0.0.1:1/b?tls=true&certfile=" + file + "&keyfile=" + file}, []string{"lock", "x", "--", "true"}},
		{[]string{"SOLOIST_STORE=postgres://127.0.0.1:1/d?sslmode=verify-full&sslrootcert=" + file}, []string{"lock", "x", "--", "true"}},
		{[]string{"SOLOIST_STORE_FILE=" + file}, []string{"lock", "x", "--", "true"}},
		{[]string{"SOLOIST_STORE=memory:"}, []string{"cron", file}},
		{[]string{"SOLOIST_STORE=memory:"}, []string{"verify", "--report", filepath.Join(private, "report.html")}},
		{[]string{"SOLOIST_STORE=sqlite:" + filepath.Join(private, "store.db")}, []string{"lock", "x", "--", "true"}},
	} {
		out, err := asUser(t, dir, c.env, c.args...)
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != exitDenied || !strings.Contains(out, "permission denied") {
			t.Errorf("%v: %v\n%s", c, err, out)
		}
	}
}
