package agent

import (
	"bufio"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// upstreamMessage is a row of testdata/upstream_messages.txt.
type upstreamMessage struct {
	row                       string
	reason, format, pkg, ours string
}

func upstreamMessages(t *testing.T) (rows []upstreamMessage) {
	file, err := os.Open("testdata/upstream_messages.txt")
	require.NoError(t, err)
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		line := lines.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		cells := strings.Split(line, " | ")
		require.Len(t, cells, 5, line)
		require.Contains(t, []string{"event", "waiting", "terminated", "condition", "failed"}, cells[0], line)
		rows = append(rows, upstreamMessage{row: line, reason: cells[1], format: cells[2], pkg: cells[3], ours: cells[4]})
	}
	require.NoError(t, lines.Err())
	return rows
}

// Reasons and texts that upstream's kubelet defines are the same here. Each difference is a row
// with its cause.
func TestUpstreamMessages(t *testing.T) {
	texts := map[string]map[string]bool{}
	for _, m := range upstreamMessages(t) {
		own, ok := texts[m.pkg]
		if !ok {
			own = map[string]bool{}
			for pkg := range strings.SplitSeq(m.pkg, ", ") {
				maps.Copy(own, textsOf(t, filepath.Join("..", "..", "..", pkg)))
			}
			texts[m.pkg] = own
		}
		class, why, _ := strings.Cut(m.ours, ": ")
		hasReason := m.reason == "-" || own[m.reason]
		hasFormat := m.format != "-" && own[shape(m.format)]
		switch class {
		case "=":
			if !hasReason {
				t.Errorf("package %s lacks the reason: %s", m.pkg, m.row)
			}
			if m.format != "-" && !hasFormat {
				t.Errorf("package %s lacks the format: %s", m.pkg, m.row)
			}
		case "different", "open", "none":
			if why == "" {
				t.Errorf("the difference lacks its cause: %s", m.row)
			}
			if class == "different" && !hasReason {
				t.Errorf("package %s lacks the reason: %s", m.pkg, m.row)
			}
			if hasFormat {
				t.Errorf("package %s has the format now, so the row must change: %s", m.pkg, m.row)
			}
		default:
			t.Errorf("unknown class %q: %s", class, m.row)
		}
	}
}

// Every row has a text of upstream, and every reason of upstream's list of events is in a row. The
// test needs upstream's sources in the module cache.
func TestUpstreamMessagesAreUpstream(t *testing.T) {
	cache, err := exec.Command("go", "env", "GOMODCACHE").Output()
	require.NoError(t, err)
	root := filepath.Join(strings.TrimSpace(string(cache)), "k8s.io", "kubernetes@v1.36.3", "pkg")
	if _, err := os.Stat(root); err != nil {
		t.Skip("the module cache lacks k8s.io/kubernetes@v1.36.3")
	}
	upstream := textsOf(t, filepath.Join(root, "..", "..", "cri-client@v0.36.3", "pkg"))
	for _, below := range []string{"kubelet", "probe", "volume", "scheduler/framework/plugins", "credentialprovider"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(root, below), func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				for text := range textsOf(t, path) {
					upstream[text] = true
				}
			}
			return err
		}))
	}
	reasons := map[string]bool{}
	for _, m := range upstreamMessages(t) {
		reasons[m.reason] = true
		if m.format != "-" && !upstream[shape(m.format)] {
			t.Errorf("upstream has no such format: %s", m.row)
		}
	}
	for reason := range textsOf(t, filepath.Join(root, "kubelet", "events")) {
		if regexp.MustCompile(`^[A-Z][A-Za-z]+$`).MatchString(reason) && !reasons[reason] {
			t.Errorf("no row has upstream's reason %s", reason)
		}
	}
}

var verb = regexp.MustCompile(`%[-+# 0]*[0-9.*]*([a-zA-Z])`)

// shape reduces the verbs of a format to their places. A quoted verb keeps its quotes.
func shape(format string) string {
	format = strings.ReplaceAll(format, "%%", "\x00")
	return verb.ReplaceAllStringFunc(format, func(v string) string {
		if strings.HasSuffix(v, "q") {
			return `"%"`
		}
		return "%"
	})
}

// textsOf returns the shapes of all texts of the package in a folder, without its tests: literals,
// constants, and concatenations with "%" for the variable parts.
func textsOf(t *testing.T, folder string) map[string]bool {
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	var files []*ast.File
	for _, entry := range entries {
		if name := entry.Name(); strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(folder, name), nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			files = append(files, file)
		}
	}
	constants := map[string]string{}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok {
				for i, value := range spec.Values {
					if text, ok := textOf(value, nil); ok && i < len(spec.Names) {
						constants[spec.Names[i].Name] = text
					}
				}
			}
			return true
		})
	}
	texts := map[string]bool{}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			if e, ok := n.(ast.Expr); ok {
				// A local variable may have the name of a constant.
				for _, names := range []map[string]string{constants, nil} {
					if text, ok := textOf(e, names); ok {
						texts[text] = true
					}
				}
			}
			return true
		})
	}
	return texts
}

// textOf returns the shape of an expression. It returns false for an expression without a literal.
func textOf(e ast.Expr, constants map[string]string) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return shape(text), e.Kind == token.STRING && err == nil
	case *ast.Ident:
		text, ok := constants[e.Name]
		return text, ok
	case *ast.ParenExpr:
		return textOf(e.X, constants)
	case *ast.BinaryExpr:
		left, isLeft := textOf(e.X, constants)
		right, isRight := textOf(e.Y, constants)
		if e.Op != token.ADD || !isLeft && !isRight {
			return "", false
		}
		if !isLeft {
			left = "%"
		}
		if !isRight {
			right = "%"
		}
		return left + right, true
	}
	return "", false
}
