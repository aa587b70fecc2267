//go:build unix

package servers_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/soloist-dev/soloist/test/servers"
)

// What a program has left that was killed is removed by the next, and what is in use stays.
func TestOrphanedDirectoriesAreRemoved(t *testing.T) {
	const role = "SERVERS_TEST_ORPHAN"
	if os.Getenv(role) != "" {
		dir := servers.Directory(t)
		if err := os.WriteFile(filepath.Join(dir, "made"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		_, _ = os.Stdout.WriteString("made " + dir + "\n")
		self, _ := os.FindProcess(os.Getpid())
		_ = self.Kill()
		select {}
	}
	parent := t.TempDir()
	killed := func() (dir string) {
		t.Helper()
		cmd := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), role+"=1", "SOLOIST_TEST_DIR="+parent)
		out, _ := cmd.Output()
		_, dir, _ = strings.Cut(string(out), "made ")
		if dir, _, _ = strings.Cut(dir, "\n"); dir == "" {
			t.Fatalf("it made no directory: %s", out)
		}
		return dir
	}
	first := killed()
	if _, err := os.Stat(filepath.Join(first, "made")); err != nil {
		t.Fatalf("a program that was killed has left nothing, so nothing is shown: %v", err)
	}
	t.Setenv("SOLOIST_TEST_DIR", parent)
	mine := servers.Directory(t)
	second := killed()
	if _, err := os.Stat(first); err == nil {
		t.Error("what the first program has left is still there")
	}
	for _, dir := range []string{mine, second} {
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("a directory is gone: %v", err)
		}
	}
}
