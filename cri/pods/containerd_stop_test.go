package pods

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// goodbye ends with what a preStop handler has left behind as its message.
const goodbye = `trap "cat /tmp/bye > /dev/termination-log; exit 0" TERM; echo none > /tmp/bye; while true; do sleep 0.1; done`

func inShell(handler string) v1.LifecycleHandler {
	return v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"sh", "-c", handler}}}
}

// stops are the StopContainer calls among calls.
func stops(calls []string) []string {
	var out []string
	for _, call := range calls {
		if rest, ok := strings.CutPrefix(call, "StopContainer "); ok {
			out = append(out, rest)
		}
	}
	return out
}

// A preStop handler runs in the container before SIGTERM: by the spec, and where
// that is not at hand, by the annotations.
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
				result := h.m.KillPod(t.Context(), request)
				require.NoError(t, result.Err())
				stopped := stops(h.runtime.take())
				require.Len(t, stopped, 1)
				require.Regexp(t, "^a (30|2[0-9])s$", stopped[0], "less what the handler took")
				require.Equal(t, "bye from "+pod.Name+"\n", h.status(pod).Newest("a").Message)
			})
		})
	}
}

// waitFor waits until a command succeeds in a container.
func waitFor(t *testing.T, h *harness, pod *v1.Pod, name, command string) {
	t.Helper()
	id := h.status(pod).Newest(name).ID.ID
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		_, _, err := h.runtime.ExecSync(t.Context(), id, []string{"sh", "-c", command}, patience)
		assert.NoError(c, err, "%s: %s", name, command)
	}, patience, 50*time.Millisecond)
}

// hears waits until the processes of containers have a handler for SIGTERM, or ignore
// it: the first process of a container that has none yet does not hear of it, and runs
// on.
func hears(t *testing.T, h *harness, pod *v1.Pod, names ...string) {
	t.Helper()
	for _, name := range names { // bit 14 of what it ignores or catches
		waitFor(t, h, pod, name, `grep -E "^Sig(Ign|Cgt):.*[4567cdef]...$" /proc/1/status`)
	}
}
