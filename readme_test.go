package podwright_test

import (
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// The Go code of the README is the Example of this package.
func TestReadmeShowsTheExample(t *testing.T) {
	readme, source := read(t, "README.md"), read(t, "example_test.go")
	_, code, ok := strings.Cut(source, "// lamp is a PodSyncer")
	require.True(t, ok)
	require.Contains(t, readme, "```go\n// lamp is a PodSyncer"+strings.TrimRight(code, "\n")+"\n```")
}

// The README has the test command of CI, and CI covers every module.
func TestReadmeCommands(t *testing.T) {
	readme, ci, work := read(t, "README.md"), read(t, ".ci/run"), read(t, "go.work")
	const test = "go run ./examples/tools/testbed -all"
	require.Contains(t, readme, "\n"+test+"\n")
	require.Contains(t, ci, "\n"+test+"\n")
	for _, check := range []string{"vet", "staticcheck@"} {
		require.Regexp(t, "(?m)^go .*"+check+".* work$", ci)
	}

	_, tidied, _ := strings.Cut(ci, "for module in ")
	tidied, _, _ = strings.Cut(tidied, ";")
	_, used, _ := strings.Cut(work, "use (")
	modules := strings.Fields(strings.TrimSuffix(strings.TrimSpace(used), ")"))
	require.NotEmpty(t, modules)
	for _, module := range modules {
		require.Contains(t, strings.Fields(tidied), path.Clean(module))
	}
}

// Each Go file and package that the page about the architecture names exists.
func TestArchitectureNamesFiles(t *testing.T) {
	names := regexp.MustCompile("`([a-z][a-z0-9_]*(?:/[a-z0-9_]+)+(?:\\.go)?)`").FindAllStringSubmatch(read(t, "docs/architecture.md"), -1)
	require.NotEmpty(t, names)
	for _, name := range names {
		_, err := os.Stat(filepath.FromSlash(name[1]))
		require.NoError(t, err)
	}
}

// Each relative link of the README and the pages of docs leads to a file and a heading.
func TestLinksResolve(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^):]+)\)`)
	for _, page := range pages(t) {
		for _, found := range link.FindAllStringSubmatch(read(t, page), -1) {
			file, anchor, _ := strings.Cut(found[1], "#")
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), file)
			}
			_, err := os.Stat(target)
			require.NoError(t, err, "%s links to %s", page, found[1])
			if anchor != "" {
				require.Contains(t, anchors(read(t, target)), anchor, "%s links to %s", page, found[1])
			}
		}
	}
}

// anchors returns the anchors of a page's headings, as GitHub makes them.
func anchors(text string) (out []string) {
	other := regexp.MustCompile(`[^a-z0-9 -]`)
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		out = append(out, strings.ReplaceAll(other.ReplaceAllString(strings.ToLower(heading[1]), ""), " ", "-"))
	}
	return out
}

// Each line of Go in docs/testing-your-agent.md is in a file that its section links to.
func TestTestKitsShowCompiledCode(t *testing.T) {
	sections := strings.Split(read(t, "docs/testing-your-agent.md"), "\n## ")[1:]
	require.NotEmpty(t, sections)
	for _, section := range sections {
		text, code, ok := strings.Cut(section, "```go\n")
		require.True(t, ok, section)
		code, _, _ = strings.Cut(code, "```")
		var source strings.Builder
		for _, link := range regexp.MustCompile(`\]\(\.\./([^)]+_test\.go)\)`).FindAllStringSubmatch(text, -1) {
			source.WriteString(read(t, link[1]))
		}
		for line := range strings.Lines(code) {
			if line = strings.TrimSpace(line); !strings.HasPrefix(line, "// ...") {
				require.True(t, strings.Contains(source.String(), line), "no linked file has the line %q", line)
			}
		}
	}
}

// pages returns the README and the pages of docs.
func pages(t *testing.T) []string {
	t.Helper()
	docs, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	require.NotEmpty(t, docs)
	return append(docs, "README.md")
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}

// The documentation of a package names each of its examples, so that readers find compiled code.
// This holds in every module of the repository.
func TestDocsNameTheirExamples(t *testing.T) {
	docs, examples := map[string]string{}, map[string][]string{} // by folder
	require.NoError(t, filepath.WalkDir(".", func(file string, entry fs.DirEntry, err error) error {
		name := entry.Name()
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (name == "testdata" || len(name) > 1 && name[0] == '.'):
			return fs.SkipDir
		case entry.IsDir() || path.Ext(name) != ".go":
			return nil
		}
		folder, isTest := filepath.Dir(file), strings.HasSuffix(name, "_test.go")
		mode := parser.ParseComments | parser.SkipObjectResolution
		if !isTest {
			mode |= parser.PackageClauseOnly
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, mode)
		if err != nil {
			return err
		}
		if !isTest {
			docs[folder] += parsed.Doc.Text()
			return nil
		}
		for _, e := range doc.Examples(parsed) {
			examples[folder] = append(examples[folder], "Example"+e.Name)
		}
		return nil
	}))
	require.NotEmpty(t, examples)
	var missing []string
	for folder, names := range examples {
		for _, name := range names {
			if !regexp.MustCompile(`\b` + name + `\b`).MatchString(docs[folder]) {
				missing = append(missing, folder+": "+name)
			}
		}
	}
	require.Empty(t, missing, "the package comment names no such example")
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
