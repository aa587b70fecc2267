//go:build unix

package servers

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"text/template"
)

// An artifact is what Maven can fetch, as group:artifact:version.
type artifact string

//go:embed testdata/pom.xml
var pomText string

var pomTemplate = template.Must(template.New("pom").Parse(pomText))

// jars fetches a program in Java with all that it needs, once on a machine, and returns the class path.
func jars(t Test, artifacts ...artifact) string {
	t.Helper()
	mvn := Program(t, "Maven", "mvn")
	var pom strings.Builder
	var parts [][]string
	for _, a := range artifacts {
		parts = append(parts, strings.Split(string(a), ":"))
	}
	if err := pomTemplate.Execute(&pom, parts); err != nil {
		t.Fatalf("writing a pom.xml: %v", err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	dir := filepath.Join(cache, "soloist-test", fmt.Sprintf("jars-%.16x", sha256.Sum256([]byte(pom.String()))))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatalf("making a directory for jars: %v", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		t.Fatalf("making a lock for jars: %v", err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil { // packages are tested side by side
		t.Fatalf("locking the jars: %v", err)
	}
	lib := filepath.Join(dir, "lib")
	if _, err := os.Stat(filepath.Join(dir, "complete")); err == nil {
		return filepath.Join(lib, "*")
	}
	t.Logf("fetching %v, once", artifacts)
	if err := os.WriteFile(filepath.Join(dir, "pom.xml"), []byte(pom.String()), 0o644); err != nil {
		t.Fatalf("writing a pom.xml: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, mvn, "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory="+lib, "-DincludeScope=runtime")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		Missing(t, "Maven could not fetch %v: %v\n%s", artifacts, err, out)
	}
	if err := os.WriteFile(filepath.Join(dir, "complete"), nil, 0o644); err != nil {
		t.Fatalf("noting that the jars are complete: %v", err)
	}
	return filepath.Join(lib, "*")
}
