//go:build unix

package interop

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/soloist-dev/soloist/test/servers"
)

// Build builds the Java program, unless that has been done since its sources last changed, and returns its class path. The
// release of ShedLock is that of pom.xml for "". Many test programs may call it at once. Without Java, Maven, or the libraries
// and a way to fetch them the test is skipped with a message, or fails; see servers.Missing.
func Build(t servers.Test, shedlock string) string {
	t.Helper()
	servers.Program(t, "a JDK", "javac")
	servers.Program(t, "Java", "java")
	servers.Program(t, "Maven", "mvn")
	home := javaHome(t)
	unlock := lockDirectory(t, home)
	defer unlock()
	target := filepath.Join(home, "target")
	if shedlock != "" {
		target += "-" + shedlock
	}
	stamp, state := filepath.Join(target, "built"), sources(t, home)
	if built, err := os.ReadFile(stamp); err != nil || string(built) != state {
		maven(t, home, target, shedlock)
		if err := os.WriteFile(stamp, []byte(state), 0o644); err != nil {
			t.Fatalf("noting that the peers in Java are built: %v", err)
		}
	}
	return filepath.Join(target, "classes") + ":" + filepath.Join(target, "lib", "*")
}

// javaHome finds test/java from the working directory upwards.
func javaHome(t servers.Test) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatalf("looking for test/java: %v", err)
	}
	for from := dir; ; dir = filepath.Dir(dir) {
		home := filepath.Join(dir, "test", "java")
		if _, err := os.Stat(filepath.Join(home, "pom.xml")); err == nil {
			return home
		}
		if dir == filepath.Dir(dir) {
			t.Fatalf("there is no test/java/pom.xml above %s", from)
		}
	}
}

// lockDirectory keeps other processes from building at the same time. It waits for them.
func lockDirectory(t servers.Test, home string) (unlock func()) {
	t.Helper()
	f, err := os.Open(home)
	if err != nil {
		t.Fatalf("locking %s: %v", home, err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatalf("locking %s: %v", home, err)
	}
	return func() { _ = f.Close() }
}

// sources is a digest of what the program is built from.
func sources(t servers.Test, home string) string {
	t.Helper()
	digest := sha256.New()
	add := func(path string) error {
		text, err := os.ReadFile(path)
		fmt.Fprintf(digest, "%s %d\n%s", strings.TrimPrefix(path, home), len(text), text)
		return err
	}
	err := add(filepath.Join(home, "pom.xml"))
	if err == nil {
		err = filepath.WalkDir(filepath.Join(home, "src"), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			return add(path)
		})
	}
	if err != nil {
		t.Fatalf("reading the sources of the peers in Java: %v", err)
	}
	return fmt.Sprintf("%x\n", digest.Sum(nil))
}

func maven(t servers.Test, home, target, shedlock string) {
	t.Helper()
	t.Logf("building the peers in Java, once")
	if err := os.RemoveAll(target); err != nil { // jars of other versions must not stay on the class path
		t.Fatalf("removing what was built before: %v", err)
	}
	args := []string{"-q", "-B", "package", "-Dpeer.target=" + target}
	if shedlock != "" {
		args = append(args, "-Dshedlock.version="+shedlock)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "mvn", args...)
	cmd.Dir = home
	out, err := cmd.CombinedOutput()
	switch {
	case err == nil:
	case strings.Contains(string(out), "Could not transfer artifact"):
		servers.Missing(t, "Maven could not fetch the libraries of the peers in Java:\n%s", out)
	default:
		t.Fatalf("mvn %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}
