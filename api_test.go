package podwright_test

import (
	"flag"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// nextAPI lists the exported API of the tree. A release copies it to api/VERSION.txt.
const nextAPI = "api/next.txt"

var update = flag.Bool("update", false, "rewrite "+nextAPI)

// The exported API of each public package is in api/next.txt, and each change since the newest
// release is in the section Unreleased of the changelog.
func TestAPI(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the API is listed for Linux")
	}
	moduleCache(t)
	tree := slices.Sorted(slices.Values(append(exportedAPI(t, "."), exportedAPI(t, "cri/streams")...)))
	if *update {
		require.NoError(t, os.WriteFile(nextAPI, []byte(strings.Join(tree, "\n")+"\n"), 0o644))
	}
	removed, added := difference(lines(t, nextAPI), tree)
	if len(removed)+len(added) > 0 {
		t.Fatalf("The exported API differs from %s:\n%s%s\nRun\n\n\tgo test -run '^TestAPI$' . -update\n\nand describe the change in CHANGELOG.md.",
			nextAPI, marked("- ", removed), marked("+ ", added))
	}
	if base := newestRelease(t); base != "" {
		for _, name := range undescribed(lines(t, base), tree, unreleased(t)) {
			t.Errorf("CHANGELOG.md: the section Unreleased does not contain %s, which differs from %s", name, base)
		}
	}
}

// The changelog must contain the name of each break and of each new package, type or function.
func TestChangelogDescribesChanges(t *testing.T) {
	before := []string{"pkg a, func Old()", "pkg a, method (*T) Run() error", "pkg a, type T struct", "pkg a, type T struct, F int", "pkg z, type S struct", "pkg z, type S struct, F int"}
	after := []string{"pkg a, type I interface { M }", "pkg a, type I interface, M()", "pkg a, type T struct", "pkg a, type T struct, F string", "pkg a, type T struct, G int", "pkg b/c, type U struct, F int"}
	for text, want := range map[string][]string{
		"":                                      {"a.I", "a.Old", "a.T", "a.T.F", "a.T.Run", "b/c", "z"},
		"removed: `a.Old`, z; new: a.In, ab/c":  {"a.I", "a.T", "a.T.F", "a.T.Run", "b/c"},
		"a.Old a.T.F a.T.Run, z: new `b/c` a.I": nil,
		"a.T has G. a.I, b/c are new":           {"a.Old", "a.T.F", "a.T.Run", "z"},
	} {
		require.Equal(t, want, undescribed(before, after, text), text)
	}
}

// exportedAPI returns the exported API of a module: one line for each name, field and method.
func exportedAPI(t *testing.T, folder string) (out []string) {
	files, own := map[string]string{}, []string(nil)
	for _, line := range list(t, folder, "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}} {{.Name}} {{with .Module}}{{.Main}}{{end}}", "./...") {
		f := strings.Split(line, " ")
		files[f[0]] = f[1]
		if f[2] != "main" && f[3] == "true" && !strings.Contains(f[0]+"/", "/internal/") {
			own = append(own, f[0])
		}
	}
	imports := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(files[path]) })
	for _, path := range own {
		pkg, err := imports.Import(path)
		require.NoError(t, err)
		l := lister{pkg: pkg, prefix: "pkg " + short(path) + ", "}
		for _, name := range pkg.Scope().Names() {
			if token.IsExported(name) {
				l.object(pkg.Scope().Lookup(name))
			}
		}
		out = append(out, l.out...)
	}
	return out
}

// short returns a package path without the module, and "podwright" for the root.
func short(path string) string {
	if path == module {
		return "podwright"
	}
	return strings.TrimPrefix(path, module+"/")
}

// lister writes the lines of one package.
type lister struct {
	pkg    *types.Package
	prefix string
	out    []string
}

func (l *lister) add(format string, args ...any) {
	l.out = append(l.out, l.prefix+fmt.Sprintf(format, args...))
}

// text returns a type without the names of parameters. Types of other packages have their path.
func (l *lister) text(t types.Type) string {
	return types.TypeString(unnamed(t), func(p *types.Package) string {
		if p == l.pkg {
			return ""
		}
		return short(p.Path())
	})
}

// call returns the parameters and results of a function.
func (l *lister) call(s *types.Signature) string {
	var params []string
	for p := range s.TypeParams().TypeParams() {
		params = append(params, p.String()+" "+l.text(p.Constraint()))
	}
	text := strings.TrimPrefix(l.text(s), "func")
	if params != nil {
		text = "[" + strings.Join(params, ", ") + "]" + text
	}
	return text
}

func (l *lister) object(o types.Object) {
	switch o := o.(type) {
	case *types.Const:
		l.add("const %s %s = %s", o.Name(), l.text(o.Type()), o.Val().ExactString())
	case *types.Var:
		l.add("var %s %s", o.Name(), l.text(o.Type()))
	case *types.Func:
		l.add("func %s%s", o.Name(), l.call(o.Signature()))
	case *types.TypeName:
		name := o.Name()
		if o.IsAlias() {
			l.add("type %s = %s", name, l.text(types.Unalias(o.Type())))
			named, ok := types.Unalias(o.Type()).(*types.Named)
			if !ok || !strings.Contains(named.Obj().Pkg().Path(), "/internal/") {
				return
			}
		}
		l.members(name, types.Unalias(o.Type()))
	}
}

