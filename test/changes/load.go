package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// A listed package is one that the go command lists.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

// list returns what a package depends on, and the package itself, which is last.
func list(ctx context.Context, pattern string) ([]listed, error) {
	out, err := told(exec.CommandContext(ctx, "go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles", pattern))
	if err != nil {
		return nil, err
	}
	var all []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		switch err := d.Decode(&p); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, err
		}
		all = append(all, p)
	}
}

// A changed package is one whose changes can be made on demand.
type changed struct {
	sites   []site
	overlay string // the file for go build -overlay
}

// prepare rewrites a package into the directory temp. Positions are told from root.
func prepare(ctx context.Context, pattern, root, temp string) (changed, error) {
	all, err := list(ctx, pattern)
	if err != nil {
		return changed{}, err
	}
	exports := map[string]string{}
	for _, p := range all {
		exports[p.ImportPath] = p.Export
	}
	target := all[len(all)-1]
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range target.GoFiles {
		f, err := parser.ParseFile(fset, filepath.Join(target.Dir, name), nil, parser.ParseComments)
		if err != nil {
			return changed{}, err
		}
		files = append(files, f)
	}
	e := editor{fset: fset, root: root, info: &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}}}
	find := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	if _, err := (&types.Config{Importer: importer.ForCompiler(fset, "gc", find)}).Check(target.ImportPath, fset, files, e.info); err != nil {
		return changed{}, err
	}
	replace := map[string]string{}
	for i, f := range files {
		path := filepath.Join(target.Dir, target.GoFiles[i])
		src, err := os.ReadFile(path)
		if err != nil {
			return changed{}, err
		}
		replace[path] = filepath.Join(temp, strconv.Itoa(i)+".go")
		if err := os.WriteFile(replace[path], e.rewrite(f, src), 0o666); err != nil {
			return changed{}, err
		}
	}
	overlay := filepath.Join(temp, "overlay.json")
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err == nil {
		err = os.WriteFile(overlay, text, 0o666)
	}
	return changed{e.sites, overlay}, err
}
