package fake

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// A stop that is still under way when the runtime has lost everything must not
// give back addresses that belong to a new sandbox.
func TestStopOfASandboxThatIsLost(t *testing.T) {
	rt, err := New(Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, rt.Close()) })
	run := func(name string) *sandbox {
		id, err := rt.RunPodSandbox(t.Context(), &runtimeapi.PodSandboxConfig{
			Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "default", Uid: name},
		}, "")
		require.NoError(t, err)
		return rt.sandbox(id)
	}
	lost := run("lost")
	require.NoError(t, rt.Restart(t.Context(), RestartOptions{StartOptions: StartOptions{Loss: LoseAll}}))
	found := run("found")
	require.Equal(t, lost.ips, found.ips)
	require.NoError(t, rt.stopSandbox(t.Context(), lost, await))
	require.Contains(t, rt.addresses.used, found.ips[0])
}

// A runtime that is closed does not begin to hold back logs that nobody would
// let through.
func TestStopAfterClose(t *testing.T) {
	rt, err := New(Config{})
	require.NoError(t, err)
	require.NoError(t, rt.Close())
	rt.Stop()
	require.False(t, rt.logs.shut.Load())
	require.Error(t, rt.Start(context.WithoutCancel(t.Context()), StartOptions{}))
}
