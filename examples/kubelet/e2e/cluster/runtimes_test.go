package cluster_test

import (
	"testing"

	"github.com/podwright/podwright/examples/tools/testbed/tb"
	"github.com/podwright/podwright/examples/tools/testbed/tb/controlplane"
)

// onRuntimes runs a test with the runtimes of tb.Turns, in parallel.
func onRuntimes(t *testing.T, test func(t *testing.T, plane controlplane.Handle, rt tb.Runtime)) {
	t.Helper()
	onEach(t, tb.Turns(t), test)
}

// onEach runs a test with each runtime, in parallel.
func onEach(t *testing.T, runtimes []tb.Runtime, test func(t *testing.T, plane controlplane.Handle, rt tb.Runtime)) {
	t.Helper()
	plane := controlplane.Of(t)
	kubeletPath(t)
	for _, rt := range runtimes {
		t.Run(rt.Name, func(t *testing.T) {
			t.Parallel()
			test(t, plane, rt)
		})
	}
}

// onNodes runs a test on one node for each runtime of onRuntimes.
func onNodes(t *testing.T, test func(t *testing.T, n *node), flags ...string) {
	t.Helper()
	onRuntimes(t, func(t *testing.T, plane controlplane.Handle, rt tb.Runtime) { test(t, newNode(t, plane, rt, flags...)) })
}
