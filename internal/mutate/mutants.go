package mutate

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// Mutant is one small way to break a source.
type Mutant struct {
	// Line is where, and Operator how, by name.
	Line     int
	Operator string
	// From is replaced by To at Offset, in bytes.
	Offset   int
	From, To string
}

// Apply returns the broken source.
func (m Mutant) Apply(source []byte) []byte {
	return []byte(string(source[:m.Offset]) + m.To + string(source[m.Offset+len(m.From):]))
}

// String shows the mutant on one line.
func (m Mutant) String() string {
	return fmt.Sprintf("%s: %s => %s", m.Operator, oneLine(m.From), oneLine(m.To))
}

func oneLine(s string) string {
	return fmt.Sprintf("%.80q", strings.Join(strings.Fields(s), " "))
}

// swaps are the operators that take each other's place.
var swaps = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.EQL: token.NEQ, token.NEQ: token.EQL, token.LAND: token.LOR, token.LOR: token.LAND,
	token.ADD: token.SUB, token.SUB: token.ADD,
}

// Of returns every mutant of a source, in its order. What types there are is not
// known here, so some do not compile. What is the text of a message or a constant
// of the wire is left alone, and so are declarations, values beside an error, how much
// room is made beforehand, and in how many bits a number is to be read.
func Of(source []byte) ([]Mutant, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "", source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	f := finder{source: source, file: files.File(file.FileStart), void: map[ast.Expr]bool{}}
	for _, d := range file.Decls {
		if function, ok := d.(*ast.FuncDecl); ok && function.Body != nil {
			ast.Inspect(function.Body, f.visit)
		}
	}
	return f.found, nil
}

type finder struct {
	source []byte
	file   *token.File
	found  []Mutant
	// void are values that stand beside an error, where nobody looks at them, and sizes
	// that change nothing.
	void map[ast.Expr]bool
}

// add notes that what stands from pos to end may be replaced by to.
func (f *finder) add(operator string, pos, end token.Pos, to string) {
	at := f.file.Offset(pos)
	f.found = append(f.found, Mutant{Line: f.file.Line(pos), Operator: operator, Offset: at, From: string(f.source[at:f.file.Offset(end)]), To: to})
}

func (f *finder) text(n ast.Node) string {
	return string(f.source[f.file.Offset(n.Pos()):f.file.Offset(n.End())])
}

func (f *finder) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.IfStmt:
		f.add("negate", n.Cond.Pos(), n.Cond.End(), "!("+f.text(n.Cond)+")")
		if f.text(n.Cond) == "err != nil" {
			f.failing(n.Body.List)
		}
	case *ast.ForStmt:
		if n.Cond != nil {
			f.add("negate", n.Cond.Pos(), n.Cond.End(), "!("+f.text(n.Cond)+")")
		}
	case *ast.CallExpr:
		if size := f.size(n); size != nil {
			f.void[size] = true
		}
	case *ast.ArrayType:
		f.void[n.Len] = true
	case *ast.BinaryExpr:
		if f.void[n] {
			return false
		}
		f.binary(n)
	case *ast.UnaryExpr:
		if n.Op == token.NOT {
			f.add("drop !", n.Pos(), n.End(), f.text(n.X))
		}
	case *ast.BasicLit:
		f.number(n)
	case *ast.Ident:
		f.boolean(n)
	case *ast.ReturnStmt:
		f.results(n)
	case *ast.CaseClause:
		if len(n.Body) > 0 {
			f.add("empty case", n.Body[0].Pos(), n.Body[len(n.Body)-1].End(), "")
		}
	case *ast.BlockStmt:
		f.statements(n.List)
	}
	if clause, ok := n.(*ast.CaseClause); ok && len(clause.Body) > 1 {
		f.statements(clause.Body)
	}
	return true
}

// size is the argument of a call that changes at most how much memory it takes, or
// which numbers are too large; nil if it has none.
func (f *finder) size(n *ast.CallExpr) ast.Expr {
	if len(n.Args) < 2 {
		return nil
	}
	last := n.Args[len(n.Args)-1]
	switch name := f.text(n.Fun); {
	case name == "make":
		_, isMap := n.Args[0].(*ast.MapType)
		if isMap || len(n.Args) == 3 {
			return last
		}
	case strings.HasPrefix(name, "strconv.Parse"):
		return last
	}
	return nil
}

