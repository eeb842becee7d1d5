package cluster_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/podwright/podwright/examples/tools/testbed/tb"
)

var build tb.Kubelet

func kubeletPath(t testing.TB) string { t.Helper(); return build.Path(t) }

func TestMain(m *testing.M) { goleak.VerifyTestMain(build.Tests(m)) }
