package podwright_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// unconventional are the deliberate exceptions of TestConventions, each with its reason.
var unconventional = map[string]string{
	"syncloop/eviction: callback Config.Event":    "it records a Kubernetes event, with annotations",
	"syncloop: callback HandlerConfig.Prune":      "it removes containers",
	"syncloop/admission: callback Config.Preempt": "it ends pods",

	"internal/run: exec.CommandContext instead of run.Command":           "it is in run.Command",
	"internal/testkit/child: exec.CommandContext instead of run.Command": "it runs a test binary",

	"examples/kubelet/node: log key uid instead of podUID": "it is the UID of a Node",
}

// explanation is the result of each Explain method.
const explanation = "[]podwright.Explanation"

// logKeys are the wrong keys of log lines, with the right ones.
var logKeys = map[string]string{
	"uid": "podUID", "UID": "podUID", "podUid": "podUID", "podName": "pod", "podNamespace": "pod",
	"containerName": "container", "error": "err",
}

// TestConventions checks rule 12 of the design in this module: callbacks of a Config or Metrics
// are named On..., each Explain returns the same type, product code does not panic, programs end
// with their children, and log lines about pods have the keys pod (namespace/name), podUID,
// container, err. In the examples it checks the programs, without
// the tools, and the log lines only.
func TestConventions(t *testing.T) {
	found := map[string]bool{}
	for dir, files := range sources(t) {
		example := strings.HasPrefix(dir, "examples/")
		report := func(format string, args ...any) { found[dir+": "+fmt.Sprintf(format, args...)] = true }
		for _, f := range files {
			ast.Inspect(f, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					checkLog(call, report)
				}
				return true
			})
			if !strings.HasPrefix(dir, "examples/tools") {
				for _, d := range f.Decls {
					checkProgram(d, report)
				}
			}
			if example {
				continue
			}
			for _, d := range f.Decls {
				checkTypes(d, report)
				if f, ok := d.(*ast.FuncDecl); ok {
					checkExplain(f, report)
					checkPanic(f, report)
				}
			}
		}
	}
	for _, s := range slices.Sorted(maps.Keys(found)) {
		if unconventional[s] == "" {
			t.Error(s)
		}
	}
	for s := range unconventional {
		require.True(t, found[s], "an exception without a case: %s", s)
	}
}

// sources parses the files of this module and of the examples by folder, apart from tests and packages for tests.
func sources(t *testing.T) map[string][]*ast.File {
	out := map[string][]*ast.File{}
	require.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch _, noModule := os.Stat(filepath.Join(path, "go.mod")); {
		case err != nil:
			return err
		case d.IsDir() && path != "." && path != "examples" && (noModule == nil || d.Name() == ".git" || d.Name() == "testdata" || strings.HasSuffix(d.Name(), "test")):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		dir := filepath.ToSlash(filepath.Dir(path))
		out[dir] = append(out[dir], f)
		return err
	}))
	return out
}

// checkTypes reports callbacks with other names than On....
func checkTypes(d ast.Decl, report func(string, ...any)) {
	g, ok := d.(*ast.GenDecl)
	if !ok || g.Tok != token.TYPE {
		return
	}
	for _, spec := range g.Specs {
		spec := spec.(*ast.TypeSpec)
		s, ok := spec.Type.(*ast.StructType)
		if !ok || !spec.Name.IsExported() || !strings.HasSuffix(spec.Name.Name, "Config") && !strings.HasSuffix(spec.Name.Name, "Metrics") {
			continue
		}
		for _, field := range s.Fields.List {
			f, ok := field.Type.(*ast.FuncType)
			for _, name := range field.Names {
				if ok && f.Results == nil && name.IsExported() && !strings.HasPrefix(name.Name, "On") {
					report("callback %s.%s", spec.Name, name)
				}
			}
		}
	}
}

// checkExplain reports an Explain method with a result of another type.
func checkExplain(f *ast.FuncDecl, report func(string, ...any)) {
	if f.Recv == nil || f.Name.Name != "Explain" || f.Type.Results == nil {
		return
	}
	if got := types.ExprString(f.Type.Results.List[0].Type); got != explanation {
		report("Explain of %s returns %s", strings.TrimPrefix(types.ExprString(f.Recv.List[0].Type), "*"), got)
	}
}

// checkPanic reports a function that panics.
func checkPanic(f *ast.FuncDecl, report func(string, ...any)) {
	ast.Inspect(f, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && types.ExprString(call.Fun) == "panic" {
			report("panic in %s", f.Name)
		}
		return true
	})
}

// checkProgram reports a function that starts a program whose children outlive the context.
func checkProgram(d ast.Decl, report func(string, ...any)) {
	ast.Inspect(d, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && strings.HasSuffix(types.ExprString(call.Fun), "exec.CommandContext") {
			report("exec.CommandContext instead of run.Command")
		}
		return true
	})
}

// checkLog reports wrong keys of a log line, and a value of pod without its namespace.
func checkLog(call *ast.CallExpr, report func(string, ...any)) {
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return
	}
	switch name := strings.TrimSuffix(s.Sel.Name, "Context"); {
	case slices.Contains([]string{"Debug", "Info", "Warn", "Error", "Log", "With"}, name), strings.HasPrefix(name, "log"):
	case types.ExprString(s.X) == "slog": // an attribute
	default:
		return
	}
	for i, arg := range call.Args {
		key, ok := arg.(*ast.BasicLit)
		if !ok || i+1 == len(call.Args) {
			continue
		}
		text, _ := strconv.Unquote(key.Value)
		if right := logKeys[text]; right != "" {
			report("log key %s instead of %s", text, right)
		}
		if value := types.ExprString(call.Args[i+1]); text == "pod" && strings.HasSuffix(value, ".Name") && !strings.Contains(value, "Namespace") {
			report("log key pod has the value %s, without a namespace", value)
		}
	}
}
