package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// listedPackage is one package of go list.
type listedPackage struct {
	ImportPath, Dir, Export            string
	DepOnly                            bool
	Module                             struct{ Path string }
	GoFiles, TestGoFiles, XTestGoFiles []string
}

// load lists the packages of the workspace. The importer reads them and their imports as compiled.
func load() (listed []listedPackage, imports types.Importer, err error) {
	cmd := exec.Command("go", "list", "-export", "-deps", "-json", "./...", "./cri/streams/...", "./examples/...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, nil, fmt.Errorf("go list: %w", err)
	}
	exports, decoder := map[string]string{}, json.NewDecoder(strings.NewReader(string(out)))
	for decoder.More() {
		var l listedPackage
		if err := decoder.Decode(&l); err != nil {
			return nil, nil, fmt.Errorf("go list: %w", err)
		}
		exports[l.ImportPath] = l.Export
		if !l.DepOnly {
			listed = append(listed, l)
		}
	}
	open := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	return listed, importer.ForCompiler(token.NewFileSet(), "gc", open), nil
}

// users are the kinds of code that set a field.
type users struct{ product, tests bool }

// fieldUsers returns the users of each struct field, without the field's own package. The tests of
// that package count only in files of Examples (example*_test.go).
func fieldUsers(listed []listedPackage, imports types.Importer) map[*types.Var]users {
	found := map[*types.Var]users{}
	for _, l := range listed {
		set := func(file string, field *types.Var) {
			if field.Pkg().Path() != l.ImportPath || strings.HasPrefix(file, "example") {
				by, isTest := found[field], strings.HasSuffix(file, "_test.go")
				found[field] = users{product: by.product || !isTest, tests: by.tests || isTest}
			}
		}
		setFields(l.Dir, append(l.GoFiles, l.TestGoFiles...), imports, set)
		setFields(l.Dir, l.XTestGoFiles, imports, set)
	}
	return found
}

// setFields calls set for each field of an imported struct that a file sets: by name in a literal, by
// an assignment, or through its address. Imports of tests may be missing, so it ignores type errors.
func setFields(dir string, names []string, imports types.Importer, set func(file string, field *types.Var)) {
	files, fileSet := make([]*ast.File, len(names)), token.NewFileSet()
	for i, name := range names {
		files[i], _ = parser.ParseFile(fileSet, filepath.Join(dir, name), nil, parser.SkipObjectResolution)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	_, _ = (&types.Config{Importer: imports, Error: func(error) {}}).Check("checked", fileSet, files, info)
	for i, file := range files {
		ast.Inspect(file, func(node ast.Node) bool {
			for _, name := range targets(node) {
				if field, ok := info.Uses[name].(*types.Var); ok && field.IsField() {
					set(names[i], field)
				}
			}
			return true
		})
	}
}

// targets returns the names that a node sets, such as a, b and c of x.a.b[0].c = 1.
func targets(node ast.Node) (names []*ast.Ident) {
	var paths []ast.Expr
	switch node := node.(type) {
	case *ast.KeyValueExpr:
		if key, ok := node.Key.(*ast.Ident); ok {
			names = append(names, key)
		}
	case *ast.AssignStmt:
		paths = node.Lhs
	case *ast.UnaryExpr:
		if node.Op == token.AND {
			paths = append(paths, node.X)
		}
	}
	for _, path := range paths {
		for path != nil {
			switch at := path.(type) {
			case *ast.SelectorExpr:
				names = append(names, at.Sel)
				path = at.X
			case *ast.IndexExpr:
				path = at.X
			default:
				path = nil
			}
		}
	}
	return names
}
