package fake_test

import (
	"context"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
)

// What kill(1) refuses, or does not send, reaches no program.
func TestSignalsThatAreNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, fake.Config{AnyImage: true, Programs: fake.Always(func(_ context.Context, p *fake.Process) int {
			return int(<-p.Signals())
		})})
		_, id := running(t, rt)
		for _, signal := range []syscall.Signal{-1, 65, 1 << 20} {
			require.Equal(t, codes.InvalidArgument, status.Code(rt.Signal(id, signal)), signal)
		}
		require.NoError(t, rt.Signal(id, 0))
		synctest.Wait()
		require.Equal(t, runtimeapi.ContainerState_CONTAINER_RUNNING, statusOf(t, rt, id).State)
		require.NoError(t, rt.Signal(id, 64))
		synctest.Wait()
		require.Equal(t, codes.FailedPrecondition, status.Code(rt.Signal(id, 0)))
		require.EqualValues(t, 64, statusOf(t, rt, id).ExitCode)
	})
}

func TestAbandonedProgramIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		rt, err := fake.New(fake.Config{
			AnyImage: true, KillTimeout: time.Second,
			Programs: fake.Always(func(context.Context, *fake.Process) int { <-release; return 0 }),
		})
		require.NoError(t, err)
		running(t, rt)
		began := time.Now()
		var abandoned *fake.AbandonedError
		require.ErrorAs(t, rt.Close(), &abandoned)
		require.Equal(t, time.Second, time.Since(began))
		require.Equal(t, []string{"c_p_default_uid-p_0"}, abandoned.Programs)
		close(release)
		synctest.Wait()
		require.NoError(t, rt.Close(), "it has returned meanwhile")
	})
}

func TestRunClosesTheRuntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, err := fake.New(fake.Config{AnyImage: true})
		require.NoError(t, err)
		running(t, rt)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.NoError(t, rt.Run(ctx))
		_, err = rt.Version(t.Context())
		require.Equal(t, codes.Unavailable, status.Code(err))
	})
}
