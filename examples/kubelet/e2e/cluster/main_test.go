package cluster_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/podwright/podwright/examples/tools/testbed/tb"
)

// build is the kubelet's program.
var build tb.Kubelet

func kubeletPath(t testing.TB) string { t.Helper(); return build.Path(t) }

// withoutBinary removes the program after the tests.
type withoutBinary struct{ *testing.M }

func (m withoutBinary) Run() int {
	code := m.M.Run()
	if err := build.Remove(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(withoutBinary{m}) }
