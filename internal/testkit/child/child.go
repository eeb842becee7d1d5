// Package child runs failing tests in a child process, for tests of the reports of test suites:
//
//	child.Fails(t, "a_rule", func(t *testing.T) { Run(t, defective) }, "the rule's message")
//
// Fails is safe for concurrent use.
package child

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// inChild has the environment variable of the child process.
const inChild = "PODWRIGHT_CHILD_TEST"

// Fails runs t again in a child process, where it calls run. The subtest of run, or t itself for "",
// must fail within a minute. Its output must have the texts, no panic and no bad format. It returns the output.
func Fails(t *testing.T, subtest string, run func(t *testing.T), texts ...string) (output string) {
	t.Helper()
	if os.Getenv(inChild) != "" {
		run(t)
		return ""
	}
	name := strings.TrimSuffix(t.Name()+"/"+subtest, "/")
	pattern := "^" + strings.ReplaceAll(regexp.QuoteMeta(name), "/", "$/^") + "$"
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.timeout=1m", "-test.run="+pattern)
	cmd.Env = append(os.Environ(), inChild+"=1")
	out, err := cmd.CombinedOutput()
	require.Error(t, err, "%s", out)
	for _, text := range append(texts, "--- FAIL: "+name) {
		require.Contains(t, string(out), text)
	}
	require.NotContains(t, string(out), "panic:")
	require.NotContains(t, string(out), "%!")
	return string(out)
}
