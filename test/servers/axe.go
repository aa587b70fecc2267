//go:build unix

package servers

import (
	"archive/zip"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// axeCore is a jar of the makers of axe-core that has the script.
const axeCore = artifact("com.deque.html.axe-core:selenium:4.10.1")

// AxeCore returns axe-core, a script that checks the accessibility of the page in which it runs. It is fetched once on a machine.
func AxeCore(t Test) []byte {
	t.Helper()
	mvn := Program(t, "Maven", "mvn")
	dir := cached(t, "axe", string(axeCore), func(dir string) error {
		t.Logf("fetching %s, once", axeCore)
		ctx, cancel := context.WithTimeout(context.Background(), 2*Patience)
		defer cancel()
		cmd := exec.CommandContext(ctx, mvn, "-q", "-B", "dependency:copy", "-Dartifact="+string(axeCore), "-DoutputDirectory="+dir, "-Dmdep.stripVersion=true")
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("maven could not fetch %s: %w\n%s", axeCore, err, out)
		}
		return unpack(filepath.Join(dir, "selenium.jar"), "axe.min.js", filepath.Join(dir, "axe.js"))
	})
	script, err := os.ReadFile(filepath.Join(dir, "axe.js"))
	if err != nil {
		t.Fatalf("reading axe-core: %v", err)
	}
	return script
}

// unpack writes a file of an archive to a path.
func unpack(archive, name, to string) error {
	z, err := zip.OpenReader(archive)
	if err != nil {
		return err
	}
	defer z.Close()
	from, err := z.Open(name)
	if err != nil {
		return err
	}
	defer from.Close()
	text, err := io.ReadAll(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o644)
}
