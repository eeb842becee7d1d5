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
	list, err := h.m.ListPods(t.Context())
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
	_, err = h.m.PodStatus(t.Context(), "")
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
	_, err := h.m.PodStatus(t.Context(), pod.UID)
	require.Equal(t, codes.Unavailable, status.Code(errors.Unwrap(err)))
	require.ErrorContains(t, err, "shop/web")
}

func TestSandboxIPs(t *testing.T) {
	network := func(ip string, more ...string) *runtimeapi.PodSandboxNetworkStatus {
		out := &runtimeapi.PodSandboxNetworkStatus{Ip: ip}
		for _, a := range more {
			out.AdditionalIps = append(out.AdditionalIps, &runtimeapi.PodIP{Ip: a})
		}
		return out
	}
	require.Nil(t, sandboxIPs(nil))
	require.Nil(t, sandboxIPs(network("")))
	require.Equal(t, []string{"10.0.0.1", "fd00::1"}, sandboxIPs(network("10.0.0.1", "fd00::1")))
	require.Nil(t, sandboxIPs(network("10.0.0.1", "nonsense")))
}

func TestConvertResources(t *testing.T) {
	require.Nil(t, toResources(nil))
	got := toResources(&runtimeapi.LinuxContainerResources{CpuPeriod: 100000, CpuQuota: 50000, CpuShares: 102, MemoryLimitInBytes: 1 << 20})
	require.Equal(t, &pleg.ContainerResources{MilliCPULimit: ptr(int64(500)), MilliCPURequest: ptr(int64(100)), MemoryLimit: ptr(int64(1 << 20))}, got)
	require.Equal(t, ptr(int64(0)), toResources(&runtimeapi.LinuxContainerResources{CpuPeriod: 100000, CpuQuota: -1}).MilliCPULimit)
	require.Equal(t, &pleg.ContainerResources{}, toResources(&runtimeapi.LinuxContainerResources{}))
}

func TestConvertStatus(t *testing.T) {
	got := toContainerStatus("fake", "s", &runtimeapi.ContainerStatus{
		Id: "1", State: runtimeapi.ContainerState_CONTAINER_CREATED, CreatedAt: 1, StartedAt: 2, FinishedAt: 3, ExitCode: 4,
		ImageRef: "ref", StopSignal: runtimeapi.Signal_SIGNAL_SIGRTMINPLUS1,
		Annotations: map[string]string{AnnotationRestartCount: "bad", AnnotationHash: "xyz"},
	})
	require.True(t, got.StartedAt.IsZero())
	require.Zero(t, got.ExitCode)
	require.True(t, got.FinishedAt.IsZero())
	require.Equal(t, "ref", got.ImageID)
	require.Equal(t, "SIGRTMIN+1", got.StopSignal)
	require.Zero(t, got.RestartCount)
	require.Zero(t, got.Hash)
}

func TestPodEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, fake.Config{})
		ctx, cancel := context.WithCancel(t.Context())
		var seen []types.UID
		done := make(chan error, 1)
		go func() { done <- h.m.PodEvents(ctx, func(uid types.UID) { seen = append(seen, uid) }) }()
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
	require.ErrorIs(t, none.m.PodEvents(t.Context(), nil), pleg.ErrNoEvents)
	none.cfg.Runtime = struct{ Runtime }{none.runtime}
	none.restart()
	require.ErrorIs(t, none.m.PodEvents(t.Context(), nil), pleg.ErrNoEvents)
}

func TestEventUID(t *testing.T) {
	require.Empty(t, eventUID(&runtimeapi.ContainerEventResponse{}))
	require.EqualValues(t, "1", eventUID(&runtimeapi.ContainerEventResponse{
		ContainersStatuses: []*runtimeapi.ContainerStatus{{}, {Labels: map[string]string{LabelPodUID: "1"}}},
	}))
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

// What is mounted at the message path may be anything.
func TestReadTailRefusesOthers(t *testing.T) {
	_, err := readTail(t.TempDir(), 10)
	require.ErrorContains(t, err, "not a regular file")
}
