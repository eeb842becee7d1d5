package cluster_test

import (
	"testing"

	"github.com/podwright/podwright/examples/tools/testbed/tb"
	"github.com/podwright/podwright/examples/tools/testbed/tb/controlplane"
)

// onRuntimes runs a test with the runtime whose turn it is, or with each at the same time.
func onRuntimes(t *testing.T, test func(t *testing.T, plane controlplane.Handle, rt tb.Runtime)) {
	t.Helper()
	onEach(t, tb.Turns(t), test)
}

// onEach runs a test with each of some runtimes, at the same time.
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

// onNodes runs a test on a node with such a runtime.
func onNodes(t *testing.T, test func(t *testing.T, n *node), flags ...string) {
	t.Helper()
	onRuntimes(t, func(t *testing.T, plane controlplane.Handle, rt tb.Runtime) { test(t, newNode(t, plane, rt, flags...)) })
}
