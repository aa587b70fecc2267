package rules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// declared returns the declarations of a Go file.
func declared(t *testing.T, file string) []ast.Decl {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return parsed.Decls
}

// fields returns the exported fields of a struct type in a Go file, as Type.Field.
func fields(t *testing.T, file, name string) (all []string) {
	t.Helper()
	for _, decl := range declared(t, file) {
		general, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range general.Specs {
			declaredType, ok := spec.(*ast.TypeSpec)
			if !ok || declaredType.Name.Name != name {
				continue
			}
			for _, field := range declaredType.Type.(*ast.StructType).Fields.List {
				for _, ident := range field.Names {
					if ident.IsExported() {
						all = append(all, name+"."+ident.Name)
					}
				}
			}
		}
	}
	if len(all) == 0 {
		t.Errorf("%s has no struct %s with exported fields", file, name)
	}
	return all
}

// The page of the configuration has every field with which a program configures the client.
func TestConfigurationIsComplete(t *testing.T) {
	page := read(t, "docs/reference/configuration.md")
	for name, file := range map[string]string{
		"Config": "options.go", "Options": "options.go", "Job": "job.go", "Retry": "retry.go", "ElementsOptions": "element.go",
	} {
		for _, field := range fields(t, file, name) {
			if !strings.Contains(page, "`"+field+"`") {
				t.Errorf("docs/reference/configuration.md does not have %s", field)
			}
		}
	}
}

// The page of the events has every kind, and every field that one can have.
func TestEventsAreDocumented(t *testing.T) {
	page := read(t, "docs/reference/events.md")
	kinds := 0
	for _, decl := range declared(t, "event.go") {
		general, ok := decl.(*ast.GenDecl)
		if !ok || general.Tok != token.CONST {
			continue
		}
		for _, spec := range general.Specs {
			for _, ident := range spec.(*ast.ValueSpec).Names {
				if strings.HasPrefix(ident.Name, "Event") {
					if kinds++; !strings.Contains(page, "| `"+ident.Name+"` |") {
						t.Errorf("docs/reference/events.md does not have %s", ident.Name)
					}
				}
			}
		}
	}
	if kinds < 9 {
		t.Errorf("only %d kinds of events were found", kinds)
	}
	for _, field := range fields(t, "event.go", "Event") {
		if name := strings.TrimPrefix(field, "Event."); name != "Kind" && !strings.Contains(page, "`"+name+"`") {
			t.Errorf("docs/reference/events.md does not have the field %s", name)
		}
	}
}
