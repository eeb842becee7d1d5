package fake_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/fake"
)

// C38: a name stays reserved as long as its object exists, and the error contains the name. The
// conformance suite tests the remaining rules of names.
func TestNameReservation(t *testing.T) {
	rt := start(t, fake.Config{AnyImage: true})
	sandboxID, id := running(t, rt)
	_, err := rt.CreateContainer(t.Context(), sandboxID, containerConfig("p", "c"), podConfig("p"))
	require.Equal(t, codes.AlreadyExists, status.Code(err))
	require.ErrorContains(t, err, "failed to reserve container name")
	require.ErrorContains(t, err, fmt.Sprintf("is reserved for %q", id))
	_, err = rt.RunPodSandbox(t.Context(), podConfig("p"), "")
	require.Equal(t, codes.AlreadyExists, status.Code(err))
	require.ErrorContains(t, err, fmt.Sprintf("is reserved for %q", sandboxID))
}

func TestHandlers(t *testing.T) {
	rt := start(t, fake.Config{Handlers: []string{"kata"}})
	_, err := rt.RunPodSandbox(t.Context(), podConfig("p"), "kata")
	require.NoError(t, err)
	_, err = rt.RunPodSandbox(t.Context(), podConfig("q"), "gvisor")
	require.ErrorContains(t, err, `no runtime for "gvisor" is configured`)
}

// CrashSandbox is not a CRI call: it also works while the runtime is down.
func TestCrashSandbox(t *testing.T) {
	for _, down := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			rt := start(t, fake.Config{AnyImage: true, Programs: fake.Always(stubborn)})
			sandboxID, id := running(t, rt)
			if down {
				rt.Stop()
			}
			require.NoError(t, rt.CrashSandbox(t.Context(), sandboxID))
			require.True(t, cri.IsNotFound(rt.CrashSandbox(t.Context(), "nope")))
			require.NoError(t, rt.Start(t.Context(), fake.LoseNothing))
			require.Equal(t, "EXITED 137 Error", brief(statusOf(t, rt, id)))
			response, err := rt.PodSandboxStatus(t.Context(), sandboxID, false)
			require.NoError(t, err)
			require.Equal(t, "SANDBOX_NOTREADY", response.Status.State.String())
		})
	}
}
