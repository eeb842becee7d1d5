package pods

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/pods/hooks"
	"github.com/podwright/podwright/pleg"
)

// goodbye ends with what a preStop handler has left behind as its message.
const goodbye = `trap "cat /tmp/bye > /dev/termination-log; exit 0" TERM; echo none > /tmp/bye; while true; do sleep 0.1; done`

// withHooks gives the Manager a runner of lifecycle handlers, as an agent does.
func withHooks(t *testing.T, h *harness) {
	t.Helper()
	runner, err := hooks.New(hooks.Config{
		Exec:   h.runtime.RuntimeService,
		PodIPs: func(ctx context.Context, pod *v1.Pod) ([]string, error) { return h.seen.PodIPs(ctx, pod) },
	})
	require.NoError(t, err)
	h.cfg.Hooks = runner
	h.restart()
}

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
// that is not at hand, by the annotations; but not for an orphan.
func TestContainerdPreStop(t *testing.T) {
	for name, tc := range map[string]struct {
		orphan, restore bool
		want            string
		grace           string
	}{
		"spec":        {false, false, "bye from %s\n", "(30|2[0-9])s"}, // less what the handler took
		"annotations": {true, true, "bye from %s\n", "(30|2[0-9])s"},
		"orphan":      {true, false, "none\n", "2s"},
	} {
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
				request := KillRequest{Pod: pod, Status: got, Restore: tc.restore}
				if tc.orphan {
					request.Pod = nil
				}
				result := h.m.KillPod(t.Context(), request)
				require.NoError(t, result.Err())
				stopped := stops(h.runtime.take())
				require.Len(t, stopped, 1)
				require.Regexp(t, "^a "+tc.grace+"$", stopped[0])
				require.Equal(t, strings.ReplaceAll(tc.want, "%s", pod.Name), h.status(pod).Newest("a").Message)
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

// answer writes a program for one HTTP request, which it keeps in /tmp/bye.
const answer = `cat > /tmp/answer <<'END'
while read -r line; do
  printf '%s\n' "$line" >> /tmp/bye
  [ ${#line} -gt 1 ] || break
done
printf 'HTTP/1.1 503 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n'
END
`

// An httpGet handler reaches the pod by its address.
func TestContainerdPreStopHTTP(t *testing.T) {
	onContainerd(t, func(t *testing.T, h *harness, pod *v1.Pod) {
		withHooks(t, h)
		pod.Spec.Containers = pod.Spec.Containers[:1]
		pod.Spec.Containers[0].Command[2] = answer + "nc -l -p 8080 -e sh /tmp/answer & " +
			strings.Replace(goodbye, "echo none > /tmp/bye;", "", 1)
		pod.Spec.Containers[0].Ports = []v1.ContainerPort{{Name: "admin", ContainerPort: 8080}}
		action := v1.HTTPGetAction{Path: "/bye"}
		action.Port.Type, action.Port.StrVal = 1, "admin"
		preStop(pod, "a", v1.LifecycleHandler{HTTPGet: &action})
		h.mustSync(pod)
		waitFor(t, h, pod, "a", "netstat -ltn | grep -q :8080")
		h.takeEvents()
		h.kill(pod, nil)
		require.Equal(t, []string{"Killing spec.containers{a}"}, h.takeEvents(), "any status is a success")
		message := h.status(pod).Newest("a").Message
		require.Contains(t, message, "GET /bye HTTP/1.1\r\n")
		require.Contains(t, message, "User-Agent: kube-lifecycle/1.36\r\n")
	})
}

// C30: a handler that takes longer than the grace period is ended with it, and
// SIGTERM gets 2 s still; a grace period that is shortened meanwhile counts.
func TestContainerdPreStopTooLong(t *testing.T) {
	onContainerd(t, func(t *testing.T, h *harness, pod *v1.Pod) {
		withHooks(t, h)
		preStop(pod, "a", inShell("sleep 600"))
		h.mustSync(pod)
		hears(t, h, pod, "a", "b")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		result := h.m.KillPod(ctx, KillRequest{Pod: pod, Status: h.status(pod), GraceSeconds: ptr(int64(300))})
		require.ErrorIs(t, result.Err(), context.DeadlineExceeded)
		require.Len(t, instances(h.status(pod), "a", pleg.StateRunning), 1, "a runs on")
		h.takeEvents()
		h.runtime.take()
		begin := time.Now()
		h.kill(pod, ptr(int64(3)))
		require.Less(t, time.Since(begin), 60*time.Second)
		require.Contains(t, stops(h.runtime.take()), "a 2s")
		require.Contains(t, h.takeEvents(), "FailedPreStopHook spec.containers{a}")
		require.Zero(t, h.status(pod).Newest("a").ExitCode, "SIGTERM was handled")
	})
}

// C33: sidecars end after the regular containers, the last one first.
func TestContainerdSidecarsEndLast(t *testing.T) {
	onContainerd(t, func(t *testing.T, h *harness, pod *v1.Pod) {
		withHooks(t, h)
		withInit(pod, "s1", "s2")
		for i := range pod.Spec.InitContainers {
			c := &pod.Spec.InitContainers[i]
			c.Image, c.Command = pod.Spec.Containers[0].Image, pod.Spec.Containers[1].Command
		}
		pod.Spec.Containers[0].Command = []string{"sh", "-c", `trap "sleep 1; exit 0" TERM; while true; do sleep 0.1; done`}
		preStop(pod, "s1", inShell("touch /tmp/at-once"))
		require.Eventually(t, func() bool {
			h.sync(pod)
			return len(h.status(pod).Running()) == 4
		}, time.Minute, 50*time.Millisecond)
		hears(t, h, pod, "a", "b", "s1", "s2")
		h.runtime.take()
		h.kill(pod, nil)
		order := stops(h.runtime.take())
		require.Len(t, order, 4)
		require.True(t, strings.HasPrefix(order[2], "s2 ") && strings.HasPrefix(order[3], "s1 "), "%v", order)
		got := h.status(pod)
		a, s1, s2 := got.Newest("a"), got.Newest("s1"), got.Newest("s2")
		require.True(t, s2.FinishedAt.After(a.FinishedAt), "%v %v", a.FinishedAt, s2.FinishedAt)
		require.True(t, s1.FinishedAt.After(s2.FinishedAt), "%v %v", s2.FinishedAt, s1.FinishedAt)
		require.Zero(t, s1.ExitCode)
	})
}

// A container that ignores SIGTERM is killed when its time is over, and holds its
// sidecar up no longer than that.
func TestContainerdIgnoresSIGTERM(t *testing.T) {
	onContainerd(t, func(t *testing.T, h *harness, pod *v1.Pod) {
		withInit(pod, "s1")
		sidecar := &pod.Spec.InitContainers[0]
		sidecar.Image, sidecar.Command = pod.Spec.Containers[0].Image, pod.Spec.Containers[1].Command
		pod.Spec.Containers[0].Command = []string{"sh", "-c", `trap "" TERM; while true; do sleep 0.1; done`}
		require.Eventually(t, func() bool {
			h.sync(pod)
			return len(h.status(pod).Running()) == 3
		}, patience, 50*time.Millisecond)
		hears(t, h, pod, "a", "b", "s1")
		h.runtime.take()
		h.kill(pod, ptr(int64(3)))
		order := stops(h.runtime.take())
		require.Len(t, order, 3)
		require.Regexp(t, "^[ab] [23]s$", order[0])
		require.Regexp(t, "^[ab] [23]s$", order[1])
		require.Equal(t, "s1 2s", order[2])
		got := h.status(pod)
		require.True(t, got.Stopped())
		require.EqualValues(t, 137, got.Newest("a").ExitCode)
		require.Zero(t, got.Newest("s1").ExitCode, "it had its 2 s")
	})
}
