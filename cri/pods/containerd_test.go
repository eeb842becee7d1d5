package pods

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/images"
	"github.com/podwright/podwright/cri/pods/garbage"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/internal/testkit/testcri"
	"github.com/podwright/podwright/pleg/observed"
)

// The tests in this file need real runtimes: examples/tools/testbed provides them and
// sets the variables that say where they are.

// patience is how long a runtime may take, on a machine that has a lot to do.
const patience = time.Minute

// onContainerd runs a test on each runtime.
func onContainerd(t *testing.T, test func(t *testing.T, h *harness, pod *v1.Pod)) {
	t.Helper()
	testcri.Each(t, func(t *testing.T, node testcri.Node) {
		manager, err := images.New(images.Config{Service: node.Images(t)})
		require.NoError(t, err)
		h := harnessOn(t, node.Runtime(t), Config{RuntimeName: "containerd", Images: manager})
		pod := testPod("a", "b")
		pod.UID = types.UID(strings.ToLower(rand.Text()))
		pod.Name = "pods-test-" + string(pod.UID[:6])
		for i := range pod.Spec.Containers {
			pod.Spec.Containers[i].Image = node.Busybox
			pod.Spec.Containers[i].Command = []string{"sh", "-c", forever}
		}
		t.Cleanup(func() { removeForGood(t, h, pod) })
		test(t, h, pod)
	})
}

// removeForGood leaves nothing of a pod behind, whatever the test did.
func removeForGood(t *testing.T, h *harness, pod *v1.Pod) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	h.runtime.before, h.runtime.after = nil, nil
	for range 2 { // a second time for what appeared in between
		status, err := h.seen.PodStatus(ctx, pod.UID)
		require.NoError(t, err)
		result := h.m.KillPod(ctx, KillRequest{Status: status})
		require.NoError(t, result.Err())
		status, err = h.seen.PodStatus(ctx, pod.UID)
		require.NoError(t, err)
		require.NoError(t, h.garbage.RemovePod(ctx, pod.UID, status))
	}
	status, err := h.seen.PodStatus(ctx, pod.UID)
	require.NoError(t, err)
	require.True(t, status.Empty())
	require.Empty(t, files(t, h.dir, "pods", "*"))
	require.Empty(t, files(t, h.dir, "containers", "*"))
}

func TestContainerdLifecycle(t *testing.T) {
	onContainerd(t, func(t *testing.T, h *harness, pod *v1.Pod) {
		status := h.mustSync(pod)
		require.Len(t, status.Running(), 2)
		require.Len(t, status.IPs, 1)
		require.Equal(t, pod.Name, status.Name)
		a := status.Newest("a")
		require.Equal(t, podfacts.Hash(&pod.Spec.Containers[0]), a.Hash)
		require.FileExists(t, a.LogPath)
		require.Len(t, files(t, h.dir, "containers", "*"), 2)
		list, err := h.seen.ListPods(t.Context())
		require.NoError(t, err)
		found := false
		for _, p := range list {
			found = found || p.UID == pod.UID && len(p.Containers) == 2 && len(p.Sandboxes) == 1
		}
		require.True(t, found)
		h.restart()
		h.runtime.take()
		require.Equal(t, status.Containers, h.mustSync(pod).Containers, "C50 in small: a new Manager takes over")
		require.Empty(t, h.runtime.take())

		hears(t, h, pod, "a", "b")
		h.kill(pod, nil)
		status = h.status(pod)
		require.True(t, status.Stopped())
		require.Empty(t, status.IPs)
		require.Zero(t, status.Newest("a").ExitCode, "SIGTERM was handled")
		require.False(t, status.Newest("a").FinishedAt.IsZero())
	})
}

