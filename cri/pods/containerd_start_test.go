package pods

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/pods/resize"
	"github.com/podwright/podwright/pleg"
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
func until(t *testing.T, h *harness, pod *v1.Pod, wanted func(*pleg.PodStatus) bool) *pleg.PodStatus {
	t.Helper()
	var status *pleg.PodStatus
	var result Result
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		result = h.sync(pod)
		if status = h.status(pod); wanted(status) {
			return status
		}
		require.True(t, time.Now().Before(end), "not within a minute: %+v; %+v", status.Containers, result)
	}
}

func running(names ...string) func(*pleg.PodStatus) bool {
	return func(s *pleg.PodStatus) bool {
		for _, name := range names {
			if c := s.Newest(name); c == nil || c.State != pleg.StateRunning {
				return false
			}
		}
		return true
	}
}

func exited(name string, count int32) func(*pleg.PodStatus) bool {
	return func(s *pleg.PodStatus) bool {
		c := s.Newest(name)
		return c != nil && c.State == pleg.StateExited && c.RestartCount >= count
	}
}

// logOf is a container's log without times and streams.
func logOf(t *testing.T, c *pleg.ContainerStatus) string {
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

// A container that takes more memory than its limit ends as OOMKilled.
func TestContainerdOutOfMemory(t *testing.T) {
	onContainerd(t, func(t *testing.T, h *harness, pod *v1.Pod) {
		pod.Spec.RestartPolicy = v1.RestartPolicyNever
		pod.Spec.Containers[0].Resources.Limits = quantities("memory", "32Mi")
		pod.Spec.Containers[0].Command[2] = "tail /dev/zero"
		status := until(t, h, pod, func(s *pleg.PodStatus) bool {
			// The runtime hears of the exit and of its reason one after the other, and b may
			// be started after both. What has ended is not started again.
			return exited("a", 0)(s) && s.Newest("a").Reason == "OOMKilled" && running("b")(s)
		})
		require.EqualValues(t, 137, status.Newest("a").ExitCode)
		require.EqualValues(t, 0, status.Newest("b").RestartCount, "the other one is left alone")
	})
}

// What the kernel enforces: a root filesystem that is read only, capabilities,
// system calls, new privileges.
func TestContainerdSecurity(t *testing.T) {
	onContainerd(t, func(t *testing.T, h *harness, pod *v1.Pod) {
		const look = `grep -E "CapEff|Seccomp:|NoNewPrivs" /proc/self/status; touch /x 2>/dev/null && echo writable; ` + forever
		pod.Spec.Containers = []v1.Container{shell(pod, "strict", look), shell(pod, "loose", look)}
		pod.Spec.Containers[0].SecurityContext = &v1.SecurityContext{
			ReadOnlyRootFilesystem:   ptr(true),
			AllowPrivilegeEscalation: ptr(false),
			Capabilities:             &v1.Capabilities{Drop: []v1.Capability{"ALL"}, Add: []v1.Capability{"NET_BIND_SERVICE"}},
			SeccompProfile:           &v1.SeccompProfile{Type: v1.SeccompProfileTypeRuntimeDefault},
		}
		pod.Spec.Containers[1].SecurityContext = &v1.SecurityContext{Capabilities: &v1.Capabilities{Add: []v1.Capability{"SYS_TIME"}}}
		status := h.mustSync(pod)
		for name, want := range map[string][]string{
			"strict": {"CapEff:\t0000000000000400", "Seccomp:\t2", "NoNewPrivs:\t1"},
			"loose":  {"Seccomp:\t0", "NoNewPrivs:\t0", "writable"},
		} {
			require.Eventually(t, func() bool {
				log := logOf(t, status.Newest(name))
				for _, text := range want {
					if !strings.Contains(log, text) {
						return false
					}
				}
				return true
			}, patience, 20*time.Millisecond, "%s: %v", name, want)
		}
		require.NotContains(t, logOf(t, status.Newest("strict")), "writable")
		_, caps, _ := strings.Cut(logOf(t, status.Newest("loose")), "CapEff:\t")
		bits, err := strconv.ParseUint(strings.Fields(caps)[0], 16, 64)
		require.NoError(t, err)
		require.NotZero(t, bits&(1<<25), "SYS_TIME")
	})
}

// A hostPort leads to the container, from the node itself.
func TestContainerdHostPort(t *testing.T) {
	onContainerd(t, func(t *testing.T, h *harness, pod *v1.Pod) {
		listener, err := net.Listen("tcp4", ":0")
		require.NoError(t, err)
		port := listener.Addr().(*net.TCPAddr).Port
		require.NoError(t, listener.Close())
		a := &pod.Spec.Containers[0]
		a.Ports = []v1.ContainerPort{{ContainerPort: 8080, HostPort: int32(port), Protocol: v1.ProtocolTCP}}
		a.Image, a.Command = os.Getenv("PODWRIGHT_IMAGE_TESTPROG"), []string{"/testprog", "http", ":8080"}
		h.mustSync(pod)
		client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
		get := func(address string) string {
			response, err := client.Get(fmt.Sprintf("http://%s/healthz", address))
			if err != nil {
				return err.Error()
			}
			defer response.Body.Close()
			body, _ := io.ReadAll(response.Body)
			return string(body)
		}
		direct := net.JoinHostPort(h.status(pod).IPs[0], "8080")
		require.Eventually(t, func() bool { return get(direct) == "ok\n" }, patience, 50*time.Millisecond)
		through := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		require.Equal(t, "ok\n", get(through))
		h.kill(pod, ptr(int64(2)))
		require.NotEqual(t, "ok\n", get(through), "it is closed with the sandbox")
	})
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
func memoryLimit(t *testing.T, h *harness, status *pleg.PodStatus) int64 {
	t.Helper()
	const show = "cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null"
	out, _, _ := h.runtime.RuntimeService.ExecSync(t.Context(), status.Newest("a").ID.ID, []string{"sh", "-c", show}, patience)
	limit, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	require.NoError(t, err)
	return limit
}

// KEP-4639, where the runtime has image volumes.
func TestContainerdImageVolume(t *testing.T) {
	onContainerd(t, func(t *testing.T, h *harness, pod *v1.Pod) {
		pod.Spec.Volumes = []v1.Volume{{Name: "image", VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: pod.Spec.Containers[0].Image}}}}
		a := &pod.Spec.Containers[0]
		a.VolumeMounts = []v1.VolumeMount{{Name: "image", MountPath: "/image", ReadOnly: true}}
		a.Command[2] = "ls /image/bin/busybox; " + forever
		result := h.sync(pod)
		if strings.Contains(t.Name(), "V1") {
			require.Error(t, result.Err(), "containerd 1.6 has none")
			require.Equal(t, ReasonCreateContainerError, h.m.StartFailures(pod.UID)["a"].Reason)
			require.True(t, running("b")(h.status(pod)))
			return
		}
		require.NoError(t, result.Err())
		require.Eventually(t, func() bool { return logOf(t, h.status(pod).Newest("a")) == "/image/bin/busybox\n" }, patience, 20*time.Millisecond)
	})
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
