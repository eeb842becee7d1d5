package pods

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/pods/resize"
	"github.com/podwright/podwright/pleg/observed"
)

// shell makes a container run a script; it is one of pod a's image.
func shell(pod *v1.Pod, name, script string) v1.Container {
	return v1.Container{
		Name: name, Image: pod.Spec.Containers[0].Image, Command: []string{"sh", "-c", script},
		TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: v1.TerminationMessageReadFile,
	}
}

const forever = `trap "exit 0" TERM; while true; do sleep 0.1; done`

// until syncs until the pod is as wanted.
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

// logOf is a container's log without times and streams.
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

// C35, C37: limits of a running container change in the kernel, and nothing is
// restarted.
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
		result := h.sync(pod)
		require.ErrorIs(t, result.Err(), resize.ErrMemoryInUse)
		require.Equal(t, int64(48<<20), memoryLimit(t, h, before))
	})
}

// memoryLimit is what the kernel holds container a to.
func memoryLimit(t *testing.T, h *harness, status *observed.Pod) int64 {
	t.Helper()
	const show = "cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null"
	out, _, _ := h.runtime.RuntimeService.ExecSync(t.Context(), status.Newest("a").ID.ID, []string{"sh", "-c", show}, patience)
	limit, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	require.NoError(t, err)
	return limit
}

// What a spec may say and the runtimes bear: an annotation of 1 MiB, and a
// capability that no kernel has, which runc leaves out.
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
