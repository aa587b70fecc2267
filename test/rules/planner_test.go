package rules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// The planner of jobs is told what happens, and when: its files know no context, no lock and no randomness, start no goroutine, use no channel but to
// close one, and never ask what time it is.
func TestThePlannerIsPure(t *testing.T) {
	pure := []string{"planner.go", "planned.go", "decide.go", "claimgroup.go"}
	impure := []string{"context", "sync", "sync/atomic", "os", "log/slog", "math/rand/v2", "github.com/soloist-dev/soloist/internal/rand"}
	for _, name := range pure {
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, filepath.Join(root, name), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range file.Imports {
			if imported, _ := strconv.Unquote(spec.Path.Value); slices.Contains(impure, imported) {
				t.Errorf("%s imports %s", name, imported)
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			at := set.Position(n0(n))
			switch n := n.(type) {
			case *ast.GoStmt, *ast.SelectStmt, *ast.SendStmt:
				t.Errorf("%s:%d: a goroutine, or a channel that is used", name, at.Line)
			case *ast.UnaryExpr:
				if n.Op == token.ARROW {
					t.Errorf("%s:%d: it waits for a channel", name, at.Line)
				}
			case *ast.SelectorExpr:
				if pkg, ok := n.X.(*ast.Ident); ok && pkg.Name == "time" && slices.Contains([]string{"Now", "Since", "Until", "After", "AfterFunc", "NewTimer", "Sleep"}, n.Sel.Name) {
					t.Errorf("%s:%d: time.%s", name, at.Line, n.Sel.Name)
				}
			}
			return true
		})
	}
}

func n0(n ast.Node) token.Pos {
	if n == nil {
		return token.NoPos
	}
	return n.Pos()
}
