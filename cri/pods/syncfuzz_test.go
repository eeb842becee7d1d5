package pods

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/pleg/observed"
)

// FuzzSync plays a story of syncs, deaths of the agent, reboots, exits, edits and
// lost containers on a pod with containers of every kind, each byte an event. At no
// time does a container run twice; in the end the pod is complete.
func FuzzSync(f *testing.F) {
	for _, story := range []string{"", "\x00\x00\x00\x00", "\x01\x09\x11\x19\x21", "\x00\x00\x00\x02\x00\x00\x03\x0b\x13\x06\x00", "\x00\x00\x00\x07\x0f\x00\x04\x05\x0d\x29\x31\x02\x39"} {
		f.Add([]byte(story))
	}
	// A death at any call while the pod is brought up, when a container is replaced and after a reboot.
	up := make([]byte, 6)
	for n := range byte(6) {
		f.Add(slices.Concat(up, []byte{4, 1 + 8*n}))
		for syncs := range 6 {
			death := append(make([]byte, syncs), 1+8*n)
			f.Add(death)
			f.Add(slices.Concat(up, []byte{2}, death))
		}
	}
	f.Fuzz(func(t *testing.T, story []byte) {
		if len(story) > 24 {
			return
		}
		synctest.Test(t, func(t *testing.T) { play(t, story) })
	})
}

func play(t *testing.T, story []byte) {
	h := newHarness(t, initEnds())
	h.cfg.MaxCrashLoopDelay = s
	h.restart()
	pod := withEphemeral(initPod(testPod("a", "b"), "i0", "s1", "i2"), "debug", "")
	for _, b := range story {
		h.event(pod, b%8, int(b/8))
		synctest.Wait()
		requireNoneTwice(t, h.status(pod))
	}
	requireUp(t, settle(t, h, pod), slices.ContainsFunc(story, func(b byte) bool { return b%8 == 7 }))
}

// event is one thing that happens. n says to whom, or when.
func (h *harness) event(pod *v1.Pod, kind byte, n int) {
	runtime, ctx, status := h.runtime.RuntimeService, h.t.Context(), h.status(pod)
	switch kind {
	case 1:
		h.dieAfter(n%6 + 1)
		h.sync(pod)
		h.reborn()
	case 2:
		if len(status.Sandboxes) > 0 {
			require.NoError(h.t, runtime.StopPodSandbox(ctx, status.Sandboxes[0].ID))
		}
	case 3:
		if up := status.Running(); len(up) > 0 {
			require.NoError(h.t, runtime.StopContainer(ctx, up[n%len(up)].ID.ID, 0))
		}
	case 4:
		pod.Spec.Containers[n%2].Image += "x"
	case 5:
		pod.Spec.InitContainers[1].Image += "x"
	case 6:
		time.Sleep(time.Duration(n) * s)
	case 7:
		for _, name := range []string{"i0", "i2", "a"}[n%3:] {
			if c := status.Newest(name); c != nil && c.State == observed.StateExited {
				require.NoError(h.t, runtime.RemoveContainer(ctx, c.ID.ID))
				return
			}
		}
	default:
		h.sync(pod)
	}
}

func requireNoneTwice(t *testing.T, status *observed.Pod) {
	t.Helper()
	seen := map[string]bool{}
	for _, c := range status.Running() {
		require.False(t, seen[c.Name], "%s runs twice", c.Name)
		seen[c.Name] = true
	}
	require.LessOrEqual(t, readySandboxes(status), 1)
}
