package critest_test

import (
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/critest"
)

// The tests in this file need real runtimes: examples/testbed provides them and
// sets the variables that say where they are.

// TestContainerd runs the suite against each runtime.
func TestContainerd(t *testing.T) {
	for _, variable := range []string{"PODWRIGHT_CRI_V1", "PODWRIGHT_CRI_V2"} {
		t.Run(variable, func(t *testing.T) {
			subject := containerd(t, variable)
			critest.Run(t, critest.Config{
				Parallel: 8,
				Start:    func(*testing.T) critest.Subject { return subject },
			})
		})
	}
}

// containerd connects to the runtime whose endpoint is in an environment variable.
func containerd(t *testing.T, variable string) critest.Subject {
	subject := critest.Subject{Image: os.Getenv("PODWRIGHT_IMAGE_BUSYBOX"), CgroupParent: "/k8s.io"}
	endpoint := os.Getenv(variable)
	if endpoint == "" || subject.Image == "" {
		if os.Getenv("PODWRIGHT_REQUIRE_CRI") == "1" {
			t.Fatalf("%s or PODWRIGHT_IMAGE_BUSYBOX is not set", variable)
		}
		t.Skip("needs a container runtime: go run ./examples/testbed -- go test ./cri/critest")
	}
	subject.OtherImage = pushCopy(t, subject.Image)
	return dial(t, cri.ClientConfig{Endpoint: endpoint}, subject)
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
