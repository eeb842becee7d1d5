package podwright_test

import (
	"os"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The README's first use of the library is the Example that compiles.
func TestReadmeShowsTheExample(t *testing.T) {
	readme, source := read(t, "README.md"), read(t, "example_test.go")
	_, code, ok := strings.Cut(source, "// A lamp is a pod")
	require.True(t, ok)
	require.Contains(t, readme, "```go\n// A lamp is a pod"+strings.TrimRight(code, "\n")+"\n```")
}

// The README's test command is the one that CI uses, and CI covers every module.
func TestReadmeCommands(t *testing.T) {
	readme, ci, work := read(t, "README.md"), read(t, ".ci/run"), read(t, "go.work")
	const test = "go run ./examples/testbed -all"
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

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}
