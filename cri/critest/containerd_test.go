package critest_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/critest"
	"github.com/podwright/podwright/internal/testcri"
)

// The tests in this file need real runtimes: examples/testbed provides them and
// sets the variables that say where they are.

// TestContainerd runs the suite against each runtime.
func TestContainerd(t *testing.T) {
	testcri.Each(t, func(t *testing.T, node testcri.Node) {
		subject := critest.Subject{
			Runtime: node.Runtime(t), Images: node.Images(t),
			Image: node.Busybox, OtherImage: pushCopy(t, node.Busybox), CgroupParent: "/k8s.io",
		}
		critest.Run(t, critest.Config{
			Parallel: 8,
			Start:    func(*testing.T) critest.Subject { return subject },
		})
	})
}

// dial gives subject the two services of the runtime at an endpoint.
func dial(t *testing.T, cfg cri.ClientConfig, subject critest.Subject) critest.Subject {
	runtime, err := cri.DialRuntime(t.Context(), cfg)
	require.NoError(t, err)
	images, err := cri.DialImages(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, errors.Join(runtime.Close(), images.Close())) })
	subject.Runtime, subject.Images = runtime, images
	return subject
}
