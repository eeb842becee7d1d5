package critest_test

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/podwright/podwright/cri/fake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestFake runs the suite on the fake in process, in virtual time. Package cri/streams, which has a
// session client, runs it over gRPC and on containerd.
func TestFake(t *testing.T) { testWrapper(t) }

// serve serves the fake until the end of the test.
func serve(t *testing.T, rt *fake.Runtime, listener net.Listener) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	over := make(chan error, 1)
	go func() { over <- rt.Serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-over)
	})
}
