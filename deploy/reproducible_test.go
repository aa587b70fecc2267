package deploy

import (
	"crypto/sha256"
	"debug/elf"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/soloist-dev/soloist/test/servers"
)

// Two copies of the sources in different directories give the same files, bit by bit, so that anybody can see what a package was made of. The command is linked statically.
func TestDistIsReproducible(t *testing.T) {
	servers.Live(t)
	one, other := dist(t, filepath.Join(t.TempDir(), "one")), dist(t, filepath.Join(t.TempDir(), "another", "place"))
	if len(one) < 10 {
		t.Errorf("make dist has made %d files alone: %v", len(one), one)
	}
	for name := range maps.Keys(one) {
		if one[name] != other[name] {
			t.Errorf("%s depends on where it is made", name)
		}
	}
	if len(one) != len(other) {
		t.Errorf("%d files in one place, %d in another", len(one), len(other))
	}
}

// dist makes what packages contain from a copy of the sources, and returns the sums of the files.
func dist(t *testing.T, to string) map[string][sha256.Size]byte {
	t.Helper()
	err := filepath.WalkDir("..", func(from string, d fs.DirEntry, err error) error {
		name := strings.TrimPrefix(from, "../")
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == ".git" || name == "bin" || name == filepath.Join("test", "java", "target")):
			return fs.SkipDir
		case !d.Type().IsRegular() || name == ".git": // of a work tree
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o755); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), text, info.Mode().Perm())
	})
	if err != nil {
		t.Fatal(err)
	}
	make := exec.Command(servers.Program(t, "make", "make"), "dist")
	make.Dir, make.Env = to, append(os.Environ(), "GOFLAGS=-buildvcs=false", "MAKEFLAGS=")
	if out, err := make.CombinedOutput(); err != nil {
		t.Fatalf("make dist: %v\n%s", err, out)
	}
	sums, root := map[string][sha256.Size]byte{}, filepath.Join(to, "bin", "dist")
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		sums[strings.TrimPrefix(path, root)] = sha256.Sum256(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if program, err := elf.Open(filepath.Join(root, "soloist")); err == nil {
		defer program.Close()
		if needs, err := program.ImportedLibraries(); err != nil || len(needs) > 0 {
			t.Errorf("the command needs %v, %v; want that it is linked statically", needs, err)
		}
	}
	return sums
}
