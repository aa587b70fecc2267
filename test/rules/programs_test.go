package rules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// installed returns the programs of tools/packages.txt.
func installed(t *testing.T) map[string]bool {
	t.Helper()
	programs := map[string]bool{}
	for line := range strings.Lines(read(t, "tools/packages.txt")) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) < 2 {
			t.Errorf("tools/packages.txt: %q is not a package and its programs", line)
			continue
		}
		for _, program := range fields[1:] {
			programs[program] = true
		}
	}
	return programs
}

// A demand is a program that a test runs: one of some names.
type demand struct {
	position string
	names    []string
}

// demands returns the programs that a Go file runs, as far as their names stand there: those that it gives os/exec, and those that it asks
// servers.Program for. Another way of looking for a program is an error.
func demands(t *testing.T, file string) []demand {
	t.Helper()
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, filepath.Join(root, file), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	osExec := importedAs(parsed, "os/exec")
	var found []demand
	ast.Inspect(parsed, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		position := set.Position(call.Pos())
		at := strings.TrimPrefix(filepath.ToSlash(position.String()), root+"/")
		switch from, called := calledBy(call.Fun); {
		case from == osExec && osExec != "" && (called == "Command" || called == "CommandContext"):
			if name, ok := text(call.Args[strings.Count(called, "Context")]); ok {
				found = append(found, demand{at, []string{name}})
			}
		case from == osExec && osExec != "" && called == "LookPath" && file != "test/servers/process.go":
			if name, ok := text(call.Args[0]); ok && name == "soloist" || strings.HasSuffix(file, "/script_test.go") {
				return true // it is of the scripts of the command
			}
			t.Errorf("%s: a test looks for a program by servers.Program", at)
		case called == "Program" && (from == "servers" || from == "" && strings.HasPrefix(file, "test/servers/")):
			d := demand{position: at}
			for _, arg := range call.Args[2:] {
				name, ok := text(arg)
				if !ok {
					t.Errorf("%s: the names given to servers.Program are literals, so that they can be found", at)
				}
				d.names = append(d.names, name)
			}
			found = append(found, d)
		}
		return true
	})
	return found
}

// importedAs returns what a file calls a package that it imports, "" when it does not.
func importedAs(file *ast.File, path string) string {
	for _, spec := range file.Imports {
		if spec.Path.Value != strconv.Quote(path) {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return path[strings.LastIndexByte(path, '/')+1:]
	}
	return ""
}

// calledBy returns the name of a function that is called, and of the package or the variable that it is of.
func calledBy(fun ast.Expr) (from, called string) {
	switch fun := fun.(type) {
	case *ast.Ident:
		return "", fun.Name
	case *ast.SelectorExpr:
		if x, ok := fun.X.(*ast.Ident); ok {
			return x.Name, fun.Sel.Name
		}
	}
	return "", ""
}

func text(expr ast.Expr) (string, bool) {
	literal, ok := expr.(*ast.BasicLit)
	if !ok {
		return "", false
	}
	value, err := strconv.Unquote(literal.Value)
	return value, err == nil
}

var executed = regexp.MustCompile(`(?m)^[!?]? ?(?:exec|fails [0-9]+) ([a-z][^ \n]*)`)

// Every program that a test runs is installed by tools/servers.sh, before the tests: none is missing on a new machine.
func TestProgramsOfTestsAreInstalled(t *testing.T) {
	programs := installed(t)
	programs["go"] = true      // it runs the test
	programs["soloist"] = true // the tests build it
	var all []demand
	for _, file := range files(t, "*.go") {
		if strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "test/") {
			all = append(all, demands(t, file)...)
		}
	}
	for _, script := range files(t, "*.txtar") {
		for _, m := range executed.FindAllStringSubmatch(read(t, script), -1) {
			all = append(all, demand{script, m[1:]})
		}
	}
	for _, d := range all {
		if !slices.ContainsFunc(d.names, func(name string) bool { return programs[name] }) {
			t.Errorf("%s: %s is run, and tools/packages.txt does not say which package it is of", d.position, strings.Join(d.names, " or "))
		}
	}
	if len(all) < 100 {
		t.Errorf("only %d programs were found; the tests run more than a hundred", len(all))
	}
}
