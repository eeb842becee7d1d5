package fake_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
)

func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, fake.Config{AnyImage: true})
		ctx, cancel := context.WithCancel(t.Context())
		var first, second []string
		collect := func(into *[]string) func(*runtimeapi.ContainerEventResponse) {
			return func(e *runtimeapi.ContainerEventResponse) {
				states := []string{}
				for _, s := range e.ContainersStatuses {
					states = append(states, strings.TrimPrefix(s.State.String(), "CONTAINER_"))
				}
				kind := strings.TrimSuffix(strings.TrimPrefix(e.ContainerEventType.String(), "CONTAINER_"), "_EVENT")
				who := "container"
				if e.ContainerId == e.PodSandboxStatus.Id {
					who = "sandbox"
				}
				*into = append(*into, fmt.Sprintf("%s %s %s %v", who, kind, e.PodSandboxStatus.State, states))
			}
		}
		ended := make(chan error, 2)
		go func() { ended <- rt.GetContainerEvents(ctx, collect(&first)) }()
		go func() { ended <- rt.GetContainerEvents(ctx, collect(&second)) }()
		synctest.Wait()

		sandboxID, id := running(t, rt)
		synctest.Wait()
		require.NoError(t, rt.StopContainer(t.Context(), id, time.Second))
		require.NoError(t, rt.RemoveContainer(t.Context(), id))
		require.NoError(t, rt.RemovePodSandbox(t.Context(), sandboxID))
		synctest.Wait()
		want := []string{
			"sandbox CREATED SANDBOX_READY []",
			"sandbox STARTED SANDBOX_READY []",
			"container CREATED SANDBOX_READY [CREATED]",
			"container STARTED SANDBOX_READY [RUNNING]",
			"container STOPPED SANDBOX_READY [EXITED]",
			"container DELETED SANDBOX_READY []",
			"sandbox STOPPED SANDBOX_NOTREADY []",
			"sandbox DELETED SANDBOX_NOTREADY []",
		}
		require.Equal(t, want, first)
		require.Equal(t, want, second)
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		require.ErrorIs(t, <-ended, context.Canceled)

		go func() { ended <- rt.GetContainerEvents(t.Context(), collect(&first)) }()
		synctest.Wait()
		require.NoError(t, rt.Close())
		require.Equal(t, codes.Unavailable, status.Code(<-ended))
	})
}
