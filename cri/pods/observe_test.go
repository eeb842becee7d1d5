package pods

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/pleg/observed"
)

// What a Manager makes is what an Observer sees: names, hashes, logs with links to them, and
// the message that a container leaves in its file.
func TestObserverSeesWhatWasMade(t *testing.T) {
	h := newHarness(t, fake.Config{Programs: fake.Always(func(ctx context.Context, p *fake.Process) int {
		code := fake.SleepUntilStopped(ctx, p)
		for _, m := range p.Mounts {
			if m.ContainerPath == "/dev/termination-log" {
				_ = os.WriteFile(m.HostPath, []byte("bye"), 0o600)
			}
		}
		return code
	})})
	pod := testPod("a")
	require.True(t, h.status(pod).Empty())
	got := h.mustSync(pod)
	require.Equal(t, "web", got.Name)
	require.Equal(t, got.Sandboxes[0].IPs, got.IPs)
	c := got.Containers[0]
	require.Equal(t, "a", c.Name)
	require.Equal(t, podfacts.Hash(&pod.Spec.Containers[0]), c.Hash)
	require.Equal(t, got.Sandboxes[0].ID, c.SandboxID)
	require.Equal(t, filepath.Join(h.dir, "pods", "shop_web_0d1e", "a", "0.log"), c.LogPath)
	target, err := os.Readlink(filepath.Join(h.dir, "containers", "web_shop_a-"+c.ID.ID+".log"))
	require.NoError(t, err)
	require.Equal(t, c.LogPath, target)
	list, err := h.seen.ListPods(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, "shop/web", list[0].Namespace+"/"+list[0].Name)
	h.kill(pod, nil)
	got = h.status(pod)
	require.Empty(t, got.IPs)
	require.Equal(t, observed.StateExited, got.Containers[0].State)
	require.False(t, got.Containers[0].FinishedAt.IsZero())
	require.Equal(t, "bye", got.Containers[0].Message)
}

// A runtime without events, or that does not have the call at all, is one without events.
func TestNoEvents(t *testing.T) {
	h := newHarness(t, fake.Config{Unimplemented: []string{"GetContainerEvents"}})
	require.ErrorIs(t, h.seen.PodEvents(t.Context(), nil), pleg.ErrNoEvents)
	h.cfg.Runtime = struct{ Runtime }{h.runtime}
	h.restart()
	require.ErrorIs(t, h.seen.PodEvents(t.Context(), nil), pleg.ErrNoEvents)
}
