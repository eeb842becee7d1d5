package pods

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/pleg"
)

func TestListPods(t *testing.T) {
	h := newHarness(t, fake.Config{})
	one, two := testPod("a", "b"), testPod("a")
	two.Name, two.UID = "db", "9f"
	h.mustSync(one)
	h.mustSync(two)
	_, err := h.runtime.RuntimeService.RunPodSandbox(t.Context(), &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: "stranger", Namespace: "default", Uid: "x"},
	}, "")
	require.NoError(t, err)
	list, err := h.seen.ListPods(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 2, "sandboxes of others are left alone")
	require.EqualValues(t, "9f", list[0].UID, "newest first")
	require.Equal(t, "web", list[1].Name)
	require.Equal(t, "shop", list[1].Namespace)
	require.Len(t, list[1].Containers, 2)
	require.Equal(t, "b", list[1].Containers[0].Name)
	require.Equal(t, pleg.StateRunning, list[1].Containers[0].State)
	require.Equal(t, pleg.SandboxReady, list[1].Sandboxes[0].State)
}

func TestPodStatus(t *testing.T) {
	h := newHarness(t, fake.Config{})
	pod := testPod("a")
	got := h.status(pod)
	require.True(t, got.Empty())
	require.EqualValues(t, "0d1e", got.UID)
	got = h.mustSync(pod)
	require.Equal(t, "web", got.Name)
	require.Equal(t, got.Sandboxes[0].IPs, got.IPs)
	c := got.Containers[0]
	require.Equal(t, "a", c.Name)
	require.Equal(t, Hash(&pod.Spec.Containers[0]), c.Hash)
	require.Equal(t, got.Sandboxes[0].ID, c.SandboxID)
	require.Equal(t, filepath.Join(h.dir, "pods", "shop_web_0d1e", "a", "0.log"), c.LogPath)
	link := filepath.Join(h.dir, "containers", "web_shop_a-"+c.ID.ID+".log")
	target, err := os.Readlink(link)
	require.NoError(t, err)
	require.Equal(t, c.LogPath, target)
	h.kill(pod, nil)
	got = h.status(pod)
	require.Empty(t, got.IPs)
	require.Equal(t, pleg.StateExited, got.Containers[0].State)
	require.False(t, got.Containers[0].FinishedAt.IsZero())
	_, err = h.seen.PodStatus(t.Context(), "")
	require.Error(t, err)
}

// vanishing answers a look at one object with an error.
type vanishing struct {
	*recorder
	err error
}

func (v *vanishing) ContainerStatus(context.Context, string, bool) (*runtimeapi.ContainerStatusResponse, error) {
	return nil, v.err
}

// C49: what disappears between list and look is no error; anything else is.
func TestPodStatusNotFound(t *testing.T) {
	h := newHarness(t, fake.Config{})
	pod := testPod("a")
	h.mustSync(pod)
	v := &vanishing{recorder: h.runtime, err: status.Error(codes.NotFound, "gone")}
	h.cfg.Runtime = v
	h.restart()
	got := h.status(pod)
	require.Len(t, got.Sandboxes, 1)
	require.Empty(t, got.Containers)
	v.err = status.Error(codes.Unavailable, "away")
	_, err := h.seen.PodStatus(t.Context(), pod.UID)
	require.Equal(t, codes.Unavailable, status.Code(errors.Unwrap(err)))
	require.ErrorContains(t, err, "shop/web")
}

func TestPodEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, fake.Config{})
		ctx, cancel := context.WithCancel(t.Context())
		var seen []types.UID
		done := make(chan error, 1)
		go func() { done <- h.seen.PodEvents(ctx, func(uid types.UID) { seen = append(seen, uid) }) }()
		synctest.Wait() // the stream is open
		pod := testPod("a")
		h.mustSync(pod)
		h.kill(pod, nil)
		synctest.Wait()
		// Sandbox and container are created and started, and stop.
		require.Equal(t, slices.Repeat([]types.UID{"0d1e"}, 6), seen)
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
	})

	none := newHarness(t, fake.Config{Unimplemented: []string{"GetContainerEvents"}})
	require.ErrorIs(t, none.seen.PodEvents(t.Context(), nil), pleg.ErrNoEvents)
	none.cfg.Runtime = struct{ Runtime }{none.runtime}
	none.restart()
	require.ErrorIs(t, none.seen.PodEvents(t.Context(), nil), pleg.ErrNoEvents)
}

// The message file of a container reaches its status, cut to its end; C46: the
// log stands in for it only after a failure.
func TestTerminationMessage(t *testing.T) {
	program := func(_ context.Context, p *fake.Process) int {
		path := ""
		for _, m := range p.Mounts {
			if m.ContainerPath == "/dev/termination-log" {
				path = m.HostPath
			}
		}
		switch p.Container.Name {
		case "file":
			_ = os.WriteFile(path, []byte(strings.Repeat("x", 5000)+"end"), 0o600)
		default:
			for i := range 100 {
				fmt.Fprintf(p.Stdout, "line %d\n", i)
			}
		}
		if p.Container.Name == "ok" {
			return 0
		}
		return 1
	}
	h := newHarness(t, fake.Config{Programs: fake.Always(program)})
	pod := testPod("file", "log", "ok")
	pod.Spec.RestartPolicy = v1.RestartPolicyNever
	for i := range pod.Spec.Containers {
		pod.Spec.Containers[i].TerminationMessagePolicy = v1.TerminationMessageFallbackToLogsOnError
	}
	h.mustSync(pod)
	waitExited(t, h, pod, 3)
	got := h.status(pod)
	require.Len(t, got.Newest("file").Message, 4096)
	require.True(t, strings.HasSuffix(got.Newest("file").Message, "xend"))
	require.True(t, strings.HasPrefix(got.Newest("log").Message, "line 20\n"), got.Newest("log").Message)
	require.True(t, strings.HasSuffix(got.Newest("log").Message, "line 99\n"))
	require.Empty(t, got.Newest("ok").Message)
}
