package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// overAllocate allocates more memory than the limit of overLimitPods' containers.
const overAllocate = "dd if=/dev/zero of=/dev/null bs=64M count=1"

// overLimitPods returns pods in which the kernel kills a process for exceeding its container's
// limit, by name, and regular expressions for the status that a kubelet shows.
func overLimitPods(s *scene) (pods map[string]*v1.Pod, want map[string]string) {
	pods, want = map[string]*v1.Pod{}, map[string]string{}
	add := func(name, script, shown string) {
		pod := newPod(name, shell("main", s.images.Busybox, script))
		pod.Namespace = "default"
		pod.Spec.RestartPolicy = v1.RestartPolicyNever
		pod.Spec.Containers[0].Resources = cpuAndMemory("", "", "16Mi")
		pods[name], want[name] = pod, shown
	}
	// The runtime receives the kill and the exit at the same time, and may have lost the kill when
	// it reports the exit: 3 of 12 pods started at once on containerd 1.6.
	add("first", "exec "+overAllocate, "Failed: main terminated, (OOMKilled|Error) 137")
	// containerd 1.6 looks for kills only after it has started a program, and reports them in its own time.
	const child = "sleep 2; " + overAllocate + "; sleep 5; exit "
	add("child", child+"3", "Failed: main terminated, OOMKilled 3")
	add("child-of-a-success", child+"0", "Succeeded: main terminated, OOMKilled 0")
	add("child-long-ago", overAllocate+"; touch /tmp/survived; sleep 600", "Running: main running")
	add("modest", "exit 3", "Failed: main terminated, Error 3")
	return pods, want
}

func formatStatus(pod *v1.Pod) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:", pod.Status.Phase)
	for _, c := range pod.Status.ContainerStatuses {
		switch {
		case c.State.Terminated != nil:
			fmt.Fprintf(&b, " %s terminated, %s %d", c.Name, c.State.Terminated.Reason, c.State.Terminated.ExitCode)
		case c.State.Running != nil:
			fmt.Fprintf(&b, " %s running", c.Name)
		default:
			fmt.Fprintf(&b, " %s waiting", c.Name)
		}
	}
	return b.String()
}

// waitOverLimit places the pods and waits until a kubelet shows the expected statuses.
func waitOverLimit(t *testing.T, s *scene, list func() ([]v1.Pod, error)) {
	t.Helper()
	pods, want := overLimitPods(s)
	for name, pod := range pods {
		s.writeManifest(t, name+".yaml", pod)
	}
	wait(t, time.Minute, "the kubelet reports the expected statuses", func() error {
		all, err := list()
		got := map[string]string{}
		for i := range all {
			got[strings.TrimSuffix(all[i].Name, "-"+s.node)] = formatStatus(&all[i])
		}
		for name := range want {
			if err == nil && !regexp.MustCompile("^"+want[name]+"$").MatchString(got[name]) {
				err = fmt.Errorf("%s: %q, want %q", name, got[name], want[name])
			}
		}
		if err != nil {
			return err
		}
		return matchesRuntime(s, got)
	})
}

// matchesRuntime returns an error if a kubelet shows other reasons than the runtime.
func matchesRuntime(s *scene, got map[string]string) error {
	w, err := s.runtimeState()
	for name := range got {
		for _, c := range w.of(name).containers {
			is, failed := s.cri.ContainerStatus(context.Background(), c.Id, false)
			if failed != nil {
				return failed
			}
			exited := c.State == runtimeapi.ContainerState_CONTAINER_EXITED // the runtime reports reasons of running containers, too
			if reason := is.GetStatus().GetReason(); err == nil && exited && !strings.Contains(got[name], reason) {
				err = fmt.Errorf("%s: %q, the runtime reports %q", name, got[name], reason)
			}
		}
	}
	return err
}

// A container in which the kernel killed a process for its memory is OOMKilled with any exit code,
// also if the process was a child. A container that still runs is shown as running.
func TestOOMKilled(t *testing.T) {
	onRuntimes(t, "", func(t *testing.T, s *scene) {
		waitOverLimit(t, s, s.pods)
		require.Empty(t, s.logLines(t, "SystemOOM"), "no OOM event of the node")
	})
}

// The upstream kubelet shows the same statuses.
func TestOOMKilledUpstream(t *testing.T) {
	withUpstream(t, func(t *testing.T, s *scene, u *upstream) {
		u.start(t)
		waitOverLimit(t, s, func() ([]v1.Pod, error) {
			response, err := unverified().Get(fmt.Sprintf("https://127.0.0.1:%d/pods", u.port))
			if err != nil {
				return nil, err
			}
			defer response.Body.Close()
			var list v1.PodList
			err = json.NewDecoder(response.Body).Decode(&list)
			return list.Items, err
		})
		u.stop(t, syscall.SIGTERM)
	})
}
