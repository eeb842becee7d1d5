package critest_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/cri/critest"
	"github.com/podwright/podwright/cri/fake"
)

// TestDocumentedTest runs the test in the package documentation, on a runtime that lacks optional
// calls, and requires that both have the same code.
func TestDocumentedTest(t *testing.T) {
	require.Equal(t, body(t, "doc.go", "//\tfunc TestMyRuntime(", "//\t"), body(t, "example_test.go", "func testMyRuntime(", ""))
	if testing.Short() {
		t.Skip("the suite runs in TestFake too")
	}
	rt, err := fake.New(fake.Config{Programs: critest.Programs, Exec: critest.Programs, Unimplemented: []string{"GetContainerEvents", "RuntimeConfig"}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, rt.Close()) })
	socket := filepath.Join(t.TempDir(), "cri.sock")
	listener, err := net.Listen("unix", socket)
	require.NoError(t, err)
	serve(t, rt, listener)
	t.Setenv("MY_RUNTIME", socket)
	testMyRuntime(t)
}

// body returns the lines between the line that begins with begin and a lone brace, without the
// prefix.
func body(t *testing.T, file, begin, prefix string) []string {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), "\n"+begin)
	require.True(t, found, "%s has no %q", file, begin)
	var lines []string
	for _, line := range strings.Split(rest, "\n")[1:] {
		line = strings.TrimPrefix(line, prefix)
		if line == "}" {
			return lines
		}
		lines = append(lines, line)
	}
	require.FailNow(t, "the function does not end")
	return nil
}
