//go:build unix

package servers

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// Python fetches packages of PyPI, as NAME==VERSION, with what they need, once on a machine. It returns the path of Python and the directory of the
// packages, for PYTHONPATH.
func Python(t Test, requirements ...string) (python, modules string) {
	t.Helper()
	python, pip := Program(t, "Python", "python3"), Program(t, "pip", "pip3")
	return python, fetched(t, "python", pip, func(dir string) []string {
		return append([]string{"install", "-q", "--no-warn-script-location", "--target", dir}, requirements...)
	}, requirements)
}

// Node fetches packages of npm, as NAME@VERSION, with what they need, once on a machine. It returns the path of Node.js and the directory of the
// packages, for NODE_PATH.
func Node(t Test, packages ...string) (node, modules string) {
	t.Helper()
	node, npm := Program(t, "Node.js", "node"), Program(t, "npm", "npm")
	dir := fetched(t, "node", npm, func(dir string) []string {
		return append([]string{"install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", dir}, packages...)
	}, packages)
	return node, filepath.Join(dir, "node_modules")
}

// fetched returns a directory that a package manager has filled, once on a machine.
func fetched(t Test, kind, manager string, args func(dir string) []string, packages []string) string {
	t.Helper()
	return cached(t, kind, strings.Join(packages, " "), func(dir string) error {
		t.Logf("fetching %v, once", packages)
		ctx, cancel := context.WithTimeout(context.Background(), 2*Patience)
		defer cancel()
		if out, err := exec.CommandContext(ctx, manager, args(dir)...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s could not fetch %v: %w\n%s", filepath.Base(manager), packages, err, out)
		}
		return nil
	})
}
