package mutate

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOf(t *testing.T) {
	const head = "package p\n\nfunc f() (bool, error) {\n"
	for name, c := range map[string]struct {
		body string
		want []string
	}{
		"condition": {"if a == b { g() }", []string{
			`remove: "if a == b { g() }" => ""`, `negate: "a == b" => "!(a == b)"`, `operator: "==" => "!="`, `remove: "g()" => ""`,
		}},
		"loop":     {"for a < b {}", []string{`negate: "a < b" => "!(a < b)"`, `operator: "<" => "<="`}},
		"clauses":  {"x := a && b", []string{`operator: "&&" => "||"`, `drop clause: "a && b" => "a"`, `drop clause: "a && b" => "b"`}},
		"not":      {"x := !a", []string{`drop !: "!a" => "a"`}},
		"constant": {"x := true", []string{`bool: "true" => "false"`}},
		"number":   {"x := 2", []string{`plus 1: "2" => "(2 + 1)"`, `minus 1: "2" => "(2 - 1)"`}},
		"zero":     {"x := 0", []string{`plus 1: "0" => "(0 + 1)"`}},
		"sum":      {"x := a + b", []string{`operator: "+" => "-"`}},
		"text":     {`x := a + "b"`, nil},
		"results":  {"return a || b, err", []string{`negate: "a || b" => "!(a || b)"`, `return nil: "err" => "nil"`, `operator: "||" => "&&"`, `drop clause: "a || b" => "a"`, `drop clause: "a || b" => "b"`}},
		"error":    {`return a, fmt.Errorf("b")`, []string{`return nil: "fmt.Errorf(\"b\")" => "nil"`}},
		"beside an error": {"if err != nil { return 0, err }\nreturn false, errors.New(\"b\")", []string{
			`remove: "if err != nil { return 0, err }" => ""`, `negate: "err != nil" => "!(err != nil)"`, `operator: "!=" => "=="`,
			`return nil: "err" => "nil"`, `return nil: "errors.New(\"b\")" => "nil"`,
		}},
		"beside what may be one": {"return true, err", []string{`return nil: "err" => "nil"`, `bool: "true" => "false"`}},
		"cases": {"switch a {\ncase b:\n g()\n h()\n}", []string{
			`empty case: "g() h()" => ""`, `remove: "g()" => ""`, `remove: "h()" => ""`,
		}},
		"statements": {"a = b\na++\nreturn", []string{`remove: "a = b" => ""`, `remove: "a++" => ""`, `remove: "return" => ""`}},
		"room":       {"x := make([]int, 2, 3 + n)\ny := make(map[int]int, 3)\nvar z [4]int", []string{`plus 1: "2" => "(2 + 1)"`, `minus 1: "2" => "(2 - 1)"`}},
		"bits":       {"x, err := strconv.ParseInt(a, 10, 64)", []string{`plus 1: "10" => "(10 + 1)"`, `minus 1: "10" => "(10 - 1)"`}},
		"aside":      {"mu.Lock()\ndefer mu.Unlock()\nlog.Warn(a)", nil},
		"function":   {"x := func() bool { return a && b }", []string{`negate: "a && b" => "!(a && b)"`, `operator: "&&" => "||"`, `drop clause: "a && b" => "a"`, `drop clause: "a && b" => "b"`}},
	} {
		t.Run(name, func(t *testing.T) {
			source := []byte(head + c.body + "\n}\n")
			found, err := Of(source)
			require.NoError(t, err)
			var got []string
			for _, m := range found {
				got = append(got, m.String())
				broken := string(m.Apply(source))
				require.Len(t, broken, len(source)-len(m.From)+len(m.To))
				require.Equal(t, m.Line, 1+strings.Count(broken[:m.Offset], "\n"))
			}
			require.Equal(t, c.want, got)
		})
	}
}

func TestOfNoSource(t *testing.T) {
	_, err := Of([]byte("package"))
	require.Error(t, err)
}

// placed are all mutants of a file, and some that are not drawn.
func placed(t *testing.T, file string, more ...Mutant) []Placed {
	source, err := os.ReadFile(file)
	require.NoError(t, err)
	found, err := Of(source)
	require.NoError(t, err)
	var all []Placed
	for _, m := range append(found, more...) {
		if m.Offset == 0 {
			m.Offset = strings.Index(string(source), m.From)
		}
		all = append(all, Placed{file, source, m})
	}
	return all
}

