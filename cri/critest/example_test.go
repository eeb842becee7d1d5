package critest_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/critest"
)

func testMyRuntime(t *testing.T) {
	critest.Run(t, critest.Config{Parallel: 8, Start: func(t *testing.T) critest.Subject {
		endpoint := cri.ClientConfig{Endpoint: os.Getenv("MY_RUNTIME")}
		runtime, err := cri.DialRuntime(t.Context(), endpoint)
		require.NoError(t, err)
		images, err := cri.DialImages(t.Context(), endpoint)
		require.NoError(t, err)
		t.Cleanup(func() { _, _ = runtime.Close(), images.Close() })
		return critest.Subject{Runtime: runtime, Images: images, Image: "docker.io/library/busybox:1.36"}
	}})
}

// Example shows TestMyRuntime, the function in the tests of a runtime. It has no output, because only
// go test has a *testing.T; TestDocumentedTest runs the function.
func Example() {
	_ = testMyRuntime
}