// Exit codes, messages, logs, environment and security context of containers
// that really ran; C20 for the first restart.
func TestContainerdContainersSee(t *testing.T) {
	onContainerd(t, func(t *testing.T, h *harness, pod *v1.Pod) {
		pod.Spec.RestartPolicy = v1.RestartPolicyOnFailure
		pod.Spec.SecurityContext = &v1.PodSecurityContext{RunAsUser: ptr(int64(1234)), RunAsGroup: ptr(int64(5678)), FSGroup: ptr(int64(99))}
		a, b := &pod.Spec.Containers[0], &pod.Spec.Containers[1]
		a.Env = []v1.EnvVar{
			{Name: "IP", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "status.podIP"}}},
			{Name: "TEXT", Value: "ip=$(IP)"},
		}
		a.SecurityContext = &v1.SecurityContext{ReadOnlyRootFilesystem: ptr(true), Capabilities: &v1.Capabilities{Drop: []v1.Capability{"ALL"}}}
		a.Resources.Limits = quantities("memory", "32Mi", "cpu", "500m")
		a.Command = []string{"sh", "-c", `(echo "$TEXT"; id -u; id -g; hostname; touch /x 2>/dev/null && echo writable; echo arg=$0; grep "$IP" /etc/hosts) > /dev/termination-log; exit 7`, "$(TEXT)"}
		b.TerminationMessagePolicy = v1.TerminationMessageFallbackToLogsOnError
		b.Command = []string{"sh", "-c", "echo from the log; exit 1"}
		first := h.mustSync(pod)
		waitExited(t, h, pod, 2)
		got := h.status(pod)
		ip := got.IPs[0]
		require.Equal(t, fmt.Sprintf("ip=%s\n1234\n5678\n%s\narg=ip=%s\n%s\t%s\n", ip, pod.Name, ip, ip, pod.Name), got.Newest("a").Message)
		require.EqualValues(t, 7, got.Newest("a").ExitCode)
		require.Equal(t, "from the log\n", got.Newest("b").Message)
		log, err := os.ReadFile(first.Newest("b").LogPath)
		require.NoError(t, err)
		require.Contains(t, string(log), " stdout F from the log\n")

		h.mustSync(pod) // the first restart comes at once
		waitExited(t, h, pod, 4)
		result := h.sync(pod)
		require.False(t, result.NotBefore().IsZero())
		require.Equal(t, ReasonCrashLoopBackOff, h.m.StartFailures(pod.UID)["a"].Reason)
		got = h.status(pod)
		require.EqualValues(t, 1, got.Newest("a").RestartCount)
		require.NoError(t, h.garbage.CleanDeadContainers(t.Context(), garbage.CleanRequest{Status: got}))
		require.Len(t, h.status(pod).Containers, 2)
		require.Equal(t, []string{"1.log"}, files(t, filepath.Dir(first.Newest("a").LogPath), "*"))
	})
}

// A command that does not exist, and a container that ignores SIGTERM.
func TestContainerdTrouble(t *testing.T) {
	onContainerd(t, func(t *testing.T, h *harness, pod *v1.Pod) {
		pod.Spec.Containers[0].Command = []string{"/does/not/exist"}
		pod.Spec.Containers[1].Command = []string{"sh", "-c", `trap "" TERM; while true; do sleep 0.1; done`}
		result := h.sync(pod)
		require.Error(t, result.Err())
		failure := h.m.StartFailures(pod.UID)["a"]
		require.Equal(t, ReasonRunContainerError, failure.Reason)
		require.NotContains(t, failure.Message, h.status(pod).Newest("a").ID.ID)
		require.Len(t, h.status(pod).Running(), 1)

		hears(t, h, pod, "b")
		pod.Spec.TerminationGracePeriodSeconds = ptr(int64(1200))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		result = h.m.KillPod(ctx, KillRequest{Pod: pod, Status: h.status(pod)})
		require.Error(t, result.Err())
		require.Equal(t, observed.StateRunning, h.status(pod).Newest("b").State)
		h.kill(pod, ptr(int64(1)))
		require.Less(t, time.Since(begin), 10*time.Minute, "the shorter grace counts")
		require.True(t, h.status(pod).Stopped())
		require.EqualValues(t, 137, h.status(pod).Newest("b").ExitCode)
	})
}