// Each of the mutants that are compiled at once runs when it is named, and none
// without a name. What does not compile is left out.
func TestCombine(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles")
	}
	const file = "testdata/tiny/tiny.go"
	all := placed(t, file,
		Mutant{From: "return steps", To: ""}, Mutant{From: "steps++", To: "steps + 1"}, Mutant{From: "return steps", To: "return -"}, // do not compile, as without the break and the bare return
		Mutant{From: "p.a, p.b = p.b, p.a", To: "p.b, p.a = p.a, p.b"}, // the same
	)
	compiling, err := Compiling(t.Context(), "testdata/tiny", t.TempDir(), all)
	require.NoError(t, err)
	require.Len(t, compiling, len(all)-5)
	sources, err := Combine(compiling)
	require.NoError(t, err)
	tests, err := Build(t.Context(), "testdata/tiny", t.TempDir(), sources)
	require.NoError(t, err)
	outcome, out, err := tests.Test(t.Context(), 0, Limits{})
	require.NoError(t, err)
	require.Equal(t, Survived, outcome, out)
	passing, err := tests.Passing(t.Context(), len(compiling), Limits{})
	require.NoError(t, err)
	for i, p := range compiling {
		require.Contains(t, []string{"^(TestCountdown)$", "^(TestSwap)$", "^(TestFirst)$"}, passing[i+1], p)
		outcome, out, err := tests.Test(t.Context(), i+1, Limits{CPU: 1, Run: passing[i+1]})
		require.NoError(t, err)
		same := p.To == "p.b, p.a = p.a, p.b"
		require.Equal(t, same, outcome == Survived, "%s: %s", p, out)
	}
}

func TestCombineNothing(t *testing.T) {
	_, err := Combine([]Placed{{File: "a.go", Source: []byte("package")}})
	require.Error(t, err)
	_, err = Combine([]Placed{{File: "a.go", Source: []byte("package p\n\nvar a = 1\n"), Mutant: Mutant{Offset: 19}}})
	require.ErrorContains(t, err, "a.go:0: ")
	sources, err := Combine(nil)
	require.NoError(t, err)
	require.Empty(t, sources)
}

// A package that does not compile without a mutant is no fault of one.
func TestCompilingNever(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("GOWORK", "off")
	require.NoError(t, os.WriteFile("go.mod", []byte("module m\n\ngo 1.26\n"), 0o600))
	require.NoError(t, os.WriteFile("a.go", []byte("package m\n\nfunc f() int { return 1 }\n\nvar a undefined\n"), 0o600))
	_, err := Compiling(t.Context(), ".", t.TempDir(), placed(t, "a.go"))
	require.ErrorIs(t, err, ErrBuild)
	require.ErrorContains(t, err, "a.go:5:7: undefined")
}

// The tests say whether they notice, also when they would not end or would take all
// memory, and what does not compile is told apart.
func TestTests(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles")
	}
	const file = "testdata/tiny/tiny.go"
	source, err := os.ReadFile(file)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		from, to string
		want     Outcome
		out      string
		cpu      int
		timeout  time.Duration
	}{
		"as it is": {"n > 0", "n > 0", Survived, "", 0, 0},
		"the same": {"n > 0", "n != 0", Survived, "", 0, 0},
		"noticed":  {"n > 0", "n > 1", Failed, "2 steps", 0, 0},
		"endless":  {"n--", "", Expired, "timed out", 0, time.Second},
		"busy":     {"n--", "", Expired, "signal: killed", 1, 0},
		"memory":   {"n--", "a := make([]byte, 1<<34); n -= len(a)", Failed, "out of memory", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			broken := strings.Replace(string(source), c.from, c.to, 1)
			tests, err := Build(t.Context(), "testdata/tiny", t.TempDir(), map[string][]byte{file: []byte(broken)})
			require.NoError(t, err)
			got, out, err := tests.Test(t.Context(), 0, Limits{CPU: c.cpu, Timeout: c.timeout})
			require.NoError(t, err)
			require.Equal(t, c.want, got, out)
			require.Contains(t, out, c.out)
		})
	}
	_, err = Build(t.Context(), "testdata/tiny", t.TempDir(), map[string][]byte{file: []byte("package")})
	require.ErrorIs(t, err, ErrBuild)
	_, err = Build(t.Context(), "testdata", t.TempDir(), nil)
	require.Error(t, err)
}
