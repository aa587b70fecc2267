package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
)

// A site is a place in the code, and the change that can be made there.
type site struct {
	at   string // file, line and column
	what string
	code string
}

func (s site) String() string { return fmt.Sprintf("%s: %s: %s", s.at, s.what, s.code) }

// An editor finds the sites of a package, and rewrites its files so that each change is made on demand. The number of a site is its index in sites, plus 1.
type editor struct {
	fset  *token.FileSet
	info  *types.Info
	root  string // positions are told from here
	sites []site

	src   []byte // of the file that is edited
	edits []edit
}

// An edit puts a text at an offset, in the place of some bytes.
type edit struct {
	at, cut int
	text    string
	ends    bool // it is the end of what is put around something
	order   int
}

// switchPath is the package that the rewritten files import, under a name that no file has.
const switchPath = "github.com/soloist-dev/soloist/test/changes/change"

// rewrite returns the source of a file with all its changes in it.
func (e *editor) rewrite(file *ast.File, src []byte) []byte {
	e.src, e.edits = src, nil
	for _, d := range file.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok != token.VAR {
			continue
		}
		ast.Inspect(d, e.visit)
	}
	if len(e.edits) == 0 {
		return src
	}
	// At one offset the ends come first, the innermost before the others, and then the beginnings, the outermost first.
	slices.SortStableFunc(e.edits, func(a, b edit) int {
		switch {
		case a.at != b.at:
			return a.at - b.at
		case a.ends && b.ends:
			return b.order - a.order
		case a.ends:
			return -1
		case b.ends:
			return 1
		}
		return a.order - b.order
	})
	name := e.offset(file.Name.End())
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s; import soloistChange %q", src[:name], switchPath)
	at := name
	for _, edit := range e.edits {
		out.Write(src[at:edit.at])
		out.WriteString(edit.text)
		at = edit.at + edit.cut
	}
	out.Write(src[at:])
	return out.Bytes()
}

func (e *editor) offset(pos token.Pos) int { return e.fset.Position(pos).Offset }

func (e *editor) text(n ast.Node) string { return string(e.src[e.offset(n.Pos()):e.offset(n.End())]) }

// add notes a site, and returns its number.
func (e *editor) add(n ast.Node, what string) int {
	at := e.fset.Position(n.Pos())
	if path, err := filepath.Rel(e.root, at.Filename); err == nil {
		at.Filename = path
	}
	code, _, more := strings.Cut(e.text(n), "\n")
	if more {
		code += " …"
	}
	e.sites = append(e.sites, site{at.String(), what, code})
	return len(e.sites)
}

func (e *editor) edit(at, cut int, text string, ends bool) {
	e.edits = append(e.edits, edit{at, cut, text, ends, len(e.edits)})
}

// wrap puts texts before and after a node.
func (e *editor) wrap(n ast.Node, before, after string) {
	e.edit(e.offset(n.Pos()), 0, before, false)
	e.edit(e.offset(n.End()), 0, after, true)
}

// drop leaves a statement out.
func (e *editor) drop(s ast.Stmt) {
	e.wrap(s, fmt.Sprintf("if !soloistChange.On(%d) { ", e.add(s, "left out")), " }")
}

// condition makes a condition always or never true.
func (e *editor) condition(x ast.Expr, always bool, what string) {
	tv := e.info.Types[x]
	b, ok := tv.Type.Underlying().(*types.Basic)
	if tv.Value != nil || !ok || b.Info()&types.IsBoolean == 0 {
		return
	}
	operator := "&& !"
	if always {
		operator = "|| "
	}
	e.wrap(x, "(bool(", fmt.Sprintf(") %ssoloistChange.On(%d))", operator, e.add(x, what)))
}

func (e *editor) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GenDecl:
		return n.Tok == token.VAR // a constant cannot be changed
	case *ast.BlockStmt:
		e.statements(n.List)
	case *ast.CaseClause:
		e.statements(n.Body)
	case *ast.CommClause:
		e.statements(n.Body)
	case *ast.SwitchStmt:
		if n.Tag == nil {
			for _, clause := range n.Body.List {
				for _, x := range clause.(*ast.CaseClause).List {
					e.condition(x, false, "never")
				}
			}
		}
	case *ast.IfStmt:
		e.condition(n.Cond, false, "never")
		e.condition(n.Cond, true, "always")
	case *ast.BinaryExpr:
		return e.binary(n)
	case *ast.CallExpr:
		e.extreme(n)
	case *ast.ReturnStmt:
		for _, x := range n.Results {
			if tv := e.info.Types[x]; tv.Type != nil && tv.Type.String() == "error" && !tv.IsNil() {
				e.wrap(x, fmt.Sprintf("soloistChange.Nil(%d, ", e.add(x, "nil")), ")")
			}
		}
	case *ast.CompositeLit:
		e.fields(n)
	}
	return true
}

