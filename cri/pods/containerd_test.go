package pods

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/images"
	"github.com/podwright/podwright/cri/pods/garbage"
	"github.com/podwright/podwright/cri/pods/resize"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/internal/testkit/testcri"
	"github.com/podwright/podwright/pleg/observed"
)

// The tests in this file need real runtimes. examples/tools/testbed provides them and sets the
// variables with their addresses.

// patience bounds a runtime call on a loaded machine.
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

// removeForGood removes a pod with all its objects after a test.
func removeForGood(t *testing.T, h *harness, pod *v1.Pod) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	h.runtime.before, h.runtime.after = nil, nil
	for range 2 { // a second time for objects that appeared in between
		status, err := h.seen.PodStatus(ctx, pod.UID)
		require.NoError(t, err)
		require.NoError(t, h.m.KillPod(ctx, KillRequest{Status: status}).Err())
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

// TestContainerdContainersSee checks exit codes, messages, logs, environment and security context
// of real containers; C20 for the first restart.
func TestContainerdContainersSee(t *testing.T) {
	onContainerd(t, func(t *testing.T, h *harness, pod *v1.Pod) {
		pod.Spec.RestartPolicy = v1.RestartPolicyOnFailure
		pod.Spec.SecurityContext = &v1.PodSecurityContext{RunAsUser: new(int64(1234)), RunAsGroup: new(int64(5678)), FSGroup: new(int64(99))}
		a, b := &pod.Spec.Containers[0], &pod.Spec.Containers[1]
		a.Env = []v1.EnvVar{
			{Name: "IP", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "status.podIP"}}},
			{Name: "TEXT", Value: "ip=$(IP)"},
		}
		a.SecurityContext = &v1.SecurityContext{ReadOnlyRootFilesystem: new(true), Capabilities: &v1.Capabilities{Drop: []v1.Capability{"ALL"}}}
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

		h.mustSync(pod) // the first restart has no delay
		waitExited(t, h, pod, 4)
		require.False(t, h.sync(pod).NotBefore().IsZero())
		require.Equal(t, ReasonCrashLoopBackOff, h.m.StartFailures(pod.UID)["a"].Reason)
		got = h.status(pod)
		require.EqualValues(t, 1, got.Newest("a").RestartCount)
		require.NoError(t, h.garbage.CleanDeadContainers(t.Context(), garbage.CleanRequest{Status: got}))
		require.Len(t, h.status(pod).Containers, 2)
		require.Equal(t, []string{"1.log"}, files(t, filepath.Dir(first.Newest("a").LogPath), "*"))
	})
}

// TestContainerdTrouble covers a command that does not exist and a container that ignores
// SIGTERM.
func TestContainerdTrouble(t *testing.T) {
	onContainerd(t, func(t *testing.T, h *harness, pod *v1.Pod) {
		pod.Spec.Containers[0].Command = []string{"/does/not/exist"}
		pod.Spec.Containers[1].Command = []string{"sh", "-c", `trap "" TERM; while true; do sleep 0.1; done`}
		require.Error(t, h.sync(pod).Err())
		failure := h.m.StartFailures(pod.UID)["a"]
		require.Equal(t, ReasonRunContainerError, failure.Reason)
		require.NotContains(t, failure.Message, h.status(pod).Newest("a").ID.ID)
		require.Len(t, h.status(pod).Running(), 1)

		hears(t, h, pod, "b")
		pod.Spec.TerminationGracePeriodSeconds = new(int64(1200))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		require.Error(t, h.m.KillPod(ctx, KillRequest{Pod: pod, Status: h.status(pod)}).Err())
		require.Equal(t, observed.StateRunning, h.status(pod).Newest("b").State)
		h.kill(pod, new(int64(1)))
		require.Less(t, time.Since(begin), 10*time.Minute, "the shorter grace counts")
		require.True(t, h.status(pod).Stopped())
		require.EqualValues(t, 137, h.status(pod).Newest("b").ExitCode)
	})
}

// shell returns a container that runs a script in pod a's image.
func shell(pod *v1.Pod, name, script string) v1.Container {
	return v1.Container{
		Name: name, Image: pod.Spec.Containers[0].Image, Command: []string{"sh", "-c", script},
		TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: v1.TerminationMessageReadFile,
	}
}

const forever = `trap "exit 0" TERM; while true; do sleep 0.1; done`

// until syncs until wanted returns true.
func until(t *testing.T, h *harness, pod *v1.Pod, wanted func(*observed.Pod) bool) *observed.Pod {
	t.Helper()
	var status *observed.Pod
	var result Result
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		result = h.sync(pod)
		if status = h.status(pod); wanted(status) {
			return status
		}
		require.True(t, time.Now().Before(end), "not within a minute: %+v; %+v", status.Containers, result)
	}
}

func running(names ...string) func(*observed.Pod) bool {
	return func(s *observed.Pod) bool {
		for _, name := range names {
			if c := s.Newest(name); c == nil || c.State != observed.StateRunning {
				return false
			}
		}
		return true
	}
}

func exited(name string, count int32) func(*observed.Pod) bool {
	return func(s *observed.Pod) bool {
		c := s.Newest(name)
		return c != nil && c.State == observed.StateExited && c.RestartCount >= count
	}
}

// logOf returns a container's log without times and streams.
func logOf(t *testing.T, c *observed.Container) string {
	t.Helper()
	content, err := os.ReadFile(c.LogPath)
	require.NoError(t, err)
	var out strings.Builder
	for line := range strings.Lines(string(content)) {
		if fields := strings.SplitN(line, " ", 4); len(fields) == 4 {
			out.WriteString(fields[3])
		}
	}
	return out.String()
}

