// Package testcri gives tests the container runtimes of examples/tools/testbed.
//
//	testcri.Each(t, func(t *testing.T, node testcri.Node) {
//		runtime, images := node.Runtime(t), node.Images(t)
//		...
//	})
//
// Outside of a testbed such a test is skipped, or fails if PODWRIGHT_REQUIRE_CRI is 1. Tests
// share the runtimes: each test uses its own pods, ignores all others, and removes its own at
// the end.
package testcri

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/cri"
)

// Node is a running container runtime.
type Node struct {
	// Variable is the environment variable with the endpoint, and the name of the subtest:
	// PODWRIGHT_CRI_V1 is a containerd 1, PODWRIGHT_CRI_V2 a containerd 2.
	Variable string
	// Endpoint is the address of the runtime.
	Endpoint string
	// Busybox, Testprog and Pause are its images: one with a shell, one that runs the actions in
	// its arguments (examples/tools/testbed/testprog), and the image of its sandboxes.
	Busybox, Testprog, Pause string
}

// Old reports whether the runtime is containerd 1, which lacks some features of version 2.
func (n Node) Old() bool { return n.Variable == "PODWRIGHT_CRI_V1" }

// Each runs a test on each runtime.
func Each(t *testing.T, test func(t *testing.T, node Node)) {
	t.Helper()
	for _, variable := range []string{"PODWRIGHT_CRI_V1", "PODWRIGHT_CRI_V2"} {
		t.Run(variable, func(t *testing.T) {
			v := need(t, variable, "PODWRIGHT_IMAGE_BUSYBOX", "PODWRIGHT_IMAGE_TESTPROG", "PODWRIGHT_IMAGE_PAUSE")
			test(t, Node{Variable: variable, Endpoint: v[0], Busybox: v[1], Testprog: v[2], Pause: v[3]})
		})
	}
}

// need returns the values of variables, or skips or fails the test.
func need(t *testing.T, names ...string) []string {
	t.Helper()
	values := make([]string, len(names))
	for i, name := range names {
		if values[i] = os.Getenv(name); values[i] != "" {
			continue
		}
		if os.Getenv("PODWRIGHT_REQUIRE_CRI") == "1" {
			t.Fatalf("%s is not set", name)
		}
		t.Skipf("%s is not set: go run ./examples/tools/testbed -- go test ./...", name)
	}
	return values
}

// Runtime connects to the runtime until the test ends.
func (n Node) Runtime(t *testing.T) cri.RuntimeService {
	t.Helper()
	runtime, err := cri.DialRuntime(t.Context(), cri.ClientConfig{Endpoint: n.Endpoint})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, runtime.Close()) })
	return runtime
}

// Images connects to the images of the runtime until the test ends.
func (n Node) Images(t *testing.T) cri.ImageService {
	t.Helper()
	images, err := cri.DialImages(t.Context(), cri.ClientConfig{Endpoint: n.Endpoint})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, images.Close()) })
	return images
}
