package podwright_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The README's first use of the library is the Example that compiles.
func TestReadmeShowsTheExample(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	source, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	_, code, ok := strings.Cut(string(source), "// A lamp is a pod")
	require.True(t, ok)
	require.Contains(t, string(readme), "```go\n// A lamp is a pod"+strings.TrimRight(code, "\n")+"\n```")
}

// The README's two commands are the ones that CI and the documentation use.
func TestReadmeCommands(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	ci, err := os.ReadFile(".ci/run")
	require.NoError(t, err)
	const test = "go run ./examples/testbed -- go test -race -p 1 -timeout 45m ./... ./examples/..."
	require.Contains(t, string(readme), "\n"+test+"\n")
	require.Contains(t, string(ci), "\n"+test+"\n")
}
