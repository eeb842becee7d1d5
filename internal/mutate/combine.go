package mutate

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
)

// What the environment tells the tests: on which mutant they run, by its number, and into
// which file to write the numbers of those that they come by while they run on none.
const (
	variable  = "PODWRIGHT_MUTANT"
	passingBy = "PODWRIGHT_MUTANTS_PASSED"
)

// Placed is a mutant of a file.
type Placed struct {
	File   string
	Source []byte
	Mutant
}

// String shows the mutant and its place on one line.
func (p Placed) String() string {
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Mutant)
}

// Combine returns sources that hold all those mutants, to be compiled in the place
// of those they are of, by their names. The files are all of one package. A function
// begins with a broken copy of itself for each of its mutants, which runs instead of
// it when the environment names the mutant by its number, counted from 1.
func Combine(all []Placed) (map[string][]byte, error) {
	files := map[string]*combined{}
	sources := map[string][]byte{}
	for i, p := range all {
		if files[p.File] == nil {
			c, err := parse(p)
			if err != nil {
				return nil, err
			}
			files[p.File] = c
			sources[filepath.Join(filepath.Dir(p.File), "zz_mutant.go")] = selector(c.file.Name.Name, len(all))
		}
		if err := files[p.File].add(i+1, p.Mutant); err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
	}
	for name, c := range files {
		sources[name] = c.source()
	}
	return sources, nil
}

// selector is the source of what the broken copies of n mutants ask. The imports have names
// that the package does not have, and what is asked is short, to be compiled in place.
func selector(name string, n int) []byte {
	return fmt.Appendf(nil, `package %s

import (
	osOfMutants      "os"
	strconvOfMutants "strconv"
	atomicOfMutants  "sync/atomic"
)

var (
	activeMutant  = osOfMutants.Getenv(%q)
	fileOfMutants = osOfMutants.Getenv(%q)
	mutantsPassed [%d]atomicOfMutants.Bool
)

func isMutant(number int, name string) bool {
	if fileOfMutants != "" {
		passMutant(number)
	}
	return activeMutant == name
}

func passMutant(number int) {
	if mutantsPassed[number].Load() || mutantsPassed[number].Swap(true) {
		return
	}
	file, err := osOfMutants.OpenFile(fileOfMutants, osOfMutants.O_APPEND|osOfMutants.O_CREATE|osOfMutants.O_WRONLY, 0o600)
	if err == nil {
		_, err = file.WriteString(strconvOfMutants.Itoa(number) + "\n")
		file.Close()
	}
	if err != nil {
		panic(err)
	}
}
`, name, variable, passingBy, n+1)
}

// combined is a source to which copies are added, by the offset of the function's
// body.
type combined struct {
	name   string
	text   []byte
	set    *token.FileSet
	file   *ast.File
	copies map[int]string
}

func parse(p Placed) (*combined, error) {
	name, err := filepath.Abs(p.File)
	if err != nil {
		return nil, err
	}
	c := combined{name: name, text: p.Source, set: token.NewFileSet(), copies: map[int]string{}}
	c.file, err = parser.ParseFile(c.set, p.File, p.Source, parser.SkipObjectResolution)
	return &c, err
}

// add puts a copy before the body that the mutant is of. The compiler knows it by a
// name of its own, so that its errors tell of which mutant they are.
func (c *combined) add(number int, m Mutant) error {
	for _, d := range c.file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		begin, end := c.offset(f.Body.Lbrace)+1, c.offset(f.Body.Rbrace)
		if m.Offset < begin || m.Offset >= end {
			continue
		}
		broken, results := m.Apply(c.text), ""
		if f.Type.Results != nil {
			results = string(c.text[c.offset(f.Type.Results.Pos()):c.offset(f.Type.Results.End())])
		}
		call := fmt.Sprintf("func() %s {/*line mutant-%d:1:1*/%s\n}()", results, number, broken[begin:end+len(broken)-len(c.text)])
		if results == "" {
			call += "; return"
		} else {
			call = "return " + call
		}
		c.copies[begin] += fmt.Sprintf("\nif isMutant(%d, \"%d\") { %s }", number, number, call)
		return nil
	}
	return errors.New("is in no function")
}

func (c *combined) offset(p token.Pos) int { return c.set.Position(p).Offset }

// source is the text with the copies. What is no copy keeps its lines.
func (c *combined) source() []byte {
	var out bytes.Buffer
	file := c.set.File(c.file.FileStart)
	for i, b := range c.text {
		if added, ok := c.copies[i]; ok {
			at := file.Position(file.Pos(i))
			fmt.Fprintf(&out, "%s\n/*line %s:%d:%d*/", added, c.name, at.Line, at.Column)
		}
		out.WriteByte(b)
	}
	return out.Bytes()
}

var named = regexp.MustCompile(`\bmutant-(\d+):\d`)

// blamed returns the numbers of the mutants of which the compiler complains.
func blamed(out []byte) map[int]bool {
	numbers := map[int]bool{}
	for _, found := range named.FindAllSubmatch(out, -1) {
		n, _ := strconv.Atoi(string(found[1]))
		numbers[n] = true
	}
	return numbers
}