// members adds the lines of a type's fields and methods.
func (l *lister) members(name string, t types.Type) {
	switch u := t.Underlying().(type) {
	case *types.Struct:
		l.add("type %s struct", name)
		l.fields(name, u)
	case *types.Interface:
		var methods []string
		for m := range u.Methods() {
			if m.Exported() {
				methods = append(methods, m.Name())
				l.add("type %s interface, %s%s", name, m.Name(), l.call(m.Signature()))
			} else if !slices.Contains(methods, "unexported methods") {
				methods = append(methods, "unexported methods")
			}
		}
		l.add("type %s interface { %s }", name, strings.Join(methods, ", "))
		return
	default:
		l.add("type %s %s", name, l.text(u))
	}
	value := types.NewMethodSet(t)
	for m := range types.NewMethodSet(types.NewPointer(t)).Methods() {
		if !m.Obj().Exported() || throughExported(t, m.Index()) {
			continue
		}
		receiver := "*" + name
		if value.Lookup(l.pkg, m.Obj().Name()) != nil {
			receiver = name
		}
		l.add("method (%s) %s%s", receiver, m.Obj().Name(), l.call(m.Obj().(*types.Func).Signature()))
	}
}

func (l *lister) fields(name string, s *types.Struct) {
	for i := range s.NumFields() {
		f, tag := s.Field(i), ""
		if s.Tag(i) != "" {
			tag = " `" + s.Tag(i) + "`"
		}
		inner, isStruct := f.Type().Underlying().(*types.Struct)
		switch {
		case f.Exported() && f.Embedded():
			l.add("type %s struct, embedded %s%s", name, l.text(f.Type()), tag)
		case f.Exported():
			l.add("type %s struct, %s %s%s", name, f.Name(), l.text(f.Type()), tag)
		case f.Embedded() && isStruct:
			l.fields(name, inner)
		}
	}
}

// throughExported reports whether a method belongs to an exported embedded field, which has a line.
func throughExported(t types.Type, index []int) bool {
	s, ok := t.Underlying().(*types.Struct)
	return ok && len(index) > 1 && s.Field(index[0]).Exported()
}

// unnamed returns a type whose functions have parameters without names.
func unnamed(t types.Type) types.Type {
	switch t := t.(type) {
	case *types.Signature:
		return types.NewSignatureType(nil, nil, nil, unnamedAll(t.Params()), unnamedAll(t.Results()), t.Variadic())
	case *types.Pointer:
		return types.NewPointer(unnamed(t.Elem()))
	case *types.Slice:
		return types.NewSlice(unnamed(t.Elem()))
	case *types.Map:
		return types.NewMap(t.Key(), unnamed(t.Elem()))
	}
	return t
}

func unnamedAll(vars *types.Tuple) *types.Tuple {
	var out []*types.Var
	for v := range vars.Variables() {
		out = append(out, types.NewParam(token.NoPos, nil, "", unnamed(v.Type())))
	}
	return types.NewTuple(out...)
}

// difference returns the lines that only one of two sorted lists has.
func difference(before, after []string) (removed, added []string) {
	only := func(a, b []string) (out []string) {
		for _, line := range a {
			if _, ok := slices.BinarySearch(b, line); !ok {
				out = append(out, line)
			}
		}
		return out
	}
	return only(before, after), only(after, before)
}

func lines(t *testing.T, file string) []string {
	return strings.Split(strings.TrimSpace(read(t, file)), "\n")
}

func marked(mark string, lines []string) string {
	var out strings.Builder
	for _, line := range lines {
		fmt.Fprintln(&out, mark+line)
	}
	return out.String()
}

// undescribed returns the names that a changelog lacks. An addition needs the name of its package,
// or of its type or function, a break the full name, and a removed package or type only its own.
func undescribed(before, after []string, changelog string) []string {
	removed, added := difference(before, after)
	var missing []string
	need := func(line string, others []string, depth int) {
		names := namesOf(line)
		names = names[:min(depth, len(names))]
		name := names[len(names)-1]
		for _, n := range slices.Backward(names) {
			if !slices.ContainsFunc(others, func(line string) bool { return slices.Contains(namesOf(line), n) }) {
				name = n
			}
		}
		if !regexp.MustCompile(`(^|[^\w/.])` + regexp.QuoteMeta(name) + `($|[^\w/])`).MatchString(changelog) {
			missing = append(missing, name)
		}
	}
	for _, line := range removed {
		need(line, after, 3)
	}
	for _, line := range added {
		need(line, before, 2)
	}
	slices.Sort(missing)
	return slices.Compact(missing)
}

var apiLine = regexp.MustCompile(`^pkg ([^,]+), (?:const|func|var|type|method) \(?\*?(\w+)(?:(?: struct,(?: embedded)?| interface,|\)) ([\w./*]+))?`)

// namesOf returns the package of a line, the name in it, and the field or method: a, a.T, a.T.F.
func namesOf(line string) []string {
	m := apiLine.FindStringSubmatch(line)
	names := []string{m[1], m[1] + "." + m[2]}
	if m[3] != "" {
		names = append(names, names[1]+"."+m[3])
	}
	return names
}

// newestRelease returns the file with the API of the newest release, or "".
func newestRelease(t *testing.T) (newest string) {
	files, err := filepath.Glob("api/v*.txt")
	require.NoError(t, err)
	number := func(file string) []int {
		n := make([]int, 3)
		_, err := fmt.Sscanf(filepath.Base(file), "v%d.%d.%d.txt", &n[0], &n[1], &n[2])
		require.NoError(t, err, file)
		return n
	}
	for _, file := range files {
		if newest == "" || slices.Compare(number(file), number(newest)) > 0 {
			newest = file
		}
	}
	return newest
}

// unreleased returns the changelog's first section.
func unreleased(t *testing.T) string {
	_, text, ok := strings.Cut(read(t, "CHANGELOG.md"), "\n## [Unreleased]\n")
	require.True(t, ok)
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}
