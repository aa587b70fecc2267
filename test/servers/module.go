//go:build unix

package servers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A module is a Go module of which a server is built: its files by their names. Those in testdata end with .txt so that they are none of this project.
type module map[string]string

// text returns all files.
func (m module) text() string {
	var text []string
	for name, content := range m {
		text = append(text, name+"\n"+content)
	}
	slices.Sort(text)
	return strings.Join(text, "")
}

// built returns the path of a program, which is built once on a machine from a package of the module.
func built(t Test, program string, of module, pkg string) string {
	t.Helper()
	dir := cached(t, program, of.text(), func(dir string) error {
		t.Logf("building %s, once", program)
		for name, content := range of {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
				return err
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), 12*Patience)
		defer cancel()
		build := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-o", program, pkg)
		build.Dir = dir
		build.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("%s could not be built: %w\n%s", program, err, out)
		}
		return nil
	})
	return filepath.Join(dir, program)
}