// C35, C37: limits of a running container change in the kernel without a restart.
func TestContainerdResize(t *testing.T) {
	onContainerd(t, func(t *testing.T, h *harness, pod *v1.Pod) {
		h.cfg.Actuated = resize.NewMemory()
		h.restart()
		a := &pod.Spec.Containers[0]
		a.Resources.Limits = quantities("memory", "64Mi", "cpu", "500m")
		before := h.mustSync(pod)
		require.Equal(t, int64(64<<20), memoryLimit(t, h, before))
		for _, size := range []int64{128 << 20, 48 << 20} {
			a.Resources.Limits = quantities("memory", fmt.Sprint(size), "cpu", "250m")
			h.runtime.take()
			after := h.mustSync(pod)
			require.Empty(t, h.runtime.take())
			require.Equal(t, before.Newest("a").ID, after.Newest("a").ID)
			require.Equal(t, size, memoryLimit(t, h, after))
		}
		a.Resources.Limits = quantities("memory", "8192", "cpu", "250m")
		require.ErrorIs(t, h.sync(pod).Err(), resize.ErrMemoryInUse)
		require.Equal(t, int64(48<<20), memoryLimit(t, h, before))
	})
}

// memoryLimit returns the memory limit of container a in the kernel.
func memoryLimit(t *testing.T, h *harness, status *observed.Pod) int64 {
	t.Helper()
	const show = "cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null"
	out, _, _ := h.runtime.RuntimeService.ExecSync(t.Context(), status.Newest("a").ID.ID, []string{"sh", "-c", show}, patience)
	limit, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	require.NoError(t, err)
	return limit
}

// Runtimes accept an annotation of 1 MiB and an unknown capability, which runc ignores.
func TestContainerdOddInput(t *testing.T) {
	onContainerd(t, func(t *testing.T, h *harness, pod *v1.Pod) {
		pod.Annotations = map[string]string{"example.org/big": strings.Repeat("x", 1<<20)}
		pod.Spec.Containers[0].SecurityContext = &v1.SecurityContext{Capabilities: &v1.Capabilities{Add: []v1.Capability{"NO_SUCH"}}}
		require.True(t, running("a", "b")(h.mustSync(pod)))
		h.runtime.take()
		h.mustSync(pod)
		require.Empty(t, h.runtime.take())
	})
}

// An ephemeral container added to a running pod shares its target's processes, and runs once.
func TestContainerdEphemeral(t *testing.T) {
	onContainerd(t, func(t *testing.T, h *harness, pod *v1.Pod) {
		h.mustSync(pod)
		debug := shell(pod, "debug", "ps -o args; hostname")
		pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{
			EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: debug.Name, Image: debug.Image, Command: debug.Command},
			TargetContainerName:      "a",
		}}
		h.mustSync(pod)
		status := until(t, h, pod, exited("debug", 0))
		require.Contains(t, logOf(t, status.Newest("debug")), "trap", "the script of container a")
		h.runtime.take()
		h.mustSync(pod)
		require.Empty(t, h.runtime.take())
	})
}

// goodbye exits on SIGTERM with the text that a preStop handler wrote as its message.
const goodbye = `trap "cat /tmp/bye > /dev/termination-log; exit 0" TERM; echo none > /tmp/bye; while true; do sleep 0.1; done`

func inShell(handler string) v1.LifecycleHandler {
	return v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"sh", "-c", handler}}}
}

// stops returns the StopContainer calls.
func stops(calls []string) []string {
	var out []string
	for _, call := range calls {
		if rest, ok := strings.CutPrefix(call, "StopContainer "); ok {
			out = append(out, rest)
		}
	}
	return out
}

// A preStop handler runs in the container before SIGTERM, from the spec or, if that is not
// available, from the annotations.
func TestContainerdPreStop(t *testing.T) {
	for name, restore := range map[string]bool{"spec": false, "annotations": true} {
		t.Run(name, func(t *testing.T) {
			onContainerd(t, func(t *testing.T, h *harness, pod *v1.Pod) {
				withHooks(t, h)
				pod.Spec.Containers = pod.Spec.Containers[:1]
				pod.Spec.Containers[0].Command[2] = goodbye
				preStop(pod, "a", inShell(`echo "bye from $(hostname)" > /tmp/bye`))
				got := h.mustSync(pod)
				waitFor(t, h, pod, "a", "test -f /tmp/bye")
				h.restart()
				h.runtime.take()
				request := KillRequest{Pod: pod, Status: got, Restore: restore}
				if restore {
					request.Pod = nil
				}
				require.NoError(t, h.m.KillPod(t.Context(), request).Err())
				stopped := stops(h.runtime.take())
				require.Len(t, stopped, 1)
				require.Regexp(t, "^a (30|2[0-9])s$", stopped[0], "less what the handler took")
				require.Equal(t, "bye from "+pod.Name+"\n", h.status(pod).Newest("a").Message)
			})
		})
	}
}

// waitFor blocks until a command succeeds in a container.
func waitFor(t *testing.T, h *harness, pod *v1.Pod, name, command string) {
	t.Helper()
	id := h.status(pod).Newest(name).ID.ID
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		_, _, err := h.runtime.ExecSync(t.Context(), id, []string{"sh", "-c", command}, patience)
		assert.NoError(c, err, "%s: %s", name, command)
	}, patience, 50*time.Millisecond)
}

// hears blocks until the first process of each container handles or ignores SIGTERM. Without that
// the kernel discards the signal, and the process continues.
func hears(t *testing.T, h *harness, pod *v1.Pod, names ...string) {
	t.Helper()
	for _, name := range names { // bit 14 of the ignored or caught signals
		waitFor(t, h, pod, name, `grep -E "^Sig(Ign|Cgt):.*[4567cdef]...$" /proc/1/status`)
	}
}
