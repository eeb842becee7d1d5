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

// A trial says whether the tests notice, also when they would not end or would
// take all memory, and tells apart what does not compile.
func TestTrial(t *testing.T) {
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
			trial := Trial{Package: "testdata/tiny", File: file, Source: []byte(broken), Dir: t.TempDir(), CPU: c.cpu, Timeout: c.timeout}
			got, out, err := trial.Test(t.Context())
			require.NoError(t, err)
			require.Equal(t, c.want, got, out)
			require.Contains(t, out, c.out)
		})
	}
	_, _, err = Trial{Package: "testdata/tiny", File: file, Source: []byte("package"), Dir: t.TempDir()}.Test(t.Context())
	require.ErrorIs(t, err, ErrBuild)
	_, _, err = Trial{Package: "testdata", Dir: t.TempDir()}.Test(t.Context())
	require.Error(t, err)
}