// unimportant are methods of which tests need not notice that they are not called: they log, or without them a lock stays locked.
var unimportant = []string{"Lock", "Unlock", "RLock", "RUnlock", "Debug", "Info", "Warn", "Error", "DebugContext", "InfoContext", "WarnContext", "ErrorContext", "Stop", "Helper"}

func (e *editor) statements(body []ast.Stmt) {
	for _, s := range body {
		var call *ast.CallExpr
		switch s := s.(type) {
		case *ast.ExprStmt:
			call, _ = s.X.(*ast.CallExpr)
		case *ast.DeferStmt:
			call = s.Call
		case *ast.GoStmt, *ast.IncDecStmt, *ast.SendStmt:
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE {
				continue
			}
		case *ast.BranchStmt:
			if s.Tok != token.CONTINUE || s.Label != nil { // without another the compiler may miss a return
				continue
			}
		default:
			continue
		}
		if call != nil {
			switch f := call.Fun.(type) {
			case *ast.SelectorExpr:
				if slices.Contains(unimportant, f.Sel.Name) {
					continue
				}
			case *ast.Ident:
				if f.Name == "panic" || f.Name == "cancel" {
					continue
				}
			}
		}
		e.drop(s)
	}
}

// binary changes an operator, and reports whether its operands can be changed.
func (e *editor) binary(n *ast.BinaryExpr) bool {
	if e.info.Types[n].Value != nil {
		return false
	}
	switch n.Op {
	case token.LAND:
		e.condition(n.X, true, "always")
		e.condition(n.Y, true, "always")
	case token.LOR:
		e.condition(n.X, false, "never")
		e.condition(n.Y, false, "never")
	case token.LSS, token.LEQ, token.GTR, token.GEQ:
		if e.pure(n.X) && e.pure(n.Y) {
			e.wrap(n, "((", fmt.Sprintf(") != (soloistChange.On(%d) && (%s) == (%s)))", e.add(n, "other where equal"), e.text(n.X), e.text(n.Y)))
		}
	case token.ADD, token.SUB:
		if !e.number(n.X) || !e.number(n.Y) || !types.Identical(e.info.Types[n.X].Type, e.info.Types[n.Y].Type) || strings.Contains(e.text(n), "<<") {
			break // a shift of a constant has the type of its context
		}
		name, what := "Add", "minus"
		if n.Op == token.SUB {
			name, what = "Sub", "plus"
		}
		e.wrap(n, fmt.Sprintf("soloistChange.%s(%d, ", name, e.add(n, what)), ")")
		e.edit(e.offset(n.OpPos), 1, ",", false)
	}
	return true
}

func (e *editor) number(x ast.Expr) bool {
	b, ok := e.info.Types[x].Type.Underlying().(*types.Basic)
	return ok && b.Info()&types.IsNumeric != 0
}

// pure reports whether an expression can be evaluated twice.
func (e *editor) pure(x ast.Expr) bool {
	pure := true
	ast.Inspect(x, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			id, ok := n.Fun.(*ast.Ident)
			pure = pure && (e.info.Types[n.Fun].IsType() || ok && (id.Name == "len" || id.Name == "cap"))
		case *ast.UnaryExpr:
			pure = pure && n.Op != token.ARROW
		case *ast.FuncLit:
			pure = false
		}
		return pure
	})
	return pure
}

// extreme makes the smaller or the greater of two always the first, or the second.
func (e *editor) extreme(n *ast.CallExpr) {
	id, ok := n.Fun.(*ast.Ident)
	if !ok || len(n.Args) != 2 || e.info.Types[n].Value != nil {
		return
	}
	if _, builtin := e.info.Uses[id].(*types.Builtin); !builtin || id.Name != "min" && id.Name != "max" {
		return
	}
	name := map[string]string{"min": "Min", "max": "Max"}[id.Name]
	first, second := e.add(n, "always the first"), e.add(n, "always the second")
	e.edit(e.offset(n.Pos()), len(id.Name), "soloistChange."+name, false)
	e.edit(e.offset(n.Lparen), 1, fmt.Sprintf("(%d, %d, ", first, second), false)
}

// fields leaves fields of a struct at their zero values.
func (e *editor) fields(n *ast.CompositeLit) {
	if _, ok := e.info.Types[n].Type.Underlying().(*types.Struct); !ok {
		return
	}
	for _, x := range n.Elts {
		field, ok := x.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		tv := e.info.Types[field.Value]
		if tv.Value != nil || tv.IsNil() {
			continue
		}
		switch t := tv.Type.Underlying().(type) {
		case *types.Basic:
			if t.Info()&types.IsUntyped != 0 {
				continue
			}
		case *types.Struct, *types.Slice, *types.Array:
		default: // without a function, a channel or a pointer the program only crashes
			continue
		}
		e.wrap(field.Value, fmt.Sprintf("soloistChange.Zero(%d, ", e.add(field, "zero")), ")")
	}
}
