package critest_test

import (
	"context"
	"net"
	"os"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/critest"
	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/internal/testkit/child"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestFake runs the suite on the fake in process, in virtual time. Package cri/streams, which has a
// session client, runs it over gRPC and on containerd.
func TestFake(t *testing.T) { testWrapper(t) }

// unresponsive waits for a reply that does not come, as a client on a socket does.
type unresponsive struct {
	cri.RuntimeService
	socket *os.File
}

func (u unresponsive) Version(context.Context) (*runtimeapi.VersionResponse, error) {
	_, err := u.socket.Read(make([]byte, 1))
	return nil, err
}

// A runtime that waits for a socket fails its case. A bubble with it would stand still.
func TestStoppedClockFails(t *testing.T) {
	child.Fails(t, "Sandbox/a_sandbox_runs,_stops_and_is_removed", func(t *testing.T) {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		t.Cleanup(func() { _ = w.Close() })
		rt, err := fake.New(fake.Config{})
		require.NoError(t, err)
		critest.Run(t, critest.Config{Around: synctest.Test, Start: func(*testing.T) critest.Subject {
			return critest.Subject{Runtime: unresponsive{rt, r}, Images: rt, Image: "busybox"}
		}})
	}, "the clock of the synctest bubble stands still", "critest_test.unresponsive.Version", "1 failed")
}

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
