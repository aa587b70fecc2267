//go:build unix

package servers

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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
	dir := cached(t, "jars", pom.String(), func(dir string) error {
		t.Logf("fetching %v, once", artifacts)
		if err := os.WriteFile(filepath.Join(dir, "pom.xml"), []byte(pom.String()), 0o644); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*Patience)
		defer cancel()
		cmd := exec.CommandContext(ctx, mvn, "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory="+filepath.Join(dir, "lib"), "-DincludeScope=runtime")
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("maven could not fetch %v: %w\n%s", artifacts, err, out)
		}
		return nil
	})
	return filepath.Join(dir, "lib", "*")
}
