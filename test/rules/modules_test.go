package rules

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const root = "../.."

// goMod is what `go mod edit -json` says of a go.mod.
type goMod struct {
	Module  struct{ Path string }
	Go      string
	Require []struct {
		Path     string
		Indirect bool
	}
	Replace []struct {
		Old, New struct{ Path string }
	}
}

// modules returns the go.mod of every module by its directory, from the root, which is ".".
func modules(t *testing.T) map[string]goMod {
	t.Helper()
	all := map[string]goMod{}
	for _, file := range files(t, "go.mod") {
		out, err := exec.Command("go", "mod", "edit", "-json", filepath.Join(root, file)).Output()
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		var m goMod
		if err := json.Unmarshal(out, &m); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all[path.Dir(file)] = m
	}
	return all
}

// files returns the files of the project of one name or, with a *, one ending; from the root, with slashes.
func files(t *testing.T, pattern string) []string {
	t.Helper()
	var found []string
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == ".git" || name == "bin"):
			return fs.SkipDir
		}
		if ok, _ := path.Match(pattern, path.Base(name)); ok && !d.IsDir() {
			found = append(found, name)
		}
		return nil
	})
	if err != nil || len(found) == 0 {
		t.Fatalf("%d files %s: %v", len(found), pattern, err)
	}
	return found
}

// moduleOf returns the directory of the module that a file is in.
func moduleOf(mods map[string]goMod, file string) string {
	for dir := path.Dir(file); ; dir = path.Dir(dir) {
		if _, ok := mods[dir]; ok || dir == "." {
			return dir
		}
	}
}

func imports(t *testing.T, file string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, spec := range parsed.Imports {
		p, _ := strconv.Unquote(spec.Path.Value)
		paths = append(paths, p)
	}
	return paths
}

func isStd(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return !strings.Contains(first, ".")
}

func within(importPath, parent string) bool {
	return importPath == parent || strings.HasPrefix(importPath, parent+"/")
}

// Whatever the core requires, every user of every store would require too.
func TestTheCoreRequiresNothing(t *testing.T) {
	mods := modules(t)
	core := mods["."]
	if len(core.Require) != 0 || len(core.Replace) != 0 {
		t.Errorf("go.mod of the core: require %v, replace %v; want neither", core.Require, core.Replace)
	}
	if _, err := os.Stat(filepath.Join(root, "go.sum")); err == nil {
		t.Error("the core has a go.sum")
	}
	for _, file := range files(t, "*.go") {
		if moduleOf(mods, file) != "." {
			continue
		}
		for _, imported := range imports(t, file) {
			if !isStd(imported) && !within(imported, core.Module.Path) {
				t.Errorf("%s imports %s: the core imports the standard library and itself", file, imported)
			}
		}
	}
}

func TestModulesAgree(t *testing.T) {
	mods := modules(t)
	core := mods["."]
	for dir, m := range mods {
		if m.Go != core.Go {
			t.Errorf("%s/go.mod says go %s, the core go %s", dir, m.Go, core.Go)
		}
		if want := path.Join(core.Module.Path, dir); m.Module.Path != want {
			t.Errorf("%s/go.mod is of module %s; want %s", dir, m.Module.Path, want)
		}
		replaced := map[string]string{}
		for _, r := range m.Replace {
			replaced[r.Old.Path] = path.Join(dir, r.New.Path)
		}
		for _, r := range m.Require {
			if !within(r.Path, core.Module.Path) {
				continue
			}
			own := path.Join(".", strings.TrimPrefix(strings.TrimPrefix(r.Path, core.Module.Path), "/"))
			if at := replaced[r.Path]; at != own {
				t.Errorf("%s/go.mod requires %s and replaces it with %q; want a replace that leads to %q", dir, r.Path, at, own)
			}
		}
	}
	work, err := os.ReadFile(filepath.Join(root, "go.work"))
	if err != nil {
		t.Fatal(err)
	}
	for dir, m := range mods {
		listed := regexp.MustCompile(`(?m)^\s*(use )?` + regexp.QuoteMeta(strings.TrimSuffix("./"+dir, "/.")) + `$`).Match(work)
		if listed == (dir == "tools") {
			t.Errorf("go.work lists %s: %t; it lists every module but tools", dir, listed)
		}
		if !regexp.MustCompile(`(?m)^go ` + m.Go + `$`).Match(work) {
			t.Errorf("go.work is not of go %s, as %s/go.mod is", m.Go, dir)
		}
	}
}