func (f *finder) binary(n *ast.BinaryExpr) {
	if to, ok := swaps[n.Op]; ok && !isText(n.X) && !isText(n.Y) {
		f.add("operator", n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), to.String())
	}
	if n.Op == token.LAND || n.Op == token.LOR {
		f.add("drop clause", n.Pos(), n.End(), f.text(n.X))
		f.add("drop clause", n.Pos(), n.End(), f.text(n.Y))
	}
}

func (f *finder) number(n *ast.BasicLit) {
	if n.Kind != token.INT || f.void[n] {
		return
	}
	f.add("plus 1", n.Pos(), n.End(), "("+n.Value+" + 1)")
	if v, err := strconv.ParseInt(n.Value, 0, 64); err == nil && v > 0 {
		f.add("minus 1", n.Pos(), n.End(), "("+n.Value+" - 1)")
	}
}

func (f *finder) boolean(n *ast.Ident) {
	if f.void[n] {
		return
	}
	switch n.Name {
	case "true":
		f.add("bool", n.Pos(), n.End(), "false")
	case "false":
		f.add("bool", n.Pos(), n.End(), "true")
	}
}

// results turns what is returned into its contrary: conditions, and errors into
// none.
func (f *finder) results(n *ast.ReturnStmt) {
	if len(n.Results) > 1 && f.makesError(n.Results[len(n.Results)-1]) {
		f.beside(n)
	}
	for _, r := range n.Results {
		switch r := r.(type) {
		case *ast.BinaryExpr:
			if r.Op == token.LAND || r.Op == token.LOR {
				f.add("negate", r.Pos(), r.End(), "!("+f.text(r)+")")
			}
		case *ast.Ident:
			if r.Name == "err" {
				f.add("return nil", r.Pos(), r.End(), "nil")
			}
		case *ast.CallExpr:
			if f.makesError(r) {
				f.add("return nil", r.Pos(), r.End(), "nil")
			}
		}
	}
}

// makesError tells whether an expression is an error in any case.
func (f *finder) makesError(x ast.Expr) bool {
	call, ok := x.(*ast.CallExpr)
	return ok && (f.text(call.Fun) == "fmt.Errorf" || f.text(call.Fun) == "errors.New")
}

// failing is what is done where err is not nil.
func (f *finder) failing(list []ast.Stmt) {
	for _, s := range list {
		if r, ok := s.(*ast.ReturnStmt); ok && len(r.Results) > 1 && f.text(r.Results[len(r.Results)-1]) == "err" {
			f.beside(r)
		}
	}
}

func (f *finder) beside(n *ast.ReturnStmt) {
	for _, r := range n.Results[:len(n.Results)-1] {
		f.void[r] = true
	}
}

// isText tells whether an operand of + is a literal string, of which there is no -.
func isText(x ast.Expr) bool {
	l, ok := x.(*ast.BasicLit)
	return ok && l.Kind == token.STRING
}

// aside are the methods whose calls decide nothing: what is logged, and locks,
// which only the race detector misses.
var aside = []string{"Debug", "Info", "Warn", "Error", "Log", "LogAttrs", "Lock", "Unlock", "RLock", "RUnlock"}

func isAside(s ast.Stmt) bool {
	var call *ast.CallExpr
	switch s := s.(type) {
	case *ast.ExprStmt:
		call, _ = s.X.(*ast.CallExpr)
	case *ast.DeferStmt:
		call = s.Call
	}
	if call == nil {
		return false
	}
	method, ok := call.Fun.(*ast.SelectorExpr)
	return ok && slices.Contains(aside, method.Sel.Name)
}

// statements removes those that can be missing.
func (f *finder) statements(list []ast.Stmt) {
	for _, s := range list {
		if isAside(s) {
			continue
		}
		switch s := s.(type) {
		case *ast.AssignStmt:
			if s.Tok != token.DEFINE {
				f.add("remove", s.Pos(), s.End(), "")
			}
		case *ast.ReturnStmt:
			if len(s.Results) == 0 {
				f.add("remove", s.Pos(), s.End(), "")
			}
		case *ast.ExprStmt, *ast.IncDecStmt, *ast.DeferStmt, *ast.SendStmt, *ast.BranchStmt, *ast.IfStmt, *ast.RangeStmt:
			f.add("remove", s.Pos(), s.End(), "")
		}
	}
}