// A store knows package store and nothing above it.
func TestStoresKnowOnlyPackageStore(t *testing.T) {
	mods := modules(t)
	core := mods["."].Module.Path
	forTests := []string{"", "/fence/sqlfence", "/soloisttest", "/store/memstore", "/store/move", "/store/storetest", "/test/failover", "/test/faults", "/test/servers"}
	for _, file := range files(t, "*.go") {
		if !strings.HasPrefix(file, "store/") {
			continue
		}
		own := path.Join(core, path.Dir(file))
		for _, imported := range imports(t, file) {
			switch {
			case isStd(imported), within(imported, own), !within(imported, core):
			case imported == core+"/store", imported == core+"/store/casstore", within(imported, core+"/store/internal"), imported == core+"/fence":
			case strings.HasSuffix(file, "_test.go") && slices.Contains(forTests, strings.TrimPrefix(imported, core)):
			default:
				t.Errorf("%s imports %s: a store imports of the core only store, casstore, what is in store/internal and fence, and in its tests %v", file, imported, forTests)
			}
		}
	}
}

// Third parties are for separate modules; the core's packages under store have none.
func TestEachBackendIsAModule(t *testing.T) {
	mods := modules(t)
	for dir, m := range mods {
		if path.Dir(dir) != "store" {
			continue
		}
		if len(m.Require) == 0 {
			t.Errorf("module %s requires nothing; then it can be a package of the core", dir)
		}
	}
}

var backends = regexp.MustCompile(`(?i)redis|postgres|sqlite|etcd|mysql|mariadb|cockroach|zookeeper|consul|\bnats\b|dynamo|cassandra|hazelcast|temporal\.io|temporalstore|mongo`)

// Above the store interface there is no backend's name, and below it there is no job, element, semaphore or permit.
func TestNothingReachesPastTheStoreInterface(t *testing.T) {
	mods := modules(t)
	above := regexp.MustCompile(`(?i)\b(jobs?|elements?|semaphores?|permits?|cron)\b`)
	for _, file := range files(t, "*.go") {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		dir := path.Dir(file)
		switch {
		case slices.Contains([]string{".", "cron", "fence", "soloisttest"}, dir):
			for _, word := range words(t, file) {
				if found := backends.FindString(word); found != "" {
					t.Errorf("%s says %q: above the store interface there is no backend's name", file, found)
				}
			}
		case moduleOf(mods, file) != "." && strings.HasPrefix(dir, "store/"), dir == "store/memstore", dir == "store/casstore", dir == "store/consulstore":
			for _, word := range words(t, file) {
				if found := above.FindString(word); found != "" {
					t.Errorf("%s says %q: a store does not know what is made of it", file, found)
				}
			}
		}
	}
}

// words returns the identifiers and the string literals of a file.
func words(t *testing.T, file string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			found = append(found, n.Name)
		case *ast.BasicLit:
			found = append(found, n.Value)
		}
		return true
	})
	return found
}

// What a store can do beyond store.Store is found by store.As, which looks into stores that are wrapped; a type assertion does not.
func TestOptionalInterfacesAreFoundInWrappedStores(t *testing.T) {
	optional := []string{"Watcher", "Queuer", "Chooser", "Pinger", "Sweeper", "Prober", "Migrator", "Examiner"}
	for _, file := range files(t, "*.go") {
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if a, is := n.(*ast.TypeAssertExpr); is {
				if s, is := a.Type.(*ast.SelectorExpr); is && slices.Contains(optional, s.Sel.Name) {
					t.Errorf("%s asserts that a store is a %s: use store.As, which also finds it in a store that is wrapped", file, s.Sel.Name)
				}
			}
			return true
		})
	}
}

// What no store may do, whatever it is made of.
func TestStoresAreQuiet(t *testing.T) {
	for _, file := range files(t, "*.go") {
		if !strings.HasPrefix(file, "store/") || strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, imported := range imports(t, file) {
			if imported == "log" || imported == "log/slog" {
				t.Errorf("%s imports %s: a store logs nothing", file, imported)
			}
		}
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "os.Exit(") {
			t.Errorf("%s ends the process", file)
		}
	}
}
